"""The chain with cells computes only what a step changes; here NumPy computes all."""

import math
import os

import numpy as np
import pytest

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.sampler.moves import formula as module
from noiseaware.sampler.moves.formula import Counts, Numbers
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.moves.transport import Transport
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220617"))


def log_pi(jump, target, v):
    """Return log pi*(v), from the model's prior and the whole table."""
    theta, log_jacobian = target.coordinates.from_vector(v)
    total = jump.total(v) + target.n * jump.noise.offset
    values, inverse = jump.noise.terms.parameters[:, :2].T
    return target.model.log_prior(theta) + log_jacobian - np.sum(np.abs(values - total) * inverse)


def explore_all(jump, target, numbers, v):
    """Do the steps of the chain one by one; return v and what was tried and taken."""
    steps = jump.steps
    counts = np.zeros((2, *steps.sizes.shape))
    now = log_pi(jump, target, v)
    for k in range(len(numbers.uniforms)):
        kind = np.searchsorted(np.cumsum(steps.shares)[:-1], numbers.uniforms[k, 0], "right")
        block = np.searchsorted(np.cumsum(steps.block_shares)[:-1], numbers.uniforms[k, 1], "right")
        proposed = np.empty_like(v)
        log_q = module._propose(steps, int(kind), int(block), numbers, k, v, proposed)
        there = log_pi(jump, target, proposed)
        log_ratio = there - now + log_q
        counts[:, kind, block] += 1.0, math.exp(min(0.0, log_ratio))
        if -numbers.waits[k, 2] < log_ratio:
            v, now = proposed, there
    return v, now, counts


def compare(n_classes, levels, concentration):
    """Raise unless both ways, with the same random numbers, come to the same end."""
    model = na.models.NaiveBayes(n_classes, levels, concentration)
    query = na.queries.ClassFeatureCounts(n_classes, levels)
    rng = np.random.default_rng(SEED)
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 60, rng)
    release = na.mechanisms.Laplace(query, scale=3.0).privatize(records, rng)
    target = Target(model, release)
    state = ChainState(theta, records, None, rng)
    jump = Transport().start(target, state)["proposals"][-1]
    jump.condition_on(target, Row(target.recover(state), target.abilities.innovations, None))
    jump.steps.shares[:] = [0.3, 0.3, 0.4]
    jump.steps.block_shares[0] += 0.5  # not in proportion to what is touched
    jump.steps.block_shares[:] /= jump.steps.block_shares.sum()
    moved = 0.0
    for _ in range(5):
        start = target.coordinates.to_vector(model.sample_prior(rng))
        numbers = Numbers(*(prepared[0] for prepared in jump.prepare(1, rng)))
        jump.counts = Counts(np.zeros_like(jump.steps.sizes), np.zeros_like(jump.steps.sizes))
        short = start.copy()
        before, after = jump.explore(numbers, short)
        long, now, counts = explore_all(jump, target, numbers, start)
        np.testing.assert_allclose(short, long, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(jump.counts, counts, rtol=1e-7, atol=1e-12)
        assert after - before == pytest.approx(now - log_pi(jump, target, start), abs=1e-8)
        moved += np.abs(short - start).sum()
    assert moved > 0


@pytest.mark.parametrize(
    ("n_classes", "levels", "concentration"),
    [(2, [2, 2], 2.0), (3, [3, 3, 3, 3], 1.5), (3, [2, 4, 3, 5], 0.7), (5, [3] * 5, 2.0)],
)
def test_the_same_steps(n_classes, levels, concentration):
    compare(n_classes, levels, concentration)


BUGS = {
    "a rejected proposal's probabilities stay": (
        "explore_cells",
        "natural_there[j] = natural[j]",
        "pass",
    ),
    "the cells of a step keep their old part": (
        "explore_cells",
        "parts[block_cells[block, i]] = parts_there[block_cells[block, i]]",
        "pass",
    ),
    "the prior's weight without the Jacobian": (
        "explore_cells",
        "change += formula.concentration *",
        "change += (formula.concentration - 1.0) *",
    ),
    "cells of the class not touched": ("touched_by", "of_class | of_level", "of_level"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs(bug):
    with planted(Edit(module, *BUGS[bug])), pytest.raises(AssertionError):
        compare(3, [3, 3, 3, 3], 1.5)
