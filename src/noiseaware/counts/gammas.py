"""theta given a table of counts, where it is a function of gamma variables.

A chain of counts with theta integrated out draws theta given them at the end of each iteration: for
Dirichlet and gamma priors, from a few independent gammas (`contract.ModelAbilities.from_gammas`).

Reference
---------
Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
Mathematical Software 26(3).
"""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True, nogil=True)
def add_up(table, counts, sums):
    """Fill `sums` (R,) with M x."""
    sums[:] = 0.0
    for c in range(counts.shape[0]):
        if counts[c] != 0:
            for e in range(table.start[c], table.start[c + 1]):
                sums[table.row[e]] += table.weight[e] * counts[c]


@njit(cache=True, nogil=True)
def log_gamma_draw(shape, rng):
    """Draw the logarithm of a gamma variable; with a small shape the variable itself may underflow.

    With V uniform, Gamma(a) is Gamma(a + 1) V^(1/a) (Marsaglia and Tsang 2000).
    """
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log1p(-rng.random()) / shape


@njit(cache=True, nogil=True)
def draw_log_gammas(table, counts, sums, d, rng, logs, seen):
    """Fill `logs` (K,) with a gamma for each log Gamma of the prior that has a plus sign.

    Integrating out theta left a Gamma(a_c + x_c) for each cell with a_c > 0, and a Gamma(h_r + (M
    x)_r) for each row of sign 1: the constants of the gamma densities that make up p(theta | x).
    The rows of the prior follow the d noisy ones. `seen` (3, K) accumulates the number of draws,
    their shapes, and the squares of these.
    """
    k = 0
    for c in range(counts.shape[0]):
        if table.concentrations[c] > 0.0:
            logs[k] = table.concentrations[c] + counts[c]
            k += 1
    for r in range(table.signs.shape[0]):
        if table.signs[r] > 0.0 and k < logs.shape[0]:  # the row of an unknown n is the last
            logs[k] = table.shifts[r] + sums[d + r]
            k += 1
    for k in range(logs.shape[0]):
        seen[0, k] += 1.0
        seen[1, k] += logs[k]
        seen[2, k] += logs[k] * logs[k]
        logs[k] = log_gamma_draw(logs[k], rng)
