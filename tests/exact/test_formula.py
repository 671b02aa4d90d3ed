"""A formula for the total, and the chain that explores with it.

**The formula** is compared with the records themselves where it is exact (no clamping), with
clamped normal records by quadrature, and with the mean over many databases where it is a mean.

**The chain.** With u held, theta of a regression with one feature has two coordinates, and p(theta
| u, s_dp) is tabulated on a fine grid. Chains start at draws from it, and `Transport.step` is run a
few times with the formula alone, on a release whose bounds clamp many records and with noise
twice as wide in pi*, so that pi* is far from pi and only the ratio makes it right. The draws at the
end are independent and must have the distribution that they started with: the means of six
functions of theta are compared with those of the table, in standard errors. |z| < 5.8 for each:
below 6 x 7e-9 = 4e-8. The planted bugs of `test_planted_bugs` must fail it.
"""

import functools
import math
import os

import numpy as np
import pytest

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.maths import formulas
from noiseaware.sampler.moves import formula as module
from noiseaware.sampler.moves import row as row_module
from noiseaware.sampler.moves.exploring import JUMP, WALK, WALK_GIVEN_U, ExploringJump
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.moves.transport import Position, Transport, make_proposals
from noiseaware.sampler.size import SizedCoordinates
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220615"))
CHAINS, STEPS, LIMIT = 5000, 5, 5.8

MEAN, COVARIANCE = [0.4, -0.3], [[1.0, 0.3], [0.3, 0.8]]
REGRESSIONS = {
    "known": {"noise_variance": 0.7, "feature_mean": MEAN, "feature_covariance": COVARIANCE},
    "noise": {"feature_mean": MEAN, "feature_covariance": COVARIANCE},
    "mean": {"noise_variance": 0.7, "feature_covariance": COVARIANCE},
    "covariance": {"noise_variance": 0.7, "feature_mean": MEAN},
    "unknown": {},
}


def flat(theta):
    return np.concatenate([np.ravel(value) for value in theta.values()])


@pytest.mark.parametrize("unknown", REGRESSIONS)
def test_without_clamping_the_formula_of_a_regression_is_exact(unknown):
    model = na.models.LinearRegression(2, **REGRESSIONS[unknown])
    query = na.queries.RegressionMoments(2, lower=[-2e3, -3e3, -1e3], upper=[1e3, 2e3, 3e3])
    target = Target(model, na.Release(np.zeros(9), na.mechanisms.Laplace(query, 1.0), 12))
    rng = np.random.default_rng(SEED)
    priors = []
    for _ in range(3):
        theta = model.sample_prior(rng)
        u = rng.standard_normal((12, 3))
        formula = target.formula()
        summary = formula.summarise(u)
        expected = target.total(target.build(theta, u))
        natural = flat(theta)
        for approximate in (formulas.approximate, formulas.approximate.py_func):
            total, room = np.empty(target.d), formulas.make_room(formula)
            read = formulas.read_theta(formula, natural)
            log_prior = approximate(formula, summary, read, room, total)
            np.testing.assert_allclose(total, expected, rtol=1e-9)
            priors.append((log_prior, model.log_prior(theta)))
    constants = [ours - theirs for ours, theirs in priors]
    np.testing.assert_allclose(constants, constants[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "query"),
    [
        (na.models.LinearRegression(2), na.queries.RegressionMoments(1, -1, 1)),
        (na.models.LinearRegression(1), na.queries.Histogram(edges=[0.0, 1.0])),
    ],
)
def test_another_query_has_no_formula(model, query):
    assert model.formula(query, 10) is None


# ------------------------------------------------------------------ the chain, against quadrature


def setting():
    """A regression on one feature with tight bounds, a release of it, and innovations to hold."""
    model = na.models.LinearRegression(
        1, 1.5, noise_variance=1.0, feature_mean=[0.5], feature_covariance=[[1.0]]
    )
    query = na.queries.RegressionMoments(1, lower=-1.5, upper=1.5)
    mechanism = na.mechanisms.Laplace(query, scale=1.2)
    release = na.Release([1.0, 2.5, 4.0, 2.0, 3.0], mechanism, 10)
    u = np.random.default_rng(7).standard_normal((10, 2))
    return Target(model, release), u


def functions(theta):
    """The functions of theta, (..., 2), whose means are compared."""
    a, b = theta[..., 0], theta[..., 1]
    return np.stack([a, b, a * a, b * b, a * b, (b > 0).astype(float)], axis=-1)


def log_density(theta):
    """Log p(theta | u, s_dp) of `setting` at each theta (m, 2), up to a constant, by NumPy."""
    _, u = setting()
    bound, scale, values = 1.5, 1.2, [1.0, 2.5, 4.0, 2.0, 3.0]
    x = np.broadcast_to(0.5 + u[:, 0], (len(theta), 10))
    y = theta[:, :1] + theta[:, 1:] * x + u[:, 1]
    x, y = np.clip(x / bound, -1, 1), np.clip(y / bound, -1, 1)
    total = np.stack([y, x * y, y * y, x, x * x]).sum(axis=-1).T
    return -np.abs(total - values).sum(axis=1) / scale - 0.5 * (theta**2).sum(axis=1) / 1.5**2


@functools.cache
def table():
    """Return points of a grid and their probabilities."""
    side = np.linspace(-7.0, 7.0, 351)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = log_density(grid)
    weight = np.exp(logs - logs.max())
    return grid, weight / weight.sum()


def test_the_table_is_that_of_the_package():
    target, u = setting()
    grid, _ = table()
    points = np.random.default_rng(SEED).choice(grid, 200)
    ours = []
    for point in points:
        theta = {"coefficients": point}
        total = target.total(target.build(theta, u))
        ours.append(target.model.log_prior(theta) + target.log_g(total))
    difference = np.array(ours) - log_density(points)
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-9)


def check_chain(kinds=(WALK_GIVEN_U, WALK, JUMP), chains=CHAINS):
    """Raise unless the formula alone, with u held, leaves p(theta | u, s_dp) invariant."""
    target, u = setting()
    rng = np.random.default_rng(SEED)
    move = Transport()
    state = ChainState({"coefficients": np.zeros(2)}, np.empty((10, 2)), None, rng)
    tuning = move.start(target, state)
    jump = tuning["proposals"][-1]
    geometry = Geometry(rng.standard_normal((500, 2)) * [1.0, 0.8] + [0.3, 0.5])
    jump.condition_on(target, Row(u, target.abilities.innovations, None))
    scales = target.terms.parameters[:, 1]
    geometry.estimate_jacobian(jump.total, scales, np.array([0.3, 0.5]))
    jump.set_geometry(geometry)
    wider = jump.noise.terms.parameters * [1.0, 0.5, 1.0, 1.0]  # pi* is far from pi
    jump.noise = jump.noise._replace(terms=jump.noise.terms._replace(parameters=wider))
    jump.steps.shares[:] = 0.0
    jump.steps.shares[list(kinds)] = 1.0 / len(kinds)
    jump.formula_steps = 5
    tuning.update(steps=[*[0] * (len(tuning["proposals"]) - 1), 1], warming=False)
    check_steps(target, u, move, state, tuning, chains)


def check_steps(target, u, move, state, tuning, chains=CHAINS):
    """Raise unless the move leaves the table's distribution invariant."""
    grid, probabilities = table()
    rng = state.rng
    starts = grid[rng.choice(len(grid), chains, p=probabilities)]
    starts = starts + rng.uniform(-0.02, 0.02, starts.shape)  # anywhere in the cell of the grid
    ends = np.empty_like(starts)
    moved = 0
    for k, start in enumerate(starts):
        state.theta = {"coefficients": start}
        state.records = target.build(state.theta, u)
        moved += sum(move.step(target, state, tuning)[0] for _ in range(STEPS))
        ends[k] = state.theta["coefficients"]
    assert 0.05 < moved / (chains * STEPS) < 0.95  # the formula is wrong, but not useless
    values = functions(ends)
    exact = probabilities @ functions(grid)
    z = (values.mean(axis=0) - exact) / (values.std(axis=0, ddof=1) / math.sqrt(chains))
    assert np.abs(z).max() < LIMIT, f"z = {np.round(z, 1)}"


@pytest.mark.parametrize(
    "kinds",
    [
        (WALK_GIVEN_U, WALK, JUMP),
        pytest.param((WALK,), marks=pytest.mark.full),
        pytest.param((JUMP,), marks=pytest.mark.full),
    ],
    ids=str,
)
def test_the_chain_draws_from_its_target(kinds):
    check_chain(kinds)


# A planted bug runs as plain Python: as few chains as show it.
BUGS = {
    "the ratio of the formula left out": (
        1000,
        Edit(ExploringJump, "propose", "return before - after", "return 0.0"),
    ),
    "the offset moves with the chain": (
        CHAINS,
        Edit(
            ExploringJump,
            "propose",
            "proposed[:] = v",
            "proposed[:] = v\n        self.noise.offset[:] += 0.05 * self.total(v)",
        ),
    ),
    "log pi* of the last proposal, not of the end": (
        CHAINS,
        Edit(module, "explore", "return before, now", "return before, there"),
    ),
    "the ratio of a jump left out of the steps with the formula": (
        1000,
        Edit(module, "explore", "there - now + log_q", "there - now"),
    ),
}


@pytest.mark.parametrize("bug", only(["the ratio of the formula left out"], BUGS))
def test_planted_bugs(bug):
    chains, edit = BUGS[bug]
    with planted(edit), pytest.raises(AssertionError, match="z ="):
        check_chain(chains=chains)


# ------------------------------------------------------------------ the chain that moves n

SIZES, SPAN, LEAN = na.sizes.NegativeBinomial(10.0, 1.0), 16, np.array([1.2, -0.9])
NUMBERS, WIDER = range(5, SPAN + 1), 3.0


def sized_setting():
    """The same release with more noise, n in 5 to 16, and the row, as it is for 10 records."""
    target, _ = setting()
    mechanism = na.mechanisms.Laplace(target.release.query, scale=WIDER)
    release = na.Release(target.values, mechanism, None)
    row = np.random.default_rng(7).standard_normal((SPAN, 2))
    return Target(target.model, release, SIZES), row


def database(row, n):
    """The row as it is for n records, and what its density adds to the log of the target."""
    d = row[:10].mean(axis=0) + LEAN * math.log(n / 10) - row[:n].mean(axis=0)
    return row + d, -0.5 * float(((row + d) ** 2).sum())


@functools.cache
def sized_table():
    """Return points (theta, n) of a grid and their probabilities, by NumPy."""
    _, row = sized_setting()
    side = np.linspace(-7.0, 7.0, 141)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = []
    for n in NUMBERS:
        u, log_row = database(row, n)
        x = np.broadcast_to(0.5 + u[:n, 0], (len(grid), n))
        y = grid[:, :1] + grid[:, 1:] * x + u[:n, 1]
        x, y = np.clip(x / 1.5, -1, 1), np.clip(y / 1.5, -1, 1)
        total = np.stack([y, x * y, y * y, x, x * x]).sum(axis=-1).T
        log_g = -np.abs(total - [1.0, 2.5, 4.0, 2.0, 3.0]).sum(axis=1) / WIDER
        logs.append(log_g - 0.5 * (grid**2).sum(axis=1) / 1.5**2 + SIZES.log_pmf(n) + log_row)
    weight = np.exp(np.array(logs) - np.max(logs))
    points = np.concatenate([np.column_stack([grid, np.full(len(grid), n)]) for n in NUMBERS])
    return points, weight.reshape(-1) / weight.sum()


def sized_functions(points):
    a, b, n = points.T
    return np.stack([a, b, n, n * n, a * n, b * n, a * a, (n > 10).astype(float)], axis=-1)


class Held:
    """A law of innovations that draws the rest of the row that is held."""

    width, kind, row = 2, "normal", np.zeros((0, 2))

    def draw(self, m, rng):
        return np.concatenate([self.row, np.full((m, 2), np.nan)])[:m]


def check_sized(chains=CHAINS):
    """Raise unless the formula, with the row held, leaves p(theta, n | row, s_dp) invariant."""
    target, row = sized_setting()
    rng = np.random.default_rng(SEED)
    points, probabilities = sized_table()
    starts = points[rng.choice(len(points), chains, p=probabilities)]
    starts[:, :2] += rng.uniform(-0.05, 0.05, (chains, 2))
    state = ChainState({"coefficients": np.zeros(2)}, np.empty((10, 2)), None, rng)
    tuning = Transport().start(target, state)
    jump = tuning["proposals"][-1]
    at = np.column_stack([points[:, :2], np.log(points[:, 2] + 0.5)])
    jump.set_geometry(Geometry(at[rng.choice(len(at), 500, p=probabilities)]))
    jump.lowest, jump.span, jump.formula_steps = NUMBERS[0], SPAN, 5
    wider = jump.noise.terms.parameters * [1.0, 0.5, 1.0, 1.0]
    jump.noise = jump.noise._replace(terms=jump.noise.terms._replace(parameters=wider))
    law, ends, moved = Held(), np.empty_like(starts), 0
    for k, (a, b, n) in enumerate(starts):
        u, _ = database(row, int(n))
        state.theta, law.row = {"coefficients": np.array([a, b])}, u[int(n) :]
        state.set_records(target.build(state.theta, u[: int(n)]), None)
        here = Position(target, state, LEAN, SPAN)
        here.row.innovations = law
        here.find_v()
        prepared, waits = jump.prepare(STEPS, rng), rng.standard_exponential(STEPS)
        for step in range(STEPS):
            jump.condition_on(target, here.row)
            if -waits[step] < here.propose(jump, prepared, step, rng):
                here.accept()
                moved += 1
        here.put_into(state)
        ends[k] = *state.theta["coefficients"], len(state.records)
    assert 0.05 < moved / (chains * STEPS) < 0.95
    values = sized_functions(ends)
    exact = probabilities @ sized_functions(points)
    z = (values.mean(axis=0) - exact) / (values.std(axis=0, ddof=1) / math.sqrt(chains))
    assert np.abs(z).max() < LIMIT, f"z = {np.round(z, 1)}"


def test_the_chain_that_moves_n_draws_from_its_target():
    """|z| < 5.8 for each of eight means: below 8 x 7e-9 = 6e-8."""
    check_sized()


SIZED_BUGS = {
    "no Jacobian of log w": (
        3 * CHAINS,
        Edit(SizedCoordinates, "from_vector", "log_jacobian + v[-1]", "log_jacobian"),
    ),
    "no density of the row": (
        CHAINS,
        Edit(
            row_module.Row,
            "first",
            "self.shift, self.log_factor = carry",
            "self.shift, _ = carry",
        ),
    ),
    "the row moves by halves": (
        2 * CHAINS,
        Edit(row_module.Row, "accept", "max(self.n, self.n_new, self.span)", "self.n"),
    ),
    "an offset that depends on where the chain is": (
        2 * CHAINS,
        Edit(module.RegressionJump, "reference", "return row.first(n)", "return row.own()"),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("bug", SIZED_BUGS)
def test_planted_bugs_of_the_chain_that_moves_n(bug):
    chains, edit = SIZED_BUGS[bug]
    with planted(edit), pytest.raises(AssertionError, match="z ="):
        check_sized(chains)


def test_the_sums_of_another_number_are_those_of_its_records():
    """`resize` against the sums of the database itself, to rounding, where all n are taken."""
    target, row = sized_setting()
    jump = make_proposals(target, target.moved)[-1]
    jump.lowest, jump.span, jump.mean = NUMBERS[0], SPAN, np.array([0.0, 0.0, math.log(10.5)])
    held = Row(row, target.abilities.innovations, None, LEAN, SPAN)
    held.n = 10
    jump.reference(held)
    for n in NUMBERS:
        summary = np.empty((3, 3))
        log_density = module.resize(jump.sizes, math.log(n + 0.25), summary)
        u, log_row = database(row, n)
        np.testing.assert_allclose(summary, jump.formula.summarise(u[:n]), rtol=1e-12)
        expected = SIZES.log_pmf(n) + math.log(n + 0.25) + log_row + 0.5 * float((row**2).sum())
        assert math.isclose(log_density, expected, rel_tol=1e-12)


def clamped_moments(mean, covariance):
    """Return E c(z) and E c(z) c(z)', z normal in two dimensions, by summing over a fine grid."""
    width = 0.015
    x = np.arange(-7.5 + width / 2, 7.5, width)
    weights = width * np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    root = np.linalg.cholesky(covariance)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(weights, weights).reshape(-1)
    c = np.clip(grid @ root.T + mean, -1.0, 1.0)
    return weight @ c, (weight[:, None] * c).T @ c


def test_clamped_sums_stand_in_their_places():
    """Four columns, against draws that are clamped one by one; 2e-2 is what the series leaves."""
    rng = np.random.default_rng(SEED)
    p, n = 3, 200_000
    query = na.queries.RegressionMoments(p, -1.0, 1.0)
    root = np.tril(rng.uniform(-0.5, 0.5, (4, 4))) + 0.4 * np.eye(4)
    mean = np.array([0.6, -0.5, 0.2, -0.7])
    z = rng.standard_normal((n, 4)) @ root.T + mean
    wide = na.queries.RegressionMoments(p, -100.0, 100.0)
    # Sums of scaled records; `wide` scales by 1 / 100 and clamps nothing.
    unclamped = wide.statistic(z).mean(axis=0) * 100.0**2
    unclamped[[0, *range(p + 2, 2 * p + 2)]] /= 100.0  # the plain sums
    total = np.empty(len(unclamped))
    formulas.clamped(1.0, unclamped, np.empty((p + 1, 5)), total)
    exact = query.statistic(z).mean(axis=0)
    assert np.abs(total - exact).max() < 2e-2
    assert len(np.unique(np.round(exact, 2))) > 10  # a sum in another's place would be seen


OPEN = {
    "regression": (
        na.models.LinearRegression(1),
        na.mechanisms.Laplace(na.queries.RegressionMoments(1, -2.0, 2.0), scale=2.0),
        [0.0, 3.5, 40.0, 0.0, 7.2],
    ),
    "naive Bayes": (
        na.models.NaiveBayes(2, [2]),
        na.mechanisms.DiscreteGaussian(na.queries.ClassFeatureCounts(2, [2]), scale=2.0),
        [0, 40, 3, 0],
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", OPEN)
def test_a_release_that_is_open_below(name):
    """Where a release says no more than "at most", there is a jump, and its ratio is no NaN."""
    model, noise, values = OPEN[name]
    rng = np.random.default_rng(SEED)
    release = na.Release(values, na.mechanisms.Clamped(noise, 0, 40), 20)
    target = Target(model, release)
    theta = target.sample_prior(rng)
    state = ChainState(theta, model.sample_records(theta, 20, rng), None, rng)
    jump = Transport().start(target, state)["proposals"][-1]
    assert isinstance(jump, ExploringJump)
    jump.condition_on(target, Row(target.recover(state), target.abilities.innovations, None))
    proposed = np.empty(target.coordinates.size)
    v = target.coordinates.to_vector(theta)
    assert math.isfinite(jump.propose(v, jump.prepare(1, rng), 0, proposed))


def check_clamped(mean, covariance, tolerance):
    """Raise unless the sums of clamped normal records are those of `clamped_moments`."""
    n = 50.0
    square = covariance + np.outer(mean, mean)
    # One feature and y: y, x y, y^2, x, x^2.
    unclamped = n * np.array([mean[1], square[0, 1], square[1, 1], mean[0], square[0, 0]])
    first, second = clamped_moments(mean, covariance)
    exact = np.array([first[1], second[0, 1], second[1, 1], first[0], second[0, 0]])
    for function in (formulas.clamped, formulas.clamped.py_func):
        total = np.empty(5)
        function(n, unclamped, np.empty((2, 5)), total)
        off = np.abs(total / n - exact)
        assert off[[0, 2, 3, 4]].max() < 1e-4, off
        assert off[1] < tolerance, off


CLAMPED = [
    # mean, standard deviations, correlation, how far off the series in the covariance may be
    ([0.0, 0.0], [0.1, 0.15], 0.9, 1e-6),
    ([0.3, -0.4], [0.4, 0.5], 0.5, 4e-4),
    ([1.5, 0.2], [0.6, 2.0], -0.6, 6e-3),
    ([-0.8, 0.9], [3.0, 0.3], 0.3, 4e-4),
]


def check_all_clamped():
    for mean, sd, correlation, tolerance in CLAMPED:
        covariance = np.outer(sd, sd) * np.array([[1.0, correlation], [correlation, 1.0]])
        check_clamped(np.array(mean), covariance, tolerance)


def test_clamped_normal_records():
    check_all_clamped()


CLAMPED_BUGS = {
    "P left out of a covariance": ("_clamp_two", "moments[j, 3] * moments[k, 3]", "moments[j, 3]"),
    "the second term of the series": ("_clamp_two", "0.5 * covariance", "1.5 * covariance"),
    "the spikes left out of a square": ("_clamp_one", "2.0 * mean * s * spikes", "0.0"),
    "the upper bound left out": ("_clamp_one", "above - below + mean", "-below + mean"),
}


@pytest.mark.parametrize("bug", CLAMPED_BUGS)
def test_planted_bugs_of_clamped_records(bug):
    name, old, new = CLAMPED_BUGS[bug]
    with planted(Edit(formulas, name, old, new)), pytest.raises(AssertionError):
        check_all_clamped()


def test_clamping_brings_the_formula_to_the_records():
    """What clamping adds to the formula makes it much closer to T, where bounds clamp."""
    target, u = setting()
    rng = np.random.default_rng(SEED)
    theta = {"coefficients": np.array([0.5, 0.5])}
    state = ChainState(theta, target.build(theta, u), None, rng)
    jump = Transport().start(target, state)["proposals"][-1]
    jump.condition_on(target, Row(u, target.abilities.innovations, None))
    points = 0.5 + 0.6 * rng.standard_normal((200, 2))
    totals = np.stack([target.total(target.build({"coefficients": v}, u)) for v in points])
    without, with_it = (
        np.stack([jump.formula.totals(jump._natural(v), jump.summary)[which] for v in points])
        - totals
        for which in (0, 1)
    )
    assert (with_it**2).sum() < 0.1 * (without**2).sum()
