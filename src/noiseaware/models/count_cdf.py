"""Counts as functions of uniform innovations: the inverse CDF of Poisson and negative binomial.

A count x = 0, 1, 2, ... with mean m and size r (r = inf is the Poisson distribution) has

    p(x) = Gamma(x + r) / (Gamma(r) x!) (m / (m + r))^x (r / (m + r))^r,        variance m + m^2/r,
    p(x) = m^x exp(-m) / x!                                                     if r = inf.

Neighbours differ by p(x) / p(x - 1) = (r + x - 1) / (r + m) m / x, so a whole table takes a single
log-gamma evaluation.

**The construction.** With the tail Q(x) = P(X > x) and Q(-1) = 1,

    x = F(u)   if   Q(x) <= u < Q(x - 1),        u uniform on [0, 1):

the inverse CDF from above. A small u gives a large count, because counts are unbounded above and
floating point is fine near 0 but coarse (2^-53) near 1. Given x, u is uniform in its interval.

**The table.** `tail_table` holds Q for the counts around the mode with p(x) >= 2^-64, summed from
the far end inward so that small tails keep their digits. Counts outside are rare; `edge` finds them
by computing Q(x) for any x. It sums the series p(x + 1) + p(x + 2) + ... (or 1 minus
p(x) + p(x - 1) + ..., below the mean). For r < m / 100, where the series would be long, it uses the
continued fraction of the incomplete beta function, Q(x) = I_{m/(m+r)}(x + 1, r) (Abramowitz and
Stegun 1964, 26.5.24 and 26.5.8). Which counts are in the table depends on m and r only, so both
directions see identical edges.

**Every count owns a float**, whatever m and r are, as in `inverse_cdf`: the edges are kept strictly
decreasing, at most 1 - (x + 1) 2^-53 and at least (2^52 - x) 2^-1074. This moves a probability by
at most the spacing of u times the number of counts below. The round trip x -> u -> x is thus exact
even for counts that are impossible under m and r.

References
----------
Abramowitz and Stegun (1964), Handbook of Mathematical Functions, National Bureau of Standards.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.models.conjugate import SMALLEST, gamma_bound
from noiseaware.models.inverse_cdf import SPACING, uniform_between

LARGEST_COUNT = 2**52 - 1
"""Counts up to here have their own edge."""

LARGEST_SIZE = 1e300
"""Larger finite sizes are set to this value."""

LARGEST_PRIOR_MEAN = 1e6
"""The largest prior mean of a count that is accepted."""

_DENORMAL = 2.0**-1074
_LEAST = 2.0**-64
"""The table ends where the probability of a single count falls below this."""

_CAP, _CAP_HEAVY = 2**15, 2**13
"""Maximum number of counts on either side of the mode; the second if the tail is long."""

_HEAVY = 100.0
"""If m / r exceeds this, the tail is nearly flat and the continued fraction is used."""


def largest_mean(name: str, shape: float, rate: float) -> float:
    """Return a mean beyond which a Gamma(shape, rate) prior has negligible mass.

    A wild proposal can ask for any mean, and a count of 10^15 would take forever, so the models
    treat larger means as impossible. Priors that expect such counts are rejected.
    """
    if shape / rate > LARGEST_PRIOR_MEAN:
        raise ValueError(
            f"{name}_shape / {name}_rate, the prior mean of the {name}, must be at most "
            f"{LARGEST_PRIOR_MEAN:g}; got {shape / rate:g}"
        )
    return gamma_bound(shape, rate)


@njit(cache=True, nogil=True)
def log_rising(x, size):
    """Return log Gamma(x + r) - log Gamma(r), accurate even if both are huge and nearly equal."""
    if size <= 1e5:
        return math.lgamma(x + size) - math.lgamma(size)
    # The difference of two Stirling series, with the large terms combined.
    return (
        (size - 0.5) * math.log1p(x / size)
        + x * (math.log(size + x) - 1.0)
        + 1.0 / (12.0 * (size + x))
        - 1.0 / (12.0 * size)
    )


@njit(cache=True, nogil=True)
def log_mass(x, mean, size):
    """Return log p(x), for m > 0."""
    if size == math.inf:
        return x * math.log(mean) - mean - math.lgamma(x + 1.0)
    return (
        log_rising(x, size)
        - math.lgamma(x + 1.0)
        + x * (math.log(mean) - math.log(mean + size))
        - size * math.log1p(mean / size)
    )


@njit(cache=True, nogil=True)
def odds(mean, size):
    """Return the argument ``ratio`` of `growth`, so that each step of a sum divides only once."""
    return mean if size == math.inf else mean / (mean + size)


@njit(cache=True, nogil=True)
def growth(x, ratio, size):
    """Return p(x) / p(x - 1), x at least 1; ``ratio`` is ``odds(mean, size)``."""
    if size == math.inf:
        return ratio / x
    return (size + x - 1.0) * ratio / x


@njit(cache=True, nogil=True)
def _fraction(a, b, z):
    """Return the continued fraction of I_z(a, b), evaluated by Lentz's method.

    I_z(a, b) = z^a (1 - z)^b Gamma(a + b) / (Gamma(a + 1) Gamma(b)) times this fraction, which
    converges fast for z < (a + 1) / (a + b + 2).
    """
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * z / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for k in range(1, 100000):
        even = k * (b - k) * z / ((a + 2.0 * k - 1.0) * (a + 2.0 * k))
        odd = -(a + k) * (a + b + k) * z / ((a + 2.0 * k) * (a + 2.0 * k + 1.0))
        change = 1.0
        for coefficient in (even, odd):
            d = 1.0 + coefficient * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + coefficient / c
            c = c if abs(c) > tiny else tiny
            change = c * d
            result *= change
        if abs(change - 1.0) < 1e-15:
            break
    return result


@njit(cache=True, nogil=True)
def tail(x, mean, size):
    """Return Q(x) = P(X > x) for any x >= 0."""
    if mean > _HEAVY * size:
        z = mean / (mean + size)
        if z * (x + 3.0 + size) < x + 2.0:
            return math.exp(log_mass(x + 1.0, mean, size)) * _fraction(x + 1.0, size, z)
        # 1 - I_{1-z}(r, x + 1), whose leading factor is p(x + 1) (x + 1) / r.
        front = math.exp(log_mass(x + 1.0, mean, size) + math.log((x + 1.0) / size))
        return 1.0 - front * _fraction(size, x + 1.0, size / (mean + size))
    ratio = odds(mean, size)
    total = 1.0
    each = 1.0
    if x + 1.0 > mean:
        j = x + 2.0
        while each > 1e-17 * total:
            each *= growth(j, ratio, size)
            total += each
            j += 1.0
        return math.exp(log_mass(x + 1.0, mean, size)) * total
    j = x
    while j > 0.0 and each > 1e-17 * total:
        each /= growth(j, ratio, size)
        total += each
        j -= 1.0
    return 1.0 - math.exp(log_mass(x, mean, size)) * total


@njit(cache=True, nogil=True)
def edge(x, mean, size):
    """Return Q(x), moved if necessary so that every count owns a float; Q(-1) = 1."""
    if x < 0:
        return 1.0
    highest = 1.0 - (x + 1.0) * SPACING
    lowest = (LARGEST_COUNT + 1.0 - x) * _DENORMAL
    return max(min(tail(x + 0.0, mean, size), highest), lowest)


@njit(cache=True, nogil=True)
def inside(mean, size):
    """Return m and r, moved into the range where the formulas hold."""
    # `not` also replaces NaN, which a wild proposal can produce.
    if not mean > SMALLEST:
        mean = SMALLEST
    if not size > SMALLEST:
        size = SMALLEST
    if size != math.inf:
        size = min(size, LARGEST_SIZE)
    return mean, size


@njit(cache=True, nogil=True)
def tail_table(mean, size):
    """Return the first count of the table and its edges Q(first), Q(first + 1), ..."""
    cap = _CAP_HEAVY if mean > _HEAVY * size else _CAP
    mode = mean
    if size != math.inf:
        mode = mean * (size - 1.0) / size if size > 1.0 else 0.0
    middle = int(mode)
    ratio = odds(mean, size)
    masses = np.empty(2 * cap + 1)
    masses[cap] = math.exp(log_mass(middle + 0.0, mean, size))
    last = cap
    while last < 2 * cap and masses[last] > _LEAST:
        last += 1
        masses[last] = masses[last - 1] * growth(middle + last - cap + 0.0, ratio, size)
    lowest = max(0, cap - middle)
    first = cap
    while first > lowest and masses[first] > _LEAST:
        first -= 1
        masses[first] = masses[first + 1] / growth(middle + first + 1.0 - cap, ratio, size)
    start = middle + first - cap
    # In place, from the far end inward: the tail above a count replaces its probability.
    above = edge(middle + last - cap, mean, size)
    for k in range(last, first - 1, -1):
        mass = masses[k]
        masses[k] = above
        above += mass
    above = edge(start - 1, mean, size)
    for k in range(first, last + 1):
        highest = min(1.0 - (start + k - first + 1.0) * SPACING, np.nextafter(above, 0.0))
        if masses[k] > highest:
            masses[k] = highest
        above = masses[k]
    return start, masses[first : last + 1]


@njit(cache=True, nogil=True)
def count_of(u, mean, size, start, edges):
    """Return the smallest x with Q(x) <= u."""
    if u <= 0.0:
        u = 0.5 * SPACING  # the middle of the interval that rng.random() rounds down to 0
    last = edges.shape[0] - 1
    if edges[last] <= u < edges[0]:
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if edges[middle] <= u:
                high = middle
            else:
                low = middle
        return start + high
    if u >= edges[0]:
        low, high = -1, start
        if start == 0 or u < edge(start - 1, mean, size):
            return start
    else:
        low, step = start + last, 1
        high = low + 1
        while high < LARGEST_COUNT and edge(high, mean, size) > u:
            low = high
            step *= 2
            high = min(low + step, LARGEST_COUNT)
    while high - low > 1:
        middle = (low + high) // 2
        if edge(middle, mean, size) <= u:
            high = middle
        else:
            low = middle
    return high


@njit(cache=True, nogil=True)
def build_counts(mean, size, innovations, records):
    """Write the count for each innovation."""
    mean, size = inside(mean, size)
    start, edges = tail_table(mean, size)
    for i in range(records.shape[0]):
        records[i] = count_of(innovations[i, 0], mean, size, start, edges)


@njit(cache=True, nogil=True)
def recover_counts(mean, size, records, innovations):
    """Move each uniform of ``innovations`` into its count's interval; False at an invalid count."""
    mean, size = inside(mean, size)
    start, edges = tail_table(mean, size)
    for i in range(records.shape[0]):
        x = records[i]
        if not 0 <= x <= LARGEST_COUNT:
            return False
        k = x - start
        if 0 < k < edges.shape[0]:
            low, high = edges[k], edges[k - 1]
        elif k == 0:
            low, high = edges[0], edge(x - 1, mean, size)
        else:
            low = edge(x, mean, size)
            high = edges[k - 1] if k == edges.shape[0] else edge(x - 1, mean, size)
            if not low < high:
                # Below the resolution of floats; only for extreme sizes and means.
                low = np.nextafter(high, 0.0)
        innovations[i, 0] = uniform_between(low, high, innovations[i, 0])
    return True


@njit(cache=True, nogil=True)
def log_masses(mean, size, records, out):
    """Write log p(x_i); False at an invalid count."""
    possible = 0.0 < mean < math.inf and size > 0.0
    for i in range(records.shape[0]):
        if not 0 <= records[i] <= LARGEST_COUNT:
            return False
        out[i] = log_mass(records[i] + 0.0, mean, size) if possible else -math.inf
    return True


@njit(cache=True, nogil=True)
def sum_counts(records):
    """Return the sum of the counts, or -1 if one is negative or too large."""
    total = 0.0
    for i in range(records.shape[0]):
        if not 0 <= records[i] <= LARGEST_COUNT:
            return -1.0
        total += records[i]
    return total
