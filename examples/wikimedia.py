"""From Wikimedia's private page views to the shares of pages, including withheld ones.

For each day, Wikimedia publishes how often each page was viewed from each country: the count plus
noise, if that is above a threshold. A missing page does not mean zero views, only that its noisy
count stayed below the threshold. The posterior uses this information.

The noise and the threshold depend on the day (`na.interop.wikimedia.noise_of`). The set of pages
that could have been in the file is public as well: those with more than 150 views worldwide on that
day.

The number of views of these pages from the country is taken as known here. The two files are made
up (`make_published_files.py`). The guarantee printed is for one page view, not for a person's ten
views. If the number of views is not known, `na.interop.wikimedia.release` gives a release in which
every page is a record, for `na.models.CountRegression`.
"""

from pathlib import Path

import numpy as np

import noiseaware as na

HERE = Path(__file__).parent
PAGES = ("Coffee", "Lighthouse", "Sourdough", "Tidal power", "Moss", "Sundial")
N_VIEWS = {"2023-2-6": 1200, "2022-3-1": 3000}


def read(day: str) -> na.Release:
    """Return the release of one day: NaN for a page that is not in its file."""
    path = HERE / f"wikimedia_{day}.csv"
    pages = na.interop.wikimedia.release(path, "Iceland", PAGES)
    noise = na.interop.wikimedia.noise_of(day)
    law = (
        na.mechanisms.DiscreteLaplace if noise.discrete_laplace else na.mechanisms.DiscreteGaussian
    )
    query = na.queries.Histogram(n_levels=len(PAGES), labels=PAGES)
    made = law(query, scale=noise.scale, neighbours="add-remove")
    mechanism = na.mechanisms.Thresholded(made, threshold=noise.threshold)
    return na.Release(pages.values, mechanism, N_VIEWS[day])


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
