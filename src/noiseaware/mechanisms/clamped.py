"""Noisy numbers moved to the nearest end of a range; `after_noise` has the derivation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.after_noise import Floats, Step, read_range, shown
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.registry import MECHANISMS


class Clamped(Step):
    """Noisy numbers moved to the nearest end of a range if they are outside.

    The ends are atoms: a published `lower` says that the noisy number was at most `lower`. A
    library that returns counts as unsigned integers clamps at 0.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
    lower, upper
        The range: numbers, or one for each value, (d,). Infinite for no end.

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    >>> clamped = na.mechanisms.Clamped(laplace, lower=0.0)
    >>> round(clamped.log_density(values=[0.0], total=[3.0]), 4)  # log P(3 + noise <= 0)
    -2.1931
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    arguments = optional_arguments
    in_words = "clamped to a range"

    def __init__(self, mechanism: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        super().__init__(mechanism)
        self.lower, self.upper = read_range(self, lower, upper)

    def _apply(self, values: Floats) -> Floats:
        return np.clip(values, self.lower, self.upper)  # NaN stays NaN

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        empty = (high < self.lower) | (low > self.upper)
        low = np.where(low <= self.lower, -np.inf, low)
        high = np.where(high >= self.upper, np.inf, high)
        return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)

    def _wanted(self) -> list[str]:
        right = f"between {shown(self.lower)} and {shown(self.upper)} (clamped)"
        inner = " and ".join(self.mechanism._wanted())
        return [f"{right}, and inside {inner}" if inner else right]

    @classmethod
    def example(cls) -> Clamped:
        """Return a small one."""
        return cls(Laplace.example(), lower=0.0)


MECHANISMS.add(Clamped)
