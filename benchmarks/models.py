"""The default call on each ready model: R-hat at most 1.01, bulk and tail ESS at least 400.

Every model has an example: a query that fits it, and true parameters. Records are simulated and
released at several sizes and epsilons, with Laplace and with Gaussian noise. The worst parameter
counts. Results on file are not measured again, so the grid can be run in parts: ``--sizes``,
``--epsilons``, ``--releases`` and ``--examples`` select them.
"""

from __future__ import annotations

import itertools
import json
import math
import time
import warnings
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import settings, tables
from noiseaware.contract import model_abilities

SIZES = (20, 200, 2_000, 20_000)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
QUICK = ((200,), (0.3, 3.0))
NOISES = {
    "Laplace": lambda query, epsilon: na.mechanisms.Laplace(query, epsilon=epsilon),
    "Gaussian": lambda query, epsilon: na.mechanisms.Gaussian(query, rho=epsilon**2 / 2),
}
"""A Gaussian mechanism with rho = epsilon^2 / 2 is the usual counterpart of Laplace noise: pure
epsilon-DP implies this rho (Bun and Steinke 2016)."""

STRATA = [10, 15, 20, 25, 25, 30, 35, 40]

KEYS = ("n", "model", "noise", "epsilon", "seed")
FIGURES = ("r_hat", "ess_bulk", "ess_tail", "elsewhere", "cpu")

SHOWN = {"passed": "", "r_hat": ".3f", "ess_bulk": ".0f", "ess_tail": ".0f"}
SHOWN |= {"elsewhere": ".0f", "cpu": ".1f"}

Example = tuple[Any, Any, dict[str, Any]]

TWO_FEATURES = {"feature_mean": [0.5, -0.3], "feature_covariance": [[1.0, 0.3], [0.3, 1.0]]}

EXAMPLES: dict[str, Example] = {
    "Bernoulli": (na.models.Bernoulli(), na.queries.Count(), {"probability": 0.3}),
    "Categorical": (
        na.models.Categorical(4),
        na.queries.Histogram(n_levels=4),
        {"probabilities": [0.4, 0.3, 0.2, 0.1]},
    ),
    "Normal": (
        na.models.Normal(),
        na.queries.Histogram(edges=[-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]),
        {"mean": 0.7, "variance": 1.5},
    ),
    "LinearRegression": (
        na.models.LinearRegression(2),
        na.queries.RegressionMoments(2, -10.0, 10.0),
        {
            "coefficients": [-1.79, -2.89, -0.66],
            "noise_variance": 2.0,
            "feature_mean": [0.9, -1.17],
            "feature_covariance": [[1.0, 0.0], [0.0, 1.0]],
        },
    ),
    "NaiveBayes": (
        na.models.NaiveBayes(5, (3,) * 5, 2.0),
        na.queries.ClassFeatureCounts(5, (3,) * 5),
        {
            "class_probabilities": settings.CLASS_PROBABILITIES,
            "feature_probabilities": settings.FEATURE_PROBABILITIES,
        },
    ),
    "Exponential": (na.models.Exponential(), na.queries.Sum(0.0, 10.0), {"rate": 0.5}),
    "Dirichlet": (
        na.models.Dirichlet(4),
        na.queries.Shares(4, squares=True),
        {"mean": [0.4, 0.3, 0.2, 0.1], "precision": 12.0},
    ),
    "MultivariateNormal": (
        na.models.MultivariateNormal(3, mean_sd=2.0),
        na.queries.Moments(3, -5.0, 5.0),
        {
            "mean": [0.5, -1.0, 1.5],
            "covariance": [[1.0, 0.5, 0.2], [0.5, 1.5, -0.3], [0.2, -0.3, 0.8]],
        },
    ),
    "Gamma": (
        na.models.Gamma(),
        na.queries.Histogram(edges=[0.0, 1.0, 2.0, 4.0, 8.0, math.inf]),
        {"shape": 2.0, "rate": 0.8},
    ),
    "TwoProportions": (
        na.models.TwoProportions([120, 80]),
        na.queries.ByGroup(na.queries.Count(), 2),
        {"proportions": [0.35, 0.55]},
    ),
    "TwoMeans": (
        na.models.TwoMeans([120, 80]),
        na.queries.ByGroup(na.queries.Sum(-5.0, 5.0), 2),
        {"means": [0.5, 1.5], "variances": [1.0, 2.0]},
    ),
    "StratifiedProportions": (
        na.models.StratifiedProportions(STRATA),
        na.queries.ByGroup(na.queries.Count(), len(STRATA)),
        {"proportions": [0.23, 0.27, 0.32, 0.38, 0.41, 0.45, 0.51, 0.58]},
    ),
    "StratifiedMeans": (
        na.models.StratifiedMeans(STRATA),
        na.queries.ByGroup(na.queries.Sum(-5.0, 5.0), len(STRATA)),
        {"means": [-0.3, -0.1, 0.2, 0.5, 0.6, 0.9, 1.1, 1.5], "variance": 1.0},
    ),
    "ContingencyTable": (
        na.models.ContingencyTable([2, 3, 2]),
        na.queries.Margins([2, 3, 2], [[0, 1], [0, 2], [1, 2]]),
        {
            "cell_probabilities": [
                [[0.13, 0.07], [0.10, 0.08], [0.05, 0.03]],
                [[0.03, 0.10], [0.12, 0.15], [0.07, 0.07]],
            ]
        },
    ),
    "Poisson": (
        na.models.Poisson(),
        na.queries.Sum(0, 15, integer_valued=True),
        {"rate": 4.0},
    ),
    "NegativeBinomial": (
        na.models.NegativeBinomial(),
        na.queries.Histogram(edges=[0, 1, 2, 3, 5, 8, 13, 21, 34]),
        {"mean": 4.0, "dispersion": 0.5},
    ),
    "LogisticRegression": (
        na.models.LogisticRegression(1),
        na.queries.RegressionMoments(1, [-4.0, 0.0], [4.0, 1.0]),
        {"coefficients": [-0.5, 1.0], "feature_mean": [0.5], "feature_covariance": [[1.0]]},
    ),
    "LogisticRegression (2 features)": (
        na.models.LogisticRegression(2),
        na.queries.RegressionMoments(2, [-4.0, -4.0, 0.0], [4.0, 4.0, 1.0]),
        {"coefficients": [-0.5, 1.0, -0.7], **TWO_FEATURES},
    ),
    "PoissonRegression": (
        na.models.PoissonRegression(1),
        na.queries.RegressionMoments(1, [-4.0, 0.0], [4.0, 15.0]),
        {"coefficients": [0.8, 0.5], "feature_mean": [0.5], "feature_covariance": [[1.0]]},
    ),
    "PoissonRegression (2 features)": (
        na.models.PoissonRegression(2),
        na.queries.RegressionMoments(2, [-4.0, -4.0, 0.0], [4.0, 4.0, 15.0]),
        {"coefficients": [0.8, 0.5, -0.3], **TWO_FEATURES},
    ),
}
"""Name -> model, query, true parameters."""

IN_MIXING = ("LinearRegression", "NaiveBayes")
"""Examples that are also settings of ``mixing``."""


def sized(name: str, n: int) -> Example:
    """Return an example; its groups, if any, have n records in total."""
    model, query, theta = EXAMPLES[name]
    if model_abilities(model).n_records is None:
        return EXAMPLES[name]
    shares = np.cumsum([0, *model.sizes]) / sum(model.sizes)
    return type(model)(np.diff(np.round(n * shares)).astype(int).tolist()), query, theta


def run(options: Namespace) -> None:
    path = options.out / "models.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    rows = tables.read(path)
    done = {tuple(row[key] for key in KEYS) for row in rows}
    sizes, epsilons = QUICK if options.quick else (SIZES, EPSILONS)
    names = [name for name in EXAMPLES if not options.examples or name in options.examples]
    for n, name, noise, epsilon, seed in itertools.product(
        options.sizes or sizes,
        names,
        NOISES,
        options.epsilons or epsilons,
        range(1, (options.releases or 1) + 1),
    ):
        key = dict(zip(KEYS, (n, name, noise, epsilon, seed), strict=True))
        if tuple(key.values()) in done:
            continue
        rows.append(key | measure(*sized(name, n), n, noise, epsilon, seed))
        tables.append(path, rows[-1])
    title = "Releases that pass (R-hat <= 1.01, bulk and tail ESS >= 400, no other mode); the worst"
    kinds = {"n": ".0f", "model": "", "noise": "", "epsilon": "g"}
    tables.show(title, kinds | SHOWN, cells(rows, tuple(kinds)))
    kinds = {"model": "", "n": ".0f"}
    tables.show(f"{title}, of all noises and epsilons", kinds | SHOWN, cells(rows, tuple(kinds)))


def cells(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each value of the keys: the releases that passed, the worst diagnostics."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    made = []
    for key, group in found.items():
        numbers = {key: [float(row[key]) for row in group] for key in FIGURES}
        passed = [
            r <= 1.01 and min(bulk, tail) >= 400 and elsewhere == 0
            for r, bulk, tail, elsewhere in zip(*(numbers[k] for k in FIGURES[:4]), strict=True)
        ]
        made.append(
            dict(zip(keys, key, strict=True))
            | {
                "passed": f"{sum(passed)} of {len(passed)}",
                "r_hat": max(numbers["r_hat"]),
                "ess_bulk": min(numbers["ess_bulk"]),
                "ess_tail": min(numbers["ess_tail"]),
                "elsewhere": max(numbers["elsewhere"]),
                "cpu": max(numbers["cpu"]),
            }
        )
    return made


def measure(
    model: Any,
    query: Any,
    theta: dict[str, Any],
    n: int,
    noise: str,
    epsilon: float,
    seed: int,
) -> dict[str, Any]:
    """Simulate and sample a release with the defaults; return the worst diagnostics."""
    rng = np.random.default_rng([seed, round(10 * epsilon)])
    values = {name: np.asarray(value, dtype=np.float64) for name, value in theta.items()}
    release = NOISES[noise](query, epsilon).privatize(model.sample_records(values, n, rng), rng)
    return diagnose(model, release, seed)


def diagnose(model: Any, release: Any, seed: int) -> dict[str, Any]:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = na.sample(model, release, random_seed=seed, cores=1, progressbar=False)
    seconds = time.process_time() - start
    summary = na.summary(posterior)
    return {
        "r_hat": float(summary["r_hat"].max()),
        "ess_bulk": float(summary["ess_bulk"].min()),
        "ess_tail": float(summary["ess_tail"].min()),
        "elsewhere": json.loads(posterior.attrs["scouts"])["elsewhere"],
        "cpu": seconds,
    }
