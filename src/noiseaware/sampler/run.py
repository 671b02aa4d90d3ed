"""`run`: several chains, their seeds, their workers, and what happens on Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from noiseaware.contract import Model, Move, Size, missing, move_abilities
from noiseaware.release import Release
from noiseaware.sampler import chain
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.fit import check_fit
from noiseaware.sampler.progress import Progress
from noiseaware.sampler.state import ChainState, Draws
from noiseaware.sampler.target import Target

SEGMENTS = 20
LONGEST_SEGMENT = 2_000_000
"""A run is cut into segments for progress and Ctrl-C: at least so many, of at most so many record
updates (about a second). The draws do not depend on it."""

SMALL_JOB = 20_000_000
"""Record updates below which starting worker processes costs more than it saves."""


@dataclass(frozen=True)
class Run:
    """What a run leaves behind.

    Attributes
    ----------
    target, moves, schedule
        What was sampled, how, and for how long.
    states, draws
        Of each chain, where it is now and what it drew; every chain has as many draws.
    random_seed
        The seed that was given, or one that was taken from the system.
    seconds
        How long the chains took.
    """

    target: Target
    moves: tuple[Move, ...]
    schedule: Schedule
    states: list[ChainState]
    draws: list[Draws]
    random_seed: int
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether the run got to its end, and was not stopped."""
        return len(self.draws[0]) == self.schedule.draws


def run(
    model: Model,
    release: Release,
    schedule: Schedule,
    progress: Progress,
    *,
    chains: int,
    cores: int | None = None,
    random_seed: int | None = None,
    moves: Sequence[Move] | None = None,
    size: Size | None = None,
) -> Run:
    """Run chains for p(theta, x | s_dp); the arguments are those of `noiseaware.sample`."""
    check_fit(model, release, size)
    target = Target(model, release, size)
    picked = pick_moves(moves, target)
    seeds = np.random.SeedSequence(random_seed)
    states = [
        chain.start(target, picked, np.random.Generator(np.random.SFC64(seed)))
        for seed in seeds.spawn(chains)
    ]
    began = time.perf_counter()
    workers = _workers(cores, target.n * schedule.iterations * chains, chains)
    with progress:
        states, draws = _advance_all(target, picked, schedule, states, workers, progress)
    seconds = time.perf_counter() - began
    assert isinstance(seeds.entropy, int)
    return Run(target, picked, schedule, states, draws, seeds.entropy, seconds)


def _advance_all(
    target: Target,
    moves: Sequence[Move],
    schedule: Schedule,
    states: list[ChainState],
    workers: Parallel | None,
    progress: Progress,
) -> tuple[list[ChainState], list[Draws]]:
    """Advance all chains together, segment by segment, until the end or Ctrl-C."""
    parts: list[list[Draws]] = [[] for _ in states]
    try:
        for iterations in _segments(schedule, target.n):
            calls = ((target, moves, schedule, state, iterations) for state in states)
            if workers is None:
                results = _one_by_one(calls)
            else:
                results = list(workers(delayed(chain.advance)(*call) for call in calls))
            stopped = len(results) < len(states) or any(
                new.iteration < old.iteration + iterations
                for old, (new, _) in zip(states, results, strict=True)
            )
            for i, (state, draws) in enumerate(results):
                states[i] = state
                parts[i].append(draws)
                rates = draws.reports.get("acceptance_rate", ())
                progress.update(i, state.iteration, float(np.mean(rates)) if len(rates) else None)
            if stopped:
                break
    except KeyboardInterrupt:
        pass  # what the chains had at the end of the last segment is kept
    shortest = min(sum(map(len, part)) for part in parts)
    if shortest == 0:
        raise KeyboardInterrupt(
            "stopped before every chain had ended its warm-up and made a draw: there is nothing "
            "to keep"
        )
    return states, [Draws.join(part).first(shortest) for part in parts]


def _one_by_one(calls: Iterable[Any]) -> list[tuple[ChainState, Draws]]:
    results: list[tuple[ChainState, Draws]] = []
    for call in calls:
        state, iterations = call[3:]
        results.append(chain.advance(*call))
        if results[-1][0].iteration < state.iteration + iterations:
            break  # Ctrl-C
    return results


def _segments(schedule: Schedule, n: int) -> Iterator[int]:
    size = max(1, min(-(-schedule.iterations // SEGMENTS), max(10, LONGEST_SEGMENT // n)))
    left = schedule.iterations
    while left > 0:
        yield min(size, left)
        left -= size


def _workers(cores: int | None, updates: int, chains: int) -> Parallel | None:
    """Return the joblib workers for so many record updates, or None to run in this process."""
    if cores is None and backend_is_chosen():
        return Parallel()
    if cores is None:
        cores = 1 if updates < SMALL_JOB else (os.cpu_count() or 1)
    cores = min(cores, chains)
    return None if cores == 1 else Parallel(n_jobs=cores)


def backend_is_chosen() -> bool:
    """Whether the call stands inside a `joblib.parallel_config` block."""
    backend, n_jobs = get_active_backend()
    return n_jobs not in (None, 1) or type(backend).__name__ not in (
        "LokyBackend",
        "SequentialBackend",
    )


def pick_moves(moves: Sequence[Move] | None, target: Target) -> tuple[Move, ...]:
    """Return the moves of the user, or the default, after each has checked the target."""
    if moves is None:
        moves = default_moves(target)
    elif not isinstance(moves, Sequence) or not moves:
        raise ValueError(
            "moves must be a list of at least one move, such as noiseaware.moves.algorithm1(); "
            f"got {moves!r}"
        )
    for move in moves:
        lacks = missing(move, Move)
        if lacks or isinstance(move, type):
            why = f", which has no {lacks[0]}" if lacks else ", a class and not an object of it"
            raise TypeError(f"moves must hold moves only; got {move!r}{why}")
        move.check(target)
    if target.size is not None and not any(map(_moves_size, moves)):
        raise ValueError(
            "moves must hold one that changes the number of records, such as "
            f"noiseaware.moves.SizeMove(), because that is not known; got {moves!r}"
        )
    return tuple(moves)


def _moves_size(move: Any) -> bool:
    """Whether a move, or one inside it, changes the number of records."""
    able = move_abilities(move)
    return able.moves_size or any(map(_moves_size, able.moves))
