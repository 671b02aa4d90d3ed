"""Slice sampling (Neal 2003) of one number, and the density of shapes that two models share.

A coordinate x with log density l moves by drawing a height y = l(x) - e, e standard exponential,
and then a uniform point from {x': l(x') > y}. An interval of width w is placed around x at random;
its ends step outwards until they are below y; then it shrinks towards x at every draw below y. This
leaves exp(l) invariant for any width that does not depend on x, and needs no tuning: too small a
width costs a few more evaluations of l, and too large a width is halved within a few.

The three versions differ in the source of their uniforms and in when they stop.

* `slice_draw` is for densities written in Python.
* `slice_in_pool` takes its uniforms from a pool, as the kernels of `conjugate.py` do: if the pool
  is exhausted, the caller repeats the call with the same pool extended.
* `slice_step` steps out at most m times, and stays at x if none of `TRIES` points is above y.
  Neal's proof still holds: for x' different from x, the paths from x to x' and back through the
  same points below y have equal density, separately for each length, so the shorter ones alone
  balance too.

The last two are inlined into their callers, so that numba can cache these with their densities.

Reference
---------
Neal, R. M. (2003). Slice sampling. Annals of Statistics 31(3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numba import njit
from numpy.random import Generator

MOST_STEPS = 10
"""m: the maximum number of outward steps in `slice_step`, both sides together."""

TRIES = 21
"""Points drawn from the interval before `slice_step` gives up and stays."""

POOL = 3 + TRIES
"""Uniforms that one `slice_step` may use."""


def slice_draw(
    log_density: Callable[..., float], now: float, width: float, rng: Generator
) -> float:
    """Return a new value, leaving the density invariant."""
    level = log_density(now) + math.log(1.0 - rng.random())
    low = now - width * rng.random()
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while True:
        new = low + rng.random() * (high - low)
        if log_density(new) >= level or high - low < 1e-12:
            return new
        low, high = (new, high) if new < now else (low, new)


@njit(nogil=True, inline="always")
def slice_in_pool(log_density, x, rest, width, uniforms, used):
    """Move x under ``log_density(x, *rest)``; return it and the place in the pool, or -1."""
    if used + 2 > uniforms.shape[0]:
        return x, -1
    now = log_density(x, *rest)
    if not now > -math.inf:  # nothing to go by: records that are no records of the model
        return x, used + 2
    height = now + math.log(1.0 - uniforms[used])
    low = x - width * uniforms[used + 1]
    high = low + width
    used += 2
    while log_density(low, *rest) > height:
        low -= width
    while log_density(high, *rest) > height:
        high += width
    while used < uniforms.shape[0]:
        new = low + uniforms[used] * (high - low)
        used += 1
        if log_density(new, *rest) >= height:
            return new, used
        if new < x:
            low = new
        else:
            high = new
    return x, -1


@njit(cache=True, nogil=True)
def of_array(uniforms, k):
    """Return the k-th number of an array."""
    return uniforms[k]


@njit(cache=True, nogil=True)
def of_generator(rng, k):
    """Return the next number of a generator."""
    return rng.random()


@njit(nogil=True, inline="always")
def slice_step(log_density, x, rest, width, uniform, source):
    """Move x under ``log_density(x, *rest)``; ``uniform(source, k)`` are uniforms, k = 0, 1, ..."""
    height = log_density(x, *rest) + math.log1p(-uniform(source, 0))
    low = x - width * uniform(source, 1)
    high = low + width
    left = int(MOST_STEPS * uniform(source, 2))
    right = MOST_STEPS - 1 - left
    while left > 0 and log_density(low, *rest) > height:
        low -= width
        left -= 1
    while right > 0 and log_density(high, *rest) > height:
        high += width
        right -= 1
    for used in range(3, POOL):
        point = low + uniform(source, used) * (high - low)
        if log_density(point, *rest) > height:
            return point
        if point < x:
            low = point
        else:
            high = point
    return x


# ------------------------------------------------------------------ shapes

FARTHEST = 660.0
"""The density is 0 for |v| beyond it; only shapes below `arguments.LEAST_SHAPE` put mass there."""

SMALLEST_SHAPE = 1e-300
"""Smallest shape at which `lgamma` and the logarithm are still finite."""


@njit(cache=True, nogil=True)
def log_shape_density(v, terms, weights):
    """Return h(v): the log density, up to a constant, of the logarithm v of a shape.

        h(v) = a v + b s + c log(o + r s) + m lgamma(o + r s) - n sum_j lgamma(w_j s),   s = exp(v),

    or of a factor shared by all shapes. ``terms`` is (a, b, c, o, r, m, n), ``weights`` holds the
    w_j; `durations.py` and `dirichlet.py` derive them. The records enter only through their sums.
    """
    if not abs(v) <= FARTHEST:
        return -math.inf
    a, b, c, o, r, m, n = terms
    s = math.exp(v)
    total = a * v + b * s
    inside = max(o + r * s, SMALLEST_SHAPE)
    if c != 0.0:
        total += c * math.log(inside)
    if m != 0.0:
        total += m * math.lgamma(inside)
    for j in range(weights.shape[0]):
        total -= n * math.lgamma(max(weights[j] * s, SMALLEST_SHAPE))
    return total if total == total else -math.inf


@njit(cache=True, nogil=True)
def move_shape(v, terms, weights, n, uniforms, used):
    """Make a slice step in the logarithm of a shape, given n records; as `slice_in_pool`."""
    v = min(max(v, -FARTHEST), FARTHEST)
    width = 4.0 / math.sqrt(n + 4.0)  # about three posterior standard deviations of v
    return slice_in_pool(log_shape_density, v, (terms, weights), width, uniforms, used)
