"""The short way through class-feature counts takes the same steps as the long one."""

import os

import numpy as np
import pytest

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.sampler.moves import surrogate, surrogate_cells
from noiseaware.sampler.moves.transport import Transport
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220617"))


def compare(n_classes, levels, concentration):
    """Raise unless both explorers, with the same random numbers, come to the same end."""
    model = na.models.NaiveBayes(n_classes, levels, concentration)
    query = na.queries.ClassFeatureCounts(n_classes, levels)
    rng = np.random.default_rng(SEED)
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 60, rng)
    release = na.mechanisms.Laplace(query, scale=3.0).privatize(records, rng)
    target = Target(model, release)
    state = ChainState(theta, records, None, rng)
    jump = Transport().start(target, state)["proposals"][-1]
    jump.hold(target, target.recover(state))
    jump.shares[:] = [0.3, 0.3, 0.4, 0.0]
    jump.block_shares[0] += 0.5  # not in proportion to what is touched, which a bug may change
    jump.block_shares /= jump.block_shares.sum()
    moved = 0.0
    for _ in range(5):
        start = target.coordinates.to_vector(model.sample_prior(rng))
        uniforms, normals, waits = (numbers[0] for numbers in jump.prepare(1, rng))
        short, long = start.copy(), start.copy()
        counts = np.zeros((2, 2, *jump.tried.shape))
        code, integers, fixed = jump.surrogate[:3]
        by_cells = surrogate_cells.explore_cells(
            integers, fixed, jump.touched, jump.offset, jump.terms, jump.blocks, jump.widths,
            jump.factors, jump.means, jump.sizes, jump.shares, jump.block_shares, uniforms,
            normals, waits, jump.natural_size, short, *counts[0],
        )  # fmt: skip
        by_all = surrogate.explore(
            code, integers, fixed, jump.summary, jump.layout, jump.offset, jump.terms,
            np.full(target.d, -np.inf), jump.blocks, jump.widths,
            jump.factors, jump.means, jump.centres, jump.pulls, jump.prior_pulls,
            jump.prior_mean, jump.sizes, jump.shares, jump.block_shares, uniforms, normals,
            waits, jump.natural_size, False, long, *counts[1],
        )  # fmt: skip
        np.testing.assert_allclose(short, long, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(counts[0], counts[1], rtol=1e-7)
        assert by_cells[1] - by_cells[0] == pytest.approx(by_all[1] - by_all[0], abs=1e-8)
        moved += np.abs(short - start).sum()
    assert moved > 0


@pytest.mark.parametrize(
    ("n_classes", "levels", "concentration"),
    [(2, [2, 2], 2.0), (3, [3, 3, 3, 3], 1.5), (3, [2, 4, 3, 5], 0.7), (5, [3] * 5, 2.0)],
)
def test_the_same_steps(n_classes, levels, concentration):
    compare(n_classes, levels, concentration)


BUGS = {
    "a rejected proposal's probabilities stay": Edit(
        surrogate_cells, "explore_cells", "natural_there[j] = natural[j]", "pass"
    ),
    "the cells of a step keep their old part": Edit(
        surrogate_cells,
        "explore_cells",
        "parts[block_cells[block, i]] = parts_there[block_cells[block, i]]",
        "pass",
    ),
    "the prior's weight without the Jacobian": Edit(
        surrogate_cells, "explore_cells", "fixed[1] + 1.0", "fixed[1]"
    ),
    "cells of the class not touched": Edit(
        surrogate_cells,
        "touched_by",
        "np.isin(of_class, entries) | np.isin(of_level, entries)",
        "np.isin(of_level, entries)",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs(bug):
    touched_by = surrogate_cells.touched_by
    with planted(BUGS[bug]), pytest.MonkeyPatch.context() as patch:
        if surrogate_cells.touched_by is not touched_by:
            patch.setattr(surrogate, "touched_by", surrogate_cells.touched_by)
        with pytest.raises(AssertionError):
            compare(3, [3, 3, 3, 3], 1.5)
