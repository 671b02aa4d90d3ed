"""How many steps of which proposal the transport move chooses."""

import math

import numpy as np
import pytest

import noiseaware as na
from noiseaware.parameters import Work
from noiseaware.sampler import chain
from noiseaware.sampler.moves.proposals import Jump, PriorJump, Walk
from noiseaware.sampler.moves.tuning import (
    CHANCE,
    Costs,
    Option,
    choose_steps,
    costs,
    expected_time,
    price,
    seldom,
    slowness,
)
from noiseaware.sampler.target import Target

COST = Costs(start=0.2, build=0.3, each=np.array([0.2, 0.2, 0.9]), holds=[False, False, True])
NOTHING = np.zeros(2)


class Plain:
    """A proposal that is in no block."""

    block, walks, needs_v = None, False, True


def choose(gains, others=NOTHING, most=2.6):
    limits = {"least": [0] * 3, "most": most}
    return choose_steps([Plain()] * 3, np.array(gains), others, COST, **limits)


def test_steps_that_help_nothing_are_not_taken():
    """Only the third proposal moves the second coordinate, and there is no room for it twice."""
    gains = [[0.2, 0.0], [0.1, 0.0], [0.3, 0.5]]
    assert choose(gains, others=np.array([0.5, 0.0]), most=2.0) == [0, 0, 1]


def test_what_fits_is_taken_where_the_best_does_not_fit():
    assert choose([[0.1, 0.1], [0.05, 0.05], [0.6, 0.6]], most=1.85) == [2, 0, 1]


def test_no_steps_where_the_other_moves_are_enough():
    assert choose([[0.3, 0.3]] * 3, others=np.array([0.95, 0.9])) == [0, 0, 0]


@pytest.mark.parametrize("most", [0.5, 1.0, 2.6, 9.0])
def test_what_a_move_may_cost(most):
    rng = np.random.default_rng(1)
    for _ in range(50):
        gains = rng.uniform(0.0, 0.4, (3, 2))
        steps = choose(gains, most=most)
        assert COST.total(steps) <= most
        assert expected_time(gains, NOTHING, steps) <= expected_time(gains, NOTHING, [0, 0, 0])


def test_walks_and_the_prior_get_their_share():
    """A jump that would do all the work leaves a tenth to each walk, and a sixth to the prior."""
    index = np.arange(2)
    walks = [Walk(index, 0, given_u=True), Walk(index, 0, given_u=False)]
    proposals = [PriorJump(), *walks, Jump(index, 0)]
    gains = np.array([[0.0, 0.0], [0.001, 0.001], [0.001, 0.001], [0.1, 0.1]])
    limits = {"least": [0] * 4, "most": 20.0}
    steps = choose_steps(proposals, gains, NOTHING, costs(100, Work(), proposals), **limits)
    total = sum(steps[1:])
    assert total >= 10
    assert steps[1] == steps[2] == total // 10
    assert steps[0] == total // 6
    assert seldom(steps, proposals) == [False] * 4
    # A tenth of few steps is less than one; where a block has none, it stays at that.
    assert seldom([0, 0, 1, 3], proposals) == [False, True, False, False]
    assert seldom([2, 0, 0, 0], proposals) == [False] * 4


@pytest.mark.parametrize("iteration", [7, 8])
def test_what_is_made_seldom_is_made_whatever_the_iteration(iteration):
    """In an eighth of 800 steps: binomial, 5 standard deviations."""
    mechanism = na.mechanisms.Laplace(na.queries.Sum(-5.0, 5.0), epsilon=1.0)
    target = Target(na.models.Normal(), na.Release([3.0], mechanism, n_records=20))
    state = chain.start(target, na.moves.algorithm1(), np.random.default_rng(1))
    move = na.moves.Transport()
    tuning = move.start(target, state)
    walk, made = tuning["proposals"][1], []
    walk.prepare = lambda steps, rng: made.append(steps) or Walk.prepare(walk, steps, rng)
    numbers = len(tuning["steps"])
    tuning.update(steps=[1] * numbers, seldom=[True] * numbers, warming=False)
    state.iteration = iteration
    for _ in range(800):
        move.step(target, state, tuning)
    assert abs(len(made) - 100) < 5 * math.sqrt(800 / 8 * 7 / 8)


def test_a_late_draw_is_dearer_than_its_cost():
    assert price(3.0, 1.0) == 6.0
    assert price(6.0, 1.0) == 4 * price(3.0, 1.0)


def test_a_chain_with_a_slow_part_is_seen():
    """Half of the variance is drawn afresh each time; the rest has autocorrelations 0.95^k.

    Gains would see an autocorrelation of 0.475 and expect 2.8 iterations for an effective draw.
    It takes 1 + 2 * 0.5 * 0.95 / 0.05 = 20; independent draws take no longer than expected.
    """
    rng = np.random.default_rng(3)
    history = rng.standard_normal((20_000, 2))
    assert slowness(history, 1.0) == 1.0
    slow, noise = np.zeros(20_000), math.sqrt(1 - 0.95**2) * rng.standard_normal(20_000)
    for k in range(1, len(slow)):
        slow[k] = 0.95 * slow[k - 1] + noise[k]
    history[:, 1] += slow
    assert slowness(history, 2.8) == pytest.approx(20 / 2.8 / CHANCE, rel=0.15)
    history[:, 0] = 3.0  # what stands still
    assert slowness(history, 2.8) == pytest.approx(20 / 2.8 / CHANCE, rel=0.15)


@pytest.mark.parametrize("left", [1.0, 2.0])
def test_a_move_beside_transport_is_kept_if_nothing_else_does_its_work(left):
    """In warm-up the others left half of the autocorrelation; without the move it may be all."""
    mechanism = na.mechanisms.Laplace(na.queries.Sum(-5.0, 5.0), epsilon=1.0)
    target = Target(na.models.Normal(), na.Release([3.0], mechanism, n_records=5000))
    state = chain.start(target, na.moves.algorithm1(), np.random.default_rng(1))
    move = na.moves.Transport()
    tuning = move.start(target, state)
    tuning["geometry"].history = list(np.random.default_rng(2).standard_normal((400, 2)))
    tuning["geometry"].learn()
    tuning["gains"].times, tuning["gains"].outside = 1.0, np.diag(tuning["geometry"].covariance)
    tuning["options"] = [Option(np.ones(2), 1.0, 0.5), Option(np.full(2, left), 1.0, 0.0)]
    move.freeze(target, state, tuning)
    assert tuning["option"] == (0 if left == 2.0 else 1)
    assert tuning["outlook"][0] == pytest.approx(3.0, rel=0.01)


def test_costs_are_counted_in_calls_and_passes():
    """With many records a step is an eighth of an iteration, with few about half of one."""
    proposals = [PriorJump(), Jump(np.arange(2), 0)]
    assert costs(10**9, Work(), proposals).each == pytest.approx([1 / 8, 1 / 8], rel=1e-3)
    assert costs(1, Work(), proposals).each == pytest.approx([1 / 2, 1 / 2], rel=1e-2)


def test_all_rounds_are_done():
    mechanism = na.mechanisms.Laplace(na.queries.Count(1), epsilon=0.5)
    target = Target(na.models.Bernoulli(), na.Release([20.0], mechanism, n_records=40))
    moves = (na.moves.Interweave(*na.moves.algorithm1(), cycles=3),)
    state = chain.start(target, moves, np.random.default_rng(1))
    state, _ = chain.advance(target, moves, chain.Schedule(0, 10), state, 10)
    assert state.sweeps == 30
