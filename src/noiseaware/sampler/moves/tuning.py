"""How many steps of which proposal: what the transport move learns in warm-up about itself.

Nothing here changes after warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from noiseaware.sampler.moves.proposals import Proposal
from noiseaware.sampler.target import Target

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
        """Let what happened before the geometry was last learned count for a tenth."""
        for sums in (self.inside, self.tried, self.outside):
            sums *= 0.1
        self.times *= 0.1

    def record_step(
        self, proposal: int, v: np.ndarray, proposed: np.ndarray, accepted: bool
    ) -> None:
        """Take note of a step of one proposal."""
        self.tried[proposal] += 1
        if accepted:
            self.inside[proposal] += (proposed - v) ** 2

    def record_others(self, v: np.ndarray, last: np.ndarray) -> None:
        """Take note of what the other moves did since the last transport."""
        self.outside += (v - last) ** 2
        self.times += 1

    def of_proposals(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of one step of each proposal, (proposals, size)."""
        mean = self.inside / np.maximum(self.tried, 1e-9)[:, None]
        return np.clip(mean / (2 * variances), 0.0, 1.0)

    def of_others(self, variances: np.ndarray) -> np.ndarray:
        """Return the gain of the other moves in an iteration, (size,)."""
        return np.clip(self.outside / max(self.times, 1e-9) / (2 * variances), 0.0, 1.0)


class Costs(NamedTuple):
    """What the parts of a transport move cost, in iterations of Algorithm 1.

    Attributes
    ----------
    start
        Finding u.
    each
        One step of each proposal, (proposals,).
    hold
        Preparing a formula.
    holds
        Which of the proposals need it.
    from_prior
        Which of the proposals draw from the prior.
    guarded
        Whether a guard is added; see `guards`.
    """

    start: float
    each: np.ndarray
    hold: float
    holds: Sequence[bool]
    from_prior: Sequence[bool]
    guarded: bool


def costs(target: Target, proposals: Sequence[Proposal], *, guarded: bool) -> Costs:
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
    formula_steps = np.array([proposal.formula_steps for proposal in proposals])
    return Costs(
        start=(20.0 + 0.024 * n if cells else 15.0 + 0.0065 * n) / iteration,
        each=((0.8 if cells else 1.4) * formula_steps + step) / iteration,
        hold=(20.0 + 0.02 * n) / iteration,
        holds=[proposal.held is not None for proposal in proposals],
        from_prior=[not proposal.needs_v for proposal in proposals],
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

    A proposal by a formula may stick where the formula is far off, and one from a learned geometry
    where the geometry is: so one step more is of a proposal that would have none. The prior is good
    everywhere if it is good at all.
    """
    held = any(compress(steps, cost.holds))
    prior = any(compress(steps, cost.from_prior))
    if not cost.guarded or not any(steps) or (prior and not held):
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
    them and without them; they go where a learned geometry does not, and give way only to what is
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


SWAP = 4
"""Steps of another proposal that cost about as much as one with a formula."""


def safeguard(steps: list[int], proposals: Sequence[Proposal]) -> None:
    """Let no single proposal do all the work.

    A fifth of a block's steps is for each of the two walks, and a sixth of all for the prior. Many
    steps of one kind give way to one with a formula, which goes where a learned geometry does not;
    `guards` says what is added besides.

    Steps are chosen for how far they carry theta on average. Where the learned geometry is wrong,
    far out in a tail, only walks lead back; and a second mode (a noisy sum of squares knows the
    size of a coefficient better than its sign) is found, and left, by draws from the prior.
    """
    blocks: dict[int, list[int]] = {}
    for k, proposal in enumerate(proposals):
        if proposal.block is not None:
            blocks.setdefault(proposal.block, []).append(k)
    chain = [k for k, proposal in enumerate(proposals) if proposal.formula_steps]
    if chain and len(blocks) <= 2 and steps[chain[0]] == 0:
        largest = int(np.argmax(steps))
        if steps[largest] > SWAP:
            steps[largest] -= SWAP
            steps[chain[0]] = 1
    for block in blocks.values():
        least = sum(steps[k] for k in block) // 5
        largest = max(block, key=steps.__getitem__)
        for k in block:
            if proposals[k].walks and steps[k] < least and k != largest:
                steps[largest] -= least - steps[k]
                steps[k] = least
    for k, proposal in enumerate(proposals):
        if not proposal.needs_v:
            steps[k] = max(steps[k], sum(steps) // 6)


def keep_within(most: float, steps: list[int], cost: Costs) -> None:
    """Take steps away until the move costs at most `most`, or there is one step of each."""
    while total_cost(steps, cost) > most and max(steps) > 1:
        steps[int(np.argmax(steps))] -= 1
