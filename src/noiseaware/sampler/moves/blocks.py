"""Refresh the records in blocks: one decision for k records.

Algorithm 1 decides about one record at a time. When the noise is large against what one record
adds, nearly every proposal is accepted, and the decisions are what costs. Propose k records of a
block B at once, x_i* ~ f(. | theta) for i in B, and accept them together with probability
min(1, r). The proposal's density cancels that of the model, record by record, as in Algorithm 1,

    r = g(s_dp, T - sum_{i in B} t_i(x_i) + sum_{i in B} t_i(x_i*)) / g(s_dp, T).

The two databases are k changes of one record apart, so under pure epsilon-DP r is at least
exp(-k epsilon). With k = 1 this is Algorithm 1; with k = n the whole database is drawn anew, and
only its total is needed.

The size k is chosen in warm-up as the one that refreshes most records for its cost. Every other
sweep of warm-up tries one of the sizes, the rest use k = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from noiseaware.arguments import whole_number
from noiseaware.mechanisms.terms import log_g
from noiseaware.sampler.moves.records import RecordSweep, accept, keep, shift
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target

FIRST_WINDOW = 32
"""Counting starts anew when the number of warm-up iterations reaches this, twice this, ..."""

LOOK_EVERY = 8
LOOK_AT = 32
"""In every eighth sweep of blocks, so many single records are scored for the check of the bound."""

COST_OF_BLOCKS = 0.85
COST_OF_ALL = 0.55
"""A sweep with 1 < k < n, and one with k = n, in units of a sweep with k = 1: measured, rounded."""


@njit(cache=True, nogil=True)
def accept_blocks_dense(family, parameters, total, current, proposed, size, log_uniform, accepted):
    """Accept or reject blocks of `size` proposals, one block after another; dense statistics.

    `log_uniform` has one number a block; `accepted` (m,) is filled for each record. As
    `accept_dense`, `total` is updated in place, and the smallest log ratio met is returned.
    """
    m, d = proposed.shape
    trial = np.empty(d)
    log_now = log_g(family, parameters, total)
    lowest = 0.0
    for block, start in enumerate(range(0, m, size)):
        end = min(start + size, m)
        for j in range(d):
            trial[j] = total[j]
        for i in range(start, end):
            for j in range(d):
                trial[j] += proposed[i, j] - current[i, j]
        log_new = log_g(family, parameters, trial)
        lowest = min(lowest, log_new - log_now)
        accept = log_uniform[block] < log_new - log_now
        if accept:
            log_now = log_new
            for j in range(d):
                total[j] = trial[j]
        for i in range(start, end):
            accepted[i] = accept
    return lowest


@njit(cache=True, nogil=True)
def accept_blocks_cells(family, parameters, total, current, proposed, size, log_uniform, accepted):
    """As `accept_blocks_dense`, with statistics held as cell numbers (m, k)."""
    m, k = proposed.shape
    lowest = 0.0
    for block, start in enumerate(range(0, m, size)):
        end = min(start + size, m)
        log_ratio = 0.0
        for i in range(start, end):
            for a in range(k):
                if current[i, a] != proposed[i, a]:
                    log_ratio += shift(family, parameters, total, current[i, a], -1.0)
                    log_ratio += shift(family, parameters, total, proposed[i, a], 1.0)
        lowest = min(lowest, log_ratio)
        accept = log_uniform[block] < log_ratio
        for i in range(start, end):
            accepted[i] = accept
            if not accept:
                for a in range(k):
                    if current[i, a] >= 0:
                        total[current[i, a]] += 1.0
                    if proposed[i, a] >= 0:
                        total[proposed[i, a]] -= 1.0
    return lowest


class BlockSweep:
    """Go once through all records, in blocks whose size is chosen in warm-up.

    Parameters
    ----------
    size : int, optional
        Records in a block. None chooses in warm-up.
    """

    reports = ("acceptance_rate", "lowest_log_acceptance")
    blocks = True

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else whole_number("size", size)
        self._single = RecordSweep()

    def __repr__(self) -> str:
        return "BlockSweep()" if self.size is None else f"BlockSweep(size={self.size})"

    def check(self, target: Target) -> None:
        """Raise if blocks of this size cannot be decided about."""
        if target.terms is None and self.size not in (None, 1) and self.size < target.n:
            raise ValueError(
                f"size must be 1 or at least n_records = {target.n}, because the log density of "
                f"{type(target.release.mechanism).__name__} is joint, not a sum over coordinates; "
                f"got {self.size}"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin with blocks of one record."""
        sizes = [1, target.n]
        if target.terms is not None and not target.uses_cells:
            sizes[1:1] = [k for k in (8, 64, 512) if k < min(target.n, CHUNK)]
        return {
            "size": min(self.size or 1, target.n),
            "sizes": sizes,
            "count": 0,
            "rates": np.zeros(len(sizes)),
            "tries": np.zeros(len(sizes)),
            "last_rate": 0.0,
        }

    def step(
        self, target: Target, state: ChainState, tuning: dict[str, Any]
    ) -> tuple[float, float]:
        """Sweep once; report the share accepted and the smallest log ratio of g for a record."""
        size = tuning["size"]
        if size == 1:
            rate, lowest = self._single.step(target, state, {})
        else:
            single = (
                self._lowest_of_one(target, state)
                if (state.iteration + 1) % LOOK_EVERY == 0
                else 0.0
            )
            if size >= target.n:
                rate, lowest = self._refresh_all(target, state)
            else:
                rate, lowest = self._refresh_blocks(target, state, size)
            lowest = min(lowest / size, single)
        tuning["last_rate"] = rate
        return rate, lowest

    def _lowest_of_one(self, target: Target, state: ChainState) -> float:
        """Score changes of single records, none of which is made.

        The bound exp(-epsilon) is about one record. A block's ratio must be above exp(-k epsilon),
        which hardly any release violates, so a few single records keep the check sharp.
        """
        m = min(target.n, LOOK_AT)
        candidates, _ = target.propose(state.theta, m, state.rng)
        return accept(
            target,
            target.total(state.records),
            target.statistic(state.records[:m], 0),
            target.statistic(candidates, 0),
            np.zeros(0),
            np.full(m, np.inf),  # nothing is below it: every proposal is refused
            np.empty(m, dtype=np.bool_),
        )

    def _refresh_all(self, target: Target, state: ChainState) -> tuple[float, float]:
        state.sweeps += 1
        candidates, innovations = target.propose(state.theta, target.n, state.rng)
        now, new = target.total(state.records), target.total(candidates)
        log_ratio = target.log_g(new) - target.log_g(now)
        if -state.rng.standard_exponential() < log_ratio:
            state.records, state.innovations = candidates, innovations
            state.acceptance += 1
            return 1.0, min(0.0, log_ratio)
        return 0.0, min(0.0, log_ratio)

    def _refresh_blocks(self, target: Target, state: ChainState, size: int) -> tuple[float, float]:
        state.sweeps += 1
        assert target.terms is not None  # `check` saw to it
        family, parameters = target.terms
        loop = accept_blocks_cells if target.uses_cells else accept_blocks_dense
        total = target.total(state.records)
        chunk = max(size, CHUNK // size * size)
        count, lowest = 0, 0.0
        for begin in range(0, target.n, chunk):
            end = min(begin + chunk, target.n)
            candidates, innovations = target.propose(state.theta, end - begin, state.rng, begin)
            accepted = np.empty(end - begin, dtype=np.bool_)
            smallest = loop(
                family,
                parameters,
                total,
                target.statistic(state.records[begin:end], begin),
                target.statistic(candidates, begin),
                size,
                -state.rng.standard_exponential(-(-(end - begin) // size)),
                accepted,
            )
            lowest = min(lowest, smallest)
            count += keep(state, begin, accepted, candidates, innovations)
        return count / target.n, lowest

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Note how the size that was tried did, and take the next."""
        if self.size is not None:
            return
        which = tuning["sizes"].index(tuning["size"])
        tuning["rates"][which] += tuning["last_rate"]
        tuning["tries"][which] += 1
        tuning["count"] += 1
        count = tuning["count"]
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            # What happened before counts for a tenth from here on.
            tuning["rates"] *= 0.1
            tuning["tries"] *= 0.1
        others = tuning["sizes"][1:]
        trying = count % 2 == 1 and others
        tuning["size"] = others[count // 2 % len(others)] if trying else 1

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Take the size that refreshes most records for its cost."""
        if self.size is not None:
            return
        sizes = np.array(tuning["sizes"])
        costs = np.where(sizes == 1, 1.0, np.where(sizes < target.n, COST_OF_BLOCKS, COST_OF_ALL))
        gains = tuning["rates"] / np.maximum(tuning["tries"], 1e-9) / costs
        tuning["size"] = int(sizes[int(np.argmax(gains))])
