"""One chain: `start` makes its first state, `advance` takes it further.

`advance(state, iterations) -> (state, draws)` is a pure function: it works on a copy, and the
random generator is part of the state. So a chain is the same whatever the number of workers, the
length of the stretches it is cut into, or a stop and a resume in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.sampler.naming import named
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
    def make(warmup: int, draws: int, keep_records: int) -> Schedule:
        """Keep `keep_records` databases, evenly spaced and ending with the last draw."""
        keep = np.linspace(0, draws, keep_records + 1)[1:].round().astype(int) - 1
        return Schedule(warmup, draws, tuple(int(k) for k in keep))


def start(target: Target, moves: Sequence[Any], rng: np.random.Generator) -> ChainState:
    """Start a chain: theta from the prior, the records from the model."""
    with named(*_parts(target, moves), when=" at the start of a chain"):
        theta = target.sample_prior(rng)
        records, innovations = target.propose(theta, target.n, rng)
        state = ChainState(theta, np.ascontiguousarray(records), innovations, rng)
        state.acceptance = np.zeros(target.n, dtype=np.int64)
        state.tunings = [move.start(target, state) for move in moves]
    return state


def advance(
    target: Target,
    moves: Sequence[Any],
    schedule: Schedule,
    state: ChainState,
    iterations: int,
) -> tuple[ChainState, Draws]:
    """Take a chain further by some iterations; Ctrl-C stops it early with what it has.

    Parameters
    ----------
    target, moves, schedule
        What is sampled, how, and for how long; the same in every call for one chain.
    state
        Where the chain is. It is not changed.
    iterations
        How many iterations to do.

    Returns
    -------
    state, draws
        Where the chain is now, and the draws after warm-up that were made on the way.
    """
    state = state.copy()
    room = max(0, min(iterations, state.iteration + iterations - schedule.warmup))
    first = max(0, state.iteration - schedule.warmup)
    theta = {name: np.empty((room, *np.shape(value))) for name, value in state.theta.items()}
    reports = {name: np.full(room, np.inf) for move in moves for name in move.reports}
    databases: list[np.ndarray] = []
    keep = set(schedule.keep)
    # Two moves may report the same; of what is a lowest, the lowest is kept.
    columns = [[(reports[n], n.startswith("lowest")) for n in move.reports] for move in moves]
    steps = [(move, move.step, tuning) for move, tuning in zip(moves, state.tunings, strict=True)]
    done = 0
    if state.iteration == schedule.warmup == 0:
        _end_warmup(target, moves, state)
    # A proposal may be far out, where a model overflows; it is then rejected, which is right.
    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    # The iteration that Ctrl-C cuts off has not been stored; what was drawn before it is kept.
    with quiet, contextlib.suppress(KeyboardInterrupt), named(*_parts(target, moves)):
        for _ in range(iterations):
            warming = state.iteration < schedule.warmup
            results = []
            for move, step, tuning in steps:
                results.append(step(target, state, tuning))
                if warming:
                    move.learn(target, state, tuning)
            state.iteration += 1
            if warming:
                if state.iteration == schedule.warmup:
                    _end_warmup(target, moves, state)
                continue
            for name, value in state.theta.items():
                theta[name][done] = value
            for own, values in zip(columns, results, strict=True):
                for (column, lowest), value in zip(own, values, strict=True):
                    column[done] = min(column[done], value) if lowest else value
            if first + done in keep:
                databases.append(state.records.copy())
            done += 1
    for name, values in theta.items():
        if not np.isfinite(values[:done]).all():
            raise ValueError(
                f"{name} became NaN or infinite during sampling: a kernel for p(theta | x) "
                f"returned a value that is not finite (update_parameters of "
                f"{type(target.model).__name__}, or the kernel of a move)"
            )
    return state, Draws(theta, reports, databases).first(done)


def _parts(target: Target, moves: Sequence[Any]) -> list[Any]:
    """Return the objects that may be of a user's own, for messages that name their methods."""
    inner = [part for move in moves for part in getattr(move, "moves", ())]
    return [target.model, target.release.mechanism, target.release.query, *moves, *inner]


def _end_warmup(target: Target, moves: Sequence[Any], state: ChainState) -> None:
    """Freeze what was learned and forget what was only warm-up."""
    state.acceptance[:] = 0
    state.sweeps = 0
    for move, tuning in zip(moves, state.tunings, strict=True):
        if hasattr(move, "freeze"):
            move.freeze(target, state, tuning)
