"""Queries that count: from the cells that a record adds 1 to, to its dense statistic."""

from __future__ import annotations

import numpy as np
from numba import njit

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


def count_sensitivity(changed_cells: int, norm: float, neighbours: str) -> float:
    """Return the norm of what one record moves, 1 in each of so many cells."""
    check_norm(norm, neighbours)
    return vector_norm(np.ones(changed_cells), norm)
