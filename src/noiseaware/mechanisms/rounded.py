"""Noisy numbers rounded to multiples of a step; `after_noise` has the derivation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.after_noise import Floats, Step
from noiseaware.mechanisms.calibrate import positive
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.registry import MECHANISMS


class Rounded(Step):
    """Noisy numbers rounded to the nearest multiple of a step.

    An integer half way between two multiples goes to the even one, as in Python and NumPy: with
    step 10, 5 becomes 0 and 15 becomes 20. It matters for discrete noise only.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
    step
        A positive number; an integer for discrete noise.
    """

    needed, optional_arguments = ("step", "mechanism"), ()
    arguments = ("step",)
    in_words = "rounded"

    def __init__(self, mechanism: Any, step: float) -> None:
        super().__init__(mechanism)
        self.step = positive("step", step)
        if self.noise.discrete and self.step != math.floor(self.step):
            raise ValueError(f"step must be an integer under discrete noise; got {step!r}")

    def _apply(self, values: Floats) -> Floats:
        return np.rint(values / self.step) * self.step + 0.0  # not -0.0

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        first, last = low / self.step, high / self.step
        first, last = np.ceil(first - _rounding(first)), np.floor(last + _rounding(last))
        empty = first > last
        low, high = (first - 0.5) * self.step, (last + 0.5) * self.step
        if self.noise.discrete:
            # A tie belongs to the even multiple: the cells of odd ones are open at both ends.
            low = np.where(_odd(first), np.floor(low) + 1.0, np.ceil(low))
            high = np.where(_odd(last), np.ceil(high) - 1.0, np.floor(high))
        return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)

    def _wanted(self) -> list[str]:
        inner = self.mechanism._wanted()
        return [*(w for w in inner if w != "integers"), f"multiples of {self.step:g} (rounded)"]

    @classmethod
    def example(cls) -> Rounded:
        """Return a small one."""
        return cls(Laplace.example(), step=5.0)


def _rounding(multiple: Floats) -> Floats:
    """Return how far from an integer v / step may be: multiples of 0.1 are not exact floats."""
    return 1e-9 + 4e-16 * np.where(np.isfinite(multiple), np.abs(multiple), 0.0)


def _odd(multiple: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # infinity is neither
        return np.remainder(multiple, 2.0) == 1.0


MECHANISMS.add(Rounded)
