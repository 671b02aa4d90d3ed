"""How many steps of which proposal: what the transport move learns in warm-up about itself.

Nothing here changes after warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from noiseaware.sampler.target import Target

DIFFERENCE = 0.5
"""Width of the differences that look at dT/dv, in standard deviations of v given u."""


FEW_RECORDS = 1000
"""Below it an iteration takes less than a millisecond, and making it longer costs nobody much."""


MUCH_CHEAPER = 0.75
"""Price of steps without a formula, relative to steps with one, below which they are taken."""


class Gains:
    """How far theta is carried, coordinate by coordinate, by each proposal and by other moves.

    For a coordinate with posterior variance V, E(change^2) / (2 V) is 1 minus the autocorrelation
    of a chain that makes only this change: 0 for standing still, 1 for an independent draw.
    """

    def __init__(self, proposals: int, size: int) -> None:
        self.inside = np.zeros((proposals, size))
        self.tried = np.zeros(proposals)
        self.outside = np.zeros(size)
        self.times = 0.0

    def fade(self) -> None:
        """Let what happened before the shape was last learned count for a tenth."""
        for sums in (self.inside, self.tried, self.outside):
            sums *= 0.1
        self.times *= 0.1

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
        mean = self.inside / np.maximum(self.tried, 1e-9)[:, None]
        return np.clip(mean / (2 * variances), 0.0, 1.0)

    def of_others(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of the other moves in an iteration, (size,)."""
        return np.clip(self.outside / max(self.times, 1e-9) / (2 * variances), 0.0, 1.0)


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
        self.prior_mean = self.mean
        self._prior_precision = np.linalg.inv(self.covariance)
        self._information = np.zeros_like(self.covariance)
        self._weighted = np.zeros((1, len(self.mean)))  # J / b, summed over the looks
        self._inverse_scales = np.zeros(1)
        self._looks = 0

    def learn(self) -> None:
        """Take mean and covariance from the later half of the history."""
        self.mean, self.covariance = moments(np.stack(self.history[len(self.history) // 2 :]))

    def autocorrelation_time(self) -> float:
        """Return the largest autocorrelation time of a coordinate in the later half, at least 1."""
        recent = np.stack(self.history[len(self.history) // 2 :])
        return max(autocorrelation_time(column) for column in recent.T)

    def look(
        self,
        total_at: Callable[[np.ndarray], np.ndarray],
        inverse_scales: np.ndarray,
        v: np.ndarray,
        *,
        forget: bool,
    ) -> None:
        """See how T answers to each coordinate at v, by differences.

        Parameters
        ----------
        total_at
            v -> T with u held.
        inverse_scales
            1 / b_j, (d,).
        v
            Where to look.
        forget
            Whether to forget earlier looks.
        """
        widths = DIFFERENCE * np.sqrt(np.diag(self.covariance_given_u))
        jacobian = np.empty((len(inverse_scales), len(v)))
        for j, width in enumerate(widths):
            moved = v.copy()
            moved[j] = v[j] + width
            above = total_at(moved)
            moved[j] = v[j] - width
            jacobian[:, j] = (above - total_at(moved)) / (2 * width)
        weighted = jacobian * inverse_scales[:, None]
        information = weighted.T @ weighted
        if not np.isfinite(information).all():
            return
        if forget or self._looks == 0:
            self._information, self._weighted = np.zeros_like(information), np.zeros_like(weighted)
            self._inverse_scales, self._looks = inverse_scales, 0
        self._information += information
        self._weighted += weighted
        self._looks += 1
        precision = self._information / self._looks + self._prior_precision
        self.covariance_given_u = np.linalg.inv(0.5 * (precision + precision.T))

    def aimed(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how a block of v is drawn to the release, by the mean J of the looks so far.

        With u and the other coordinates held, T linear in v and noise and prior taken as normal,
        the block has covariance S = (J' diag(1/b^2) J + P)^-1 and mean v + S J' diag(1/b^2) (s - T)
        + S P (m - v), P and m being the prior's precision (the block's rows) and mean.

        Returns
        -------
        S, S J' diag(1/b^2), S P
        """
        weighted = self._weighted[:, index] / max(self._looks, 1)
        prior = self._prior_precision[index]
        precision = weighted.T @ weighted + prior[:, index]
        covariance = np.linalg.inv(0.5 * (precision + precision.T))
        return covariance, covariance @ (weighted.T * self._inverse_scales), covariance @ prior


def moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of draws of v (m, size), shrunk to the diagonal."""
    m, k = draws.shape
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    variances = np.maximum(np.diag(covariance), 1e-12)
    weight = m / (m + 5.0 + k)
    covariance = weight * covariance + (1 - weight) * np.diag(variances)
    covariance[np.diag_indices(k)] += 1e-10 * variances
    return draws.mean(axis=0), covariance


class Costs(NamedTuple):
    """What the parts of a transport move cost, in iterations of Algorithm 1.

    Attributes
    ----------
    iteration
        That of Algorithm 1, in microseconds.
    start
        Finding u.
    each
        One step of each proposal, (proposals,).
    hold
        Preparing the formula of a surrogate.
    holds
        Which of the proposals need it.
    guarded
        Whether a guard is added; see `guards`.
    """

    iteration: float
    start: float
    each: np.ndarray
    hold: float
    holds: Sequence[bool]
    guarded: bool


def costs(
    target: Target,
    explores: Sequence[bool],
    holds: Sequence[bool],
    formula_steps: int,
    *,
    guarded: bool,
) -> Costs:
    """Return what a transport move costs for this target.

    A step passes over the records without random numbers and without an accept loop, so it is
    much cheaper than a sweep when n is large; when n is small, both are the cost of calling
    functions. The numbers are rounded measurements in microseconds (`python -m benchmarks
    steps`), and constants, so that a chain stays a function of its seed.
    """
    n, cells = target.n, target.uses_cells
    iteration = 26.0 + 0.085 * n
    parameters = 1.7 * (len(target.model.parameters) - 1)
    step = 14.0 + 0.022 * n if cells else 15.0 + 0.006 * n + parameters
    explore = (0.8 if cells else 1.4) * formula_steps + step
    return Costs(
        iteration,
        start=(20.0 + 0.024 * n if cells else 15.0 + 0.0065 * n) / iteration,
        each=np.where(explores, explore, step) / iteration,
        hold=(20.0 + 0.02 * n) / iteration,
        holds=holds,
        guarded=guarded,
    )


def expected_time(proposals: np.ndarray, others: np.ndarray, steps: Sequence[int]) -> float:
    """Return the iterations that an effective draw of the slowest coordinate should cost.

    With a = the gain of the other moves and b_1, b_2, ... those of the steps taken, a coordinate
    has autocorrelation about r = (1 - a) prod_k (1 - b_k), and an effective draw of it costs
    (1 + r) / (1 - r) iterations.

    Parameters
    ----------
    proposals, others
        The gains, (proposals, size) and (size,).
    steps
        How many steps of each proposal.
    """
    left = (1 - others) * np.prod((1 - proposals) ** np.asarray(steps)[:, None], axis=0)
    r = min(max(float(np.max(left)), 0.0), 0.9999)
    return (1 + r) / (1 - r)


def guards(steps: Sequence[int], cost: Costs) -> list[int]:
    """Return the proposals of which one, drawn at random, is to be added to these steps.

    A proposal by a formula may stick where the formula is far off, and one from a learned shape
    where the shape is: so one step more is of a proposal that would have none. The prior, which
    is the first, is good everywhere if it is good at all.
    """
    held = any(compress(steps, cost.holds))
    if not cost.guarded or not any(steps) or (steps[0] > 0 and not held):
        return []
    return [k for k, number in enumerate(steps) if number == 0 and (held or not cost.holds[k])]


def total_cost(steps: Sequence[int], cost: Costs) -> float:
    """Return what a transport move with these steps costs, with its guard."""
    if not any(steps):
        return 0.0
    hold = cost.hold if any(compress(steps, cost.holds)) else 0.0
    added = guards(steps, cost)
    guard = float(np.mean(cost.each[added])) if added else 0.0
    return cost.start + hold + float(cost.each @ steps) + guard


class Choice(NamedTuple):
    """Steps of each proposal, the iterations an effective draw then costs, and its price."""

    steps: list[int]
    time: float
    price: float


def choose_steps(
    proposals: np.ndarray,
    others: np.ndarray,
    cost: Costs,
    *,
    least: int,
    most: float,
    enough: float = math.inf,
) -> list[int]:
    """Return how many steps of each proposal give the most effective draws for their cost.

    Proposals by a formula have a cost that does not grow with their steps nor, much, with the
    records. Where only the price counts (`enough` is infinite) the steps are chosen twice, with
    them and without them; they go where a learned shape does not, and give way only to what is
    much cheaper.

    Parameters
    ----------
    proposals, others
        The gains, (proposals, size) and (size,).
    cost
        What the parts of the move cost; see `costs`.
    least
        Steps that every proposal gets, whatever it gains.
    most
        What the move may cost; it is never less than `least` steps of each.
    enough
        Where steps are worth their cost at all, more are taken until an effective draw costs no
        more than so many iterations, if the move may cost as much.
    """
    allowed = np.ones(len(proposals), dtype=bool)
    best = _add_steps(proposals, others, cost, allowed, least, most, enough)
    if any(cost.holds) and enough == math.inf:
        allowed = ~np.asarray(cost.holds)
        without = _add_steps(proposals, others, cost, allowed, least, most, enough)
        if without.price < MUCH_CHEAPER * best.price:
            best = without
    return best.steps


def _add_steps(
    proposals: np.ndarray,
    others: np.ndarray,
    cost: Costs,
    allowed: np.ndarray,
    least: int,
    most: float,
    enough: float,
) -> Choice:
    """Add steps of the allowed proposals one at a time; return the cheapest point on the way.

    Each is of the proposal that helps the slowest coordinate most for what it costs, among those
    that still fit into what the move may cost.
    """
    help_for_cost = -np.log1p(-np.minimum(proposals, 0.9999)) / cost.each[:, None]
    steps = [least] * len(proposals)
    left = (1 - others) * np.prod((1 - proposals) ** least, axis=0)
    best = Choice([], math.inf, math.inf)
    while True:
        time = expected_time(proposals, others, steps)
        price = time * (1 + total_cost(steps, cost))
        dear = best.time > enough and any(best.steps)
        if price < best.price or (time < best.time and dear):
            best = Choice(list(steps), time, price)
        fits = allowed & [
            total_cost([*steps[:k], steps[k] + 1, *steps[k + 1 :]], cost) <= most
            for k in range(len(steps))
        ]
        if not fits.any():
            return best
        k = int(np.argmax(np.where(fits, help_for_cost[:, np.argmax(left)], -1.0)))
        steps[k] += 1
        left = left * (1 - proposals[k])


def autocorrelation_time(x: np.ndarray) -> float:
    """Return 1 + 2 sum_t rho_t of a series, at least 1, summed over Sokal's window.

    The window is the smallest M that is at least 5 times the time summed up to M (Sokal 1997).
    """
    x = x - x.mean()
    variance = float(x @ x)
    if variance == 0.0:
        return 1.0
    spectrum = np.fft.rfft(x, 2 * len(x))
    rho = np.fft.irfft(spectrum * spectrum.conj())[: len(x)] / variance
    times = 2.0 * np.cumsum(rho) - 1.0
    inside = np.arange(len(x)) >= 5.0 * times
    return max(1.0, float(times[int(np.argmax(inside)) if inside.any() else -1]))
