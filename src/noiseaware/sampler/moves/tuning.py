"""Choose how many steps of each proposal the transport move makes.

Everything is learned in warm-up and frozen afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from noiseaware.parameters import Work
from noiseaware.sampler.moves.proposals import Proposal

CALL = 1500.0
"""The cost of the Python calls around a pass over the records, in records passed over. Measured by
`python -m benchmarks steps`."""

DECIDE = 2.0
"""The cost of the statistics of the proposed records and of deciding about them, in plain passes;
likewise."""

FEW_PASSES = 8000.0
"""Records are few where an iteration of Algorithm 1 makes fewer passes over single records than
this: 1,000 records of simple arithmetic. An iteration then takes less than a millisecond, mostly in
calls, so a longer one is affordable."""

ENOUGH = 3.0
"""Iterations that an effective draw may cost before an iteration is made longer. 1,333 of the 4,000
draws of a default call should then be effective, where 400 are needed: the expectation is
optimistic, and with 1,000 effective draws R-hat exceeds 1.01 by chance in one run of a hundred.
With 4, `PoissonRegression` (2,000 records, Laplace noise, epsilon 3) had an R-hat of 1.013, with 3
of 1.002, in 1.15 times the CPU time (`python -m benchmarks models`)."""


CHANCE = 1.25
"""Some hundred draws estimate a time of a few iterations to about within this factor. With 2, three
of four releases of `PoissonRegression` (200 records, Gaussian noise, epsilon 10) had a smaller bulk
ESS, in less CPU time (`python -m benchmarks models`)."""


EVERY = 16
"""Where most iterations draw everything afresh (`afresh`), every sixteenth makes all moves, in case
fresh draws are rarely accepted somewhere. `python -m benchmarks ablation` has other values."""

NOT_BRIEF = (0, 0)
"""No steps of fresh draws."""


class Gains:
    """How far each proposal, and the other moves, carry each coordinate of theta.

    For a coordinate with posterior variance V, E(change^2) / (2 V) is 1 minus the autocorrelation
    of a chain that makes only this change: 0 for standing still, 1 for an independent draw.
    """

    learned = ("inside", "tried", "outside", "times")

    def __init__(self, proposals: int, size: int) -> None:
        self.inside = np.zeros((proposals, size))
        self.tried = np.zeros(proposals)
        self.outside = np.zeros(size)
        self.times = 0.0

    def fade(self) -> None:
        """Weight everything before the geometry was last learned by a tenth."""
        for sums in (self.inside, self.tried, self.outside):
            sums *= 0.1
        self.times *= 0.1

    def record_step(
        self, proposal: int, v: np.ndarray, proposed: np.ndarray, accepted: bool
    ) -> None:
        """Record a step of one proposal."""
        self.tried[proposal] += 1
        if accepted:
            self.inside[proposal] += (proposed - v) ** 2

    def record_others(self, v: np.ndarray, last: np.ndarray) -> None:
        """Record what the other moves did since the last transport."""
        self.outside += (v - last) ** 2
        self.times += 1

    def of_proposals(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of one step of each, (proposals, size)."""
        mean = self.inside / np.maximum(self.tried, 1e-9)[:, None]
        return np.clip(mean / (2 * variances), 0.0, 1.0)

    def of_others(self, variances: np.ndarray) -> np.ndarray:
        """Return their gain in an iteration, (size,)."""
        return np.clip(self.outside / max(self.times, 1e-9) / (2 * variances), 0.0, 1.0)


class Option(NamedTuple):
    """One way to continue a move made beside transport.

    Attributes
    ----------
    left
        The autocorrelation of each coordinate left after an iteration, relative to that in warm-up,
        (size,).
    time
        Iterations per effective draw of what transport does not move.
    cost
        The move's cost in an iteration, in iterations of Algorithm 1.
    """

    left: np.ndarray
    time: float
    cost: float


AS_BEFORE = Option(np.ones(1), 1.0, 0.0)
"""The moves beside transport, if any, continue as they were."""


class Costs(NamedTuple):
    """What the parts of a transport move cost, in iterations of Algorithm 1.

    Attributes
    ----------
    start
        Finding u, and T there.
    build
        Building the records of a theta, with T; or preparing a formula.
    each
        One step of each proposal, (proposals,).
    holds
        Which proposals need a formula.
    fresh
        Drawing theta and its records, with T.
    """

    start: float
    build: float
    each: np.ndarray
    holds: Sequence[bool]
    fresh: float = 1.0

    def total(self, steps: Sequence[int]) -> float:
        """Return the cost of a transport move with these steps."""
        if not any(steps):
            return 0.0
        hold = self.build if any(compress(steps, self.holds)) else 0.0
        return self.start + hold + float(self.each @ steps)


def are_few(n: int, work: Work) -> bool:
    """Whether n records are few, given the work of the model's methods."""
    return n * (work.update + work.draw + DECIDE) < FEW_PASSES


def one_iteration(n: int, work: Work) -> float:
    """Return the cost of an iteration of Algorithm 1, calls included, in passes over a record."""
    return (1.0 + work.calls) * CALL + (work.update + work.draw + DECIDE) * n


def costs(n: int, work: Work, proposals: Sequence[Proposal] = (), *, sized: bool = False) -> Costs:
    """Return what a transport move costs with n records, or about n where it is `sized`.

    Costs are counted in calls and passes over the records, as declared by the model's methods and
    by each proposal beyond building the records. Where n is unknown, a look at the records begins
    with one call and one pass over the row of innovations.
    """
    iteration = one_iteration(n, work)
    build = ((work.calls + sized) * CALL + (work.build + sized) * n) / iteration
    return Costs(
        start=(work.calls * CALL + work.recover * n) / iteration,
        build=build,
        each=np.array([build + CALL * proposal.more_calls / iteration for proposal in proposals]),
        holds=[proposal.formula_total is not None for proposal in proposals],
        fresh=(work.calls * CALL + (work.draw + 1.0) * n) / iteration,
    )


def expected_time(gains: np.ndarray, others: np.ndarray, steps: Sequence[float]) -> float:
    """Return the expected iterations per effective draw of the slowest coordinate.

    With gain a of the other moves and gains b_1, b_2, ... of the steps taken, a coordinate has
    autocorrelation about r = (1 - a) prod_k (1 - b_k), and an effective draw of it costs (1 + r) /
    (1 - r) iterations.

    Parameters
    ----------
    gains, others
        Of one step of each proposal, (proposals, size), and of the other moves, (size,).
    steps
        The number of steps of each proposal.
    """
    left = (1 - others) * np.prod((1 - gains) ** np.asarray(steps)[:, None], axis=0)
    r = min(max(float(np.max(left)), 0.0), 0.9999)
    return (1 + r) / (1 - r)


def slowness(history: np.ndarray, expected: float) -> float:
    """Return how many times longer an effective draw took than expected, at least 1.

    Gains describe single iterations. A coordinate that goes to and fro with records that stay moves
    far in each and gets nowhere: its autocorrelation falls slowly after a quick start. The time
    that `history`, (m, size), shows is 1 + 2 times the sum of the autocorrelations of the slowest
    coordinate, up to where two in a row sum to less than 0 (Geyer 1992, "Practical Markov chain
    Monte Carlo", Statistical Science 7). Up to `CHANCE` times the expected time may be chance.
    """
    off = history - history.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(off, 2 * len(off), axis=0)) ** 2
    products = np.fft.irfft(spectrum, axis=0)[: len(off) // 2 * 2]
    correlations = products / np.maximum(products[0], 1e-300)
    pairs = correlations[::2] + correlations[1::2]
    times = 2.0 * (pairs * np.cumprod(pairs > 0.0, axis=0)).sum(axis=0) - 1.0
    return max(1.0, float(times.max()) / (CHANCE * expected))


def price(time: float, cost: float) -> float:
    """Return the cost of an effective draw, in iterations of Algorithm 1, more if it is late.

    Gains are means over the bulk of the posterior, too high for its tails. Where a draw takes
    longer than `ENOUGH`, halving the time is worth four times the cost.

    Parameters
    ----------
    time
        In iterations.
    cost
        Of an iteration, beyond that of Algorithm 1, in iterations of Algorithm 1.
    """
    return time * (1 + cost) * max(1.0, time / ENOUGH)


def choose_steps(
    proposals: Sequence[Proposal],
    gains: np.ndarray,
    others: np.ndarray,
    cost: Costs,
    *,
    least: Sequence[int],
    most: float,
    besides: float = 0.0,
) -> list[int]:
    """Return how many steps of each proposal to take, for the most effective draws for their cost.

    (1) Add steps one at a time, each time of the proposal that helps the slowest
    coordinate most for its cost, as long as a step fits into what the move may cost. (2) Of all
    points on the way, take the one at which an effective draw is cheapest (`price`). (3) Let no
    proposal do all the work of its block (`_share`).

    Parameters
    ----------
    proposals
        To choose from.
    gains, others
        As in `expected_time`.
    cost
        What the parts of the move cost.
    least
        Steps that each proposal gets, whatever it gains.
    most
        What the move may cost, in iterations of Algorithm 1; never less than `least` steps of each.
    besides
        What other moves cost beyond an iteration of Algorithm 1.
    """
    help_for_cost = -np.log1p(-np.minimum(gains, 0.9999)) / cost.each[:, None]
    steps = list(least)
    left = (1 - others) * np.prod((1 - gains) ** np.asarray(least)[:, None], axis=0)
    best, lowest = list(steps), math.inf
    while True:
        now = price(expected_time(gains, others, steps), besides + cost.total(steps))
        if now < lowest:
            best, lowest = list(steps), now
        fits = [
            cost.total([*steps[:k], steps[k] + 1, *steps[k + 1 :]]) <= most
            for k in range(len(steps))
        ]
        if not any(fits):
            break
        k = int(np.argmax(np.where(fits, help_for_cost[:, np.argmax(left)], -1.0)))
        steps[k] += 1
        left = left * (1 - gains[k])
    _share(best, proposals)
    while cost.total(best) > most and max(best) > 1:
        best[int(np.argmax(best))] -= 1
    return best


def choose_brief(
    times: Sequence[Sequence[float]],
    cost: Costs,
    full: tuple[float, float],
    mirrored: bool,
) -> tuple[tuple[int, int], tuple[float, float]]:
    """Return which proposal makes fresh draws, in how many steps, and the resulting outlook.

    An iteration in `EVERY` makes all moves, the others some steps of one proposal. The choice makes
    an effective draw cheapest, among those that take at most `ENOUGH`. Fresh draws must beat all
    moves in every iteration by the factor `CHANCE`.

    Parameters
    ----------
    times
        Iterations per effective draw with 1, 2, ... steps of each proposal.
    cost
        What the parts of a transport move cost.
    full
        The outlook if every iteration makes all moves: iterations per effective draw, and the cost
        of an iteration beyond that of Algorithm 1.
    mirrored
        Whether a mirror image follows each of these iterations.
    """
    best, outlook = NOT_BRIEF, full
    image = cost.start + cost.build if mirrored else 0.0
    lowest = full[0] * (1 + full[1] + image) / CHANCE
    for which, own in enumerate(times):
        for steps, time in enumerate(own, start=1):
            iteration = (1 + full[1] + (EVERY - 1) * steps * cost.fresh) / EVERY
            if time <= ENOUGH and time * (iteration + image) < lowest:
                lowest, best = time * (iteration + image), (which, steps)
                outlook = time, iteration - 1
    return best, outlook


def _share(steps: list[int], proposals: Sequence[Proposal]) -> None:
    """Give walks and jumps a tenth of their block's steps each, and the prior a sixth of all.

    The steps were chosen for average progress. But only walks lead back from far out in a tail,
    where the learned geometry is wrong, and draws from near the prior find and leave a second mode:
    a noisy sum of squares determines the size of a coefficient better than its sign. Whose tenth is
    less than a step is made `seldom`.
    """
    for block in _blocks(proposals):
        least = sum(steps[k] for k in block) // 10
        largest = max(block, key=steps.__getitem__)
        for k in block:
            if proposals[k].always and steps[k] < least and k != largest:
                steps[largest] = max(steps[largest] - (least - steps[k]), least)
                steps[k] = least
    for k, proposal in enumerate(proposals):
        if not proposal.needs_v:
            steps[k] = max(steps[k], sum(steps) // 6)


def seldom(steps: Sequence[int], proposals: Sequence[Proposal]) -> list[bool]:
    """Return which proposals have no steps, but always a share, in a block that has steps."""
    made = [False] * len(steps)
    for block in _blocks(proposals):
        for k in block:
            made[k] = proposals[k].always and not steps[k] and any(steps[j] for j in block)
    return made


def _blocks(proposals: Sequence[Proposal]) -> list[list[int]]:
    """Return the proposals of each block."""
    blocks: dict[int, list[int]] = {}
    for k, proposal in enumerate(proposals):
        if proposal.block is not None:
            blocks.setdefault(proposal.block, []).append(k)
    return list(blocks.values())
