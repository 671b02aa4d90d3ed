"""The discrete Gaussian mechanism (Canonne, Kamath and Steinke 2020).

For queries whose total is a vector of integers. Each coordinate of the release is T_j + e_j
with e_j an integer and P(e) proportional to exp(-e^2 / (2 scale^2)). `scale` is the parameter
sigma of that formula; the standard deviation is a little smaller when sigma is small. Up to a
constant this is the Gaussian density at the integers, so the posterior uses the same log g as
for Gaussian noise.

With Delta_2 the l2 sensitivity, the mechanism is rho-zCDP with rho = Delta_2^2 / (2 scale^2), as
for continuous noise. Unlike continuous noise, it is not mu-GDP with mu = Delta_2 / scale: its
delta at a small epsilon is a little larger than that would allow. So (epsilon, delta) comes from
rho, by a bound (`zcdp_delta`): the scale is safe, and 6 to 9% larger than the scale of continuous
noise at delta = 1e-6 and epsilon between 0.1 and 5.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.additive import GaussianNoise
from noiseaware.mechanisms.discrete_laplace import discrete_laplace
from noiseaware.queries import Histogram
from noiseaware.registry import MECHANISMS


class DiscreteGaussian(GaussianNoise):
    """Integer Gaussian noise on every coordinate of an integer-valued query's total.

    Give exactly one of: the scale, epsilon with delta, rho.

    Parameters
    ----------
    query
        What was asked of the database; its totals are integers.
    scale
        sigma: P(e) is proportional to exp(-e^2 / (2 sigma^2)).
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
    example_arguments: ClassVar[dict[str, Any]] = {"query": Histogram.example(), "rho": 0.1}

    @staticmethod
    def draw(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return independent draws of the noise, (size,)."""
        return discrete_gaussian(scale, size, rng)


def discrete_gaussian(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
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


MECHANISMS.add(DiscreteGaussian)
