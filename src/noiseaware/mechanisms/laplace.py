"""The Laplace mechanism (Dwork et al. 2006), and the discrete one (Ghosh et al. 2009).

Each coordinate of the release is T_j + e_j with density exp(-|e| / scale) / (2 scale). Moving T
by at most Delta_1 in l1 norm moves the log density by at most Delta_1 / scale, so that

    epsilon = Delta_1 / scale,

and there is an output that attains it. log g(s_dp, T) = -sum_j |s_dp[j] - T_j| / scale.

The discrete Laplace, or geometric, mechanism is for queries whose total is a vector of integers:
e_j is an integer, with

    P(e) = exp(-|e| / scale) tanh(1 / (2 scale)).

Up to a constant this is the Laplace density at the integers, so the posterior uses the same
log g, and epsilon = Delta_1 / scale again.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from noiseaware.contract import Floats, Neighbours, Query
from noiseaware.mechanisms.additive import AdditiveNoise
from noiseaware.mechanisms.calibrate import laplace_noise
from noiseaware.mechanisms.terms import LAPLACE
from noiseaware.queries import Count
from noiseaware.registry import MECHANISMS


class LaplaceNoise(AdditiveNoise):
    """What `Laplace` and `DiscreteLaplace` share."""

    family, calibrated = LAPLACE, staticmethod(laplace_noise)

    def __init__(
        self,
        query: Query,
        epsilon: float | None = None,
        scale: Any = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._hold_query(query, neighbours)
        self._calibrate(epsilon=epsilon, scale=scale)


class Laplace(LaplaceNoise):
    """Laplace noise on every coordinate of the query's total.

    Parameters
    ----------
    query
        What was asked of the database.
    epsilon
        The pure differential privacy to reach: scale = (l1 sensitivity) / epsilon.
    scale
        Or the scale itself, as published beside a release: a number, or one for each coordinate.
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
    def draw(scale: float, size: int, rng: np.random.Generator) -> Floats:
        return rng.laplace(scale=scale, size=size)

    @staticmethod
    def log_constant(scale: Any) -> Any:
        """Return minus log (2 scale)."""
        return -np.log(2.0 * scale)


def discrete_laplace(scale: float, size: int, rng: np.random.Generator) -> Floats:
    """Integers with P(e) proportional to exp(-|e| / scale), as float64 (size,).

    The difference of two independent geometric numbers with ratio exp(-1 / scale).
    """
    first, second = rng.geometric(-math.expm1(-1.0 / scale), size=(2, size))
    return (first - second).astype(float)


class DiscreteLaplace(LaplaceNoise):
    """Integer Laplace noise on every coordinate of an integer-valued query's total.

    Parameters
    ----------
    query
        What was asked of the database; its totals are integers.
    epsilon
        The pure differential privacy to reach: scale = (l1 sensitivity) / epsilon.
    scale
        Or the scale b itself: P(e) is proportional to exp(-|e| / b). A number, or one for each
        coordinate.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.
    """

    discrete = True
    in_words, spread = "integer noise of the Laplace kind", None
    draw = staticmethod(discrete_laplace)

    @staticmethod
    def log_constant(scale: Any) -> Any:
        """Return log tanh(1 / (2 scale))."""
        return np.log(np.tanh(0.5 / scale))

    example_arguments: ClassVar[dict[str, Any]] = {"query": Count.example(), "epsilon": 0.5}


MECHANISMS.add(Laplace)
MECHANISMS.add(DiscreteLaplace)
