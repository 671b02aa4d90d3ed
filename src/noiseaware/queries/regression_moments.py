"""The clamped moments of a linear regression (the paper's section 5).

A record is p features and a response. Each entry is clamped to its published bounds and moved
to [-1, 1] on a linear scale,

    z -> 2 (clamp(z, lower, upper) - lower) / (upper - lower) - 1,

which gives the features x1, ..., xp and the response y of the formulas below. With the
intercept in front, x = (1, x1, ..., xp), the statistic of the record is

    t = (x y,  y^2,  the upper triangle of x'x, row by row, without its constant first entry),

(p + 1)(p + 4) / 2 numbers: all products of degree one and two of x1, ..., xp and y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.queries.arguments import (
    Bound,
    as_bounds,
    as_float_records,
    bound_array,
    bound_to_json,
    check_norm,
    check_numbers,
    vector_norm,
)
from noiseaware.queries.protocol import Neighbours

BLOCK = 512
"""Records that are summarised together; their moments stay in the cache meanwhile."""


@njit(cache=True, nogil=True)
def regression_moments(records, centre, scale, moments):
    """Fill in the moments of every record.

    Column by column within a block of records, which leaves the compiler simple loops.

    Parameters
    ----------
    records
        Features, then the response, float64 (n, p + 1).
    centre, scale
        The middle of the bounds and 2 / (upper - lower), float64 (p + 1,).
    moments
        The statistic, float64 (n, (p + 1)(p + 4) / 2), overwritten.
    """
    n, width = records.shape
    p = width - 1
    y, y_squared, x1 = 0, width, width + 1  # columns of `moments`
    for start in range(0, n, BLOCK):
        block = range(start, min(start + BLOCK, n))
        for j in range(width):
            column = y if j == p else x1 + j
            middle, factor = centre[j], scale[j]
            for i in block:
                # Clamping after the scaling is the same, and rounding cannot lead out of [-1, 1].
                scaled = (records[i, j] - middle) * factor
                moments[i, column] = min(max(scaled, -1.0), 1.0)
        for i in block:
            moments[i, y_squared] = moments[i, y] * moments[i, y]
        column = x1 + p
        for j in range(p):
            for i in block:
                moments[i, 1 + j] = moments[i, x1 + j] * moments[i, y]
            for k in range(j, p):
                for i in block:
                    moments[i, column] = moments[i, x1 + j] * moments[i, x1 + k]
                column += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def regression_totals(records, centre, scale, total):
    """Add the moments of every record to `total`, without keeping them.

    The sums may be taken in any order ("reassoc"), so that they become vector instructions.

    Parameters
    ----------
    records, centre, scale
        As in `regression_moments`.
    total
        Float64 ((p + 1)(p + 4) / 2,), added to.
    """
    n, width = records.shape
    p = width - 1
    scaled = np.empty((width, BLOCK))
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for j in range(width):
            middle, factor = centre[j], scale[j]
            for i in range(size):
                scaled[j, i] = min(max((records[start + i, j] - middle) * factor, -1.0), 1.0)
        for j in range(width):
            simple = 0.0
            with_y = 0.0
            for i in range(size):
                simple += scaled[j, i]
                with_y += scaled[j, i] * scaled[p, i]
            total[0 if j == p else width + 1 + j] += simple
            total[width if j == p else 1 + j] += with_y
        column = width + 1 + p
        for j in range(p):
            for k in range(j, p):
                product = 0.0
                for i in range(size):
                    product += scaled[j, i] * scaled[k, i]
                total[column] += product
                column += 1


@dataclass(frozen=True, init=False)
class RegressionMoments:
    """The clamped sums, squares and cross products that a linear regression needs.

    Records are floats (n, n_features + 1), the response last.

    Parameters
    ----------
    n_features
        The number of features p, without the intercept.
    lower, upper
        The bounds that features and response are clamped to: a number for all of them, or
        n_features + 1 numbers, the response last.

    Examples
    --------
    >>> query = RegressionMoments(n_features=2, lower=-10, upper=10)
    >>> query.names
    ('y', 'x1*y', 'x2*y', 'y^2', 'x1', 'x2', 'x1^2', 'x1*x2', 'x2^2')
    >>> query.sensitivity(norm=1), query.sensitivity(norm=2)
    (9.375, 4.0)
    """

    n_features: int
    lower: Bound
    upper: Bound
    names: tuple[str, ...] = field(repr=False, compare=False)
    integer_valued: ClassVar[bool] = False
    _centre: NDArray[np.float64] = field(repr=False, compare=False)
    _scale: NDArray[np.float64] = field(repr=False, compare=False)

    def __init__(self, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        p = whole_number("n_features", n_features)
        low, high = as_bounds(lower, upper)
        for name, bound in (("lower", low), ("upper", high)):
            if isinstance(bound, tuple) and len(bound) != p + 1:
                raise ValueError(
                    f"{name} must be a number or {p + 1} numbers ({p} features, then the "
                    f"response); got {len(bound)} numbers"
                )
        a, b = bound_array(low, p + 1), bound_array(high, p + 1)
        half_width = b / 2 - a / 2
        if half_width.min() < 1e-300:
            raise ValueError(f"upper - lower is too small to divide by; got {(b - a).min()}")
        features = [f"x{j}" for j in range(1, p + 1)]
        products = [
            f"{features[j]}^2" if j == k else f"{features[j]}*{features[k]}"
            for j in range(p)
            for k in range(j, p)
        ]
        names = ("y", *(f"{x}*y" for x in features), "y^2", *features, *products)
        set_field = object.__setattr__  # the way around `frozen`, for the constructor only
        set_field(self, "n_features", p)
        set_field(self, "lower", low)
        set_field(self, "upper", high)
        set_field(self, "names", names)
        set_field(self, "_centre", a / 2 + b / 2)
        set_field(self, "_scale", 1.0 / half_width)

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the moments of each record, (n, (p + 1)(p + 4) / 2).

        Parameters
        ----------
        records
            Features, then the response, (n, p + 1).
        """
        records = as_float_records(records)
        if records.ndim != 2 or records.shape[1] != len(self._centre):
            self.check_records(records)  # compiled code would read past the end
        moments = np.empty((records.shape[0], len(self.names)))
        regression_moments(records, self._centre, self._scale, moments)
        return moments

    def total(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the sum of `statistic` over the records, ((p + 1)(p + 4) / 2,).

        Parameters
        ----------
        records
            Features, then the response, (n, p + 1).
        """
        records = as_float_records(records)
        if records.ndim != 2 or records.shape[1] != len(self._centre):
            self.check_records(records)
        total = np.zeros(len(self.names))
        regression_totals(records, self._centre, self._scale, total)
        return total

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        r"""Return how far one record can move the total; every value is attained.

        With q = p + 1 entries in a record (see `docs/sensitivity.md` for the proofs):

        ==========  ==========================  =========================
        norm        change one record           add or remove one record
        ==========  ==========================  =========================
        1           q(q+3)/2 + q/(2(q+1))       q(q+3)/2
        2           2 sqrt(floor((q+1)^2 / 4))  sqrt(q(q+3)/2)
        inf         2                           1
        ==========  ==========================  =========================

        The paper uses p^2 + 3p + 3 for norm 1, which is safe: at p = 2 it is 13, not 9.375.

        Parameters
        ----------
        norm
            1, 2 or inf.
        neighbours
            `"change"` or `"add-remove"`.
        """
        check_norm(norm, neighbours)
        q = self.n_features + 1
        if neighbours == "add-remove":
            return vector_norm(np.ones(len(self.names)), norm)
        if norm == 1:
            return q * (q + 2) ** 2 / (2 * (q + 1))
        if norm == 2:
            return 2.0 * math.sqrt((q + 1) ** 2 // 4)
        return 2.0

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n, p + 1)."""
        shape = np.shape(records)
        if len(shape) != 2 or shape[1] != self.n_features + 1:
            raise ValueError(
                f"records must have shape (n, {self.n_features + 1}): {self.n_features} "
                f"feature(s), then the response; got shape {shape}"
            )
        check_numbers(records)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
        return {
            "type": "RegressionMoments",
            "n_features": self.n_features,
            "lower": bound_to_json(self.lower),
            "upper": bound_to_json(self.upper),
        }
