"""A count seen only through noise: summed out exactly, and drawn exactly.

A published cell has a true count x = 0, 1, 2, ... with law f (Poisson, negative binomial,
binomial), and what is seen of it has law h(s | x). An analysis needs

    p(s) = sum_x f(x) h(s | x),      E(x | s),  Var(x | s),      a draw of x given s.

A walk over the weights w(x) = f(x) h(s | x) gives them all.

**The walk.** It starts at the largest weight and goes up and down by the ratio of neighbours,
w(x + 1) / w(x) = f(x + 1) / f(x) * h(s | x + 1) / h(s | x). This takes one division and, under
Gaussian noise, whose ratio shrinks by a constant factor, no exponential. (Under Gaussian noise it
may start a few counts off the largest weight: ratios then grow first, and the sums are the same.)
The walk stops when the remainder is below `NEGLIGIBLE` times the sum so far:

- where w is log-concave (Poisson, binomial, and negative binomial counts with size r >= 1, under
  noise with log-concave density), ratios fall from the mode on, so with rho the last ratio, at most
  w rho / (1 - rho) remains;
- a negative binomial with r < 1 is log-convex, and w may have two humps, one at 0 and one near s.
  Going down from the upper one, w first falls and may then rise again until 0, so at most
  x max(w(x), w(0)) remains. Going up from 0, at most the same with the upper hump in place of 0
  remains, and beyond that hump the ratios are below q = m / (m + r);
- where h is a table, all of the table is summed.

**A draw** needs p(s), known by then, and few weights: they are summed outward from the mean, the
larger of the next two first, until they reach u p(s), u uniform.

**Wide windows.** Under Gaussian noise w is smooth, and every k-th count is enough. Let t be the sum
of w over x = c + k j, all integers j. By Poisson's summation formula k t differs from the sum over
all counts by the Fourier transform W of w at multiples of 2 pi / k. Shifting the path of
integration by i a changes |w| little: |Gamma(x + 1)| / |Gamma(x + 1 + i a)| =
prod_n sqrt(1 + a^2 / (x + 1 + n)^2) is at most exp(a^2 trigamma(x + 1) / 2), the factor of the
noise is exp(a^2 / (2 sd^2)), and a gamma function in the numerator only gets smaller. So

    |W(2 pi / k)| <= exp(-2 pi a / k + a^2 kappa / 2) W(0),   kappa = 1 / sd^2 + trigamma(x + 1),

where x is the lower end of the window. With a = 2 pi / (k kappa) this is
exp(-2 pi^2 / (k^2 kappa)), below 2e-16 for k <= 0.74 / sqrt(kappa). About 30 weights then suffice
for any width. As every c gives the same sum to that precision, a uniform c followed by a draw among
its counts is a draw among all.

**Digits.** Probabilities use Loader's saddle-point form, which keeps the digits of large counts;
weights are relative to the largest, and moments to its position.

References
----------
Loader, C. (2000). Fast and accurate computation of binomial probabilities. Bell Laboratories.
Trefethen, L. N. and Weideman, J. A. C. (2014). The exponentially convergent trapezoidal rule. SIAM
    Review 56(3).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from noiseaware.contract import Floats
from noiseaware.mechanisms.terms import (
    BETWEEN,
    GAUSSIAN,
    LAPLACE,
    TABLE,
    CellLaws,
    log_between,
    plain_formula,
)

POISSON, NEGATIVE_BINOMIAL, BINOMIAL = range(3)

NEGLIGIBLE = 1e-17
"""Share of the sum that may be left out on either side."""

WIDE, SHARE = 12.0, 0.74
"""Counts are skipped if 1 / sqrt(kappa) exceeds the first; the second is k in units of it."""

SMALLEST, LARGEST = 1e-290, 2.0**36
"""Rates are clamped to this range, so that every count has a probability."""

MOST = 2**22
"""Maximum number of weights on one side of the start. A rate that needs more, where no count can be
skipped, is treated as impossible: log p(s) = -inf."""

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


# ------------------------------------------------------------------ the law of a count


@njit(cache=True, nogil=True, error_model="numpy")
def stirling(x):
    """Return log Gamma(x + 1) - (x + 1/2) log x + x - log sqrt(2 pi), x > 0."""
    if x <= 15.0:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - _LOG_SQRT_2PI
    y = 1.0 / (x * x)
    series = 1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))
    return series / x


@njit(cache=True, nogil=True, error_model="numpy")
def deviance(x, mean):
    """Return x log(x / mean) + mean - x, x > 0, accurate where the two are close."""
    if abs(x - mean) > 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    result = (x - mean) * v
    odd = 2.0 * x * v
    square = v * v
    for j in range(1, 1000):
        odd *= square
        before = result
        result += odd / (2 * j + 1)
        if result == before:
            break
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def log_binomial_mass(x, n, p, q):
    """Return the log of n choose x, times p^x q^(n - x); n and x need not be integers."""
    if x == 0.0:
        return n * math.log1p(-p) if p < 0.1 else n * math.log(q)
    if x == n:
        return n * math.log(p)
    rest = n - x
    result = stirling(n) - stirling(x) - stirling(rest) - deviance(x, n * p) - deviance(rest, n * q)
    return result - _LOG_SQRT_2PI - 0.5 * math.log(x / n * rest)


@njit(cache=True, nogil=True, error_model="numpy")
def log_mass(code, rate, size, x):
    """Return log f(x).

    `rate` is the mean of a Poisson or negative binomial count, or the odds of a binomial one;
    `size` is r of a negative binomial (variance m + m^2 / r), or the number of trials.
    """
    if code == POISSON:
        if x == 0.0:
            return -rate
        return -stirling(x) - deviance(x, rate) - _LOG_SQRT_2PI - 0.5 * math.log(x)
    if code == NEGATIVE_BINOMIAL:
        if x == 0.0:
            return -size * math.log1p(rate / size)
        total = rate + size
        inside = log_binomial_mass(size, x + size, size / total, rate / total)
        return inside + math.log(size / (size + x))
    if x > size:
        return -math.inf
    return log_binomial_mass(x, size, rate / (1.0 + rate), 1.0 / (1.0 + rate))


@njit(cache=True, nogil=True)
def log_masses(code, rate, size, records, out):
    """Write log f(x_i)."""
    for i in range(records.shape[0]):
        inside = records[i] >= 0
        out[i] = log_mass(code, rate[i], size[i], records[i] + 0.0) if inside else -math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def step_odds(code, rate, size):
    """Return the argument of `growth` for the rate."""
    return rate / (rate + size) if code == NEGATIVE_BINOMIAL else rate


@njit(cache=True, nogil=True, error_model="numpy")
def growth(code, odds, size, x):
    """Return f(x + 1) / f(x)."""
    if code == POISSON:
        return odds / (x + 1.0)
    if code == NEGATIVE_BINOMIAL:
        return (x + size) * odds / (x + 1.0)
    return (size - x) * odds / (x + 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def decline(code, inverse_odds, size, x):
    """Return f(x - 1) / f(x), x at least 1."""
    if code == POISSON:
        return x * inverse_odds
    if code == NEGATIVE_BINOMIAL:
        return x * inverse_odds / (x - 1.0 + size)
    return x * inverse_odds / (size - x + 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def mean_and_variance(code, rate, size):
    """Return the mean and the variance of the count."""
    if code == POISSON:
        return rate, rate
    if code == NEGATIVE_BINOMIAL:
        return rate, rate + rate * rate / size
    mean = size * rate / (1.0 + rate)
    return mean, mean / (1.0 + rate)


# ------------------------------------------------------------------ the law of what is seen


@njit(cache=True, nogil=True, error_model="numpy")
def log_h(family, p, table, x):
    """Return log h(s | x), up to a constant; `p` is the cell's row of `CellLaws.parameters`."""
    if family < BETWEEN:
        return plain_formula(family, p[0], p[1], x)
    if family == TABLE:
        k = int(x - p[0])
        return table[int(p[1]) + k] if 0 <= k < p[2] else -math.inf
    if p[3] > 0.0:  # withheld under discrete Gaussian noise: a table over the distance
        k = p[2] - x + math.ceil(38.0 / p[1])
        if k >= 0.0:
            last = math.ceil(38.0 / p[1]) + math.ceil(9.0 / p[1])
            return table[int(p[3] - 1.0 + min(k, last))]
    return log_between(family - BETWEEN, p[0], p[2], p[1], x)


@njit(cache=True, nogil=True, error_model="numpy")
def log_ratio(code, odds, size, family, p, table, x):
    """Return log w(x + 1) / w(x)."""
    up = growth(code, odds, size, x)
    if up <= 0.0:
        return -math.inf
    return math.log(up) + log_h(family, p, table, x + 1.0) - log_h(family, p, table, x)


@njit(cache=True, nogil=True, error_model="numpy")
def find_top(code, odds, size, family, p, table, guess):
    """Return the largest x with w(x) >= w(x - 1), or 0; for ratios that fall with x.

    Doubles its steps from the guess, then bisects.
    """
    most = size if code == BINOMIAL else 2.0**53
    low = min(max(math.floor(guess), 0.0), most)
    step = 1.0
    if low < most and log_ratio(code, odds, size, family, p, table, low) >= 0.0:
        high = low
        while high < most and log_ratio(code, odds, size, family, p, table, high) >= 0.0:
            low = high
            high = min(high + step, most)
            step *= 2.0
        if high == most and log_ratio(code, odds, size, family, p, table, most - 1.0) >= 0.0:
            return most
    else:
        high = low
        while low > 0.0 and log_ratio(code, odds, size, family, p, table, low - 1.0) < 0.0:
            high = low
            low = max(low - step, 0.0)
            step *= 2.0
        if low == 0.0 and log_ratio(code, odds, size, family, p, table, 0.0) < 0.0:
            return 0.0
    # The ratio at low (or below it) is at least 1, at high below 1.
    while high - low > 1.0:
        middle = math.floor(0.5 * (low + high))
        if log_ratio(code, odds, size, family, p, table, middle) >= 0.0:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True, nogil=True, error_model="numpy")
def first_guess(code, rate, odds, size, family, p):
    """Return a guess of where the largest weight is, and whether it is at most a step away."""
    mean, variance = mean_and_variance(code, rate, size)
    if family >= BETWEEN:
        # Within the interval known to contain the noisy number.
        return min(max(mean, p[0]), p[2]), False
    precision = p[1] * p[1]
    x = (mean + variance * precision * p[0]) / (1.0 + variance * precision)
    if family != GAUSSIAN:
        return min(max(p[0], mean * math.exp(-p[1])), mean * math.exp(p[1])), False
    # Newton's method for d log w / dx = 0, with log x! about (x + 1/2) log(x + 1/2).
    for _ in range(8):
        x = max(x, 0.0)
        slope = math.log(odds / (x + 0.5)) + (p[0] - x) * precision
        bend = -1.0 / (x + 0.5) - precision
        if code == NEGATIVE_BINOMIAL:
            slope += math.log(x + size)
            bend += 1.0 / (x + size)
        elif code == BINOMIAL:
            x = min(x, size)
            slope += math.log(size - x + 0.5)
            bend -= 1.0 / (size - x + 0.5)
        if not bend < 0.0:
            break
        move = -slope / bend
        x += max(move, -0.5 * x)
        if abs(move) < 0.5:
            return x, True
    return x, False


@njit(cache=True, nogil=True, error_model="numpy")
def two_humps(code, odds, size, family, p, table):
    """Return the upper of the two possible maxima of w, for r < 1; 0 if there is none.

    Under Gaussian noise log w(x + 1) / w(x) rises up to about x = sd, then falls. Under Laplace
    noise it rises up to s, where it drops. Under other noise the search goes one by one from the
    interval on.
    """
    if family == GAUSSIAN:
        turn = math.ceil(1.0 / max(p[1], 1e-300))
        if not turn < 2.0**52 or log_ratio(code, odds, size, family, p, table, turn) < 0.0:
            return 0.0
        return find_top(code, odds, size, family, p, table, max(turn, p[0]))
    x = max(math.floor(p[0] if family < BETWEEN else max(p[0], min(p[2], 0.0))), 0.0)
    last = x + MOST
    while x < last and log_ratio(code, odds, size, family, p, table, x) >= 0.0:
        x += 1.0
    while x > 0.0 and log_ratio(code, odds, size, family, p, table, x - 1.0) < 0.0:
        x -= 1.0
    return x


# ------------------------------------------------------------------ the walk


class Walk(NamedTuple):
    """What a walk needs to know of a cell; the law of the count is as in `growth`."""

    code: int
    odds: float
    size: float
    family: int
    """The law of what is seen of the cell."""
    start: float
    other: float
    """Where the walk starts, and where w may have another maximum; equal if there is none."""
    peak: float
    """w(other) / w(start)."""
    convex: bool
    """Whether w may have two humps."""


@njit(cache=True, nogil=True, error_model="numpy")
def left_above(walk, x, weight, ratio, h_ratio):
    """Return a bound on the sum of weights above x; ``ratio`` is w(x) / w(x - 1)."""
    if not walk.convex:
        return weight * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf
    if x < walk.other:
        return (walk.other - x + 1.0 / (1.0 - walk.odds)) * max(weight, walk.peak)
    bound = walk.odds * h_ratio
    return weight * bound / (1.0 - bound) if bound < 1.0 else math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def left_below(walk, x, weight, ratio):
    """Return a bound on the sum of weights below x; ``ratio`` is w(x) / w(x + 1)."""
    if not walk.convex:
        return weight * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf
    return x * max(weight, walk.peak if walk.other < walk.start else 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def walk_side(walk, p, table, side, total):
    """Add up the weights above (side 1) or below (-1) the start, until the rest is negligible.

    Returns sum w, sum w d and sum w d^2, the first including `total`, where d is the distance from
    the start. The weight of the start is 1.
    """
    first = second = 0.0
    x, weight, factor = walk.start, 1.0, 1.0
    code, odds, size, family, value = walk.code, walk.odds, walk.size, walk.family, p[0]
    gaussian, laplace, inverse_odds = family == GAUSSIAN, family == LAPLACE, 1.0 / odds
    square = p[1] * p[1]
    shrink = math.exp(-square if gaussian else -p[1])
    before = 0.0 if gaussian else log_h(family, p, table, x)
    if gaussian:
        factor = math.exp(square * (side * (value - x) - 0.5))
    used = 0
    while side > 0.0 or x > 0.0:
        if side > 0.0:
            ratio = growth(code, odds, size, x)
            if ratio <= 0.0:  # all trials
                break
        else:
            ratio = decline(code, inverse_odds, size, x)
        x += side
        if laplace and (x - side - value) * side >= 0.0:  # away from s
            factor = shrink
        elif not gaussian:
            now = log_h(family, p, table, x)
            factor = math.exp(now - before)
            before = now
        ratio *= factor
        weight *= ratio
        distance = x - walk.start
        total += weight
        first += weight * distance
        second += weight * distance * distance
        used += 1
        # Bounds are only worth computing where the weight itself is small.
        if weight <= NEGLIGIBLE * total:
            if side > 0.0:
                left = left_above(walk, x, weight, ratio, factor)
            else:
                left = left_below(walk, x, weight, ratio)
            if left <= NEGLIGIBLE * total or (weight == 0.0 and not walk.convex):
                break
        if used >= MOST:
            return 0.0, first, second
        if gaussian and used % 32 == 0:  # errors of the product grow with the square of its length
            factor = math.exp(square * (side * (value - x) - 0.5))
        elif gaussian:
            factor *= shrink
    return total, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def gaussian_side(a, b, odds, start, away, square, side, total):
    """Add up the weights on one side of the start under Gaussian noise, where w is log-concave.

    All three laws have f(x + 1) / f(x) = (a + b x) odds / (x + 1), with (a, b) = (1, 0) for Poisson
    counts, (r, 1) for negative binomial and (N, -1) for binomial ones. `away` is s - start. Returns
    the same as `walk_side`.
    """
    shrink, inverse_odds = math.exp(-square), 1.0 / odds
    first = second = d = 0.0
    weight = factor = 1.0
    for k in range(MOST):
        if k & 31 == 0:  # errors of the product grow with the square of its length
            factor = math.exp(square * (side * (away - d) - 0.5))
        x = start + d
        if side > 0.0:
            ratio = (a + b * x) * odds / (x + 1.0) * factor
        elif x > 0.0:
            ratio = x * inverse_odds / (a + b * (x - 1.0)) * factor
        else:
            ratio = 0.0
        if not ratio > 0.0:  # all trials, or none
            return total, first, second
        weight *= ratio
        factor *= shrink
        d += side
        total += weight
        first += weight * d
        second += weight * d * d
        # w rho / (1 - rho) remains.
        if weight <= NEGLIGIBLE * total and weight * ratio <= NEGLIGIBLE * total * (1.0 - ratio):
            return total, first, second
    return 0.0, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def walk_counts(walk, p, table):
    """Return sum w / w(start), E(x - start) and Var(x)."""
    if walk.family == GAUSSIAN and not walk.convex:
        code, size = walk.code, walk.size
        a = 1.0 if code == POISSON else size
        b = 0.0 if code == POISSON else (1.0 if code == NEGATIVE_BINOMIAL else -1.0)
        away, square = p[0] - walk.start, p[1] * p[1]
        total, first, second = gaussian_side(a, b, walk.odds, walk.start, away, square, 1.0, 1.0)
        if total > 0.0:
            total, f2, s2 = gaussian_side(a, b, walk.odds, walk.start, away, square, -1.0, total)
            first, second = first + f2, second + s2
    else:
        total, first, second = walk_side(walk, p, table, 1.0, 1.0)
        if total > 0.0:
            total, f2, s2 = walk_side(walk, p, table, -1.0, total)
            first, second = first + f2, second + s2
    if total == 0.0:
        return total, 0.0, 0.0
    mean = first / total
    return total, mean, max(second / total - mean * mean, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_outward(walk, p, table, total, uniform):
    """Return the count at which the weights, added up outward from the start, reach u total.

    Adding the larger of the next two weights first keeps their number small. Any order gives a draw
    from w / total.
    """
    code, odds, size, family = walk.code, walk.odds, walk.size, walk.family
    inverse_odds, gaussian, square = 1.0 / odds, family == GAUSSIAN, p[1] * p[1]
    left, tiny, last = uniform * total - 1.0, 1e-20 * total, walk.start
    if left < 0.0:
        return last
    up = down = walk.start
    above = below = 1.0
    # Ratios of h; under Gaussian noise they shrink by a constant factor.
    h_up = h_down = 0.0 if gaussian else log_h(family, p, table, last)
    shrink = math.exp(-square) if gaussian else 1.0
    factor_up = math.exp(square * (p[0] - last - 0.5)) if gaussian else 1.0
    factor_down = math.exp(square * (last - p[0] - 0.5)) if gaussian else 1.0
    go_up = go_down = True
    while True:
        if go_up:
            if not gaussian:
                now = log_h(family, p, table, up + 1.0)
                factor_up, h_up = math.exp(now - h_up), now
            above *= growth(code, odds, size, up) * factor_up
            factor_up *= shrink
        if go_down and down > 0.0:
            if not gaussian:
                now = log_h(family, p, table, down - 1.0)
                factor_down, h_down = math.exp(now - h_down), now
            below *= decline(code, inverse_odds, size, down) * factor_down
            factor_down *= shrink
        elif go_down:
            below = 0.0
        go_up = above >= below and (above > tiny or up < walk.other)
        go_down = not go_up and (below > tiny or (walk.convex and down > 0.0))
        if go_up:
            up += 1.0
            left -= above
            last = up
        elif go_down:
            down -= 1.0
            left -= below
            last = down
        if left < 0.0 or not (go_up or go_down):  # the second: rounding, the sum is below u total
            return last


@njit(cache=True, nogil=True, error_model="numpy")
def stirling_far(z):
    """Return `stirling` of 1 / z, for z up to 1/60."""
    return z * (1.0 / 12.0 - z * z * (1.0 / 360.0 - z * z / 1260.0))


@njit(cache=True, nogil=True, error_model="numpy")
def log_factorial_step(x, inverse, d, half):
    """Return log Gamma(x + d + 1/2 + half) - log Gamma(x + 1/2 + half) - d log x, above 60.

    half is 1/2 or -1/2, `inverse` is 1 / x. Uses Stirling's formula with the large terms combined:
    log Gamma(x + 1) = (x + 1/2) log x - x + ..., log Gamma(x) = (x - 1/2) log x - x + ...
    """
    ahead = stirling_far(1.0 / (x + d)) - stirling_far(inverse)
    return (x + d + half) * math.log1p(d * inverse) - d + ahead


@njit(cache=True, nogil=True, error_model="numpy")
def log_smooth_weight(walk, square, value, d):
    """Return log w(x + d) / w(x) under Gaussian noise of s = `value`, x the start, far from 0."""
    code, x = walk.code, walk.start
    inverse = 1.0 / x
    y = walk.size + x if code == NEGATIVE_BINOMIAL else walk.size - x
    # The logarithm of `growth` at x, with its factorials left to the other terms.
    drift = math.log(walk.odds * inverse * (1.0 if code == POISSON else y))
    result = square * d * (value - x - 0.5 * d) + d * drift
    result -= log_factorial_step(x, inverse, d, 0.5)
    if code == NEGATIVE_BINOMIAL:
        return result + log_factorial_step(y, 1.0 / y, d, -0.5)
    if code == BINOMIAL:
        return result - log_factorial_step(y, 1.0 / y, -d, 0.5)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def stride_of(walk, square, reach):
    """Return k such that every k-th count is enough; 1 if all are needed.

    `square` is 1 / sd^2 of the noise, infinite for noise that is not smooth.
    """
    x = walk.start
    low = x - reach
    if walk.convex or low < 60.0:
        return 1.0
    kappa = square + 1.0 / (low + 0.5)
    if walk.code == BINOMIAL:
        room = walk.size - x - reach
        if room < 60.0:
            return 1.0
        kappa += 1.0 / (room + 0.5)
    return math.floor(SHARE / math.sqrt(kappa)) if kappa * WIDE * WIDE < 1.0 else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def reach_of(walk, p):
    """Return the distance from its largest value at which w is negligible, as for a normal."""
    x = max(walk.start, 1.0)
    bend = 1.0 / x
    if walk.family == GAUSSIAN:
        bend += p[1] * p[1]
    if walk.code == NEGATIVE_BINOMIAL:
        bend -= 1.0 / (x + walk.size)
    elif walk.code == BINOMIAL:
        bend += 1.0 / max(walk.size - x, 1.0)
    return 10.0 / math.sqrt(bend) if bend > 0.0 else math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def walk_strides(walk, square, value, stride, offset):
    """As `walk_counts`, over every k-th count, starting `offset` from the start."""
    total = first = second = 0.0
    for side in (1.0, -1.0):
        d = offset if side > 0.0 else offset - stride
        while True:
            weight = math.exp(log_smooth_weight(walk, square, value, d))
            total += weight
            first += weight * d
            second += weight * d * d
            if weight <= 1e-18 * total:
                break
            d += side * stride
    mean = first / total
    return stride * total, mean, max(second / total - mean * mean, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_strides(walk, square, value, stride, total, uniform):
    """As `draw_outward`, with a uniform offset, then a draw among every k-th count from it."""
    shifted = uniform * stride
    offset = math.floor(shifted)
    left = (shifted - offset) * total / stride
    for k in range(400):  # 0, -1, 1, -2, ... strides away, until all that is left is negligible
        largest = 0.0
        for d in (offset + k * stride, offset - (k + 1) * stride):
            weight = math.exp(log_smooth_weight(walk, square, value, d))
            left -= weight
            if left < 0.0:
                return walk.start + d
            largest = max(largest, weight)
        if largest <= 1e-20 * total:
            break
    return walk.start + offset


@njit(cache=True, nogil=True, error_model="numpy")
def sum_table(code, rate, size, p, table):
    """As `cell`, for h given by a table; -inf if no count of the table is possible."""
    first, at, length = p[0], int(p[1]), int(p[2])
    top = -math.inf
    for k in range(length):
        if table[at + k] > -math.inf:
            top = max(top, log_mass(code, rate, size, first + k) + table[at + k])
    if top == -math.inf:
        return top, 0.0, 0.0
    total = mean = square = 0.0
    for k in range(length):
        if table[at + k] > -math.inf:
            weight = math.exp(log_mass(code, rate, size, first + k) + table[at + k] - top)
            total += weight
            mean += k * weight
            square += k * k * weight
    mean /= total
    return top + math.log(total), first + mean, max(square / total - mean * mean, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_table(code, rate, size, p, table, log_p, uniform):
    """As `draw_cell`, for h given by a table."""
    first, at, length = p[0], int(p[1]), int(p[2])
    left, chosen = uniform, 0
    for k in range(length):
        if table[at + k] > -math.inf:
            weight = math.exp(log_mass(code, rate, size, first + k) + table[at + k] - log_p)
            if weight > 0.0:
                chosen = k
                left -= weight
                if left < 0.0:
                    break
    return first + chosen


@njit(cache=True, nogil=True, error_model="numpy")
def begin(code, rate, size, family, p, table, mean):
    """Return the walk of a cell, the log weight of its start, and how to stride.

    `mean` is E(x | s), where a log-concave w is large, or negative if unknown. The stride is 1 if
    every count is needed; otherwise it goes with the walk and the 1 / sd^2 returned last.
    """
    odds = step_odds(code, rate, size)
    convex = code == NEGATIVE_BINOMIAL and size < 1.0
    peak = 0.0
    if convex:
        start, other = two_humps(code, odds, size, family, p, table), 0.0
        at_zero = log_mass(code, rate, size, 0.0) + log_h(family, p, table, 0.0)
        top = log_mass(code, rate, size, start) + log_h(family, p, table, start)
        if at_zero > top:
            start, other, at_zero, top = 0.0, start, top, at_zero
        peak = math.exp(at_zero - top)
    else:
        start = math.floor(mean + 0.5)
        if start < 0.0:
            guess, close = first_guess(code, rate, odds, size, family, p)
            start = math.floor(guess)
            if not close:  # any count near the top is a good start
                start = find_top(code, odds, size, family, p, table, start)
        other = start
        top = log_mass(code, rate, size, start) + log_h(family, p, table, start)
    walk = smooth = Walk(code, odds, size, family, start, other, peak, convex)
    reach, square = reach_of(walk, p), p[1] * p[1]
    if family == LAPLACE and abs(start - p[0]) > reach:
        # Everything is on one side of s, where Laplace noise only multiplies the odds.
        tilted = odds * math.exp(-p[1] if start > p[0] else p[1])
        smooth, square = Walk(code, tilted, size, family, start, other, peak, convex), 0.0
    elif family != GAUSSIAN:
        square = math.inf
    return walk, top, stride_of(smooth, square, reach), smooth, square


@njit(cache=True, nogil=True, error_model="numpy")
def cell(code, rate, size, family, p, table, offset):
    """Return log p(s), E(x | s) and Var(x | s); `offset` in [0, 1) sets where strides start."""
    rate = min(max(rate, SMALLEST), LARGEST)
    if family == TABLE:
        return sum_table(code, rate, size, p, table)
    walk, top, stride, smooth, square = begin(code, rate, size, family, p, table, -1.0)
    if stride > 1.0:
        offset = math.floor(offset * stride)
        total, mean, variance = walk_strides(smooth, square, p[0], stride, offset)
    else:
        total, mean, variance = walk_counts(walk, p, table)
    return top + math.log(total), walk.start + mean, variance


@njit(cache=True, nogil=True, error_model="numpy")
def draw_cell(code, rate, size, family, p, table, log_p, mean, uniform):
    """Return a draw of x given s, by inversion; log p(s) gives the sum of the weights."""
    rate = min(max(rate, SMALLEST), LARGEST)
    if family == TABLE:
        return draw_table(code, rate, size, p, table, log_p, uniform)
    walk, top, stride, smooth, square = begin(code, rate, size, family, p, table, mean)
    total = math.exp(log_p - top)
    if stride > 1.0:
        return draw_strides(smooth, square, p[0], stride, total, uniform)
    return draw_outward(walk, p, table, total, uniform)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_cells(code, rate, size, laws, log_p, mean, variance):
    """Fill in log p(s_i), E(x_i | s_i) and Var(x_i | s_i), for all n cells.

    `rate` and `size` are those of each cell, as in `log_mass`; `laws` describes what is seen.
    """
    for i in range(rate.shape[0]):
        family, p = laws.family[i], laws.parameters[i]
        if family == GAUSSIAN and p[1] == 0.0:  # nothing is seen of it
            log_p[i] = 0.0
            mean[i], variance[i] = mean_and_variance(code, rate[i], size[i])
        else:
            found = cell(code, rate[i], size[i], family, p, laws.table, 0.0)
            log_p[i], mean[i], variance[i] = found


@njit(cache=True, nogil=True, error_model="numpy")
def draw_cells(code, rate, size, laws, log_p, mean, uniforms, records):
    """Fill in draws of x_i given s_i, int64 (n,), for all cells of which something is seen."""
    for i in range(rate.shape[0]):
        family, p = laws.family[i], laws.parameters[i]
        if not (family == GAUSSIAN and p[1] == 0.0):
            known = log_p[i], mean[i], uniforms[i]
            records[i] = int(draw_cell(code, rate[i], size[i], family, p, laws.table, *known))


class Summed(NamedTuple):
    """The result of `sum_out`, (n,) each: log p(s_i), E(x_i | s_i) and Var(x_i | s_i)."""

    log_p: Floats
    mean: Floats
    variance: Floats


def sum_out(code: int, rate: Floats, size: Floats, laws: CellLaws) -> Summed:
    """Sum out every cell; the arguments are those of `sum_cells`."""
    made = Summed(*np.empty((3, len(rate))))
    sum_cells(code, np.clip(rate, SMALLEST, LARGEST), size, laws, *made)
    return made


def draw_out(
    code: int, rate: Floats, size: Floats, laws: CellLaws, summed: Summed, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw every cell given what is seen of it; `summed` is the result of `sum_out`."""
    records = np.empty(len(rate), dtype=np.int64)
    uniforms = rng.random(len(rate))
    draw_cells(code, rate, size, laws, summed.log_p, summed.mean, uniforms, records)
    nothing = np.flatnonzero((laws.family == GAUSSIAN) & (laws.parameters[:, 1] == 0.0))
    if len(nothing):
        records[nothing] = draw_counts(code, rate[nothing], size[nothing], rng)
    return records


def draw_counts(code: int, rate: Any, size: Any, rng: np.random.Generator) -> Any:
    """Draw from the law f."""
    rate = np.clip(rate, SMALLEST, LARGEST)
    if code == BINOMIAL:
        return rng.binomial(size.astype(np.int64), rate / (1.0 + rate))
    if code == NEGATIVE_BINOMIAL:
        rate = np.minimum(rng.standard_gamma(size) * rate / size, 2.0**60)
    return rng.poisson(rate)
