"""A formula that is learned, and the chain that explores with it.

**The fit** goes through its points, has linear functions as they are, and is as far off without a
point as it is when the point is left out.

**The chain.** As in `test_formula`, with the same release, table and limit, 5.8 standard errors:
chains start at draws from p(theta | u, s_dp) with u held, and must have the same distribution after
a few steps with the learned formula alone. Its noise is twice as wide, so that pi* is far from pi,
and it reaches less far than the points of the fit, so that some chains begin beyond. The planted
bugs must fail it.
"""

import numpy as np
import pytest

from exact import test_formula as regression
from later import only
from mutants.planting import Edit, planted
from noiseaware.sampler.moves import learned as module
from noiseaware.sampler.moves.exploring import ExploringJump
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.learned import DOF, Fit, LearnedJump, evaluate, fit_spline
from noiseaware.sampler.moves.transport import Position, Transport
from noiseaware.sampler.state import ChainState

SEED, CHAINS = regression.SEED, 3000
SHORTER = 0.02
"""So much of its reach leaves a share of 0.54 of the chains beyond it."""


def test_a_spline_goes_through_its_points_and_knows_how_far_off_it_is():
    rng = np.random.default_rng(SEED)
    mean, factor = np.array([2.0, -1.0, 0.5]), np.tril(rng.standard_normal((3, 3)), -1) + np.eye(3)
    x = mean + rng.standard_normal((40, 3)) @ factor.T
    values = np.column_stack([x @ [1.0, 2.0, -0.5] + 3.0, np.exp(0.3 * x[:, 0]), x[:, 1] * x[:, 2]])
    spline, off = fit_spline(x, values, mean, factor)
    fit = Fit(spline, 1e6, np.ones(2))

    def at(given, v, function=evaluate):
        out = np.empty(3)
        return out, function(given, v, out)

    for compiled in (evaluate, evaluate.py_func):
        found = np.array([at(fit, v, compiled)[0] for v in x])
        np.testing.assert_allclose(found, values, rtol=1e-8, atol=1e-8)
    missed = []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        less, _ = fit_spline(x[others], values[others], mean, factor)
        missed.append(values[i] - at(Fit(less, 1e6, np.ones(2)), x[i])[0])
    np.testing.assert_allclose(off, np.sqrt(np.mean(np.square(missed), axis=0)), atol=1e-8)
    assert off[0] < 1e-8 < off[1:].min()
    z = np.array([1.0, -2.0, 2.0])
    within, _ = at(fit, mean + factor @ z)
    beyond, square = at(fit._replace(reach=9.0), mean + factor @ (1.7 * z))
    np.testing.assert_allclose(beyond, within, rtol=1e-8)
    np.testing.assert_allclose(square, 9.0 * 1.7**2)


def make_jump(target, state):
    """A proposal whose formula was learned with the u of a state."""
    rng = state.rng
    draws = rng.standard_normal((500, 2)) * [1.0, 0.8] + [0.3, 0.5]
    geometry = Geometry(draws)
    geometry.history = list(draws)
    here = Position(target, state)
    geometry.estimate_jacobian(
        lambda v: here.build(here.maps.from_vector(v)[0], rng)[1],
        target.terms.parameters[:, 1],
        geometry.mean,
    )
    jump = LearnedJump(np.arange(2), target)
    jump.set_geometry(geometry)
    jump.learn_formula(here, geometry)
    jump.formula_steps = 5
    return jump


def check_chain(chains=CHAINS, reach=0.5):
    """Raise unless the learned formula alone leaves p(theta | u, s_dp) invariant."""
    target, u = regression.setting()
    rng = np.random.default_rng(SEED)
    theta = {"coefficients": np.array([0.3, 0.5])}
    state = ChainState(theta, target.build(theta, u), None, rng)
    move = Transport()
    tuning = move.start(target, state)
    jump = make_jump(target, state)
    jump.fit = jump.fit._replace(reach=reach * jump.fit.reach, softer=0.5 * jump.fit.softer)
    tuning.update(proposals=[jump], steps=[1], warming=False)
    regression.check_steps(target, u, move, state, tuning, chains)


@pytest.mark.parametrize("reach", [0.5, SHORTER])
def test_the_chain_draws_from_its_target(reach):
    check_chain(reach=reach)


def test_the_density_of_the_chain_is_the_one_in_the_docstring():
    target, u = regression.setting()
    rng = np.random.default_rng(SEED)
    theta = {"coefficients": np.array([0.3, 0.5])}
    state = ChainState(theta, target.build(theta, u), None, rng)
    jump = make_jump(target, state)
    jump.condition_on(target, Position(target, state).row)
    mean, whiten, points, coefficients = jump.fit.spline
    for v in np.vstack([rng.standard_normal((5, 2)), rng.normal(0.0, 9.0, (5, 2))]):
        found = module.log_fitted(jump.fit, jump.noise, v, np.empty(target.d + 1))
        z = whiten @ (v - mean)
        far = max(1.0, np.sqrt(z @ z / jump.fit.reach))
        cubes = np.linalg.norm(points.T - z / far, axis=1) ** 3
        values = np.concatenate([[1.0], z / far, cubes]) @ coefficients
        total = values[:-1] + target.total_at(jump.mean, u) - jump.total(jump.mean)
        scales = target.terms.parameters[:, 1] * jump.fit.softer
        log_g = -np.abs((total - target.values) * scales).sum()
        np.testing.assert_allclose(found, values[-1] - (2 + DOF) * np.log(far) + log_g, rtol=1e-7)
        if far == 1.0:
            assert abs(values[-1] - target.log_prior({"coefficients": v})) < 0.2
    assert (jump.fit.softer < ExploringJump.softer).all()


SHORT = "where the chain begins, pi* does not fall beyond the reach"
BUGS = {
    "the ratio of the formula left out": (
        CHAINS,
        Edit(ExploringJump, "propose", "return before - after", "return 0.0"),
    ),
    "log pi* of the last proposal, not of the end": (
        2 * CHAINS,
        Edit(module, "explore_fit", "return before, now", "return before, there"),
    ),
    "the ratio of a jump left out of the steps with the formula": (
        CHAINS,
        Edit(module, "explore_fit", "there - now + log_q", "there - now"),
    ),
    SHORT: (
        CHAINS,
        Edit(
            module,
            "explore_fit",
            "before = now = log_fitted(fit, noise, v, values)",
            "before = now = log_fitted(fit, noise, v, values) + 0.5 * (len(v) + DOF) * math.log("
            "max(1.0, evaluate(fit, v, values) / fit.reach))",
        ),
    ),
    "the correction is taken where the chain is": (
        CHAINS,
        Edit(
            LearnedJump,
            "explore",
            "return explore_fit(",
            "self.noise = self.noise._replace(offset=self.exact[:, 0] - self.total(v))\n"
            "        return explore_fit(",
        ),
    ),
}


@pytest.mark.parametrize("bug", only(["the ratio of the formula left out"], BUGS))
def test_planted_bugs(bug):
    chains, edit = BUGS[bug]
    with planted(edit), pytest.raises(AssertionError, match="z ="):
        check_chain(chains, SHORTER if bug == SHORT else 0.5)
