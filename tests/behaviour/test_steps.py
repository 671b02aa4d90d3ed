"""How many steps of which proposal the transport move chooses."""

import numpy as np
import pytest

from noiseaware.sampler.moves.tuning import Costs, choose_steps, expected_time, total_cost

COST = Costs(100.0, start=0.2, each=np.array([0.2, 0.2, 0.9]), hold=0.3, holds=[False, False, True])
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
    without = total_cost([1, 0, 0], COST)
    assert total_cost([1, 0, 0], COST, [1, 2]) == pytest.approx(without + 0.55)
