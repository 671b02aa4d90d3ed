"""The log probability that a noisy number lies in an interval, for compiled code.

If a noisy total Y = T + e was clamped, withheld below a threshold or rounded, Y is known only to
lie in an interval, and the likelihood is P(low <= Y <= high). Truncation divides by the same
probability. The four kinds of noise:

- Laplace, with a = (low - T) / scale and b = (high - T) / scale: the distribution function is
  F(a) = exp(a)/2 below 0 and 1 - exp(-a)/2 above;
- Gaussian: F is the normal distribution function Phi;
- discrete Laplace: geometric sums, with q = exp(-1/scale);
- discrete Gaussian: no closed form; terms are added from the largest outwards until they are
  negligible, about 9 scale in each direction. The cost grows with the scale.

Noise is symmetric, so an interval in the upper tail is reflected into the lower one, where a
difference of two distribution functions keeps its precision. Logarithms keep the result finite for
a total far outside the interval.

The discrete sums omit the normalising constant of the noise, which does not depend on T. `low` and
`high` may be infinite; for discrete noise they and T are integers.
"""

from __future__ import annotations

import math

from numba import njit

_SQRT_HALF = math.sqrt(0.5)
_LOG_2 = math.log(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_NEGLIGIBLE = 1e-18  # of a sum: far below the rounding of its last digit


@njit(cache=True, nogil=True, error_model="numpy")
def log_laplace_between(low, high, inverse, total):
    """Log P(low <= T + e <= high) for Laplace noise e of scale 1 / inverse."""
    a, b = (low - total) * inverse, (high - total) * inverse
    if a > 0.0:
        a, b = -b, -a
    if b <= 0.0:
        return b + math.log(-math.expm1(a - b)) - _LOG_2
    return math.log(-math.expm1(a) - math.expm1(-b)) - _LOG_2


@njit(cache=True, nogil=True, error_model="numpy")
def log_scaled_cdf(x):
    """Log Phi(x) + x^2 / 2, by the asymptotic series where Phi underflows."""
    if x > -36.0:
        return math.log(0.5 * math.erfc(-x * _SQRT_HALF)) + 0.5 * x * x
    y = 1.0 / (x * x)
    series = y * (-1.0 + y * (3.0 + y * (-15.0 + y * (105.0 - 945.0 * y))))
    return math.log1p(series) - math.log(-x) - _LOG_SQRT_2PI


@njit(cache=True, nogil=True, error_model="numpy")
def log_normal_cdf(x):
    """Log Phi(x)."""
    if x > -36.0:
        return math.log(0.5 * math.erfc(-x * _SQRT_HALF))
    return log_scaled_cdf(x) - 0.5 * x * x if x > -math.inf else x


@njit(cache=True, nogil=True, error_model="numpy")
def log_gaussian_between(low, high, inverse, total):
    """Log P(low <= T + e <= high) for Gaussian noise e of scale 1 / inverse."""
    a, b = (low - total) * inverse, (high - total) * inverse
    if a > 0.0:
        a, b = -b, -a
    if b <= 0.0:
        log_b = log_normal_cdf(b)
        return log_b + math.log(-math.expm1(log_normal_cdf(a) - log_b))
    return math.log(0.5 * (math.erf(b * _SQRT_HALF) - math.erf(a * _SQRT_HALF)))


@njit(cache=True, nogil=True, error_model="numpy")
def log_discrete_laplace_between(low, high, inverse, total):
    """Log of the sum of exp(-abs(k - T) * inverse) over the integers low <= k <= high."""
    a, b = low - total, high - total
    if a > 0.0:
        a, b = -b, -a
    log_ratio = math.log(-math.expm1(-inverse))
    if b <= 0.0:
        return b * inverse + math.log(-math.expm1(-(b - a + 1.0) * inverse)) - log_ratio
    # k = T, ..., high, and k = low, ..., T - 1.
    above = -math.expm1(-(b + 1.0) * inverse)
    below = -math.exp(-inverse) * math.expm1(a * inverse)
    return math.log(above + below) - log_ratio


@njit(cache=True, nogil=True, error_model="numpy")
def log_discrete_gaussian_between(low, high, inverse, total):
    """Log of the sum of exp(-((k - T) * inverse)^2 / 2) over the integers low <= k <= high.

    With z the distance of the largest term from T, the next term outwards is smaller by the factor
    exp(-(2 z + 1) inverse^2 / 2), and each further factor by another exp(-inverse^2).
    """
    if not -math.inf < total < math.inf:
        return -math.inf
    top = min(max(math.floor(total + 0.5), low), high)
    square = inverse * inverse
    shrink = math.exp(-square)
    result = 1.0
    for side in (-1.0, 1.0):
        end = high if side > 0.0 else low
        left = (end - top) * side
        factor = math.exp(-0.5 * square * (2.0 * (top - total) * side + 1.0))
        term = 1.0
        while left > 0.0:
            term *= factor
            factor *= shrink
            result += term
            left -= 1.0
            if term < _NEGLIGIBLE * result:
                break
    return -0.5 * (top - total) * (top - total) * square + math.log(result)


@njit(cache=True, nogil=True)
def log_folded_laplace(value, inverse, lower, upper, total):
    """Log g at `value`, up to a constant, for folded Laplace noise of scale 1 / inverse.

    `value` is between the bounds, lower < upper, either or both infinite; the total may be
    anywhere. `forced` has the derivation.
    """
    if math.isinf(lower) and math.isinf(upper):
        return -abs(value - total) * inverse
    if math.isinf(lower) or math.isinf(upper):
        # One mirror: the noisy number was the value or its mirror image.
        mirror = upper if math.isinf(lower) else lower
        near = abs(value - total)
        far = abs(2.0 * mirror - value - total)
        if far < near:
            near, far = far, near
        return -near * inverse + math.log1p(math.exp((near - far) * inverse))
    # Two mirrors: g is periodic in T, and the same at T and at its mirror image.
    period = 2.0 * (upper - lower)
    place = (total - lower) % period
    if place > 0.5 * period:
        place = period - place
    direct = abs(value - lower - place)
    image = value - lower + place
    nearest = min(direct, image, period - image)
    result = 0.0
    for distance in (direct, period - direct, image, period - image):
        result += math.exp((nearest - distance) * inverse)
    return -nearest * inverse + math.log(result)
