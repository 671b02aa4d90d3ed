"""Convergence of the default call: R-hat and ESS over simulated releases.

Every release is sampled with ``na.sample(model, release)``: 4 chains, 1,000 warm-up, 1,000 draws.
It passes if R-hat is at most 1.01 and the bulk and tail ESS are at least 400 (200 if the noise
variance and the distribution of the features are unknown too) for every coefficient, or every class
probability. The target is 19 of 20 releases at every setting.

Each finished release is a line of ``mixing-releases.csv``, so a long run can be stopped with Ctrl-C
and continued by the same command. Lines written by a different version of the sampler are ignored
and measured again.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import noiseaware as na
from benchmarks import measure, settings, tables
from benchmarks.subjects import MODELS, code, subject

SIZES = (100, 1_000, 10_000)
LARGEST_RHAT = 1.01


def needed_ess(model: str) -> int:
    return 200 if model == "unknown" else 400


def run(options: Namespace) -> None:
    releases = options.releases or (2 if options.quick else 20)
    sizes = options.sizes or ((100,) if options.quick else SIZES)
    grid = [
        (model, n, epsilon)
        for n in sizes
        for model in options.models or MODELS
        for epsilon in options.epsilons or settings.EPSILONS
    ]
    path = options.out / "mixing-releases.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    now = code()
    done = {_key(row) for row in tables.read(path) if row["code"] == now}
    jobs = [
        (*cell, seed)
        for cell in grid
        for seed in range(1, releases + 1)
        if (*cell, seed) not in done
    ]
    print(f"mixing: {len(jobs)} releases to sample, {len(grid) * releases - len(jobs)} on file")
    try:
        workers = Parallel(n_jobs=options.workers, return_as="generator_unordered")
        for row in workers(delayed(one_release)(*job) for job in jobs):
            tables.append(path, {"code": now, **row})
            print(
                f"  {row['model']:<12} n = {row['n']:>6,}  epsilon = {row['epsilon']:<4g} release "
                f"{row['release']:>2}  R-hat {row['rhat']:.3f}  ESS {row['bulk']:.0f} "
                f"{row['tail']:.0f}  {row['seconds']:.1f} s  {row['error']}",
                flush=True,
            )
    finally:
        show(options, grid, releases, now)


def one_release(model: str, n: int, epsilon: float, seed: int) -> dict[str, Any]:
    data = subject(model, n, epsilon, seed)
    row: dict[str, Any] = {"model": model, "n": n, "epsilon": epsilon, "release": seed}
    start = time.perf_counter()
    try:
        result = na.sample(data.model, data.release, cores=1, random_seed=seed, progressbar=False)
    except Exception as error:  # a release that does not pass; the run goes on
        problem = f"{type(error).__name__}: {error}"
        return row | {"rhat": np.nan, "bulk": np.nan, "tail": np.nan, "seconds": np.nan,
                      "error": problem}  # fmt: skip
    seconds = time.perf_counter() - start
    draws = result["posterior"][data.interest].to_numpy()
    return row | {
        "rhat": measure.largest_rhat(draws),
        "bulk": measure.smallest_ess(draws),
        "tail": measure.smallest_ess(draws, "tail"),
        "seconds": seconds,
        "error": "",
    }


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["n"], row["epsilon"], row["release"]


def passes(row: dict[str, Any]) -> bool:
    """Whether a release meets the target; with NaN draws it does not."""
    return row["rhat"] <= LARGEST_RHAT and min(row["bulk"], row["tail"]) >= needed_ess(row["model"])


def show(options: Namespace, grid: list[Any], releases: int, now: str) -> None:
    on_file = [
        row for row in tables.read(options.out / "mixing-releases.csv") if row["code"] == now
    ]
    rows = []
    for model, n, epsilon in grid:
        cell = [
            row
            for row in on_file
            if _key(row)[:3] == (model, n, epsilon) and row["release"] <= releases
        ]
        if not cell:
            continue
        ran = [row for row in cell if not row["error"]]
        column = {
            name: np.array([row[name] for row in ran] or [np.nan])
            for name in ("rhat", "bulk", "tail", "seconds")
        }
        rows.append(
            {
                "model": model,
                "n": n,
                "epsilon": epsilon,
                "releases": len(cell),
                "passed": sum(map(passes, cell)),
                "target": "19 of 20",
                "errors": len(cell) - len(ran),
                "worst R-hat": column["rhat"].max(),
                "R-hat needed": f"<= {LARGEST_RHAT}",
                "lowest bulk": column["bulk"].min(),
                "median bulk": np.median(column["bulk"]),
                "lowest tail": column["tail"].min(),
                "median tail": np.median(column["tail"]),
                "ESS needed": f">= {needed_ess(model)}",
                "seconds": np.median(column["seconds"]),
            }
        )
    tables.show(
        "The default call, 4 chains x (1,000 + 1,000): smallest ESS and largest R-hat of a release",
        {"model": "", "n": ",.0f", "epsilon": "g", "releases": "d", "passed": "d", "target": "",
         "errors": "d", "worst R-hat": ".3f", "R-hat needed": "", "lowest bulk": ".0f",
         "median bulk": ".0f",
         "lowest tail": ".0f", "median tail": ".0f", "ESS needed": "", "seconds": ".1f"},
        rows,
    )  # fmt: skip
    tables.write(options.out / "mixing.csv", rows)
