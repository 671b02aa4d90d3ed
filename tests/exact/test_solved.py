"""Solving the formula of a regression for theta: the solution, its volume, and what is drawn by it.

**The solution** is put back into the formula, and **the volume** is compared with the determinant
of differences.

**The walks.** With u held and all of theta unknown, independent draws from p(theta | u,
s_dp) are made by rejection: theta from the prior, kept with probability g(s_dp, T) / max g, with T
from NumPy. `Transport.step` is run a few times from each, with a formula that walks in the total.
The release's bounds clamp many records, so that the formula is badly wrong and only the ratio makes
it right. Where the draws end they must have the distribution that they started with: functions of
theta must not change on average, |z| < 5.8 for each of 12: below 12 x 7e-9 = 8e-8. The planted bugs
must fail it.
"""

import functools
import math
import os

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.maths.formulas import log_volume, make_room, solve
from noiseaware.sampler.moves import formula as module
from noiseaware.sampler.moves.exploring import WALK_GIVEN_U
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.moves.transport import Transport
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220616"))
CHAINS, STEPS, LIMIT = 5000, 4, 5.8
N, BOUND, SCALE = 10, 1.5, 1.2
VALUES = np.array([1.0, 2.5, 4.0, 2.0, 3.0])


def regression(p, n):
    """A regression with everything unknown, and a release of it."""
    query = na.queries.RegressionMoments(p, lower=[-4.0] * (p + 1), upper=[3.0] * p + [5.0])
    d = len(query.names)
    return Target(
        na.models.LinearRegression(p), na.Release(np.zeros(d), na.mechanisms.Laplace(query, 1.0), n)
    )


def formula_of(target, u):
    """Return the proposal with a formula, with this u held."""
    state = ChainState(target.sample_prior(np.random.default_rng(1)), u, None, rng())
    jump = Transport().start(target, state)["proposals"][-1]
    jump.condition_on(target, Row(u, target.abilities.innovations, None))
    return jump


def unclamped(jump, v):
    """Return the formula without clamping."""
    return jump.formula.totals(jump._natural(v), jump.summary)[0]


def rng():
    return np.random.default_rng(SEED)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_solution_gives_the_total(p):
    target = regression(p, 12)
    random = rng()
    for _ in range(3):
        u = random.standard_normal((12, p + 1))
        jump = formula_of(target, u)
        v = target.coordinates.to_vector(target.sample_prior(random))
        for function in (solve, solve.py_func):
            found, room = np.empty_like(v), make_room(jump.formula)
            assert function(jump.formula, jump.summary, unclamped(jump, v), found, room)
            np.testing.assert_allclose(found, v, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_volume_is_the_determinant(p):
    target = regression(p, 12)
    random = rng()
    u = random.standard_normal((12, p + 1))
    jump = formula_of(target, u)

    def formula(v):
        return unclamped(jump, v)

    constants = []
    for _ in range(4):
        v = target.coordinates.to_vector(target.sample_prior(random))
        columns = []
        for j in range(len(v)):
            step = np.zeros_like(v)
            step[j] = 1e-3
            coarse = (formula(v + 2 * step) - formula(v - 2 * step)) / 4e-3
            fine = (formula(v + step) - formula(v - step)) / 2e-3
            columns.append((4 * fine - coarse) / 3)
        by_differences = np.linalg.slogdet(np.column_stack(columns))[1]
        constants.append(by_differences - log_volume(p, v))
    np.testing.assert_allclose(constants, constants[0], rtol=0, atol=1e-5)


def test_a_total_that_nothing_gives():
    """A sum of squares below what its sum needs has no solution."""
    target = regression(1, 12)
    jump = formula_of(target, rng().standard_normal((12, 2)))
    total = unclamped(jump, np.zeros(5))
    total[2] = -1.0
    room = make_room(jump.formula)
    assert not solve(jump.formula, jump.summary, total, np.empty(5), room)


def test_only_where_all_is_unknown_is_the_formula_solved():
    query = na.queries.RegressionMoments(1, -1, 1)
    for arguments, n, expected in (
        ({}, 10, True),
        ({}, 2, False),
        ({"noise_variance": 1.0}, 10, False),
    ):
        assert na.models.LinearRegression(1, **arguments).formula(query, n).solvable == expected


# ------------------------------------------------------------------ what is drawn


def setting():
    """A regression on one feature with tight bounds, and innovations to hold."""
    query = na.queries.RegressionMoments(1, lower=-BOUND, upper=BOUND)
    release = na.Release(VALUES, na.mechanisms.Laplace(query, scale=SCALE), N)
    u = np.random.default_rng(7).standard_normal((N, 2))
    return Target(na.models.LinearRegression(1), release), u


@functools.cache
def independent_draws():
    """Return draws of v given u and s_dp, (CHAINS, 5), by rejection from the prior."""
    _, u = setting()
    random = rng()
    kept = []
    while sum(map(len, kept)) < CHAINS:
        m = 200_000
        log_uniform = np.log(random.random(m))
        mean = 2.0 * random.standard_normal(m)
        # Inverse Wishart(df = 4, scale = 2) in one dimension is inverse gamma(2, 1).
        spread = np.sqrt(1.0 / random.gamma(2.0, size=m))
        x = np.clip((mean[:, None] + spread[:, None] * u[:, 0]) / BOUND, -1, 1)
        # No coordinate adds to log g, so that those of x alone rule most of them out.
        log_g = -np.abs(np.stack([x, x * x]).sum(axis=-1).T - VALUES[3:]).sum(axis=1) / SCALE
        left = np.flatnonzero(log_uniform < log_g)
        m, mean, spread, x = len(left), mean[left], spread[left], x[left]
        a, b = 2.0 * random.standard_normal((2, m))
        variance = 4.0 / random.gamma(3.0, size=m)  # inverse gamma(3, 4)
        y = a[:, None] + b[:, None] * (mean[:, None] + spread[:, None] * u[:, 0])
        y = np.clip((y + np.sqrt(variance)[:, None] * u[:, 1]) / BOUND, -1, 1)
        total = np.stack([y, x * y, y * y]).sum(axis=-1).T
        log_g = log_g[left] - np.abs(total - VALUES[:3]).sum(axis=1) / SCALE
        keep = log_uniform[left] < log_g
        kept.append(np.stack([a, b, np.log(variance), mean, np.log(spread)], axis=1)[keep])
    return np.concatenate(kept)[:CHAINS]


@pytest.mark.full
def test_the_draws_are_those_of_the_package():
    """The prior and T of `independent_draws`, written with NumPy, are the model's."""
    target, _ = setting()
    model = target.model
    assert (model.coefficient_sd, model.feature_mean_sd) == (2.0, 2.0)
    assert (model.noise_variance_shape, model.noise_variance_scale) == (3.0, 4.0)
    for v in independent_draws()[:3]:
        theta, _ = target.coordinates.from_vector(v)
        spread = math.exp(v[4])
        expected = (
            stats.norm.logpdf(v[:2], scale=2.0).sum()
            + stats.invgamma.logpdf(math.exp(v[2]), 3.0, scale=4.0)
            + stats.norm.logpdf(v[3], scale=2.0)
            + stats.invgamma.logpdf(spread**2, 2.0, scale=1.0)
        )
        assert model.log_prior(theta) == pytest.approx(expected, rel=1e-9)


def functions(v):
    """The functions of v, (..., 5), whose means are compared."""
    products = [v[..., 0] * v[..., 1], v[..., 2] * v[..., 4]]
    return np.concatenate([v, v * v, np.stack(products, axis=-1)], axis=-1)


def check(chains=CHAINS):
    """Raise unless walks in the total, with u held, leave p(theta | u, s_dp) invariant."""
    target, u = setting()
    starts = independent_draws()
    random = np.random.default_rng(SEED + 1)
    move = Transport()
    state = ChainState(target.sample_prior(random), np.empty((N, 2)), None, random)
    tuning = move.start(target, state)
    jump = tuning["proposals"][-1]
    geometry = Geometry(np.random.default_rng(3).permutation(starts)[:500] + 0.1)
    jump.condition_on(target, Row(u, target.abilities.innovations, None))
    scales = target.terms.parameters[:, 1]
    geometry.estimate_jacobian(jump.total, scales, geometry.mean)
    jump.set_geometry(geometry)
    jump.steps.shares[:] = 0.0
    jump.steps.shares[WALK_GIVEN_U] = 1.0
    jump.steps.sizes[:] = 1.0  # long walks of long steps: a wrong centre shows
    jump.formula_steps = 12
    steps = [0] * len(tuning["proposals"])
    steps[-1] = 3
    tuning.update(steps=steps, warming=False)
    starts = starts[:chains]
    ends = np.empty_like(starts)
    moved = 0.0
    for k, v in enumerate(starts):
        state.theta, _ = target.coordinates.from_vector(v)
        state.records = target.build(state.theta, u)
        moved += sum(move.step(target, state, tuning)[0] for _ in range(STEPS))
        ends[k] = target.coordinates.to_vector(state.theta)
    assert 0.02 < moved / (chains * STEPS) < 0.98
    change = functions(ends) - functions(starts)
    z = change.mean(axis=0) / (change.std(axis=0, ddof=1) / math.sqrt(chains))
    assert np.abs(z).max() < LIMIT, f"z = {np.round(z, 1)}"


@pytest.mark.full
def test_walks_in_the_total_draw_from_their_target():
    check()


# A planted bug runs as plain Python: as few chains as show it.
BUGS = {
    "the volume left out": (
        500,
        "log_q = log_volume(p, v) - log_volume(p, proposed)",
        "log_q = 0.0",
    ),
    "from the clamped total": (
        500,
        "unclamped_there[j] = unclamped[j] + step",
        "unclamped_there[j] = total[j] - summary[0, 0] * noise.offset[j] + step",
    ),
    "from where the first step was": (CHAINS, "copy_vector(unclamped_there, unclamped)", "pass"),
}


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs(bug):
    chains, old, new = BUGS[bug]
    with planted(Edit(module, "explore", old, new)), pytest.raises(AssertionError, match="z ="):
        check(chains)
