"""The transport move: its coordinates, its proposals, its ratio, and what it leaves invariant."""

import copy
import itertools
import math

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import special, stats

import noiseaware as na
from exact.enumeration import Scripted, threshold
from exact.known import BetaMixture, Gauss, assert_draws_agree, sampled
from exact.transport import (
    FiniteTheta,
    Told,
    check_finite,
    check_ratios,
    frozen,
    laws_of,
    log_q,
)
from later import all_but
from noiseaware.maths import coordinates
from noiseaware.maths.coordinates import Coordinates
from noiseaware.sampler import chain
from noiseaware.sampler.moves import proposals
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

# ------------------------------------------------------------------ coordinates

PARAMETERS = {
    "real": na.Parameter("real", (2,), "real"),
    "positive": na.Parameter("positive", (2,), "positive"),
    "unit": na.Parameter("unit", (), "unit"),
    "simplex": na.Parameter("simplex", (2, 3), "simplex"),
    "table": na.Parameter("table", (2, 3), "table"),
    "covariance": na.Parameter("covariance", (3, 3), "covariance"),
}


def free_entries(parameter, value):
    """The entries that a density is with respect to: all, but for a simplex and a covariance."""
    if parameter.support == "simplex":
        return value[..., :-1].ravel()
    if parameter.support == "table":
        return value.ravel()[:-1]
    if parameter.support == "covariance":
        return value[np.tril_indices(len(value))]
    return np.ravel(value)


def check_jacobian(names):
    """The log Jacobian against differences: central, extrapolated once, exact to about 1e-9."""
    parameters = tuple(PARAMETERS[name] for name in names)
    maps = Coordinates(parameters)

    def theta(v):
        found = maps.from_vector(v)[0]
        return np.concatenate([free_entries(p, found[p.name]) for p in parameters])

    rng = np.random.default_rng(1)
    for _ in range(3):
        v = rng.normal(size=maps.size)
        columns = []
        for j in range(maps.size):
            step = np.zeros(maps.size)
            step[j] = 1e-3
            coarse = (theta(v + 2 * step) - theta(v - 2 * step)) / 4e-3
            fine = (theta(v + step) - theta(v - step)) / 2e-3
            columns.append((4 * fine - coarse) / 3)
        sign, log_determinant = np.linalg.slogdet(np.column_stack(columns))
        assert sign != 0
        assert maps.from_vector(v)[1] == pytest.approx(log_determinant, abs=1e-7)


def check_round_trip(names):
    """theta(v) is in its support, and v comes back; and theta comes back from its v."""
    parameters = tuple(PARAMETERS[name] for name in names)
    maps = Coordinates(parameters)
    rng = np.random.default_rng(2)
    for _ in range(5):
        v = 1.5 * rng.normal(size=maps.size)
        theta, _ = maps.from_vector(v)
        np.testing.assert_allclose(maps.to_vector(theta), v, rtol=0, atol=1e-9)
        again, _ = maps.from_vector(maps.to_vector(theta))
        for parameter in parameters:
            value = theta[parameter.name]
            assert value.shape == parameter.shape
            np.testing.assert_allclose(again[parameter.name], value, rtol=1e-9)
            if parameter.support in ("positive", "unit", "simplex", "table"):
                assert (value > 0).all()
            if parameter.support == "unit":
                assert (value < 1).all()
            if parameter.support == "simplex":
                np.testing.assert_allclose(value.sum(axis=-1), 1.0, rtol=1e-12)
            if parameter.support == "table":
                assert value.sum() == pytest.approx(1.0, rel=1e-12)
            if parameter.support == "covariance":
                np.testing.assert_array_equal(value, value.T)
                assert (np.linalg.eigvalsh(value) > 0).all()


@pytest.mark.parametrize("names", [*[(name,) for name in PARAMETERS], tuple(PARAMETERS)])
def test_coordinates(names):
    check_round_trip(names)
    check_jacobian(names)


def test_the_compiled_maps_are_their_python_selves():
    maps = Coordinates(tuple(PARAMETERS.values()))
    v = np.random.default_rng(3).normal(size=maps.size)
    compiled, plain = np.empty((2, 2 + 2 + 1 + 6 + 6 + 9))
    log_jacobian = coordinates.constrain(maps.layout, v, compiled)
    assert coordinates.constrain.py_func(maps.layout, v, plain) == pytest.approx(log_jacobian)
    np.testing.assert_allclose(plain, compiled, rtol=1e-12)


def test_blocks_are_a_partition():
    maps = Coordinates(tuple(PARAMETERS.values()))
    for largest in (1, 2, 3, 6, 100):
        together = np.concatenate(maps.blocks(largest))
        np.testing.assert_array_equal(np.sort(together), np.arange(maps.size))


# ------------------------------------------------------------------ proposals

INDEX = np.array([0, 2, 3])
MEAN = np.array([0.5, 9.0, -1.0, 2.0])
COVARIANCE = np.array(
    [[1.0, 0.1, 0.4, 0.0], [0.1, 2.0, 0.3, 0.2], [0.4, 0.3, 1.5, -0.6], [0.0, 0.2, -0.6, 0.8]]
)
BLOCK = np.ix_(INDEX, INDEX)


WIDE_MEAN = np.array([-2.0, 5.0, 3.0, 0.5])
WIDE = np.diag([9.0, 4.0, 16.0, 25.0]) + 0.5


class Shape:
    """What a proposal reads of a geometry."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = mean, covariance


def fitted(proposal):
    """Give a proposal its geometries, as warm-up would: that of the prior first."""
    for shape in (Shape(WIDE_MEAN, WIDE), Shape(MEAN + 1.0, WIDE), Shape(MEAN, COVARIANCE)):
        proposal.set_geometry(shape)
    return proposal


def proposed_from(proposal, v, prepared):
    """Where a proposal goes, and the log ratio that it returns."""
    there = np.full(len(v), np.nan)
    log_q = proposal.propose(v, prepared, 0, there)
    return there, log_q


def check_walk():
    """The step is v' = v + size L z: the reverse step has -z, and so the same density."""
    proposal = fitted(proposals.Walk(INDEX, 0, given_u=False))
    proposal.step_size.size = 0.7
    rng = np.random.default_rng(4)
    v = rng.normal(size=4)
    for _ in range(20):
        normals, sizes = proposal.prepare(1, rng)
        there, log_q = proposed_from(proposal, v, (normals, sizes))
        assert log_q == 0.0
        assert there[1] == v[1], "only the block moves"
        step = sizes[0] * np.linalg.cholesky(COVARIANCE[BLOCK]) @ normals[0, :3]
        np.testing.assert_allclose(there[INDEX] - v[INDEX], step, rtol=1e-10)
        back, _ = proposed_from(proposal, there, (-normals, sizes))
        np.testing.assert_allclose(back, v, rtol=0, atol=1e-10)


PARTS = [INDEX, np.array([0]), np.array([3, 2])]
LAWS = [
    laws_of(
        [MEAN[part], WIDE_MEAN[part]],
        [COVARIANCE[np.ix_(part, part)], WIDE[np.ix_(part, part)]],
        share,
    )
    for part, share in zip(PARTS, [proposals.PRIOR_SHARE, 0.5, 0.5], strict=True)
]


def jump_of_parts():
    return fitted(proposals.Jump(INDEX, 0, PARTS[1:]))


def check_jump():
    """A jump of a block or a part is a mixture of two multivariate t; the ratio is q(v) / q(v')."""
    proposal = jump_of_parts()
    rng = np.random.default_rng(5)
    v = rng.normal(size=4)
    for part, law in [*itertools.product([0, 1, 2], [0, 1])] * 4:
        normals, radius, _, _ = proposal.prepare(1, rng)
        there, ratio = proposed_from(proposal, v, (normals, radius, [part], [law]))
        moved = np.flatnonzero(there != v)
        np.testing.assert_array_equal(moved, np.sort(PARTS[part]))
        expected = log_q(LAWS[part], v[PARTS[part]]) - log_q(LAWS[part], there[PARTS[part]])
        assert ratio == pytest.approx(expected, abs=1e-10)
        if part == 0:
            density = proposal.log_density(v) - proposal.log_density(there)
            assert density == pytest.approx(expected, abs=1e-10)
        v = there


def check_jump_draws():
    """Parts and laws have their shares (binomial); squared distances over k are F(k, dof) (K-S).

    False alarms: 1e-6 for each of 11 tests.
    """
    proposal = jump_of_parts()
    m = 20_000
    prepared = proposal.prepare(m, np.random.default_rng(6))
    part, law = np.array(prepared[2]), np.array(prepared[3])
    v, distances = np.empty(4), np.empty(m)
    for k in range(m):
        proposal.propose(MEAN, prepared, k, v)
        laws, index = LAWS[part[k]], PARTS[part[k]]
        z = np.linalg.solve(laws.factors[law[k]], v[index] - laws.means[law[k]])
        distances[k] = z @ z / len(index)
    for j, index in enumerate(PARTS):
        own = part == j
        share = proposals.PART_SHARE / 2 if j else 1 - proposals.PART_SHARE
        assert stats.binomtest(int(own.sum()), m, share).pvalue > 1e-6
        share = 0.5 if j else proposals.PRIOR_SHARE
        assert stats.binomtest(int(law[own].sum()), int(own.sum()), share).pvalue > 1e-6
        for which in (0, 1):
            found = distances[own & (law == which)]
            assert stats.kstest(found, stats.f(len(index), proposals.DOF).cdf).pvalue > 1e-6


def test_walk_is_symmetric():
    check_walk()


def test_jump_returns_the_ratio_of_its_density():
    check_jump()


def test_jump_draws_from_its_density():
    check_jump_draws()


# ------------------------------------------------------------------ the joint posterior

# Proposal probabilities between points; not symmetric, so that the ratio of q counts.
TABLE = np.array([[0.1, 0.5, 0.4], [0.3, 0.2, 0.5], [0.6, 0.3, 0.1]])


class OfThree(na.models.Bernoulli):
    """A Bernoulli model whose prior is on three points: what PriorJump draws is scripted."""

    probabilities = np.array([0.15, 0.4, 0.85])
    weights = np.array([0.5, 0.2, 0.3])

    def sample_prior(self, rng):
        return copy.deepcopy(self.next_theta)

    next_theta = {"probability": np.array(0.4)}  # noqa: RUF012


def bernoulli_example(model, log_prior, p=OfThree.probabilities):
    """Two records, a count with Laplace noise, theta at three points, or at others."""
    return FiniteTheta(
        model=model,
        release=na.Release([1.7], na.mechanisms.Laplace(na.queries.Count(), scale=0.6), 2),
        thetas=[{"probability": np.array(each)} for each in p],
        points=special.logit(p)[:, None],
        log_prior=log_prior,
        f=np.column_stack([p, 1 - p]),
        values=np.array([1, 0]),
        log_g=lambda x: -abs(1.7 - float((x == 1).sum())) / 0.6,
    )


def check_bernoulli_transport():
    """Theta and two records, u integrated exactly. The prior is Beta(2, 5): p J = p^2 (1 - p)^5."""
    p = OfThree.probabilities
    log_prior = 2 * np.log(p) + 5 * np.log1p(-p)
    check_finite(bernoulli_example(na.models.Bernoulli(2.0, 5.0), log_prior), TABLE)


def check_prior_jump():
    """q is the prior, of which no density is asked: the ratio is that of g alone."""
    weights = OfThree.weights
    example = bernoulli_example(OfThree(), np.log(weights))
    check_finite(example, np.tile(weights, (3, 1)), from_prior=True)


def check_mirror_image():
    """0.15 and 0.85 are mirror images of one another around v = 0; two records, Beta(2, 5)."""
    p = OfThree.probabilities[[0, 2]]
    example = bernoulli_example(na.models.Bernoulli(2.0, 5.0), 2 * np.log(p) + 5 * np.log1p(-p), p)
    check_finite(example, np.array([[0.0, 1.0], [1.0, 0.0]]), image=True)


def check_categorical_transport():
    """Three levels, two records; the prior is Dirichlet(a), and p J = prod_j p_j^a_j."""
    p = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.25, 0.25, 0.5]])
    a = np.array([2.0, 0.8, 3.0])
    values = np.array([2.4, -0.3, 0.6])
    mechanism = na.mechanisms.Gaussian(na.queries.Histogram(n_levels=3), scale=0.9)

    def log_g(x):
        counts = np.array([(x == level).sum() for level in range(3)])
        return -0.5 * float((((values - counts) / 0.9) ** 2).sum())

    example = FiniteTheta(
        model=na.models.Categorical(3, a),
        release=na.Release(values, mechanism, 2),
        thetas=[{"probabilities": each.copy()} for each in p],
        points=np.log(p[:, :2] / p[:, 2:]),
        log_prior=(a * np.log(p)).sum(axis=1),
        f=p,
        values=np.arange(3),
        log_g=log_g,
    )
    check_finite(example, TABLE)


def check_after_prior_jump():
    """A step after a jump from the prior starts from where that went, in all of its ratio."""
    model = OfThree(2.0, 5.0)
    example = bernoulli_example(model, np.zeros(3))
    target = Target(model, example.release)
    move = na.moves.Transport(steps=1)
    tuning = frozen(move, target, example.thetas[0])
    tuning["proposals"] = [proposals.PriorJump(), Told([example.points[2]], [0.2])]
    tuning["steps"] = [1, 1]
    model.next_theta = example.thetas[0]
    p = OfThree.probabilities
    # Two ones at p = 0.4, from u = 0.4 * 0.15 and 0.4 * 0.8. At p = 0.15 the second is a zero, and
    # the jump there can be rejected.
    u = np.array([0.06, 0.32])
    at = [
        2 * math.log(each) + 5 * math.log1p(-each) + example.log_g((u < each).astype(int))
        for each in p
    ]
    for first in (True, False):

        def accepts(exponential, first=first):
            rng = Scripted(
                random=[[0.15, 0.8]],
                standard_exponential=[[64.0 if first else 0.0], [exponential]],
            )
            state = ChainState(example.thetas[1], np.array([1, 1]), None, rng)
            (share,) = move.step(target, state, tuning)
            assert rng.spent
            return round(2 * share) == 1 + first

        now = 0 if first else 1
        expected = math.exp(min(0.0, at[2] - at[now] + 0.2))
        assert expected < 1
        assert threshold(accepts) == pytest.approx(expected, rel=1e-9)


def test_a_step_after_a_prior_jump():
    check_after_prior_jump()


def test_bernoulli_and_theta_together():
    check_bernoulli_transport()


def test_prior_jump():
    check_prior_jump()


def test_mirror_image():
    check_mirror_image()


def test_categorical_and_theta_together():
    check_categorical_transport()


# ------------------------------------------------------------------ the ratio of a whole step


def check_normal_ratio():
    """Mean and variance unknown: p(mean) p(v) v, and g of the rebuilt records."""
    model = na.models.Normal(mean_mean=0.5, mean_sd=2.0, variance_shape=3.0, variance_scale=2.0)
    mechanism = na.mechanisms.Laplace(na.queries.Sum(-1.0, 2.0), scale=1.5)
    target = Target(model, na.Release([3.0], mechanism, 4))
    theta = [
        {"mean": np.array(m), "variance": np.array(v)}
        for m, v in [(0.3, 1.4), (0.9, 2.2), (-0.4, 0.7), (1.5, 1.1)]
    ]
    records = np.array([0.1, 2.5, -1.7, 0.6])
    u = ((records - 0.3) / math.sqrt(1.4))[:, None]

    def log_target(at, u):
        m, v = float(at["mean"]), float(at["variance"])
        total = np.clip(m + math.sqrt(v) * u[:, 0], -1.0, 2.0).sum()
        return (
            stats.norm.logpdf(m, 0.5, 2.0)
            + stats.invgamma.logpdf(v, 3.0, scale=2.0)
            + math.log(v)
            - abs(3.0 - total) / 1.5
        )

    check_ratios(target, theta, log_target, records, list, u)


def check_regression_ratio():
    """Everything unknown, a covariance among it: densities by scipy, the Jacobian by hand."""
    query = na.queries.RegressionMoments(2, lower=-3, upper=3)
    values = np.linspace(-1, 2, 9)
    target = Target(
        na.models.LinearRegression(2),
        na.Release(values, na.mechanisms.Gaussian(query, scale=2.5), 5),
    )
    rng = np.random.default_rng(7)

    def draw(k):
        a = 0.4 * rng.normal(size=(2, 2))
        return {
            "coefficients": 0.5 * rng.normal(size=3),
            "noise_variance": np.array(1.0 + 0.3 * k),
            "feature_mean": 0.3 * rng.normal(size=2),
            "feature_covariance": np.eye(2) * (1 + 0.2 * k) + a @ a.T,
        }

    theta = [draw(k) for k in range(3)]
    u = rng.normal(size=(5, 3))

    def build(at, u):
        x = at["feature_mean"] + u[:, :2] @ np.linalg.cholesky(at["feature_covariance"]).T
        y = at["coefficients"][0] + x @ at["coefficients"][1:]
        return np.column_stack([x, y + math.sqrt(at["noise_variance"]) * u[:, 2]])

    def log_target(at, u):
        x1, x2, y = np.clip(build(at, u) / 3, -1, 1).T
        t = [y, x1 * y, x2 * y, y * y, x1, x2, x1 * x1, x1 * x2, x2 * x2]
        errors = (values - np.array([column.sum() for column in t])) / 2.5
        diagonal = np.diag(np.linalg.cholesky(at["feature_covariance"]))
        covariance = stats.invwishart.logpdf(at["feature_covariance"], df=5, scale=2 * np.eye(2))
        log_jacobian = 3 * math.log(diagonal[0]) + 2 * math.log(diagonal[1])
        return (
            stats.norm.logpdf(at["coefficients"], scale=2.0).sum()
            + stats.norm.logpdf(at["feature_mean"], scale=2.0).sum()
            + stats.invgamma.logpdf(float(at["noise_variance"]), 3.0, scale=4.0)
            + math.log(at["noise_variance"])
            + covariance
            + log_jacobian
            - 0.5 * float((errors**2).sum())
        )

    check_ratios(target, theta, log_target, build(theta[0], u), list, u)


def check_naive_bayes_ratio():
    """Discrete records of several entries; u is what the scripted uniforms make of them."""
    query = na.queries.ClassFeatureCounts(2, [2, 3])
    model = na.models.NaiveBayes(2, [2, 3], concentration=1.6)
    values = np.array([2.0, 0.5, 1.0, 0.0, 1.5, 0.2, 1.0, 0.7, 0.1, 0.4])
    target = Target(model, na.Release(values, na.mechanisms.Laplace(query, scale=1.1), 3))
    rng = np.random.default_rng(8)
    theta = [
        {
            "class_probabilities": rng.dirichlet([3, 3]),
            "feature_probabilities_1": rng.dirichlet([3, 3], size=2),
            "feature_probabilities_2": rng.dirichlet([3, 3, 3], size=2),
        }
        for _ in range(3)
    ]

    def rows(at, c):
        return [at["feature_probabilities_1"][c], at["feature_probabilities_2"][c]]

    def build(at, u):
        found = []
        for row in u:
            c = int(np.searchsorted(np.cumsum(at["class_probabilities"])[:-1], row[0], "right"))
            levels = [
                int(np.searchsorted(np.cumsum(p)[:-1], each, "right"))
                for p, each in zip(rows(at, c), row[1:], strict=True)
            ]
            found.append([c, *levels])
        return np.array(found)

    def log_target(at, u):
        total = np.zeros(10)
        for c, a, b in build(at, u):
            total[5 * c + a] += 1
            total[5 * c + 2 + b] += 1
        # Dirichlet(1.6) density times the product of the entries, which is the Jacobian.
        log_prior = 1.6 * sum(float(np.log(value).sum()) for value in at.values())
        return log_prior - float(np.abs(values - total).sum()) / 1.1

    uniforms = rng.random((3, 3))
    records = np.array([[0, 1, 2], [1, 0, 0], [0, 0, 1]])
    u = np.empty((3, 3))
    for i, (c, *levels) in enumerate(records):
        all_rows = [theta[0]["class_probabilities"], *rows(theta[0], c)]
        for k, (p, level) in enumerate(zip(all_rows, (c, *levels), strict=True)):
            u[i, k] = p[:level].sum() + uniforms[i, k] * p[level]
    np.testing.assert_array_equal(build(theta[0], u), records)
    check_ratios(target, theta, log_target, records, lambda: [uniforms], u)


def test_ratio_with_a_real_and_a_positive_parameter():
    check_normal_ratio()


def test_ratio_with_a_covariance():
    check_regression_ratio()


def test_ratio_with_simplexes():
    check_naive_bayes_ratio()


# ------------------------------------------------------------------ adaptation


def plain(thing):
    """A tuning as nested tuples, so that two can be compared."""
    if isinstance(thing, dict):
        return tuple((key, plain(value)) for key, value in sorted(thing.items()))
    if isinstance(thing, list | tuple):
        return tuple(plain(value) for value in thing)
    if isinstance(thing, np.ndarray):
        return (thing.shape, tuple(thing.ravel().tolist()))
    if hasattr(thing, "__dict__"):
        scratch = getattr(thing, "scratch", ())  # where the chain is, not what it learned
        learned = {key: value for key, value in vars(thing).items() if key not in scratch}
        return (type(thing).__name__, plain(learned))
    return thing


def check_frozen():
    """Nothing that the moves learned changes after warm-up."""
    mechanism = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    target = Target(na.models.Bernoulli(), na.Release([4.0], mechanism, 10))
    moves = (na.moves.ParameterUpdate(), na.moves.Transport(steps=1), na.moves.RecordSweep())
    schedule = chain.Schedule(warmup=70, draws=100)
    state = chain.start(target, moves, np.random.default_rng(9))
    before = plain(state.tunings[1]["proposals"])
    state, _ = chain.advance(target, moves, schedule, state, 70)
    learned = plain(state.tunings[1]["proposals"])
    assert learned != before, "there was something to learn"
    state, _ = chain.advance(target, moves, schedule, state, 100)
    assert plain(state.tunings[1]["proposals"]) == learned, "adaptation went on after warm-up"


def test_adaptation_ends_with_warm_up():
    check_frozen()


# ------------------------------------------------------------------ models that are only simulators


class Simulator:
    """A prior and x = mean + sd u: nothing else."""

    parameters = (na.Parameter("mean"),)
    innovations = na.Innovations("normal", 1)

    def sample_prior(self, rng):
        return {"mean": np.array(1.0 + 2.0 * rng.standard_normal())}

    def log_prior(self, theta):
        return -0.5 * ((float(theta["mean"]) - 1.0) / 2.0) ** 2

    def build_records(self, theta, innovations):
        return theta["mean"] + math.sqrt(1.5) * innovations[:, 0]


class Coins:
    """A prior Beta(2, 3.5) and x = 1[u < p], the innovations held by the chain."""

    parameters = (na.Parameter("probability", (), "unit"),)
    innovations = na.Innovations("uniform", 1)

    def sample_prior(self, rng):
        return {"probability": np.array(rng.beta(2.0, 3.5))}

    def log_prior(self, theta):
        p = float(theta["probability"])
        return math.log(p) + 2.5 * math.log1p(-p) if 0 < p < 1 else -math.inf

    def build_records(self, theta, innovations):
        return (innovations[:, 0] < float(theta["probability"])).astype(np.int64)


def simulator_moves():
    return (na.moves.Transport(steps=1), na.moves.RecordSweep())


def check_simulator(moves=simulator_moves):
    """The closed form of `test_closed_forms.check_normal_mean`, with no kernel for p(theta | x)."""
    release = na.Release([14.0], na.mechanisms.Gaussian(na.queries.Sum(-200, 200), scale=3.0), 8)
    noise = 8 * 1.5 + 9.0
    precision = 0.25 + 64 / noise
    exact = Gauss((1.0 * 0.25 + 8 * 14.0 / noise) / precision, 1 / precision)
    tree = sampled(Simulator(), release, moves(), stream=11)
    assert_draws_agree({"mean": exact}, lambda name: tree["posterior"][name].values)


def check_discrete_simulator(moves=simulator_moves):
    """A beta mixture over the count, as in `test_closed_forms.check_bernoulli`."""
    k = np.arange(13)
    weights = stats.betabinom.pmf(k, 12, 2.0, 3.5) * np.exp(-np.abs(10.3 - k) / 1.3)
    exact = BetaMixture(weights, 2.0 + k, 3.5 + 12 - k)
    release = na.Release([10.3], na.mechanisms.Laplace(na.queries.Count(), scale=1.3), 12)
    tree = sampled(Coins(), release, moves(), stream=12)
    assert_draws_agree({"probability": exact}, lambda name: tree["posterior"][name].values)


def default_moves():
    return None


@pytest.mark.parametrize("moves", all_but([simulator_moves], [simulator_moves, default_moves]))
def test_simulator_only(moves):
    check_simulator(moves)


@pytest.mark.parametrize("moves", all_but([default_moves], [simulator_moves, default_moves]))
def test_discrete_simulator_only(moves):
    check_discrete_simulator(moves)


def check_held_innovations():
    """A sweep over a simulator's records keeps records = F(u; theta), record by record."""
    release = na.Release([3.0], na.mechanisms.Laplace(na.queries.Sum(-3, 3), scale=0.4), 6)
    target = Target(Simulator(), release)
    moves = simulator_moves()
    state = chain.start(target, moves, np.random.default_rng(10))
    state, _ = chain.advance(target, moves, chain.Schedule(40, 20), state, 60)
    rebuilt = target.model.build_records(state.theta, state.innovations)
    np.testing.assert_allclose(state.records, rebuilt, rtol=1e-12)
    assert 0 < state.acceptance.sum() < 6 * 20, "some were accepted and some were not"


def test_innovations_follow_the_records():
    check_held_innovations()


def test_records_are_those_of_theta_after_a_jump_from_the_prior():
    """To the last bit, also where the vector of theta was rounded on the way to a later step."""

    class Positive(Simulator):
        parameters = (na.Parameter("scale", (), "positive"),)

        def sample_prior(self, rng):
            return {"scale": np.array(rng.exponential())}

        def log_prior(self, theta):
            return -float(theta["scale"])

        def build_records(self, theta, innovations):
            return theta["scale"] * innovations[:, 0]

    release = na.Release([3.0], na.mechanisms.Laplace(na.queries.Sum(-3, 3), scale=4.0), 6)
    target = Target(Positive(), release)
    move = na.moves.Transport()
    state = chain.start(target, [move], np.random.default_rng(11))
    tuning = frozen(move, target, state.theta)
    tuning["steps"] = [1, 1, *[0] * (len(tuning["steps"]) - 2)]
    for _ in range(300):
        move.step(target, state, tuning)
        rebuilt = target.model.build_records(state.theta, state.innovations)
        np.testing.assert_array_equal(state.records, rebuilt)


def test_a_scripted_generator_is_used_up():
    """The scripts of these tests would not notice numbers that nobody asks for, but for this."""
    rng = Scripted(random=[[0.1, 0.2]])
    assert not rng.spent
    np.testing.assert_array_equal(rng.random((2, 1)), [[0.1], [0.2]])
    assert rng.spent


@pytest.mark.full
def test_a_prior_that_is_infinite_at_the_edge_does_not_catch_the_chain(seed):
    """Dirichlet(1/2): its density is infinite at 0, where theta rounds to for far proposals.

    Exact: with y ones among n, p ~ Beta(1/2 + y, 1/2 + n - y); y is summed over.
    """
    from scipy.stats import beta, betabinom

    n, released, epsilon = 10, 5.0, 0.1
    mechanism = na.mechanisms.Laplace(na.queries.Count(value=0), epsilon=epsilon)
    y = np.arange(n + 1)
    weights = betabinom.pmf(y, n, 0.5, 0.5) * np.exp(-epsilon * np.abs(released - y))
    weights /= weights.sum()
    posterior = na.sample(
        na.models.Categorical(2, concentration=0.5),
        na.Release([released], mechanism, n_records=n),
        moves=(na.moves.Transport(steps=3), na.moves.RecordSweep()),
        draws=1000,
        warmup=500,
        random_seed=seed,
        progressbar=False,
    )
    drawn = posterior["posterior"]["probabilities"].values[..., 0]
    assert (drawn > 0).all()
    for point in (0.01, 0.1, 0.9):
        below = (drawn <= point).astype(float)
        exact = float(weights @ beta.cdf(point, 0.5 + y, 0.5 + n - y))
        error = np.sqrt(
            exact
            * (1 - exact)
            / float(array_stats.ess(below, method="mean", chain_axis=0, draw_axis=1))
        )
        # 5 standard errors: a false alarm in about 2 of a million, three times.
        assert abs(below.mean() - exact) < 5 * 1.15 * error


def test_a_warm_up_of_a_power_of_two_keeps_what_it_learned(seed):
    """The windows end at powers of two; what was noted before must not be lost there."""
    model = na.models.Normal(variance=1.0)
    mechanism = na.mechanisms.Laplace(na.queries.Sum(lower=-10, upper=10), epsilon=0.2)
    target = Target(model, na.Release([100.0], mechanism, n_records=100))
    moves = (na.moves.Interweave(na.moves.ParameterUpdate(), na.moves.Transport()),)
    state = chain.start(target, moves, np.random.default_rng(seed))
    state, _ = chain.advance(target, moves, chain.Schedule(256, 1), state, 256)
    assert sum(state.tunings[0]["moves"][1]["steps"]) > 0


def test_every_second_draw_is_a_mirror_image_where_that_pays(seed):
    """A mean under noise of 50 standard deviations: symmetric, and known nearly as the prior is.

    Exact: y = sum + noise, with the sum normal given the mean. The error of the mean of the draws
    is a fraction of that of independent draws, and they agree within 5 of their errors (a false
    alarm in less than 1 of a million).
    """
    n, scale, released = 30, 300.0, 90.0
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(-1e4, 1e4), scale=scale)
    posterior = na.sample(
        na.models.Normal(mean_sd=10.0, variance=1.0),
        na.Release([released], mechanism, n_records=n),
        random_seed=seed,
        progressbar=False,
    )
    drawn = posterior["posterior"]["mean"].to_numpy()
    precision = 1 / 10.0**2 + n**2 / (n + scale**2)
    exact, sd = n * released / (n + scale**2) / precision, precision**-0.5
    ess = float(array_stats.ess(drawn, method="mean", chain_axis=0, draw_axis=1))
    assert ess > 2 * drawn.size
    assert abs(drawn.mean() - exact) < 5 * 1.15 * sd / math.sqrt(ess)
    other = (drawn - exact) ** 2
    ess = float(array_stats.ess(other, method="mean", chain_axis=0, draw_axis=1))
    assert abs(other.mean() - sd**2) < 5 * 1.15 * math.sqrt(2 / ess) * sd**2


def test_a_chain_begins_where_the_release_fits():
    """Of several theta from the prior, most of which clamp every record."""
    mechanism = na.mechanisms.Laplace(na.queries.Sum(-5.0, 5.0), scale=1.0)
    target = Target(na.models.Normal(), na.Release([30.0], mechanism, 100))

    def fits(moves):
        for seed in range(10):
            state = chain.start(target, moves, np.random.default_rng(seed))
            total = target.total(target.build(state.theta, target.recover(state)))
            np.testing.assert_allclose(total, target.total(state.records), rtol=1e-9)
            yield target.log_g(total)

    found = list(fits((na.moves.Interweave(na.moves.Transport(), na.moves.BlockSweep()),)))
    assert sum(map(float.__gt__, found, fits(na.moves.algorithm1()))) >= 5
