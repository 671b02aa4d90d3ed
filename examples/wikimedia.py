"""From Wikimedia's private page views to the shares of pages, the withheld ones among them.

Wikimedia publishes, for each day, how often each page was viewed from each country: the count plus
noise, and only if that is above a threshold. A page that is missing from the file was not viewed
zero times: it was viewed so often that the noisy count stayed below the threshold. That is
information, and the posterior uses it.

The noise and the threshold of a file depend on its day (`PERIODS`, from the README files beside the
data at https://analytics.wikimedia.org/published/datasets/). Which pages could have been in the
file is public as well: those with more than 150 views in the whole world on that day.

The number of views of these pages from the country is taken as known here. The two files are made
up (`make_published_files.py`).

Two cautions. The README of the current files gives both a noise scale (10) and rho = 0.015. With
ten views a person, Gaussian noise of that rho would have sigma = sqrt(10 / (2 * 0.015)) = 18.3. The
example takes the published scale as sigma; before real use, ask which of the two holds. And the
guarantee that is printed is for one page view, not for the ten views of a person.
"""

import csv
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

import noiseaware as na

HERE = Path(__file__).parent
PAGES = ("Coffee", "Lighthouse", "Sourdough", "Tidal power", "Moss", "Sundial")
N_VIEWS = {"2023-2-6": 1200, "2022-3-1": 3000}


class Period(NamedTuple):
    """The noise of the files of some days; a count is released if it is above the threshold."""

    first: date
    last: date
    noise: type
    scale: float
    threshold: float


# Counts are integers, so the noise is the discrete form of the law that the README names.
LAPLACE, GAUSSIAN = na.mechanisms.DiscreteLaplace, na.mechanisms.DiscreteGaussian
PERIODS = (
    Period(date(2015, 7, 1), date(2017, 2, 8), LAPLACE, 300.0, 3500.0),
    Period(date(2017, 2, 9), date(2023, 2, 5), LAPLACE, 30.0, 450.0),
    Period(date(2023, 2, 6), date.max, GAUSSIAN, 10.0, 90.0),
)


def period_of(day: str) -> Period:
    when = date(*map(int, day.split("-")))
    for period in PERIODS:
        if period.first <= when <= period.last:
            return period
    raise ValueError(f"day must be 2015-7-1 or later; got {day}")


def read(day: str) -> na.Release:
    """Return the release of one day: NaN for a page that is not in its file."""
    with (HERE / f"wikimedia_{day}.csv").open(newline="", encoding="utf-8") as file:
        counts = {row["page_title"]: float(row["gbc"]) for row in csv.DictReader(file)}
    period = period_of(day)
    query = na.queries.Histogram(n_levels=len(PAGES))
    noise = period.noise(query, scale=period.scale, neighbours="add-remove")
    mechanism = na.mechanisms.Thresholded(noise, threshold=period.threshold)
    values = [counts.get(page, np.nan) for page in PAGES]
    return na.Release(values, mechanism, N_VIEWS[day])


def main(days: tuple[str, ...] = ("2023-2-6", "2022-3-1"), draws: int = 2000) -> None:
    for day in days:
        release = read(day)
        posterior = na.sample(
            na.models.Categorical(len(PAGES)),
            release,
            draws=draws,
            warmup=1000,
            chains=4,
            random_seed=1,
            progressbar=False,
        )
        shares = posterior["posterior"]["probabilities"].values.reshape(-1, len(PAGES))
        views = release.n_records * shares
        print(f"{day}: {release.n_records} views, {release.mechanism.guarantee}")
        print(f"{'':14}{'published':>10}{'views':>8}   90% interval")
        for k, page in enumerate(PAGES):
            low, middle, high = np.quantile(views[:, k], [0.05, 0.5, 0.95])
            value = release.values[k]
            published = "withheld" if np.isnan(value) else f"{value:.0f}"
            print(f"{page:14}{published:>10}{middle:>8.0f}   {low:.0f} to {high:.0f}")
        print(str(na.check(posterior)) + "\n")


if __name__ == "__main__":
    main()
