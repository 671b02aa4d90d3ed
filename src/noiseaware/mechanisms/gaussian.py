"""The Gaussian mechanism, and the discrete one (Canonne, Kamath and Steinke 2020).

Each coordinate of the release is T_j + e_j with e_j ~ N(0, scale^2), so that

    log g(s_dp, T) = -sum_j (s_dp[j] - T_j)^2 / (2 scale^2).

With Delta_2 the l2 sensitivity, the mechanism is exactly mu-GDP with mu = Delta_2 / scale (Dong,
Roth and Su 2022), and rho-zCDP with rho = mu^2 / 2 (Bun and Steinke 2016). It is (epsilon,
delta)-DP along the whole curve `guarantee.delta_at(epsilon)`, which is how Balle and Wang (2018)
find the scale for (epsilon, delta). It is never purely private: the sampler's acceptance has no
lower bound exp(-epsilon) under it.

The discrete Gaussian mechanism is for queries whose total is a vector of integers: e_j is an
integer, with P(e) proportional to exp(-e^2 / (2 scale^2)). The standard deviation is a little
smaller than `scale` when that is small. Up to a constant this is the Gaussian density at the
integers, so the posterior uses the same log g, and rho is the same. Unlike continuous noise it is
not mu-GDP with mu = Delta_2 / scale: its delta at a small epsilon is a little larger than that
would allow. So (epsilon, delta) comes from rho, by a bound (`zcdp_delta`): the scale is safe, and
6 to 9% larger than the scale of continuous noise at delta = 1e-6 and epsilon between 0.1 and 5.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np

from noiseaware.contract import Floats, Neighbours, Query
from noiseaware.mechanisms.additive import AdditiveNoise
from noiseaware.mechanisms.calibrate import gaussian_noise
from noiseaware.mechanisms.laplace import discrete_laplace
from noiseaware.mechanisms.terms import GAUSSIAN
from noiseaware.queries import Histogram, Sum
from noiseaware.registry import MECHANISMS


class GaussianNoise(AdditiveNoise):
    """What `Gaussian` and `DiscreteGaussian` share."""

    family, calibrated = GAUSSIAN, staticmethod(gaussian_noise)

    def __init__(
        self,
        query: Query,
        scale: Any = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._hold_query(query, neighbours)
        self._calibrate(scale=scale, epsilon=epsilon, delta=delta, rho=rho, mu=mu)


class Gaussian(GaussianNoise):
    """Gaussian noise on every coordinate of the query's total.

    Give exactly one of: the scale, epsilon with delta, rho, mu.

    Parameters
    ----------
    query
        What was asked of the database.
    scale
        The standard deviation of the noise, as published beside a release: a number, or one for
        each coordinate.
    epsilon, delta
        The approximate differential privacy to reach, with the smallest noise that does.
    rho
        The zero-concentrated differential privacy to reach: scale = (l2 sensitivity) / sqrt(2 rho).
    mu
        The Gaussian differential privacy to reach: scale = (l2 sensitivity) / mu.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.Gaussian(na.queries.Count(), epsilon=1.0, delta=1e-6)
    >>> round(mechanism.scale, 4)
    4.2247
    >>> print(na.mechanisms.Gaussian(na.queries.Count(), scale=2.0).guarantee)
    Gaussian differential privacy with mu = 0.5 (and zCDP with rho = 0.125), when one record is changed
    """  # noqa: E501

    discrete = False
    in_words, spread = "normal (Gaussian) noise", 1.0
    example_arguments: ClassVar[dict[str, Any]] = {"query": Sum.example(), "rho": 0.1}

    @staticmethod
    def draw(scale: float, size: int, rng: np.random.Generator) -> Floats:
        return rng.normal(scale=scale, size=size)

    @staticmethod
    def log_constant(scale: Any) -> Any:
        """Return minus log (scale sqrt(2 pi))."""
        return -np.log(math.sqrt(2.0 * math.pi) * scale)


def discrete_gaussian(scale: float, size: int, rng: np.random.Generator) -> Floats:
    """Integers with P(e) proportional to exp(-e^2 / (2 scale^2)), as float64 (size,).

    Rejection from discrete Laplace noise y of scale t = floor(scale) + 1 (Canonne, Kamath and
    Steinke 2020, algorithm 3). The ratio of the two masses is proportional to

        exp(-y^2 / (2 scale^2) + |y| / t) = exp(-(|y| - scale^2/t)^2 / (2 scale^2)) * constant,

    and the exponential on the right, which is at most 1, is the probability to keep y. At
    least 44% are kept at every scale.
    """
    t = math.floor(scale) + 1.0
    draws = np.empty(size)
    filled = 0
    while filled < size:
        proposals = discrete_laplace(t, size - filled, rng)
        distance = (np.abs(proposals) - scale * scale / t) / scale
        # A standard exponential number exceeds c with probability exp(-c).
        kept = proposals[rng.standard_exponential(len(proposals)) > 0.5 * distance * distance]
        draws[filled : filled + len(kept)] = kept
        filled += len(kept)
    return draws


class DiscreteGaussian(GaussianNoise):
    """Integer Gaussian noise on every coordinate of an integer-valued query's total.

    Give exactly one of: the scale, epsilon with delta, rho.

    Parameters
    ----------
    query
        What was asked of the database; its totals are integers.
    scale
        sigma: P(e) is proportional to exp(-e^2 / (2 sigma^2)). A number, or one for each
        coordinate.
    epsilon, delta
        The approximate differential privacy to reach, by way of zCDP.
    rho
        The zero-concentrated differential privacy to reach: scale = (l2 sensitivity) / sqrt(2 rho).
    mu
        Not available for discrete noise: an error that says so.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.
    """

    discrete = True
    in_words, spread = "integer noise of the normal kind", None
    draw = staticmethod(discrete_gaussian)
    calibrated = staticmethod(partial(gaussian_noise, discrete=True))

    @staticmethod
    def log_constant(scale: Any) -> Any:
        """Return minus the log of sum_e exp(-e^2 / (2 scale^2)).

        By Poisson's summation the sum is scale sqrt(2 pi) sum_k exp(-2 (pi scale k)^2). Of the two
        series the one that falls off faster is added up: terms with |k| > 8 are below 1e-80.
        """
        k, sigma = np.arange(-8, 9), np.asarray(scale, dtype=np.float64)[..., np.newaxis]
        few = np.exp(-0.5 * (k / sigma) ** 2).sum(axis=-1)
        many = np.exp(-2.0 * (math.pi * sigma * k) ** 2).sum(axis=-1)
        root = math.sqrt(2.0 * math.pi)
        return -np.where(sigma[..., 0] < 0.5, np.log(few), np.log(root * sigma[..., 0] * many))

    example_arguments: ClassVar[dict[str, Any]] = {"query": Histogram.example(), "rho": 0.1}


MECHANISMS.add(Gaussian)
MECHANISMS.add(DiscreteGaussian)
