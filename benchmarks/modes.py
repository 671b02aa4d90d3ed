"""Posteriors with two modes: how often a wrong run passes its checks.

Records are N(m, 1). The release is their noisy sum of squares, which does not identify the sign of
m, or the noisy number of records between 1 and 2, which does not tell on which side m lies. The
probability of the smaller mode is known from sums over a grid of m and over T, which is noncentral
chi-square or binomial. A run is *off* if its share of draws in that mode differs from the known
probability by more than five standard errors, and *green* if `na.check` passes.

The target: at most 1 of 200 runs is both green and off.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

import noiseaware as na
from benchmarks import tables

SETTINGS = (
    # query, n, the prior of m, the true m, scale
    ("squares", 30, (1.0, 2.0), 1.5, 2.0),
    ("squares", 100, (3.0, 3.0), 3.0, 2.0),
    ("squares", 100, (3.0, 10.0), 3.0, 2.0),
    ("squares", 300, (2.0, 3.0), 2.0, 2.0),
    ("squares", 100, (3.0, 3.0), 3.0, 0.001),
    ("squares", 1000, (0.5, 1.0), 0.7, 20.0),
    ("inside", 30, (3.0, 3.0), 2.5, 1.0),
    ("inside", 100, (3.0, 3.0), 3.0, 2.0),
    ("inside", 500, (3.0, 3.0), 3.0, 2.0),
    ("inside", 2000, (3.0, 3.0), 3.0, 2.0),
)
RELEASES = 20


class OfValue:
    """The sum of a function of each record, with values between 0 and `largest`."""

    def __init__(self, name: str, function: Any, largest: float) -> None:
        self.names: Sequence[str] = (name,)
        self._function, self._largest = function, largest

    def statistic(self, records: np.ndarray) -> np.ndarray:
        """Return the function of each record, (n, 1)."""
        made = np.minimum(self._function(np.asarray(records, dtype=np.float64)), self._largest)
        return np.asarray(made, dtype=np.float64)[:, np.newaxis]

    def sensitivity(self, norm: Any, neighbours: str = "change") -> float:
        """Return how far one record can move the sum."""
        return self._largest


QUERIES = {
    # No record of these models comes near the bound of 1e4.
    "squares": (OfValue("sum of squares", np.square, 1e4), 0.0),
    "inside": (OfValue("between 1 and 2", lambda x: (x > 1.0) & (x < 2.0), 1.0), 1.5),
}
"""Query, and the boundary between the two modes."""


def small_mode(kind: str, n: int, prior: tuple[float, float], s: float, scale: float) -> float:
    """Return the probability that m is below the boundary between the modes."""
    m = np.linspace(prior[0] - 8 * prior[1], prior[0] + 8 * prior[1], 3201)
    if kind == "squares":
        totals = s + scale * np.linspace(-20.0, 20.0, 201)
        totals = totals[totals > 0.0]
        chances = stats.ncx2.pdf(totals, n, np.maximum(n * m * m, 1e-9)[:, np.newaxis])
    else:
        totals = np.arange(n + 1)
        inside = stats.norm.cdf(2.0 - m) - stats.norm.cdf(1.0 - m)
        chances = stats.binom.pmf(totals, n, inside[:, np.newaxis])
    posterior = chances @ np.exp(-np.abs(totals - s) / scale) * stats.norm.pdf(m, *prior)
    return float(posterior[m < QUERIES[kind][1]].sum() / posterior.sum())


def measure(setting: tuple[Any, ...], seed: int) -> dict[str, Any]:
    kind, n, prior, truth, scale = setting
    query, parting = QUERIES[kind]
    rng = np.random.default_rng([seed, n])
    mechanism = na.mechanisms.Laplace(query, scale=scale)
    release = mechanism.privatize(rng.normal(truth, 1.0, n), rng)
    model = na.models.Normal(variance=1.0, mean_mean=prior[0], mean_sd=prior[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = na.sample(model, release, random_seed=seed, cores=1, progressbar=False)
    below = (posterior["posterior"]["mean"].values < parting).astype(float)
    exactly = small_mode(kind, n, prior, float(release.values[0]), scale)
    error = own_error(below, exactly)
    # Skip the privacy check: squares without bounds have no pure guarantee.
    green = all(v.passed for v in na.check(posterior).verdicts if "epsilon" not in v.name)
    return {
        "exactly": exactly,
        "share": float(below.mean()),
        "errors": abs(below.mean() - exactly) / error,
        "green": green,
    }


def own_error(below: np.ndarray, exactly: float) -> float:
    """Return the standard error of a share; if it is 0 or 1, that of independent draws."""
    from arviz_stats.base import array_stats

    if below.std() == 0.0:
        return float(np.sqrt(max(exactly * (1.0 - exactly), 1e-9) / below.size))
    return float(below.std() / np.sqrt(array_stats.ess(below, method="mean")))


def run(options: Namespace) -> None:
    rows = []
    for setting in SETTINGS[::3] if options.quick else SETTINGS:
        found = [
            measure(setting, seed)
            for seed in range(1, (options.releases or (1 if options.quick else RELEASES)) + 1)
        ]
        off = [row["errors"] > 5.0 for row in found]
        green = [row["green"] for row in found]
        rows.append(
            dict(zip(("query", "n", "prior", "truth", "scale"), setting, strict=True))
            | {
                "prior": f"N({setting[2][0]:g}, {setting[2][1]:g}^2)",
                "small mode": float(np.mean([row["exactly"] for row in found])),
                "runs": len(found),
                "green": sum(green),
                "off": sum(off),
                "green and off": sum(a and b for a, b in zip(green, off, strict=True)),
            }
        )
    tables.show(
        "Two modes (target: green and off in at most 1 of 200 runs)",
        {"query": "", "n": "d", "prior": "", "truth": "g", "scale": "g", "small mode": ".3f"}
        | {"runs": "d", "green": "d", "off": "d", "green and off": "d"},
        rows,
    )
    tables.write(options.out / "modes.csv", rows)
