"""The models that the tests of models go through, and what they are by NumPy and SciPy.

A case is a model and its arguments; `name`, `model` and `rng` of `conftest.py` go through them all.
`REFERENCES` has the records, prior and likelihood of each kind of model, by NumPy and SciPy.
"""

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from noiseaware import models

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220603"))
FALSE_ALARM = 1e-6

MEAN = [0.9, -1.17]
COVARIANCE = [[1.0, 0.4], [0.4, 2.0]]

CALLS = {
    "regression-known": (
        "LinearRegression(n_features=2, noise_variance=2.0, feature_mean=MEAN, "
        "feature_covariance=COVARIANCE)"
    ),
    "regression-noise": (
        "LinearRegression(n_features=2, feature_mean=MEAN, feature_covariance=COVARIANCE)"
    ),
    "regression-mean": (
        "LinearRegression(n_features=2, noise_variance=2.0, feature_covariance=COVARIANCE)"
    ),
    "regression-covariance": (
        "LinearRegression(n_features=2, noise_variance=2.0, feature_mean=MEAN)"
    ),
    "regression-unknown": (
        "LinearRegression(n_features=2, coefficient_sd=1.5, noise_variance_shape=4.0, "
        "noise_variance_scale=3.0, feature_mean_sd=0.7, feature_covariance_df=7.5, "
        "feature_covariance_scale=[[2.0, 0.3], [0.3, 1.0]])"
    ),
    "regression-one": "LinearRegression(n_features=1, feature_mean=0.5)",
    "regression-wide": "LinearRegression(n_features=17)",
    "logistic": (
        "LogisticRegression(n_features=2, feature_covariance_scale=[[2.0, 0.3], [0.3, 1.0]])"
    ),
    "logistic-known": (
        "LogisticRegression(n_features=2, coefficient_sd=1.5, feature_mean=MEAN, "
        "feature_covariance=COVARIANCE)"
    ),
    "logistic-mean": "LogisticRegression(n_features=1, feature_covariance=2.0)",
    "poisson-regression": (
        "PoissonRegression(n_features=2, feature_mean_sd=0.7, feature_covariance_df=6.5)"
    ),
    "poisson-regression-cut": (
        "PoissonRegression(n_features=1, coefficient_sd=2.0, feature_mean=0.5, largest_rate=20.0)"
    ),
    "bayes": "NaiveBayes(n_classes=4, n_levels=3, n_features=2)",
    "bayes-ragged": "NaiveBayes(n_classes=3, n_levels=[2, 4, 3])",
    "bayes-sparse": "NaiveBayes(n_classes=2, n_levels=[3, 3], concentration=0.2)",
    "bernoulli": "Bernoulli(a=2.0, b=0.5)",
    "normal": "Normal(mean_mean=1.0, mean_sd=2.0, variance_shape=4.0)",
    "normal-mean": "Normal(variance=2.5)",
    "normal-variance": "Normal(mean=-1.0)",
    "categorical": "Categorical(n_levels=4, concentration=[0.5, 1.0, 2.0, 3.0])",
    "categorical-many": "Categorical(n_levels=40, concentration=0.8)",
    "exponential": "Exponential(rate_shape=3.0, rate_rate=0.5)",
    "gamma": "Gamma(shape_rate=0.5, rate_shape=3.0)",
    "gamma-rate": "Gamma(shape=0.3)",
    "gamma-shape": "Gamma(rate=2.5)",
    "shares": "Dirichlet(n_parts=3, mean_concentration=[2.0, 1.0, 0.5], precision_shape=3.0)",
    "shares-sparse": "Dirichlet(n_parts=4, precision_rate=2.0)",
    "vector": (
        "MultivariateNormal(n_columns=3, mean_mean=[1.0, 0.0, -2.0], mean_sd=[2.0, 0.5, 1.0], "
        "covariance_df=7.5, covariance_scale=[[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 3.0]])"
    ),
    "vector-mean": "MultivariateNormal(n_columns=2, covariance=COVARIANCE)",
    "vector-covariance": "MultivariateNormal(n_columns=2, mean=MEAN)",
    "vector-one": "MultivariateNormal(n_columns=1, mean_mean=3.0)",
    "two-proportions": (
        "TwoProportions(sizes=[400, 700], a=2.0, b=0.5, labels=['control', 'treated'])"
    ),
    "two-means": "TwoMeans(sizes=[3, 1100], mean_mean=1.0, mean_sd=2.0)",
    "two-means-equal": "TwoMeans(sizes=[400, 700], equal_variances=True)",
    "stratified-proportions": (
        "StratifiedProportions(sizes=[2, 5, 300, 800], location_mean=-1.0, location_sd=0.8)"
    ),
    "stratified-means": (
        "StratifiedMeans(sizes=[2, 5, 300, 800], location_mean=1.0, spread_scale=0.5)"
    ),
    "table": "ContingencyTable(n_levels=[2, 3, 2], variables=['sex', 'age', 'smokes'])",
    "table-uneven": "ContingencyTable(n_levels=[2, 2], concentration=[[0.5, 1.0], [2.0, 3.0]])",
    "poisson": "Poisson(rate_shape=1.5, rate_rate=0.25)",
    "poisson-large": "Poisson(rate_shape=3.0, rate_rate=0.003)",
    "negative-binomial": "NegativeBinomial(mean_rate=0.25, dispersion_shape=2.0)",
    "negative-binomial-large": (
        "NegativeBinomial(mean_shape=4.0, mean_rate=0.02, dispersion_shape=0.7, "
        "dispersion_rate=0.5)"
    ),
}

LATER = ("regression-wide",)
"""In `make validate`: the kernels of a regression are compiled anew for each small number of
features, and once more for all large ones."""


def make(name, package=models):
    return eval(CALLS[name], {**vars(package), "MEAN": MEAN, "COVARIANCE": COVARIANCE})


def reference(model):
    return REFERENCES[type(model).__name__]


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


def round_trip_error(model, theta, records, rng):
    """Return how far build(recover(x)) is from x; for discrete records 0 or 1."""
    rebuilt = model.build_records(theta, model.recover_innovations(theta, records, rng))
    if records.dtype == np.int64:
        return float(not np.array_equal(rebuilt, records))
    return float(np.max(np.abs(rebuilt - records) / (1.0 + np.abs(records))))


class Stuck:
    """A generator whose uniforms are all the same number."""

    def __init__(self, value):
        self.value = value

    def random(self, shape):
        return np.full(shape, self.value)


# ------------------------------------------------------------------ by NumPy and SciPy


def known_or_drawn(model, theta, *names):
    """The parameters of these names, each as it is known or from theta."""
    return [theta[name] if getattr(model, name) is None else getattr(model, name) for name in names]


def inverse_gamma(value, model, name="variance"):
    shape, scale = getattr(model, f"{name}_shape"), getattr(model, f"{name}_scale")
    return stats.invgamma.logpdf(value, shape, scale=scale).sum()


def gammas(model, theta):
    """Gamma priors of all parameters, shape and rate in attributes of their names."""
    return sum(
        stats.gamma.logpdf(
            value, getattr(model, f"{name}_shape"), scale=1 / getattr(model, f"{name}_rate")
        )
        for name, value in theta.items()
    )


def features_of(model, theta):
    return known_or_drawn(model, theta, "feature_mean", "feature_covariance")


def regression(noise, log_noise=None, likelihood=None):
    """`noise(model, theta, eta, rng)` draws the response, `log_noise` is its log density."""

    def draw(model, theta, n, rng):
        mean, covariance = features_of(model, theta)
        features = rng.multivariate_normal(mean, covariance, size=n, method="cholesky")
        eta = theta["coefficients"][0] + features @ theta["coefficients"][1:]
        return np.column_stack([features, noise(model, theta, eta, rng)]).astype(np.float64)

    def prior(model, theta):
        total = stats.norm.logpdf(theta["coefficients"], 0.0, model.coefficient_sd).sum()
        if "noise_variance" in theta:
            total += inverse_gamma(theta["noise_variance"], model, "noise_variance")
        if "feature_mean" in theta:
            total += stats.norm.logpdf(theta["feature_mean"], 0.0, model.feature_mean_sd).sum()
        if "feature_covariance" in theta:
            scale = model.to_dict()["feature_covariance_scale"] or 2.0 * np.eye(model.n_features)
            df = model.to_dict()["feature_covariance_df"] or model.n_features + 3
            total += stats.invwishart.logpdf(theta["feature_covariance"], df, scale)
        return total

    def in_two_parts(model, theta, records):
        mean, covariance = features_of(model, theta)
        features, slopes = records[:, :-1], theta["coefficients"][1:]
        eta = theta["coefficients"][0] + features @ slopes
        last = log_noise(model, theta, eta, records[:, -1])
        return last + stats.multivariate_normal.logpdf(features, mean, covariance)

    return SimpleNamespace(
        width=lambda m: m.n_features + 1,
        draw=draw,
        prior=prior,
        likelihood=likelihood or in_two_parts,
    )


def noise_sd(model, theta):
    return math.sqrt(known_or_drawn(model, theta, "noise_variance")[0])


def linear_likelihood(model, theta, records):
    """The record as one normal vector of length p + 1."""
    mean, covariance = features_of(model, theta)
    slopes, variance = theta["coefficients"][1:], noise_sd(model, theta) ** 2
    cross = np.asarray(covariance) @ slopes
    joint_mean = np.append(mean, theta["coefficients"][0] + slopes @ mean)
    joint = np.block([[np.asarray(covariance), cross[:, None]], [cross, slopes @ cross + variance]])
    return stats.multivariate_normal.logpdf(records, joint_mean, joint)


def two_groups_prior(model, theta):
    return stats.norm.logpdf(theta["means"], model.mean_mean, model.mean_sd).sum() + inverse_gamma(
        theta["variance" if model.equal_variances else "variances"], model
    )


def pooled_prior(model, theta):
    levels, total = theta.get("means"), 0.0
    if levels is None:
        p = theta["proportions"]
        levels = np.log(p / (1 - p))
        total -= np.log(p * (1 - p)).sum()
    else:
        total += inverse_gamma(theta["variance"], model)
    total += stats.norm.logpdf(theta["location"], model.location_mean, model.location_sd)
    total += stats.halfnorm.logpdf(theta["spread"], scale=model.spread_scale)
    return total + stats.norm.logpdf(levels, theta["location"], theta["spread"]).sum()


def groups_of(model, n):
    return np.repeat(np.arange(len(model.sizes)), model.sizes)[:n]


def group_sds(theta, groups):
    variances = theta.get("variances", theta.get("variance"))
    return np.sqrt(np.broadcast_to(variances, len(theta["means"]))[groups])


def yes_no_groups(prior):
    def draw(model, theta, n, rng):
        groups = groups_of(model, n)
        return np.column_stack([groups, rng.binomial(1, theta["proportions"][groups])])

    def likelihood(model, theta, records):
        return stats.bernoulli.logpmf(records[:, 1], theta["proportions"][records[:, 0]])

    return SimpleNamespace(
        width=lambda m: 2,
        levels=lambda m: [len(m.sizes), 2],
        draw=draw,
        prior=prior,
        likelihood=likelihood,
    )


def normal_groups(prior):
    def draw(model, theta, n, rng):
        groups = groups_of(model, n)
        outcomes = rng.normal(theta["means"][groups], group_sds(theta, groups))
        return np.column_stack([groups, outcomes])

    def likelihood(model, theta, records):
        groups = records[:, 0].astype(int)
        return stats.norm.logpdf(records[:, 1], theta["means"][groups], group_sds(theta, groups))

    return SimpleNamespace(width=lambda m: 2, draw=draw, prior=prior, likelihood=likelihood)


def feature_table(model, theta, k):
    if "feature_probabilities" in theta:
        return theta["feature_probabilities"][:, k, :]
    return theta[f"feature_probabilities_{k + 1}"]


def draw_naive_bayes(model, theta, n, rng):
    classes = rng.choice(model.n_classes, size=n, p=theta["class_probabilities"])
    records = [classes]
    for k, count in enumerate(model.n_levels):
        table = feature_table(model, theta, k)
        records.append(np.array([rng.choice(count, p=table[y]) for y in classes]))
    return np.column_stack(records)


def naive_bayes_prior(model, theta):
    rows = [theta["class_probabilities"]]
    for k in range(model.n_features):
        rows += list(feature_table(model, theta, k))
    return sum(stats.dirichlet.logpdf(p, np.full(len(p), model.concentration)) for p in rows)


def naive_bayes_likelihood(model, theta, records):
    y = records[:, 0]
    total = np.log(theta["class_probabilities"][y])
    for k in range(model.n_features):
        total = total + np.log(feature_table(model, theta, k)[y, records[:, 1 + k]])
    return total


def draw_table(model, theta, n, rng):
    table = theta["cell_probabilities"]
    cells = rng.choice(table.size, size=n, p=table.ravel())
    return np.column_stack(np.unravel_index(cells, table.shape))


def concentrations(model):
    return np.broadcast_to(model.concentration, model.n_levels).ravel()


def normal_prior(model, theta):
    total = inverse_gamma(theta["variance"], model) if "variance" in theta else 0.0
    if "mean" in theta:
        total += stats.norm.logpdf(theta["mean"], model.mean_mean, model.mean_sd)
    return total


def vector_prior(model, theta):
    total = 0.0
    if "mean" in theta:
        total += stats.norm.logpdf(theta["mean"], model.mean_mean, model.mean_sd).sum()
    if "covariance" in theta:
        scale = model.to_dict()["covariance_scale"] or 2.0 * np.eye(model.n_columns)
        df = model.to_dict()["covariance_df"] or model.n_columns + 3
        total += stats.invwishart.logpdf(theta["covariance"], df, scale)
    return total


def negative_binomial(theta):
    size = 1.0 / theta["dispersion"]
    return size, size / (size + theta["mean"])


NUMBER, COUNT = {"width": lambda m: None}, {"width": lambda m: None, "levels": lambda m: [2**52]}
# `width` is the number of columns of a record, None for records (n,); `levels` of integer records
# are the numbers of levels of the columns.
REFERENCES = {
    "LinearRegression": regression(
        lambda m, t, eta, rng: eta + noise_sd(m, t) * rng.standard_normal(len(eta)),
        likelihood=linear_likelihood,
    ),
    "LogisticRegression": regression(
        lambda m, t, eta, rng: rng.binomial(1, special.expit(eta)),
        lambda m, t, eta, y: special.log_expit(np.where(y == 1, eta, -eta)),
    ),
    "PoissonRegression": regression(
        lambda m, t, eta, rng: rng.poisson(np.minimum(np.exp(eta), m.largest_rate)),
        lambda m, t, eta, y: stats.poisson.logpmf(y, np.minimum(np.exp(eta), m.largest_rate)),
    ),
    "NaiveBayes": SimpleNamespace(
        width=lambda m: m.n_features + 1,
        levels=lambda m: [m.n_classes, *m.n_levels],
        draw=draw_naive_bayes,
        prior=naive_bayes_prior,
        likelihood=naive_bayes_likelihood,
    ),
    "Bernoulli": SimpleNamespace(
        width=lambda m: None,
        levels=lambda m: [2],
        draw=lambda m, t, n, rng: rng.binomial(1, t["probability"], size=n),
        prior=lambda m, t: stats.beta.logpdf(t["probability"], m.a, m.b),
        likelihood=lambda m, t, x: stats.bernoulli.logpmf(x, t["probability"]),
    ),
    "Categorical": SimpleNamespace(
        width=lambda m: None,
        levels=lambda m: [m.n_levels],
        draw=lambda m, t, n, rng: rng.choice(m.n_levels, size=n, p=t["probabilities"]),
        prior=lambda m, t: stats.dirichlet.logpdf(t["probabilities"], concentrations(m)),
        likelihood=lambda m, t, x: np.log(t["probabilities"][x]),
    ),
    "ContingencyTable": SimpleNamespace(
        width=lambda m: len(m.n_levels),
        levels=lambda m: m.n_levels,
        draw=draw_table,
        prior=lambda m, t: stats.dirichlet.logpdf(
            t["cell_probabilities"].ravel(), concentrations(m)
        ),
        likelihood=lambda m, t, x: np.log(t["cell_probabilities"][tuple(x.T)]),
    ),
    "Normal": SimpleNamespace(
        **NUMBER,
        draw=lambda m, t, n, rng: rng.normal(*mean_and_sd(m, t), size=n),
        prior=normal_prior,
        likelihood=lambda m, t, x: stats.norm.logpdf(x, *mean_and_sd(m, t)),
    ),
    "Exponential": SimpleNamespace(
        **NUMBER,
        draw=lambda m, t, n, rng: rng.exponential(1 / t["rate"], size=n),
        prior=gammas,
        likelihood=lambda m, t, x: stats.expon.logpdf(x, scale=1 / t["rate"]),
    ),
    "Gamma": SimpleNamespace(
        **NUMBER,
        draw=lambda m, t, n, rng: rng.gamma(*shape_and_scale(m, t), size=n),
        prior=gammas,
        likelihood=lambda m, t, x: gamma_likelihood(x, *shape_and_scale(m, t)),
    ),
    "Dirichlet": SimpleNamespace(
        width=lambda m: m.n_parts,
        draw=lambda m, t, n, rng: np.maximum(
            rng.dirichlet(t["precision"] * t["mean"], size=n), np.finfo(float).tiny
        ),
        prior=lambda m, t: (
            gammas(m, {"precision": t["precision"]})
            + stats.dirichlet.logpdf(t["mean"], m.mean_concentration)
        ),
        likelihood=lambda m, t, x: stats.dirichlet.logpdf(x.T, t["precision"] * t["mean"]),
    ),
    "MultivariateNormal": SimpleNamespace(
        width=lambda m: m.n_columns,
        draw=lambda m, t, n, rng: rng.multivariate_normal(
            *known_or_drawn(m, t, "mean", "covariance"), size=n, method="cholesky"
        ),
        prior=vector_prior,
        likelihood=lambda m, t, x: np.atleast_1d(
            stats.multivariate_normal.logpdf(x, *known_or_drawn(m, t, "mean", "covariance"))
        ),
    ),
    "TwoProportions": yes_no_groups(
        lambda m, t: stats.beta.logpdf(t["proportions"], m.a, m.b).sum()
    ),
    "StratifiedProportions": yes_no_groups(pooled_prior),
    "TwoMeans": normal_groups(two_groups_prior),
    "StratifiedMeans": normal_groups(pooled_prior),
    "Poisson": SimpleNamespace(
        **COUNT,
        draw=lambda m, t, n, rng: rng.poisson(t["rate"], size=n),
        prior=gammas,
        likelihood=lambda m, t, x: stats.poisson.logpmf(x, t["rate"]),
    ),
    "NegativeBinomial": SimpleNamespace(
        **COUNT,
        draw=lambda m, t, n, rng: rng.poisson(
            t["mean"] * t["dispersion"] * rng.standard_gamma(1.0 / t["dispersion"], size=n)
        ),
        prior=gammas,
        likelihood=lambda m, t, x: stats.nbinom.logpmf(x, *negative_binomial(t)),
    ),
}


def mean_and_sd(model, theta):
    mean, variance = known_or_drawn(model, theta, "mean", "variance")
    return mean, math.sqrt(variance)


def shape_and_scale(model, theta):
    shape, rate = known_or_drawn(model, theta, "shape", "rate")
    return shape, 1 / rate


def gamma_likelihood(records, shape, scale):
    return stats.gamma.logpdf(records, shape, scale=scale)
