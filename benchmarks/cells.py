"""Published cells: the default call on a made file of counties, its cost, and its coverage.

Parts (`--parts counties,flat,coverage`; the first two if none is named):

counties   3,143 counties in 51 states, one covariate, discrete Gaussian noise, Poisson and negative
           binomial: CPU seconds of the default call, largest R-hat and smallest ESS of the
           coefficients, the spread and the dispersion. Target: 1.01, 400, 60 s
flat       CPU time of an iteration for each cell, 1,000 to 100,000 cells. Target: within 1.5 times
coverage   90% intervals over `--releases` releases (50) of cells whose parameters were drawn from
           the prior: coefficients and cells, next to the naive analysis and SIMEX

SIMEX adds more noise of 0.5, 1, 1.5 and 2 times the variance, fits the naive regression to each of
20 such releases, and extrapolates estimate and variance to -1 by a parabola (Cook and Stefanski
1994). The naive regression is Poisson's, of the released numbers with those below 0 set to 0.
"""

from __future__ import annotations

import resource
import time
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, tables
from noiseaware.sampler.target import Target

PARTS = ("counties", "flat", "coverage")
Z = 1.6448536269514722


def counties(n: int, family: str, groups: int, seed: int = 1) -> tuple[Any, Any]:
    """Return a model and a simulated release of n counties."""
    rng = np.random.default_rng(seed)
    state, income = rng.integers(0, groups, n), rng.normal(size=n)
    population = np.exp(rng.normal(10.3, 1.4, n))
    mean = population * np.exp(-6.0 + 0.3 * income + rng.normal(0.0, 0.4, groups)[state])
    if family == "negative-binomial":
        mean = mean * rng.gamma(5.0, 0.2, n)
    noise = na.mechanisms.LocalDiscreteGaussian(
        na.queries.Value(), scale=rng.choice([4.0, 8.0, 20.0], n)
    )
    release = noise.privatize(rng.poisson(mean), rng)
    return na.models.CountRegression({"income": income}, population, state, family=family), release


def default_call(n: int, family: str, groups: int, **options: Any) -> dict[str, Any]:
    """Time the default call; the first one compiles, so a small one goes before it."""
    na.sample(*counties(60, family, 3), draws=5, warmup=5, cores=1, progressbar=False)
    model, release = counties(n, family, groups)
    start = time.process_time()
    tree = na.sample(model, release, random_seed=1, cores=1, progressbar=False, **options)
    seconds = time.process_time() - start
    draws = [tree["posterior"][name].values for name in ("coefficients", "spread")]
    if family == "negative-binomial":
        draws.append(tree["posterior"]["dispersion"].values)
    flat = np.concatenate([d.reshape(*d.shape[:2], -1) for d in draws], axis=2)
    return {
        "cells": n,
        "family": family,
        "CPU s": seconds,
        "R-hat": measure.largest_rhat(flat),
        "ESS": measure.smallest_ess(flat),
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


COLUMNS = {"cells": ",", "family": "", "CPU s": ".1f", "R-hat": ".3f", "ESS": ".0f", "GiB": ".2f"}


def iteration(n: int, family: str) -> float:
    """Return the CPU microseconds of an iteration for each cell."""
    rng = np.random.default_rng(1)
    kernel = Target(*counties(n, family, 51)).summed_kernel
    point, tuning = kernel.start(rng)
    times = []
    for k in range(16):
        start = time.process_time()
        for _ in range(4):  # the spread moves in every fourth
            point, _ = kernel.step(point, tuning, rng)
            if k < 8:
                kernel.learn(point, tuning)
        times.append(time.process_time() - start)
    return float(np.median(times[8:])) / 4.0 / n * 1e6


def poisson_fit(design: Any, counts: Any) -> tuple[Any, Any]:
    """Return the maximum likelihood estimate of a Poisson regression and its variances."""
    beta = np.zeros(design.shape[1])
    beta[0] = np.log(max(counts.mean(), 0.1))
    for _ in range(50):
        mean = np.exp(np.clip(design @ beta, -30.0, 30.0))
        H = design.T @ (mean[:, np.newaxis] * design) + 1e-9 * np.eye(len(beta))
        step = np.linalg.solve(H, design.T @ (counts - mean))
        beta = beta + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-8:
            break
    return beta, np.diag(np.linalg.inv(H))


def simex(design: Any, values: Any, sd: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the estimate and the variances of SIMEX."""
    lambdas, estimates, variances = [0.0, 0.5, 1.0, 1.5, 2.0], [], []
    for extra in lambdas:
        fits = [
            poisson_fit(
                design,
                np.maximum(values + np.sqrt(extra) * sd * rng.normal(size=len(values)), 0.0),
            )
            for _ in range(20 if extra else 1)
        ]
        found = np.array([fit[0] for fit in fits])
        estimates.append(found.mean(axis=0))
        within = np.mean([fit[1] for fit in fits], axis=0)
        variances.append(within - (found.var(axis=0, ddof=1) if extra else 0.0))
    at = [
        np.array([np.polyval(np.polyfit(lambdas, column, 2), -1.0) for column in np.array(rows).T])
        for rows in (estimates, variances)
    ]
    return at[0], np.maximum(at[1], 0.0)


def cover(seed: int, n: int = 60) -> dict[str, float]:
    """Return which intervals of one release hold the truth."""
    rng = np.random.default_rng([7, seed])
    z, sd = rng.normal(size=n), rng.choice([2.0, 4.0], n)
    prior = {"intercept_mean": 1.5, "intercept_sd": 0.5, "coefficient_sd": 0.5}
    model = na.models.CountRegression({"z": z}, **prior)
    theta = model.sample_prior(rng)
    true = model.sample_records(theta, n, rng)
    noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=sd)
    release = noise.privatize(true, rng)
    tree = na.sample(
        model, release, draws=500, warmup=300, chains=2, cores=1, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    beta, values = theta["coefficients"], np.asarray(release.values)
    low, high = np.quantile(tree["posterior"]["coefficients"].values, [0.05, 0.95], axis=(0, 1))
    cells = na.estimates(tree)
    design = np.column_stack([np.ones(n), z])
    naive, naive_var = poisson_fit(design, np.maximum(values, 0.0))
    other, other_var = simex(design, values, sd, rng)
    return {
        "coefficients": float(((beta >= low) & (beta <= high)).mean()),
        "cells": float(((true >= cells["lower"]) & (true <= cells["upper"])).mean()),
        "width of cells": float((cells["upper"] - cells["lower"]).mean()),
        "naive coefficients": float((np.abs(beta - naive) <= Z * np.sqrt(naive_var)).mean()),
        "SIMEX coefficients": float((np.abs(beta - other) <= Z * np.sqrt(other_var)).mean()),
        "cells, released number and noise": float((np.abs(true - values) <= Z * sd).mean()),
        "width of these": float(2.0 * Z * sd.mean()),
    }


def coverage(releases: int) -> list[dict[str, Any]]:
    """Return the coverage of each kind of interval, with its standard error."""
    found = [cover(seed) for seed in range(releases)]
    rows = []
    for name in found[0]:
        each = np.array([row[name] for row in found])
        rows.append({"what": name, "mean": each.mean(), "error": each.std() / np.sqrt(releases)})
    return rows


def run(chosen: Namespace) -> None:
    """Do the parts that were asked for."""
    parts, quick = chosen.parts or PARTS[:2], chosen.quick
    families = ("poisson", "negative-binomial")
    if "counties" in parts:
        n = 300 if quick else 3143
        options = {"draws": 100, "warmup": 100} if quick else {}
        rows = [default_call(n, family, 10 if quick else 51, **options) for family in families]
        tables.show("counties: the default call", COLUMNS, rows)
        tables.write(chosen.out / "cells_counties.csv", rows)
    if "flat" in parts:
        sizes = (1000, 2000) if quick else (1000, 10_000, 100_000)
        rows = [
            {"family": family, **{f"{n:,}": iteration(n, family) for n in sizes}}
            for family in families
        ]
        columns = {"family": "", **{f"{n:,}": ".2f" for n in sizes}}
        tables.show("CPU microseconds of an iteration for each cell", columns, rows)
        tables.write(chosen.out / "cells_flat.csv", rows)
    if "coverage" in parts:
        releases = chosen.releases or (3 if quick else 50)
        rows = coverage(releases)
        title = f"coverage of 90% intervals over {releases} releases"
        tables.show(title, {"what": "", "mean": ".3f", "error": ".3f"}, rows)
        tables.write(chosen.out / "cells_coverage.csv", rows)
