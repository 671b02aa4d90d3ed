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
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.counts.target import CountTarget
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

ONE_BY_ONE = 4
"""Coordinates that are moved one by one in an iteration."""

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
        if able.log_prior is None or able.log_likelihood is None or able.random_size:
            raise ValueError(
                "CountTransport needs a model with log_prior(theta) and log_likelihood(theta, "
                f"records) whose number of records is known; {able.name} is not that"
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
        for which in (*few, size):
            change = np.zeros(size)
            if which == size:
                change = steps[size] * steps[:size] * rng.standard_normal(size)
            else:
                change[which] = steps[which] * rng.standard_normal()
            accepted.append((int(which), carry(target, state, change)))
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


def carry(target: CountTarget, state: ChainState, change: np.ndarray) -> float:
    """Propose v + change, take it or not, and return the probability with which it was taken."""
    rng, uniform = state.rng, state.rng.random()
    v = target.coordinates.to_vector(state.theta)
    here, log_here = target.coordinates.from_vector(v)
    theta, log_jacobian = target.coordinates.from_vector(v + change)
    log_ratio = target.log_prior(theta) + log_jacobian - target.log_prior(here) - log_here
    if not log_ratio > -math.inf:
        return 0.0
    new = target.probabilities(theta)
    if not np.isfinite(new).all():
        return 0.0
    counts = carried(state.records, target.probabilities(here), new, target.groups, rng)
    log_ratio += target.log_g(target.total(counts)) - target.log_g(target.total(state.records))
    if math.isnan(log_ratio):
        return 0.0
    rate = math.exp(min(0.0, log_ratio))
    if uniform < rate:
        state.theta, state.records = theta, counts
    return rate


def carried(
    counts: np.ndarray,
    old: np.ndarray,
    new: np.ndarray,
    groups: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the counts with the new probabilities, by the uniforms of the records; all (C,).

    The intervals of group g are on [g, g + 1), those of its last cell up to the end. Cells of a
    group need not follow one another.
    """
    order = np.argsort(groups, kind="stable")
    of = groups[order]
    last = np.append(of[1:] != of[:-1], True)

    def ends(p: np.ndarray) -> np.ndarray:
        inside = np.cumsum(p[order])
        before = np.concatenate(([0.0], inside[last][:-1]))
        return np.where(last, of + 1.0, of + np.minimum(inside - before[of], 1.0))

    old_ends, new_ends = ends(old), ends(new)
    cuts = np.unique(np.concatenate([old_ends, new_ends]))
    lengths = np.diff(np.concatenate(([0.0], cuts)))
    # A piece belongs to the first interval that does not end before it does.
    source, goal = np.searchsorted(old_ends, cuts), np.searchsorted(new_ends, cuts)
    first = np.searchsorted(source, np.arange(len(order)))
    place = np.arange(len(cuts)) - first[source]
    shares = np.zeros((len(order), int(place.max()) + 1))
    shares[source, place] = lengths
    whole = shares.sum(axis=1, keepdims=True)
    held = counts[order]
    # A cell without an interval has no records.
    shares = np.where(whole > 0.0, shares / np.where(whole > 0.0, whole, 1.0), 0.0)
    shares[whole[:, 0] == 0.0, 0] = 1.0
    pieces = rng.multinomial(held, shares)
    made = np.zeros(len(order), dtype=np.int64)
    np.add.at(made, goal, pieces[source, place])
    stuck = np.flatnonzero((whole[:, 0] == 0.0) & (held > 0))
    made[stuck] += held[stuck]
    result = np.empty_like(made)
    result[order] = made
    return result
