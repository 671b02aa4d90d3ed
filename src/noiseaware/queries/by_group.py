"""A query asked of each group, or of one group, of records whose group is known.

A record is its group, an integer from 0, followed by the rest: (n, 2) for one number beside the
group, (n, 1 + w) for w of them. The query inside sees the rest, (n,) or (n, w). The groups are
public and fixed (so many people were treated, so many were not), and what is confidential is the
rest of the record.

One record is in one group. So whatever happens to it moves the coordinates of that group only, as
far as it would move the query inside, and the sensitivities are those of the query inside: this is
parallel composition (McSherry 2009), proved in `docs/sensitivity.md`.

Reference
---------
McSherry, F. (2009). Privacy integrated queries. SIGMOD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.frames import as_array
from noiseaware.queries.arguments import check_norm
from noiseaware.queries.protocol import Neighbours, QueryLike


@njit(cache=True, nogil=True)
def spread_rows(groups, rows, spread):
    """Write the rows (n, d) into the columns of their groups, of `spread` (n, G d), zeros before.

    Returns whether all groups are in range. If not, `spread` must not be used.
    """
    d = rows.shape[1]
    n_groups = spread.shape[1] // d
    for i in range(rows.shape[0]):
        group = groups[i]
        if not 0 <= group < n_groups:
            return False
        for j in range(d):
            spread[i, group * d + j] = rows[i, j]
    return True


@njit(cache=True, nogil=True)
def spread_cells(groups, inner, d, n_groups, cells):
    """Write the cells (n, k), of d, as cells of their groups; -1 stays. As `spread_rows`."""
    for i in range(inner.shape[0]):
        group = groups[i]
        if not 0 <= group < n_groups:
            return False
        for a in range(inner.shape[1]):
            cells[i, a] = group * d + inner[i, a] if inner[i, a] >= 0 else -1
    return True


def _as_query(query: Any) -> QueryLike:
    """Return the query; what `to_dict` wrote of it will do, as it stands in a file."""
    if isinstance(query, Mapping):
        from noiseaware.queries.registry import from_dict

        return from_dict(query)
    missing = [name for name in ("names", "statistic", "sensitivity") if not hasattr(query, name)]
    if missing or isinstance(query, type):
        raise TypeError(f"query must be a query, such as Count(); got {query!r}")
    return query


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
    """Raise ValueError unless the first column holds groups, below `n_groups` if that is known."""
    _split(records)
    groups = as_array(records)[:, 0]
    bad = (groups != np.floor(groups)) | (groups < 0)
    right = "whole numbers from 0"
    if n_groups is not None:
        bad |= groups >= n_groups
        right = f"whole numbers from 0 to {n_groups - 1}"
    if bad.any():
        where = int(np.argmax(bad))
        raise ValueError(
            f"the groups, in the first column, must be {right}; got {groups[where]} "
            f"in record {where}"
        )


@dataclass(frozen=True, init=False)
class ByGroup:
    """A query asked of each group: the coordinates of group 0, then of group 1, ...

    Parameters
    ----------
    query
        What is asked of each group; it sees the records without their first column.
    n_groups
        The number of groups; the first column of the records is 0, ..., n_groups - 1.
    labels
        A name for each group; "group=0", "group=1", ... if not given.

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

    query: QueryLike
    n_groups: int
    labels: tuple[str, ...]
    names: tuple[str, ...] = field(repr=False, compare=False)
    integer_valued: bool = field(repr=False, compare=False)

    def __init__(
        self, query: QueryLike, n_groups: int, labels: Sequence[str] | None = None
    ) -> None:
        query = _as_query(query)
        n_groups = whole_number("n_groups", n_groups)
        named = _as_labels(labels, n_groups)
        set_field = object.__setattr__  # the way around `frozen`, for the constructor only
        set_field(self, "query", query)
        set_field(self, "n_groups", n_groups)
        set_field(self, "labels", named)
        set_field(self, "names", tuple(f"{a}: {b}" for a in named for b in query.names))
        set_field(self, "integer_valued", query.integer_valued)

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return t of each record in the columns of its group, zeros elsewhere, (n, G d).

        Parameters
        ----------
        records
            The group, then the record of the query inside, (n, 2) or (n, 1 + w).
        """
        groups, rest = _split(records)
        rows = np.ascontiguousarray(self.query.statistic(rest), dtype=np.float64)
        spread = np.zeros((len(rows), len(self.names)))
        if not spread_rows(groups, rows, spread):
            self.check_records(records)  # says which record it is
        return spread

    @property
    def cells(self) -> Callable[[ArrayLike], NDArray[np.int64]]:
        """The cells that each record adds 1 to, (n, k); only if the query inside has them."""
        if not hasattr(self.query, "cells"):
            raise AttributeError(f"{self.query!r} is not a query of counts: it has no cells")
        return self._cells

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        groups, rest = _split(records)
        inner = self.query.cells(rest)  # type: ignore[attr-defined]
        cells = np.empty(inner.shape, dtype=np.int64)
        if not spread_cells(groups, inner, len(self.query.names), self.n_groups, cells):
            self.check_records(records)
        return cells

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total: as far as that of the query inside.

        Parameters
        ----------
        norm
            1, 2 or inf.
        neighbours
            `"change"`, of anything but the group, or `"add-remove"`.
        """
        check_norm(norm, neighbours)
        return self.query.sensitivity(norm, neighbours=neighbours)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless these are groups and records of the query inside."""
        _check_groups(records, self.n_groups)
        self.query.check_records(_split(records)[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
        return {
            "type": "ByGroup",
            "query": self.query.to_dict(),
            "n_groups": self.n_groups,
            "labels": list(self.labels),
        }


@dataclass(frozen=True, init=False)
class InGroup:
    """A query asked of one group only; the records of the others add nothing.

    Groups with releases of their own, each with its own epsilon, are put together by
    `noiseaware.mechanisms.Several`.

    Parameters
    ----------
    query
        What is asked of the group; it sees the records without their first column.
    group
        The group, a number from 0.

    Examples
    --------
    >>> from noiseaware.queries import Sum
    >>> query = InGroup(Sum(0, 10), group=1)
    >>> query.statistic([[0, 3.0], [1, 4.0]]).ravel()
    array([0., 4.])
    >>> query.names
    ('sum',)
    """

    query: QueryLike
    group: int
    names: tuple[str, ...] = field(repr=False, compare=False)
    integer_valued: bool = field(repr=False, compare=False)

    def __init__(self, query: QueryLike, group: int) -> None:
        query = _as_query(query)
        set_field = object.__setattr__
        set_field(self, "query", query)
        set_field(self, "group", whole_number("group", group, least=0))
        set_field(self, "names", tuple(query.names))
        set_field(self, "integer_valued", query.integer_valued)

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return t of each record of the group and zeros for the others, (n, d)."""
        groups, rest = _split(records)
        return np.where((groups == self.group)[:, np.newaxis], self.query.statistic(rest), 0.0)

    @property
    def cells(self) -> Callable[[ArrayLike], NDArray[np.int64]]:
        """The cells that each record adds 1 to, (n, k); only if the query inside has them."""
        if not hasattr(self.query, "cells"):
            raise AttributeError(f"{self.query!r} is not a query of counts: it has no cells")
        return self._cells

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        groups, rest = _split(records)
        inner = self.query.cells(rest)  # type: ignore[attr-defined]
        return np.where((groups == self.group)[:, np.newaxis], inner, -1)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total: as far as that of the query inside."""
        check_norm(norm, neighbours)
        return self.query.sensitivity(norm, neighbours=neighbours)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless these are groups and records of the query inside."""
        _check_groups(records, None)
        self.query.check_records(_split(records)[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
        return {"type": "InGroup", "query": self.query.to_dict(), "group": self.group}


def _as_labels(labels: Sequence[str] | None, n_groups: int) -> tuple[str, ...]:
    if labels is None:
        return tuple(f"group={group}" for group in range(n_groups))
    if isinstance(labels, str) or not all(isinstance(label, str) and label for label in labels):
        raise TypeError(f"labels must be a list of texts; got {labels!r}")
    if len(labels) != n_groups or len(set(labels)) != n_groups:
        raise ValueError(f"labels must be {n_groups} different texts; got {list(labels)!r}")
    return tuple(labels)
