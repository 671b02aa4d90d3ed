"""How many steps of which proposal the transport move chooses."""

import numpy as np
import pytest

import noiseaware as na
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.moves.tuning import Costs, choose_steps, expected_time, guards, total_cost
from noiseaware.sampler.target import Target

COST = Costs(
    start=0.2,
    each=np.array([0.2, 0.2, 0.9]),
    hold=0.3,
    holds=[False, False, True],
    from_prior=[True, False, False],
    guarded=False,
)
GUARDED = COST._replace(guarded=True)
NOTHING = np.zeros(2)


def choose(gains, others=NOTHING, most=2.6, **options):
    return choose_steps(np.array(gains), others, COST, least=0, most=most, **options)


def test_steps_that_help_nothing_are_not_taken():
    """Only the third proposal moves the second coordinate, and there is no room for it twice."""
    gains = [[0.2, 0.0], [0.1, 0.0], [0.3, 0.05]]
    assert choose(gains, others=np.array([0.5, 0.0]), most=2.0, enough=2.0) == [0, 0, 1]


def test_what_fits_is_taken_where_the_best_does_not_fit():
    steps = choose([[0.1, 0.1], [0.05, 0.05], [0.6, 0.6]], most=2.0, enough=1.1)
    assert steps == [3, 0, 1]


def test_no_steps_where_the_other_moves_are_enough():
    assert choose([[0.3, 0.3]] * 3, others=np.array([0.95, 0.9])) == [0, 0, 0]


@pytest.mark.parametrize("most", [0.5, 1.0, 2.6, 9.0])
def test_what_a_move_may_cost(most):
    rng = np.random.default_rng(1)
    for _ in range(50):
        gains = rng.uniform(0.0, 0.4, (3, 2))
        steps = choose(gains, most=most, enough=2.0)
        assert total_cost(steps, COST) <= most
        assert expected_time(gains, NOTHING, steps) <= expected_time(gains, NOTHING, [0, 0, 0])


def test_a_guard_is_charged_for_what_it_may_be():
    for steps, more in (([1, 0, 0], 0.0), ([0, 3, 0], 0.2), ([0, 0, 1], 0.2), ([1, 1, 1], 0.0)):
        without = total_cost(steps, COST)
        assert total_cost(steps, GUARDED) == pytest.approx(without + more)
    assert guards([2, 0, 1], GUARDED) == [1]  # with a formula
    assert guards([0, 1, 0], GUARDED) == [0]  # with a learned geometry alone; no formula is added
    assert guards([2, 1, 0], GUARDED) == []  # with the prior
    assert guards([2, 0, 1], COST) == []


@pytest.mark.parametrize(("gain", "expected"), [(0.7, [3, 0, 0]), (0.25, [0, 0, 1])])
def test_a_formula_gives_way_to_what_is_much_cheaper(gain, expected):
    """For its cost a step of the third moves theta as far as the first's or further, but it needs
    the formula to be prepared, and a guard.
    """
    gains = [[gain, gain], [0.0, 0.0], [0.999, 0.999]]
    steps = choose_steps(np.array(gains), NOTHING, GUARDED, least=0, most=2.6)
    assert steps == expected
    for_nothing = COST._replace(hold=0.0)
    assert choose_steps(np.array(gains), NOTHING, for_nothing, least=0, most=2.6) == [0, 0, 1]


def test_no_guard_without_a_formula():
    """Where theta is moved by learned geometry alone, the walks among them are the guard."""
    mechanism = na.mechanisms.Laplace(na.queries.Sum(0.0, 10.0), epsilon=0.5)
    target = Target(na.models.Normal(), na.Release([300.0], mechanism, n_records=60))
    moves = default_moves(target)
    state = chain.start(target, moves, np.random.default_rng(1))
    state, _ = chain.advance(target, moves, chain.Schedule(100, 0), state, 100)
    transport = state.tunings[0]["moves"][1]
    assert any(transport["steps"])
    assert transport["guards"] == []


def test_all_rounds_are_done():
    mechanism = na.mechanisms.Laplace(na.queries.Count(1), epsilon=0.5)
    target = Target(na.models.Bernoulli(), na.Release([20.0], mechanism, n_records=40))
    moves = (na.moves.Interweave(*na.moves.algorithm1(), cycles=3),)
    state = chain.start(target, moves, np.random.default_rng(1))
    state, _ = chain.advance(target, moves, chain.Schedule(0, 10), state, 10)
    assert state.sweeps == 30
