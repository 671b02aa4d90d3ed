"""Published cells: the default call on simulated counties, its cost and its coverage.

Parts (`--parts counties,large,flat,nuts,coverage`; all by default, about 25 minutes):

counties   3,143 counties in 51 states, one covariate, discrete Gaussian noise, Poisson and negative
           binomial: CPU seconds of the default call, largest R-hat and smallest ESS of the
           coefficients, the spread and the dispersion. Target: 1.01, 400, 60 s
large      the same with 100,000 cells, Poisson. Target: 10 minutes and 2 GiB
flat       CPU time per iteration and cell, 1,000 to 100,000 cells. Target: within 1.5 times
nuts       3,143 cells with normal true values under Gaussian noise, where NumPyro's NUTS with the
           values as latent variables is exact too: effective draws per CPU second (with warm-up,
           without compilation), and the difference of the posterior means in Monte Carlo errors.
           Target: 10 times, and 4 errors. Both the centred and the non-centred form of NUTS are run
coverage   90% intervals over `--releases` releases (500) of 60 cells with parameters drawn from
           the prior, for small and larger counts: coefficients and cells, next to the naive
           analysis and SIMEX. Target: .88 to .92. An interval of integers has probability at least
           90%, and much more if counts are small; so the table also shows the probability that
           the posterior itself gives to the cells' intervals

SIMEX adds further noise of 0.5, 1, 1.5 and 2 times the variance, fits the naive regression to each
of 20 such releases, and extrapolates estimate and variance to -1 by a parabola (Cook and Stefanski
1994). The naive analysis is a Poisson regression on the released numbers, with negative ones set
to 0.
"""

from __future__ import annotations

import resource
import time
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, nuts, tables
from noiseaware.sampler.chain import Schedule, advance, iterate
from noiseaware.sampler.chain import start as start_chain
from noiseaware.sampler.moves import CellMove
from noiseaware.sampler.target import Target

PARTS = ("counties", "large", "flat", "nuts", "coverage")
Z = 1.6448536269514722


def counties(n: int, family: str, groups: int, seed: int = 1) -> tuple[Any, Any]:
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
    """Time the default call, after a small call that compiles."""
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


def iteration(n: int, family: str, warmup: int = 300) -> float:
    """Return the CPU microseconds per iteration and cell, after warm-up."""
    target = Target(*counties(n, family, 51))
    state = start_chain(target, (CellMove(),), np.random.default_rng(1))
    state, _ = advance(target, (CellMove(),), Schedule(warmup, 10**6), state, warmup)
    times = []
    for _ in range(6):
        start = time.process_time()
        for _ in range(8):  # the spread moves in every fourth
            iterate(target, (CellMove(),), state)
        times.append(time.process_time() - start)
    return float(np.median(times)) / 8.0 / n * 1e6


def monte_carlo_errors(draws: Any) -> Any:
    """Return the Monte Carlo error of each mean, for draws (chains, draws, numbers)."""
    ess = [measure.smallest_ess(draws[..., k]) for k in range(draws.shape[2])]
    return draws.std(axis=(0, 1)) / np.sqrt(ess)


def against_nuts(n: int, draws: int) -> list[dict[str, Any]]:
    """Compare the default call with NUTS in a setting where both are exact."""
    rng = np.random.default_rng(1)
    z, sd = rng.normal(size=n), rng.choice([0.5, 1.0, 2.0], n)
    noise = na.mechanisms.LocalGaussian(na.queries.Value(integer_valued=False), scale=sd)
    release = noise.privatize(1.0 + 0.5 * z + rng.normal(size=n), rng)
    model = na.models.LinearRegression(features={"z": z})
    options = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
    na.sample(model, release, draws=5, warmup=5, **options)  # compiles
    start = time.process_time()
    tree = na.sample(model, release, **options)["posterior"]
    seconds = time.process_time() - start
    variance = np.log(tree["noise_variance"].values)[..., np.newaxis]
    runs = {"noiseaware": (np.concatenate([tree["coefficients"], variance], axis=2), seconds)}
    design = np.column_stack([np.ones(n), z])
    for centred in (True, False):
        run = nuts.cells(
            design, np.asarray(release.values), sd, centred=centred, warmup=draws, draws=draws,
            chains=2,
        )  # fmt: skip
        name = f"NUTS, {'centred' if centred else 'non-centred'}"
        runs[name] = run.coefficients, run.warmup_seconds + run.seconds
    own = runs["noiseaware"][0]
    rows = []
    for name, (found, seconds) in runs.items():
        errors = np.hypot(*(monte_carlo_errors(draws) for draws in (own, found)))
        gaps = np.abs(own.mean(axis=(0, 1)) - found.mean(axis=(0, 1))) / errors
        ess = measure.smallest_ess(found)
        found_row = {"what": name, "CPU s": seconds, "ESS": ess, "ESS / s": ess / seconds}
        rows.append({**found_row, "gap": gaps.max()})
    for row in rows:
        row["ratio"] = rows[0]["ESS / s"] / row["ESS / s"]
    return rows


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


SETTINGS = {
    "small": ({"intercept_mean": 1.5, "intercept_sd": 0.5, "coefficient_sd": 0.5}, [2.0, 4.0]),
    "larger": ({"intercept_mean": 5.5, "intercept_sd": 0.5, "coefficient_sd": 0.5}, [20.0, 40.0]),
}
"""Priors, and scales of the noise."""


def cover(name: str, seed: int, n: int = 60) -> dict[str, float]:
    """Return the share of each kind of interval that covers the truth, for one release."""
    rng = np.random.default_rng([7, seed])
    prior, scales = SETTINGS[name]
    z, sd = rng.normal(size=n), rng.choice(scales, n)
    model = na.models.CountRegression({"z": z}, **prior)
    theta = model.sample_prior(rng)
    true = model.sample_records(theta, n, rng)
    noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=sd)
    release = noise.privatize(true, rng)
    tree = na.sample(
        model, release, draws=600, warmup=150, chains=1, cores=1, random_seed=seed,
        progressbar=False, keep_records=100,
    )  # fmt: skip
    beta, values = theta["coefficients"], np.asarray(release.values)
    low, high = np.quantile(tree["posterior"]["coefficients"].values, [0.05, 0.95], axis=(0, 1))
    cells = na.estimates(tree)
    lower, upper = cells["lower"].to_numpy(), cells["upper"].to_numpy()
    kept = tree["latent_records"]["records"].values
    design = np.column_stack([np.ones(n), z])
    naive, naive_var = poisson_fit(design, np.maximum(values, 0.0))
    other, other_var = simex(design, values, sd, rng)
    return {
        "coefficients": float(((beta >= low) & (beta <= high)).mean()),
        "naive coefficients": float((np.abs(beta - naive) <= Z * np.sqrt(naive_var)).mean()),
        "SIMEX coefficients": float((np.abs(beta - other) <= Z * np.sqrt(other_var)).mean()),
        "cells": float(((true >= lower) & (true <= upper)).mean()),
        "cells, by the posterior": float(((kept >= lower) & (kept <= upper)).mean()),
        "width of cells": float((upper - lower).mean()),
        "cells, released number and noise": float((np.abs(true - values) <= Z * sd).mean()),
        "width of these": float(2.0 * Z * sd.mean()),
    }


def coverage(name: str, releases: int) -> list[dict[str, Any]]:
    """Return the coverage of each kind of interval, with its standard error."""
    found = [cover(name, seed) for seed in range(releases)]
    rows = []
    for what in found[0]:
        each = np.array([row[what] for row in found])
        error = each.std() / np.sqrt(releases)
        rows.append({"counts": name, "what": what, "mean": each.mean(), "error": error})
    return rows


def show(chosen: Namespace, part: str, title: str, columns: dict[str, str], rows: Any) -> None:
    tables.show(title, columns, rows)
    tables.write(chosen.out / f"cells_{part}.csv", rows)


def run(chosen: Namespace) -> None:
    parts, quick = chosen.parts or PARTS, chosen.quick
    families = ("poisson", "negative-binomial")
    options = {"draws": 100, "warmup": 100} if quick else {}
    if "counties" in parts:
        size = (300, 10) if quick else (3143, 51)
        rows = [default_call(size[0], family, size[1], **options) for family in families]
        show(chosen, "counties", "counties: the default call", COLUMNS, rows)
    if "large" in parts:
        rows = [default_call(2000 if quick else 100_000, "poisson", 51, **options)]
        show(chosen, "large", "many cells: the default call", COLUMNS, rows)
    if "flat" in parts:
        sizes = (1000, 2000) if quick else (1000, 10_000, 100_000)
        rows = [
            {"family": family, **{f"{n:,}": iteration(n, family) for n in sizes}}
            for family in families
        ]
        columns = {"family": "", **{f"{n:,}": ".2f" for n in sizes}}
        show(chosen, "flat", "CPU microseconds of an iteration for each cell", columns, rows)
    if "nuts" in parts and nuts.available():
        rows = against_nuts(300 if quick else 3143, 100 if quick else 500)
        numbers = {"CPU s": ".2f", "ESS": ".0f", "ESS / s": ".0f", "ratio": ".1f", "gap": ".1f"}
        columns = {"what": "", **numbers}
        show(chosen, "nuts", "against NUTS, continuous cells under Gaussian noise", columns, rows)
    if "coverage" in parts:
        releases = chosen.releases or (3 if quick else 500)
        rows = [row for name in SETTINGS for row in coverage(name, releases)]
        title = f"coverage of 90% intervals over {releases} releases"
        columns = {"counts": "", "what": "", "mean": ".3f", "error": ".3f"}
        show(chosen, "coverage", title, columns, rows)
