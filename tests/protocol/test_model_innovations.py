"""x = F(u; theta) of every model: round trips (exact if discrete), and the law of u."""

import math

import numpy as np
import pytest
from scipy import stats

from later import first_of_each
from mutate_models import mutated_models
from noiseaware import models
from protocol.model_cases import FALSE_ALARM, SEED, Stuck, make, reference, round_trip_error


def test_round_trip(model, rng):
    for _ in range(10):
        theta = model.sample_prior(rng)
        records = model.sample_records(theta, 200, rng)
        assert round_trip_error(model, theta, records, rng) < 1e-11
        # Also for records that another theta made.
        assert round_trip_error(model, model.sample_prior(rng), records, rng) < 1e-9


def innovation_p_values(model, rng, n_thetas=4, n=1000):
    """P-values of the recovered innovations against iid uniform or normal, x drawn from f.

    Records come from thetas of the prior but not by `build_records`: f is sampled by NumPy. Each
    column is compared with its distribution (Kolmogorov-Smirnov), and each pair of columns, and of
    neighbouring records, is tested for correlation.
    """
    p_values = []
    for _ in range(n_thetas):
        theta = model.sample_prior(rng)
        innovations = model.recover_innovations(
            theta, reference(model).draw(model, theta, n, rng), rng
        )
        if model.innovations.kind == "uniform":
            assert (innovations >= 0).all()
            assert (innovations < 1).all()
            innovations = stats.norm.ppf(np.clip(innovations, 1e-16, None))
        p_values += [
            stats.kstest(column, stats.norm.cdf, method="asymp").pvalue for column in innovations.T
        ]
        columns = [*innovations[1:].T, *innovations[:-1].T]
        correlations = np.corrcoef(columns)[np.triu_indices(len(columns), 1)]
        p_values += list(2 * stats.norm.sf(np.abs(correlations) * math.sqrt(n)))
    return np.array(p_values)


def test_recovered_innovations_are_iid(model, rng):
    p_values = innovation_p_values(model, rng)
    assert p_values.min() > FALSE_ALARM / len(p_values)


INNOVATION_BUGS = [
    ("inverse_cdf.py", "u = low + v * (high - low)", "u = 0.5 * (low + high)", "bayes"),
    ("inverse_cdf.py", "u = low + v * (high - low)", "u = low * (1 + v)", "categorical"),
    ("bernoulli.py", "uniform_of(records[i],", "uniform_of(1 - records[i],", "bernoulli"),
    (
        "discrete.py",
        "edges[row, x], edges[row, x + 1]",
        "edges[k, x], edges[k, x + 1]",
        "bayes-ragged",
    ),
    ("normal.py", "1.0 / math.sqrt(variance)", "1.0 / variance", "normal"),
    ("durations.py", "math.exp(-rate * records[i])", "math.exp(-records[i])", "exponential"),
    (
        "conjugate.py",
        "np.log(rng.standard_gamma(shapes + 1.0))",
        "np.log(shapes)",
        "shares",
    ),
    ("conjugate.py", "rng.random(shapes.shape)) / shapes", "rng.random(shapes.shape))", "shares"),
    (
        "normal_vectors.py",
        "total -= factor[j, k] * out[at, k]",
        "total -= factor[j, k] * records[i, k]",
        "vector",
    ),
    ("durations.py", "+ math.log(rate)", "- math.log(rate)", "gamma"),
    ("gamma_quantiles.py", "(low - last // 2) + d", "(low - last // 2 + 1) + d", "gamma-rate"),
    ("inverse_cdf.py", "if outcome == 1 else", "if outcome == 0 else", "bernoulli"),
    (
        "group_proportions.py",
        "uniform_of(records[i, 1],",
        "uniform_of(1 - records[i, 1],",
        "two-proportions",
    ),
    ("group_means.py", "- means[group]) / sd", "- means[0]) / sd", "stratified-means"),
    (
        "linear_regression.py",
        "total -= factor[j, k] * out[at, k]",
        "total -= factor[j, k] * records[i, k]",
        "regression-unknown",
    ),
    (
        "count_cdf.py",
        "        masses[k] = above\n",
        "        masses[k] = above + mass\n",
        "poisson",
    ),
    (
        "discrete.py",
        "cell = cell * levels[k] + records[i, k]",
        "cell = cell * levels[k] + levels[k] - 1 - records[i, k]",
        "table",
    ),
    ("count_cdf.py", "(size + x - 1.0) * ratio / x", "(size + x) * ratio / x", "negative-binomial"),
    ("generalised_regression.py", "low = softplus(-eta) if", "low = softplus(eta) if", "logistic"),
    (
        "generalised_regression.py",
        "angle = 2.0 * math.pi *",
        "angle = math.pi *",
        "logistic-known",
    ),
    (
        "generalised_regression.py",
        "return low, -math.log1p(-total)",
        "return low, -math.log1p(-before - 0.5 * mass)",
        "poisson-regression",
    ),
    (
        "generalised_regression.py",
        "energy = low - math.log1p(v * math.expm1(low - high))",
        "energy = low + v * min(high - low, 5.0)",
        "logistic",
    ),
]


@pytest.mark.parametrize(
    ("file", "old", "new", "name"), first_of_each(lambda bug: bug[0], INNOVATION_BUGS)
)
def test_a_bug_in_the_innovations_is_caught(file, old, new, name, rng):
    with mutated_models(file, old, new) as mutant:
        p_values = innovation_p_values(make(name, mutant), rng)
    assert p_values.min() < FALSE_ALARM / len(p_values)


TINY = np.nextafter(0.0, 1.0)
AWKWARD = {
    "underflow below": [0.5, 1e-20, 0.5 - 1e-20],
    "underflow at the start": [TINY, 1e-300, 1.0],
    "underflow at the end": [1.0, 1e-17, 1e-300],
    "all in the last": [0.0, 0.0, 1.0],
    "all in the first": [1.0, 0.0, 0.0],
    "all in the middle": [0.0, 1.0, 0.0],
    "short of 1": [0.1] * 10,
    "beyond 1": [0.7, 0.1, 0.1, 0.1 + 1e-16],
    "thirds": [1 / 3, 1 / 3, 1 / 3],
    "many at the end": [1.0 - 2.0**-53] + [1e-18] * 30,
    "many at the start": [1e-18] * 30 + [1.0],
}


def awkward_failures(package, probabilities):
    """Count the levels and uniforms with which the round trip fails or u leaves [0, 1)."""
    levels = len(probabilities)
    categorical = package.Categorical(levels)
    bayes = package.NaiveBayes(levels, [levels])
    p = np.array(probabilities)
    theta = {"probabilities": p}
    theta_bayes = {
        "class_probabilities": p,
        "feature_probabilities": np.tile(p, (levels, 1))[:, None, :],
    }
    records = np.arange(levels)
    pairs = np.stack(np.meshgrid(records, records), axis=-1).reshape(-1, 2)
    failures = 0
    for value in (0.0, 2.0**-53, 0.3, 0.5, 0.9999, 1.0 - 2.0**-53):
        for model, where, x in ((categorical, theta, records), (bayes, theta_bayes, pairs)):
            u = model.recover_innovations(where, x, Stuck(value))
            failures += int(((u < 0) | (u >= 1)).sum())
            failures += int((model.build_records(where, u) != x).sum())
    return failures


@pytest.mark.parametrize("case", list(AWKWARD))
def test_discrete_round_trip_is_exact_for_awkward_probabilities(case):
    assert awkward_failures(models, AWKWARD[case]) == 0


@pytest.mark.parametrize("p", [0.0, TINY, 1e-300, 1e-17, 0.1, 0.5, 1 - 2.0**-53, 1.0])
def test_bernoulli_round_trip_is_exact_for_awkward_probabilities(p):
    model = models.Bernoulli()
    records = np.array([0, 1])
    for value in (0.0, 2.0**-53, 0.3, 1.0 - 2.0**-53):
        u = model.recover_innovations({"probability": p}, records, Stuck(value))
        assert ((u >= 0) & (u < 1)).all()
        assert np.array_equal(model.build_records({"probability": p}, u), records)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if u >= high:", "if False:"),
        ("if not edge > below:", "if False:"),
        ("edge = min(edge, 1.0 - (n_levels - j) * SPACING)", "edge = min(edge, 1.0)"),
        ("level += u >= edges[row, j]", "level += u > edges[row, j]"),
        ("if u >= edges[row, middle + 1]:", "if u > edges[row, middle + 1]:"),
    ],
)
def test_a_bug_in_the_inverse_cdf_is_caught(old, new):
    with mutated_models("inverse_cdf.py", old, new) as mutant:
        assert any(awkward_failures(mutant, p) for p in AWKWARD.values())


def test_rounding_does_not_move_a_probability():
    """The intervals have the lengths of the probabilities, to the spacing of u."""
    rng = np.random.default_rng(SEED)
    p = rng.dirichlet(np.full(30, 0.3))
    model = models.Categorical(30)
    records = np.arange(30)
    low = model.recover_innovations({"probabilities": p}, records, Stuck(0.0))[:, 0]
    np.testing.assert_allclose(np.diff(low, append=1.0), p, atol=31 * 2.0**-53)
