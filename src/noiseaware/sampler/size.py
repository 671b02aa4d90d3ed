"""An unknown number of records as a sampled quantity.

An integer n has no density that a proposal in a real vector could use. So let w = n + e, with e
uniform on [0, 1) and independent of everything. Then w has the density p(n) on [n, n + 1), n is
floor(w), and log w is one more coordinate of the vector that transport moves, with the Jacobian dw
/ d log w = w. e is drawn whenever it is needed and then forgotten: p(theta, n, x | s_dp) is the
marginal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.contract import Theta
from noiseaware.parameters import NUMBER as NAME

__all__ = ["NAME", "SizedCoordinates", "with_size", "without_size"]


def with_size(theta: Theta, n: int, rng: np.random.Generator) -> Theta:
    """Return theta with w = n + e added."""
    return {**theta, NAME: np.asarray(n + rng.random())}


def without_size(theta: Theta) -> tuple[Theta, int]:
    """Return theta alone, and n = floor(w)."""
    own = {name: value for name, value in theta.items() if name != NAME}
    return own, math.floor(theta[NAME])


class SizedCoordinates:
    """The coordinates of theta, its `own`, and log w as the last."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self.size: int = own.size + 1

    def to_vector(self, theta: Theta) -> np.ndarray:
        """Return v, (size,)."""
        return np.append(self.own.to_vector(without_size(theta)[0]), math.log(theta[NAME]))

    def from_vector(self, v: np.ndarray) -> tuple[Theta, float]:
        """Return theta(v) with w, and the log of the Jacobian."""
        theta, log_jacobian = self.own.from_vector(v[:-1])
        # Far out, exp would overflow; there is no such database.
        theta[NAME] = np.asarray(math.exp(min(v[-1], 700.0)))
        return theta, log_jacobian + v[-1]

    def blocks(self, largest: int) -> list[np.ndarray]:
        """Return the blocks of theta's own coordinates, each with log w, as any may depend on n."""
        return [np.append(block, self.size - 1) for block in self.own.blocks(largest - 1)]
