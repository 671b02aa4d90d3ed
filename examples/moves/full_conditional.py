"""Draw each record in turn exactly from its full conditional: no proposal, no rejection.

If a record can take only a few values v_1, ..., v_m, its conditional given everything else is a
table of m numbers. With T_{-i} = T(x) - t_i(x_i), the total of the other records,

    P(x_i = v | x_{-i}, theta, s_dp)  =  f(v | theta) g(s_dp, T_{-i} + t_i(v))
                                         ---------------------------------------.
                                         sum_w f(w | theta) g(s_dp, T_{-i} + t_i(w))

The other factors of p(theta) prod_j f(x_j | theta) g(s_dp, T(x)) do not contain x_i, so they
cancel. A draw from a full conditional leaves p(theta, x | s_dp) invariant (Gibbs), and so does a
sequence of such draws.

Algorithm 1 proposes v from f and accepts by the ratio of g. This move weights all m values at once,
which pays if g is so informative that most proposals from f would be rejected. It costs m
evaluations per record.

**The weights.** Dense statistics: log g is evaluated at T_{-i} + t_i(v) for each v. Cells: a value
adds 1 to k cells, and log g is a sum over cells, so

    log g(s_dp, T_{-i} + t(v)) = log g(s_dp, T_{-i}) + sum_{cells c of v} gain_c,
    gain_c = phi_c(T_c + 1) - phi_c(T_c)                          at T = T_{-i}.

The first term is the same for all v. Updating the gains changes at most 2 k of them per record, so
a value costs k additions. A value that lists a cell twice would need phi_c(T_c + 2): a query with
such values is treated as dense.

**What the model must provide.** `record_values` (m, ...): every possible record, once, in the
records' own shape; and `log_likelihood(theta, records)`.

It is not in the default sampler, which refreshes more records in the same time unless g is very
informative. Run it with `python examples/moves/full_conditional.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

import noiseaware as na
from noiseaware.mechanisms.terms import log_g, needs_long, term
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target


@njit(cache=True, nogil=True)
def exponentiate(log_weights):
    """Exponentiate log weights in place, scaled so that the largest is 1; return their sum."""
    top = -math.inf
    for v in range(log_weights.shape[0]):
        top = max(top, log_weights[v])
    total = 0.0
    for v in range(log_weights.shape[0]):
        log_weights[v] = math.exp(log_weights[v] - top)
        total += log_weights[v]
    return total


@njit(cache=True, nogil=True)
def weigh_dense(density, rest, log_likelihood, table, weights):
    """Fill `weights` (m,) with f(v) g(T_{-i} + t(v)), scaled to largest 1; return their sum.

    `rest` (d,) is T_{-i}, `table` (m, d) holds t(v), `log_likelihood` (m,) log f(v).
    """
    trial = np.empty(rest.shape[0])
    for v in range(table.shape[0]):
        for j in range(rest.shape[0]):
            trial[j] = rest[j] + table[v, j]
        weights[v] = log_likelihood[v] + log_g(density, trial)
    return exponentiate(weights)


@njit(cache=True, nogil=True)
def weigh_cells(gains, log_likelihood, table, weights):
    """Like `weigh_dense` for cells: `gains` (d,) at T_{-i}, `table` (m, k) the cells of v."""
    for v in range(table.shape[0]):
        total = log_likelihood[v]
        for a in range(table.shape[1]):
            if table[v, a] >= 0:
                total += gains[table[v, a]]
        weights[v] = total
    return exponentiate(weights)


@njit(cache=True, nogil=True)
def pick(weights, total, uniform):
    """Return the index of the value at `uniform` in the cumulative weights; never weight 0."""
    left = uniform * total
    chosen = 0
    for v in range(weights.shape[0]):
        if weights[v] > 0.0:
            chosen = v
            left -= weights[v]
            if left < 0.0:
                break
    return chosen


@njit(cache=True, nogil=True)
def draw_dense(density, total, current, log_likelihood, table, uniforms, chosen):
    """Draw c records one after another; statistics are dense.

    Parameters
    ----------
    density
        The mechanism's terms.
    total : (d,)
        T(x), updated in place.
    current : (c, d)
        t_i(x_i).
    log_likelihood : (m,)
        log f(v | theta) for each value.
    table : (1, m, d) or (c, m, d)
        t_i(v): one table for all records, or one for each.
    uniforms : (c,)
        Uniform random numbers.
    chosen : (c,) int64
        Filled with the index of the value that each record takes.
    """
    weights = np.empty(table.shape[1])
    for i in range(current.shape[0]):
        mine = table[i if table.shape[0] > 1 else 0]
        for j in range(total.shape[0]):
            total[j] -= current[i, j]
        size = weigh_dense(density, total, log_likelihood, mine, weights)
        v = pick(weights, size, uniforms[i])
        chosen[i] = v
        for j in range(total.shape[0]):
            total[j] += mine[v, j]


@njit(cache=True, nogil=True)
def add_to_cell(density, total, gains, cell, step):
    """Add `step` to a cell of `total` and update its gain. Cell -1 is no cell."""
    if cell < 0:
        return
    total[cell] += step
    long, family, parameters = needs_long(density), density.family, density.parameters
    after = term(long, family, parameters, cell, total[cell] + 1.0)
    gains[cell] = after - term(long, family, parameters, cell, total[cell])


@njit(cache=True, nogil=True)
def draw_cells(density, total, current, log_likelihood, table, uniforms, chosen):
    """Like `draw_dense`, with `current` (c, k) and one `table` (m, k) of cell numbers."""
    weights = np.empty(table.shape[0])
    gains = np.empty(total.shape[0])
    for cell in range(total.shape[0]):
        add_to_cell(density, total, gains, cell, 0.0)
    for i in range(current.shape[0]):
        for a in range(current.shape[1]):
            add_to_cell(density, total, gains, current[i, a], -1.0)
        size = weigh_cells(gains, log_likelihood, table, weights)
        v = pick(weights, size, uniforms[i])
        chosen[i] = v
        for a in range(table.shape[1]):
            add_to_cell(density, total, gains, table[v, a], 1.0)


@njit(cache=True, nogil=True)
def keep_chosen(chosen, values, records):
    """Write the chosen `values` (m, w) into `records` (c, w); return how many records changed."""
    changed = 0
    for i in range(chosen.shape[0]):
        different = False
        for j in range(records.shape[1]):
            different |= records[i, j] != values[chosen[i], j]
            records[i, j] = values[chosen[i], j]
        changed += different
    return changed


class FullConditional:
    """Draw each record in turn from p(x_i | x_-i, theta, s_dp).

    Reports `records_changed`, the share of records whose value changed. There is no acceptance
    rate, because nothing is rejected.
    """

    reports = ("records_changed",)

    def __repr__(self) -> str:
        return "FullConditional()"

    def check(self, target: Target) -> None:
        """Raise unless the records take few values, whose weights can be computed."""
        able = target.abilities
        name, values = able.name, able.record_values
        if values is None:
            raise ValueError(
                "FullConditional needs a model whose records take few values, listed in its "
                f"record_values; {name} has none"
            )
        if able.log_likelihood is None:
            raise ValueError(
                "FullConditional needs a model with log_likelihood(theta, records); "
                f"{name} has none"
            )
        if able.uses_index:
            raise ValueError(
                "FullConditional needs records that are alike, with one list of values for all; "
                f"those of {name} depend on their index"
            )
        values = np.asarray(values)
        if values.ndim == 0 or len(values) == 0:
            raise ValueError(
                f"{name}.record_values must be an array (m, ...) of the m possible records; "
                f"got shape {values.shape}"
            )
        if len(np.unique(values.reshape(len(values), -1), axis=0)) < len(values):
            raise ValueError(f"{name}.record_values must list each possible record once")
        if target.terms is None:
            raise ValueError(
                "FullConditional needs a mechanism that is scored coordinate by coordinate; "
                f"{target.mechanism_abilities.name} has no terms(values)"
            )
        if able.holds_innovations:
            raise ValueError(
                f"FullConditional cannot be used with {name}: it is only a simulator, and a new "
                "value of a record does not say what innovations made it"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Store the values and their statistics for the steps; nothing is tuned."""
        values = np.ascontiguousarray(target.abilities.record_values, dtype=state.records.dtype)
        if values.shape[1:] != state.records.shape[1:]:
            raise ValueError(
                f"{target.abilities.name}.record_values must have shape "
                f"(m, *{state.records.shape[1:]}), like its records; got {values.shape}"
            )
        if target.mechanism_abilities.statistic is not None:
            return {"values": values, "table": None, "cells": False}
        table = target.statistic(values, 0)
        cells = target.uses_cells and not _repeats(table)
        if not cells:
            table = np.ascontiguousarray(target.release.query.statistic(values))[np.newaxis]
        return {"values": values, "table": table, "cells": cells}

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Nothing to learn."""

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Sweep once through all records; report the share that changed."""
        records, n = state.records, target.n
        values, table, cells = tuning["values"], tuning["table"], tuning["cells"]
        assert target.terms is not None
        density = target.terms
        draw = draw_cells if cells else draw_dense
        log_likelihood = target.abilities.log_likelihood(state.theta, values)
        flat, flat_values = records.reshape(n, -1), values.reshape(len(values), -1)
        # A table for each record is m times as large as the statistics.
        size = min(n, CHUNK if table is not None else max(1, CHUNK // len(values)))
        # A database of one chunk needs its statistics once, for the total and for the loop.
        once = target.uses_cells == cells and size == n
        current = target.statistic(records, 0) if once else None
        total = target.total(records) if current is None else target.sum(current)
        changed = 0
        for begin in range(0, n, size):
            end = min(begin + size, n)
            if not once:
                current = _statistic(target, records[begin:end], begin, cells)
            chosen = np.empty(end - begin, dtype=np.int64)
            draw(
                density,
                total,
                current,
                log_likelihood,
                _tables(target, values, begin, end) if table is None else table,
                state.rng.random(end - begin),
                chosen,
            )
            changed += keep_chosen(chosen, flat_values, flat[begin:end])
        return (changed / n,)


def _statistic(target: Target, records: np.ndarray, begin: int, cells: bool) -> np.ndarray:
    """Like `Target.statistic`, but dense if cells repeat."""
    if target.uses_cells and not cells:
        return target.release.query.statistic(records)
    return target.statistic(records, begin)


def _tables(target: Target, values: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return t_i(v) if it depends on i, for records begin to end: (end - begin, m, d)."""
    index = np.repeat(np.arange(begin, end), len(values))
    offered = np.concatenate([values] * (end - begin))
    table = target.release.mechanism.statistic(offered, index, target.values)
    return np.ascontiguousarray(table, dtype=np.float64).reshape(end - begin, len(values), -1)


def _repeats(cells: np.ndarray) -> bool:
    """Whether a row of cell numbers (m, k) repeats a cell; -1 is no cell."""
    if cells.shape[1] == 1:
        return False
    ordered = np.sort(cells, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any())


def main() -> None:
    """Sample the shares of three levels, drawing every record from its full conditional."""
    rng = np.random.default_rng(1)
    query = na.queries.Histogram(n_levels=3)
    release = na.mechanisms.Laplace(query, epsilon=2.0).privatize(rng.integers(0, 3, 200), rng)
    moves = (na.moves.ParameterUpdate(), FullConditional())
    posterior = na.sample(na.models.Categorical(3), release, moves=moves, random_seed=1)
    print(na.summary(posterior))


if __name__ == "__main__":
    main()
