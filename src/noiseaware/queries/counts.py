"""What queries that count share: from the cells that a record adds 1 to, to its dense statistic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.described import Described
from noiseaware.contract import Floats, Neighbours
from noiseaware.queries.arguments import check_norm, vector_norm


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
