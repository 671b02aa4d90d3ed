"""A query asked of one column of the records.

Records have shape (n, w), and the query inside sees column j, (n,). What happens to a record moves
the total as far as it moves the query inside, so the sensitivities are those of the query inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import query_words
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Query, query_abilities
from noiseaware.queries.by_group import GroupedQuery
from noiseaware.queries.count import Count
from noiseaware.registry import QUERIES


class InColumn(GroupedQuery):
    """A query asked of one column of the records; queries of several columns go into `Several`.

    Parameters
    ----------
    query
        What is asked of the column.
    column
        Its number, from 0.

    Examples
    --------
    >>> from noiseaware.queries import Sum
    >>> query = InColumn(Sum(0, 10), column=1)
    >>> query.statistic([[5.0, 3.0], [1.0, 40.0]]).ravel()
    array([ 3., 10.])
    """

    column: int
    example_arguments: ClassVar[dict[str, Any]] = {"query": Count.example(), "column": 0}

    def __init__(self, query: Query | Mapping[str, Any], column: int) -> None:
        self._hold_query(query)
        self._hold(column=whole_number("column", column, least=0), names=tuple(self.query.names))

    def _column(self, records: ArrayLike) -> NDArray[Any]:
        array = as_array(records)
        if array.ndim != 2 or array.shape[1] <= self.column:
            raise ValueError(
                f"records must have at least {self.column + 1} columns; got shape {array.shape}"
            )
        return np.ascontiguousarray(array[:, self.column])

    def statistic(self, records: ArrayLike) -> Floats:
        """Return t of the column of each record, (n, d)."""
        return self.query.statistic(self._column(records))

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        return self.query.cells(self._column(records))

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the column is one that the query inside can be asked of."""
        column = self._column(records)
        check = query_abilities(self.query).check_records
        if check is not None:
            check(column)

    def words(self) -> list[str]:
        """Return what was asked, in sentences for the report."""
        return [f"Of column {self.column + 1} of the records.", *query_words(self.query)]


QUERIES.add(InColumn)
