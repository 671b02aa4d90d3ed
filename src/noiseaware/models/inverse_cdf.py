"""Discrete records as functions of uniform innovations, exactly invertible in floating point.

A level with probabilities p_0, ..., p_{J-1} is drawn by cutting [0, 1) at the edges e_0 = 0,
e_j = p_0 + ... + p_{j-1}, e_J = 1: u, uniform on [0, 1), gives level j if it is in [e_j, e_{j+1}),
and the last level takes whatever the rounded sum leaves. Given its level, u is uniform in that
interval.

The sampler maps both ways and must recover the same record whatever the probabilities. In floating
point two things could break this:

* a probability below the spacing of floats at e_j would give its level an empty interval.
  `fill_edges` therefore keeps the edges strictly increasing, so that each level owns at least one
  float. This moves a probability by at most J 2^-53, where 2^-53 is the spacing of u itself;
* low + v (high - low) with v < 1 can round up to ``high``, which belongs to the next level.
  `uniform_between` then takes the preceding float.

A table of edges is 2-D with a distribution per row, which uses its first J + 1 entries, so rows
with different numbers of levels can share a table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from noiseaware.models.conjugate import SMALLEST

SPACING = 2.0**-53
"""Distance between neighbouring floats just below 1, and between values of rng.random()."""

_FEW = 12
"""Up to this many levels, branch-free comparison with every edge is faster than bisection."""


@njit(cache=True, nogil=True)
def fill_edges(probabilities, row, n_levels, edges):
    """Write the J + 1 edges of ``probabilities[row]`` into ``edges[row]``, strictly increasing."""
    below = 0.0
    edges[row, 0] = 0.0
    for j in range(1, n_levels):
        edge = below + probabilities[row, j - 1]
        if not edge > below:
            edge = np.nextafter(below, 1.0)
        # Each level above needs a float of its own below 1.
        edge = min(edge, 1.0 - (n_levels - j) * SPACING)
        edges[row, j] = edge
        below = edge
    edges[row, n_levels] = 1.0


@njit(cache=True, nogil=True)
def level_of(u, edges, row, n_levels):
    """Return the level j with e_j <= u < e_{j+1}: the number of inner edges at most u."""
    if n_levels <= _FEW:
        level = 0
        for j in range(1, n_levels):
            level += u >= edges[row, j]
        return level
    low = 0
    high = n_levels - 1
    while low < high:
        middle = (low + high) // 2
        if u >= edges[row, middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def uniform_between(low, high, v):
    """Return low + v (high - low), kept below ``high``; v in [0, 1), low < high."""
    u = low + v * (high - low)
    if u >= high:
        u = np.nextafter(high, 0.0)
    return u


# A record that is 0 or 1 has one inner edge, p = P(x = 1), and the ones come first: x = 1 if u < p.
# This way the edge is p itself and not 1 - p, which would be rounded.


@njit(cache=True, nogil=True)
def inside(probability):
    """Return p, kept inside (0, 1) so that 0 and 1 both own a float and log odds are finite."""
    return min(max(probability, SMALLEST), 1.0 - SPACING)


@njit(cache=True, nogil=True)
def uniform_of(outcome, probability, v):
    """Return a u that gives this record: in [0, p) for a one, in [p, 1) for a zero."""
    edge = inside(probability)
    return uniform_between(0.0, edge, v) if outcome == 1 else uniform_between(edge, 1.0, v)
