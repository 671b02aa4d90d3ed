"""Move theta and the counts of a table together, with the uniforms behind the records held.

Where theta is not integrated out, a chain that draws x given theta and theta given x walks in
steps of what n records say of theta, however little the release says. `CountTransport` is
`moves.Transport` for counts. A record of a group is the inverse CDF, over the cells in their order,
of a uniform number u: with the cumulative probabilities P_c(theta), it is in cell c if P_(c-1) <= u
< P_c. In the coordinates (theta, u) the posterior is proportional to

    p(theta) g(s_dp, T(x(u; theta))),

with u uniform. Given x and theta, the u of the x_c records of cell c are uniform on its interval.
So a step draws u and proposes theta' from a symmetric law in coordinates v without constraints. Of
u it only needs how many fall into each interval of theta': the x_c records are split, by a
multinomial draw, in proportion to the lengths of what [P_(c-1), P_c) has of each new interval. It
accepts with probability

    min(1, p(theta') |dtheta'/dv'| g(s_dp, T(x')) / (p(theta) |dtheta/dv| g(s_dp, T(x)))).

An iteration proposes a change of all coordinates together, and of a few coordinates one by one.

**Where the number of records is not known** and x_c is Poisson with mean m_c(theta), x_c is the
number of points of a Poisson process of rate 1 that are below m_c. Given x_c and m_c these are
uniform on [0, m_c), and those above are what they were before anything was seen. So of x_c points a
binomial number stays below m_c' < m_c, and a Poisson(m_c' - m_c) number is below m_c' > m_c beside
the x_c. The ratio is the one above.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.contract import Theta
from noiseaware.counts.target import CountTarget
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

ONE_BY_ONE = 4
"""Coordinates that are moved one by one in an iteration."""

MOST_RECORDS = 1e15
"""A proposal with more records than this is refused: counts are integers that doubles can hold."""

WANTED = (0.44, 0.25)
"""Acceptance to aim at, for one coordinate and for all together."""


class CountTransport:
    """Move theta and the counts together, with the uniforms behind the records held."""

    reports = ("transport_acceptance",)
    on_counts = True

    def __repr__(self) -> str:
        return "CountTransport()"

    def check(self, target: Target) -> None:
        """Raise if the state holds records, or the model has no prior density."""
        if not target.on_counts:
            raise ValueError("CountTransport needs a state of counts, and this one holds records")
        able = target.abilities
        if able.log_prior is None or able.log_likelihood is None:
            raise ValueError(
                "CountTransport needs a model with log_prior(theta) and log_likelihood(theta, "
                f"records); {able.name} is not that"
            )
        if able.random_size and target.release.n_records is not None:
            raise ValueError(
                "CountTransport changes the number of records of a model that is about that, and "
                f"the release fixes it at {target.release.n_records}"
            )

    def start(self, target: CountTarget, state: ChainState) -> dict[str, Any]:
        """Begin with steps of 0.5 for each coordinate, and of 0.3 of these for all."""
        size = target.coordinates.size
        log_steps = np.append(np.full(size, math.log(0.5)), math.log(0.3))
        return {"log_steps": log_steps, "tries": 0, "seen": [], "learning": True}

    def step(self, target: CountTarget, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Propose a few changes of theta, each with the counts that go along."""
        rng, size = state.rng, target.coordinates.size
        steps = np.exp(tuning["log_steps"])
        few = rng.choice(size, min(size, ONE_BY_ONE), replace=False)
        accepted: list[tuple[int, float]] = []
        here = look(target, state)
        for which in (*few, size):
            change = np.zeros(size)
            if which == size:
                change = steps[size] * steps[:size] * rng.standard_normal(size)
            else:
                change[which] = steps[which] * rng.standard_normal()
            here, rate = carry(target, state, here, change)
            accepted.append((int(which), rate))
        if tuning["learning"]:
            tuning["seen"] = accepted
        return (float(np.mean([rate for _, rate in accepted])),)

    def learn(self, target: CountTarget, state: ChainState, tuning: dict[str, Any]) -> None:
        """Make steps longer that are accepted too often, and shorter those that are not."""
        tuning["tries"] += 1
        gain = min(1.0, 10.0 / tuning["tries"] ** 0.7)
        for which, rate in tuning["seen"]:
            wanted = WANTED[int(which == target.coordinates.size)]
            tuning["log_steps"][which] += gain * (rate - wanted)

    def freeze(self, target: CountTarget, state: ChainState, tuning: dict[str, Any]) -> None:
        """Learn no more."""
        tuning["seen"], tuning["learning"] = [], False


class Here(NamedTuple):
    """Where a chain is, as a proposal needs it."""

    v: np.ndarray
    theta: Theta
    log_density: float
    """log p(theta) |dtheta / dv| g(s_dp, T(x))."""
    rates: np.ndarray
    """f(v_c | theta), or m_c(theta), (C,)."""


def look(target: CountTarget, state: ChainState) -> Here:
    """Return where the chain is."""
    v = target.coordinates.to_vector(state.theta)
    theta, log_jacobian = target.coordinates.from_vector(v)
    log_prior = target.log_prior(theta) + log_jacobian
    log_g = target.log_g(target.total(state.records))
    return Here(v, theta, log_prior + log_g, target.rates(theta))


def carry(
    target: CountTarget, state: ChainState, here: Here, change: np.ndarray
) -> tuple[Here, float]:
    """Propose v + change, take it or not; return where the chain is, and the probability of it."""
    v, uniform = here.v + change, state.rng.random()
    theta, log_jacobian = target.coordinates.from_vector(v)
    log_density = target.log_prior(theta) + log_jacobian
    if not log_density > -math.inf:
        return here, 0.0
    rates, counts = target.rates(theta), np.empty_like(state.records)
    if not rates.sum() < MOST_RECORDS:
        return here, 0.0
    carried = carry_points if target.abilities.random_size else carry_records
    carried(state.records, here.rates, rates, target.order, target.last, state.rng, counts)
    log_density += target.log_g(target.total(counts))
    if math.isnan(log_density):
        return here, 0.0
    rate = math.exp(min(0.0, log_density - here.log_density))
    if uniform < rate:
        state.theta, state.records = theta, counts
        here = Here(v, theta, log_density, rates)
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

    `order` (C,) has the cells of a group one after another, and `last` says which is its last one.
    That has all that is left of [0, 1). A cell without an interval keeps its records.
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
