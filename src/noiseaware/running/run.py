"""`run`: several chains, their seeds and workers, and Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel
from joblib.parallel import get_active_backend

from noiseaware.agreement.blame import blame
from noiseaware.agreement.fit import check_fit
from noiseaware.contract import Model, Move, MoveAbilities, Size, missing, move_abilities
from noiseaware.release import Release
from noiseaware.running.checkpoint import Checkpoint
from noiseaware.running.workers import call_all, terminable
from noiseaware.sampler import chain
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.default import default_moves, make_target
from noiseaware.sampler.progress import Progress
from noiseaware.sampler.state import ChainState, Draws
from noiseaware.sampler.target import Target

SEGMENTS = 20
LONGEST_SEGMENT = 2_000_000
"""For progress and Ctrl-C, a run is cut into at least this many segments of at most this many
record updates (about a second). The draws do not depend on it."""

PRIOR, SCOUTS, CONFLICT, SURPRISE = (2**32 - k for k in (1, 2, 3, 4))
"""Keys of `Run.stream`; the chains have 0, 1, ..."""

SMALL_JOB = 20_000_000
"""Record updates below which starting worker processes costs more than it saves."""


@dataclass(frozen=True)
class Run:
    """The result of a run: what was sampled, how, for how long, and with which seed.

    `states` are the chains' last states and `draws` their draws, the same number for each chain.
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
        """Whether the run reached its end."""
        return len(self.draws[0]) == self.schedule.draws

    def seed(self, key: int) -> np.random.SeedSequence:
        """Return the seed of a random stream beside those of the chains."""
        return np.random.SeedSequence(self.random_seed, spawn_key=(key,))

    def stream(self, key: int) -> np.random.Generator:
        """Return a random stream beside those of the chains."""
        return np.random.Generator(np.random.SFC64(self.seed(key)))


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
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Run chains for p(theta, x | s_dp); the arguments are those of `noiseaware.sample`.

    With a checkpoint, the run continues from it.
    """
    seeds = np.random.SeedSequence(random_seed)
    with progress, terminable():
        check_fit(model, release, size)
        target, picked = prepare(model, release, moves, size)
        states = [
            chain.start(target, picked, rng, chains - i)
            for i, rng in enumerate(chain.generators(seeds, chains))
        ]
        parts: list[list[Draws]] = [[] for _ in states]
        began = time.perf_counter()
        if checkpoint is not None:
            states, parts, spent = checkpoint.read(states)
            began -= spent
        workers = _workers(cores, target.n * schedule.iterations * chains, chains)
        target.threads = max(1, (cores or 1) // chains)  # the cores beyond the chains
        how = (target, picked, schedule)
        with workers or nullcontext():
            draws = _advance_all(how, states, parts, workers, progress, checkpoint, began)
    seconds = time.perf_counter() - began
    assert isinstance(seeds.entropy, int)
    return Run(target, picked, schedule, states, draws, seeds.entropy, seconds)


def _advance_all(
    how: tuple[Target, Sequence[Move], Schedule],
    states: list[ChainState],
    parts: list[list[Draws]],
    workers: Parallel | None,
    progress: Progress,
    checkpoint: Checkpoint | None,
    began: float,
) -> list[Draws]:
    """Advance all chains together, in place, segment by segment, until the end or Ctrl-C.

    `parts` are the chains' draws so far; `began` is a time of `time.perf_counter`.
    """
    target, _, schedule = how
    for i, state in enumerate(states):
        progress.update(i, state.iteration, None)
    try:
        for iterations in _segments(schedule, target.n, states[0].iteration):
            calls = [(*how, state, iterations) for state in states]
            if workers is None:
                results = _one_by_one(calls)
            else:
                results = call_all(workers, chain.advance, calls)
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
            if checkpoint is not None:
                checkpoint.note(states, [d for _, d in results], time.perf_counter() - began)
    except KeyboardInterrupt:
        pass  # what the chains had at the end of the last segment is kept
    if checkpoint is not None:
        checkpoint.write()
    shortest = min(sum(map(len, part)) for part in parts)
    if shortest == 0:
        kept = "there is nothing to keep"
        if checkpoint is not None:
            kept = f"the same call goes on, from {checkpoint.folder}"
        raise KeyboardInterrupt(
            f"stopped before every chain had ended its warm-up and made a draw: {kept}"
        )
    return [Draws.join(part).first(shortest) for part in parts]


def _one_by_one(calls: Iterable[Any]) -> list[tuple[ChainState, Draws]]:
    results: list[tuple[ChainState, Draws]] = []
    for call in calls:
        state, iterations = call[3:]
        results.append(chain.advance(*call))
        if results[-1][0].iteration < state.iteration + iterations:
            break  # Ctrl-C
    return results


def _segments(schedule: Schedule, n: int, done: int = 0) -> Iterator[int]:
    size = max(1, min(-(-schedule.iterations // SEGMENTS), max(10, LONGEST_SEGMENT // n)))
    left = schedule.iterations - done
    while left > 0:
        yield min(size, left)
        left -= size


def _workers(cores: int | None, updates: int, chains: int) -> Parallel | None:
    """Return joblib workers for this many record updates, or None to run in this process."""
    if cores is None and backend_is_chosen():
        return Parallel()
    if cores is None:
        cores = 1 if updates < SMALL_JOB else (os.cpu_count() or 1)
    cores = min(cores, chains)
    return None if cores == 1 else Parallel(n_jobs=cores)


def backend_is_chosen() -> bool:
    """Whether the call is inside a `joblib.parallel_config` block."""
    backend, n_jobs = get_active_backend()
    return n_jobs not in (None, 1) or type(backend).__name__ not in (
        "LokyBackend",
        "SequentialBackend",
    )


def prepare(
    model: Model, release: Release, moves: Sequence[Move] | None, size: Size | None = None
) -> tuple[Target, tuple[Move, ...]]:
    """Return the target, and the user's moves or the default ones."""
    with blame(model, release.mechanism, release.query, when=" before sampling"):
        target = make_target(model, release, moves, size)
        picked = pick_moves(moves, target)
    if moves is None:
        target.hold_small()
    return target, picked


def pick_moves(moves: Sequence[Move] | None, target: Target) -> tuple[Move, ...]:
    """Return the user's moves or the default ones, after each has checked the target."""
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
    able = list(all_abilities(moves))
    if target.size is not None and not any(one.moves_size for one in able):
        raise ValueError(
            "moves must hold one that changes the number of records, such as "
            f"noiseaware.moves.SizeMove(), because that is not known; got {moves!r}"
        )
    if target.has_exact and not target.on_counts and not any(one.keeps_exact for one in able):
        raise ValueError(
            "moves must hold noiseaware.moves.ExchangeMove(), which begins with the exact numbers "
            f"(Exact) and keeps them; got {moves!r}"
        )
    return tuple(moves)


def all_abilities(moves: Sequence[Move]) -> Iterator[MoveAbilities]:
    """Yield the abilities of each move and of the moves inside it."""
    for able in map(move_abilities, moves):
        yield able
        yield from all_abilities(able.moves)
