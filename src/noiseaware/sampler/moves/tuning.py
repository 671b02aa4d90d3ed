"""What the transport move learns in warm-up, for each block of coordinates.

The shape of the posterior (mean and covariance of the block), the size of a walk step, the share
of jumps, and the number of steps in an iteration. Nothing here changes after warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

WANTED = 0.3
"""Share of walk steps to accept: between the optima of one (0.44) and many (0.23) dimensions."""

STEPS_WHILE_LEARNING = 4
MOST_STEPS = 16

COST_OF_STEP = 0.10
COST_OF_CALL = 20.0
"""An iteration's steps and start-up, in units of one Algorithm 1 iteration: see `step_cost`."""


class Block:
    """The tuning of one block of coordinates.

    Attributes
    ----------
    index
        The coordinates, (k,).
    mean, factor
        The block's posterior mean, (k,), and the Cholesky factor of its covariance, (k, k).
    size
        The size of a walk step, in units of `factor`.
    jump_share
        The share of steps that are jumps.
    steps
        Steps in an iteration.
    """

    def __init__(self, index: np.ndarray, steps: int | None) -> None:
        k = len(index)
        self.index = index
        self.steps = STEPS_WHILE_LEARNING if steps is None else steps
        self.size = 1.0
        self.jump_share = 0.5
        self.mean = np.zeros(k)
        self.factor = np.eye(k)
        self._forget()

    def _forget(self) -> None:
        k = len(self.index)
        self._outside = np.zeros(k)
        self._outside_count = 0
        self._inside = np.zeros((2, k))
        self._inside_count = np.zeros(2)
        self._walk_acceptance: list[float] = []

    # What happened.

    def note_outside(self, v: np.ndarray, last: np.ndarray) -> None:
        """Note how far the other moves carried theta since the last transport."""
        self._outside += (v[self.index] - last[self.index]) ** 2
        self._outside_count += 1

    def note_step(self, jumped: bool, log_ratio: float, v, proposed, accepted: bool) -> None:
        """Note a step from v to `proposed`."""
        self._inside_count[int(jumped)] += 1
        if accepted:
            self._inside[int(jumped)] += (proposed[self.index] - v[self.index]) ** 2
        if not jumped:
            # A NaN ratio is a rejection; the comparison keeps it from the size.
            self._walk_acceptance.append(math.exp(min(0.0, log_ratio)) if log_ratio > -700 else 0.0)

    # What is learned from it.

    def tune_size(self, count: int) -> None:
        """Robbins-Monro on the logarithm of the size, after `count` warm-up iterations."""
        rate = 1.0 / math.sqrt(count)
        for acceptance in self._walk_acceptance:
            self.size *= math.exp(rate * (acceptance - WANTED))
        self._walk_acceptance.clear()
        self.size = min(max(self.size, 1e-4), 10.0)

    def learn_shape(self, history: np.ndarray) -> None:
        """Set mean and covariance from draws of v (m, size), shrunk a little to the diagonal."""
        part = history[:, self.index]
        m, k = part.shape
        covariance = np.atleast_2d(np.cov(part, rowvar=False))
        variances = np.maximum(np.diag(covariance), 1e-12)
        weight = m / (m + 5.0 + k)
        covariance = weight * covariance + (1 - weight) * np.diag(variances)
        covariance[np.diag_indices(k)] += 1e-10 * variances
        self.mean = part.mean(axis=0)
        self.factor = np.ascontiguousarray(np.linalg.cholesky(covariance))

    def choose_kind(self) -> None:
        """Jump more where jumps carry further than walks, then start counting anew."""
        walks, jumps = self._gains().mean(axis=1)
        if walks + jumps > 0:
            self.jump_share = float(min(max(jumps / (walks + jumps), 0.1), 0.9))

    def start_counting(self) -> None:
        """Forget what happened before the last change of the shape."""
        self._forget()

    def _gains(self) -> np.ndarray:
        """Mean squared step / (2 variance) of walks and of jumps in each coordinate, (2, k)."""
        variances = (self.factor**2).sum(axis=1)
        return self._inside / np.maximum(self._inside_count, 1)[:, None] / (2 * variances)

    def mixing(self) -> tuple[np.ndarray, np.ndarray]:
        """1 - (lag-1 autocorrelation) that the other moves give, and that one step gives, (k,)."""
        variances = (self.factor**2).sum(axis=1)
        others = self._outside / max(self._outside_count, 1) / (2 * variances)
        walks, jumps = self._gains()
        one = (1 - self.jump_share) * walks + self.jump_share * jumps
        return np.clip(others, 0.0, 1.0), np.clip(one, 0.0, 1.0)


def step_cost(n: int) -> tuple[float, float]:
    """Return what starting the move and what one step costs, in Algorithm 1 iterations.

    A step passes over the records without random numbers or an accept loop, so it is much cheaper
    than a sweep when n is large; when n is small, the cost is that of calling functions. The
    numbers are measured (`benchmarks/`), and they are constants so that a chain stays a function
    of its seed.
    """
    call = COST_OF_CALL / n
    return COST_OF_STEP + 2.0 * call, COST_OF_STEP + call


def choose_steps(blocks: Sequence[Block], n: int, *, at_least_one: bool) -> None:
    """Choose the number of steps of each block that gives the most effective draws for its cost.

    With a = 1 - (lag-1 autocorrelation) from the other moves and b from one step, an iteration
    with k steps has autocorrelation about r = (1 - a)(1 - b)^k in a coordinate, and an effective
    draw of it costs (1 + r) / (1 - r) iterations. Steps are given one at a time to the block with
    the slowest coordinate, and the cheapest point on the way is taken.
    """
    start, each = step_cost(n)
    mixing = [block.mixing() for block in blocks]
    steps = [int(at_least_one)] * len(blocks)
    best, best_cost = list(steps), math.inf
    for _ in range(MOST_STEPS * len(blocks) + 1):
        times = [
            _autocorrelation_time((1 - others) * (1 - one) ** k)
            for (others, one), k in zip(mixing, steps, strict=True)
        ]
        cost = max(times) * (1 + start * any(steps) + each * sum(steps))
        if cost < best_cost:
            best, best_cost = list(steps), cost
        slowest = int(np.argmax(times))
        if steps[slowest] >= MOST_STEPS:
            break
        steps[slowest] += 1
    for block, k in zip(blocks, best, strict=True):
        block.steps = k


def _autocorrelation_time(r: np.ndarray) -> float:
    r = np.clip(r, 0.0, 0.9999)
    return float(np.max((1 + r) / (1 - r)))
