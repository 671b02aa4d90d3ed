"""Add or remove records, where their number is unknown.

The target is p(theta, n, x | s_dp), proportional to p(theta) p(n) prod_{i <= n} f(x_i | theta)
g(s_dp, T(x)). With theta held, propose with probability 1/2 each

- to add k records x_{n+1}, ..., x_{n+k}, drawn from f(. | theta), behind the last;
- to remove the last k records.

k >= 1 is drawn from a distribution that does not depend on the state. Each step undoes the other,
and the dimensions match, since what is proposed beyond the present database is just what f draws.

**The ratio.** For the step from n to n + k records,

        p(n + k) prod_{i <= n + k} f(x_i | theta) g(s_dp, T')                  P(k) / 2
    r = ----------------------------------------------------- * ---------------------------------
        p(n)     prod_{i <= n}     f(x_i | theta) g(s_dp, T )   P(k) / 2 * prod_{i > n} f(x_i)

      = p(n + k) g(s_dp, T') / (p(n) g(s_dp, T)),        T' = T + t(x_{n+1}) + ... + t(x_{n+k}),

because the density of the proposed records cancels that of the model. The reverse step has the
inverse ratio, with T' = T - t(x_n) - ... - t(x_{n-k+1}). With k = 1 this is the move of Awan,
Barrientos and Ju (2024), "Statistical inference for privatized data with unknown sample size",
arXiv 2406.06231. Records are exchangeable given theta, and the sweeps go through all of them, so it
does no harm to remove only the last ones.

**How many.** k = 1 + floor(a E), with E standard exponential and a tuned in warm-up, so that n
moves by thousands where it is uncertain by thousands. Where the release pins down n and theta only
jointly, `Transport` moves both.
"""

from __future__ import annotations

import math

import numpy as np

from noiseaware.basics.adapt import WANTED_ALONE, StepSize
from noiseaware.sampler.moves.base import TunedMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class SizeMove(TunedMove):
    """Add or remove some records.

    Parameters
    ----------
    steps : int
        Steps in an iteration.
    """

    reports = ("size_acceptance",)
    moves_size = True

    def __init__(self, steps: int = 4) -> None:
        super().__init__(steps)

    def check(self, target: Target) -> None:
        if target.size is None:
            raise ValueError(
                "SizeMove needs a release that does not say how many records there are, "
                f"n_records=None; this one is of {target.n} records of {target.abilities.name}"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        assert target.size is not None  # `check` saw to it
        most = max(1.0, float(target.size.upper - target.size.lower))
        return {"size": StepSize(1.0, WANTED_ALONE, 0.01, most), "count": 0, "warming": True}

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        size, rng = target.size, state.rng
        assert size is not None
        total = target.total(state.records)
        log_g = target.log_g(total)
        accepted = 0
        for wait, side, threshold in zip(
            rng.standard_exponential(self.steps),
            rng.random(self.steps),
            -rng.standard_exponential(self.steps),
            strict=True,
        ):
            n, k = len(state.records), 1 + math.floor(tuning["size"].size * wait)
            n_new = n + k if side < 0.5 else n - k
            log_ratio = -math.inf
            if size.lower <= n_new <= size.upper:
                more, total_new = change(target, state, total, n_new)
                log_g_new = target.log_g(total_new)
                log_ratio = log_g_new - log_g + size.log_pmf(n_new) - size.log_pmf(n)
            if tuning["warming"]:
                tuning["size"].note(log_ratio)
            if threshold < log_ratio < math.inf:
                resize(state, n_new, more)
                total, log_g = total_new, log_g_new
                accepted += 1
        return (accepted / self.steps,)


Made = tuple[np.ndarray, np.ndarray | None]
"""Proposed records, with their u where a chain carries it."""


def change(
    target: Target, state: ChainState, total: np.ndarray, n_new: int
) -> tuple[Made, np.ndarray]:
    """Return the records to add, if any, and the total of the database of n_new records."""
    n = len(state.records)
    if n_new > n:
        more = target.propose(state.theta, n_new - n, state.rng, n)
        return more, total + target.sum(target.statistic(more[0], n))
    gone = np.ascontiguousarray(state.records[n_new:])
    none = state.records[:0], None if state.innovations is None else state.innovations[:0]
    return none, total - target.sum(target.statistic(gone, n_new))


def resize(state: ChainState, n_new: int, more: Made) -> None:
    """Remove the last records beyond n_new, or append some."""
    records, u = np.concatenate([state.records[:n_new], more[0]]), None
    if state.innovations is not None and more[1] is not None:
        u = np.concatenate([state.innovations[:n_new], more[1]])
    state.set_records(records, u)
