"""A slice sampler for the shape parameters of gamma and Dirichlet records.

Given everything else, the logarithm v of a shape (or of a factor that all the shapes share) has a
log density of one form, up to a constant:

    h(v) = a v + b s + c log(o + r s) + m lgamma(o + r s) - n sum_j lgamma(w_j s),     s = exp(v).

`gamma.py` and `dirichlet.py` derive what its numbers are; the records enter through their sums, so
that a value of h costs a few lgammas whatever n is.

One step (Neal 2003): draw a height under the density at v, log-height h(v) - exponential; put an
interval of a given width around v at random and step out by widths until both ends are outside of
the slice {h > height}; draw from the interval, and shrink it to any point that is outside, until
one is inside. That leaves the density exp(h) invariant for every width that does not depend on v,
and needs no tuning: a width that is too small costs a few more values of h, one that is too large
is halved in a few.

The kernel takes its uniforms from a pool, as those of `conjugate.py` do: where the pool comes to
its end the caller calls again, with the same pool made longer.

References
----------
Neal (2003), Slice sampling, Annals of Statistics 31(3).
"""

from __future__ import annotations

import math

from numba import njit

FARTHEST = 660.0
"""|v| beyond it has density 0; what a prior may have there is below `arguments.LEAST_SHAPE`."""

SMALLEST_SHAPE = 1e-300


@njit(cache=True, nogil=True)
def log_density(v, terms, weights):
    """Return h(v); ``terms`` is (a, b, c, o, r, m, n), and ``weights`` holds the w_j."""
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
def slice_step(v, terms, weights, width, uniforms, used):
    """Make one step from v; return the new v and the position reached in the pool.

    The position is -1 if the pool came to its end first.
    """
    if used + 2 > uniforms.shape[0]:
        return v, -1
    v = min(max(v, -FARTHEST), FARTHEST)
    now = log_density(v, terms, weights)
    if not now > -math.inf:  # nothing to go by: records that are no records of the model
        return v, used + 2
    height = now + math.log(1.0 - uniforms[used])
    low = v - width * uniforms[used + 1]
    high = low + width
    used += 2
    while log_density(low, terms, weights) > height:
        low -= width
    while log_density(high, terms, weights) > height:
        high += width
    while used < uniforms.shape[0]:
        new = low + (high - low) * uniforms[used]
        used += 1
        if log_density(new, terms, weights) >= height:
            return new, used
        if new < v:
            low = new
        else:
            high = new
    return v, -1


def step_width(n_records: int) -> float:
    """Return a width of the first interval, about three posterior standard deviations of v."""
    return 4.0 / math.sqrt(n_records + 4.0)
