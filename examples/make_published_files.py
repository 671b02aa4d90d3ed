"""Make the small files of `census_2020.py` and `wikimedia.py`, in the published formats.

All people and page views are made up. The files have the columns of the real ones, so the two
examples also work with a real file:

- Census 2020 noisy measurements: one row per query of a place, with `query_name`, a column for the
  role of each variable, `query_shape`, the noisy counts in `value`, in row-major order, and the
  `variance` of the discrete Gaussian noise. The real files are Parquet; this one has one JSON
  object per line, with the same columns.
- Wikimedia page views: one CSV file per day, with a row for each page whose noisy count (`gbc`) is
  above the release threshold. The other pages are not in the file.
"""

import csv
import json
import math
from pathlib import Path

import numpy as np

from noiseaware.mechanisms.additive import discrete_gaussian, discrete_laplace

HERE = Path(__file__).parent
# Voting age (no, yes) by Hispanic (no, yes): 240 people in a small place.
PEOPLE = np.array([[41, 19], [132, 48]])
PAGES = ("Coffee", "Lighthouse", "Sourdough", "Tidal power", "Moss", "Sundial")
VIEWS = {
    "2023-2-6": np.array([520, 260, 150, 120, 85, 65]),
    "2022-3-1": np.array([1250, 800, 520, 230, 130, 70]),
}


def census(rng: np.random.Generator) -> None:
    tables = {
        "total_dpq": (PEOPLE.sum(keepdims=True).reshape(1), 30.0),
        "hispanic_dpq": (PEOPLE.sum(axis=0), 60.0),
        "votingage * hispanic_dpq": (PEOPLE, 90.0),
    }
    with (HERE / "census_2020_nmf.jsonl").open("w", encoding="utf-8") as file:
        for name, (counts, variance) in tables.items():
            noise = discrete_gaussian(math.sqrt(variance), counts.size, rng).astype(int)
            row = {
                "geocode": "1360000000",
                "query_name": name,
                "hhgq": "*",
                "votingage": "votingage" if counts.ndim == 2 else "*",
                "hispanic": "hispanic" if counts.size > 1 else "*",
                "cenrace": "*",
                "query_shape": [1, 2 if counts.ndim == 2 else 1, min(counts.size, 2), 1],
                "value": (counts.ravel() + noise).tolist(),
                "variance": variance,
            }
            file.write(json.dumps(row) + "\n")


def wikimedia(rng: np.random.Generator) -> None:
    for day, noise, threshold in (
        ("2023-2-6", discrete_gaussian(math.sqrt(10 / 0.03), 6, rng), 90),
        ("2022-3-1", discrete_laplace(30.0, 6, rng), 450),
    ):
        path = HERE / f"wikimedia_{day}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["country", "project", "page_id", "page_title", "gbc"])
            for k, count in enumerate((VIEWS[day] + noise).astype(int).tolist()):
                if count > threshold:
                    rows.writerow(["Iceland", "en.wikipedia", 1000 + k, PAGES[k], count])


def main() -> None:
    rng = np.random.default_rng(94171)
    census(rng)
    wikimedia(rng)


if __name__ == "__main__":
    main()
