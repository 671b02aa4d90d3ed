"""From Census 2020 noisy measurements to the shares of a place's population.

The Census Bureau publishes the noisy counts behind the 2020 tables (the "noisy measurement files"):
each cell of each query with discrete Gaussian noise of a published variance. They are not adjusted,
so counts may be negative and need not add up. The noise protects against one changed record
("bounded neighbours").

The example reads two queries about the same people, voting age by Hispanic and Hispanic alone,
combines them in one release, and samples the posterior of the four shares. The number of people is
taken as known, as for a state, whose total is published without noise.

The file next to this script is made up (`make_published_files.py`). For a real one,
`na.interop.census.read` takes the Parquet file and the `geocode` of a place.

Reference: Abowd, J. et al. (2022). The 2020 Census Disclosure Avoidance System TopDown Algorithm.
Harvard Data Science Review, special issue 2.
"""

from pathlib import Path

import numpy as np

import noiseaware as na

HERE = Path(__file__).parent
N_PEOPLE = 240
GROUPS = ("minor, not Hispanic", "minor, Hispanic", "adult, not Hispanic", "adult, Hispanic")


def read() -> na.Release:
    """Return both queries as one release about the same people."""
    names = ["votingage * hispanic_dpq", "hispanic_dpq"]
    rows = na.interop.census.read(HERE / "census_2020_nmf.jsonl", queries=names)
    return na.interop.census.release(rows, n_records=N_PEOPLE)


def main(draws: int = 1000) -> None:
    release = read()
    print(f"The release: {release.n_records} people, {release.mechanism.guarantee}.\n")
    posterior = na.sample(
        na.models.ContingencyTable([2, 2], variables=["votingage", "hispanic"]),
        release,
        draws=draws,
        warmup=500,
        chains=4,
        random_seed=1,
        progressbar=False,
    )
    shares = posterior["posterior"]["cell_probabilities"].values.reshape(-1, 4)
    print(f"{'':22}{'published':>10}{'share':>10}   90% interval")
    for k, group in enumerate(GROUPS):
        low, middle, high = np.quantile(shares[:, k], [0.05, 0.5, 0.95])
        published = f"{release.values[k]:.0f}"
        print(f"{group:22}{published:>10}{middle:>10.1%}   {low:.1%} to {high:.1%}")
    print("\n" + str(na.check(posterior)))


if __name__ == "__main__":
    main()
