"""A county, from its noisy measurements to posteriors of every block, tract and subtotal.

The noisy measurement files of the 2020 Census (P.L. 94-171) have a row for each query about each
area, at every level of geography, with discrete Gaussian noise of a published variance; some totals
are exact. The numbers contradict one another, and many are negative. This script

1. simulates a county of 50 tracts, 150 block groups and 1,500 blocks, and writes its file in the
   published layout (people by voting age and Hispanic; four queries at each level; exact county
   total);
2. reads the file and fits all levels at once: every draw is a table of nonnegative integers that
   add up, with the exact total;
3. reports how well the chains mixed, and the root mean squared errors of the posterior means, of
   generalised least squares and of the noisy numbers.

    python examples/census_county.py                # about four minutes on one core
    python examples/census_county.py --tracts 4     # a small one

For real files, `na.interop.census.read` takes the Parquet files; select the rows of a county and
the areas in it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from arviz_stats.base import array_stats
from scipy import sparse
from scipy.sparse.linalg import splu

import noiseaware as na

COUNTY = "36001"
GROUPS, BLOCKS = 3, 10
"""Block groups per tract, and blocks per block group."""

VARIANCE = {5: 4.0, 11: 9.0, 12: 16.0, 15: 60.0}
"""Variance of the noise by the length of the area code: county, tract, block group, block."""

QUERIES = {
    "total_dpq": ("*", "*"),
    "votingage_dpq": ("votingage", "*"),
    "hispanic_dpq": ("*", "hispanic"),
    "votingage * hispanic_dpq": ("votingage", "hispanic"),
}


def make_truth(tracts: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the people of each block by voting age and Hispanic, (2, 2); a fifth are empty."""
    truth = {}
    for tract in range(tracts):
        hispanic = rng.beta(1.0, 3.0)
        for block in range(GROUPS * BLOCKS):
            code = f"{COUNTY}{tract + 1:04}00{block // BLOCKS + 1}{block % BLOCKS:03}"
            n = rng.poisson(rng.gamma(1.2, 40.0)) if rng.random() < 0.8 else 0
            shares = np.outer([0.23, 0.77], [1 - hispanic, hispanic]).ravel()
            truth[code] = rng.multinomial(n, shares).reshape(2, 2)
    return truth


def write(path: Path, truth: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Write the noisy measurements of every area and the exact county total."""
    codes = sorted({code[:length] for code in truth for length in VARIANCE})
    with path.open("w", encoding="utf-8") as file:

        def put(code: str, name: str, forms: tuple[str, str], **more: object) -> None:
            shape = [1, *(1 if form == "*" else 2 for form in forms), 1]
            row = {"geocode": code, "query_name": name, "hhgq": "*", "votingage": forms[0]}
            row |= {"hispanic": forms[1], "cenrace": "*", "query_shape": shape, **more}
            file.write(json.dumps(row) + "\n")

        for code in codes:
            people = sum(table for block, table in truth.items() if block.startswith(code))
            variance = VARIANCE[len(code)]
            for name, forms in QUERIES.items():
                away = tuple(k for k, form in enumerate(forms) if form == "*")
                exact = people.sum(axis=away).reshape(-1)
                noise = np.rint(np.sqrt(variance) * rng.standard_normal(len(exact))).astype(int)
                put(code, name, forms, value=(exact + noise).tolist(), variance=variance)
            if code == COUNTY:
                put(code, "total_con", ("*", "*"), value=[int(people.sum())], sign="=")


def least_squares(place: na.interop.census.Place) -> np.ndarray:
    """Return the cells x by generalised least squares, subject to the exact rows E x = e.

    The system for x, the scaled residuals r and the multipliers m is sparse: V r + A x = s (the
    residuals are V r), A' r + E' m = 0 and E x = e.
    """
    noisy, exact = place.release.mechanism.mechanisms
    A, E = noisy.query.matrix, exact.query.matrix
    variances = sparse.diags_array(np.asarray(noisy.scale) ** 2.0)
    system = [[variances, A, None], [A.T, None, E.T], [None, E, None]]
    s, cells = place.release.values, A.shape[1]
    right = np.concatenate([s[: A.shape[0]], np.zeros(cells), s[A.shape[0] :]])
    solved = splu(sparse.block_array(system, format="csc")).solve(right)
    return solved[A.shape[0] :][:cells].reshape(place.n_levels)


def fit(place: na.interop.census.Place, draws: int, chains: int = 4) -> np.ndarray:
    """Return draws of the whole table, (chain, draw, block, voting age, Hispanic)."""
    people = place.release.values[-1]
    cells = np.prod(place.n_levels)
    model = na.models.PoissonTable(
        place.n_levels, shape=0.5, rate=0.5 * cells / people, variables=place.variables
    )
    posterior = na.sample(
        model, place.release, draws=draws, warmup=200, chains=chains, cores=1, random_seed=1
    )
    counts: np.ndarray = posterior["posterior"]["counts"].values
    return counts


def by_level(place: na.interop.census.Place, cells: np.ndarray) -> dict[str, np.ndarray]:
    """Return the people of every area of each level, (..., areas)."""
    blocks = cells.sum(axis=(-2, -1))
    found = {}
    for name, length in (("tracts", 11), ("block groups", 12), ("blocks", 15)):
        codes = sorted({area[:length] for area in place.areas})
        found[name] = np.stack([blocks[..., place.within(c)].sum(axis=-1) for c in codes], axis=-1)
    return found


def mixed(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R-hat and bulk ESS of each area's population; 1 and all draws for a constant."""
    rhat, ess = np.ones(draws.shape[-1]), np.full(draws.shape[-1], float(draws[..., 0].size))
    for k in np.flatnonzero(draws.std(axis=(0, 1)) > 0):
        rhat[k] = array_stats.rhat(draws[..., k])
        ess[k] = array_stats.ess(draws[..., k], method="bulk")
    return rhat, ess


def main(tracts: int = 50, draws: int = 400) -> None:
    rng = np.random.default_rng(94171)
    truth = make_truth(tracts, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "county.jsonl"
        write(path, truth, rng)
        place = na.interop.census.hierarchy(na.interop.census.read(path))
    true = np.stack([truth[area] for area in place.areas])
    print(f"{tracts} tracts, {len(place.areas):,} blocks, {true.sum():,} people,", end=" ")
    print(f"{len(place.release.values):,} published numbers")
    began = time.process_time()
    cells = fit(place, draws)
    print(f"CPU time: {time.process_time() - began:.0f} s for {cells[..., 0, 0, 0].size:,} draws")
    exact = (cells.sum(axis=(-3, -2, -1)) == true.sum()).all() and (cells >= 0).all()
    print(f"every draw has nonnegative integers and the exact total: {bool(exact)}\n")
    solved, levels = least_squares(place), by_level(place, cells)
    noisy = dict(zip(place.release.names, place.release.values, strict=True))
    print(f"{'':14}{'R-hat':>8}{'low ESS':>9}{'good':>8}", end="")
    print(f"   RMSE:{'noisy':>7}{'GLS':>8}{'posterior':>11}")
    for name, found in levels.items():
        rhat, ess = mixed(found)
        target = by_level(place, true)[name]
        length = {"tracts": 11, "block groups": 12, "blocks": 15}[name]
        codes = sorted({area[:length] for area in place.areas})
        published = np.array([noisy[f"noisy: {code} total_dpq"] for code in codes])
        estimates = (published, by_level(place, solved)[name], found.mean(axis=(0, 1)))
        errors = [np.sqrt(np.mean((estimate - target) ** 2)) for estimate in estimates]
        good = np.mean((rhat <= 1.01) & (ess >= 400))
        print(f"{name:14}{rhat.max():8.3f}{ess.min():9.0f}{good:8.1%}   {errors[0]:12.2f}", end="")
        print(f"{errors[1]:8.2f}{errors[2]:11.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tracts", type=int, default=50)
    parser.add_argument("--draws", type=int, default=400)
    arguments = parser.parse_args()
    main(arguments.tracts, arguments.draws)
