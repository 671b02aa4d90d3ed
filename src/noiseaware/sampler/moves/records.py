"""Step 2 of Algorithms 1 and 2: go through the records, propose each, accept or reject.

For record i, with x_{-i} and theta held, the target is

    p(x_i | x_{-i}, theta, s_dp)  proportional to  f(x_i | theta) g(s_dp, T(x)).

A proposal x_i* ~ q(. | x, theta, s_dp) is accepted with probability min(1, r),

    r = g(s_dp, T - t_i(x_i) + t_i(x_i*)) / g(s_dp, T)
        * f(x_i* | theta) / f(x_i | theta)  *  q(x_i | x*, ...) / q(x_i* | x, ...)  (Algorithm 2).

With q = f(. | theta) the second line is 1 and only the ratio of g is left (Algorithm 1). Under
pure epsilon-DP that ratio is at least exp(-epsilon): x and x* are neighbours (Proposition 3.1).
The smallest ratio of g that a sweep met is reported, so that this theorem can be checked.

Record additivity makes each record O(1): T moves by t_i(x_i*) - t_i(x_i). Proposals that do not
look at the other records can all be drawn, and their statistics taken, before the loop; the loop
itself is compiled. T is summed afresh at the start of each sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from noiseaware.mechanisms.joint import accept_joint_compiled
from noiseaware.mechanisms.terms import log_g, term
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target

_NO_CORRECTION = np.zeros(0)


@njit(cache=True, nogil=True)
def accept_dense(family, parameters, total, current, proposed, correction, log_uniform, accepted):
    """Accept or reject m proposals one after another; statistics are dense.

    Parameters
    ----------
    family, parameters
        The mechanism's terms.
    total : (d,)
        T(x), updated in place.
    current, proposed : (m, d)
        t_i(x_i) and t_i(x_i*).
    correction : (m,) or (0,)
        log f(x*)/f(x) + log q(x|x*)/q(x*|x); empty where it is zero (Algorithm 1).
    log_uniform : (m,)
        Logarithms of uniform random numbers.
    accepted : (m,) bool
        Filled with the decisions.

    Returns
    -------
    float
        The smallest log ratio of g that was met, at most 0.
    """
    m, d = proposed.shape
    trial = np.empty(d)
    log_now = log_g(family, parameters, total)
    lowest = 0.0
    for i in range(m):
        for j in range(d):
            trial[j] = total[j] - current[i, j] + proposed[i, j]
        log_new = log_g(family, parameters, trial)
        log_ratio = log_new - log_now
        lowest = min(lowest, log_ratio)
        if correction.shape[0] > 0:
            log_ratio += correction[i]
        accepted[i] = log_uniform[i] < log_ratio
        if accepted[i]:
            log_now = log_new
            for j in range(d):
                total[j] = trial[j]
    return lowest


@njit(cache=True, nogil=True)
def shift(family, parameters, total, cell, step):
    """Add `step` to one cell of `total`; return what that adds to log g. Cell -1 is no cell."""
    if cell < 0:
        return 0.0
    p = parameters[cell]
    before = term(family[cell], p[0], p[1], p[2], p[3], total[cell])
    total[cell] += step
    return term(family[cell], p[0], p[1], p[2], p[3], total[cell]) - before


@njit(cache=True, nogil=True)
def accept_cells(family, parameters, total, current, proposed, correction, log_uniform, accepted):
    """Accept or reject m proposals one after another; statistics are cell numbers.

    As `accept_dense`, with `current` and `proposed` (m, k). A proposal leaves its old cells and
    enters the new ones, one at a time, each scored at the total as it then stands; a cell that
    it keeps is not touched. A rejected proposal is walked back.
    """
    m, k = proposed.shape
    lowest = 0.0
    for i in range(m):
        log_ratio = 0.0
        for a in range(k):
            if current[i, a] != proposed[i, a]:
                log_ratio += shift(family, parameters, total, current[i, a], -1.0)
                log_ratio += shift(family, parameters, total, proposed[i, a], 1.0)
        lowest = min(lowest, log_ratio)
        if correction.shape[0] > 0:
            log_ratio += correction[i]
        accepted[i] = log_uniform[i] < log_ratio
        if not accepted[i]:
            for a in range(k):
                if current[i, a] != proposed[i, a]:
                    if current[i, a] >= 0:
                        total[current[i, a]] += 1.0
                    if proposed[i, a] >= 0:
                        total[proposed[i, a]] -= 1.0
    return lowest


@njit(cache=True, nogil=True)
def keep_accepted(accepted, records, candidates, counts):
    """Copy the accepted candidates into `records` (m, w) and count them; return how many."""
    total = 0
    for i in range(accepted.shape[0]):
        if accepted[i]:
            total += 1
            counts[i] += 1
            for j in range(records.shape[1]):
                records[i, j] = candidates[i, j]
    return total


def keep(state: ChainState, begin: int, accepted, candidates, innovations) -> int:
    """Put the accepted candidates for the records from `begin` on in place; return how many."""
    m = len(accepted)
    now = slice(begin, begin + m)
    if innovations is not None and state.innovations is not None:
        state.innovations[now][accepted] = innovations[accepted]
    flat = state.records[now].reshape(m, -1)
    return keep_accepted(accepted, flat, candidates.reshape(m, -1), state.acceptance[now])


def accept_joint(
    target: Target, total, current, proposed, correction, log_uniform, accepted
) -> float:
    """As `accept_dense`, for a mechanism whose log density is a Python function of T."""
    log_now = target.log_g(total)
    lowest = 0.0
    for i in range(len(proposed)):
        trial = total - current[i] + proposed[i]
        log_new = target.log_g(trial)
        log_ratio = log_new - log_now
        lowest = min(lowest, log_ratio)
        if len(correction):
            log_ratio += correction[i]
        accepted[i] = log_uniform[i] < log_ratio
        if accepted[i]:
            log_now = log_new
            total[:] = trial
    return lowest


def accept(target: Target, total, current, proposed, correction, log_uniform, accepted) -> float:
    """Run the accept loop that fits the target; see `accept_dense`."""
    if target.joint is not None:
        code, parameters = target.joint
        return accept_joint_compiled(
            code, parameters, total, current, proposed, correction, log_uniform, accepted
        )
    if target.terms is None:
        return accept_joint(target, total, current, proposed, correction, log_uniform, accepted)
    loop = accept_cells if target.uses_cells else accept_dense
    family, parameters = target.terms
    return loop(family, parameters, total, current, proposed, correction, log_uniform, accepted)


class RecordSweep:
    """Go once through all records.

    Parameters
    ----------
    proposal : callable, optional
        None proposes from the model: Algorithm 1. Otherwise Algorithm 2, with

            proposal(records, index, theta, release, rng) -> (candidates, log_ratio)

        for the records of the integer array `index`: `candidates` has the shape of
        `records[index]`, and `log_ratio` (m,) is log q(x_i | x_i*) - log q(x_i* | x_i). The model
        needs `log_likelihood(theta, records) -> (n,)`.
    sequential : bool
        False: a proposal looks only at its own record (and theta, s_dp), so that many are asked
        for at once. True: it may look at the other records as they now are, and is asked for one
        record at a time.
    """

    reports = ("acceptance_rate", "lowest_log_acceptance")

    def __init__(
        self, proposal: Callable[..., tuple[Any, Any]] | None = None, *, sequential: bool = False
    ) -> None:
        self.proposal = proposal
        self.sequential = sequential

    def __repr__(self) -> str:
        if self.proposal is None:
            return "RecordSweep()"
        return f"RecordSweep({self.proposal!r}, sequential={self.sequential})"

    def check(self, target: Target) -> None:
        """Raise if a proposal of the user's cannot be scored."""
        if self.proposal is None:
            return
        if not hasattr(target.model, "log_likelihood"):
            raise ValueError(
                "a RecordSweep with a proposal needs a model with log_likelihood(theta, records); "
                f"{type(target.model).__name__} has none"
            )
        if target.holds_innovations:
            raise ValueError("a RecordSweep with a proposal cannot be used with a simulator model")
        if target.uses_index:
            raise ValueError(
                "a RecordSweep with a proposal needs records that are alike; those of "
                f"{type(target.model).__name__} depend on their index, which a proposal may break"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Nothing to tune."""
        return {}

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Nothing to learn."""

    def step(
        self, target: Target, state: ChainState, tuning: dict[str, Any]
    ) -> tuple[float, float]:
        """Sweep once; report the share accepted and the smallest log ratio of g."""
        records = state.records
        state.sweeps += 1
        n = target.n
        size = 1 if self.sequential else min(n, CHUNK)
        # A database of one chunk needs its statistics once, for the total and for the loop.
        statistic = target.statistic(records, 0) if size == n else None
        total = target.total(records) if statistic is None else target.sum(statistic)
        count, lowest = 0, 0.0
        for begin in range(0, n, size):
            end = min(begin + size, n)
            now = records[begin:end]
            candidates, innovations, correction = self._propose(target, state, begin, end)
            accepted = np.empty(end - begin, dtype=np.bool_)
            smallest = accept(
                target,
                total,
                target.statistic(now, begin) if statistic is None else statistic,
                target.statistic(candidates, begin),
                correction,
                -state.rng.standard_exponential(end - begin),
                accepted,
            )
            lowest = min(lowest, smallest)
            count += keep(state, begin, accepted, candidates, innovations)
        return count / n, lowest

    def _propose(
        self, target: Target, state: ChainState, begin: int, end: int
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        if self.proposal is None:
            candidates, innovations = target.propose(state.theta, end - begin, state.rng, begin)
            return candidates, innovations, _NO_CORRECTION
        index = np.arange(begin, end)
        candidates, log_ratio = self.proposal(
            state.records, index, state.theta, target.release, state.rng
        )
        now = state.records[begin:end]
        candidates = _like("proposal", candidates, now)
        likelihood = target.model.log_likelihood
        correction = likelihood(state.theta, candidates) - likelihood(state.theta, now)
        return candidates, None, correction + np.asarray(log_ratio, dtype=np.float64)


def _like(name: str, made: Any, model: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(made, dtype=model.dtype)
    if array.shape != model.shape:
        raise ValueError(f"{name} must return records of shape {model.shape}; got {array.shape}")
    return array
