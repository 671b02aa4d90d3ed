"""A query asked of each group, of one group, or of one column of the records.

A record is its group, an integer from 0, followed by the rest: records are (n, 2) or (n, 1 + w),
and the inner query sees the rest, (n,) or (n, w). The groups are public and fixed (such as who was
treated); the rest is confidential.

A record belongs to one group and moves only that group's coordinates. The sensitivities are
therefore those of the inner query: this is parallel composition (McSherry 2009), proved in
`docs/sensitivity.md`.

`InColumn` asks the inner query of one column of the records, (n,), with the same sensitivities.

Reference
---------
McSherry, F. (2009). Privacy integrated queries. SIGMOD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, refuse, whole_number
from noiseaware.basics.described import Described, query_words
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours, Query, Reading, check_query, query_abilities
from noiseaware.queries.arguments import check_norm
from noiseaware.queries.counts import Count, possible_counts
from noiseaware.registry import QUERIES


@njit(cache=True, nogil=True)
def place_rows(groups, rows, n_groups, placed):
    """Write the first column of each row's group, then the row (n, d), into `placed` (n, 1 + d).

    Returns whether all groups are in range; if not, `placed` must not be used.
    """
    d = rows.shape[1]
    for i in range(rows.shape[0]):
        group = groups[i]
        if not 0 <= group < n_groups:
            return False
        placed[i, 0] = group * d
        for j in range(d):
            placed[i, 1 + j] = rows[i, j]
    return True


@njit(cache=True, nogil=True)
def add_to_groups(groups, rows, totals):
    """Add each row (n, d) to its group's row of `totals` (G, d); returns as `place_rows`."""
    for i in range(rows.shape[0]):
        group = groups[i]
        if not 0 <= group < totals.shape[0]:
            return False
        for j in range(rows.shape[1]):
            totals[group, j] += rows[i, j]
    return True


@njit(cache=True, nogil=True)
def spread_cells(groups, inner, d, n_groups, cells):
    """Shift the cells (n, k), of d, to those of their groups; -1 stays. Returns as `place_rows`."""
    for i in range(inner.shape[0]):
        group = groups[i]
        if not 0 <= group < n_groups:
            return False
        for a in range(inner.shape[1]):
            cells[i, a] = group * d + inner[i, a] if inner[i, a] >= 0 else -1
    return True


def _split(records: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the groups, (n,), and the rest of the records, (n,) or (n, w)."""
    array = as_array(records)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(
            "records must have shape (n, 2) or (n, 1 + w), the group first; "
            f"got shape {array.shape}"
        )
    rest = array[:, 1] if array.shape[1] == 2 else array[:, 1:]
    return array[:, 0].astype(np.int64), np.ascontiguousarray(rest)


def _check_groups(records: ArrayLike, n_groups: int | None) -> None:
    """Raise ValueError unless the first column holds groups, below `n_groups` if known."""
    _split(records)
    groups = as_array(records)[:, 0]
    wrong = (groups != np.floor(groups)) | (groups < 0)
    right = "the groups, in the first column, must be whole numbers from 0"
    if n_groups is not None:
        wrong |= groups >= n_groups
        right += f" to {n_groups - 1}"
    refuse(right, groups, wrong, "in record {}".format)


class GroupedQuery(Described):
    """A query of groups of records; it has cells only if the inner query has them.

    The inner query may be given as the mapping that its `to_dict` wrote.
    """

    query: Any
    names: tuple[str, ...]
    n_groups: int | None = None
    integer_valued: bool
    cells: Callable[[ArrayLike], NDArray[np.int64]] | None
    placed: Callable[[ArrayLike], Floats] | None = None
    possible: Callable[[Floats, int], Floats] | None

    def _hold_query(self, query: Query | Mapping[str, Any]) -> None:
        query = QUERIES.read(query) if isinstance(query, Mapping) else check_query(query)
        abilities = query_abilities(query)
        counts = abilities.cells is not None
        self._hold(
            query=query,
            integer_valued=abilities.integer_valued,
            cells=self._cells if counts else None,
            possible=possible_counts if counts else None,
        )

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cells to which each record adds 1, (n, k)."""
        raise NotImplementedError

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total: the inner query's sensitivity."""
        check_norm(norm, neighbours)
        return self.query.sensitivity(norm, neighbours=neighbours)

    def _inside(self, records: ArrayLike) -> NDArray[Any]:
        """Return what the inner query sees of the records; ValueError if they do not fit."""
        _check_groups(records, self.n_groups)
        return _split(records)[1]

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records fit this query and the inner one."""
        inside, check = self._inside(records), query_abilities(self.query).check_records
        if check is not None:
            check(inside)


class ByGroup(GroupedQuery):
    """A query asked of each group: the coordinates of group 0, then of group 1, ...

    Parameters
    ----------
    query
        The inner query; it sees the records without their first column.
    n_groups
        The number of groups; the first column of the records is 0, ..., n_groups - 1.
    labels
        The groups' names; by default "group=0", "group=1", ...

    Examples
    --------
    >>> from noiseaware.queries import Count
    >>> query = ByGroup(Count(), n_groups=2, labels=["control", "treated"])
    >>> query.names
    ('control: count of 1', 'treated: count of 1')
    >>> query.statistic([[0, 1], [1, 0], [1, 1]])
    array([[1., 0.],
           [0., 0.],
           [0., 1.]])
    >>> query.sensitivity(norm=1)
    1.0
    """

    n_groups: int
    labels: tuple[str, ...]
    example_arguments = {"query": Count.example(), "n_groups": 2}

    def __init__(self, query: Query, n_groups: int, labels: Sequence[str] | None = None) -> None:
        self._hold_query(query)
        n_groups = whole_number("n_groups", n_groups)
        self._hold(placed=self._placed if self.cells is None else None)
        if labels is None:
            labels = [f"group={group}" for group in range(n_groups)]
        named = as_labels("labels", labels, n_groups)
        names = tuple(f"{a}: {b}" for a in named for b in self.query.names)
        self._hold(n_groups=n_groups, labels=named, names=names)

    def statistic(self, records: ArrayLike) -> Floats:
        """Return t of each record in its group's columns, zeros elsewhere, (n, G d)."""
        rows = self._placed(records)
        columns = rows[:, :1].astype(np.int64) + np.arange(len(self.query.names))
        spread = np.zeros((len(rows), len(self.names)))
        np.put_along_axis(spread, columns, rows[:, 1:], axis=1)
        return spread

    def total(self, records: ArrayLike) -> Floats:
        """Return the total, (G d,), without the full `statistic`."""
        groups, rows = self._rows(records)
        totals = np.zeros((self.n_groups, rows.shape[1]))
        if not add_to_groups(groups, rows, totals):
            self.check_records(records)  # says which record it is
        return totals.ravel()

    def _rows(self, records: ArrayLike) -> tuple[NDArray[np.int64], Floats]:
        """Return each record's group, (n,), and t, (n, d)."""
        groups, rest = _split(records)
        return groups, np.ascontiguousarray(self.query.statistic(rest), dtype=np.float64)

    def _placed(self, records: ArrayLike) -> Floats:
        """Return the first column of each record's group, then t of the record, (n, 1 + d)."""
        groups, rows = self._rows(records)
        placed = np.empty((len(rows), 1 + rows.shape[1]))
        if not place_rows(groups, rows, self.n_groups, placed):
            self.check_records(records)
        return placed

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        groups, rest = _split(records)
        inner = self.query.cells(rest)
        cells = np.empty(inner.shape, dtype=np.int64)
        if not spread_cells(groups, inner, len(self.query.names), self.n_groups, cells):
            self.check_records(records)
        return cells

    def words(self) -> list[str]:
        return ["Of each group of records separately.", *query_words(self.query)]

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return a function from the groups' sizes to the inner query's reading of each group."""
        read = query_abilities(self.query).reading
        rows = totals.reshape(self.n_groups, -1)
        one = None if read is None else read(rows[0], n)
        if read is None or one is None:
            return None

        def groups(sizes: Sequence[int]) -> list[Reading | None] | None:
            if len(sizes) != self.n_groups:
                return None
            return [read(row, size) for row, size in zip(rows, sizes, strict=True)]

        return Reading("groups", groups, one.words)


class InGroup(GroupedQuery):
    """A query asked of one group only; the records of the others add nothing.

    `noiseaware.mechanisms.Several` combines releases of different groups, each with its own
    epsilon.

    Parameters
    ----------
    query
        The inner query; it sees the records without their first column.
    group
        The group's number, from 0.

    Examples
    --------
    >>> from noiseaware.queries import Sum
    >>> query = InGroup(Sum(0, 10), group=1)
    >>> query.statistic([[0, 3.0], [1, 4.0]]).ravel()
    array([0., 4.])
    >>> query.names
    ('sum',)
    """

    group: int
    example_arguments = {"query": Count.example(), "group": 0}

    def __init__(self, query: Query, group: int) -> None:
        self._hold_query(query)
        self._hold(group=whole_number("group", group, least=0), names=tuple(self.query.names))

    def statistic(self, records: ArrayLike) -> Floats:
        """Return t of the group's records and zeros for the others, (n, d)."""
        groups, rest = _split(records)
        return np.where((groups == self.group)[:, np.newaxis], self.query.statistic(rest), 0.0)

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        groups, rest = _split(records)
        return np.where((groups == self.group)[:, np.newaxis], self.query.cells(rest), -1)

    def words(self) -> list[str]:
        return [f"Of the records of group {self.group} only.", *query_words(self.query)]


class InColumn(GroupedQuery):
    """A query asked of one column of the records; queries of several columns go into `Several`.

    Parameters
    ----------
    query
        The inner query.
    column
        The column's number, from 0.

    Examples
    --------
    >>> from noiseaware.queries import Sum
    >>> query = InColumn(Sum(0, 10), column=1)
    >>> query.statistic([[5.0, 3.0], [1.0, 40.0]]).ravel()
    array([ 3., 10.])
    """

    column: int
    example_arguments = {"query": Count.example(), "column": 0}

    def __init__(self, query: Query | Mapping[str, Any], column: int) -> None:
        self._hold_query(query)
        self._hold(column=whole_number("column", column, least=0), names=tuple(self.query.names))

    def _inside(self, records: ArrayLike) -> NDArray[Any]:
        array = as_array(records)
        if array.ndim != 2 or array.shape[1] <= self.column:
            raise ValueError(
                f"records must have at least {self.column + 1} columns; got shape {array.shape}"
            )
        return np.ascontiguousarray(array[:, self.column])

    def statistic(self, records: ArrayLike) -> Floats:
        """Return t of the column, (n, d)."""
        return self.query.statistic(self._inside(records))

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        return self.query.cells(self._inside(records))

    def words(self) -> list[str]:
        return [f"Of column {self.column + 1} of the records.", *query_words(self.query)]


QUERIES.add(ByGroup, InGroup, InColumn)
