"""Passes over many records, piece by piece: the same target, and the same draws for any threads.

A piece is made small here, so that a few records are many pieces. Geweke's test is given
false_alarm = 1e-6, so an exact sampler fails it with that probability.
"""

import numpy as np
import pytest

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.running.run import prepare
from noiseaware.sampler import chain, pieces
from noiseaware.sampler.target import Target

MOMENTS = na.queries.RegressionMoments(1, -4.0, 4.0)
SETTINGS = {
    "dense": (na.models.LinearRegression(1), na.mechanisms.Laplace(MOMENTS, scale=4.0)),
    "cells": (
        na.models.NaiveBayes(2, [3, 2], concentration=1.5),
        na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [3, 2]), scale=3.0),
    ),
    "groups": (
        na.models.TwoMeans([11, 20]),
        na.mechanisms.Laplace(na.queries.ByGroup(na.queries.Sum(-3.0, 3.0), 2), scale=2.0),
    ),
    "one by one": (
        na.models.Normal(),
        na.mechanisms.LocalLaplace(na.queries.Sum(-2.0, 2.0), scale=np.linspace(0.5, 3.0, 31)),
    ),
}
BY_RECORD = (
    na.moves.ParameterUpdate(),
    na.moves.Transport(),
    na.moves.BlockSweep(),
    na.moves.RecordSweep(),
)
N = 31


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 4)


def draws(name, threads, iterations=12):
    """Return where a chain is, after some iterations with so many threads."""
    model, mechanism = SETTINGS[name]
    release = mechanism.privatize(model.sample_records(_theta(model), N, _rng()), _rng())
    target, moves = prepare(model, release, BY_RECORD)
    target.threads = threads
    state = chain.start(target, moves, _rng())
    return chain.advance(target, moves, chain.Schedule(8, 20), state, iterations)[0]


def _rng():
    return np.random.default_rng(1)


def _theta(model):
    return model.sample_prior(_rng())


@pytest.mark.parametrize("name", SETTINGS)
def test_draws_are_the_same_for_any_number_of_threads(name, small):
    alone, shared = draws(name, 1), draws(name, 3)
    assert alone.records.tobytes() == shared.records.tobytes()
    for parameter, value in alone.theta.items():
        assert value.tobytes() == shared.theta[parameter].tobytes()


@pytest.mark.parametrize("name", SETTINGS)
def test_totals_are_those_of_all_records(name, small):
    check_totals(name)


def check_totals(name):
    model, mechanism = SETTINGS[name]
    records = model.sample_records(_theta(model), N, _rng())
    target = Target(model, mechanism.privatize(records, _rng()))
    state = chain.start(target, [], _rng())
    wanted = target.sum(target.statistic(state.records, 0))
    np.testing.assert_allclose(target.total(state.records), wanted, atol=1e-12)
    u = target.recover(state)
    assert target.rebuild(state.theta, u)[0] is None
    np.testing.assert_allclose(target.rebuild(state.theta, u)[1], wanted, atol=1e-9)
    again = target.build_all(state.theta, u, np.empty_like(state.records))
    np.testing.assert_allclose(again, state.records, atol=1e-12)


def test_many_records_are_held_in_the_smallest_type(small, monkeypatch):
    model = na.models.NaiveBayes(5, [5, 5, 5])
    query = na.queries.Margins([5, 5, 5, 5], [[1, 2], [0, 3]])  # more than one feature at a time
    records = model.sample_records(_theta(model), N, _rng())
    release = na.mechanisms.Laplace(query, scale=2.0).privatize(records, _rng())

    def draw():
        target, moves = prepare(model, release, None)
        state = chain.start(target, moves, _rng())
        state, _ = chain.advance(target, moves, chain.Schedule(8, 20), state, 12)
        return state.records.dtype, target.database(state)

    (small_type, held), _ = draw(), monkeypatch.setattr(Target, "hold_small", lambda self: None)
    wide_type, wide = draw()
    assert (small_type, wide_type, held.dtype) == (np.uint8, np.int64, np.int64)
    np.testing.assert_array_equal(held, wide)


def check_pieces_differ():
    """Two records are the same with probability 0."""
    model, mechanism = SETTINGS["dense"]
    records = model.sample_records(_theta(model), N, _rng())
    target = Target(model, mechanism.privatize(records, _rng()))
    made, _ = target.propose(_theta(model), N, _rng())
    assert len(np.unique(made)) == made.size


def test_every_piece_has_random_numbers_of_its_own(small):
    check_pieces_differ()
    same = Edit(pieces, "streams", "spawn_key=(number,)", "spawn_key=(0,)")
    with planted(same), pytest.raises(AssertionError):
        check_pieces_differ()


def test_one_piece_is_as_if_there_were_none(monkeypatch):
    whole = draws("dense", 1)
    monkeypatch.setattr(pieces, "PIECE", N)
    assert whole.records.tobytes() == draws("dense", 2).records.tobytes()


def check_geweke(replicates=300, **settings):
    model = na.models.Normal(mean_sd=2.0)
    return na.geweke(
        model,
        na.mechanisms.LocalLaplace(na.queries.Sum(-3.0, 3.0), scale=[0.3, 3.0, 0.3, 3.0, 0.3, 3.0]),
        n_records=6,
        moves=BY_RECORD[:3],
        replicates=replicates,
        false_alarm=1e-6,
        **settings,
    )


@pytest.mark.full
def test_the_posterior_is_invariant(monkeypatch, seed):
    monkeypatch.setattr(pieces, "PIECE", 2)
    assert check_geweke(random_seed=seed)


BUGS = {
    "a piece's records are scored as the first": Edit(
        Target, "total", "self.total(records[a:b], start + a)", "self.total(records[a:b], start)"
    ),
    "a piece is left out": Edit(
        Target, "_sum_pieces", "result += part", "result = part + (result - result)"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_caught(bug, small):
    with planted(BUGS[bug]), pytest.raises(AssertionError):
        check_totals("one by one")
