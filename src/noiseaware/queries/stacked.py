"""Several queries as one: their statistics side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from noiseaware.basics.described import query_words
from noiseaware.contract import Floats, Neighbours, Query, query_abilities
from noiseaware.queries.counts import possible_counts


class LabelledQueries:
    """Several labelled queries."""

    def __init__(self, queries: Sequence[Query], labels: Sequence[str]) -> None:
        self.queries: tuple[Any, ...] = tuple(queries)
        self.labels = tuple(labels)
        self._abilities = [query_abilities(query) for query in queries]

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return an upper bound on the sensitivity: the norm of the parts' sensitivities."""
        parts = [query.sensitivity(norm, neighbours=neighbours) for query in self.queries]
        return float(np.linalg.norm(parts, norm))

    def words(self) -> list[str]:
        """Return sentences for the report that say what was asked."""
        return [
            f"({label}) {' '.join(query_words(query))}"
            for label, query in zip(self.labels, self.queries, strict=True)
        ]


class StackedQuery(LabelledQueries):
    """Several queries as one, their names prefixed by labels; made by `mechanisms.Several`.

    It has `cells` and `total` only if all queries do.
    """

    cells: Callable[[ArrayLike], NDArray[np.int64]] | None = None
    total: Callable[[ArrayLike], Floats] | None = None
    possible: Callable[[Floats, int], Floats] | None = None

    def __init__(self, queries: Sequence[Query], labels: Sequence[str]) -> None:
        super().__init__(queries, labels)
        self.names = tuple(
            label if label == name else f"{label}: {name}"
            for label, query in zip(labels, queries, strict=True)
            for name in query.names
        )
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"labels must make all names different; got {list(labels)!r}")
        self.integer_valued = all(able.integer_valued for able in self._abilities)
        if all(able.cells is not None for able in self._abilities):
            self.cells = self._cells
            self.possible = possible_counts
        sizes = {able.n_cells for able in self._abilities if able.n_cells is not None}
        if len(sizes) > 1:
            raise ValueError(
                "the queries must be about one table; got matrices for "
                f"{' and '.join(map(str, sorted(sizes)))} cells"
            )
        self.n_cells = next(iter(sizes), None)
        if all(able.total is not None for able in self._abilities):
            self.total = self._total

    def statistic(self, records: ArrayLike) -> Floats:
        """Return t(x_i) of all queries, (n, d)."""
        return np.concatenate([query.statistic(records) for query in self.queries], axis=1)

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        parts, start = [], 0
        for query in self.queries:
            cells = query.cells(records)
            parts.append(np.where(cells >= 0, cells + start, -1))
            start += len(query.names)
        return np.concatenate(parts, axis=1)

    def _total(self, records: ArrayLike) -> Floats:
        return np.concatenate([query.total(records) for query in self.queries])

    def part_columns(self, levels: tuple[int, ...]) -> Any:
        """Return the part columns of all queries, if they all have some."""
        see = [able.part_columns for able in self._abilities]
        each = [None if columns is None else columns(levels) for columns in see]
        return None if any(columns is None for columns in each) else sparse.vstack(each)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records fit all queries."""
        for able in self._abilities:
            if able.check_records is not None:
                able.check_records(records)

    def to_dict(self) -> dict[str, Any]:
        """Raise ValueError: a file holds each query with its mechanism."""
        raise ValueError("the queries of several releases are written with their mechanisms")

    def __repr__(self) -> str:
        return " and ".join(map(repr, self.queries))


class ColumnQueries(LabelledQueries):
    """A labelled query for each released column; made by `mechanisms.Attributes`."""

    def __init__(
        self, queries: Sequence[Query], labels: Sequence[str], columns: Sequence[int]
    ) -> None:
        super().__init__(queries, labels)
        self.names, self.columns = self.labels, tuple(columns)
        in_order = self.columns == tuple(range(len(self.columns)))
        self.column_names = self.names if in_order else None

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the statistics of all attributes side by side."""
        array = np.asarray(records)
        parts = zip(self.queries, self.columns, strict=True)
        return np.concatenate([query.statistic(array[:, c]) for query, c in parts], axis=1)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless each column fits its query."""
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] <= max(self.columns):
            raise ValueError(
                f"records must have at least {max(self.columns) + 1} columns, one for each "
                f"attribute; got shape {array.shape}"
            )
        for able, name, c in zip(self._abilities, self.names, self.columns, strict=True):
            try:
                if able.check_records is not None:
                    able.check_records(array[:, c])
            except (ValueError, TypeError) as error:
                raise type(error)(f"attribute {name!r}: {error}") from None

    def __repr__(self) -> str:
        parts = zip(self.names, self.queries, strict=True)
        return "; ".join(f"{name}: {query!r}" for name, query in parts)
