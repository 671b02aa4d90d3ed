"""The Laplace mechanism (Dwork, McSherry, Nissim and Smith 2006).

Each coordinate of the release is T_j + e_j with density exp(-|e| / scale) / (2 scale). Moving T
by at most Delta_1 in l1 norm moves the log density by at most Delta_1 / scale, so that

    epsilon = Delta_1 / scale,

and there is an output that attains it. log g(s_dp, T) = -sum_j |s_dp[j] - T_j| / scale.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.additive import LaplaceNoise
from noiseaware.queries import Count
from noiseaware.registry import MECHANISMS


class Laplace(LaplaceNoise):
    """Laplace noise on every coordinate of the query's total.

    Parameters
    ----------
    query
        What was asked of the database.
    epsilon
        The pure differential privacy to reach: scale = (l1 sensitivity) / epsilon.
    scale
        Or the scale itself, as published beside a release.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5)
    >>> mechanism.scale
    2.0
    >>> print(mechanism.guarantee)
    pure differential privacy with epsilon = 0.5, when one record is changed
    """

    discrete = False
    in_words, spread = "Laplace noise", math.sqrt(2.0)
    example_arguments: ClassVar[dict[str, Any]] = {"query": Count.example(), "epsilon": 0.5}

    @staticmethod
    def draw(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return independent draws of the noise, (size,)."""
        return rng.laplace(scale=scale, size=size)


MECHANISMS.add(Laplace)
