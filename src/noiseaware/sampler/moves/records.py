"""Step 2 of Algorithms 1 and 2: propose records one after another, and accept or reject them.

For record i, with x_{-i} and theta held, the target is

    p(x_i | x_{-i}, theta, s_dp)  proportional to  f(x_i | theta) g(s_dp, T(x)).

A proposal x_i* ~ q(. | x, theta, s_dp) is accepted with probability min(1, r),

    r = g(s_dp, T - t_i(x_i) + t_i(x_i*)) / g(s_dp, T)
        * f(x_i* | theta) / f(x_i | theta)  *  q(x_i | x*, ...) / q(x_i* | x, ...)  (Algorithm 2).

With q = f(. | theta) the second line is 1 and only the ratio of g is left (Algorithm 1). Under pure
epsilon-DP that ratio is at least exp(-epsilon), because x and x* are neighbours (Proposition 3.1).
Each sweep reports its smallest ratio of g, as a check.

**Blocks.** When the noise is large against one record, nearly every proposal is accepted and the
decisions dominate the cost. So propose the k records of a block B at once, x_i* ~ f(. | theta) for
i in B, and accept them together with probability min(1, r). The density of the proposal cancels
that of the model, record by record,

    r = g(s_dp, T - sum_{i in B} t_i(x_i) + sum_{i in B} t_i(x_i*)) / g(s_dp, T).

The two databases are k changes of one record apart, so under pure epsilon-DP r is at least exp(-k
epsilon). k = 1 is Algorithm 1. With k = n the whole database is redrawn, and only its total is
needed.

**Steps of innovations.** A record that the noise pins down is hardly ever replaced by a fresh one.
But where records are built from independent innovations, x_i = F(u_i; theta), a proposal may move
u_i a little, by a kernel that is reversible for p(u_i) (`near`). It moves all entries, so that a
record with an unusual feature returns to the others step by step, or one entry
(`step_innovations`): one feature of many, or a response beyond its clamping bound, which the total
does not see at all. With u_i first drawn from p(u_i | x_i, theta) (see `transport`), again only the
ratio of g is left, for two databases that differ in one record.

Record additivity makes each record O(1): T moves by t_i(x_i*) - t_i(x_i). Proposals that ignore the
other records are drawn, and their statistics taken, before the compiled loop. There is one loop for
each form of T or g: `accept_dense`, `accept_cells`, `accept_placed`, and `accept_called` for a
density that is a Python function. Each sweep begins by summing T anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.arguments import whole_number
from noiseaware.mechanisms.terms import add_terms, needs_long, term
from noiseaware.sampler import pieces
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.pieces import in_pieces
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target, joint_code, log_density, log_jointly

FIRST_WINDOW = 32
"""Counts start anew when the number of warm-up iterations reaches this, twice this, ..."""

NEAREST = 1e-3
"""The shortest steps of innovations, for a cell that one record in a thousand hits."""

STEPS, ONE_ENTRY = 2, 0.25
"""Steps of innovations in an iteration, and the share of them that moves one entry. Chosen, not
tuned: recovering the innovations may cost as much as two steps, and the CPU time of an effective
draw hardly depends on their number."""

LOOK_EVERY = 8
LOOK_AT = 32
"""Every eighth sweep of blocks also scores this many single records, to check the bound."""

COST_OF_BLOCKS = 0.85
COST_OF_ALL = 0.55
"""The cost of a sweep with 1 < k < n, and of one with k = n, in sweeps with k = 1: about what
`python -m benchmarks steps` prints."""

_NO_CORRECTION = np.zeros(0)


# ------------------------------------------------------------------ the loops


class Offer(NamedTuple):
    """m proposals, decided one block after another.

    Attributes
    ----------
    current, proposed : (m, d), (m, k) cell numbers, or (m, 1 + w) rows with their places
        t_i(x_i) and t_i(x_i*).
    correction : (m,) or (0,)
        log f(x*)/f(x) + log q(x|x*)/q(x*|x); empty where it is zero (Algorithm 1).
    log_uniform : (blocks,)
        Logarithms of uniform random numbers.
    size : int
        Records in a block; the last may be smaller.
    accepted : (m,) bool
        Filled with the decisions.
    """

    current: np.ndarray
    proposed: np.ndarray
    correction: np.ndarray
    log_uniform: np.ndarray
    size: int
    accepted: np.ndarray


# Inlined, like `mechanisms.terms.term`: together this makes `accept_cells` three times as fast.
@njit(cache=True, nogil=True, inline="always")
def decide(correction, log_uniform, accepted, start, end, log_ratio):
    """Decide about the records from `start` to `end`, given the log ratio of g."""
    if correction.shape[0] > 0:
        for i in range(start, end):
            log_ratio += correction[i]
    accept = log_uniform < log_ratio
    for i in range(start, end):
        accepted[i] = accept
    return accept


@njit(cache=True, nogil=True)
def accept_dense(density, total, offer):
    """Accept or reject one block after another; statistics are dense.

    Parameters
    ----------
    density : Density
        log g, for compiled code.
    total : (d,)
        T(x), updated in place.
    offer : Offer
        The proposals; its `accepted` is filled.

    Returns
    -------
    float
        The smallest log ratio of g, at most 0.
    """
    current, proposed, correction, log_uniform, size, accepted = offer
    code, numbers, power, terms = joint_code(density), density.numbers, density.power, density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    m, d = proposed.shape
    trial = np.empty(d)
    log_now = log_density(density, total)
    lowest = 0.0
    for block in range(len(log_uniform)):
        start, end = block * size, min(block * size + size, m)
        for j in range(d):
            trial[j] = total[j]
        for i in range(start, end):
            for j in range(d):
                trial[j] = trial[j] - current[i, j] + proposed[i, j]
        if code is None:
            log_new = add_terms(long, family, parameters, trial)
        else:
            log_new = log_jointly(code, numbers, trial)
        log_ratio = power * (log_new - log_now)
        lowest = min(lowest, log_ratio)
        if decide(correction, log_uniform[block], accepted, start, end, log_ratio):
            log_now = log_new
            for j in range(d):
                total[j] = trial[j]
    return lowest


@njit(cache=True, nogil=True, inline="always")
def shift(long, family, parameters, total, cell, step):
    """Add `step` to one cell of `total`; return the change in log g. Cell -1 is no cell."""
    if cell < 0:
        return 0.0
    before = term(long, family, parameters, cell, total[cell])
    total[cell] += step
    return term(long, family, parameters, cell, total[cell]) - before


@njit(cache=True, nogil=True)
def accept_cells(density, total, offer):
    """Accept or reject one block after another; statistics are cell numbers.

    Like `accept_dense`. A proposal leaves its old cells and enters the new ones, one at a time,
    each scored at the total as it then stands; cells in common are skipped. A rejected block is
    undone.
    """
    current, proposed, correction, log_uniform, size, accepted = offer
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    m, k = proposed.shape
    lowest = 0.0
    for block in range(len(log_uniform)):
        start, end = block * size, min(block * size + size, m)
        log_ratio = 0.0
        for i in range(start, end):
            for a in range(k):
                if current[i, a] != proposed[i, a]:
                    log_ratio += shift(long, family, parameters, total, current[i, a], -1.0)
                    log_ratio += shift(long, family, parameters, total, proposed[i, a], 1.0)
        log_ratio *= density.power
        lowest = min(lowest, log_ratio)
        if not decide(correction, log_uniform[block], accepted, start, end, log_ratio):
            for i in range(start, end):
                for a in range(k):
                    if current[i, a] >= 0:
                        total[current[i, a]] += 1.0
                    if proposed[i, a] >= 0:
                        total[proposed[i, a]] -= 1.0
    return lowest


@njit(cache=True, nogil=True)
def accept_placed(density, total, offer):
    """Accept or reject one block after another; statistics are rows with their places.

    Like `accept_dense`. A coordinate that a block touches is scored once before it and once after.
    """
    current, proposed, correction, log_uniform, size, accepted = offer
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    m, w = proposed.shape[0], proposed.shape[1] - 1
    trial, touched = np.empty(len(total)), np.zeros(len(total), np.bool_)
    lowest = 0.0
    for block in range(len(log_uniform)):
        start, end = block * size, min(block * size + size, m)
        log_ratio = 0.0
        for rows in (current, proposed):
            for i in range(start, end):
                first = int(rows[i, 0])
                for c in range(first, first + w):
                    if not touched[c]:
                        touched[c] = True
                        trial[c] = total[c]
                        log_ratio -= term(long, family, parameters, c, total[c])
        for i in range(start, end):
            old, new = int(current[i, 0]), int(proposed[i, 0])
            for j in range(w):
                trial[old + j] -= current[i, 1 + j]
                trial[new + j] += proposed[i, 1 + j]
        for rows in (current, proposed):
            for i in range(start, end):
                first = int(rows[i, 0])
                for c in range(first, first + w):
                    if touched[c]:
                        touched[c] = False
                        log_ratio += term(long, family, parameters, c, trial[c])
        log_ratio *= density.power
        lowest = min(lowest, log_ratio)
        if decide(correction, log_uniform[block], accepted, start, end, log_ratio):
            for rows in (current, proposed):
                for i in range(start, end):
                    first = int(rows[i, 0])
                    for c in range(first, first + w):
                        total[c] = trial[c]
    return lowest


def accept_called(log_g: Callable[[np.ndarray], float], total: np.ndarray, offer: Offer) -> float:
    """Like `accept_dense`, for a mechanism whose log density is a Python function of T."""
    current, proposed, correction, log_uniform, size, accepted = offer
    m = len(proposed)
    log_now = log_g(total)
    lowest = 0.0
    for block in range(len(log_uniform)):
        start, end = block * size, min(block * size + size, m)
        trial = total.copy()
        for i in range(start, end):
            trial = trial - current[i] + proposed[i]
        log_new = log_g(trial)
        log_ratio = log_new - log_now
        lowest = min(lowest, log_ratio)
        if decide(correction, log_uniform[block], accepted, start, end, log_ratio):
            log_now = log_new
            total[:] = trial
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


# ------------------------------------------------------------------ a sweep


def need_records(move: Any, target: Target) -> None:
    """Raise ValueError if the state holds counts, which have their own move."""
    if target.on_counts:
        raise ValueError(
            f"{type(move).__name__} goes through records, and CountMove holds their counts only: "
            "use one or the other"
        )
    if target.listed is not None and not np.isfinite(target.listed.log_h).all():
        raise ValueError(
            f"{type(move).__name__} needs a release that every record can lead to, and "
            f"{target.mechanism_abilities.name} has laws with zeros: use the default moves"
        )


def accept(target: Target, total: np.ndarray, offer: Offer) -> float:
    """Run the accept loop that fits the target; see `accept_dense`."""
    if target.density is None:
        return accept_called(target.log_g, total, offer)
    if target.uses_places:
        return accept_placed(target.density, total, offer)
    loop = accept_cells if target.uses_cells else accept_dense
    return loop(target.density, total, offer)


def keep(state: ChainState, begin: int, accepted, candidates, innovations) -> int:
    """Store the accepted candidates for the records from `begin` on; return how many."""
    m = len(accepted)
    now = slice(begin, begin + m)
    if innovations is not None and state.innovations is not None:
        state.innovations[now][accepted] = innovations[accepted]
    flat = state.records[now].reshape(m, -1)
    return keep_accepted(accepted, flat, candidates.reshape(m, -1), state.acceptance[now])


class Candidates(NamedTuple):
    """Proposed records, the innovations that made them (or None), and an offer's correction."""

    records: np.ndarray
    innovations: np.ndarray | None
    correction: np.ndarray


Propose = Callable[[int, int, np.random.Generator], Candidates]
"""(begin, end, rng) -> candidates for the records from `begin` to `end`."""


def from_model(target: Target, state: ChainState) -> Propose:
    """Propose from f(. | theta): Algorithm 1."""

    def propose(begin: int, end: int, rng: np.random.Generator) -> Candidates:
        made = target.propose(state.theta, end - begin, rng, begin)
        return Candidates(*made, _NO_CORRECTION)

    return propose


def step_innovations(target: Target, state: ChainState) -> Propose:
    """Propose each record with its u moved: all entries, or one chosen at random."""
    innovations = target.abilities.innovations
    assert innovations is not None  # the caller saw to it
    u = target.recover(state)

    def propose(begin: int, end: int, rng: np.random.Generator) -> Candidates:
        m, width = end - begin, innovations.width
        made = near(innovations.kind, u[begin:end], rng)
        if width > 1:
            one, entries = rng.random(m) < ONE_ENTRY, rng.integers(width, size=m)
            kept = one[:, None] & (np.arange(width) != entries[:, None])
            made = np.where(kept, u[begin:end], made)
        return Candidates(target.build(state.theta, made, begin), made, _NO_CORRECTION)

    return propose


def near(kind: str, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return innovations (m, width) near u, by a kernel that is reversible for their distribution.

    With s from 0.001 to 1, one for each record: sqrt(1 - s^2) u + s z for normal innovations, with
    z standard normal, and u + s (w - 1/2) modulo 1 for uniform ones, with w uniform. log s is
    proportional to the cube of a uniform: two of three s are above 0.1, and one of eight below
    0.01.
    """
    s = NEAREST ** rng.random((len(u), 1)) ** 3
    if kind == "normal":
        return np.sqrt(1.0 - s * s) * u + s * rng.standard_normal(u.shape)
    return (u + s * (rng.random(u.shape) - 0.5)) % 1.0


def sweep(
    target: Target, state: ChainState, propose: Propose, size: int, chunk: int | None = None
) -> tuple[float, float]:
    """Go once through all records, in blocks of `size`, `chunk` records at a time.

    By default the chunks are of a suitable size; large databases are proposed in pieces (`pieces`),
    in threads if there are any, and decided in order. Returns the share accepted and the smallest
    log ratio of g.
    """
    records, n = state.records, len(state.records)
    apart = chunk is None and n > pieces.PIECE
    rng, threads = (state.rng, target.threads) if apart else (None, 1)
    if chunk is None:  # whole blocks
        chunk = max(size, (pieces.PIECE if apart else CHUNK) // size * size)
    state.sweeps += 1
    # With a single chunk the statistics serve both the total and the loop.
    statistic = target.statistic(records, 0) if chunk >= n else None
    total = target.total(records) if statistic is None else target.sum(statistic)

    def prepare(begin: int, end: int, rng: np.random.Generator = state.rng) -> tuple[Any, ...]:
        new = propose(begin, end, rng)
        offer = Offer(
            target.statistic(records[begin:end], begin) if statistic is None else statistic,
            target.statistic(new.records, begin),
            new.correction,
            -rng.standard_exponential(-(-(end - begin) // size)),
            size,
            np.empty(end - begin, dtype=np.bool_),
        )
        return begin, new, offer

    count, lowest = 0, 0.0
    for begin, new, offer in in_pieces(n, prepare, rng, piece=chunk, threads=threads):
        lowest = min(lowest, accept(target, total, offer))
        count += keep(state, begin, offer.accepted, new.records, new.innovations)
    return count / n, lowest


class RecordSweep(ReadyMove):
    """Go once through all records, one at a time.

    Parameters
    ----------
    proposal : callable, optional
        None proposes from the model: Algorithm 1. Otherwise Algorithm 2, with

            proposal(records, index, theta, release, rng) -> (candidates, log_ratio)

        for the records of the integer array `index`: `candidates` has the shape of
        `records[index]`, and `log_ratio` (m,) is log q(x_i | x_i*) - log q(x_i* | x_i). The model
        needs `log_likelihood(theta, records) -> (n,)`.
    sequential : bool
        False: a proposal looks only at its own record (and theta, s_dp), so many are requested at
        once. True: it may look at the current values of the other records, and is called for one
        record at a time.
    """

    reports = ("acceptance_rate", "lowest_log_acceptance")
    lowest = ("lowest_log_acceptance",)

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
        need_records(self, target)
        if self.proposal is None:
            return
        able = target.abilities
        if able.log_likelihood is None:
            raise ValueError(
                "a RecordSweep with a proposal needs a model with log_likelihood(theta, records); "
                f"{able.name} has none"
            )
        if able.holds_innovations:
            raise ValueError("a RecordSweep with a proposal cannot be used with a simulator model")
        if able.uses_index:
            raise ValueError(
                "a RecordSweep with a proposal needs records that are alike; those of "
                f"{able.name} depend on their index, which a proposal may break"
            )

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, float]:
        if self.proposal is None:
            return sweep(target, state, from_model(target, state), 1)
        chunk = 1 if self.sequential else CHUNK
        return sweep(target, state, self._from_proposal(target, state), 1, chunk)

    def _from_proposal(self, target: Target, state: ChainState) -> Propose:
        likelihood, proposal = target.abilities.log_likelihood, self.proposal
        assert proposal is not None
        assert likelihood is not None  # `check` saw to it

        def propose(begin: int, end: int, rng: np.random.Generator) -> Candidates:
            now, index = state.records[begin:end], np.arange(begin, end)
            made, log_ratio = proposal(state.records, index, state.theta, target.release, rng)
            candidates = np.ascontiguousarray(made, dtype=now.dtype)
            if candidates.shape != now.shape:
                raise ValueError(
                    f"proposal must return records of shape {now.shape}; got {candidates.shape}"
                )
            correction = likelihood(state.theta, candidates) - likelihood(state.theta, now)
            correction = correction + np.asarray(log_ratio, dtype=np.float64)
            return Candidates(candidates, None, correction)

        return propose


class BlockSweep(ReadyMove):
    """Go once through all records, in blocks whose size is chosen in warm-up.

    The size k is the one that refreshes most records for its cost. Every other sweep of warm-up
    tries one of the sizes, the rest use k = 1. Where most single records are rejected, further
    sweeps move the innovations of each record a little.

    Parameters
    ----------
    size : int, optional
        Records in a block. None chooses in warm-up.
    """

    reports = ("acceptance_rate", "lowest_log_acceptance")
    lowest = ("lowest_log_acceptance",)
    blocks = True

    def __init__(self, size: int | None = None) -> None:
        self.size = None if size is None else whole_number("size", size)

    def __repr__(self) -> str:
        return "BlockSweep()" if self.size is None else f"BlockSweep(size={self.size})"

    def check(self, target: Target) -> None:
        need_records(self, target)

    def start(self, target: Target, state: ChainState) -> Tuning:
        sizes = [1, target.n]
        if target.terms is not None and not (target.uses_cells or target.uses_places):
            sizes[1:1] = [k for k in (8, 64, 512) if k < min(target.n, CHUNK)]
        return {
            "size": min(self.size or 1, target.n),
            "sizes": sizes,
            "count": 0,
            "rates": np.zeros(len(sizes)),
            "tries": np.zeros(len(sizes)),
            "last_rate": 0.0,
            "steps": False,
        }

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, float]:
        """Sweep once; report the share accepted and the smallest log ratio of g for a record."""
        size, single = tuning["size"], 0.0
        if size > 1 and (state.iteration + 1) % LOOK_EVERY == 0:
            single = self._lowest_of_one(target, state)
        if 1 < size >= len(state.records):
            rate, lowest = self._refresh_all(target, state)
        else:
            rate, lowest = sweep(target, state, from_model(target, state), size)
        tuning["last_rate"] = rate
        if tuning["steps"]:
            single = min(single, self._step_innovations(target, state))
        return rate, min(lowest / size, single)

    def _step_innovations(self, target: Target, state: ChainState) -> float:
        """Move the innovations of each record; return the smallest log ratio of g.

        They are recovered once and then held: each sweep leaves p(x, u | theta, s_dp) invariant.
        Reported acceptance is about whole records, so these steps are not counted.
        """
        counts, sweeps, held = state.acceptance.copy(), state.sweeps, state.innovations
        state.innovations = target.recover(state)
        lowest = 0.0
        for _ in range(STEPS):
            lowest = min(lowest, sweep(target, state, step_innovations(target, state), 1)[1])
        state.acceptance[:], state.sweeps, state.innovations = counts, sweeps, held
        return lowest

    def _lowest_of_one(self, target: Target, state: ChainState) -> float:
        """Score changes of single records without making any.

        The bound of a block, exp(-k epsilon), is hardly ever violated; that of one record is a
        sharp check.
        """
        m = min(len(state.records), LOOK_AT)
        candidates, _ = target.propose(state.theta, m, state.rng)
        offer = Offer(
            target.statistic(state.records[:m], 0),
            target.statistic(candidates, 0),
            _NO_CORRECTION,
            np.full(m, np.inf),  # nothing is below it: every proposal is refused
            1,
            np.empty(m, dtype=np.bool_),
        )
        return accept(target, target.total(state.records), offer)

    def _refresh_all(self, target: Target, state: ChainState) -> tuple[float, float]:
        state.sweeps += 1
        candidates, innovations = target.propose(state.theta, len(state.records), state.rng)
        now, new = target.total(state.records), target.total(candidates)
        log_ratio = target.log_g(new) - target.log_g(now)
        if -state.rng.standard_exponential() < log_ratio:
            state.records, state.innovations = candidates, innovations
            state.acceptance += 1
            return 1.0, min(0.0, log_ratio)
        return 0.0, min(0.0, log_ratio)

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        """Record how the size that was tried did, and take the next."""
        if self.size is not None:
            return
        which = tuning["sizes"].index(tuning["size"])
        tuning["rates"][which] += tuning["last_rate"]
        tuning["tries"][which] += 1
        tuning["count"] += 1
        count = tuning["count"]
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            # From here on, earlier sweeps count for a tenth.
            tuning["rates"] *= 0.1
            tuning["tries"] *= 0.1
        tuning["steps"] = self._most_are_refused(target, tuning)
        others = tuning["sizes"][1:]
        trying = count % 2 == 1 and others
        tuning["size"] = others[count // 2 % len(others)] if trying else 1

    def _most_are_refused(self, target: Target, tuning: Tuning) -> bool:
        """Whether records have innovations, and most single records were rejected."""
        refused = tuning["tries"][0] > 2.0 * tuning["rates"][0]
        return bool(refused) and target.abilities.can_transport

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if self.size is not None:
            return
        sizes = np.array(tuning["sizes"])
        costs = np.where(sizes == 1, 1.0, np.where(sizes < target.n, COST_OF_BLOCKS, COST_OF_ALL))
        gains = tuning["rates"] / np.maximum(tuning["tries"], 1e-9) / costs
        tuning["size"] = int(sizes[int(np.argmax(gains))])
