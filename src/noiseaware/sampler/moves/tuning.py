"""How many steps of which proposal: what the transport move learns in warm-up about itself.

Nothing here changes after warm-up.
"""

from __future__ import annotations

import math

import numpy as np

from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

DIFFERENCE = 0.5
"""Width of the differences that look at dT/dv, in standard deviations of v given u."""

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


class Shape:
    """The shape of the posterior of v, learned from the chain's own history.

    Attributes
    ----------
    mean, covariance
        Of v given s_dp, (size,) and (size, size): from the later half of the history.
    covariance_given_u
        Of v given u and s_dp. With u held, the release sees theta only through the total
        T(F(u; theta)), which is nearly linear in v over the width of the noise. With J = dT/dv
        and noise of scale b_j in coordinate j, the precision is about J' diag(1/b^2) J, plus that
        of the prior. It is small in the directions that the release leaves free and large in
        those that it pins down, and it is known after one look, before the chain has mixed.
    history
        v after each iteration so far.
    """

    def __init__(self, prior: np.ndarray) -> None:
        self.history: list[np.ndarray] = []
        self.mean, self.covariance = moments(prior)
        self.covariance_given_u = self.covariance
        self._prior_precision = np.linalg.inv(self.covariance)
        self._information = np.zeros_like(self.covariance)
        self._looks = 0

    def learn(self) -> None:
        """Take mean and covariance from the later half of the history."""
        self.mean, self.covariance = moments(np.stack(self.history[len(self.history) // 2 :]))

    def look(self, target: Target, state: ChainState, *, forget: bool) -> None:
        """See how T answers to each coordinate where the chain is now, by differences."""
        if target.terms is None:
            self.covariance_given_u = self.covariance
            return
        coordinates, model = target.coordinates, target.model
        v = coordinates.to_vector(state.theta)
        if target.holds_innovations:
            u = state.innovations
        else:
            u = model.recover_innovations(state.theta, state.records, state.rng)
        widths = DIFFERENCE * np.sqrt(np.diag(self.covariance_given_u))
        jacobian = np.empty((target.d, len(v)))
        for j, width in enumerate(widths):
            ahead, behind = v.copy(), v.copy()
            ahead[j] += width
            behind[j] -= width
            jacobian[:, j] = [
                (a - b) / (2 * width)
                for a, b in zip(
                    target.total(model.build_records(coordinates.from_vector(ahead)[0], u)),
                    target.total(model.build_records(coordinates.from_vector(behind)[0], u)),
                    strict=True,
                )
            ]
        weighted = jacobian * target.terms.parameters[:, 1:2]
        information = weighted.T @ weighted
        if not np.isfinite(information).all():
            return
        if forget:
            self._information, self._looks = np.zeros_like(information), 0
        self._information += information
        self._looks += 1
        precision = self._information / self._looks + self._prior_precision
        self.covariance_given_u = np.linalg.inv(0.5 * (precision + precision.T))


def moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of draws of v (m, size), shrunk to the diagonal."""
    m, k = draws.shape
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    variances = np.maximum(np.diag(covariance), 1e-12)
    weight = m / (m + 5.0 + k)
    covariance = weight * covariance + (1 - weight) * np.diag(variances)
    covariance[np.diag_indices(k)] += 1e-10 * variances
    return draws.mean(axis=0), covariance


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
