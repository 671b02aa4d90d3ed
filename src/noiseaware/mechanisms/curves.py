"""The curves of (epsilon, delta) pairs that a signal of a given strength stays under.

Two families of promise have no closed form for the scale. Both are handled by writing delta
as an increasing function of the strength of the signal relative to the noise, and finding by
bisection the strongest signal whose delta is still small enough.

Gaussian noise is exactly mu-GDP with mu = (l2 sensitivity) / scale, and mu-GDP is exactly a
curve of (epsilon, delta) pairs: `gaussian_delta` (Balle and Wang 2018, theorem 8; Dong, Roth
and Su 2022, corollary 1). Discrete Gaussian noise is known to be rho-zCDP, and rho-zCDP
implies a curve of (epsilon, delta) pairs: `zcdp_delta` (Canonne, Kamath and Steinke 2020).
The second curve is a bound: it promises a little less than the mechanism gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, log_ndtr

# exp(-x^2 / 2) is 0 in double precision from here on.
_NORMAL_UNDERFLOW = 39.0
# Below this mu the two terms of `gaussian_delta` nearly cancel, and it integrates instead.
_SMALL_MU = 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def largest(holds: Callable[[float], bool]) -> float:
    """Return the largest x > 0 with `holds(x)`, for a condition that is true for small x only.

    Bisection down to neighbouring floating-point numbers. The x returned is always on the
    side where the condition is true, so a calibrated scale errs towards more privacy.
    """
    low = high = 1.0
    while not holds(low):
        low /= 2.0
        if low == 0.0:
            return 0.0  # there is none that is a floating-point number
    while holds(high):
        high *= 2.0
    while True:
        # A geometric mean: x may be anywhere between 1e-300 and 1e300.
        middle = low * math.sqrt(high / low)
        if not low < middle < high:
            return low
        if holds(middle):
            low = middle
        else:
            high = middle


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-GDP is (epsilon, delta)-DP.

    With Phi the standard normal distribution function (Balle and Wang 2018, theorem 8),

        delta = Phi(-x) - e^epsilon Phi(-y),   x = epsilon/mu - mu/2,   y = x + mu.

    Because y^2 - x^2 = 2 epsilon, the same delta is phi(x) (m(x) - m(y)) with phi the normal
    density and m(t) = Phi(-t) / phi(t) the Mills ratio, whose derivative is t m(t) - 1. For a
    small mu this difference is lost to rounding, and the integral of 1 - t m(t) from x to y is
    taken instead. Both numbers are at least 0; at epsilon = 0, delta is the total variation
    distance of the two output laws.
    """
    if mu == 0.0:
        return 0.0
    x = epsilon / mu - mu / 2.0
    y = epsilon / mu + mu / 2.0
    if x > _NORMAL_UNDERFLOW:
        return 0.0
    if mu < _SMALL_MU:
        t = epsilon / mu + 0.5 * mu * _NODES
        integrand = 1.0 - t * math.sqrt(math.pi / 2.0) * erfcx(t / math.sqrt(2.0))
        integral = 0.5 * mu * float(_WEIGHTS @ integrand)
        return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * integral
    first = float(log_ndtr(-x))
    second = epsilon + float(log_ndtr(-y))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP is (epsilon, delta)-DP.

    This is the analytic Gaussian calibration: scale = (l2 sensitivity) / mu is the smallest
    Gaussian noise that is (epsilon, delta)-DP.
    """
    return largest(lambda mu: gaussian_delta(epsilon, mu) <= delta)


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta for which rho-zCDP is (epsilon, delta)-DP.

    The smallest over a = alpha - 1 > 0 of the conversion from Renyi divergence of order alpha
    (Canonne, Kamath and Steinke 2020),

        delta = exp(a ((a + 1) rho - epsilon)) / a * (1 - 1/(a + 1))^(a + 1).

    The logarithm is convex in a, and its derivative, (2a + 1) rho - epsilon + log(a/(a + 1)),
    is increasing, so the minimum is where the derivative changes sign.
    """
    if rho == 0.0:
        return 0.0
    if rho - epsilon > 40.0:
        # The best a is near exp(epsilon - rho), and the bound is 1 to double precision.
        return 1.0
    a = largest(lambda a: (2.0 * a + 1.0) * rho - epsilon - math.log1p(1.0 / a) <= 0.0)
    log_delta = a * ((a + 1.0) * rho - epsilon) - a * math.log1p(1.0 / a) - math.log1p(a)
    return math.exp(min(log_delta, 0.0))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which `zcdp_delta` promises (epsilon, delta)-DP."""
    return largest(lambda rho: zcdp_delta(epsilon, rho) <= delta)
