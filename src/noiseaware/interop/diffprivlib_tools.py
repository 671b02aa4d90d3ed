"""Readers for results of `diffprivlib.tools` and the arguments of the call.

- `mean`: Laplace noise of scale (u - l) / (n epsilon), clamped to [l, u]. Read as n times the mean,
  a `Sum` that is `Clamped` to [n l, n u].
- `sum`: Laplace noise of scale (u - l) / epsilon, clamped to [n l, n u]; discrete if an integer
  `dtype` was given.
- `count_nonzero`: discrete Laplace noise of scale 1 / epsilon, clamped to [0, n].
- `histogram`: the same in each bin, clamped at 0.
- `var`: Laplace noise, redrawn until the result is in [0, (u - l)^2 / 4]; `NoisyVariance`.

With `axis=0`, each of w columns has 1/w of epsilon. The scale of `var` is the smallest b at which
bounded Laplace noise satisfies epsilon. With D the sensitivity and U the end of the range, the
density at a true v has the normaliser C(v) = 1 - (e^(-v/b) + e^(-(U - v)/b)) / 2, and moving v by D
changes the log density by at most D / b + log(C(D) / C(0)), so b solves
b = D / (epsilon - log(C(D) / C(0))).

Reference
---------
Holohan, N., Antonatos, S., Braghin, S. and Mac Aonghusa, P. (2020). The bounded Laplace mechanism
    in differential privacy. Journal of Privacy and Confidentiality 10(1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noiseaware import mechanisms, queries
from noiseaware.basics.arguments import positive, whole_number
from noiseaware.contract import Floats
from noiseaware.interop.reading import cannot_read, joint
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.release import Release

__all__ = ["NoisyVariance", "count_nonzero", "histogram", "mean", "sum", "var"]

Bounds = tuple[ArrayLike, ArrayLike]

NOT_READ = {
    "std": "it is the square root of what var returns: tools.var(result**2, bounds=..., ...)",
    **dict.fromkeys(
        ("median", "quantile", "percentile"),
        "one candidate is chosen with noise; it is not a noisy sum",
    ),
}
"""Tools of diffprivlib that are not read, and why."""


def __getattr__(name: str) -> Any:
    """Raise AttributeError that says why a tool is not read."""
    reason = f", because {NOT_READ[name]}" if name in NOT_READ else ""
    raise AttributeError(f"noiseaware reads no diffprivlib.tools.{name}{reason}")


def mean(
    result: ArrayLike, *, bounds: Bounds, n_records: int, epsilon: float = 1.0, axis: Any = None
) -> Release:
    """Read what `diffprivlib.tools.mean(array, epsilon, bounds, axis)` returned.

    `axis` is None for an array (n,), 0 for column means of an array (n, w).
    """
    n = whole_number("n_records", n_records)
    return _sums(n * np.asarray(result, dtype=np.float64), bounds, n, epsilon, axis, False)


def sum(
    result: ArrayLike,
    *,
    bounds: Bounds,
    n_records: int,
    epsilon: float = 1.0,
    axis: Any = None,
    dtype: Any = None,
) -> Release:
    """Read what `diffprivlib.tools.sum(array, epsilon, bounds, axis, dtype)` returned.

    Only an integer `dtype` in the call makes the noise discrete, not the array's dtype.
    """
    n = whole_number("n_records", n_records)
    whole = dtype is not None and issubclass(dtype, Integral)
    return _sums(np.asarray(result, dtype=np.float64), bounds, n, epsilon, axis, whole)


def count_nonzero(result: int, *, query: Any, n_records: int, epsilon: float = 1.0) -> Release:
    """Read what `diffprivlib.tools.count_nonzero(array, epsilon)` returned.

    `query` says which records were counted, such as `noiseaware.queries.Count(value=1)`.
    """
    n = whole_number("n_records", n_records)
    noise = mechanisms.DiscreteLaplace(query, scale=1.0 / positive("epsilon", epsilon))
    return Release([float(result)], mechanisms.Clamped(noise, lower=0.0, upper=float(n)), n)


def histogram(
    result: Any,
    *,
    n_records: int,
    epsilon: float = 1.0,
    bins: int | Sequence[float] = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
) -> Release:
    """Read what `diffprivlib.tools.histogram(sample, epsilon, bins, range)` returned.

    `result` is the counts, or the pair of counts and edges. Counts alone with a number of bins
    require `range`.
    """
    if density:
        raise cannot_read(
            "density=True gives the counts divided by their own noisy sum", by_hand=False
        )
    n = whole_number("n_records", n_records)
    if isinstance(result, tuple):
        result, edges = result
    elif isinstance(bins, Integral) and range is None:
        raise ValueError("range is needed with a number of bins, or the edges that were returned")
    elif isinstance(bins, str):
        raise cannot_read(f"bins = {bins!r} chooses the edges from the records")
    else:
        edges = np.histogram_bin_edges([], bins=bins, range=range)
    query = queries.Histogram(edges=np.asarray(edges, dtype=np.float64).tolist())
    noise = mechanisms.DiscreteLaplace(query, scale=1.0 / positive("epsilon", epsilon))
    return Release(np.asarray(result, np.float64), mechanisms.Clamped(noise, lower=0.0), n)


def var(
    result: float, *, bounds: tuple[float, float], n_records: int, epsilon: float = 1.0
) -> Release:
    """Read what `diffprivlib.tools.var(array, epsilon, bounds)` returned."""
    n = whole_number("n_records", n_records, least=2)
    return Release([float(result)], NoisyVariance(*bounds, n, epsilon), n)


def _sums(
    totals: Floats, bounds: Bounds, n: int, epsilon: float, axis: Any, whole: bool
) -> Release:
    if axis not in (None, 0) or totals.ndim != (0 if axis is None else 1):
        raise cannot_read(
            "axis must be None, with one number as the result, or 0, with one for each column; got "
            f"axis={axis!r} and a result of shape {totals.shape}"
        )
    values = np.atleast_1d(totals)
    lower, upper = (np.broadcast_to(np.asarray(end, np.float64), values.shape) for end in bounds)
    share = len(values) / positive("epsilon", epsilon)
    kind = mechanisms.DiscreteLaplace if whole else mechanisms.Laplace
    parts = []
    for j, (low, high) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        query: Any = queries.Sum(low, high, integer_valued=whole)
        query = query if axis is None else queries.InColumn(query, j)
        noise = kind(query, scale=share * (high - low))
        parts.append(mechanisms.Clamped(noise, lower=n * low, upper=n * high))
    return joint(values, parts, n)


class Spread:
    """The sums of clamped records and of their squares."""

    names = ("sum", "sum of squares")

    def __init__(self, lower: float, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def statistic(self, records: ArrayLike) -> Floats:
        """Return x and x^2 of each record, clamped, (n, 2)."""
        x = np.clip(np.asarray(records, dtype=np.float64), self.lower, self.upper)
        return np.column_stack((x, x * x))

    def words(self) -> list[str]:
        """Return sentences for the report that say what was asked."""
        return [f"The variance of the records, each clamped to [{self.lower:g}, {self.upper:g}]."]


class NoisyVariance:
    """The variance of n records with bounded Laplace noise, as in `diffprivlib.tools.var`.

    With T the sums of x and x^2, v(T) = T_2 / n - (T_1 / n)^2, and

        log g(s, T) = -|s - v| / b - log(1 - (e^(-v/b) + e^(-(U - v)/b)) / 2).
    """

    def __init__(self, lower: float, upper: float, n_records: int, epsilon: float = 1.0) -> None:
        if not lower < upper:
            raise ValueError(f"bounds must be a lower and a higher number; got {lower}, {upper}")
        self.query, self.n_records = Spread(float(lower), float(upper)), n_records
        width = float(upper) - float(lower)
        self.epsilon, self.end = positive("epsilon", epsilon), width**2 / 4.0
        self.scale = bounded_scale(
            self.epsilon, (width / n_records) ** 2 * (n_records - 1), self.end
        )
        self.guarantee = Guarantee("pure", epsilon=self.epsilon)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s, T) up to a constant."""
        t = np.asarray(total, dtype=np.float64) / self.n_records
        v = min(max(float(t[1] - t[0] ** 2), 0.0), self.end)
        inside = _inside(v, self.scale, self.end)
        return -abs(float(np.asarray(values)[0]) - v) / self.scale - math.log(inside)

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return the constant that normalises log g."""
        return -math.log(2.0 * self.scale)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the value; ValueError unless it is between 0 and (u - l)^2 / 4."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (1,) or not 0.0 <= array[0] <= self.end:
            raise ValueError(f"result must be a number from 0 to {self.end:g}; got {values!r}")
        return array

    def words(self) -> list[str]:
        """Return sentences for the report that say how the number was made private."""
        return [
            f"Random Laplace noise of scale {self.scale:.4g} was added, and drawn again until the "
            f"result was between 0 and {self.end:.4g}."
        ]


def _inside(v: float, b: float, end: float) -> float:
    """Return C(v), the probability that noise of scale b about v is in [0, end]."""
    return 1.0 - 0.5 * (math.exp(-v / b) + math.exp((v - end) / b))


def bounded_scale(epsilon: float, sensitivity: float, end: float) -> float:
    """Return the scale of Laplace noise bounded to [0, end] that satisfies epsilon."""
    from scipy.optimize import brentq

    def left(b: float) -> float:
        ratio = _inside(sensitivity, b, end) / _inside(0.0, b, end)
        return b * (epsilon - math.log(ratio)) - sensitivity

    low = sensitivity / epsilon
    high = 2.0 * low
    while left(high) < 0.0:
        high *= 2.0
    return float(brentq(left, low, high, xtol=1e-13 * low, rtol=1e-13))
