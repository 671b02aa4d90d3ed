"""`sample`: several chains, their seeds, their workers, and what happens on Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from noiseaware import checks, posterior
from noiseaware.arguments import whole_number
from noiseaware.sampler import chain as chains_module
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.contract import check_fit
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.progress import Progress, Rows, Silent
from noiseaware.sampler.state import ChainState, Draws
from noiseaware.sampler.target import Target

STRETCHES = 20
LONGEST_STRETCH = 2_000_000
"""A run is cut into parts for progress and Ctrl-C: at least so many parts, of at most so many
record updates (about a second). The draws do not depend on it."""

MOVE = ("reports", "check", "start", "step", "learn")
"""What a move must have; see `noiseaware.sampler.moves`."""

SMALL_JOB = 20_000_000
"""Record updates below which starting worker processes costs more than it saves."""


def sample(
    model: Any,
    release: Any,
    *,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    cores: int | None = None,
    random_seed: int | None = None,
    progressbar: bool | Callable[[int, Schedule], Progress] = True,
    moves: Sequence[Any] | None = None,
    keep_records: int = 0,
) -> Any:
    """Draw from the exact posterior p(theta | s_dp) of a model, given a private release.

    Parameters
    ----------
    model
        What made the records; see `noiseaware.models`.
    release : Release
        The private numbers with the mechanism that made them.
    draws, warmup : int
        Iterations of each chain that are kept, and iterations before them in which the moves
        tune themselves.
    chains : int
        Independent chains.
    cores : int, optional
        Worker processes. None takes as many as help: one for a small job, otherwise up to one a
        chain. Inside a `joblib.parallel_config` block the workers are those of its backend. The
        draws are the same for any number.
    random_seed : int, optional
        Same seed, same draws.
    progressbar : bool or callable
        Show a row for each chain, and what the checks say at the end. Or, to show progress in
        another way and no checks, what makes a `noiseaware.sampler.progress.Progress` from the
        number of chains and the schedule.
    moves : sequence of moves, optional
        What an iteration does, in order. None picks what suits the model;
        `noiseaware.moves.algorithm1()` is the paper's sampler.
    keep_records : int
        How many imputed databases to keep from each chain, evenly spaced over the draws.

    Returns
    -------
    xarray.DataTree
        In ArviZ's schema: `posterior`, `sample_stats`, `observed_data`, `constant_data`, and
        `latent_records` if databases were kept. On Ctrl-C, what was drawn so far, with the
        attribute `complete` set to 0.
    """
    schedule = Schedule.make(
        whole_number("warmup", warmup, 0),
        whole_number("draws", draws, 1),
        whole_number("keep_records", keep_records, 0),
    )
    if keep_records > draws:
        raise ValueError(f"keep_records must be at most draws ({draws}); got {keep_records}")
    chains = whole_number("chains", chains, 1)
    if cores is not None:
        cores = whole_number("cores", cores, 1)
    check_fit(model, release)
    target = Target(model, release)
    moves = pick_moves(moves, target)

    seeds = np.random.SeedSequence(_seed(random_seed))
    states = [
        chains_module.start(target, moves, np.random.Generator(np.random.SFC64(seed)))
        for seed in seeds.spawn(chains)
    ]
    began = time.perf_counter()
    with _progress(progressbar, chains, schedule) as shown:
        states, parts = _run(
            target, moves, schedule, states, _workers(cores, target, schedule, chains), shown
        )
    result = posterior.collect(
        target,
        moves,
        schedule,
        states,
        [Draws.join(chain) for chain in parts],
        random_seed=int(seeds.entropy),  # type: ignore[arg-type]
        seconds=time.perf_counter() - began,
    )
    if progressbar and not callable(progressbar):
        checks.check(result).show()
    return result


def _run(
    target: Target,
    moves: Sequence[Any],
    schedule: Schedule,
    states: list[ChainState],
    workers: Parallel | None,
    progress: Progress,
) -> tuple[list[ChainState], list[list[Draws]]]:
    """Advance all chains together, stretch by stretch, until the end or Ctrl-C."""
    parts: list[list[Draws]] = [[] for _ in states]
    try:
        for iterations in _stretches(schedule, target.n):
            advance = ((target, moves, schedule, state, iterations) for state in states)
            if workers is None:
                results = _one_by_one(advance)
            else:
                results = list(workers(delayed(chains_module.advance)(*a) for a in advance))
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
        pass  # what the chains had at the end of the last stretch is kept
    shortest = min(sum(map(len, chain)) for chain in parts)
    if shortest == 0:
        raise KeyboardInterrupt(
            "stopped before every chain had ended its warm-up and made a draw: there is nothing "
            "to keep"
        )
    return states, [[Draws.join(chain).first(shortest)] for chain in parts]


def _progress(progressbar: Any, chains: int, schedule: Schedule) -> Progress:
    if callable(progressbar):
        return progressbar(chains, schedule)
    return Rows(chains, schedule) if progressbar else Silent()


def _one_by_one(calls: Iterator[Any]) -> list[tuple[ChainState, Draws]]:
    results: list[tuple[ChainState, Draws]] = []
    for call in calls:
        state, iterations = call[3], call[4]
        results.append(chains_module.advance(*call))
        if results[-1][0].iteration < state.iteration + iterations:
            break  # Ctrl-C
    return results


def _stretches(schedule: Schedule, n: int) -> Iterator[int]:
    size = max(1, min(-(-schedule.iterations // STRETCHES), max(10, LONGEST_STRETCH // n)))
    left = schedule.iterations
    while left > 0:
        yield min(size, left)
        left -= size


def _workers(cores: int | None, target: Target, schedule: Schedule, chains: int) -> Parallel | None:
    """Return the joblib workers, or None to run in this process."""
    if cores is None and _backend_is_chosen():
        return Parallel()
    if cores is None:
        small = target.n * schedule.iterations * chains < SMALL_JOB
        cores = 1 if small else (os.cpu_count() or 1)
    cores = min(cores, chains)
    return None if cores == 1 else Parallel(n_jobs=cores)


def _backend_is_chosen() -> bool:
    """Whether the call stands inside a `joblib.parallel_config` block."""
    from joblib.parallel import get_active_backend

    backend, n_jobs = get_active_backend()
    return n_jobs not in (None, 1) or type(backend).__name__ not in (
        "LokyBackend",
        "SequentialBackend",
    )


def pick_moves(moves: Sequence[Any] | None, target: Target) -> tuple[Any, ...]:
    """Return the moves of the user, or the default, after each has checked the target."""
    if moves is None:
        moves = default_moves(target)
    elif not isinstance(moves, Sequence) or not moves:
        raise ValueError(
            "moves must be a list of at least one move, such as noiseaware.moves.algorithm1(); "
            f"got {moves!r}"
        )
    for move in moves:
        missing = [name for name in MOVE if not hasattr(move, name)]
        if missing or isinstance(move, type):
            why = f", which has no {missing[0]}" if missing else ", a class and not an object of it"
            raise TypeError(f"moves must hold moves only; got {move!r}{why}")
        move.check(target)
    return tuple(moves)


def _seed(random_seed: Any) -> int | None:
    if random_seed is None:
        return None
    return whole_number("random_seed", random_seed, 0)
