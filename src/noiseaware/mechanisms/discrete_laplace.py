"""The discrete Laplace, or geometric, mechanism (Ghosh, Roughgarden and Sundararajan 2009).

For queries whose total is a vector of integers. Each coordinate of the release is T_j + e_j
with e_j an integer and

    P(e) = exp(-|e| / scale) tanh(1 / (2 scale)).

Up to a constant this is the Laplace density at the integers, so the posterior uses the same
log g as for Laplace noise, and epsilon = Delta_1 / scale again.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.additive import LaplaceNoise
from noiseaware.queries import Count
from noiseaware.registry import MECHANISMS


class DiscreteLaplace(LaplaceNoise):
    """Integer Laplace noise on every coordinate of an integer-valued query's total.

    Parameters
    ----------
    query
        What was asked of the database; its totals are integers.
    epsilon
        The pure differential privacy to reach: scale = (l1 sensitivity) / epsilon.
    scale
        Or the scale b itself: P(e) is proportional to exp(-|e| / b).
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.
    """

    discrete = True
    in_words, spread = "integer noise of the Laplace kind", None
    example_arguments: ClassVar[dict[str, Any]] = {"query": Count.example(), "epsilon": 0.5}

    @staticmethod
    def draw(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return independent draws of the noise, (size,)."""
        return discrete_laplace(scale, size, rng)


def discrete_laplace(scale: float, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Integers with P(e) proportional to exp(-|e| / scale), as float64 (size,).

    The difference of two independent geometric numbers with ratio exp(-1 / scale).
    """
    first, second = rng.geometric(-math.expm1(-1.0 / scale), size=(2, size))
    return (first - second).astype(float)


MECHANISMS.add(DiscreteLaplace)
