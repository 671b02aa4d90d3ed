"""Small dense linear algebra for use inside kernels.

The matrices have the size of a record, so calling LAPACK would cost more than the arithmetic.
Everything writes into arrays that the caller owns.
"""

from __future__ import annotations

import math

from numba import njit

from noiseaware.basics.uncounted import UNCOUNTED


@njit(cache=True, nogil=True, **UNCOUNTED)
def copy_vector(source, out):
    """Copy a vector, or its beginning, into ``out``.

    ``out[:] = source`` would make numba compile an error message about shapes as well, which adds a
    second to the first call.
    """
    for j in range(out.shape[0]):
        out[j] = source[j]


@njit(cache=True, nogil=True, **UNCOUNTED)
def cholesky(matrix, size, lower):
    """Write L with L L' = ``matrix`` into the leading lower triangle of ``lower``.

    Reads the lower triangle of the leading ``size`` x ``size`` block of ``matrix``, which may be
    ``lower`` itself; writes nothing above the diagonal. Returns False, with ``lower`` half
    written, if the matrix is not positive definite (or holds NaN).
    """
    for j in range(size):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= lower[j, k] * lower[j, k]
        if not (0.0 < pivot < math.inf):
            return False
        pivot = math.sqrt(pivot)
        lower[j, j] = pivot
        for i in range(j + 1, size):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = total / pivot
    return True


@njit(cache=True, nogil=True, **UNCOUNTED)
def solve_lower(lower, size, vector):
    """Replace ``vector`` by L^{-1} vector."""
    for i in range(size):
        total = vector[i]
        for k in range(i):
            total -= lower[i, k] * vector[k]
        vector[i] = total / lower[i, i]


@njit(cache=True, nogil=True, **UNCOUNTED)
def solve_upper(lower, size, vector):
    """Replace ``vector`` by (L')^{-1} vector, with L given by its lower triangle."""
    for i in range(size - 1, -1, -1):
        total = vector[i]
        for k in range(i + 1, size):
            total -= lower[k, i] * vector[k]
        vector[i] = total / lower[i, i]


@njit(cache=True, nogil=True)
def add_placed(rows, total):
    """Add every row of `rows` (m, 1 + w) to `total` (d,), starting at its first coordinate."""
    for i in range(rows.shape[0]):
        first = int(rows[i, 0]) - 1
        for j in range(1, rows.shape[1]):
            total[first + j] += rows[i, j]
