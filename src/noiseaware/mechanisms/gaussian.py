"""The Gaussian mechanism, with the analytic calibration of Balle and Wang (2018).

Each coordinate of the release is T_j + e_j with e_j ~ N(0, scale^2), so that

    log g(s_dp, T) = -sum_j (s_dp[j] - T_j)^2 / (2 scale^2).

With Delta_2 the l2 sensitivity, the mechanism is exactly mu-GDP with mu = Delta_2 / scale (Dong,
Roth and Su 2022), and rho-zCDP with rho = mu^2 / 2 (Bun and Steinke 2016). It is (epsilon,
delta)-DP along the whole curve `guarantee.delta_at(epsilon)`, and never purely private: the
sampler's acceptance has no lower bound exp(-epsilon) under it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.additive import GaussianNoise
from noiseaware.queries import Sum
from noiseaware.registry import MECHANISMS


class Gaussian(GaussianNoise):
    """Gaussian noise on every coordinate of the query's total.

    Give exactly one of: the scale, epsilon with delta, rho, mu.

    Parameters
    ----------
    query
        What was asked of the database.
    scale
        The standard deviation of the noise, as published beside a release.
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
    def draw(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return independent draws of the noise, (size,)."""
        return rng.normal(scale=scale, size=size)


MECHANISMS.add(Gaussian)
