"""From Census 2020 noisy measurements to the shares of a place's population.

The Census Bureau publishes the noisy counts from which the 2020 tables were made (the "noisy
measurement files"): discrete Gaussian noise of a published variance on each cell of each query,
without any later adjustment, so counts may be negative and do not add up. The noise protects
against one changed record ("bounded neighbours").

The example reads two queries about the same people, voting age by Hispanic and Hispanic alone,
joins them in one release, and draws from the posterior of the four shares. The number of people is
taken as known, as it is for a state, whose total is published without noise.

The file next to this script is made up (`make_published_files.py`). For a real one, read the
Parquet file with `pandas.read_parquet`, choose one `geocode`, and go on with the same columns.

Reference: Abowd, J. et al. (2022). The 2020 Census Disclosure Avoidance System TopDown Algorithm.
Harvard Data Science Review, special issue 2.
"""

import json
import math
from pathlib import Path

import numpy as np

import noiseaware as na

HERE = Path(__file__).parent
N_PEOPLE = 240
GROUPS = ("minor, not Hispanic", "minor, Hispanic", "adult, not Hispanic", "adult, Hispanic")


def read(path: Path) -> dict[str, dict]:
    """Return the rows of the file by the names of their queries, with their shapes checked."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if len(row["value"]) != math.prod(row["query_shape"]):
            raise ValueError(
                f"{row['query_name']}: {len(row['value'])} values for shape {row['query_shape']}"
            )
    return {row["query_name"]: row for row in rows}


def hispanic(records: np.ndarray) -> np.ndarray:
    """Return a column for each of not Hispanic, Hispanic; a person's group is 2 age + Hispanic."""
    return np.eye(2)[records % 2]


# A query of one's own: it knows its sensitivities, for one changed person.
QUERIES = {
    "votingage * hispanic_dpq": na.queries.Histogram(n_levels=4),
    "hispanic_dpq": na.Query(
        hispanic, ["not Hispanic", "Hispanic"], {1: 2.0, 2: math.sqrt(2.0)}, integer_valued=True
    ),
}


def release_of(rows: dict[str, dict], names: list[str]) -> na.Release:
    """Return the named queries as one release about the same people."""
    # `variance` is the sigma^2 of P(e) proportional to exp(-e^2 / (2 sigma^2)).
    parts = [
        na.mechanisms.DiscreteGaussian(QUERIES[name], scale=math.sqrt(rows[name]["variance"]))
        for name in names
    ]
    values = np.concatenate([rows[name]["value"] for name in names])
    mechanism = parts[0] if len(parts) == 1 else na.mechanisms.Several(parts, labels=names)
    return na.Release(values, mechanism, N_PEOPLE)


def main(draws: int = 1000) -> None:
    release = release_of(read(HERE / "census_2020_nmf.jsonl"), list(QUERIES))
    print(f"The release: {release.n_records} people, {release.mechanism.guarantee}.\n")
    posterior = na.sample(
        na.models.Categorical(4, concentration=1.0),
        release,
        draws=draws,
        warmup=500,
        chains=4,
        random_seed=1,
        progressbar=False,
    )
    shares = posterior["posterior"]["probabilities"].values.reshape(-1, 4)
    print(f"{'':22}{'published':>10}{'share':>10}   90% interval")
    for k, group in enumerate(GROUPS):
        low, middle, high = np.quantile(shares[:, k], [0.05, 0.5, 0.95])
        published = f"{release.values[k]:.0f}"
        print(f"{group:22}{published:>10}{middle:>10.1%}   {low:.1%} to {high:.1%}")
    print("\n" + str(na.check(posterior)))


if __name__ == "__main__":
    main()
