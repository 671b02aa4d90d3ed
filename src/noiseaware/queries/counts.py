"""What queries that count share, and `Count`: of all records, of a value, or by a condition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import function_name
from noiseaware.basics.described import Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours, Reading
from noiseaware.queries.arguments import check_flat, check_norm, check_real_dtype, vector_norm
from noiseaware.registry import QUERIES


@njit(cache=True, nogil=True)
def count_statistic(cells, n_cells):
    """Return the rows of counts, (n, d), of the cells (n, k) that records add 1 to; -1 is none."""
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
    """A query whose total is a table of counts, or several: each record adds 1 to a few cells."""

    names: tuple[str, ...]
    n_tables: int = 1
    """Each record adds 1 to one cell of each of so many tables, or to none of them."""
    integer_valued: ClassVar[bool] = True
    possible = staticmethod(possible_counts)

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cells that each record adds 1 to, (n, k); -1 stands for no cell."""
        raise NotImplementedError

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the counts that each record adds, (n, d)."""
        return count_statistic(self.cells(records), len(self.names))

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total; every value is attained.

        Adding or removing a record changes one cell of each of K tables by 1. Changing a record
        takes 1 from a cell of each and adds 1 to another one, so that 2K cells change if there are
        as many; a count of one cell changes by 1. The norm of k ones is k (l1), sqrt(k) (l2) or 1.
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
        The value that is counted, among records of shape (n,). None counts every record, of any
        shape: what is released where the number of records is itself confidential. Not used with
        a predicate.
    predicate
        A function of the records, of any shape (n, ...), that returns n booleans. A query
        with a predicate cannot be written to a file.
    name
        The name of the count; by default it is made from the value or the function's name.

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
    example_arguments: ClassVar[dict[str, Any]] = {"value": 1}

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
        """Return 0, the only cell, for each record that is counted, else -1, (n, 1)."""
        return self._is_counted(records).astype(np.int64).reshape(-1, 1) - 1

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return 1; a count of every record does not change when one of them does."""
        moved = super().sensitivity(norm, neighbours)
        return 0.0 if self._counts_all and neighbours == "change" else moved

    @property
    def _counts_all(self) -> bool:
        return self.value is None and self.predicate is None

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return the counts of 0 and of 1, if one of them is counted."""
        if self.predicate is not None or self.value not in (0, 1):
            return None
        count = float(np.clip(totals[0], 0.0, n))
        counts = np.array([n - count, count] if self.value == 1 else [count, n - count])
        return Reading("counts", counts, "after moving impossible counts to possible ones")

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are (n,) numbers, or the predicate's."""
        array = as_array(records, self)
        if self._counts_all:
            return
        if self.predicate is None:
            check_real_dtype(array)
        self._is_counted(array)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
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
        # The sensitivity is 1 because a record adds 0 or 1, so nothing else may come back.
        if counted.shape != array.shape[:1] or counted.dtype != np.bool_:
            raise ValueError(
                f"predicate {function_name(self.predicate)} must return {len(array)} booleans, "
                f"one for each record; got shape {counted.shape} of {counted.dtype}"
            )
        return counted


QUERIES.add(Count)
