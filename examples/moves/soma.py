"""Offer one candidate record to all slots at once (SOMA).

Algorithm 1 draws a candidate for one record and rejects it if it does not fit there. Here one
candidate x* ~ f(. | theta) is offered to n slots at once and replaces at most one of them: the idea
of Xiong and Ju (2025, "SOMA", arXiv:2505.00635). This is the derivation for the kernel coded here.

**The move.** t does not depend on the slot. Pool the n records and the candidate, and let
R = T(x) + t(x*) be the pool's total. Leaving out one member of the pool gives a database:

    G_0 = g(s_dp, R - t(x*)) = g(s_dp, T(x))           the candidate is left out: nothing changes,
    G_k = g(s_dp, R - t(x_k))                          x_k is left out, x* has its slot.

With W = G_1 + ... + G_n, slot k is chosen with probability G_k / W, and the change accepted with
probability min(1, W / W_k), where W_k = W - G_k + G_0. Together,

    P(x* goes to slot k)  =  G_k / max(W, W_k)  =  G_k / (W + max(0, G_0 - G_k)),
    P(nothing changes)    =  1 - sum_k of these.

**The reverse move and its normaliser.** Let x' be x with x* in slot k. In the reverse move, the
candidate is x_k and goes to slot k. Its pool is the same n + 1 records with the same total R. From
x', changing nothing leaves out x_k, with weight G_k; slot k holds x*, with weight G_0; and each
slot j other than k still holds x_j, with weight G_j. So the reverse normaliser, the sum over the
slots, is W' = W - G_k + G_0 = W_k; G'_0 is G_k, G'_k is G_0, and W'_k = W' - G_0 + G_k = W. The
reverse probability is therefore G_0 / max(W_k, W).

**Balance.** pi(x) = p(x | theta, s_dp) is proportional to prod_i f(x_i | theta) g(s_dp, T(x)), so
up to one constant the flow from x to x' by way of x* is

    pi(x) f(x*) P(slot k)  =  [prod_i f(x_i)] f(x*)  G_0 G_k / max(W, W_k)

(g(s_dp, T(x)) is G_0). The bracket times f(x*) is the product of f over the pool, which is the same
for x' and x_k. The other factor is symmetric in G_0, G_k and in W, W_k. So the flow equals
pi(x') f(x_k) P'(slot k): detailed balance holds for every x* and k, and the kernel leaves
p(x | theta, s_dp) invariant. Records may be equal: two slots with equal records are still two
slots. A statistic t_i that depends on the slot is refused: the pool's total would then differ in
the reverse move.

**Groups of slots.** With the other records fixed, the same holds for any fixed group of slots: T
still counts every record, but only these slots may take the offer. An offer costs one evaluation of
g for each slot of the group. With one slot it is Algorithm 1's step (P = G_1 / max(G_1, G_0)).

A simulator model carries the innovations of a record, which move with it.

It is not in the default sampler: nearly every offer is taken, but each costs n evaluations of g.
Run it with `python examples/moves/soma.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

import noiseaware as na
from noiseaware.basics.arguments import whole_number
from noiseaware.mechanisms.terms import log_g, needs_long
from noiseaware.sampler.moves.records import shift
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target


@njit(cache=True, nogil=True)
def weigh_dense(density, total, current, begin, end, offered, log_weights):
    """Fill `log_weights` (end - begin,) with log G_k - log G_0 for slots begin to end.

    `current` (m, d) holds t(x_k), `offered` (d,) t(x*); `total` (d,) is T(x).
    """
    d = total.shape[0]
    log_now = log_g(density, total)
    trial = np.empty(d)
    for k in range(begin, end):
        for j in range(d):
            trial[j] = total[j] - current[k, j] + offered[j]
        log_weights[k - begin] = log_g(density, trial) - log_now


@njit(cache=True, nogil=True)
def weigh_cells(density, total, current, begin, end, offered, log_weights):
    """Like `weigh_dense`, with cell numbers `current` (m, k) and `offered` (k,).

    The record leaves its cells and the candidate enters its own, one cell at a time, each change
    scored at the current total; `total` is then restored.
    """
    long, family, parameters = needs_long(density), density.family, density.parameters
    for k in range(begin, end):
        log_weight = 0.0
        for a in range(offered.shape[0]):
            if current[k, a] != offered[a]:
                log_weight += shift(long, family, parameters, total, current[k, a], -1.0)
                log_weight += shift(long, family, parameters, total, offered[a], 1.0)
        for a in range(offered.shape[0]):
            if current[k, a] != offered[a]:
                if current[k, a] >= 0:
                    total[current[k, a]] += 1.0
                if offered[a] >= 0:
                    total[offered[a]] -= 1.0
        log_weights[k - begin] = log_weight


@njit(cache=True, nogil=True, error_model="numpy")
def slot_probabilities(log_weights, size, probabilities):
    """Fill `probabilities` with P(x* goes to slot k), from log G_k - log G_0.

    Everything is divided by the largest G_k. If G_0 then overflows, all probabilities are 0.
    """
    top = -math.inf
    for k in range(size):
        top = max(top, log_weights[k])
    now = math.exp(-top)
    total = 0.0
    for k in range(size):
        probabilities[k] = math.exp(log_weights[k] - top)
        total += probabilities[k]
    for k in range(size):
        probabilities[k] /= total + max(0.0, now - probabilities[k])


@njit(cache=True, nogil=True)
def pick_slot(probabilities, size, uniform):
    """Return the slot drawn by `uniform` in [0, 1), or -1 if nothing changes."""
    for k in range(size):
        uniform -= probabilities[k]
        if uniform < 0.0:
            return k
    return -1


@njit(cache=True, nogil=True)
def offer_dense(density, total, current, offered, slots, each, uniforms, taken):
    """Make offers to the groups of slots in turn; statistics are dense.

    Parameters
    ----------
    density
        The mechanism's terms.
    total : (d,)
        T(x), updated in place.
    current : (m, d)
        t(x_k) of m slots, updated in place.
    offered : (offers, d)
        t(x*): `each` for the first group of `slots` slots, `each` for the second, ...
    slots, each
        Slots in a group (the last may be smaller), and offers to each group.
    uniforms : (offers,)
        Uniform random numbers.
    taken : (offers,) int64
        Filled with the slot, from 0 to m - 1, that takes each offer, or -1.
    """
    m = current.shape[0]
    weights = np.empty(slots)
    probabilities = np.empty(slots)
    for o in range(offered.shape[0]):
        begin = (o // each) * slots
        end = min(begin + slots, m)
        weigh_dense(density, total, current, begin, end, offered[o], weights)
        slot_probabilities(weights, end - begin, probabilities)
        k = pick_slot(probabilities, end - begin, uniforms[o])
        taken[o] = -1 if k < 0 else begin + k
        if k >= 0:
            for j in range(total.shape[0]):
                total[j] += offered[o, j] - current[begin + k, j]
                current[begin + k, j] = offered[o, j]


@njit(cache=True, nogil=True)
def offer_cells(density, total, current, offered, slots, each, uniforms, taken):
    """Like `offer_dense`, with cell numbers `current` (m, k) and `offered` (offers, k)."""
    m = current.shape[0]
    weights = np.empty(slots)
    probabilities = np.empty(slots)
    for o in range(offered.shape[0]):
        begin = (o // each) * slots
        end = min(begin + slots, m)
        weigh_cells(density, total, current, begin, end, offered[o], weights)
        slot_probabilities(weights, end - begin, probabilities)
        k = pick_slot(probabilities, end - begin, uniforms[o])
        taken[o] = -1 if k < 0 else begin + k
        if k >= 0:
            for a in range(offered.shape[1]):
                if current[begin + k, a] >= 0:
                    total[current[begin + k, a]] -= 1.0
                if offered[o, a] >= 0:
                    total[offered[o, a]] += 1.0
                current[begin + k, a] = offered[o, a]


@njit(cache=True, nogil=True)
def keep_taken(taken, rows, offered):
    """Write each accepted offer (offers, w) into its slot of `rows` (m, w), in order."""
    count = 0
    for o in range(taken.shape[0]):
        if taken[o] >= 0:
            count += 1
            for j in range(rows.shape[1]):
                rows[taken[o], j] = offered[o, j]
    return count


class Soma:
    """Offer candidates from the model to many slots at once.

    Parameters
    ----------
    offers : int
        Offers to each group of slots per step.
    slots : int, optional
        Slots in a group. None makes one group of all records, up to the size of a chunk (4,096).

    Notes
    -----
    Reports `soma_acceptance`, the share of offers taken. A step costs offers * n evaluations of
    log g.
    """

    reports = ("soma_acceptance",)

    def __init__(self, offers: int = 10, slots: int | None = None) -> None:
        self.offers = whole_number("offers", offers)
        self.slots = None if slots is None else whole_number("slots", slots)

    def __repr__(self) -> str:
        return f"Soma(offers={self.offers}, slots={self.slots})"

    def check(self, target: Target) -> None:
        """Raise unless slots are exchangeable and g is scored coordinate by coordinate."""
        name = target.mechanism_abilities.name
        if target.abilities.uses_index:
            raise ValueError(
                "Soma needs records that are alike, so that a candidate may go to any slot; those "
                f"of {target.abilities.name} depend on their index"
            )
        if target.mechanism_abilities.statistic is not None:
            raise ValueError(
                "Soma needs a statistic t(x) that is the same for every record; the statistic of "
                f"{name} may depend on the record's index"
            )
        if target.terms is None:
            raise ValueError(
                "Soma needs a mechanism that is scored coordinate by coordinate; "
                f"{name} has no terms(values)"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Nothing to tune."""
        return {}

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Nothing to learn."""

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Make all offers; report the share taken."""
        records, n, each = state.records, target.n, self.offers
        assert target.terms is not None
        density = target.terms
        offer = offer_cells if target.uses_cells else offer_dense
        slots = min(n, CHUNK if self.slots is None else self.slots, CHUNK)
        # As many whole groups as make about a chunk of slots and of offers.
        size = slots * max(1, CHUNK // max(slots, each))
        total = target.total(records)
        flat = records.reshape(n, -1)
        count = made = 0
        for begin in range(0, n, size):
            end = min(begin + size, n)
            m = each * -(-(end - begin) // slots)
            offered, innovations = target.propose(state.theta, m, state.rng)
            current = np.array(target.statistic(records[begin:end], begin))  # a copy to write in
            taken = np.empty(m, dtype=np.int64)
            offer(
                density,
                total,
                current,
                target.statistic(offered, begin),
                slots,
                each,
                state.rng.random(m),
                taken,
            )
            offered = np.ascontiguousarray(offered).reshape(m, -1)
            count += keep_taken(taken, flat[begin:end], offered)
            made += m
            if innovations is not None and state.innovations is not None:
                keep_taken(taken, state.innovations[begin:end], innovations)
        return (count / made,)


def main() -> None:
    """Sample the shares of three levels, alternating offers and record sweeps."""
    rng = np.random.default_rng(1)
    query = na.queries.Histogram(n_levels=3)
    release = na.mechanisms.Laplace(query, epsilon=2.0).privatize(rng.integers(0, 3, 200), rng)
    moves = (na.moves.ParameterUpdate(), Soma(offers=20), na.moves.RecordSweep())
    posterior = na.sample(na.models.Categorical(3), release, moves=moves, random_seed=1)
    print(na.summary(posterior))


if __name__ == "__main__":
    main()
