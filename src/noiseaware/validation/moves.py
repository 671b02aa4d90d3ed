"""What is checked of moves, and of the whole sampler."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noiseaware.calibration import geweke
from noiseaware.coordinates import check_theta
from noiseaware.sampler import chain, fit
from noiseaware.sampler.run import pick_moves
from noiseaware.sampler.target import Target
from noiseaware.validation import models
from noiseaware.validation.compare import Setting
from noiseaware.validation.models import draw_records, draw_theta
from noiseaware.validation.releases import _release

WARMUP, AFTER = 40, 10
"""Steps of each move in which it learns, and steps after that."""


def steps(model: Any, mechanism: Any, moves: Sequence[Any], setting: Setting) -> str:
    """Check each move on a chain: what it reports, and the state that it leaves."""
    rng = setting.rng(20)
    _, records, release = _release(model, mechanism, setting.n, rng)
    target = Target(model, release)
    moves = pick_moves(moves, target)
    for function, where in _functions(moves, "kernel"):
        models.kernel(model, function, where, setting)
    for function, where in _functions(moves, "proposal"):
        _check_proposal(model, release, function, where, setting)
    state = chain.start(target, moves, rng)
    for iteration in range(WARMUP + AFTER):
        for move, tuning in zip(moves, state.tunings, strict=True):
            where = f"{type(move).__name__}.step"
            before = None if iteration < WARMUP else copy.deepcopy(tuning)
            reported = move.step(target, state, tuning)
            _check_reports(where, reported, move.reports)
            _check_state(where, target, state, records)
            if iteration < WARMUP:
                move.learn(target, state, tuning)
            elif not _same(tuning, before):
                raise ValueError(
                    f"{where} must not change its tuning after warm-up: a move that goes on "
                    "learning does not leave the posterior alone. Change it in `learn`"
                )
        state.iteration += 1
        if iteration == WARMUP - 1:
            for move, tuning in zip(moves, state.tunings, strict=True):
                if hasattr(move, "freeze"):
                    move.freeze(target, state, tuning)
    return f"{', '.join(map(repr, moves))}: each leaves a state that the next can take"


def _functions(moves: Sequence[Any], attribute: str) -> list[tuple[Any, str]]:
    """Return the functions of the user's that moves hold, with what to call them."""
    found = []
    inner = [part for move in moves for part in getattr(move, "moves", ())]
    for move in (*moves, *inner):
        function = getattr(move, attribute, None)
        if callable(function) and not hasattr(function, "step"):
            found.append((function, getattr(function, "__name__", f"the {attribute}")))
    return found


def _check_proposal(model: Any, release: Any, proposal: Any, where: str, setting: Setting) -> None:
    """Check what a proposal of Algorithm 2 returns, and that it leaves the records alone."""
    rng = setting.rng(21)
    for _ in range(setting.draws // 5):
        theta = draw_theta(model, rng)
        records = draw_records(model, theta, setting.n, rng)
        index = np.arange(setting.n)
        with fit.left_alone(where, records=records, theta=theta):
            made = proposal(records, index, theta, release, rng)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                f"{where} must return (candidates, log_ratio); got {type(made).__name__}"
            )
        candidates, log_ratio = np.asarray(made[0]), np.asarray(made[1])
        if candidates.shape != records.shape or log_ratio.shape != (setting.n,):
            raise ValueError(
                f"{where} must return candidates of shape {records.shape} and log_ratio of shape "
                f"({setting.n},); got {candidates.shape} and {log_ratio.shape}"
            )


def _check_reports(where: str, reported: Any, names: Sequence[str]) -> None:
    if not isinstance(reported, tuple) or len(reported) != len(names):
        raise ValueError(
            f"{where} must return a tuple with one number for each of its reports {tuple(names)}; "
            f"got {reported!r}"
        )


def _check_state(where: str, target: Target, state: Any, like: np.ndarray) -> None:
    """Check that a state is one from which the next move can go on."""
    model: Any = target.model
    check_theta(where, state.theta, model.parameters)
    records = state.records
    if not isinstance(records, np.ndarray) or (records.shape, records.dtype) != (
        like.shape,
        like.dtype,
    ):
        got = getattr(records, "shape", type(records).__name__)
        raise ValueError(
            f"{where} must leave state.records with shape {like.shape} and dtype {like.dtype}; "
            f"got {got} {getattr(records, 'dtype', '')}"
        )
    if not np.isfinite(records).all():
        raise ValueError(f"{where} left records that are not finite")
    if hasattr(model, "check_records"):
        try:
            model.check_records(records)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where} left records that the model refuses: {error}") from None
    if target.abilities.holds_innovations and not np.allclose(
        model.build_records(state.theta, state.innovations), records
    ):
        raise ValueError(
            f"{where} must keep state.records = build_records(state.theta, state.innovations)"
        )


def _same(one: Any, other: Any) -> bool:
    """Whether two tunings, of any depth, hold the same values.

    What an object calls its `scratch` is worked out anew in every step: no part of its tuning.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "__dict__") and not callable(one):
        scratch = getattr(type(one), "scratch", ())
        kept = [{k: v for k, v in vars(x).items() if k not in scratch} for x in (one, other)]
        return _same(*kept)
    return callable(one) or one == other or one != one


def sampler(model: Any, mechanism: Any, moves: Any, setting: Setting) -> str:
    """Check everything together by Geweke's test."""
    result = geweke(
        model,
        mechanism,
        n_records=setting.n,
        replicates=setting.replicates // 3,
        rounds=5,
        moves=moves,
        random_seed=setting.seed,
        false_alarm=setting.level,
    )
    if not result:
        worst = result.names[int(np.argmin(result.p_values))]
        raise ValueError(
            f"the sampler does not leave the joint distribution of theta, records and release "
            f"alone, first of all in {worst}: {result}"
        )
    return str(result)
