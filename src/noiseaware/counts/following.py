"""Let theta follow the counts of a table whose log means are linear in it.

Given theta the counts of a table are Poisson, and given the counts theta is known as well as that
many records determine it. A chain that alternates between the two makes steps of that size, however
far the release lets both go together. Where

    log m = D b,        b_j ~ N(mu_j, 1 / w_j),  independently         (`contract.LogLinear`),

b can move with the counts.

**The coordinates.** Fix a matrix A (P, C), and let l_c(x) = log(x_c + 1/2) and r = b - A l(x). For
each x, b -> r is a shift, so the density of (x, r) is that of (x, b):

    N(b; mu, 1 / w)  prod_c [m_c^x_c exp(-m_c) / x_c!]  g(s_dp, T(x)),        b = r + A l(x).

With r held, x is drawn on lines just as with b held (`counts.move`), but by weights that include
all of the above; then b is r + A l of the new x. Any A is right, and A = 0 holds b. The direction
of a line depends on x alone, as before.

**Which A.** Given the counts, log p(b | x) is highest about where weighted least squares put it:
with the weights W = x + 1/2, D'W D b + w b = D'W l(x) + w mu. So A = (D'W D + w)^-1 D'W, with the
mean counts of warm-up in W. The mean and spread of r then hardly depend on x, and a line that the
release leaves open is crossed in one draw.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.contract import LogLinear

MOST_ENTRIES = 2**22
"""Most entries of A, or of D A; with a larger table, b is held."""

ANSWERS = 8.0
"""Cells that respond to a count, for each step in which b follows. With more, b follows in
proportionally fewer steps, so that an iteration costs about the same."""


class Following(NamedTuple):
    """How b and the log means respond to the counts, for compiled code; empty if b is held.

    Attributes
    ----------
    b, centres, precisions : (P,)
        The current b, changed in place, mu, and w.
    largest : float
        The largest allowed log mean.
    chance : float
        The probability that b follows rather than being held.
    start, row, weight
        A by columns: entry e, from start[c] to start[c + 1], adds weight[e] l_c to b[row[e]].
    log_start, log_row, log_weight
        D A likewise.
    shift, log_shift, ahead
        Room, (P,), (C,) and (C,), all 0: changes of b, of the log means, and of the counts.
    """

    b: np.ndarray
    centres: np.ndarray
    precisions: np.ndarray
    largest: float
    chance: float
    start: np.ndarray
    row: np.ndarray
    weight: np.ndarray
    log_start: np.ndarray
    log_row: np.ndarray
    log_weight: np.ndarray
    shift: np.ndarray
    log_shift: np.ndarray
    ahead: np.ndarray


def hold() -> Following:
    """Return a `Following` that holds b."""
    none, whole = np.zeros(0), np.zeros(0, np.int64)
    columns = (whole, whole, none)
    return Following(none, none, none, 0.0, 0.0, *columns, *columns, none, none, whole)


def follow_around(given: LogLinear, counts: np.ndarray) -> Following:
    """Return how b follows in tables around these counts; b is held if A is too large."""
    design, (C, P) = given.design, given.design.shape
    weighted = sparse.csc_array(design.T * (counts + 0.5))
    known = sparse.csc_array(weighted @ design + sparse.diags_array(given.precisions))
    if known.nnz == P:
        matrix = sparse.csc_array(sparse.diags_array(1.0 / known.diagonal()) @ weighted)
    elif C * max(C, P) <= MOST_ENTRIES:
        matrix = sparse.csc_array(np.linalg.solve(known.toarray(), weighted.toarray()))
    else:
        return hold()
    logs = sparse.csc_array(design @ matrix)
    return Following(
        np.zeros(P),
        given.centres,
        given.precisions,
        given.largest,
        min(1.0, ANSWERS * C / logs.nnz),
        *_by_columns(matrix),
        *_by_columns(logs),
        np.zeros(P),
        np.zeros(C),
        np.zeros(C, np.int64),
    )


def _by_columns(matrix: sparse.csc_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


@njit(cache=True, nogil=True, **UNCOUNTED)
def follow(following, counts, line, k):
    """Fill `shift`, `log_shift` and `ahead` with the changes that k steps on a line make."""
    cells, steps, number = line[0], line[1], line[2]
    for j in range(number):
        c = cells[j]
        following.ahead[c] = k * steps[j]
        apart = math.log((counts[c] + following.ahead[c] + 0.5) / (counts[c] + 0.5))
        for e in range(following.start[c], following.start[c + 1]):
            following.shift[following.row[e]] += following.weight[e] * apart
        for e in range(following.log_start[c], following.log_start[c + 1]):
            following.log_shift[following.log_row[e]] += following.log_weight[e] * apart


@njit(cache=True, nogil=True, **UNCOUNTED)
def log_change(following, slopes, counts, line, k):
    """Return the log density at k less what it would be with b held."""
    follow(following, counts, line, k)
    value = 0.0
    for j in range(line[2]):
        c = line[0][j]
        for e in range(following.start[c], following.start[c + 1]):
            i = following.row[e]
            change, off = following.shift[i], following.b[i] - following.centres[i]
            value -= following.precisions[i] * change * (off + 0.5 * change)
            following.shift[i] = 0.0
        for e in range(following.log_start[c], following.log_start[c + 1]):
            i = following.log_row[e]
            change = following.log_shift[i]
            if slopes[i] + change > following.largest:
                value = -math.inf
            x = counts[i] + following.ahead[i]
            value += x * change - math.exp(slopes[i]) * math.expm1(change)
            following.log_shift[i] = 0.0
    for j in range(line[2]):
        following.ahead[line[0][j]] = 0
    return value


@njit(cache=True, nogil=True, **UNCOUNTED)
def go_along(following, slopes, counts, line, k):
    """Move b and the log means, `slopes`, with k steps that the counts are about to make."""
    follow(following, counts, line, k)
    for j in range(line[2]):
        c = line[0][j]
        for e in range(following.start[c], following.start[c + 1]):
            i = following.row[e]
            following.b[i] += following.shift[i]
            following.shift[i] = 0.0
        for e in range(following.log_start[c], following.log_start[c + 1]):
            i = following.log_row[e]
            slopes[i] += following.log_shift[i]
            following.log_shift[i] = 0.0
        following.ahead[c] = 0
