"""What `Moments` and `RegressionMoments` share: clamped entries and all of their products.

A record of q numbers is clamped and moved to z in [-1, 1]^q. Its moments are the z_j, and the
products z_j z_k, j <= k, row by row: q (q + 3) / 2 numbers in this *natural order*. A query that
writes them in another order says so by `places`: the moment at position m of the natural order is
column places[m] of the statistic.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.described import Described, clamped_words
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

BLOCK = 512
"""Records that are summarised together; their moments stay in the cache meanwhile."""


@njit(cache=True, nogil=True)
def clamped_moments(records, centre, scale, places, moments):
    """Fill in the moments of every record, `moments` (n, q (q + 3) / 2).

    `records` (n, q); `centre` and `scale` (q,) are the middle of the bounds and
    2 / (upper - lower); `places` (q (q + 3) / 2,) is the column of each moment. Column by column
    within a block of records, which leaves the compiler simple loops.
    """
    n, width = records.shape
    for start in range(0, n, BLOCK):
        block = range(start, min(start + BLOCK, n))
        for j in range(width):
            column = places[j]
            middle, factor = centre[j], scale[j]
            for i in block:
                # Clamping after the scaling is the same, and rounding cannot lead out of [-1, 1].
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
    """Add the moments of every record to `total`, (q (q + 3) / 2,), without keeping them.

    Arguments as in `clamped_moments`. The sums may be taken in any order ("reassoc"), so that they
    become vector instructions.
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
    """The moments as a query writes them; the arguments of `clamped_moments`."""

    centre: Floats
    scale: Floats
    places: NDArray[np.int64]


class MomentsQuery(Described):
    """A query of clamped moments; a subclass names the columns and says where moments go."""

    lower: Bound
    upper: Bound
    names: tuple[str, ...]
    integer_valued: ClassVar[bool] = False
    _moments: ClampedMoments
    _columns: str = ""
    """What the columns of a record are, for a message."""

    def _hold_bounds(
        self, lower: ArrayLike, upper: ArrayLike, places: NDArray[np.int64], q: int, right: str
    ) -> None:
        """Keep the bounds of q columns; an error says what would be `right` if not a number."""
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
        records = as_float_records(records, self)
        self._check_columns(records)  # or compiled code would read past the end
        return records

    def reading(self, totals: Floats, n: int) -> Reading:
        """Return the mean, (q,), and a positive semidefinite scatter matrix, (q, q), of records.

        The sums are moved to [-n, n]. The scatter matrix sum z z' - (sum z)(sum z)'/n is replaced
        by the nearest positive semidefinite one: negative eigenvalues become 0. Then the scaling
        is undone; clamping cannot be.
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

        For p features and a response, q = p + 1, the paper uses p^2 + 3p + 3 for norm 1, which is
        safe: at p = 2 it is 13, not 9.375.
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
        records = as_array(records, self)
        self._check_columns(records)
        check_numbers(records)

    def _check_columns(self, records: NDArray[Any]) -> None:
        check_columns(records, len(self._moments.centre), self._columns)

    def possible(self, totals: Floats, n: int) -> Floats:
        """Return the nearest totals between -n and n."""
        return np.clip(totals, -n, n)

    def words(self) -> list[str]:
        """Return what was asked, in sentences for the report."""
        return [*super().words(), clamped_words(self.lower, self.upper)]


def product_names(columns: list[str]) -> list[str]:
    """Return the names of all squares and products of the columns, row by row."""
    return [f"{x}^2" if x == y else f"{x}*{y}" for j, x in enumerate(columns) for y in columns[j:]]
