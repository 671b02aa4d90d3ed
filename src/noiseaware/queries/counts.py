"""Counts of records: all, at a value, by a condition, in bins, at the levels of a category."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, function_name, whole_number
from noiseaware.basics.described import Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours, Reading
from noiseaware.queries.arguments import (
    as_float_records,
    as_integer_records,
    check_flat,
    check_integer_dtype,
    check_norm,
    check_range,
    check_real_dtype,
    vector_norm,
)
from noiseaware.registry import QUERIES


@njit(cache=True, nogil=True)
def count_statistic(cells, n_cells):
    """Return the statistic (n, d) of records that add 1 to the cells (n, k); -1 is no cell."""
    statistic = np.zeros((cells.shape[0], n_cells))
    for i in range(cells.shape[0]):
        for k in range(cells.shape[1]):
            cell = cells[i, k]
            if cell >= 0:
                statistic[i, cell] += 1.0
    return statistic


def possible_counts(totals: Floats, n: int) -> Floats:
    """Return the nearest counts between 0 and n."""
    return np.clip(totals, 0.0, n)


class CountsQuery(Described):
    """A query whose total is tables of counts: each record adds 1 to a few cells."""

    names: tuple[str, ...]
    n_tables: int = 1
    """The number of tables; a record adds 1 to at most one cell of each."""
    integer_valued: ClassVar[bool] = True
    possible = staticmethod(possible_counts)

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cells to which each record adds 1, (n, k); -1 is no cell."""
        raise NotImplementedError

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the counts that each record adds, (n, d)."""
        return count_statistic(self.cells(records), len(self.names))

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total; every value is attained.

        Adding or removing a record changes one cell of each of K tables by 1. Changing a record
        takes 1 from a cell of each and adds 1 to another, so min(2K, d) cells change by 1. The norm
        of k ones is k (l1), sqrt(k) (l2) or 1.
        """
        check_norm(norm, neighbours)
        changed = self.n_tables
        if neighbours == "change":
            changed = min(2 * changed, len(self.names))
        return vector_norm(np.ones(changed), norm)


Predicate = Callable[[NDArray[Any]], NDArray[np.bool_]]


class Count(CountsQuery):
    """How many records are equal to `value`, or satisfy `predicate`.

    Parameters
    ----------
    value
        The value to count, among records of shape (n,). None counts every record, of any shape, as
        is done where the number of records is confidential. Ignored with a predicate.
    predicate
        A function of the records, of any shape (n, ...), that returns n booleans. A query
        with a predicate cannot be written to a file.
    name
        The name of the count; by default from the value or the function's name.

    Examples
    --------
    >>> Count(value=1).statistic([0, 1, 1]).ravel()
    array([0., 1., 1.])
    >>> Count(predicate=lambda records: records[:, 0] > 40, name="over 40").names
    ('over 40',)
    """

    value: float | None
    predicate: Predicate | None
    name: str | None
    example_arguments = {"value": 1}

    def __init__(
        self,
        value: float | None = 1,
        *,
        predicate: Predicate | None = None,
        name: str | None = None,
    ) -> None:
        if isinstance(value, np.generic):
            value = value.item()
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise ValueError(
                f"value must be a finite number; got {value!r} (None counts every record)"
            )
        if predicate is not None and not callable(predicate):
            raise TypeError(f"predicate must be a function; got {predicate!r}")
        if name is not None and not (isinstance(name, str) and name):
            raise ValueError(f"name must be a text that is not empty; got {name!r}")
        counted = value if predicate is None else function_name(predicate)
        names = (name or ("count of records" if counted is None else f"count of {counted}"),)
        self._hold(value=value, predicate=predicate, name=name, names=names)

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return 0, the only cell, for each record counted, else -1, (n, 1)."""
        return self._is_counted(records).astype(np.int64).reshape(-1, 1) - 1

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return 1, or 0 for a count of every record when one of them is changed."""
        moved = super().sensitivity(norm, neighbours)
        return 0.0 if self._counts_all and neighbours == "change" else moved

    @property
    def point(self) -> float | None:
        """The value counted, or None with a predicate."""
        return self.value if self.predicate is None else None

    @property
    def _counts_all(self) -> bool:
        return self.value is None and self.predicate is None

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return the counts of 0 and 1, if one of them is counted."""
        if self.predicate is not None or self.value not in (0, 1):
            return None
        count = float(np.clip(totals[0], 0.0, n))
        counts = np.array([n - count, count] if self.value == 1 else [count, n - count])
        return Reading("counts", counts, "after moving impossible counts to possible ones")

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are numbers (n,), or suit the predicate."""
        array = as_array(records, self)
        if self._counts_all:
            return
        if self.predicate is None:
            check_real_dtype(array)
        self._is_counted(array)

    def to_dict(self) -> dict[str, Any]:
        if self.predicate is not None:
            raise ValueError(
                f"a Count with a predicate ({function_name(self.predicate)}) cannot be written "
                "to a file: a file holds no functions"
            )
        return {**super().to_dict(), "value": self.value}  # None says something here

    def words(self) -> list[str]:
        if self._counts_all:
            return ["How many records there are."]
        if self.predicate is None:
            return [f"How many records have the value {self.value:g}."]
        return [f"How many records: {self.names[0]}."]

    def _is_counted(self, records: ArrayLike) -> NDArray[np.bool_]:
        array = as_array(records, self)
        if self._counts_all:
            return np.ones(len(array), dtype=np.bool_)
        if self.predicate is None:
            check_flat(array)
            return array == self.value
        counted = np.asarray(self.predicate(array))
        # The sensitivity is 1 only if each record adds 0 or 1.
        if counted.shape != array.shape[:1] or counted.dtype != np.bool_:
            raise ValueError(
                f"predicate {function_name(self.predicate)} must return {len(array)} booleans, "
                f"one for each record; got shape {counted.shape} of {counted.dtype}"
            )
        return counted


@njit(cache=True, nogil=True)
def bin_cells(records, edges, cells):
    """Fill in the bin of every record, `cells` (n, 1); -1 outside all bins.

    Bin j is edges[j] <= x < edges[j + 1]; the last bin includes its upper edge, as in
    `numpy.histogram`.
    """
    last = edges.shape[0] - 1
    for i in range(records.shape[0]):
        x = records[i]
        if not edges[0] <= x <= edges[last]:  # also when x is NaN
            cells[i, 0] = -1
            continue
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if edges[middle] <= x:
                low = middle
            else:
                high = middle
        cells[i, 0] = low


@njit(cache=True, nogil=True)
def level_cells(records, n_levels, cells):
    """Fill in the cell of every record, its level, `cells` (n, 1).

    Returns whether all levels are in range; if not, `cells` must not be used.
    """
    in_range = True
    for i in range(records.shape[0]):
        in_range &= 0 <= records[i] < n_levels
        cells[i, 0] = records[i]
    return in_range


class Histogram(CountsQuery):
    """How many records are in each bin, or at each level.

    Give either `edges`, for numbers, or `n_levels`, for integer categories. Records have shape
    (n,).

    Parameters
    ----------
    edges
        Increasing edges of the bins; the first may be -inf and the last inf. Records outside all
        bins are not counted. A record on an edge belongs to the bin above; the last bin includes
        its upper edge.
    n_levels
        The number of levels; records are 0, ..., n_levels - 1.
    labels
        Names of the bins or levels, to replace the default ones.

    Examples
    --------
    >>> query = Histogram(edges=[0, 10, 20])
    >>> query.names
    ('[0, 10)', '[10, 20]')
    >>> query.cells([3.0, 10.0, 25.0]).ravel()
    array([ 0,  1, -1])
    >>> Histogram(n_levels=2).names
    ('level=0', 'level=1')
    """

    in_words = "How many records fall in each cell."
    edges: tuple[float, ...] | None
    n_levels: int | None
    labels: tuple[str, ...] | None
    _edges: Floats
    example_arguments = {"n_levels": 3}

    def __init__(
        self,
        *,
        edges: Sequence[float] | None = None,
        n_levels: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        if (edges is None) == (n_levels is None):
            raise ValueError(
                "give edges or n_levels, one of the two; "
                f"got edges={edges!r}, n_levels={n_levels!r}"
            )
        if edges is not None:
            edges = _as_edges(edges)
            names = _bin_names(edges)
        else:
            n_levels = whole_number("n_levels", n_levels, least=2)
            names = tuple(f"level={level}" for level in range(n_levels))
        if labels is not None:
            labels = names = as_labels("labels", labels, len(names))
        inner = np.array(edges or (), dtype=np.float64)
        self._hold(edges=edges, n_levels=n_levels, labels=labels, names=names, _edges=inner)

    @property
    def n_cells(self) -> int | None:
        """The number of levels, which must agree with the model's if it lists levels."""
        return self.n_levels

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cell of each record, -1 outside all bins, (n, 1)."""
        read = as_integer_records if self.edges is None else as_float_records
        array = read(records, self)
        check_flat(array)  # compiled code takes (n,) only
        cells = np.empty((array.shape[0], 1), dtype=np.int64)
        if self.edges is not None:
            bin_cells(array, self._edges, cells)
        elif not level_cells(array, self.n_levels, cells):
            self.check_records(array)  # says which record it is
        return cells

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return the counts of the levels; bins are too coarse for a model."""
        if self.n_levels is None:
            return None
        return Reading("counts", np.maximum(totals, 0.0), "with negative counts set to 0")

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are numbers or levels of shape (n,)."""
        array = as_array(records, self)
        check_flat(array)
        if self.n_levels is not None:
            check_integer_dtype(array)
            check_range("records", array, self.n_levels)
            return
        check_real_dtype(array)
        if np.isnan(array).any():
            raise ValueError(
                f"records must not be NaN; got NaN in record {np.isnan(array).argmax()}"
            )


def _as_edges(edges: Sequence[float | str]) -> tuple[float, ...]:
    try:
        result = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        raise TypeError(f"edges must be a list of numbers; got {edges!r}") from None
    if len(result) < 2:
        raise ValueError(f"edges must be at least 2 numbers; got {len(result)}")
    for a, b in pairwise(result):
        if not a < b:  # also when one is NaN
            raise ValueError(f"edges must be increasing; got {a} before {b}")
    return result


def _bin_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    # More than six digits only where two edges would have the same name.
    digits = next(k for k in (6, 9, 12, 17) if len({f"{e:.{k}g}" for e in edges}) == len(edges))
    texts = [f"{edge:.{digits}g}" for edge in edges]
    names = [f"[{a}, {b})" for a, b in pairwise(texts)]
    names[-1] = names[-1][:-1] + "]"
    return tuple(names)


QUERIES.add(Count, Histogram)
