"""The step size of a proposal, tuned in warm-up."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

Share = TypeVar("Share", float, np.ndarray)

WANTED_ALONE = 0.44
"""Target acceptance rate for steps of a single number (Gelman, Roberts and Gilks 1996)."""


def log_change(acceptance: Share, wanted: float, count: int, gain: float = 1.0) -> Share:
    """Return the step of Robbins and Monro (1951) on the logarithm of one or several sizes.

    `count` is the number of the iteration, from 1. The steps shrink but their sum diverges, so the
    size can reach the value with the wanted acceptance rate from anywhere, and settles there.
    """
    return gain / math.sqrt(count) * (acceptance - wanted)


class StepSize:
    """A step size that grows while the acceptance rate exceeds `wanted`, and otherwise shrinks.

    It starts at `size` and stays between `smallest` and `largest`. For steps in standard
    deviations, the default bounds go from next to nothing to far beyond the posterior.
    """

    learned = ("size", "acceptance")

    def __init__(
        self, size: float, wanted: float, smallest: float = 1e-4, largest: float = 10.0
    ) -> None:
        self.size, self.wanted, self.bounds = size, wanted, (smallest, largest)
        self.acceptance: list[float] = []  # what was noted since `tune` was last called

    def note(self, log_ratio: float) -> None:
        """Record the acceptance probability of a step; a log ratio of NaN counts as 0."""
        self.acceptance.append(math.exp(min(0.0, log_ratio)) if log_ratio > -700.0 else 0.0)

    def tune(self, count: int) -> None:
        """Learn from the steps recorded since the last call, in iteration `count`."""
        for acceptance in self.acceptance:
            self.size *= math.exp(log_change(acceptance, self.wanted, count))
        self.size = min(max(self.size, self.bounds[0]), self.bounds[1])
        self.acceptance.clear()
