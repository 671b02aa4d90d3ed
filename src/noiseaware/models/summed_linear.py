"""A kernel for linear regression with known features, the responses integrated out.

If every response is released individually with Gaussian noise of variance d_i,

    y_i ~ N(z_i' beta, sigma^2),   s_i ~ N(y_i, d_i)     give     s_i ~ N(z_i' beta, sigma^2 + d_i),

and with beta ~ N(0, tau^2 I) the coefficients can be integrated out too. With W the diagonal matrix
of 1 / (sigma^2 + d_i), A = Z' W Z + I / tau^2 and r = Z' W s,

    log p(s | sigma^2) = sum_i log W_ii / 2 - log |A| / 2 - (s' W s - r' A^{-1} r) / 2 + constant.

sigma^2 moves by slice sampling of its logarithm t, whose prior density is that of
InverseGamma(a, b) times sigma^2, exp(-a t - b exp(-t)). Given sigma^2, beta is an exact draw from
N(A^{-1} r, A^{-1}).
Responses that share d enter through their sums Z' Z, Z' s and s' s, so with few noise scales
log p(s | sigma^2) costs no pass over the records. To keep digits, s is taken relative to its least
squares fit Z b; beta - b then has the prior mean -b.

Given theta and s_i, a response is normal with mean m_i + k_i (s_i - m_i) and variance
sigma^2 (1 - k_i), where m_i = z_i' beta, q_i = 1 / d_i (0 if it is not seen) and
k_i = sigma^2 q_i / (1 + sigma^2 q_i).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from noiseaware.basics.linear_algebra import cholesky, solve_lower, solve_upper
from noiseaware.contract import Floats, Theta
from noiseaware.maths.cells import CellLaws, Summed
from noiseaware.models.slice_sampling import slice_draw

FARTHEST = 300.0
"""Largest |log sigma^2|; there is no mass beyond."""


class Point(NamedTuple):
    """A value of theta, and what is known of the responses there."""

    beta: Floats
    variance: float
    summed: Summed


@njit(cache=True, nogil=True)
def integrated(variance, precision, sums, root, half):
    """Return log p(s | sigma^2) up to a constant; -inf if A is not positive definite.

    Fills in the lower triangle of `root`, L with L L' = A, and `half`, L^{-1} r. `sums` holds b, d,
    and for each d the number of responses, Z' Z, Z' e and e' e, e = s - Z b.
    """
    centre, d, sizes, squares, cross, total = sums
    p, log_p = centre.shape[0], 0.0
    for i in range(p):
        half[i] = -precision * centre[i]
        for j in range(p):
            root[i, j] = precision if i == j else 0.0
    for k in range(d.shape[0]):
        w = 1.0 / (variance + d[k])
        log_p += 0.5 * (sizes[k] * math.log(w) - w * total[k])
        for i in range(p):
            half[i] += w * cross[k, i]
            for j in range(i + 1):
                root[i, j] += w * squares[k, i, j]
    if not cholesky(root, p, root):
        return -math.inf
    solve_lower(root, p, half)
    for i in range(p):
        log_p += 0.5 * half[i] * half[i] - math.log(root[i, i])
    return log_p


class SummedLinear:
    """The kernel; see the module docstring.

    ``design`` is Z, the intercept first, (n, p + 1); ``precision`` is 1 / tau^2; ``prior`` is
    (a, b), for an unknown sigma^2 (``noise_variance``).
    """

    def __init__(
        self,
        design: Floats,
        laws: CellLaws,
        precision: float,
        noise_variance: float | None,
        prior: tuple[float, float],
    ) -> None:
        self.design, self.precision = design, precision
        self.noise_variance, self.prior = noise_variance, prior
        self.q = laws.parameters[:, 1] ** 2
        seen = np.flatnonzero(self.q > 0.0)
        self.values = np.where(self.q > 0.0, laws.parameters[:, 0], 0.0)
        Z, s = design[seen], self.values[seen]
        p = design.shape[1]
        self.centre = np.linalg.lstsq(Z, s, rcond=None)[0] if seen.size else np.zeros(p)
        left = s - Z @ self.centre
        d, groups = np.unique(1.0 / self.q[seen], return_inverse=True)
        squares, cross = np.zeros((len(d), p, p)), np.zeros((len(d), p))
        np.add.at(squares, groups, Z[:, :, np.newaxis] * Z[:, np.newaxis])
        np.add.at(cross, groups, Z * left[:, np.newaxis])
        sizes = np.bincount(groups, minlength=len(d)).astype(np.float64)
        total = np.bincount(groups, left**2, len(d))
        self.sums = (self.centre, d, sizes, squares, cross, total)

    # ------------------------------------------------------------------ sigma^2 and beta

    def _given(self, variance: float) -> tuple[float, Floats, Floats]:
        """Return log p(s | sigma^2) up to a constant, the Cholesky root of A, and L^{-1} r."""
        p = len(self.centre)
        root, half = np.empty((p, p)), np.empty(p)
        return integrated(variance, self.precision, self.sums, root, half), root, half

    def log_density(self, t: float) -> float:
        """Return the log density of t = log sigma^2 given s, up to a constant."""
        if abs(t) > FARTHEST:
            return -math.inf
        a, b = self.prior
        return self._given(math.exp(t))[0] - a * t - b * math.exp(-t)

    def start(self, rng: Generator) -> tuple[Point, dict[str, Any]]:
        """Return a point near the mode, and the tuning."""
        a, b = self.prior
        _, d, sizes, _, _, total = self.sums
        excess = max(float(total.sum() - sizes @ d), 0.0)
        crude = self.noise_variance or (excess + 2.0 * b) / (float(sizes.sum()) + 2.0 * a)
        tuning = {"count": 0, "middle": math.log(crude), "square": 1.0}
        t = tuning["middle"] + rng.normal()
        return self._draw_beta(self.noise_variance or math.exp(t), rng), tuning

    def step(self, point: Point, tuning: dict[str, Any], rng: Generator) -> tuple[Point, float]:
        """Draw sigma^2 with beta integrated out, then beta."""
        variance = point.variance
        if self.noise_variance is None:
            width = 2.5 * math.sqrt(tuning["square"])
            variance = math.exp(slice_draw(self.log_density, math.log(variance), width, rng))
        return self._draw_beta(variance, rng), 1.0

    def learn(self, point: Point, tuning: dict[str, Any]) -> None:
        """Learn the width of the density of t."""
        tuning["count"] += 1
        share = 1.0 / min(tuning["count"] + 1.0, 200.0)
        away = math.log(point.variance) - tuning["middle"]
        tuning["middle"] += share * away
        tuning["square"] = max((1.0 - share) * (tuning["square"] + share * away**2), 1e-8)

    def forget(self, tuning: dict[str, Any]) -> None:
        """Forget nothing: the width is valid for every release."""

    def _draw_beta(self, variance: float, rng: Generator) -> Point:
        _, root, half = self._given(variance)
        half += rng.normal(size=len(half))
        solve_upper(root, len(half), half)
        return self._at(self.centre + half, variance)

    # ------------------------------------------------------------------ points

    def _at(self, beta: Floats, variance: float) -> Point:
        mean = self.design @ beta
        away, spread = self.values - mean, 1.0 / (1.0 + variance * self.q)
        log_p = 0.5 * (np.log(spread) - away**2 * self.q * spread)
        shrunk = mean + variance * self.q * spread * away
        return Point(beta, variance, Summed(log_p, shrunk, variance * spread))

    def theta(self, point: Point) -> Theta:
        """Return theta at a point, by name."""
        made: Theta = {"coefficients": point.beta}
        if self.noise_variance is None:
            made["noise_variance"] = np.array(point.variance)
        return made

    def point(self, theta: Theta) -> Point:
        """Return the point at a theta."""
        variance = self.noise_variance or float(theta["noise_variance"])
        return self._at(np.array(theta["coefficients"]), variance)

    def draw(self, point: Point, rng: Generator) -> Floats:
        """Draw the responses given theta and what is seen of them, (n,)."""
        mean, variance = point.summed.mean, point.summed.variance
        return mean + np.sqrt(variance) * rng.normal(size=len(mean))
