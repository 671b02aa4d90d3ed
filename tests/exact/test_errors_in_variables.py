"""Features that were released with noise, beside known ones, on the default sampler.

Posteriors by quadrature over theta, with x integrated out of each record on a grid, and by weighted
draws of the prior. False alarms: 1e-5 for each comparison of draws (`exact.known`, 6 of them), 1e-6
for each Geweke and SBC run. `test_seen_normals` has the integrals and the draws alone.
"""

import math

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from exact.known import SEED, Table, assert_draws_agree, sampled
from mutants.planting import Edit, planted
from noiseaware.maths.seen_normals import SeenNormals
from noiseaware.mechanisms import Attributes, LocalExact, LocalGaussian, LocalLaplace
from noiseaware.models import errors_in_variables as module
from noiseaware.models.errors_in_variables import ErrorsInVariables
from noiseaware.sampler.moves import ConditionalMove

NUMBER = na.queries.Value(integer_valued=False)
AS_IT_IS = LocalExact(integer_valued=False)
S = np.array([1.2, -0.8, 2.5, 0.3, -1.9])
Y = np.array([2.0, -1.1, 2.4, 0.9, -1.0])
SCALES = np.array([0.6, 1.4, 0.9, 2.0, 0.6])

LAWS = {
    "laplace": (LocalLaplace(NUMBER, scale=SCALES), lambda x: np.abs(x - S) / SCALES, S),
    "gaussian": (LocalGaussian(NUMBER, scale=SCALES), lambda x: 0.5 * ((x - S) / SCALES) ** 2, S),
    "withheld": (
        LocalGaussian(NUMBER, scale=SCALES, threshold=0.0),
        lambda x: np.where(
            S > 0.0, 0.5 * ((x - S) / SCALES) ** 2, -stats.norm.logcdf((0.0 - x) / SCALES)
        ),
        np.where(S > 0.0, S, np.nan),
    ),
}


def check_posterior(law, stream):
    """Sigma and sigma^2 known: intercept, slope and mean of x, on a grid of 41 points each.

    p(y_i, s_i | theta) = int N(x; g, 1.2) N(y_i; a + b x, 0.5) h(s_i | x) dx.
    """
    mechanism, minus_log_h, seen = LAWS[law]
    model = ErrorsInVariables(
        1, noise_variance=0.5, feature_covariance=[[1.2]], coefficient_sd=1.0, feature_sd=1.0
    )
    release = na.Release(np.column_stack([seen, Y]), Attributes([mechanism, AS_IT_IS]), 5)
    a, b, g = np.linspace(-2.6, 2.6, 53), np.linspace(-2.2, 3.4, 57), np.linspace(-3.0, 3.0, 49)
    x = np.linspace(-9.0, 9.0, 361)
    prior = -0.5 * (a[:, None, None] ** 2 + b[:, None] ** 2 + g**2)
    log_p = prior.copy()
    h = np.exp(-minus_log_h(x[:, None]))  # (x, record)
    normal = np.exp(-0.5 * (x[:, None] - g) ** 2 / 1.2)  # (x, g)
    for i in range(5):
        left = Y[i] - a[:, None, None] - b[:, None] * x  # (a, b, x)
        log_p += np.log(np.exp(-0.5 * left**2 / 0.5) @ (normal * h[:, i : i + 1]))
    p = np.exp(log_p - log_p.max())
    exact = {
        "intercept": Table(a, np.log(p.sum(axis=(1, 2)))),
        "slope": Table(b, np.log(p.sum(axis=(0, 2)))),
        "mean": Table(g, np.log(p.sum(axis=(0, 1)))),
    }
    tree = sampled(model, release, None, draws=800, stream=stream)["posterior"]
    draws = {
        "intercept": tree["coefficients"].values[..., 0],
        "slope": tree["coefficients"].values[..., 1],
        "mean": tree["feature_coefficients"].values[..., 0, 0],
    }
    assert_draws_agree(exact, lambda name: draws[name])


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
def test_posterior(law):
    check_posterior(law, 91)


class Weighted:
    """A distribution as draws of another one, with weights."""

    def __init__(self, points, weights) -> None:
        self.points, self.weights = points, weights

    def raw_moment(self, k):
        return float(self.weights @ self.points**k)

    def cdf(self, x):
        return float(self.weights[self.points <= x].sum())


def laplace(s, scale):
    return lambda x: np.exp(-np.abs(x - s) / scale)


def withheld(limit, scale):
    return lambda x: stats.laplace.cdf(limit, x, scale)


TWO = {
    "laplace": (
        [LocalLaplace(NUMBER, scale=1.5), LocalGaussian(NUMBER, scale=0.5)],
        [[1.0, 2.0], [-2.0, 1.5]],
        [laplace(1.0, 1.5), laplace(-2.0, 1.5)],
        [lambda y: stats.norm.pdf(y, 2.0, 0.5), lambda y: stats.norm.pdf(y, 1.5, 0.5)],
    ),
    "both": (
        [LocalLaplace(NUMBER, scale=1.5), LocalLaplace(NUMBER, scale=0.5)],
        [[1.0, 2.0], [-2.0, 1.5]],
        [laplace(1.0, 1.5), laplace(-2.0, 1.5)],
        [laplace(2.0, 0.5), laplace(1.5, 0.5)],
    ),
    "withheld": (
        [LocalLaplace(NUMBER, scale=1.5, threshold=-1.0), LocalLaplace(NUMBER, scale=0.5)],
        [[1.0, 2.0], [math.nan, 1.5]],
        [laplace(1.0, 1.5), withheld(-1.0, 1.5)],
        [laplace(2.0, 0.5), laplace(1.5, 0.5)],
    ),
}
"""Mechanisms, values, and what is seen of x and of y of each of two records."""


def check_two(case, stream):
    """All of theta unknown, two records: draws of the prior, weighted by what is seen.

    2,000,000 draws of theta and of both records, of which some 50,000 count: their error is a
    quarter of that of the chains.
    """
    mechanisms, values, of_x, of_y = TWO[case]
    rng, many = np.random.default_rng(SEED), 2_000_000
    a, b, g = 2.0 * rng.standard_normal((3, many))
    noise, spread = 4.0 / rng.standard_gamma(3.0, many), 1.0 / rng.standard_gamma(2.0, many)
    weights = np.ones(many)
    for see_x, see_y in zip(of_x, of_y, strict=True):
        x = g + np.sqrt(spread) * rng.standard_normal(many)
        weights *= see_x(x) * see_y(a + b * x + np.sqrt(noise) * rng.standard_normal(many))
    parts = {"a": a, "b": b, "g": g, "noise": np.log(noise), "spread": np.log(spread)}
    exact = {name: Weighted(part, weights / weights.sum()) for name, part in parts.items()}
    release = na.Release(values, Attributes(mechanisms), 2)
    tree = sampled(ErrorsInVariables(1), release, None, draws=800, stream=stream)["posterior"]
    draws = {
        "a": tree["coefficients"].values[..., 0],
        "b": tree["coefficients"].values[..., 1],
        "g": tree["feature_coefficients"].values[..., 0, 0],
        "noise": np.log(tree["noise_variance"].values),
        "spread": np.log(tree["feature_covariance"].values[..., 0, 0]),
    }
    assert_draws_agree(exact, lambda name: draws[name])


@pytest.mark.full
@pytest.mark.parametrize("case", TWO)
def test_two_records(case):
    check_two(case, 93)


def test_a_wide_noise_does_not_slow_it_down():
    """Noise of 5 times the spread of x: bulk and tail ESS of every parameter at least 400."""
    rng = np.random.default_rng(SEED)
    x = 0.3 + rng.normal(size=200)
    y = 0.5 + x + rng.normal(0.0, 0.7, size=200)
    mechanism = LocalLaplace(NUMBER, scale=5.0 / math.sqrt(2.0))
    values = np.column_stack([mechanism.privatize(x, rng).values, y])
    release = na.Release(values, Attributes([mechanism, AS_IT_IS]), 200)
    table = na.summary(sampled(ErrorsInVariables(1), release, None, stream=94, warmup=500))
    assert table[["ess_bulk", "ess_tail"]].astype(float).min().min() > 400


def test_the_density_of_a_record():
    model = ErrorsInVariables(2, {"z": [0.3, -1.0, 0.8]})
    rng = np.random.default_rng(3)
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 3, rng)
    z = np.column_stack([np.ones(3), [0.3, -1.0, 0.8]])
    slopes, beta = theta["feature_coefficients"], theta["coefficients"]
    exact = [
        stats.multivariate_normal.logpdf(r[:2], slopes @ zi, theta["feature_covariance"])
        + stats.norm.logpdf(r[2], np.r_[zi, r[:2]] @ beta, math.sqrt(theta["noise_variance"]))
        for r, zi in zip(records, z, strict=True)
    ]
    np.testing.assert_allclose(model.log_likelihood(theta, records), exact, rtol=1e-10)
    again = na.models.from_dict(model.to_dict())
    np.testing.assert_allclose(again.log_likelihood(theta, records), exact, rtol=1e-10)


# ------------------------------------------------------------------ Geweke and SBC

Z = {"z": [0.3, -1.0, 0.8, 0.1, -0.4, 1.2, -0.7, 0.5]}
SETTINGS = {
    "laplace": (ErrorsInVariables(1, Z), Attributes([LocalLaplace(NUMBER, scale=0.8), AS_IT_IS])),
    "two": (
        ErrorsInVariables(2, Z),
        Attributes(
            [
                LocalGaussian(NUMBER, scale=1.2, threshold=0.5),
                LocalLaplace(NUMBER, scale=0.7, clamp=(-2.0, 2.0)),
                LocalGaussian(NUMBER, scale=0.5),
            ]
        ),
    ),
    "no response": (ErrorsInVariables(1), Attributes([LocalGaussian(NUMBER, scale=1.0, step=1.0)])),
}


def check_geweke(name, seed=1):
    result = na.geweke(
        *SETTINGS[name], n_records=8, replicates=300, rounds=3, random_seed=seed, false_alarm=1e-6
    )
    assert result, str(result)


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_geweke(name, seed):
    check_geweke(name, seed)


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_sbc(name, seed):
    result = na.sbc(
        *SETTINGS[name], n_records=8, replicates=60, ranks=9, draws=90, warmup=50,
        random_seed=seed, false_alarm=1e-6,
    )  # fmt: skip
    assert result, str(result)


# ------------------------------------------------------------------ bad input


def fitted(mechanisms, values):
    release = na.Release(values, Attributes(mechanisms), len(values))
    return lambda: na.sample(ErrorsInVariables(1), release, draws=5, warmup=5, progressbar=False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ErrorsInVariables(0), "n_features must be"),
        (lambda: ErrorsInVariables(1, {"a": [1.0, math.nan]}), "column 'a' has nan in row 1"),
        (
            fitted([na.mechanisms.LocalGeometric(na.queries.Value(), scale=1.0)], [[1.0], [2.0]]),
            "attribute '1': records must be whole numbers",
        ),
        (
            lambda: na.sample(
                na.models.Normal(),
                na.Release([1.0], na.mechanisms.LocalGaussian(NUMBER, scale=1.0), 1),
                moves=[na.moves.ConditionalMove()],
            ),
            "ConditionalMove needs a model with seen_records",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ planted bugs

BUGS = {
    "x without the response": (
        lambda: check_posterior("laplace", 92),
        (Edit(SeenNormals, "_given", "means[:, self._j] + change[:, self._j]",
              "means[:, self._j]"),),
    ),
    "the covariance without the spread of the features": (
        lambda: check_geweke("two"),
        (Edit(ErrorsInVariables, "update_parameters", "left.T @ left, n, rng",
              "0.0 * left.T @ left, n, rng"),),
    ),
    "theta without the Jacobian": (
        lambda: check_two("laplace", 95),
        (Edit(module.StraightCoordinates, "from_vector", "float(np.linalg.slogdet(sigma)[1])",
              "0.0"),),
    ),
    "theta without its prior": (
        lambda: check_two("laplace", 95),
        (Edit(ConditionalMove, "_draw", "log_prior(theta) + ", ""),),
    ),
    "images that do not see the release": (
        lambda: test_a_sign_that_is_left_open_is_sampled(),
        (Edit(ConditionalMove, "_draw", "seen.log_p(image) - seen.log_p(state.theta)", "0.0"),),
    ),
    "images without their prior": (
        lambda: check_two("laplace", 95),
        (Edit(ConditionalMove, "_draw", "log_prior(image) - log_prior(state.theta)", "0.0"),),
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()


def test_known_features_without_names_are_not_called_as_the_noisy_ones_are():
    model = na.models.ErrorsInVariables(1, np.array([[-1.0], [0.5]]))
    assert list(model.parameters[0].labels) == [
        f"coefficients[{name}]" for name in ("intercept", "x1 (known)", "x1")
    ]


class First:
    """A generator that always picks the same feature."""

    def __init__(self, which):
        self.integers = lambda _: which


@pytest.mark.parametrize("which", [0, 1])
def test_the_mirror_image_of_the_image_is_where_it_began(which):
    """And the volume is as it was, by differences."""
    rng = np.random.default_rng(SEED)
    model = ErrorsInVariables(2, {"z": [0.2, -1.0, 0.7]})
    theta = model.sample_prior(rng)
    image = model.mirror_parameters(theta, First(which))
    back = model.mirror_parameters(image, First(which))
    np.testing.assert_allclose(back["coefficients"], theta["coefficients"], rtol=1e-12)
    z, slopes = model._known(3), theta["feature_coefficients"]
    means = [
        z @ t["coefficients"][:2] + z @ slopes.T @ t["coefficients"][2:] for t in (theta, image)
    ]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-12)

    def moved(change):
        there = {**theta, "coefficients": theta["coefficients"] + change}
        return model.mirror_parameters(there, First(which))["coefficients"]

    jacobian = np.array([moved(e) - moved(0.0 * e) for e in np.eye(4)])
    assert abs(abs(np.linalg.det(jacobian)) - 1.0) < 1e-9


def test_a_sign_that_is_left_open_is_sampled():
    """Ten records, a known noise_variance: P(b < 0) is 0.1958, by 8 million draws of the prior.

    These are weighted by p(s_dp | theta), in closed form with x integrated out; the error is 0.001.
    That of the mean of the chains is about 0.015.
    """
    rng = np.random.default_rng(10)
    x = rng.normal(size=10)
    y = 1.5 * x + 0.3 * rng.normal(size=10)
    mechanism = Attributes([LocalLaplace(NUMBER, scale=2.0), LocalExact(integer_valued=False)])
    values = np.column_stack([x + rng.laplace(scale=2.0, size=10), y]).ravel()
    model = ErrorsInVariables(1, noise_variance=0.09)
    posterior = na.sample(
        model, na.Release(values, mechanism, 10), random_seed=1, progressbar=False, draws=400
    )
    below = (posterior["posterior"]["coefficients"].values[..., 1] < 0.0).mean(axis=1)
    assert abs(below.mean() - 0.1958) < 0.08
    assert below.min() > 0.05
