"""Move theta and the counts of a table together, holding the uniforms behind the records.

Where theta is not integrated out, a chain that alternates between x given theta and theta given x
makes steps as small as n records determine theta, however little the release says. `CountTransport`
is `moves.Transport` for counts. A record of a group is the inverse CDF, over the ordered cells, of
a uniform number u: with cumulative probabilities P_c(theta), it is in cell c if P_(c-1) <= u < P_c.
In the coordinates (theta, u) the posterior is proportional to

    p(theta) g(s_dp, T(x(u; theta))),

with u uniform. Given x and theta, the u of the x_c records of cell c are uniform on its interval.
So a step draws u and proposes theta' from q, in unconstrained coordinates v. It only needs to know
how many u fall into each interval of theta': a multinomial draw splits the x_c records in
proportion to the overlaps of [P_(c-1), P_c) with the new intervals. The step is accepted with
probability min(1, r),

    r =  p(theta') |dtheta'/dv'| g(s_dp, T(x'))  q(v | v')
        -------------------------------------------------.
         p(theta ) |dtheta /dv | g(s_dp, T(x ))  q(v' | v)

**Proposals** are those of `proposals`: first theta' from the prior, for which r is
g(s_dp, T(x')) / g(s_dp, T(x)); then a walk and a jump in one or two blocks of coordinates, chosen
at random if there are more, with the mean and covariance learned in warm-up.

**Where the number of records is unknown** and x_c is Poisson with mean m_c(theta), x_c is the
number of points below m_c of a Poisson process of rate 1. Given x_c and m_c these points are
uniform on [0, m_c), and those above keep their prior distribution. So if m_c' < m_c, a binomial
number of the x_c points stays below m_c'; if m_c' > m_c, a Poisson(m_c' - m_c) number is added. The
ratio is the one above.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.contract import Theta
from noiseaware.counts.target import CountTarget
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.proposals import Jump, Walk
from noiseaware.sampler.moves.transport import FIRST_WINDOW, LARGEST_BLOCK
from noiseaware.sampler.state import ChainState

BLOCKS, ROUNDS = 2, 4
"""Blocks of coordinates moved in an iteration, and walks and jumps in each; `python -m benchmarks
ablation` has half and twice as many of the latter."""

DRAWS = 20
"""Draws from the prior for the initial geometry, per coordinate of a block."""

MOST_RECORDS = 1e15
"""A proposal with more records is rejected: counts are integers that doubles can hold."""


class CountTransport(ReadyMove):
    """Move theta and the counts together, holding the uniforms behind the records."""

    reports = ("transport_acceptance",)
    on_counts = True

    def check(self, target: Any) -> None:
        if not target.on_counts:
            raise ValueError("CountTransport needs a state of counts, and this one holds records")
        able = target.abilities
        if able.log_prior is None or able.log_likelihood is None:
            raise ValueError(
                "CountTransport needs a model with log_prior(theta) and log_likelihood(theta, "
                f"records); {able.name} is not that"
            )
        if len(target.table.part_ends) > 1:
            raise ValueError(
                "CountTransport needs counts of the possible records, and these are of the parts "
                f"of records of {able.name}"
            )
        if able.random_size and target.release.n_records is not None:
            raise ValueError(
                "CountTransport changes the number of records of a model that is about that, and "
                f"the release fixes it at {target.release.n_records}"
            )

    def start(self, target: CountTarget, state: ChainState) -> Tuning:
        maps, blocks = target.coordinates, target.coordinates.blocks(LARGEST_BLOCK)
        number = DRAWS * max(map(len, blocks))
        prior = np.stack([maps.to_vector(target.sample_prior(state.rng)) for _ in range(number)])
        return {"blocks": [Block(index, prior[:, index]) for index in blocks], "warming": True}

    def step(self, target: CountTarget, state: ChainState, tuning: Tuning) -> tuple[float]:
        """Propose theta from the prior, and changes of it, each with the counts that follow."""
        rng, blocks = state.rng, tuning["blocks"]
        here = look(target, state)
        there = place(target, target.coordinates.to_vector(target.sample_prior(rng)))
        here, rate = carry(target, state, here, there, 0.0)
        rates = [rate]
        for block in blocks if len(blocks) <= BLOCKS else rng.choice(blocks, BLOCKS, replace=False):
            for proposal in (block.walk, block.jump) * ROUNDS:
                v = here.v.copy()
                part = np.empty(len(block.index))
                log_q = proposal.propose(v[block.index], proposal.prepare(1, rng), 0, part)
                v[block.index] = part
                there = place(target, v)
                log_q += there.log_prior - here.log_prior
                here, rate = carry(target, state, here, there, log_q)
                rates.append(rate)
                if tuning["warming"]:
                    proposal.record(math.log(max(rate, 1e-300)))
            if tuning["warming"]:
                block.geometry.history.append(here.v[block.index])
        return (float(np.mean(rates)),)

    def learn(self, target: CountTarget, state: ChainState, tuning: Tuning) -> None:
        for block in tuning["blocks"]:
            block.learn()

    def freeze(self, target: CountTarget, state: ChainState, tuning: Tuning) -> None:
        for block in tuning["blocks"]:
            if len(block.geometry.history) >= FIRST_WINDOW:
                block.set_geometry()
            block.geometry.history.clear()
        tuning["warming"] = False


class Block:
    """A block of coordinates, its learned geometry, and the proposals that use it."""

    learned = ("geometry", "walk", "jump")

    def __init__(self, index: np.ndarray, prior: np.ndarray) -> None:
        self.index, own = index, np.arange(len(index))
        self.geometry = Geometry(prior)
        self.walk, self.jump = Walk(own, 0, given_u=False), Jump(own, 0)
        self._take_geometry()

    def learn(self) -> None:
        """Tune the walk; after 32, 64, ... steps, relearn the geometry."""
        count = len(self.geometry.history)
        self.walk.tune(max(1, count))
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            self.set_geometry()

    def set_geometry(self) -> None:
        """Take mean and covariance from the later half of the history."""
        self.geometry.learn()
        self._take_geometry()

    def _take_geometry(self) -> None:
        for proposal in (self.walk, self.jump):
            proposal.set_geometry(self.geometry)


class Here(NamedTuple):
    """Where a chain is, or where a proposal leads before the counts are carried along."""

    v: np.ndarray
    theta: Theta
    log_prior: float
    """log p(theta) |dtheta / dv|."""
    log_g: float = math.nan
    """log g(s_dp, T(x))."""
    rates: np.ndarray = np.zeros(0)
    """f(v_c | theta), or m_c(theta), (C,)."""


def look(target: CountTarget, state: ChainState) -> Here:
    """Return where the chain is."""
    here = place(target, target.coordinates.to_vector(state.theta))
    log_g = target.log_g(target.total(state.records))
    return here._replace(log_g=log_g, rates=target.rates(here.theta))


def place(target: CountTarget, v: np.ndarray) -> Here:
    """Return theta of a vector, and its prior."""
    theta, log_jacobian = target.coordinates.from_vector(v)
    return Here(v, theta, target.log_prior(theta) + log_jacobian)


def carry(
    target: CountTarget, state: ChainState, here: Here, there: Here, log_ratio: float
) -> tuple[Here, float]:
    """Accept or reject a proposal; return the position and the acceptance probability.

    `log_ratio` is the logarithm of the ratio without g.
    """
    uniform = state.rng.random()
    if not log_ratio > -math.inf:
        return here, 0.0
    rates, counts = target.rates(there.theta), np.empty_like(state.records)
    if not rates.sum() < MOST_RECORDS:
        return here, 0.0
    carried = carry_points if target.abilities.random_size else carry_records
    carried(state.records, here.rates, rates, target.order, target.last, state.rng, counts)
    log_g = target.log_g(target.total(counts))
    log_ratio += log_g - here.log_g
    if math.isnan(log_ratio):
        return here, 0.0
    rate = math.exp(min(0.0, log_ratio))
    if uniform < rate:
        state.theta, state.records = there.theta, counts
        here = there._replace(log_g=log_g, rates=rates)
    return here, rate


@njit(cache=True, nogil=True)
def carry_points(counts, old, new, order, last, rng, made):
    """Fill `made` with the points below the new means; see the module docstring. All (C,)."""
    for c in range(counts.shape[0]):
        if new[c] < old[c]:
            made[c] = rng.binomial(counts[c], new[c] / old[c])
        else:
            made[c] = counts[c] + rng.poisson(new[c] - old[c])


@njit(cache=True, nogil=True)
def carry_records(counts, old, new, order, last, rng, made):
    """Fill `made` with the counts at the new probabilities, by the uniforms of the records.

    `order` (C,) lists the cells group by group, and `last` marks the last cell of each group, which
    takes all that is left of [0, 1). A cell without an interval keeps its records.
    """
    made[:] = 0
    first = 0
    while first < counts.shape[0]:
        end = first
        while not last[end]:
            end += 1
        goal, low, high = first, 0.0, 0.0
        edge = 1.0 if goal == end else min(1.0, new[order[goal]])  # the end of the goal's interval
        for source in range(first, end + 1):
            low, high = high, 1.0 if source == end else min(1.0, high + old[order[source]])
            left = counts[order[source]]
            if low >= high:
                made[order[source]] += left
                left = 0
            while left > 0:
                while goal < end and edge <= low:
                    goal += 1
                    edge = 1.0 if goal == end else min(1.0, edge + new[order[goal]])
                stays = left
                if edge < high:
                    stays = rng.binomial(left, (edge - low) / (high - low))
                    low = edge
                made[order[goal]] += stays
                left -= stays
        first = end + 1
