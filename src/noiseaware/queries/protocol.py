"""What every query offers: the contract between queries, mechanisms and the sampler.

A query is a plain class with these attributes and methods; there is no base class.

Two neighbour relations are in use, and a guarantee means nothing without saying which:

- `"change"`: neighbouring databases have the same number of records and differ in one of
  them ("bounded" differential privacy, the paper's). The sensitivity is the largest
  ``norm(t(x) - t(x'))`` over two possible records.
- `"add-remove"`: one database has one record more ("unbounded"). The sensitivity is the
  largest ``norm(t(x))`` over one possible record.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Neighbours = Literal["change", "add-remove"]


class QueryLike(Protocol):
    """A query with a dense statistic: record i adds the row t(x_i) to the total."""

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each of the d coordinates."""
        ...

    @property
    def integer_valued(self) -> bool:
        """Whether every coordinate is an integer, so that discrete noise makes sense."""
        ...

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return t(x_i) of each record, (n, d). Called in every sweep: it does not check values."""
        ...

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total, in the l1 or the l2 norm."""
        ...

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if the query cannot be asked of these records."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON: its type and the arguments of its constructor."""
        ...


class CountsQueryLike(QueryLike, Protocol):
    """A query whose total is a table of counts: a record adds 1 to a few of the d cells.

    The sampler then touches only the cells that a proposal changes. A query says that it has
    this shape by having the method `cells`.
    """

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the k cells that each record adds 1 to, (n, k); -1 stands for no cell."""
        ...


class SummingQueryLike(QueryLike, Protocol):
    """A query that can add up its statistic without keeping it for every record.

    Moves that rebuild the whole database only need the total; a query says that it has a faster
    way to it by having the method `total`.
    """

    def total(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return sum_i t(x_i), (d,)."""
        ...
