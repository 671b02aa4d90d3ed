"""One chain: `start` makes its first state, `advance` continues it.

`advance(state, iterations) -> (state, draws)` is a pure function: it works on a copy, and the
random generator is part of the state. So a chain is the same whatever the number of workers, its
division into segments, or a stop and resume in between.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from noiseaware.agreement.blame import blame
from noiseaware.basics.arguments import check_memory
from noiseaware.basics.interrupts import held_back
from noiseaware.contract import Move, move_abilities
from noiseaware.sampler.size import NAME
from noiseaware.sampler.state import ChainState, Draws
from noiseaware.sampler.target import Target


@dataclass(frozen=True)
class Schedule:
    """How long a chain is and which databases it keeps.

    Attributes
    ----------
    warmup, draws
        Iterations in which the moves learn, and iterations that are kept.
    keep
        The draws whose imputed database is kept, increasing.
    """

    warmup: int
    draws: int
    keep: tuple[int, ...] = ()

    @property
    def iterations(self) -> int:
        """Warm-up and draws together."""
        return self.warmup + self.draws

    @staticmethod
    def make(warmup: int, draws: int, keep_records: int, first: int | None = None) -> Schedule:
        """Keep `keep_records` databases, evenly spaced and ending with the last draw.

        A run begun with `first` draws continues with the same spacing.
        """
        first = first or draws
        count = keep_records * draws // first
        keep = (np.arange(1, count + 1) * (first / max(1, keep_records))).round().astype(int) - 1
        return Schedule(warmup, draws, tuple(int(k) for k in keep if k < draws))


def start(
    target: Target, moves: Sequence[Move], rng: np.random.Generator, chains: int = 1
) -> ChainState:
    """Start a chain: theta from the prior, the records from the model, or where a move starts.

    MemoryError if it, or the chains still to be started, do not fit into memory.
    """
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with held_back(), quiet, blame(*_parts(target, moves), when=" at the start of a chain"):
        theta = target.sample_prior(rng)
        n = target.draw_n(rng)
        # `advance` works on a copy: of one chain at a time, or of more.
        held = (chains + 1) * target.held_bytes(n)
        check_memory(f"{n} records, of {chains} chains and a copy,", held)
        records, innovations = target.propose(theta, n, rng)
        state = ChainState(theta, np.ascontiguousarray(records), innovations, rng)
        for find_start in [move_abilities(move).find_start for move in moves]:
            if find_start is not None:
                find_start(target, state)
        state.tunings = [move.start(target, state) for move in moves]
    return state


def advance(
    target: Target,
    moves: Sequence[Move],
    schedule: Schedule,
    state: ChainState,
    iterations: int,
) -> tuple[ChainState, Draws]:
    """Continue a chain for some iterations; Ctrl-C stops it early with what it has.

    Parameters
    ----------
    target, moves, schedule
        What is sampled, how, and for how long; the same in every call for one chain.
    state
        The current state, left unchanged.
    iterations
        The number of iterations.

    Returns
    -------
    state, draws
        The new state, and the draws made after warm-up.
    """
    state = state.copy()
    kept = _Kept(target, moves, schedule, state, iterations)
    steps = [(move, move.step, tuning) for move, tuning in zip(moves, state.tunings, strict=True)]
    run, most = _many_at_once(target, moves)
    if state.iteration == schedule.warmup == 0:
        end_warmup(target, moves, state)
    # A proposal may be far out, where a model overflows; it is then rightly rejected.
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    # An interrupted iteration is not stored; earlier draws are kept.
    stops = contextlib.suppress(KeyboardInterrupt)
    single = blas().limit(limits=1, user_api="blas")
    with held_back() as let_go, quiet, stops, single, blame(*_parts(target, moves)):
        last = state.iteration + iterations
        while state.iteration < last:
            let_go()
            warming = state.iteration < schedule.warmup
            together = 1 if warming else kept.until_database(min(most, last - state.iteration))
            if together > 1:
                kept.extend(*run(target, state, state.tunings[0], together))
                state.iteration += together
                continue
            results = []
            for move, step, tuning in steps:
                results.append(step(target, state, tuning))
                if warming:
                    move.learn(target, state, tuning)
            state.iteration += 1
            if not warming:
                kept.add(state, results)
            elif state.iteration == schedule.warmup:
                end_warmup(target, moves, state)
    draws = kept.draws()
    for name, values in draws.theta.items():
        if not np.isfinite(values).all():
            raise ValueError(
                f"{name} became NaN or infinite during sampling: a kernel for p(theta | x) "
                f"returned a value that is not finite (update_parameters of "
                f"{target.abilities.name}, or the kernel of a move)"
            )
    return state, draws


def run_through(
    target: Target, moves: Sequence[Move], schedule: Schedule, state: ChainState
) -> tuple[ChainState, Draws]:
    """Do the rest of the warm-up, and then all draws; Ctrl-C stops it with nothing."""
    iterations = max(0, schedule.warmup - state.iteration) + schedule.draws
    state, draws = advance(target, moves, schedule, state, iterations)
    if len(draws) < schedule.draws:
        raise KeyboardInterrupt  # `advance` returned early with what it had
    return state, draws


def generators(seed: np.random.SeedSequence, count: int) -> list[np.random.Generator]:
    """Return the random generators of all chains."""
    return [np.random.Generator(np.random.SFC64(child)) for child in seed.spawn(count)]


@functools.cache
def blas() -> ThreadpoolController:
    """Return a controller for the number of threads of BLAS.

    A chain's matrices are small: more than one thread would waste processor time in waiting, and
    the draws might depend on their number.
    """
    return ThreadpoolController()


def _many_at_once(target: Target, moves: Sequence[Move]) -> tuple[Any, int]:
    """Return the method that does several iterations after warm-up, and the most at once."""
    able = move_abilities(moves[0])
    if len(moves) > 1 or able.run is None:
        return None, 1
    return able.run, able.most(target)


def iterate(target: Target, moves: Sequence[Move], state: ChainState) -> None:
    """Do one iteration after warm-up, in place, without storing it; see `held_back`."""
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with quiet, blame(*_parts(target, moves)):
        for move, tuning in zip(moves, state.tunings, strict=True):
            move.step(target, state, tuning)


class _Kept:
    """Room for the draws of one call of `advance`, filled one by one."""

    def __init__(
        self,
        target: Target,
        moves: Sequence[Move],
        schedule: Schedule,
        state: ChainState,
        iterations: int,
    ) -> None:
        self._target = target
        room = max(0, min(iterations, state.iteration + iterations - schedule.warmup))
        self.theta = {
            name: np.empty((room, *np.shape(x)))
            for name, x in target.shown(state.theta, state.records).items()
        }
        self.sizes = None if target.size is None else np.empty(room)
        self.reports = {name: np.full(room, np.inf) for move in moves for name in move.reports}
        self.databases: list[np.ndarray] = []
        # Two moves may report the same name; keep the lowest value, or the last.
        self._columns = [
            [(self.reports[name], name in move_abilities(move).lowest) for name in move.reports]
            for move in moves
        ]
        self._keep = set(schedule.keep)
        self._first = max(0, state.iteration - schedule.warmup)
        self._done = 0

    def add(self, state: ChainState, results: Sequence[tuple[float, ...]]) -> None:
        """Store the state and the reports of the moves."""
        done = self._done
        for name, value in self._target.shown(state.theta, state.records).items():
            self.theta[name][done] = value
        if self.sizes is not None:
            self.sizes[done] = self._target.number(state.records)
        for columns, values in zip(self._columns, results, strict=True):
            for (column, lowest), number in zip(columns, values, strict=True):
                column[done] = min(column[done], number) if lowest else number
        if self._first + done in self._keep:
            self.databases.append(self._target.database(state))
        self._done += 1

    def until_database(self, most: int) -> int:
        """Return how many draws to make at once, at most `most`: those before the next database."""
        now = self._first + self._done
        return min([most, *(keep - now for keep in self._keep if keep >= now)])

    def extend(self, theta: dict[str, np.ndarray], reports: np.ndarray) -> None:
        """Store what one move drew and reported in several iterations, one row each."""
        here = slice(self._done, self._done + len(reports))
        for name, values in theta.items():
            self.theta[name][here] = values
        for (column, lowest), values in zip(self._columns[0], reports.T, strict=True):
            column[here] = np.minimum(column[here], values) if lowest else values
        self._done += len(reports)

    def draws(self) -> Draws:
        """Return what was kept."""
        theta = self.theta if self.sizes is None else {**self.theta, NAME: self.sizes}
        return Draws(theta, self.reports, self.databases).first(self._done)


def _parts(target: Target, moves: Sequence[Move]) -> list[Any]:
    """Return the objects whose classes may be a user's, for messages that name their methods."""
    inner = [part for move in moves for part in move_abilities(move).moves]
    return [target.model, target.release.mechanism, target.release.query, *moves, *inner]


def end_warmup(target: Target, moves: Sequence[Move], state: ChainState) -> None:
    """Freeze what was learned and drop what only warm-up needs."""
    state.acceptance[:] = 0
    state.sweeps = 0
    for move, tuning in zip(moves, state.tunings, strict=True):
        freeze = move_abilities(move).freeze
        if freeze is not None:
            freeze(target, state, tuning)
