"""Clamped entries of a record and all of their products: `Moments` and `RegressionMoments`.

A record of q numbers is clamped to published bounds and scaled to z in [-1, 1]^q,

    z = 2 (clamp(x, lower, upper) - lower) / (upper - lower) - 1.

Its moments are the z_j, and the products z_j z_k, j <= k, row by row: q (q + 3) / 2 numbers in this
*natural order*, which estimate a mean vector and a covariance matrix. A query with another order
defines it by `places`: the moment at position m of the natural order is column places[m] of the
statistic.

`RegressionMoments` follows the paper's section 5. A record is p features and a response, and with
the intercept in front, x = (1, x1, ..., xp), its statistic is

    t = (x y,  y^2,  the upper triangle of x'x, row by row, without its constant first entry),

the same numbers for q = p + 1 in another order.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import Clamping
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours, Reading
from noiseaware.queries.arguments import (
    Bound,
    as_bounds,
    as_float_records,
    bound_array,
    check_columns,
    check_norm,
    check_numbers,
    vector_norm,
)
from noiseaware.registry import QUERIES

BLOCK = 512
"""Records processed together, so that their moments stay in the cache."""


@njit(cache=True, nogil=True)
def clamped_moments(records, centre, scale, places, moments):
    """Fill in the moments of every record, `moments` (n, q (q + 3) / 2).

    `records` is (n, q); `centre` and `scale` (q,) are the middle of the bounds and
    2 / (upper - lower); `places` (q (q + 3) / 2,) is the column of each moment. Works column by
    column within a block of records, which keeps the loops simple for the compiler.
    """
    n, width = records.shape
    for start in range(0, n, BLOCK):
        block = range(start, min(start + BLOCK, n))
        for j in range(width):
            column = places[j]
            middle, factor = centre[j], scale[j]
            for i in block:
                # Clamping after scaling is equivalent, and rounding cannot leave [-1, 1].
                scaled = (records[i, j] - middle) * factor
                moments[i, column] = min(max(scaled, -1.0), 1.0)
        position = width
        for j in range(width):
            first = places[j]
            for k in range(j, width):
                second, column = places[k], places[position]
                for i in block:
                    moments[i, column] = moments[i, first] * moments[i, second]
                position += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def clamped_totals(records, centre, scale, places, total):
    """Add the moments of every record to `total`, (q (q + 3) / 2,), without storing them.

    Arguments as in `clamped_moments`. "reassoc" lets the sums become vector instructions.
    """
    n, width = records.shape
    scaled = np.empty((width, BLOCK))
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for j in range(width):
            middle, factor = centre[j], scale[j]
            simple = 0.0
            for i in range(size):
                scaled[j, i] = min(max((records[start + i, j] - middle) * factor, -1.0), 1.0)
                simple += scaled[j, i]
            total[places[j]] += simple
        position = width
        for j in range(width):
            for k in range(j, width):
                product = 0.0
                for i in range(size):
                    product += scaled[j, i] * scaled[k, i]
                total[places[position]] += product
                position += 1


class ClampedMoments(NamedTuple):
    """The arguments of `clamped_moments` that define a query."""

    centre: Floats
    scale: Floats
    places: NDArray[np.int64]


class MomentsQuery(Clamping):
    """A query of clamped moments; a subclass defines names and `places`."""

    lower: Bound
    upper: Bound
    names: tuple[str, ...]
    integer_valued: ClassVar[bool] = False
    _moments: ClampedMoments
    _columns: str = ""
    """The columns of a record, described for messages."""

    def _hold_bounds(
        self, lower: ArrayLike, upper: ArrayLike, places: NDArray[np.int64], q: int, right: str
    ) -> None:
        """Keep the bounds of q columns; `right` says in errors what a list must be."""
        low, high = as_bounds(lower, upper)
        for name, bound in (("lower", low), ("upper", high)):
            if isinstance(bound, tuple) and len(bound) != q:
                raise ValueError(f"{name} must be a number or {right}; got {len(bound)} numbers")
        a, b = bound_array(low, q), bound_array(high, q)
        half_width = b / 2 - a / 2
        if half_width.min() < 1e-300:
            raise ValueError(f"upper - lower is too small to divide by; got {(b - a).min()}")
        moments = ClampedMoments(a / 2 + b / 2, 1.0 / half_width, places)
        self._hold(lower=low, upper=high, _moments=moments)

    def _read(self, records: ArrayLike) -> Floats:
        """Return the records as floats, (n, q)."""
        records = self._rows(as_float_records(records, self))
        self._check_columns(records)  # or compiled code would read past the end
        return records

    def _rows(self, records: NDArray[Any]) -> NDArray[Any]:
        """Return records of one column as rows, where a model has them as plain numbers (n,)."""
        plain = len(self._moments.centre) == 1 and records.ndim == 1
        return records[:, np.newaxis] if plain else records

    def reading(self, totals: Floats, n: int) -> Reading:
        """Return the mean, (q,), and a positive semidefinite scatter matrix, (q, q), of records.

        Sums are clamped to [-n, n]. The scatter matrix sum z z' - (sum z)(sum z)'/n is replaced by
        the nearest positive semidefinite one: negative eigenvalues become 0. The scaling is undone;
        the clamping cannot be.
        """
        centre, scale, places = self._moments
        q, natural = len(centre), totals[places]
        sums, products = np.clip(natural[:q], -n, n), np.empty((q, q))
        rows, columns = np.triu_indices(q)
        products[rows, columns] = products[columns, rows] = natural[q:]
        eigenvalues, vectors = np.linalg.eigh(products - np.outer(sums, sums) / n)
        scatter = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        half_width = 1.0 / scale
        return Reading(
            "moments",
            (centre + half_width * (sums / n), scatter * np.outer(half_width, half_width)),
            "after undoing the scaling and making the matrix of moments positive semidefinite, as "
            "if nothing was clamped",
            (centre - half_width, centre + half_width),
        )

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the moments of each record, (n, q (q + 3) / 2)."""
        records = self._read(records)
        moments = np.empty((records.shape[0], len(self.names)))
        clamped_moments(records, *self._moments, moments)
        return moments

    def total(self, records: ArrayLike) -> Floats:
        """Return the sum of `statistic` over the records, (q (q + 3) / 2,)."""
        total = np.zeros(len(self.names))
        clamped_totals(self._read(records), *self._moments, total)
        return total

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        r"""Return how far one record can move the total; every value is attained.

        With q entries in a record (see `docs/sensitivity.md` for the proofs):

        ==========  ==========================  =========================
        norm        change one record           add or remove one record
        ==========  ==========================  =========================
        1           q(q+3)/2 + q/(2(q+1))       q(q+3)/2
        2           2 sqrt(floor((q+1)^2 / 4))  sqrt(q(q+3)/2)
        inf         2                           1
        ==========  ==========================  =========================

        For p features and a response, q = p + 1, the paper's p^2 + 3p + 3 for norm 1 is a safe
        upper bound: at p = 2 it is 13, not 9.375.
        """
        check_norm(norm, neighbours)
        q = len(self._moments.centre)
        if neighbours == "add-remove":
            return vector_norm(np.ones(q * (q + 3) // 2), norm)
        if norm == 1:
            return q * (q + 2) ** 2 / (2 * (q + 1))
        return 2.0 * math.sqrt((q + 1) ** 2 // 4) if norm == 2 else 2.0

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n, q)."""
        records = self._rows(as_array(records, self))
        self._check_columns(records)
        check_numbers(records)

    def _check_columns(self, records: NDArray[Any]) -> None:
        check_columns(records, len(self._moments.centre), self._columns)

    def possible(self, totals: Floats, n: int) -> Floats:
        """Return the nearest totals between -n and n."""
        return np.clip(totals, -n, n)


def product_names(columns: list[str]) -> list[str]:
    """Return the names of the columns' squares and products, row by row."""
    return [f"{x}^2" if x == y else f"{x}*{y}" for j, x in enumerate(columns) for y in columns[j:]]


class Moments(MomentsQuery):
    """The sums, squares and products of all columns, each clamped and then scaled to [-1, 1].

    Records are floats (n, n_columns); with one column they may be plain numbers (n,), as those of
    `Normal` are.

    Parameters
    ----------
    n_columns
        The number of columns q.
    lower, upper
        The bounds to which the columns are clamped: a number for all of them, or q numbers. The
        released moments are of (x - middle) / half the width of the bounds, in [-1, 1].

    Examples
    --------
    >>> query = Moments(n_columns=2, lower=-10, upper=10)
    >>> query.names
    ('x1', 'x2', 'x1^2', 'x1*x2', 'x2^2')
    >>> query.statistic([[5.0, 20.0]])
    array([[0.5 , 1.  , 0.25, 0.5 , 1.  ]])
    >>> round(query.sensitivity(norm=1), 3)
    5.333
    """

    n_columns: int
    example_arguments = {"n_columns": 2, "lower": [-6, -3], "upper": [6, 3]}

    def __init__(self, n_columns: int, lower: ArrayLike, upper: ArrayLike) -> None:
        q = whole_number("n_columns", n_columns)
        columns = [f"x{j}" for j in range(1, q + 1)]
        names = (*columns, *product_names(columns))
        right = f"{q} numbers, one for each column"
        self._hold_bounds(lower, upper, np.arange(len(names)), q, right)
        self._hold(n_columns=q, names=names)


def _places(p: int) -> NDArray[np.int64]:
    """Return the columns of the moments of (x_1, ..., x_p, y), given in natural order."""
    y, y_squared, x1 = 0, p + 1, p + 2
    linear = [*range(x1, x1 + p), y]
    features = iter(range(x1 + p, x1 + p + p * (p + 1) // 2))
    products = []
    for j in range(p):
        products += [next(features) for _ in range(j, p)]
        products.append(1 + j)  # x_j y
    return np.array([*linear, *products, y_squared])


class RegressionMoments(MomentsQuery):
    """The sums, squares and products that a linear regression needs, of columns in [-1, 1].

    Each column is clamped to its bounds and scaled, (x - middle) / half the width of the bounds.
    Records are floats (n, n_features + 1), the response last.

    Parameters
    ----------
    n_features
        The number of features p, without the intercept.
    lower, upper
        The bounds to which features and response are clamped: a number for all of them, or
        n_features + 1 numbers, the response last.

    Examples
    --------
    >>> query = RegressionMoments(n_features=2, lower=-10, upper=10)
    >>> query.names
    ('y', 'x1*y', 'x2*y', 'y^2', 'x1', 'x2', 'x1^2', 'x1*x2', 'x2^2')
    >>> query.statistic([[5.0, 20.0, 5.0]])
    array([[0.5 , 0.25, 0.5 , 0.25, 0.5 , 1.  , 0.25, 0.5 , 1.  ]])
    >>> query.sensitivity(norm=1), query.sensitivity(norm=2)
    (9.375, 4.0)
    """

    in_words = (
        "The sums, squares and products of features and response that a linear regression needs, "
        "after each was scaled to lie between −1 and 1."
    )
    n_features: int
    example_arguments = {"n_features": 1, "lower": [-6, -3], "upper": [6, 3]}

    def __init__(self, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        p = whole_number("n_features", n_features)
        features = [f"x{j}" for j in range(1, p + 1)]
        products = (f"{x}*y" for x in features)
        right = f"{p + 1} numbers ({p} features, then the response)"
        self._hold_bounds(lower, upper, _places(p), p + 1, right)
        names = ("y", *products, "y^2", *features, *product_names(features))
        columns = f": {p} feature(s), then the response"
        self._hold(n_features=p, names=names, _columns=columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of a frame's columns: x1, x2, ..., y."""
        return (*(f"x{j}" for j in range(1, self.n_features + 1)), "y")

    @property
    def regression_clamps(self) -> tuple[Floats, Floats]:
        """The centres c and factors f, (p + 1,): an entry z within bounds becomes (z - c) f."""
        return self._moments.centre, self._moments.scale


QUERIES.add(Moments, RegressionMoments)
