"""How many steps of which proposal: what the transport move learns in warm-up about itself.

Nothing here changes after warm-up.
"""

from __future__ import annotations

import math

import numpy as np

MOST_STEPS = 16
"""Steps in an iteration, of all proposals together."""


class Gains:
    """How far theta is carried, coordinate by coordinate, by each proposal and by other moves.

    For a coordinate with posterior variance V, E(change^2) / (2 V) is 1 minus the autocorrelation
    of a chain that makes only this change: 0 for standing still, 1 for an independent draw.
    """

    def __init__(self, proposals: int, size: int) -> None:
        self.inside = np.zeros((proposals, size))
        self.tried = np.zeros(proposals)
        self.outside = np.zeros(size)
        self.times = 0

    def note_step(self, proposal: int, v: np.ndarray, proposed: np.ndarray, accepted: bool) -> None:
        """Note a step of one proposal."""
        self.tried[proposal] += 1
        if accepted:
            self.inside[proposal] += (proposed - v) ** 2

    def note_others(self, v: np.ndarray, last: np.ndarray) -> None:
        """Note what the other moves did since the last transport."""
        self.outside += (v - last) ** 2
        self.times += 1

    def of_proposals(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of one step of each proposal, (proposals, size)."""
        mean = self.inside / np.maximum(self.tried, 1)[:, None]
        return np.clip(mean / (2 * variances), 0.0, 1.0)

    def of_others(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of the other moves in an iteration, (size,)."""
        return np.clip(self.outside / max(self.times, 1) / (2 * variances), 0.0, 1.0)


def learn_shape(history: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of draws of v (m, size), shrunk to the diagonal."""
    m, k = history.shape
    covariance = np.atleast_2d(np.cov(history, rowvar=False))
    variances = np.maximum(np.diag(covariance), 1e-12)
    weight = m / (m + 5.0 + k)
    covariance = weight * covariance + (1 - weight) * np.diag(variances)
    covariance[np.diag_indices(k)] += 1e-10 * variances
    return history.mean(axis=0), covariance


def costs(n: int) -> tuple[float, float]:
    """Return what starting the move and what one step costs, in Algorithm 1 iterations.

    A step passes over the records without random numbers and without an accept loop, so it is
    much cheaper than a sweep when n is large; when n is small, both are the cost of calling
    functions. The numbers are rounded measurements, and constants, so that a chain stays a
    function of its seed.
    """
    calls = 20.0 / n
    return 0.1 + 2.0 * calls, 0.08 + calls


def choose_steps(
    proposals: np.ndarray, others: np.ndarray, n: int, *, least: int
) -> tuple[list[int], float]:
    """Return how many steps of each proposal give the most effective draws for their cost.

    With a = the gain of the other moves and b_1, b_2, ... those of the steps taken, a coordinate
    has autocorrelation about r = (1 - a) prod_k (1 - b_k), and an effective draw of it costs
    (1 + r) / (1 - r) iterations. Steps are added one at a time, each where it helps the slowest
    coordinate most, and the cheapest point on the way is taken.

    Parameters
    ----------
    proposals, others
        The gains, (proposals, size) and (size,).
    n
        The number of records.
    least
        Steps that every proposal gets, whatever it gains.

    Returns
    -------
    steps, r
        The number of steps of each proposal, and the autocorrelation of the slowest coordinate.
    """
    start, each = costs(n)
    steps = [least] * len(proposals)
    left = (1 - others) * np.prod((1 - proposals) ** least, axis=0)
    best, best_cost = (list(steps), 0.0), math.inf
    while True:
        r = min(max(float(np.max(left)), 0.0), 0.9999)
        cost = (1 + r) / (1 - r) * (1 + start * any(steps) + each * sum(steps))
        if cost < best_cost:
            best, best_cost = (list(steps), r), cost
        if sum(steps) >= max(MOST_STEPS, least * len(proposals)):
            return best
        k = int(np.argmin([float(np.max(left * (1 - gain))) for gain in proposals]))
        steps[k] += 1
        left = left * (1 - proposals[k])
