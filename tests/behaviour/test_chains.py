"""A chain is a pure function of its state, whoever runs it and in whatever pieces."""

import copy

import joblib
import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import Coin, regression, same_draws, small_release
from noiseaware.running.run import pick_moves
from noiseaware.sampler import chain
from noiseaware.sampler.chain import Schedule, blas
from noiseaware.sampler.state import Draws
from noiseaware.sampler.target import Target

SHORT = {"draws": 60, "warmup": 50, "chains": 2, "progressbar": False}
MIX = (na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.RecordSweep())


@pytest.fixture(scope="module")
def reference():
    return na.sample(*regression(), random_seed=3, cores=1, keep_records=2, **SHORT)


def test_same_seed_same_draws(reference):
    again = na.sample(*regression(), random_seed=3, cores=1, keep_records=2, **SHORT)
    same_draws(reference, again)
    np.testing.assert_array_equal(
        reference["latent_records"]["records"].values, again["latent_records"]["records"].values
    )
    assert reference.attrs["random_seed"] == again.attrs["random_seed"] == "3"


def test_another_seed_gives_other_draws(reference):
    other = na.sample(*regression(), random_seed=4, cores=1, **SHORT)
    assert not np.array_equal(
        reference["posterior"]["coefficients"].values, other["posterior"]["coefficients"].values
    )


def test_without_a_seed_the_seed_is_kept_and_can_be_used_again():
    first = na.sample(na.models.Bernoulli(), small_release(), **SHORT)
    other = na.sample(na.models.Bernoulli(), small_release(), **SHORT)
    assert first.attrs["random_seed"] != other.attrs["random_seed"]
    seed = int(first.attrs["random_seed"])
    same_draws(first, na.sample(na.models.Bernoulli(), small_release(), random_seed=seed, **SHORT))


def test_worker_processes_give_the_same_draws(reference):
    same_draws(reference, na.sample(*regression(), random_seed=3, cores=2, **SHORT))


def test_threads_give_the_same_draws(reference):
    with joblib.parallel_config(backend="threading", n_jobs=2):
        same_draws(reference, na.sample(*regression(), random_seed=3, **SHORT))


def test_a_chain_does_not_depend_on_how_many_others_there_are(reference):
    more = na.sample(*regression(), random_seed=3, cores=1, **(SHORT | {"chains": 3}))
    np.testing.assert_array_equal(
        reference["posterior"]["coefficients"].values, more["posterior"]["coefficients"].values[:2]
    )


def test_different_chains_have_different_draws(reference):
    for name, values in reference["posterior"].data_vars.items():
        assert not np.array_equal(values.values[0], values.values[1]), name
    records = reference["latent_records"]["records"].values
    assert not np.isin(records[0], records[1]).any()


def test_numpys_global_generator_is_left_alone():
    np.random.seed(11)  # noqa: NPY002
    before = copy.deepcopy(np.random.get_state())  # noqa: NPY002
    na.sample(*regression(), random_seed=3, cores=1, **SHORT)
    na.geweke(na.models.Bernoulli(), small_release().mechanism, n_records=4, replicates=5)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def advance_in_pieces(target, moves, schedule, pieces):
    state = chain.start(target, moves, np.random.default_rng(8))
    parts = []
    for iterations in pieces:
        state, draws = chain.advance(target, moves, schedule, state, iterations)
        parts.append(draws)
    return state, Draws.join(parts)


@pytest.mark.parametrize(
    "moves", [na.moves.algorithm1(), MIX, None], ids=["alg1", "mix", "default"]
)
@pytest.mark.parametrize(
    "pieces", [(40, 50), (39, 1, 1, 49), (45, 45), (7,) * 12 + (6,), (1,) * 90]
)
def test_the_length_of_the_stretches_does_not_matter(moves, pieces):
    model, release = regression()
    target = Target(model, release)
    moves = pick_moves(moves, target)
    schedule = Schedule.make(warmup=40, draws=50, keep_records=5)
    state, draws = advance_in_pieces(target, moves, schedule, [90])
    state_2, draws_2 = advance_in_pieces(target, moves, schedule, pieces)
    assert len(draws) == len(draws_2) == 50
    for name in draws.theta:
        np.testing.assert_array_equal(draws.theta[name], draws_2.theta[name])
    for name in draws.reports:
        np.testing.assert_array_equal(draws.reports[name], draws_2.reports[name])
    np.testing.assert_array_equal(draws.databases, draws_2.databases)
    assert len(draws.databases) == 5
    np.testing.assert_array_equal(state.records, state_2.records)
    np.testing.assert_array_equal(state.acceptance, state_2.acceptance)
    assert state.rng.bit_generator.state == state_2.rng.bit_generator.state


def test_advance_does_not_change_the_state_it_is_given():
    model, release = regression()
    target = Target(model, release)
    state = chain.start(target, MIX, np.random.default_rng(8))
    before = copy.deepcopy(state)
    first = chain.advance(target, MIX, Schedule(10, 10), state, 15)
    np.testing.assert_array_equal(before.records, state.records)
    assert before.rng.bit_generator.state == state.rng.bit_generator.state
    assert state.iteration == 0
    second = chain.advance(target, MIX, Schedule(10, 10), state, 15)
    np.testing.assert_array_equal(first[0].records, second[0].records)


def test_the_last_kept_database_is_the_one_of_the_last_draw():
    model, release = regression()
    target = Target(model, release)
    schedule = Schedule.make(warmup=5, draws=20, keep_records=4)
    assert schedule.keep == (4, 9, 14, 19)
    state, draws = advance_in_pieces(target, MIX, schedule, [25])
    np.testing.assert_array_equal(draws.databases[-1], state.records)


@pytest.mark.parametrize("warmup", [0, 1, 2, 3, 10])
@pytest.mark.parametrize("model", [na.models.Bernoulli(), Coin()], ids=["built-in", "own"])
def test_any_length_of_warm_up_will_do(warmup, model):
    posterior = na.sample(
        model,
        small_release(),
        warmup=warmup,
        draws=5,
        chains=1,
        random_seed=1,
        progressbar=False,
    )
    assert np.isfinite(posterior["posterior"]["probability"].values).all()


@pytest.mark.parametrize("warmup", [0, 1, 2, 3])
def test_any_length_of_warm_up_will_do_in_many_dimensions(warmup):
    na.sample(*regression(), warmup=warmup, draws=5, chains=1, random_seed=1, progressbar=False)


def test_blas_has_one_thread_while_a_chain_runs():
    """Its matrices are small; other threads would only wait, and cost processor time."""
    seen = []

    class Watching:
        reports = ()

        def check(self, target):
            pass

        def start(self, target, state):
            return {}

        def step(self, target, state, tuning):
            seen.append({one["num_threads"] for one in blas().info() if one["user_api"] == "blas"})
            return ()

        def learn(self, target, state, tuning):
            pass

    with blas().limit(limits=2, user_api="blas"):
        na.sample(*regression(), moves=[*na.moves.algorithm1(), Watching()], cores=1, **SHORT)
        after = {one["num_threads"] for one in blas().info() if one["user_api"] == "blas"}
    assert seen[0] == seen[-1] == {1}
    assert after == {2}
