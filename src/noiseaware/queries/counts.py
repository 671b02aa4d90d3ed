"""What queries that count share: from the cells that a record adds 1 to, to its dense statistic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Neighbours
from noiseaware.described import Described
from noiseaware.queries.arguments import check_norm, vector_norm


@njit(cache=True, nogil=True)
def count_statistic(cells, n_cells):
    """Turn lists of cells into rows of zeros and ones.

    Parameters
    ----------
    cells
        The cells that each record adds 1 to, int64 (n, k); -1 stands for no cell.
    n_cells
        The number of cells d.

    Returns
    -------
    ndarray
        The statistic, float64 (n, d).
    """
    statistic = np.zeros((cells.shape[0], n_cells))
    for i in range(cells.shape[0]):
        for k in range(cells.shape[1]):
            cell = cells[i, k]
            if cell >= 0:
                statistic[i, cell] += 1.0
    return statistic


class CountsQuery(Described):
    """A query whose total is a table of counts: each record adds 1 to a few cells."""

    names: tuple[str, ...]
    integer_valued: ClassVar[bool] = True

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cells that each record adds 1 to, (n, k); -1 stands for no cell."""
        raise NotImplementedError

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the counts that each record adds, (n, d)."""
        return count_statistic(self.cells(records), len(self.names))

    def possible(self, totals: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return the nearest counts between 0 and n."""
        return np.clip(totals, 0.0, n)


def count_sensitivity(changed_cells: int, norm: float, neighbours: Neighbours) -> float:
    """Return the norm of what one record moves, 1 in each of so many cells."""
    check_norm(norm, neighbours)
    return vector_norm(np.ones(changed_cells), norm)
