"""Checks of moves and of the whole sampler."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseaware.agreement import fit
from noiseaware.agreement.arrays import short
from noiseaware.calibration import geweke
from noiseaware.contract import kernel_abilities, move_abilities
from noiseaware.maths.coordinates import check_theta
from noiseaware.release import Release
from noiseaware.running.run import all_abilities, prepare
from noiseaware.sampler import chain
from noiseaware.sampler.target import Target
from noiseaware.validation import models
from noiseaware.validation.case import Case, refuses

WARMUP, AFTER = 40, 10
"""Steps of each move with learning, and without."""


def steps(case: Case) -> str:
    """Check each move on a chain: its reports, and the state that it leaves."""
    rng = case.rng(20)
    _, records, release = case.draw_release(case.n, rng)
    target, moves = prepare(case.model, release, case.moves)
    records = target.hold(records)
    for able in all_abilities(moves):
        if callable(able.kernel) and kernel_abilities(able.kernel).step is None:
            models.kernel(case, able.kernel, _called(able.kernel, "the kernel"))
        if callable(able.proposal):
            _check_proposal(case, release, able.proposal, _called(able.proposal, "the proposal"))
    state = chain.start(target, moves, rng)
    for iteration in range(WARMUP + AFTER):
        for move, tuning in zip(moves, state.tunings, strict=True):
            where = f"{type(move).__name__}.step"
            before = None if iteration < WARMUP else copy.deepcopy(tuning)
            reported = move.step(target, state, tuning)
            if not isinstance(reported, tuple) or len(reported) != len(move.reports):
                raise ValueError(
                    f"{where} must return a tuple with one number for each of its reports "
                    f"{tuple(move.reports)}; got {reported!r}"
                )
            _check_state(where, target, state, records)
            if iteration < WARMUP:
                move.learn(target, state, tuning)
            elif not _same(tuning, before):
                raise ValueError(
                    f"{where} must not change its tuning after warm-up: a move that goes on "
                    "learning does not leave the posterior invariant. Change it in `learn`"
                )
        state.iteration += 1
        if iteration == WARMUP - 1:
            chain.end_warmup(target, moves, state)
    return f"{', '.join(map(repr, moves))}: each leaves a state that the next can take"


def _called(function: Any, otherwise: str) -> str:
    return function.__name__ if inspect.isroutine(function) else otherwise


def _check_proposal(case: Case, release: Release, proposal: Any, where: str) -> None:
    """Check what a proposal for Algorithm 2 returns, and that it does not change the records."""
    rng, n = case.rng(21), case.n
    for _ in range(case.draws // 5):
        theta, records = case.draw_database(rng)
        with fit.left_alone(where, records=records, theta=theta):
            made = proposal(records, np.arange(n), theta, release, rng)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                f"{where} must return (candidates, log_ratio); got {type(made).__name__}"
            )
        candidates, log_ratio = np.asarray(made[0]), np.asarray(made[1])
        if candidates.shape != records.shape or log_ratio.shape != (n,):
            raise ValueError(
                f"{where} must return candidates of shape {records.shape} and log_ratio of shape "
                f"({n},); got {candidates.shape} and {log_ratio.shape}"
            )


def _check_state(where: str, target: Target, state: Any, like: np.ndarray) -> None:
    check_theta(where, state.theta, target.abilities.parameters)
    records = state.records
    kept = isinstance(records, np.ndarray) and records.dtype == like.dtype
    if not kept or records.shape != like.shape:
        raise ValueError(
            f"{where} must leave state.records with shape {like.shape} and dtype {like.dtype}; "
            f"got {short(records)}"
        )
    if not np.isfinite(records).all():
        raise ValueError(f"{where} left records that are not finite")
    words = refuses(target.abilities.check_records, records)
    if words is not None:
        raise ValueError(f"{where} left records that the model refuses: {words}")
    if target.abilities.holds_innovations and not np.allclose(
        target.build(state.theta, state.innovations), records
    ):
        raise ValueError(
            f"{where} must keep state.records = build_records(state.theta, state.innovations)"
        )


def _same(one: Any, other: Any) -> bool:
    """Whether two tunings, of any depth, hold the same values.

    An object's `scratch` is recomputed in every step and is not part of its tuning.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if callable(one):
        return True
    try:
        parts = vars(one), vars(other)
    except TypeError:  # a number, a text
        return one == other or one != one
    scratch = move_abilities(one).scratch
    return _same(*({k: v for k, v in part.items() if k not in scratch} for part in parts))


def sampler(case: Case) -> str:
    """Check everything together by Geweke's test."""
    result = geweke(
        case.model,
        case.mechanism,
        n_records=None if case.able.random_size else case.n,
        replicates=case.replicates // 3,
        rounds=5,
        moves=case.moves,
        random_seed=case.seed,
        false_alarm=case.level,
    )
    if not result:
        worst = result.names[int(np.argmin(result.p_values))]
        raise ValueError(
            "the sampler does not leave the joint distribution of theta, records and release "
            f"invariant, first of all in {worst}: {result}"
        )
    return str(result)
