"""The experiment behind every check: compare what must not change with fresh draws.

Draw from a known distribution, do something that leaves it invariant if a user's method is right,
and compare the outcome with as many fresh draws. The comparison uses the largest distance D between
the two empirical distribution functions. For n draws on each side

    P(D > d)  <=  e exp(-n d^2),

for any distribution, including discrete ones (Wei and Dudley 2012, the two-sample form of the
inequality of Dvoretzky, Kiefer and Wolfowitz), and P(D > d) <= 2 exp(-2 n d^2) against a known
distribution (Massart 1990). So a false alarm has at most the stated probability, without
large-sample approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.sampler.moves.geometry import moments

MOST_FEATURES = 12
"""Numbers that summarise a database when checking whether theta still belongs to it."""

PROJECTIONS = 2
"""Random directions in which records with several columns are compared, besides each column."""


@dataclass(frozen=True)
class Difference:
    """The quantity that differs most between draws that should not differ."""

    name: str
    p_value: float
    expected: float
    found: float

    def __str__(self) -> str:
        return (
            f"the mean of {self.name} should be {self.expected:.3g}, but {self.found:.3g} was "
            f"found (or its spread differs); by chance with probability below {self.p_value:.1g}"
        )


def two_sample(a: np.ndarray, b: np.ndarray) -> float:
    """Bound the p-value of two samples of equal size having the same distribution."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below_a = np.searchsorted(a, both, side="right")
    below_b = np.searchsorted(b, both, side="right")
    d = np.abs(below_a - below_b).max() / len(a)
    return min(1.0, math.e * math.exp(-len(a) * d * d))


def one_sample(u: np.ndarray) -> float:
    """Bound the p-value of a sample being uniform on (0, 1)."""
    u, n = np.sort(u), len(u)
    ranks = np.arange(1, n + 1) / n
    d = max(np.abs(ranks - u).max(), np.abs(u - ranks + 1 / n).max())
    return min(1.0, 2 * math.exp(-2 * n * d * d))


def largest_difference(
    names: Sequence[str], fresh: np.ndarray, ended: np.ndarray, level: float
) -> Difference | None:
    """Compare the columns of two arrays (replicates, names); None if nothing differs."""
    if not np.isfinite(ended).all():
        j = int(np.argwhere(~np.isfinite(ended))[0][1])
        return Difference(names[j], 0.0, float(np.mean(fresh[:, j])), math.nan)
    p_values = [two_sample(a, b) for a, b in zip(fresh.T, ended.T, strict=True)]
    j = int(np.argmin(p_values))
    if p_values[j] >= level / len(names):
        return None
    return Difference(names[j], p_values[j], float(fresh[:, j].mean()), float(ended[:, j].mean()))


def columns(records: np.ndarray) -> np.ndarray:
    """Return records as floats (n, columns)."""
    return records.reshape(len(records), -1).astype(np.float64)


def column_names(given: Sequence[str] | None, width: int) -> list[str]:
    """Name the columns of the records, with the model's names if it has them."""
    if given is not None and len(given) == width:
        return [f"column {name!r}" for name in given]
    return ["a record"] if width == 1 else [f"column {j}" for j in range(width)]


def directions(width: int, rng: np.random.Generator) -> np.ndarray:
    """Return unit vectors (width, k): the columns and, if there are several, random ones."""
    if width == 1:
        return np.eye(1)
    random = rng.standard_normal((width, PROJECTIONS))
    return np.hstack([np.eye(width), random / np.linalg.norm(random, axis=0)])


def folded(values: np.ndarray, pilot: np.ndarray) -> np.ndarray:
    """Append to each column its distance from the middle, so that a wrong spread shows.

    `pilot` must be draws that are not compared themselves; otherwise the compared ones would become
    dependent.
    """
    middle, spread = scale_of(pilot)
    return np.hstack([values, np.abs(values - middle) / spread])


def folded_names(names: Sequence[str]) -> list[str]:
    """Name the columns of `folded`."""
    return [*names, *(f"the spread of {name}" for name in names)]


class Joint:
    """The quantities of (theta, x) to compare: theta, and its residuals given the records.

    The residuals are those of a least-squares regression on the number of records and the means and
    spreads of their columns, fitted to pilot draws. Without them, a kernel that ignores the records
    and draws from the prior would pass.
    """

    def __init__(self, names: Sequence[str], vectors: np.ndarray, databases: list[Any]) -> None:
        self._pilot_vectors = vectors
        features = self._features(databases)
        self._coefficients = np.linalg.lstsq(features, vectors, rcond=None)[0]
        self._pilot = self._residuals(vectors, databases)
        given = [f"{name} less what the records say of it" for name in names]
        self.names = [*folded_names(names), *folded_names(given)]

    @staticmethod
    def _features(databases: list[Any]) -> np.ndarray:
        rows = []
        for x in databases:
            some = x if len(x) else np.zeros((1, *x.shape[1:]))
            table = columns(some)[:, : MOST_FEATURES // 2]
            spread = table.std(axis=0)
            number = [1.0, np.log1p(len(x))]
            rows.append(np.concatenate([number, table.mean(axis=0), np.log(spread + 1e-9)]))
        return np.stack(rows)

    def _residuals(self, vectors: np.ndarray, databases: list[Any]) -> np.ndarray:
        return vectors - self._features(databases) @ self._coefficients

    def __call__(self, vectors: np.ndarray, databases: list[Any]) -> np.ndarray:
        """Return the quantities (replicates, names)."""
        residuals = self._residuals(vectors, databases)
        return np.hstack([folded(vectors, self._pilot_vectors), folded(residuals, self._pilot)])


def scale_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return medians and robust spreads of columns, for standardising."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, values.std(axis=0))
    return middle, np.where(spread > 0, spread, 1.0)


def metropolis(
    log_density: Callable[[np.ndarray], float],
    v: np.ndarray,
    factor: np.ndarray,
    steps: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Take random-walk Metropolis steps of many sizes on v; leaves the density invariant."""
    now = log_density(v)
    size = len(v)
    for k in range(steps):
        step = factor @ rng.standard_normal(size)
        if size > 1 and k % 2:
            keep = rng.integers(size)
            step = np.where(np.arange(size) == keep, step, 0.0)
        proposed = v + math.exp(rng.standard_normal() - 0.5) * step
        new = log_density(proposed)
        # From where there is no density (off the set V of `coordinates`) it does not move.
        if -rng.standard_exponential() < new - now < math.inf:
            v, now = proposed, new
    return v


def shape_of(vectors: np.ndarray) -> np.ndarray:
    """Return a factor L with the spread of draws of v (m, size), for `metropolis`."""
    return np.linalg.cholesky(moments(vectors)[1])
