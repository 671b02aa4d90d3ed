"""Vectors of normal records from innovations, and back; for use inside kernels."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def colour(mean, lower, innovations, i, records):
    """Write m + L u_i into the first places of row i of ``records``."""
    for j in range(mean.shape[0]):
        total = mean[j]
        for k in range(j + 1):
            total += lower[j, k] * innovations[i, k]
        records[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def whiten(mean, lower, records, i, out, at):
    """Write L^{-1} (x_i - m) into row ``at`` of ``out``; return the sum of its squares."""
    squares = 0.0
    for j in range(mean.shape[0]):
        total = records[i, j] - mean[j]
        for k in range(j):
            total -= lower[j, k] * out[at, k]
        out[at, j] = total / lower[j, j]
        squares += out[at, j] * out[at, j]
    return squares
