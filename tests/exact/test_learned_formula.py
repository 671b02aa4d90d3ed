"""A formula that is learned, and the chain that explores with it.

**The fit** recovers quadratic functions, of parameters that vary freely and of probabilities that
add up to 1.

**The chain.** As in `test_formula`, with the same release, table and limit, 5.8 standard errors:
chains start at draws from p(theta | u, s_dp) with u held, and must have the same distribution after
a few steps with the learned formula alone. Its noise is twice as wide, so that pi* is far from pi,
and it reaches less far than the points of the fit, so that some chains begin where pi* is 0. The
planted bugs must fail it.
"""

import numpy as np
import pytest

from exact import test_formula as regression
from later import only
from mutants.planting import Edit, planted
from noiseaware.maths.coordinates import constrain
from noiseaware.sampler.moves import learned as module
from noiseaware.sampler.moves.formula import FormulaJump
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.learned import LearnedJump, evaluate, fit_quadratic
from noiseaware.sampler.moves.transport import Position, Transport
from noiseaware.sampler.state import ChainState

SEED, CHAINS = regression.SEED, 3000
SHORTER = 0.15
"""So much of its reach leaves a share of 0.04 of the chains where pi* is 0."""


@pytest.mark.parametrize("simplex", [False, True])
def test_quadratic_functions_are_recovered(simplex):
    rng = np.random.default_rng(SEED)

    def draw(m):
        return rng.dirichlet([2.0, 1.0, 3.0, 1.0], m) if simplex else rng.normal(2.0, 5.0, (m, 4))

    matrices, slopes = rng.standard_normal((3, 4, 4)), rng.standard_normal((3, 4))

    def functions(x):
        return np.einsum("mi,jil,ml->mj", x, matrices, x) + x @ slopes.T - 1.0

    x, new = draw(80), draw(20)
    fit, off = fit_quadratic(x, functions(x))
    assert len(fit.whiten) == (3 if simplex else 4)
    assert np.abs(off).max() < 1e-9
    for compiled in (evaluate, evaluate.py_func):
        out = np.empty((20, 3))
        squares = [compiled(fit, point, row) for point, row in zip(new, out, strict=True)]
        np.testing.assert_allclose(out, functions(new), rtol=1e-8, atol=1e-8)
    z = (new - fit.centre) @ fit.whiten.T
    np.testing.assert_allclose(squares, (z * z).sum(axis=1))


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
    layout, natural = target.coordinates.layout, np.empty(2)
    for v in rng.standard_normal((5, 2)):
        found = module.log_fitted(jump.fit, layout, jump.noise, v, natural, np.empty(target.d))
        total = jump.total(v) + target.total_at(jump.mean, u) - jump.total(jump.mean)
        scales = target.terms.parameters[:, 1] * jump.fit.softer
        log_g = -np.abs((total - target.values) * scales).sum()
        log_prior = np.empty(1)
        evaluate(jump.fit.prior, v, log_prior)
        expected = log_prior[0] + constrain(layout, v, natural) + log_g
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        assert abs(log_prior[0] - target.log_prior({"coefficients": v})) < 1e-6  # it is quadratic
    assert (jump.fit.softer < FormulaJump.softer).all()


SHORT = "where pi* is 0 the chain moves all the same"
BUGS = {
    "the ratio of the formula left out": (
        CHAINS,
        Edit(FormulaJump, "propose", "return before - after", "return 0.0"),
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
            "        return 0.0, 0.0",
            "        v *= 0.5\n        return 0.0, 0.0",
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
