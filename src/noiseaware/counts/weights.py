"""The density of counts at the points of a window, by cells and rows, and a draw of one point."""

from __future__ import annotations

import math

from numba import njit

from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.mechanisms.terms import term_at

WINDOW = 16
"""L, the points of a window: twice the ratio of two strides, so that each level finds its place
within the one above."""

SHORT_STEP = 8
"""Longest step of a count for which a product is faster than two log gamma functions."""


@njit(cache=True, nogil=True)
def cell_weight(a, x):
    """Return log Gamma(a + x) - log x!, without the first term for a = 0."""
    return (math.lgamma(a + x) if a > 0.0 else 0.0) - math.lgamma(x + 1.0)


@njit(cache=True, nogil=True)
def cell_change(a, x, step):
    """Return `cell_weight` at x + step less that at x, both at least 0.

    Gamma(y + 1) = y Gamma(y), so a short step is a product of (a + x) / (x + 1), x + 1, ...
    """
    if abs(step) > SHORT_STEP:
        return cell_weight(a, x + step) - cell_weight(a, x)
    above = below = 1.0
    for y in range(x, x + step) if step > 0 else range(x + step, x):
        above *= a + y if a > 0.0 else 1.0
        below *= y + 1.0
    return math.log(above / below) if step > 0 else -math.log(above / below)


@njit(cache=True, nogil=True, **UNCOUNTED)
def add_cell(a, slope, x, step, begin, end, window):
    """Add to a window the weights of a cell at x, x + step, ..., less that at x."""
    value = 0.0
    for i in range(begin + 1, end if a != 1.0 or slope != 0.0 else 0):
        value += slope
        if a != 1.0:
            value += cell_change(a, x, step)
            x += step
        window[i] += value


@njit(cache=True, nogil=True, **UNCOUNTED)
def add_row(
    long, family, parameters, power, signs, shifts, row, total, step, begin, end, window
):  # fmt: skip
    """Add to a window the weights of a row at total + i step, i from begin to end."""
    if row < family.shape[0]:
        code, p = family[row], parameters[row]
        p0, p1, p2, p3 = p[0], p[1], p[2], p[3]
        for i in range(begin, end):
            window[i] += power * term_at(long, code, p0, p1, p2, p3, total + i * step)
    else:
        sign, shift = signs[row - family.shape[0]], shifts[row - family.shape[0]]
        for i in range(begin, end):
            window[i] += sign * math.lgamma(shift + total + i * step)


@njit(cache=True, nogil=True, **UNCOUNTED)
def pick_one(window, uniform):
    """Return an index, drawn with probability proportional to exp of the entries."""
    highest = -math.inf
    for i in range(window.shape[0]):
        highest = max(highest, window[i])
    total = 0.0
    for i in range(window.shape[0]):
        window[i] = math.exp(window[i] - highest)
        total += window[i]
    left = uniform * total
    chosen = -1
    for i in range(window.shape[0]):
        if window[i] > 0.0:
            chosen = i
            left -= window[i]
            if left < 0.0:
                break
    return chosen
