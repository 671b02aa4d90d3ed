"""Regressions whose features are known, and whose responses are released with noise or summed.

Closed forms and quadrature; the default sampler. False alarms: 1e-5 for each comparison of draws
(`exact.known`, 6 of them), 1e-6 for each Geweke and SBC run.
"""

import math

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from exact.known import Gauss, Table, assert_draws_agree, sampled
from later import only
from mutants.planting import Edit, planted
from noiseaware.mechanisms import Gaussian, LocalGaussian, LocalLaplace, RandomizedResponse
from noiseaware.models import summed_linear
from noiseaware.models.regression import Regression
from noiseaware.models.summed_linear import SummedLinear

X = {"income": [0.3, -1.2, 0.8, 2.0, -0.4, 1.1], "age": [1.0, 0.5, -0.7, 0.2, -1.4, 0.6]}
ROWS = np.column_stack([np.ones(6), *X.values()])
VALUES = np.array([1.9, -2.4, 3.3, 5.0, -0.9, 1.2])
SCALES = np.array([0.5, 2.0, 1.0, 3.0, 0.8, 1.5])
NUMBER = na.queries.Value(integer_valued=False)


def compare(tree, exact):
    draws = tree["posterior"]["coefficients"].values
    assert_draws_agree(exact, lambda k: draws[..., k])


def normal_posterior(rows, values, variances, prior_sd=2.0):
    """beta given s_i ~ N(row_i beta, variance_i)."""
    precision = rows.T @ (rows / variances[:, None]) + np.eye(rows.shape[1]) / prior_sd**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ (rows.T @ (values / variances))
    return {k: Gauss(mean[k], covariance[k, k]) for k in range(len(mean))}


def check_local_gaussian(stream=81):
    """s_i ~ N(x_i beta, sigma^2 + scale_i^2)."""
    model = na.models.LinearRegression(features=X, noise_variance=1.3)
    release = na.Release(VALUES, LocalGaussian(NUMBER, scale=SCALES), 6)
    tree = sampled(model, release, None, stream=stream)
    assert tree["posterior"]["coefficient"].values.tolist() == ["intercept", "income", "age"]
    compare(tree, normal_posterior(ROWS, VALUES, 1.3 + SCALES**2))


def test_responses_with_gaussian_noise():
    check_local_gaussian()


def check_unknown_variance(stream=86):
    """sigma^2 on a grid, with s ~ N(0, 4 Z Z' + sigma^2 I + D) as a whole; and every response."""
    values = np.where(np.arange(6) == 2, math.nan, VALUES)
    model = na.models.LinearRegression(features=X)
    release = na.Release(values, LocalGaussian(NUMBER, scale=SCALES), 6)
    t = np.linspace(-3.0, 5.0, 801)
    prior = -3.0 * t - 4.0 * np.exp(-t)
    seen = ~np.isnan(values)
    log_p, means, squares = [], [], []
    for variance in np.exp(t):
        cells = 4.0 * ROWS @ ROWS.T + variance * np.eye(6)
        total = cells[np.ix_(seen, seen)] + np.diag(SCALES[seen] ** 2)
        log_p.append(stats.multivariate_normal.logpdf(values[seen], np.zeros(5), total))
        gain = cells[:, seen] @ np.linalg.inv(total)
        means.append(gain @ values[seen])
        squares.append(np.diag(cells - gain @ cells[seen]) + means[-1] ** 2)
    exact = Table(t, np.array(log_p) + prior)
    tree = sampled(model, release, None, draws=2000, stream=stream)
    draws = np.log(tree["posterior"]["noise_variance"].values)
    assert_draws_agree({0: exact}, lambda _: draws)
    mean = exact.weights @ np.array(means)
    sd = np.sqrt(exact.weights @ np.array(squares) - mean**2)
    found = na.estimates(tree)
    # 8,000 draws are worth at least 2,000: 6 standard errors.
    assert (np.abs(found["mean"] - mean) < 6.0 * sd / math.sqrt(2000)).all()
    np.testing.assert_allclose(found["sd"], sd, rtol=0.1)


def test_an_unknown_variance():
    check_unknown_variance()


@pytest.mark.full
def test_the_sum_of_the_responses():
    """The total is N(sum_i x_i beta, n sigma^2 + scale^2); the clamps are too wide to matter."""
    model = na.models.LinearRegression(features=X, noise_variance=1.3)
    release = na.Release([7.5], Gaussian(na.queries.Sum(-500.0, 500.0), scale=2.0), 6)
    exact = normal_posterior(ROWS.sum(axis=0)[None], np.array([7.5]), np.array([6 * 1.3 + 4.0]))
    compare(sampled(model, release, None, stream=82), exact)


def check_laplace(stream=83):
    """One feature: p(s | eta) by quadrature over y, on a grid of both coefficients."""
    x, values = np.array([0.5, -1.0, 1.5, 0.2]), np.array([2.5, -1.9, 2.2, 4.0])
    scales = np.array([0.7, 1.5, 0.7, 2.5])
    model = na.models.LinearRegression(features={"x": x}, noise_variance=0.8, coefficient_sd=1.5)
    release = na.Release(values, LocalLaplace(NUMBER, scale=scales), 4)
    etas, step = np.linspace(-25.0, 25.0, 2001), np.linspace(-9.0, 9.0, 1801)
    weights = stats.norm.pdf(step, 0.0, math.sqrt(0.8))
    logs = [
        np.log([np.sum(weights * np.exp(-np.abs(s - eta - step) / b)) for eta in etas])
        for s, b in zip(values, scales, strict=True)
    ]
    a = np.linspace(-7.5, 7.5, 301)
    log_p = -0.5 * (a[:, None] ** 2 + a**2) / 1.5**2
    for xi, log in zip(x, logs, strict=True):
        log_p = log_p + np.interp(a[:, None] + a * xi, etas, log)
    p = np.exp(log_p - log_p.max())
    exact = {0: Table(a, np.log(p.sum(axis=1))), 1: Table(a, np.log(p.sum(axis=0)))}
    compare(sampled(model, release, None, stream=stream), exact)


@pytest.mark.full
def test_responses_with_laplace_noise():
    check_laplace()


def check_logistic(stream=84):
    """Yes or no by randomized response: p(s | eta) = 1/4 + 1/2 p(eta) of a told yes."""
    x = np.array([0.5, -1.0, 1.5, 0.2, -2.0, 1.0, 0.0, 2.2])
    told = np.array([1, 0, 1, 1, 0, 1, 0, 1])
    model = na.models.LogisticRegression(features={"x": x}, coefficient_sd=1.5)
    release = na.Release(told, RandomizedResponse(2, truth=0.75), 8)
    a = np.linspace(-8.0, 8.0, 401)
    log_p = -0.5 * (a[:, None] ** 2 + a**2) / 1.5**2
    for xi, s in zip(x, told, strict=True):
        yes = 0.25 + 0.5 / (1.0 + np.exp(-(a[:, None] + a * xi)))
        log_p = log_p + np.log(yes if s else 1.0 - yes)
    p = np.exp(log_p - log_p.max())
    exact = {0: Table(a, np.log(p.sum(axis=1))), 1: Table(a, np.log(p.sum(axis=0)))}
    compare(sampled(model, release, None, draws=1500, stream=stream), exact)


@pytest.mark.full
def test_told_answers():
    check_logistic()


# ------------------------------------------------------------------ the parts

Z = {"z": [0.3, -1.0, 0.8, 0.1, -0.4, 1.2, -0.7, 0.5]}
SETTINGS = {
    "linear": (na.models.LinearRegression(features=Z), LocalLaplace(NUMBER, scale=0.7)),
    "linear-gaussian": (
        na.models.LinearRegression(features=Z, coefficient_sd=1.0),
        LocalGaussian(NUMBER, scale=np.linspace(0.5, 2.0, 8)),
    ),
    "linear-sum": (
        na.models.LinearRegression(features=Z, noise_variance=1.0, coefficient_sd=1.0),
        na.mechanisms.Laplace(na.queries.Sum(-3.0, 3.0), epsilon=2.0),
    ),
    "logistic": (na.models.LogisticRegression(features=Z), RandomizedResponse(2, truth=0.8)),
    "poisson": (
        na.models.PoissonRegression(features=Z, coefficient_sd=0.6, largest_rate=30.0),
        na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=1.5),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_records_are_responses(name):
    model, _ = SETTINGS[name]
    rng = np.random.default_rng(5)
    theta = model.sample_prior(rng)
    index = np.array([6, 0, 3])
    u = model.innovations.draw(8, rng)
    records = model.build_records(theta, u)
    assert records.shape == (8,)
    np.testing.assert_array_equal(model.build_records(theta, u[index], index=index), records[index])
    again = model.build_records(theta, model.recover_innovations(theta, records, rng))
    np.testing.assert_allclose(again, records, atol=1e-12)
    eta = theta["coefficients"] @ np.array([np.ones(8), Z["z"]])
    if "noise_variance" in theta or name == "linear-sum":
        sd = math.sqrt(float(theta.get("noise_variance", 1.0)))
        exact = stats.norm.logpdf(records, eta, sd)
    elif name == "logistic":
        exact = stats.bernoulli.logpmf(records, 1.0 / (1.0 + np.exp(-eta)))
    else:
        exact = stats.poisson.logpmf(records, np.minimum(np.exp(eta), 30.0))
    np.testing.assert_allclose(model.log_likelihood(theta, records), exact, rtol=1e-10, atol=1e-12)
    made = na.models.from_dict(model.to_dict())
    np.testing.assert_array_equal(made.build_records(theta, u), records)


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_geweke(name, seed):
    result = na.geweke(
        *SETTINGS[name], n_records=8, replicates=300, rounds=4, random_seed=seed, false_alarm=1e-6
    )
    assert result, str(result)


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_sbc(name, seed):
    result = na.sbc(
        *SETTINGS[name], n_records=8, replicates=60, ranks=9, draws=90, warmup=100,
        random_seed=seed, false_alarm=1e-6,
    )  # fmt: skip
    assert result, str(result)


def linear(**given):
    return lambda: na.models.LinearRegression(**given)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (linear(), "n_features is missing"),
        (linear(features={"a": [1.0, math.nan]}), "column 'a' has nan in row 1"),
        (linear(features={"a": [2.0, 2.0]}), "column 'a' is 2.0 in every row"),
        (linear(features={"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]}), "of one length; got"),
        (linear(features={"a": [1.0, 2.0]}, n_features=3), "n_features must be 1, as features"),
        (linear(features={"a": [1, 2]}, feature_mean=[0.0]), "feature_mean is for features that"),
        (
            lambda: na.sample(
                na.models.LinearRegression(features={"a": [1.0, 2.0]}),
                na.Release([1.0], LocalGaussian(NUMBER, scale=1.0), 1),
            ),
            "is of 2 records, and the release of 1 record",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ planted bugs

BUGS = {
    "the features of the record before": (
        lambda: check_local_gaussian(85),
        (Edit(Regression, "_known_of", "self._known[chosen", "self._known[(chosen + 1)"),),
    ),
    "the determinant of the coefficients left out": (
        check_unknown_variance,
        (Edit(summed_linear, "integrated", "- math.log(root[i, i])", "- 0.0"),),
    ),
    "the Jacobian of the variance": (
        check_unknown_variance,
        (Edit(SummedLinear, "log_density", "- a * t", "- (a + 1.0) * t"),),
    ),
    "responses that are not shrunk": (
        check_unknown_variance,
        (Edit(SummedLinear, "_at", "shrunk = mean + variance * self.q * spread * away",
              "shrunk = mean + 0.0 * away"),),
    ),
    "which records is not looked at": (
        lambda: test_records_are_responses("linear"),
        (Edit(Regression, "build_records", "self._known_of(len(u), index)",
              "self._known_of(len(u))"),),
    ),
    "the density of the features left in": (
        lambda: test_records_are_responses("logistic"),
        (Edit(Regression, "log_likelihood", "found + 0.5 *", "found + 0.0 *"),),
    ),
}  # fmt: skip


QUICK = [bug for bug in BUGS if BUGS[bug][0] is not check_unknown_variance]


@pytest.mark.parametrize("bug", only(QUICK, BUGS))
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()
