"""Features that were released with noise, beside known ones, on the default sampler.

Posteriors by quadrature over theta, with x integrated out of each record on a grid. False alarms:
1e-5 for each comparison of draws (`exact.known`, 3 of them), 1e-6 for each Geweke and SBC run and
each comparison of drawn entries with their density.
"""

import math

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from exact.known import SEED, Table, assert_draws_agree, sampled
from later import only
from mutants.planting import Edit, planted
from noiseaware.mechanisms import Attributes, LocalExact, LocalGaussian, LocalLaplace
from noiseaware.models import errors_in_variables as module
from noiseaware.models.errors_in_variables import ErrorsInVariables

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


def check_entries(law):
    """40,000 independent entries against their density, by a chi-square of 20 bins."""
    mechanism, minus_log_h, _ = LAWS[law]
    rng = np.random.default_rng(SEED)
    many = 40_000
    laws = mechanism.record_laws(S)
    one = laws._replace(
        family=np.repeat(laws.family[1:2], many), parameters=np.tile(laws.parameters[1], (many, 1))
    )
    drawn = module.draw_seen(np.full(many, 1.1), 0.9, np.zeros(many), one, rng)
    x = np.linspace(-7.0, 8.0, 150_001)
    log_p = -0.5 * ((x - 1.1) / 0.9) ** 2 - minus_log_h(x[:, None])[:, 1]
    cdf = np.cumsum(np.exp(log_p - log_p.max()))
    edges = np.interp(np.arange(1, 20) / 20.0, cdf / cdf[-1], x)
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=20)
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_entries_have_their_density(law):
    check_entries(law)


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
            "ConditionalMove needs a model with update_records",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ planted bugs

BUGS = {
    "one side of s only": (
        lambda: check_entries("laplace"),
        (Edit(module, "draw_seen", "above - below - 2.0 * b * (a - s)", "above - below"),),
    ),
    "the variance of the noise taken for its precision": (
        lambda: check_entries("gaussian"),
        (Edit(module, "draw_seen", "p[:, 1] ** 2, 0.0", "p[:, 1] ** -2, 0.0"),),
    ),
    "x drawn without the response": (
        lambda: check_posterior("laplace", 92),
        (Edit(ErrorsInVariables, "update_records", "means[:, j] - variance * others",
              "means[:, j] - 0.0 * others"),),
    ),
    "an interval taken as nothing": (
        lambda: check_geweke("two"),
        (Edit(module, "draw_seen", "np.log(u[0, apart]) < gain", "u[0, apart] < 2.0"),),
    ),
    "the covariance without the spread of the features": (
        lambda: check_geweke("two"),
        (Edit(ErrorsInVariables, "update_parameters", "left.T @ left, n, rng",
              "0.0 * left.T @ left, n, rng"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", only(["one side of s only"], BUGS))
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()
