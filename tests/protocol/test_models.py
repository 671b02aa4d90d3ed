"""Every model through one contract: shapes, supports, files, errors, and x = F(u; theta).

Statistical tests use fixed seeds (change them with the environment variable NOISEAWARE_TEST_SEED),
a false-alarm rate of at most 1e-6 each, and come with planted bugs that they are shown to catch.
"""

import inspect
import json
import math
import os
import pickle
import zlib

import numpy as np
import pytest
from scipy import integrate, special, stats

from mutate_models import mutated_models
from noiseaware import models
from noiseaware.coordinates import Coordinates
from noiseaware.parameters import Innovations, Parameter

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220603"))
FALSE_ALARM = 1e-6

MEAN = [0.9, -1.17]
COVARIANCE = [[1.0, 0.4], [0.4, 2.0]]
RAGGED = {"n_classes": 3, "n_levels": [2, 4, 3]}

SPECIFICATIONS = {
    "regression-known": (
        "LinearRegression",
        {
            "n_features": 2,
            "noise_variance": 2.0,
            "feature_mean": MEAN,
            "feature_covariance": COVARIANCE,
        },
    ),
    "regression-noise": (
        "LinearRegression",
        {"n_features": 2, "feature_mean": MEAN, "feature_covariance": COVARIANCE},
    ),
    "regression-mean": (
        "LinearRegression",
        {"n_features": 2, "noise_variance": 2.0, "feature_covariance": COVARIANCE},
    ),
    "regression-covariance": (
        "LinearRegression",
        {"n_features": 2, "noise_variance": 2.0, "feature_mean": MEAN},
    ),
    "regression-unknown": (
        "LinearRegression",
        {
            "n_features": 3,
            "coefficient_sd": 1.5,
            "noise_variance_shape": 4.0,
            "noise_variance_scale": 3.0,
            "feature_mean_sd": 0.7,
            "feature_covariance_df": 7.5,
            "feature_covariance_scale": [[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 3.0]],
        },
    ),
    "regression-one": ("LinearRegression", {"n_features": 1, "feature_mean": 0.5}),
    "regression-wide": ("LinearRegression", {"n_features": 17}),
    "logistic": (
        "LogisticRegression",
        {"n_features": 2, "feature_covariance_scale": [[2.0, 0.3], [0.3, 1.0]]},
    ),
    "logistic-known": (
        "LogisticRegression",
        {
            "n_features": 2,
            "coefficient_sd": 1.5,
            "feature_mean": MEAN,
            "feature_covariance": COVARIANCE,
        },
    ),
    "logistic-mean": ("LogisticRegression", {"n_features": 1, "feature_covariance": 2.0}),
    "poisson-regression": (
        "PoissonRegression",
        {"n_features": 2, "feature_mean_sd": 0.7, "feature_covariance_df": 6.5},
    ),
    "poisson-regression-cut": (
        "PoissonRegression",
        {"n_features": 1, "coefficient_sd": 2.0, "feature_mean": 0.5, "largest_rate": 20.0},
    ),
    "bayes": ("NaiveBayes", {"n_classes": 4, "n_levels": 3, "n_features": 2}),
    "bayes-ragged": ("NaiveBayes", RAGGED),
    "bayes-sparse": ("NaiveBayes", {"n_classes": 2, "n_levels": [3, 3], "concentration": 0.2}),
    "bernoulli": ("Bernoulli", {"a": 2.0, "b": 0.5}),
    "normal": ("Normal", {"mean_mean": 1.0, "mean_sd": 2.0, "variance_shape": 4.0}),
    "normal-mean": ("Normal", {"variance": 2.5}),
    "normal-variance": ("Normal", {"mean": -1.0}),
    "categorical": ("Categorical", {"n_levels": 4, "concentration": [0.5, 1.0, 2.0, 3.0]}),
    "categorical-many": ("Categorical", {"n_levels": 40, "concentration": 0.8}),
    "exponential": ("Exponential", {"rate_shape": 3.0, "rate_rate": 0.5}),
    "gamma": ("Gamma", {"shape_rate": 0.5, "rate_shape": 3.0}),
    "gamma-rate": ("Gamma", {"shape": 0.3}),
    "gamma-shape": ("Gamma", {"rate": 2.5}),
    "shares": (
        "Dirichlet",
        {"n_parts": 3, "mean_concentration": [2.0, 1.0, 0.5], "precision_shape": 3.0},
    ),
    "shares-sparse": ("Dirichlet", {"n_parts": 4, "precision_rate": 2.0}),
    "vector": (
        "MultivariateNormal",
        {
            "n_columns": 3,
            "mean_mean": [1.0, 0.0, -2.0],
            "mean_sd": [2.0, 0.5, 1.0],
            "covariance_df": 7.5,
            "covariance_scale": [[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 3.0]],
        },
    ),
    "vector-mean": ("MultivariateNormal", {"n_columns": 2, "covariance": COVARIANCE}),
    "vector-covariance": ("MultivariateNormal", {"n_columns": 2, "mean": MEAN}),
    "vector-one": ("MultivariateNormal", {"n_columns": 1, "mean_mean": 3.0}),
    "two-proportions": (
        "TwoProportions",
        {"sizes": [400, 700], "a": 2.0, "b": 0.5, "labels": ["control", "treated"]},
    ),
    "two-means": ("TwoMeans", {"sizes": [3, 1100], "mean_mean": 1.0, "mean_sd": 2.0}),
    "two-means-equal": ("TwoMeans", {"sizes": [400, 700], "equal_variances": True}),
    "stratified-proportions": (
        "StratifiedProportions",
        {"sizes": [2, 5, 300, 800], "location_mean": -1.0, "location_sd": 0.8},
    ),
    "stratified-means": (
        "StratifiedMeans",
        {"sizes": [2, 5, 300, 800], "location_mean": 1.0, "spread_scale": 0.5},
    ),
    "table": ("ContingencyTable", {"n_levels": [2, 3, 2], "variables": ["sex", "age", "smokes"]}),
    "table-uneven": (
        "ContingencyTable",
        {"n_levels": [2, 2], "concentration": [[0.5, 1.0], [2.0, 3.0]]},
    ),
    "poisson": ("Poisson", {"rate_shape": 1.5, "rate_rate": 0.25}),
    "poisson-large": ("Poisson", {"rate_shape": 3.0, "rate_rate": 0.003}),
    "negative-binomial": ("NegativeBinomial", {"mean_rate": 0.25, "dispersion_shape": 2.0}),
    "negative-binomial-large": (
        "NegativeBinomial",
        {"mean_shape": 4.0, "mean_rate": 0.02, "dispersion_shape": 0.7, "dispersion_rate": 0.5},
    ),
}
DISCRETE = (
    "NaiveBayes",
    "Bernoulli",
    "Categorical",
    "TwoProportions",
    "StratifiedProportions",
    "Poisson",
    "NegativeBinomial",
    "ContingencyTable",
)
GROUPS = ("TwoProportions", "TwoMeans", "StratifiedProportions", "StratifiedMeans")
COUNTS = ("Poisson", "NegativeBinomial")


def make(name, package=models):
    kind, arguments = SPECIFICATIONS[name]
    return getattr(package, kind)(**arguments)


def record_shape(model, n):
    kind = type(model).__name__
    if kind in GROUPS:
        return (n, 2)
    if kind.endswith("Regression"):
        return (n, model.n_features + 1)
    if kind == "MultivariateNormal":
        return (n, model.n_columns)
    if kind == "ContingencyTable":
        return (n, len(model.n_levels))
    if kind == "Dirichlet":
        return (n, model.n_parts)
    return (n, model.n_features + 1) if kind == "NaiveBayes" else (n,)


def levels_of_columns(model):
    kind = type(model).__name__
    if kind in GROUPS:
        return [len(model.sizes), 2]
    if kind == "NaiveBayes":
        return [model.n_classes, *model.n_levels]
    if kind in COUNTS:
        return [2**52]
    if kind == "ContingencyTable":
        return model.n_levels
    return [2] if kind == "Bernoulli" else [model.n_levels]


def copy_theta(theta):
    return {name: np.array(value) for name, value in theta.items()}


def same_theta(first, second):
    return list(first) == list(second) and all(np.array_equal(first[k], second[k]) for k in first)


def assert_valid(model, theta):
    assert list(theta) == [parameter.name for parameter in model.parameters]
    for parameter in model.parameters:
        value = theta[parameter.name]
        assert isinstance(value, np.ndarray)
        assert value.dtype == np.float64
        assert value.shape == parameter.shape
        assert np.isfinite(value).all()
        if parameter.support in ("positive", "simplex", "table", "unit"):
            assert (value > 0).all()
        if parameter.support == "unit":
            assert (value < 1).all()
        if parameter.support == "simplex":
            np.testing.assert_allclose(value.sum(axis=-1), 1.0, rtol=1e-12)
        if parameter.support == "table":
            assert value.sum() == pytest.approx(1.0, rel=1e-12)
        if parameter.support == "covariance":
            assert np.array_equal(value, value.T)
            assert (np.linalg.eigvalsh(value) > 0).all()


@pytest.fixture(params=list(SPECIFICATIONS))
def name(request):
    return request.param


@pytest.fixture
def model(name):
    return make(name)


@pytest.fixture
def rng(name):
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])


# ------------------------------------------------------------------ shapes, supports, inputs


def test_parameters_are_declared(model):
    assert isinstance(model.parameters, tuple)
    assert all(isinstance(parameter, Parameter) for parameter in model.parameters)
    assert isinstance(model.innovations, Innovations)
    for parameter in model.parameters:
        assert len(parameter.dims) == len(parameter.shape)
        assert set(parameter.coords) == set(parameter.dims)


def test_known_parameters_are_not_parameters():
    assert [p.name for p in make("regression-known").parameters] == ["coefficients"]
    names = ["coefficients", "noise_variance", "feature_mean", "feature_covariance"]
    assert [p.name for p in make("regression-unknown").parameters] == names
    assert [p.name for p in make("normal-mean").parameters] == ["mean"]
    assert [p.name for p in make("normal-variance").parameters] == ["variance"]
    assert [p.name for p in make("vector").parameters] == ["mean", "covariance"]
    assert [p.name for p in make("vector-mean").parameters] == ["mean"]
    assert [p.name for p in make("vector-covariance").parameters] == ["covariance"]
    assert [p.name for p in make("gamma").parameters] == ["shape", "rate"]
    assert [p.name for p in make("gamma-rate").parameters] == ["rate"]
    assert [p.name for p in make("gamma-shape").parameters] == ["shape"]


def test_names_and_labels_of_parameters():
    coefficients = make("regression-known").parameters[0]
    assert coefficients.coords == {"coefficient": ["intercept", "x1", "x2"]}
    bayes = make("bayes").parameters[1]
    assert (bayes.name, bayes.shape) == ("feature_probabilities", (4, 2, 3))
    assert bayes.dims == ("class", "feature", "level")
    ragged = make("bayes-ragged").parameters
    assert [p.name for p in ragged[1:]] == [f"feature_probabilities_{k}" for k in (1, 2, 3)]
    assert [p.shape for p in ragged[1:]] == [(3, 2), (3, 4), (3, 3)]


def test_prior_draws_are_in_the_support(model, rng):
    for _ in range(20):
        theta = model.sample_prior(rng)
        assert_valid(model, theta)
        assert isinstance(model.log_prior(theta), float)
        assert np.isfinite(model.log_prior(theta))


@pytest.mark.parametrize("n", [0, 1, 23])
def test_records_have_their_shape_and_dtype(model, rng, n):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, n, rng)
    discrete = type(model).__name__ in DISCRETE
    assert records.shape == record_shape(model, n)
    assert records.dtype == (np.int64 if discrete else np.float64)
    model.check_records(records)
    likelihood = model.log_likelihood(theta, records)
    assert likelihood.shape == (n,)
    assert np.isfinite(likelihood).all()
    assert_valid(model, model.update_parameters(theta, records, rng))
    innovations = model.recover_innovations(theta, records, rng)
    assert innovations.shape == (n, model.innovations.width)
    assert innovations.dtype == np.float64


def test_records_are_built_from_innovations(model, rng):
    theta = model.sample_prior(rng)
    shape = (50, model.innovations.width)
    copy = np.random.default_rng(SEED)
    normal = model.innovations.kind == "normal"
    innovations = copy.standard_normal(shape) if normal else copy.random(shape)
    built = model.build_records(theta, innovations)
    assert np.array_equal(built, model.sample_records(theta, 50, np.random.default_rng(SEED)))


@pytest.mark.parametrize("far", [40.0, 400.0, 709.0, 1e5])
def test_a_proposal_far_out_is_answered(model, rng, far):
    """Transport may propose anything: the prior is a number, and records are built if it allows."""
    own = getattr(model, "coordinates", None)
    coordinates = Coordinates(tuple(model.parameters)) if own is None else own
    start = coordinates.to_vector(model.sample_prior(rng))
    shape = (5, model.innovations.width)
    u = rng.standard_normal(shape) if model.innovations.kind == "normal" else rng.random(shape)
    directions = [*np.eye(coordinates.size)[:6], np.ones(coordinates.size)]
    with np.errstate(all="ignore"):
        for direction in [*directions, *(-d for d in directions)]:
            theta, log_jacobian = coordinates.from_vector(start + far * direction)
            log_prior = model.log_prior(theta) + log_jacobian
            assert isinstance(log_prior, float)
            if -math.inf < log_prior < math.inf:
                assert len(model.build_records(theta, u)) == 5


@pytest.mark.parametrize("method", ["sample_prior", "sample_records", "update_parameters"])
def test_draws_depend_on_the_generator_only(model, rng, method):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 9, rng)
    arguments = {
        "sample_prior": (),
        "sample_records": (theta, 9),
        "update_parameters": (theta, records),
    }[method]
    first, again, other = (
        getattr(model, method)(*arguments, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    if method == "sample_records":
        assert np.array_equal(first, again)
    else:
        assert same_theta(first, again)
        assert not same_theta(first, other)


def test_inputs_are_left_alone_and_outputs_are_fresh(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 9, rng)
    innovations = model.recover_innovations(theta, records, rng)
    before = copy_theta(theta), records.copy(), innovations.copy()
    new = model.update_parameters(theta, records, rng)
    model.log_prior(theta)
    model.log_likelihood(theta, records)
    rebuilt = model.build_records(theta, innovations)
    recovered = model.recover_innovations(theta, records, rng)
    assert same_theta(theta, before[0])
    assert np.array_equal(records, before[1])
    assert np.array_equal(innovations, before[2])
    for value in new.values():
        assert not any(np.shares_memory(value, old) for old in theta.values())
        assert value.flags.writeable
    assert not np.shares_memory(rebuilt, innovations)
    assert not np.shares_memory(recovered, records)
    again = model.update_parameters(new, records, rng)
    assert not any(np.shares_memory(new[k], again[k]) for k in new)


def test_any_layout_of_the_input_gives_the_same(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 11, rng)
    expected = model.log_likelihood(theta, records)
    strided = np.repeat(records, 2, axis=0)[::2]
    assert np.array_equal(model.log_likelihood(theta, strided), expected)
    listed = {key: value.tolist() for key, value in theta.items()}
    assert np.array_equal(model.log_likelihood(listed, records), expected)
    if records.dtype == np.int64:
        short = np.int8 if records.max() < 128 else np.int32
        assert np.array_equal(model.log_likelihood(theta, records.astype(short)), expected)


def test_compiled_kernels_equal_their_python_source(name, tmp_path):
    """The copy runs the same source uncompiled; so every kernel is compared, inner ones too."""

    def run(model):
        rng = np.random.default_rng([SEED, 7])
        theta = model.sample_prior(rng)
        records = model.sample_records(theta, 12, rng)
        new = model.update_parameters(theta, records, rng)
        recovered = model.recover_innovations(new, records, rng)
        return [
            *theta.values(),
            records,
            *new.values(),
            recovered,
            model.build_records(new, recovered),
            model.log_prior(new),
            model.log_likelihood(new, records),
        ]

    with mutated_models(tmp_path) as plain:
        for compiled, python in zip(run(make(name)), run(make(name, plain)), strict=True):
            np.testing.assert_allclose(compiled, python, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ x = F(u; theta)


def round_trip_error(model, theta, records, rng):
    """Return how far build(recover(x)) is from x; for discrete records 0 or 1."""
    rebuilt = model.build_records(theta, model.recover_innovations(theta, records, rng))
    if records.dtype == np.int64:
        return float(not np.array_equal(rebuilt, records))
    return float(np.max(np.abs(rebuilt - records) / (1.0 + np.abs(records))))


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
        innovations = model.recover_innovations(theta, draw_by_numpy(model, theta, n, rng), rng)
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


def draw_by_numpy(model, theta, n, rng):
    kind = type(model).__name__
    if kind in GROUPS:
        groups = np.repeat(np.arange(len(model.sizes)), model.sizes)[:n]
        if kind in DISCRETE:
            return np.column_stack([groups, rng.binomial(1, theta["proportions"][groups])])
        sds = np.sqrt(group_variances(model, theta)[groups])
        return np.column_stack([groups, rng.normal(theta["means"][groups], sds)])
    if kind.endswith("Regression"):
        mean, covariance, variance = feature_moments(model, theta)
        features = rng.multivariate_normal(mean, covariance, size=n, method="cholesky")
        eta = theta["coefficients"][0] + features @ theta["coefficients"][1:]
        if kind == "LogisticRegression":
            response = rng.binomial(1, special.expit(eta))
        elif kind == "PoissonRegression":
            response = rng.poisson(np.minimum(np.exp(eta), model.largest_rate))
        else:
            response = eta + math.sqrt(variance) * rng.standard_normal(n)
        return np.column_stack([features, response]).astype(np.float64)
    if kind == "Normal":
        mean = model.mean if model.mean is not None else theta["mean"]
        variance = model.variance if model.variance is not None else theta["variance"]
        return rng.normal(mean, math.sqrt(variance), size=n)
    if kind == "Dirichlet":
        drawn = rng.dirichlet(theta["precision"] * theta["mean"], size=n)
        return np.maximum(drawn, np.finfo(float).tiny)
    if kind == "MultivariateNormal":
        mean, covariance = mean_and_covariance(model, theta)
        return rng.multivariate_normal(mean, covariance, size=n, method="cholesky")
    if kind == "Exponential":
        return rng.exponential(1 / theta["rate"], size=n)
    if kind == "Gamma":
        shape, rate = shape_and_rate(model, theta)
        return rng.gamma(shape, 1 / rate, size=n)
    if kind == "Bernoulli":
        return rng.binomial(1, theta["probability"], size=n)
    if kind == "Categorical":
        return rng.choice(model.n_levels, size=n, p=theta["probabilities"])
    if kind == "ContingencyTable":
        table = theta["cell_probabilities"]
        cells = rng.choice(table.size, size=n, p=table.ravel())
        return np.column_stack(np.unravel_index(cells, table.shape))
    if kind == "Poisson":
        return rng.poisson(theta["rate"], size=n)
    if kind == "NegativeBinomial":
        d = float(theta["dispersion"])
        return rng.poisson(theta["mean"] * d * rng.standard_gamma(1.0 / d, size=n))
    classes = rng.choice(model.n_classes, size=n, p=theta["class_probabilities"])
    records = [classes]
    for k, count in enumerate(model.n_levels):
        table = feature_table(model, theta, k)
        records.append(np.array([rng.choice(count, p=table[y]) for y in classes]))
    return np.column_stack(records)


def group_variances(model, theta):
    return np.broadcast_to(theta.get("variances", theta.get("variance")), len(model.sizes))


def feature_moments(model, theta):
    mean = model.feature_mean if model.feature_mean is not None else theta["feature_mean"]
    covariance = model.feature_covariance
    if covariance is None:
        covariance = theta["feature_covariance"]
    variance = getattr(model, "noise_variance", 0.0)
    return mean, covariance, float(theta["noise_variance"]) if variance is None else variance


def mean_and_covariance(model, theta):
    mean = theta["mean"] if model.mean is None else model.mean
    return mean, theta["covariance"] if model.covariance is None else model.covariance


def shape_and_rate(model, theta):
    shape = theta["shape"] if model.shape is None else model.shape
    return shape, theta["rate"] if model.rate is None else model.rate


def feature_table(model, theta, k):
    if "feature_probabilities" in theta:
        return theta["feature_probabilities"][:, k, :]
    return theta[f"feature_probabilities_{k + 1}"]


def test_recovered_innovations_are_iid(model, rng):
    p_values = innovation_p_values(model, rng)
    assert p_values.min() > FALSE_ALARM / len(p_values)


INNOVATION_BUGS = [
    ("inverse_cdf.py", "u = low + v * (high - low)", "u = 0.5 * (low + high)", "bayes"),
    ("inverse_cdf.py", "u = low + v * (high - low)", "u = low * (1 + v)", "categorical"),
    ("bernoulli.py", "uniform_between(0.0, edge, v)", "uniform_between(edge, 1.0, v)", "bernoulli"),
    (
        "naive_bayes.py",
        "feature_edges[row, x], feature_edges[row, x + 1]",
        "feature_edges[k, x], feature_edges[k, x + 1]",
        "bayes-ragged",
    ),
    ("normal.py", "1.0 / math.sqrt(variance)", "1.0 / variance", "normal"),
    ("exponential.py", "math.exp(-rate * records[i])", "math.exp(-records[i])", "exponential"),
    (
        "dirichlet.py",
        "rng.standard_gamma(precision + 1.0, size=size)",
        "np.full(size, precision)",
        "shares",
    ),
    ("dirichlet.py", "rng.random(size)) / precision", "rng.random(size))", "shares"),
    (
        "linear_algebra.py",
        "total -= lower[j, k] * out[at, k]",
        "total -= lower[j, k] * records[i, k]",
        "vector",
    ),
    ("gamma.py", "+ math.log(rate)", "- math.log(rate)", "gamma"),
    ("gamma_quantiles.py", "special.ndtri(below)", "special.ndtri(below**1.3)", "gamma-rate"),
    (
        "binary_groups.py",
        "uniform_between(0.0, edge, v)",
        "uniform_between(edge, 1.0, v)",
        "two-proportions",
    ),
    ("normal_groups.py", "- means[group]) / sd", "- means[0]) / sd", "stratified-means"),
    (
        "regression_kernels.py",
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
        "contingency_table.py",
        "cell = cell * levels[k] + records[i, k]",
        "cell = cell * levels[k] + levels[k] - 1 - records[i, k]",
        "table",
    ),
    ("count_cdf.py", "(size + x - 1.0) * ratio / x", "(size + x) * ratio / x", "negative-binomial"),
    ("response_kernels.py", "low = softplus(-eta) if", "low = softplus(eta) if", "logistic"),
    (
        "response_kernels.py",
        "angle = 2.0 * math.pi *",
        "angle = math.pi *",
        "logistic-known",
    ),
    (
        "response_kernels.py",
        "return low, -math.log1p(-total)",
        "return low, -math.log1p(-before - 0.5 * mass)",
        "poisson-regression",
    ),
    (
        "response_kernels.py",
        "energy = low - math.log1p(v * math.expm1(low - high))",
        "energy = low + v * min(high - low, 5.0)",
        "logistic",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "name"), INNOVATION_BUGS)
def test_a_bug_in_the_innovations_is_caught(file, old, new, name, rng, tmp_path):
    with mutated_models(tmp_path, file, old, new) as mutant:
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


class Stuck:
    """A generator whose uniforms are all the same number."""

    def __init__(self, value):
        self.value = value

    def random(self, shape):
        return np.full(shape, self.value)


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
def test_a_bug_in_the_inverse_cdf_is_caught(old, new, tmp_path):
    with mutated_models(tmp_path, "inverse_cdf.py", old, new) as mutant:
        assert sum(awkward_failures(mutant, p) for p in AWKWARD.values()) > 0


COUNT_GRID = [
    (mean, size)
    for mean in (1e-3, 0.3, 7.0, 250.0, 1e5)
    for size in (math.inf, 1e8, 1e3, 5.0, 0.5, 0.02)
]


def count_model(package, mean, size):
    """The model of counts with this mean and size, and its theta."""
    if size == math.inf:
        return package.Poisson(rate_rate=1e-4), {"rate": mean}
    return package.NegativeBinomial(mean_rate=1e-4), {"mean": mean, "dispersion": 1.0 / size}


def count_failures(package, mean, size):
    """Count the records and uniforms with which the round trip fails or u leaves [0, 1)."""
    model, theta = count_model(package, mean, size)
    sd = math.sqrt(mean + mean * mean / size)
    near = np.maximum(0, mean + sd * np.linspace(-12, 40, 27)).astype(np.int64)
    records = np.concatenate([np.arange(12), near, [10**5, 10**6, 2**52 - 1]])
    failures = 0
    for value in (0.0, 2.0**-53, 0.3, 0.9999, 1.0 - 2.0**-53):
        u = model.recover_innovations(theta, records, Stuck(value))
        failures += int(((u < 0) | (u >= 1)).sum())
        failures += int((model.build_records(theta, u) != records).sum())
    return failures


@pytest.mark.parametrize(("mean", "size"), COUNT_GRID)
def test_round_trip_of_counts_is_exact_also_for_impossible_ones(mean, size):
    assert count_failures(models, mean, size) == 0


def interval_error(package, mean, size):
    """Largest error of the intervals' lengths and ends against SciPy's distribution."""
    model, theta = count_model(package, mean, size)
    law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
    records = np.unique(law.ppf(np.linspace(0.0005, 0.9995, 60)).astype(np.int64))
    low = model.recover_innovations(theta, records, Stuck(0.0))[:, 0]
    high = model.recover_innovations(theta, records, Stuck(1.0 - 2.0**-53))[:, 0]
    error = np.abs(low - law.sf(records)).max()
    return max(error, np.abs(high - low - law.pmf(records)).max())


# SciPy's own negative binomial is off by 1e-9 where the size is 1e8.
@pytest.mark.parametrize(("mean", "size"), COUNT_GRID)
def test_the_intervals_of_counts_are_those_of_scipy(mean, size):
    assert interval_error(models, mean, size) < 1e-8


def far_tail_error(package):
    """Largest relative error of the ends of intervals far out, in and behind the table."""
    errors = []
    for mean, size, records in (
        (3.0, math.inf, [20, 40, 120]),
        (3.0, 0.7, [20, 200, 2000]),
        (1000.0, 0.5, [9000, 20000, 200000]),
    ):
        model, theta = count_model(package, mean, size)
        law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
        low = model.recover_innovations(theta, np.array(records), Stuck(0.0))[:, 0]
        errors.append(np.abs(low / law.sf(records) - 1.0).max())
    return max(errors)


def test_far_tails_of_counts_keep_their_digits():
    assert far_tail_error(models) < 1e-9


def test_a_proposal_far_out_is_impossible_and_takes_no_time():
    u = np.linspace(0.01, 0.99, 50)[:, None]
    for far in (1e5, 1e30, math.inf):
        assert models.Poisson().log_prior({"rate": far}) == -math.inf
        assert models.Poisson().build_records({"rate": far}, u).min() > 1000
        for theta in ({"mean": far, "dispersion": 1.0}, {"mean": 1.0, "dispersion": far}):
            assert models.NegativeBinomial().log_prior(theta) == -math.inf
            assert models.NegativeBinomial().build_records(theta, u).max() < 2**52


def test_a_uniform_of_0_is_no_endless_count():
    for mean, size in COUNT_GRID:
        model, theta = count_model(models, mean, size)
        law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
        assert law.sf(model.build_records(theta, [[0.0]])[0] - 1) > 2.0**-55


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            if edges[middle] <= u:", "            if edges[middle] < u:"),
        ("(LARGEST_COUNT + 1.0 - x) * _DENORMAL", "0.0"),
        ("highest = 1.0 - (x + 1.0) * SPACING", "highest = 1.0"),
        ("if edge(middle, mean, size) <= u:", "if edge(middle, mean, size) < u:"),
    ],
)
def test_a_bug_in_the_round_trip_of_counts_is_caught(old, new, tmp_path):
    with mutated_models(tmp_path, "count_cdf.py", old, new) as mutant:
        assert sum(count_failures(mutant, *case) for case in COUNT_GRID[:20]) > 0


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        ("math.lgamma(x + size) - math.lgamma(size)", "math.lgamma(x + size)", (7.0, 5.0)),
        ("x * (math.log(size + x) - 1.0)", "x * math.log(size + x)", (7.0, 1e8)),
        ("- mean - math.lgamma(x + 1.0)", "- mean - math.lgamma(x + 2.0)", (7.0, math.inf)),
        ("k * (b - k) * z", "k * (b + k) * z", (250.0, 0.02)),
        ("above += mass", "above += 0.99 * mass", (7.0, 0.5)),
    ],
)
def test_a_bug_in_the_tails_of_counts_is_caught(old, new, case, tmp_path):
    with mutated_models(tmp_path, "count_cdf.py", old, new) as mutant:
        assert interval_error(mutant, *case) > 1e-8


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("j = x + 2.0", "j = x + 1.0"),
        ("d = 1.0 + coefficient * d", "d = 1.0 - coefficient * d"),
    ],
)
def test_a_bug_in_the_far_tails_of_counts_is_caught(old, new, tmp_path):
    with mutated_models(tmp_path, "count_cdf.py", old, new) as mutant:
        assert far_tail_error(mutant) > 1e-3


def test_rounding_does_not_move_a_probability():
    """The intervals have the lengths of the probabilities, to the spacing of u."""
    rng = np.random.default_rng(SEED)
    p = rng.dirichlet(np.full(30, 0.3))
    model = models.Categorical(30)
    records = np.arange(30)
    low = model.recover_innovations({"probabilities": p}, records, Stuck(0.0))[:, 0]
    np.testing.assert_allclose(np.diff(low, append=1.0), p, atol=31 * 2.0**-53)


def test_a_theta_outside_its_support_makes_no_records():
    model = make("regression-covariance")
    rng = np.random.default_rng(SEED)
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 5, rng)
    theta["feature_covariance"] = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert model.log_prior(theta) == -math.inf
    assert (model.log_likelihood(theta, records) == -math.inf).all()
    assert np.isnan(model.build_records(theta, records)).all()
    assert np.isnan(model.recover_innovations(theta, records)).all()
    normal = make("normal")
    assert normal.log_prior({"mean": 0.0, "variance": -1.0}) == -math.inf
    assert np.isnan(normal.build_records({"mean": 0.0, "variance": -1.0}, np.ones((3, 1)))).all()
    vector = make("vector-covariance")
    wrong = {"covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}
    assert vector.log_prior(wrong) == -math.inf
    assert (vector.log_likelihood(wrong, np.ones((3, 2))) == -math.inf).all()
    assert np.isnan(vector.build_records(wrong, np.ones((3, 2)))).all()
    assert np.isnan(vector.recover_innovations(wrong, np.ones((3, 2)))).all()
    for rate in (-1.0, 0.0):
        assert models.Exponential().log_prior({"rate": rate}) == -math.inf
        assert (models.Exponential().log_likelihood({"rate": rate}, [1.0]) == -math.inf).all()
        assert np.isnan(models.Exponential().build_records({"rate": rate}, np.ones((2, 1)))).all()
        theta = {"shape": rate, "rate": 1.0}
        assert make("gamma").log_prior(theta) == -math.inf
        assert (make("gamma").log_likelihood(theta, [1.0]) == -math.inf).all()
        assert np.isnan(make("gamma").build_records(theta, np.ones((2, 1)))).all()
    assert models.Bernoulli().log_prior({"probability": 1.5}) == -math.inf
    assert models.Categorical(2).log_prior({"probabilities": [1.2, -0.2]}) == -math.inf
    assert models.Categorical(2).log_prior({"probabilities": [0.7, 0.7]}) == -math.inf
    for rate in (0.0, -1.0, math.inf, NAN):
        assert models.Poisson().log_prior({"rate": rate}) == -math.inf
        assert (models.Poisson().log_likelihood({"rate": rate}, [3, 0]) == -math.inf).all()
        wrong = {"mean": rate, "dispersion": 1.0}
        assert models.NegativeBinomial().log_prior(wrong) == -math.inf
        assert (models.NegativeBinomial().log_likelihood(wrong, [3]) == -math.inf).all()
    wrong = {"mean": 1.0, "dispersion": -1.0}
    assert models.NegativeBinomial().log_prior(wrong) == -math.inf
    assert (models.NegativeBinomial().log_likelihood(wrong, [3]) == -math.inf).all()


# ------------------------------------------------------------------ densities


def prior_by_scipy(model, theta):
    kind = type(model).__name__
    if kind == "TwoProportions":
        return stats.beta.logpdf(theta["proportions"], model.a, model.b).sum()
    if kind in GROUPS:
        total = 0.0
        for name in {"variance", "variances"} & set(theta):
            total += stats.invgamma.logpdf(
                theta[name], model.variance_shape, scale=model.variance_scale
            ).sum()
        if kind == "TwoMeans":
            return total + stats.norm.logpdf(theta["means"], model.mean_mean, model.mean_sd).sum()
        location, spread = theta["location"], theta["spread"]
        levels = theta.get("means")
        if levels is None:
            p = theta["proportions"]
            levels = np.log(p / (1 - p))
            total -= np.log(p * (1 - p)).sum()
        total += stats.norm.logpdf(location, model.location_mean, model.location_sd)
        total += stats.halfnorm.logpdf(spread, scale=model.spread_scale)
        return total + stats.norm.logpdf(levels, location, spread).sum()
    if kind == "Bernoulli":
        return stats.beta.logpdf(theta["probability"], model.a, model.b)
    if kind == "Categorical":
        concentration = np.broadcast_to(model.concentration, model.n_levels)
        return stats.dirichlet.logpdf(theta["probabilities"], concentration)
    if kind == "ContingencyTable":
        concentration = np.broadcast_to(model.concentration, model.n_levels).ravel()
        return stats.dirichlet.logpdf(theta["cell_probabilities"].ravel(), concentration)
    if kind == "Poisson":
        return stats.gamma.logpdf(theta["rate"], model.rate_shape, scale=1 / model.rate_rate)
    if kind == "NegativeBinomial":
        return stats.gamma.logpdf(
            theta["mean"], model.mean_shape, scale=1 / model.mean_rate
        ) + stats.gamma.logpdf(
            theta["dispersion"], model.dispersion_shape, scale=1 / model.dispersion_rate
        )
    if kind == "Normal":
        total = 0.0
        if "mean" in theta:
            total += stats.norm.logpdf(theta["mean"], model.mean_mean, model.mean_sd)
        if "variance" in theta:
            total += stats.invgamma.logpdf(
                theta["variance"], model.variance_shape, scale=model.variance_scale
            )
        return total
    if kind == "Dirichlet":
        shape, rate = model.precision_shape, model.precision_rate
        total = stats.gamma.logpdf(theta["precision"], shape, scale=1 / rate)
        return total + stats.dirichlet.logpdf(theta["mean"], model.mean_concentration)
    if kind == "MultivariateNormal":
        total = 0.0
        if "mean" in theta:
            total += stats.norm.logpdf(theta["mean"], model.mean_mean, model.mean_sd).sum()
        if "covariance" in theta:
            total += stats.invwishart.logpdf(
                theta["covariance"], model.covariance_df, model.covariance_scale
            )
        return total
    if kind in ("Exponential", "Gamma"):
        total = 0.0
        for name, value in theta.items():
            shape, rate = getattr(model, f"{name}_shape"), getattr(model, f"{name}_rate")
            total += stats.gamma.logpdf(value, shape, scale=1 / rate)
        return total
    if kind == "NaiveBayes":
        a = model.concentration
        total = stats.dirichlet.logpdf(theta["class_probabilities"], np.full(model.n_classes, a))
        for k, count in enumerate(model.n_levels):
            for row in feature_table(model, theta, k):
                total += stats.dirichlet.logpdf(row, np.full(count, a))
        return total
    total = stats.norm.logpdf(theta["coefficients"], 0.0, model.coefficient_sd).sum()
    if "noise_variance" in theta:
        total += stats.invgamma.logpdf(
            theta["noise_variance"], model.noise_variance_shape, scale=model.noise_variance_scale
        )
    if "feature_mean" in theta:
        total += stats.norm.logpdf(theta["feature_mean"], 0.0, model.feature_mean_sd).sum()
    if "feature_covariance" in theta:
        total += stats.invwishart.logpdf(
            theta["feature_covariance"], model.feature_covariance_df, model.feature_covariance_scale
        )
    return total


def likelihood_by_scipy(model, theta, records):
    kind = type(model).__name__
    if kind in GROUPS:
        groups = records[:, 0].astype(int)
        if kind in DISCRETE:
            return stats.bernoulli.logpmf(records[:, 1], theta["proportions"][groups])
        sds = np.sqrt(group_variances(model, theta)[groups])
        return stats.norm.logpdf(records[:, 1], theta["means"][groups], sds)
    if kind == "Bernoulli":
        return stats.bernoulli.logpmf(records, theta["probability"])
    if kind == "Categorical":
        return np.log(theta["probabilities"][records])
    if kind == "ContingencyTable":
        return np.log(theta["cell_probabilities"][tuple(records.T)])
    if kind == "Poisson":
        return stats.poisson.logpmf(records, theta["rate"])
    if kind == "NegativeBinomial":
        size = 1.0 / theta["dispersion"]
        return stats.nbinom.logpmf(records, size, size / (size + theta["mean"]))
    if kind == "Normal":
        mean = model.mean if model.mean is not None else theta["mean"]
        variance = model.variance if model.variance is not None else theta["variance"]
        return stats.norm.logpdf(records, mean, math.sqrt(variance))
    if kind == "Dirichlet":
        return stats.dirichlet.logpdf(records.T, theta["precision"] * theta["mean"])
    if kind == "MultivariateNormal":
        return np.atleast_1d(
            stats.multivariate_normal.logpdf(records, *mean_and_covariance(model, theta))
        )
    if kind == "Exponential":
        return stats.expon.logpdf(records, scale=1 / theta["rate"])
    if kind == "Gamma":
        shape, rate = shape_and_rate(model, theta)
        return stats.gamma.logpdf(records, shape, scale=1 / rate)
    if kind == "NaiveBayes":
        y = records[:, 0]
        total = np.log(theta["class_probabilities"][y])
        for k in range(model.n_features):
            total = total + np.log(feature_table(model, theta, k)[y, records[:, 1 + k]])
        return total
    mean, covariance, variance = feature_moments(model, theta)
    slopes = theta["coefficients"][1:]
    if kind in ("LogisticRegression", "PoissonRegression"):
        features, y = records[:, :-1], records[:, -1]
        eta = theta["coefficients"][0] + features @ slopes
        if kind == "LogisticRegression":
            last = np.where(y == 1, special.log_expit(eta), special.log_expit(-eta))
        else:
            last = stats.poisson.logpmf(y, np.minimum(np.exp(eta), model.largest_rate))
        return last + stats.multivariate_normal.logpdf(features, mean, covariance)
    # Linear regression: the record as one normal vector of length p + 1.
    cross = covariance @ slopes
    joint_mean = np.append(mean, theta["coefficients"][0] + slopes @ mean)
    joint = np.block([[covariance, cross[:, None]], [cross, slopes @ cross + variance]])
    return stats.multivariate_normal.logpdf(records, joint_mean, joint)


def test_log_prior_is_that_of_scipy(model, rng):
    for _ in range(10):
        theta = model.sample_prior(rng)
        assert model.log_prior(theta) == pytest.approx(prior_by_scipy(model, theta), rel=1e-9)


def test_log_likelihood_is_that_of_scipy(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 40, rng)
    np.testing.assert_allclose(
        model.log_likelihood(theta, records),
        likelihood_by_scipy(model, theta, records),
        rtol=1e-8,
        atol=1e-8,
    )


def prior_mass(package, case):
    """Integrate exp(log_prior) over a parameter of one dimension."""
    if case == "unit":
        model, low, high = package.Bernoulli(2.5, 1.5), 0.0, 1.0
        point = lambda v: {"probability": v}  # noqa: E731
    elif case == "simplex":
        model, low, high = package.Categorical(2, [1.5, 3.0]), 0.0, 1.0
        point = lambda v: {"probabilities": np.array([v, 1.0 - v])}  # noqa: E731
    elif case == "real":
        model, low, high = package.Normal(variance=1.0, mean_mean=2.0), -np.inf, np.inf
        point = lambda v: {"mean": v}  # noqa: E731
    elif case == "gamma":
        model, low, high = package.Exponential(2.5, 3.0), 0.0, np.inf
        point = lambda v: {"rate": v}  # noqa: E731
    elif case == "positive":
        # Not the default scale: with a mean of 1, a power too few would not change the mass.
        model, low, high = package.Normal(mean=0.0, variance_scale=3.0), 0.0, np.inf
        point = lambda v: {"variance": v}  # noqa: E731
    else:
        # The coefficients are held where their density is known.
        model = package.LinearRegression(1, noise_variance=1.0, feature_mean=[0.0])
        low, high = 0.0, np.inf
        at_zero = 2 * stats.norm.logpdf(0.0, scale=2.0)
        zeros = np.zeros(2)
        mass = integrate.quad(
            lambda v: math.exp(
                model.log_prior({"coefficients": zeros, "feature_covariance": np.array([[v]])})
                - at_zero
            ),
            low,
            high,
        )
        return mass[0]
    return integrate.quad(lambda v: math.exp(model.log_prior(point(v))), low, high)[0]


CASES = ["unit", "simplex", "real", "gamma", "positive", "covariance"]


@pytest.mark.parametrize("case", CASES)
def test_the_prior_integrates_to_1(case):
    assert prior_mass(models, case) == pytest.approx(1.0, abs=1e-6)


DENSITY_BUGS = [
    ("conjugate.py", "- (shape + 1.0) * math.log(value)", "- shape * math.log(value)", "positive"),
    ("conjugate.py", "(shape - 1.0) * math.log(value)", "shape * math.log(value)", "gamma"),
    ("conjugate.py", "- 0.5 * df * size * math.log(2.0)", "", "covariance"),
    (
        "conjugate.py",
        "math.lgamma(concentrations.sum()) - sum(",
        "math.lgamma(concentrations.sum()) + sum(",
        "simplex",
    ),
    ("bernoulli.py", "(self.b - 1.0) * math.log1p(-p)", "self.b * math.log1p(-p)", "unit"),
    ("normal.py", "(z * z + _LOG_2PI) + math.log(self.mean_sd)", "(z * z + _LOG_2PI)", "real"),
]


@pytest.mark.parametrize(("file", "old", "new", "case"), DENSITY_BUGS)
def test_a_bug_in_a_prior_is_caught(file, old, new, case, tmp_path):
    with mutated_models(tmp_path, file, old, new) as mutant:
        assert abs(prior_mass(mutant, case) - 1.0) > 1e-3


# ------------------------------------------------------------------ files and words


def test_a_model_survives_json_and_pickle(model, rng):
    text = json.dumps(model.to_dict())
    theta = model.sample_prior(rng)
    for other in (models.from_dict(json.loads(text)), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert other.to_dict() == model.to_dict()
        assert other.parameters == model.parameters
        assert other.log_prior(theta) == model.log_prior(theta)


def test_a_model_shows_the_call_that_makes_it(model):
    made = eval(repr(model), vars(models))
    assert made.to_dict() == model.to_dict()


def test_repr_leaves_out_defaults():
    assert repr(models.Bernoulli()) == "Bernoulli()"
    shown = repr(models.LinearRegression(2, noise_variance=2))
    assert shown == "LinearRegression(n_features=2, noise_variance=2.0)"


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, 'a model must be described by a "type"'),
        ({"type": "Cauchy"}, "must be one of .*Bernoulli.* got 'Cauchy'"),
        ({"type": "Bernoulli", "c": 1}, "arguments of the model Bernoulli are not right"),
        ("Bernoulli", "must be described"),
    ],
)
def test_a_wrong_description_is_refused(description, message):
    with pytest.raises(ValueError, match=message):
        models.from_dict(description)


def test_promised_signatures():
    regression = list(inspect.signature(models.LinearRegression).parameters)
    assert regression[:5] == [
        "n_features",
        "coefficient_sd",
        "noise_variance",
        "feature_mean",
        "feature_covariance",
    ]
    bayes = list(inspect.signature(models.NaiveBayes).parameters)
    assert bayes[:3] == ["n_classes", "n_levels", "concentration"]


# ------------------------------------------------------------------ bad input

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("LinearRegression", {"n_features": 0}, "n_features must be a positive integer; got 0"),
        ("LinearRegression", {"n_features": 2.0}, "n_features must be a positive integer"),
        ("LinearRegression", {"n_features": True}, "n_features must be a positive integer"),
        ("LinearRegression", {"n_features": 1, "coefficient_sd": 0}, "coefficient_sd must be pos"),
        ("LinearRegression", {"n_features": 1, "noise_variance": -1}, "noise_variance must be pos"),
        ("LinearRegression", {"n_features": 1, "noise_variance": NAN}, "noise_variance must be a"),
        ("LinearRegression", {"n_features": 1, "noise_variance": "2 m"}, "noise_variance must be"),
        (
            "LinearRegression",
            {"n_features": 2, "feature_mean": [1.0]},
            r"feature_mean must have shape \(2,\); got shape \(1,\)",
        ),
        ("LinearRegression", {"n_features": 2, "feature_mean": 1.0}, "feature_mean must have"),
        (
            "LinearRegression",
            {"n_features": 2, "feature_mean": [1.0, NAN]},
            "feature_mean must hold",
        ),
        ("LinearRegression", {"n_features": 2, "feature_mean": ["a", "b"]}, "feature_mean must be"),
        (
            "LinearRegression",
            {"n_features": 2, "feature_covariance": [[1.0, 2.0], [2.0, 1.0]]},
            "feature_covariance must be positive definite",
        ),
        (
            "LinearRegression",
            {"n_features": 2, "feature_covariance": [[1.0, 0.5], [0.0, 1.0]]},
            "feature_covariance must be symmetric",
        ),
        (
            "LinearRegression",
            {"n_features": 2, "feature_covariance": [1.0, 1.0]},
            "feature_covariance must have shape",
        ),
        ("LinearRegression", {"n_features": 1, "noise_variance_shape": 0}, "noise_variance_shape"),
        ("LinearRegression", {"n_features": 1, "noise_variance_scale": 0}, "noise_variance_scale"),
        ("LinearRegression", {"n_features": 1, "feature_mean_sd": -2}, "feature_mean_sd must be"),
        (
            "LinearRegression",
            {"n_features": 3, "feature_covariance_df": 2},
            "feature_covariance_df must be above n_features - 1 = 2",
        ),
        (
            "LinearRegression",
            {"n_features": 2, "feature_covariance_scale": -np.eye(2)},
            "feature_covariance_scale must be positive definite",
        ),
        ("NaiveBayes", {"n_classes": 1, "n_levels": [2]}, "n_classes must be an integer of at"),
        ("NaiveBayes", {"n_classes": 2, "n_levels": [2, 1]}, r"n_levels\[1\] must be an integer"),
        ("NaiveBayes", {"n_classes": 2, "n_levels": []}, "n_levels must list at least one"),
        ("NaiveBayes", {"n_classes": 2, "n_levels": 3}, "n_features must be given"),
        (
            "NaiveBayes",
            {"n_classes": 2, "n_levels": 3, "n_features": 0},
            "n_features must be a pos",
        ),
        (
            "NaiveBayes",
            {"n_classes": 2, "n_levels": [3, 3], "n_features": 3},
            "n_features must be the length of n_levels, 2; got 3",
        ),
        (
            "NaiveBayes",
            {"n_classes": 2, "n_levels": [2], "concentration": 0},
            "concentration must be positive; got 0",
        ),
        ("TwoProportions", {"sizes": [3]}, r"sizes must be 2 numbers, .* got \[3\]"),
        ("TwoProportions", {"sizes": [3, 0]}, "the size of group 1 must be a positive integer"),
        ("TwoMeans", {"sizes": 3}, "sizes must list the number of records in each group; got 3"),
        ("TwoMeans", {"sizes": [3, 4], "labels": ["a", "a"]}, "labels must be 2 different texts"),
        ("TwoMeans", {"sizes": [3, 4], "labels": 3}, "labels must be a list of texts; got 3"),
        ("TwoMeans", {"sizes": [3, 4], "labels": "ab"}, "labels must be a list of texts; got 'ab'"),
        ("StratifiedMeans", {"sizes": [4]}, "sizes must be at least 2 numbers"),
        ("StratifiedMeans", {"sizes": [4, 4], "spread_scale": 0}, "spread_scale must be positive"),
        ("StratifiedProportions", {"sizes": [4, 4], "location_sd": -1}, "location_sd must be pos"),
        ("Bernoulli", {"a": 0}, "a must be positive; got 0"),
        ("Bernoulli", {"b": math.inf}, "b must be a finite number"),
        ("Normal", {"mean": 0.0, "variance": 1.0}, "mean and variance must not both be known"),
        ("Normal", {"variance": 0.0}, "variance must be positive"),
        ("Normal", {"mean": NAN}, "mean must be a finite number"),
        ("Normal", {"mean_sd": 0}, "mean_sd must be positive"),
        ("Normal", {"variance_shape": -1}, "variance_shape must be positive"),
        ("Normal", {"variance_scale": 0}, "variance_scale must be positive"),
        ("MultivariateNormal", {"n_columns": 0}, "n_columns must be a positive integer; got 0"),
        (
            "MultivariateNormal",
            {"n_columns": 1, "mean": [0.0], "covariance": [[1.0]]},
            "mean and covariance must not both be known",
        ),
        ("MultivariateNormal", {"n_columns": 2, "mean": [1.0]}, r"mean must have shape \(2,\)"),
        (
            "MultivariateNormal",
            {"n_columns": 2, "covariance": [[1.0, 2.0], [2.0, 1.0]]},
            "covariance must be positive definite",
        ),
        (
            "MultivariateNormal",
            {"n_columns": 2, "mean_mean": [1, 2, 3]},
            r"mean_mean must have shape \(2,\)",
        ),
        ("MultivariateNormal", {"n_columns": 2, "mean_sd": [1, 0]}, "mean_sd must be positive"),
        ("MultivariateNormal", {"n_columns": 2, "mean_sd": "a"}, "mean_sd must be a finite number"),
        (
            "MultivariateNormal",
            {"n_columns": 3, "covariance_df": 2},
            "covariance_df must be above n_columns - 1 = 2",
        ),
        (
            "MultivariateNormal",
            {"n_columns": 2, "covariance_scale": [1, 1]},
            "covariance_scale must have shape",
        ),
        ("Dirichlet", {"n_parts": 1}, "n_parts must be an integer of at least 2; got 1"),
        ("Dirichlet", {"n_parts": 2, "mean_concentration": 0}, "mean_concentration must be pos"),
        (
            "Dirichlet",
            {"n_parts": 2, "mean_concentration": [1, 1, 1]},
            r"mean_concentration must have shape \(2,\)",
        ),
        ("Dirichlet", {"n_parts": 2, "precision_shape": 0}, "precision_shape must be positive"),
        ("Dirichlet", {"n_parts": 2, "precision_rate": NAN}, "precision_rate must be a finite"),
        ("Exponential", {"rate_shape": 0}, "rate_shape must be positive; got 0"),
        ("Exponential", {"rate_rate": NAN}, "rate_rate must be a finite number"),
        ("Gamma", {"shape": 1.0, "rate": 2.0}, "shape and rate must not both be known"),
        ("Gamma", {"shape": -1.0}, "shape must be positive; got -1.0"),
        ("Gamma", {"rate": "fast"}, "rate must be a finite number; got 'fast'"),
        ("Gamma", {"shape_shape": 0}, "shape_shape must be positive"),
        ("Gamma", {"shape_rate": 0}, "shape_rate must be positive"),
        ("Gamma", {"rate_shape": -2}, "rate_shape must be positive"),
        ("Gamma", {"rate_rate": 0}, "rate_rate must be positive"),
        ("ContingencyTable", {"n_levels": 3}, "n_levels must list the number of levels"),
        ("ContingencyTable", {"n_levels": []}, r"n_levels must list .* got \[\]"),
        ("ContingencyTable", {"n_levels": [2, 1]}, r"n_levels\[1\] must be an integer of at least"),
        (
            "ContingencyTable",
            {"n_levels": [2, 2], "concentration": [1.0, 2.0]},
            r"concentration must have shape \(2, 2\); got shape \(2,\)",
        ),
        ("ContingencyTable", {"n_levels": [2], "concentration": 0}, "concentration must be pos"),
        (
            "ContingencyTable",
            {"n_levels": [2, 2], "variables": ["a", "a"]},
            "variables must be 2 different names",
        ),
        ("ContingencyTable", {"n_levels": [2], "variables": "a"}, "variables must be 1 different"),
        ("Poisson", {"rate_shape": 0}, "rate_shape must be positive; got 0"),
        ("Poisson", {"rate_rate": "a"}, "rate_rate must be a finite number; got 'a'"),
        (
            "Poisson",
            {"rate_rate": 1e-7},
            r"rate_shape / rate_rate, .* at most 1e\+06; got 1e\+07",
        ),
        ("NegativeBinomial", {"mean_shape": -1}, "mean_shape must be positive; got -1"),
        ("NegativeBinomial", {"mean_rate": NAN}, "mean_rate must be a finite number; got nan"),
        ("NegativeBinomial", {"dispersion_shape": 0}, "dispersion_shape must be positive"),
        ("NegativeBinomial", {"dispersion_rate": 0}, "dispersion_rate must be positive"),
        ("LogisticRegression", {"n_features": 0}, "n_features must be a positive integer; got 0"),
        ("LogisticRegression", {"n_features": 1, "coefficient_sd": 0}, "coefficient_sd must be"),
        (
            "LogisticRegression",
            {"n_features": 3, "feature_covariance_df": 2},
            "feature_covariance_df must be above n_features - 1 = 2",
        ),
        ("PoissonRegression", {"n_features": 2, "feature_mean": [1]}, "feature_mean must have"),
        (
            "PoissonRegression",
            {"n_features": 2, "largest_rate": 601},
            "largest_rate must be at most 600; got 601",
        ),
        ("Categorical", {"n_levels": 1}, "n_levels must be an integer of at least 2; got 1"),
        ("Categorical", {"n_levels": 3, "concentration": 0}, "concentration must be positive"),
        ("Categorical", {"n_levels": 3, "concentration": [1, 2]}, "concentration must have shape"),
        (
            "Categorical",
            {"n_levels": 2, "concentration": [1, -1]},
            "concentration must be positive",
        ),
    ],
)
def test_wrong_arguments_are_named(kind, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(models, kind)(**arguments)


@pytest.mark.parametrize("method", ["log_likelihood", "update_parameters", "recover_innovations"])
def test_wrong_records_are_refused(model, rng, method):
    theta = model.sample_prior(rng)
    call = getattr(model, method)
    more = () if method == "log_likelihood" else (rng,)
    records = model.sample_records(theta, 6, rng)
    with pytest.raises(ValueError, match=r"records must have shape"):
        call(theta, records[..., None], *more)
    if records.ndim == 2:
        with pytest.raises(ValueError, match=r"records must have shape"):
            call(theta, records[:, :-1], *more)
    if records.dtype == np.int64:
        with pytest.raises(TypeError, match="records must be integers"):
            call(theta, records.astype(float), *more)
        for column, count in enumerate(levels_of_columns(model)):
            for wrong in (-1, count, 2**62):
                bad = records.reshape(6, -1).copy()
                bad[4, column] = wrong
                with pytest.raises(ValueError, match=rf"got {wrong} in record 4"):
                    call(theta, bad.reshape(records.shape), *more)


def test_records_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="records must be finite"):
        make("regression-known").check_records(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="records must be finite"):
        make("normal").check_records(np.array([1.0, np.inf]))
    with pytest.raises(ValueError, match="records must be finite"):
        make("vector-mean").check_records(np.full((3, 2), np.nan))


def test_durations_out_of_range_are_refused():
    make("exponential").check_records([0.0, 2.0])
    with pytest.raises(ValueError, match=r"durations of at least 0; got -1.0 in record 1"):
        make("exponential").check_records([2.0, -1.0])
    with pytest.raises(ValueError, match=r"durations above 0; got 0.0 in record 0"):
        make("gamma").check_records([0.0, 2.0])
    with pytest.raises(ValueError, match="records must be finite"):
        make("gamma").check_records([np.nan])
    assert (make("gamma-shape").log_likelihood({"shape": 2.0}, [0.0, -1.0]) == -math.inf).all()
    assert make("exponential").log_likelihood({"rate": 2.0}, [-1.0])[0] == -math.inf


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("logistic", 2.0, "must be 0 or 1; got 2.0 in record 1"),
        ("logistic", 0.5, "must be 0 or 1; got 0.5 in record 1"),
        ("poisson-regression", -1.0, "must be a whole number from 0; got -1.0 in record 1"),
        ("poisson-regression", 1.5, "must be a whole number from 0; got 1.5 in record 1"),
    ],
)
def test_a_response_that_cannot_be_is_refused(name, wrong, message):
    records = np.zeros((3, 3))
    records[1, 2] = wrong
    with pytest.raises(ValueError, match=message):
        make(name).check_records(records)


def test_shares_off_the_simplex_are_refused():
    model = make("shares")
    with pytest.raises(ValueError, match=r"shares above 0 .* got \[0.5, 0.5, 0.0\] in record 1"):
        model.check_records([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match=r"sum to 1; got \[0.5, 0.6, 0.1\] in record 0"):
        model.check_records([[0.5, 0.6, 0.1]])
    with pytest.raises(ValueError, match="records must be finite"):
        model.check_records([[0.5, np.nan, 0.1]])
    theta = {"mean": np.full(3, 1 / 3), "precision": 3.0}
    off = [[0.5, 0.5, 0.0], [0.5, 0.6, 0.1], [0.2, 0.3, 0.5]]
    likelihood = model.log_likelihood(theta, off)
    np.testing.assert_allclose(likelihood, [-np.inf, -np.inf, math.log(2)])
    theta["precision"] = -1.0
    assert model.log_prior(theta) == -math.inf
    assert (model.log_likelihood(theta, off) == -math.inf).all()
    assert np.isnan(model.build_records(theta, np.ones((2, 3)))).all()
    assert np.isnan(model.recover_innovations(theta, off, np.random.default_rng(1))).all()


def test_tiny_shares_survive():
    """Concentrations so small that most gammas are no doubles."""
    model, rng = make("shares"), np.random.default_rng(SEED)
    theta = {"mean": np.array([0.98, 0.0199, 0.0001]), "precision": np.array(0.5)}
    records = model.sample_records(theta, 2000, rng)
    assert (records > 0).all()
    np.testing.assert_allclose(records.sum(axis=1), 1.0, rtol=1e-12)
    assert round_trip_error(model, theta, records, rng) < 1e-10
    assert np.isfinite(model.log_likelihood(theta, records)).all()
    assert_valid(model, model.update_parameters(theta, records, rng))


def test_innovations_of_the_wrong_width_are_refused(model, rng):
    theta = model.sample_prior(rng)
    with pytest.raises(ValueError, match=r"innovations must have shape \(n, "):
        model.build_records(theta, np.full((4, model.innovations.width + 1), 0.5))


def test_a_theta_of_the_wrong_shape_is_refused(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 4, rng)
    for parameter in model.parameters:
        if parameter.shape:
            wrong = dict(theta)
            wrong[parameter.name] = np.ones((*parameter.shape[:-1], parameter.shape[-1] + 1))
            with pytest.raises(ValueError, match=f"{parameter.name} must have shape"):
                model.log_likelihood(wrong, records)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "two words"}, "name must be a Python identifier"),
        ({"name": "a", "shape": (0,)}, "positive integers"),
        ({"name": "a", "support": "circle"}, "support of parameter 'a' must be one of"),
        ({"name": "a", "support": "simplex"}, "cannot be"),
        ({"name": "a", "support": "table"}, "is a table, so its shape cannot be"),
        ({"name": "a", "shape": (2, 3), "support": "covariance"}, "must be square"),
        ({"name": "a", "shape": (2,), "dims": ("b", "c")}, "must name each of its 1 axes"),
        ({"name": "a", "shape": (2, 2), "dims": ("b", "b")}, "must differ"),
        ({"name": "a", "shape": (2,), "dims": ("b",), "coords": {"c": [1, 2]}}, "not among"),
        ({"name": "a", "shape": (2,), "dims": ("b",), "coords": {"b": [1]}}, "must give 2 labels"),
    ],
)
def test_a_wrong_parameter_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Parameter(**arguments)


@pytest.mark.parametrize(("kind", "width"), [("cauchy", 1), ("normal", 0), ("uniform", 1.5)])
def test_wrong_innovations_are_refused(kind, width):
    with pytest.raises(ValueError, match="must be"):
        Innovations(kind, width)
