"""Posteriors that know their own mean, variance and distribution, and a comparison with draws.

A `Known` is the exact posterior of one scalar. Draws are compared with it in units of Monte Carlo
error: for h(theta) = theta, (theta - mean)^2 and 1[theta <= c] at three points c, the mean over
the draws is compared with the exact expectation, and the standard error is the exact standard
deviation of h divided by the square root of the effective sample size of h.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping

import numpy as np
from scipy import special, stats

import noiseaware as na

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220602"))
FALSE_ALARM = 1e-5
"""The probability with which an exact sampler fails one check, all its comparisons together."""

SLACK = 1.15
"""The effective sample size is itself an estimate, good to some ten per cent."""


class BetaMixture:
    """A mixture of beta distributions: weights, a and b, (m,)."""

    def __init__(self, weights, a, b) -> None:
        weights = np.asarray(weights, dtype=float)
        self.weights = weights / weights.sum()
        self.a, self.b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)

    def raw_moment(self, k: int) -> float:
        ratio = special.beta(self.a + k, self.b) / special.beta(self.a, self.b)
        return float(self.weights @ ratio)

    def cdf(self, x: float) -> float:
        return float(self.weights @ stats.beta.cdf(x, self.a, self.b))


class GammaMixture:
    """A mixture of gamma distributions with one rate: weights and shapes, (m,)."""

    def __init__(self, weights, shapes, rate: float) -> None:
        weights = np.asarray(weights, dtype=float)
        self.weights = weights / weights.sum()
        self.shapes, self.rate = np.asarray(shapes, dtype=float), rate

    def raw_moment(self, k: int) -> float:
        return float(self.weights @ special.poch(self.shapes, k)) / self.rate**k

    def cdf(self, x: float) -> float:
        return float(self.weights @ stats.gamma.cdf(x, self.shapes, scale=1.0 / self.rate))


class Table:
    """A distribution on a fine grid of equal steps, from its log density at the points."""

    def __init__(self, points, log_density) -> None:
        weights = np.exp(log_density - np.max(log_density))
        self.points, self.weights = np.asarray(points), weights / weights.sum()

    def raw_moment(self, k: int) -> float:
        return float(self.weights @ self.points**k)

    def cdf(self, x: float) -> float:
        # A point stands for the step around it.
        total = np.cumsum(self.weights)
        edges = self.points + 0.5 * (self.points[1] - self.points[0])
        return float(np.interp(x, edges, total))


class Gauss:
    """A normal distribution."""

    def __init__(self, mean: float, variance: float) -> None:
        self.mean, self.variance = mean, variance

    def raw_moment(self, k: int) -> float:
        return float(stats.norm.moment(k, loc=self.mean, scale=math.sqrt(self.variance)))

    def cdf(self, x: float) -> float:
        return float(stats.norm.cdf(x, self.mean, math.sqrt(self.variance)))


Known = BetaMixture | GammaMixture | Table | Gauss


def comparisons(known: Known, draws: np.ndarray) -> np.ndarray:
    """Differences in standard errors, (5,), for draws (chain, draw)."""
    from arviz_stats.base import array_stats

    m1, m2, m3, m4 = (known.raw_moment(k) for k in (1, 2, 3, 4))
    variance = m2 - m1**2
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    h = [draws, (draws - m1) ** 2]
    exact = [(m1, variance), (variance, fourth - variance**2)]
    for c in m1 + np.array([-1.0, 0.0, 1.0]) * math.sqrt(variance):
        p = known.cdf(c)
        h.append((draws <= c).astype(float))
        exact.append((p, p * (1 - p)))
    result = []
    for values, (mean, spread) in zip(h, exact, strict=True):
        size = float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="mean"))
        result.append((values.mean() - mean) / math.sqrt(spread / size))
    return np.array(result)


def assert_draws_agree(known: Mapping[str, Known], draws: Callable[[str], np.ndarray]) -> None:
    """Fail if any comparison is beyond what chance gives with probability `FALSE_ALARM`."""
    errors = {name: comparisons(exact, draws(name)) for name, exact in known.items()}
    limit = SLACK * stats.norm.isf(FALSE_ALARM / (2 * 5 * len(errors)))
    far = {name: e.round(1).tolist() for name, e in errors.items() if not (abs(e) < limit).all()}
    assert not far, f"beyond {limit:.1f} standard errors: {far}"


def sampled(model, release, moves, *, draws=500, stream=0, chains=4, warmup=300):
    """`na.sample` with the seed of the tests, quietly."""
    seed = int(np.random.SeedSequence([SEED, stream]).generate_state(1)[0])
    return na.sample(
        model,
        release,
        moves=moves,
        draws=draws,
        warmup=warmup,
        chains=chains,
        cores=1,
        random_seed=seed,
        progressbar=False,
    )
