"""Change a few records at once, so that exact numbers stay as they are.

Some totals were published exactly (`mechanisms.Exact`) beside a joint or a local mechanism, so the
state is a list of records, not their counts. Values that the exact totals do not tell apart form a
class (`counts.lattice`). A sweep of single records leaves every record in its class, because
anything else has g = 0. This move changes classes, with theta held.

**Elements.** An element of `ExactRows` says that m records of the classes l_1, ..., l_m may be
replaced by records of k_1, ..., k_m, or the reverse. Take m records in a random order. If their
classes are l_1, ..., l_m, propose x_r* ~ f(. | theta, class k_r) for each; if they are k_1, ...,
k_m, propose from l_1, ..., l_m; otherwise propose nothing. Both cannot hold, as the two lists
differ, so each step is undone by the reverse step with the same records. With P(k) the probability
of a class under f, the first is accepted with probability min(1, r),

        g(s_dp, T*)           f(x_r*)     f(x_r) / P(l_r)        g(s_dp, T*)          P(k_r)
    r = -----------  prod_r [ -------  *  ------------------ ] = -----------  prod_r  ------,
        g(s_dp, T )           f(x_r)      f(x_r*) / P(k_r)       g(s_dp, T )          P(l_r)

and the second with l and k interchanged.

**Swaps.** Two records exchange values. The totals stay, and so does prod f, so r is the ratio of g,
which differs from 1 only if a value was released of each record (a local part). A swap is its own
inverse.

Both go through all records, in a random order that does not depend on the state, in blocks of m or
of two. Each block is decided in turn, by a step that leaves the posterior invariant.

**Irreducibility.** Elements connect all counts of the classes (`counts.lattice`), single records
take every value of a class, and swaps reach every order, provided no value has f = 0 and g is
positive wherever the exact numbers are right.
"""

from __future__ import annotations

import numpy as np

from noiseaware.sampler.moves.base import SteppedMove, Tuning
from noiseaware.sampler.moves.records import Offer, accept, need_records
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class ExchangeMove(SteppedMove):
    """Replace a few records by others, or swap two, so that exact numbers stay.

    Parameters
    ----------
    steps : int
        Passes over all records in an iteration, each with a random element.
    """

    reports = ("exchange_acceptance",)
    keeps_exact = True

    def __init__(self, steps: int = 2) -> None:
        super().__init__(steps)

    def check(self, target: Target) -> None:
        need_records(self, target)
        if not target.has_exact:
            raise ValueError(
                "ExchangeMove needs a release with exact numbers (Exact) beside a joint or a local "
                f"mechanism; got {target.mechanism_abilities.name}"
            )

    def find_start(self, target: Target, state: ChainState) -> None:
        """Begin with records that have the exact numbers."""
        state.set_records(target.exact_rows.find_records(state.rng), None)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        """Go through the records with some elements, and swap; report the share that changed."""
        elements, n, changed = target.exact_rows.elements, len(state.records), []
        for which in state.rng.integers(len(elements), size=self.steps) if elements else ():
            out, into = elements[which]
            order = state.rng.permutation(n)[: n // len(out) * len(out)]
            if len(order):
                proposed, correction = propose(target, state, order, out, into)
                changed.append(decide(target, state, order, proposed, correction, len(out)))
            else:
                changed.append(0.0)
        if target.mechanism_abilities.statistic is not None and n > 1:
            order = state.rng.permutation(n)[: n // 2 * 2]
            swapped = state.records[order.reshape(-1, 2)[:, ::-1].ravel()]
            changed.append(decide(target, state, order, swapped, np.zeros(0), 2))
        return (float(np.mean(changed)) if changed else np.nan,)


def propose(
    target: Target, state: ChainState, order: np.ndarray, out: list[int], into: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the records in this order after an element, and log P(k_r) / P(l_r) of each.

    Blocks that the element does not fit stay unchanged.
    """
    rows, m = target.exact_rows, len(out)
    density = target.abilities.log_likelihood
    assert density is not None  # the target saw to it
    logs = np.asarray(density(state.theta, rows.values), dtype=np.float64)
    weights = np.exp(logs - logs.max())
    mass = np.bincount(rows.classes, weights)
    cells = rows.cells_of(state.records[order]).reshape(-1, m)
    goal = np.full(cells.shape, -1)
    for old, new in ((out, into), (into, out)):
        goal[(rows.classes[cells] == old).all(axis=1)] = new
    correction = np.zeros(cells.shape)
    for k in np.unique(goal[goal >= 0]):
        where, inside = goal == k, np.flatnonzero(rows.classes == k)
        with np.errstate(divide="ignore"):
            correction[where] = np.log(mass[k]) - np.log(mass[rows.classes[cells[where]]])
        if mass[k] > 0.0:
            drawn = np.searchsorted(
                np.cumsum(weights[inside]), mass[k] * state.rng.random(where.sum()), side="right"
            )
            cells[where] = inside[np.minimum(drawn, len(inside) - 1)]
    return rows.values[cells.ravel()], correction.ravel()


def decide(
    target: Target,
    state: ChainState,
    order: np.ndarray,
    proposed: np.ndarray,
    correction: np.ndarray,
    size: int,
) -> float:
    """Accept or reject blocks of records in this order; return the share that changed."""
    old, new = state.records, state.records.copy()
    new[order] = proposed
    statistic = target.statistic(old, 0)
    offer = Offer(
        statistic[order],
        target.statistic(new, 0)[order],
        correction,
        -state.rng.standard_exponential(len(order) // size),
        size,
        np.empty(len(order), dtype=np.bool_),
    )
    accept(target, target.sum(statistic), offer)
    kept = order[~offer.accepted]
    new[kept] = old[kept]
    state.records = new
    return float((new != old).reshape(len(new), -1).any(axis=1).mean())
