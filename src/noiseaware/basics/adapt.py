"""The size of a proposal's steps, tuned in warm-up."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

Share = TypeVar("Share", float, np.ndarray)

WANTED_ALONE = 0.44
"""Share of steps of a single number to accept (Gelman, Roberts and Gilks 1996)."""


def log_change(acceptance: Share, wanted: float, count: int, gain: float = 1.0) -> Share:
    """Return the step of Robbins and Monro (1951) on the logarithm of a size, or of several.

    `count` is the number of the iteration, from 1 on: the steps get smaller, and their sum does
    not converge, so that the size gets to where the acceptance is the wanted one and stays there.
    """
    return gain / math.sqrt(count) * (acceptance - wanted)


class StepSize:
    """A size that grows when more steps than the share `wanted` are accepted, or else shrinks.

    It begins at `size` and stays between `smallest` and `largest`: of steps in standard deviations,
    from next to nothing to far beyond the posterior.
    """

    learned = ("size", "acceptance")

    def __init__(
        self, size: float, wanted: float, smallest: float = 1e-4, largest: float = 10.0
    ) -> None:
        self.size, self.wanted, self.bounds = size, wanted, (smallest, largest)
        self.acceptance: list[float] = []  # what was noted since `tune` was last called

    def note(self, log_ratio: float) -> None:
        """Note how likely a step was accepted; a ratio of NaN (records not finite) is a no."""
        self.acceptance.append(math.exp(min(0.0, log_ratio)) if log_ratio > -700.0 else 0.0)

    def tune(self, count: int) -> None:
        """Learn from the steps that were noted since the last call, in iteration `count`."""
        for acceptance in self.acceptance:
            self.size *= math.exp(log_change(acceptance, self.wanted, count))
        self.size = min(max(self.size, self.bounds[0]), self.bounds[1])
        self.acceptance.clear()
