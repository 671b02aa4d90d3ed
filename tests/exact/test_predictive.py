"""Simulated releases and records have the law of the model and the mechanism.

Each comparison fails a right one with probability below 1e-6.
"""

import warnings

import arviz_stats
import numpy as np
import pytest
from scipy import special, stats

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.mechanisms import Gaussian, Laplace
from noiseaware.models import Bernoulli, MultivariateNormal, Normal
from noiseaware.models.regression import Regression as REGRESSION
from noiseaware.queries import Count, Moments
from noiseaware.results import predictive

MODEL, N, SHARE, SCALE = Bernoulli(), 40, 0.3, 3.0
RELEASE = na.Release([14.0], Laplace(Count(), scale=SCALE), N)


@pytest.fixture(scope="module")
def posterior():
    return na.sample(MODEL, RELEASE, draws=500, random_seed=1, progressbar=False)


def z_scores(posterior):
    """Of mean and variance of releases whose theta is known, in standard errors."""
    known = posterior.copy()
    known["posterior"] = known["posterior"].to_dataset() * 0.0 + SHARE
    made = na.posterior_predictive(known, MODEL, draws=500, random_seed=1)
    values = made["posterior_predictive"]["release"].values.ravel()
    variance = N * SHARE * (1 - SHARE) + 2 * SCALE**2
    spread = (values - N * SHARE) ** 2
    of_mean = (values.mean() - N * SHARE) / np.sqrt(variance / len(values))
    return of_mean, (spread.mean() - variance) / (spread.std() / np.sqrt(len(values)))


def test_releases_of_a_known_theta(posterior):
    assert np.abs(z_scores(posterior)).max() < 5.0


def test_releases_without_noise_would_be_seen(posterior):
    edit = Edit(
        predictive.Simulator,
        "simulate",
        "self.privatize(records[:n], self.rng).values",
        "self.release.query.statistic(records[:n]).sum(axis=0)",
    )
    with planted(edit):
        assert np.abs(z_scores(posterior)).max() > 5.0


def test_the_prior_predictive_of_a_count(posterior):
    """With a flat prior every count from 0 to n is as probable."""
    made = na.posterior_predictive(posterior, MODEL, draws=1000, random_seed=2)
    values = made["prior_predictive"]["release"].values.ravel()
    variance = N * (N + 2) / 12 + 2 * SCALE**2
    assert abs(values.mean() - N / 2) < 5 * np.sqrt(variance / len(values))


def test_groups_fit_the_schema(posterior):
    made = na.posterior_predictive(posterior, MODEL, draws=20, records=5, random_seed=1)
    assert made["posterior_predictive"]["records"].dims == ("chain", "draw", "record")
    assert made["posterior_predictive"]["release"].dims == ("chain", "draw", "released")
    assert "release" in made["observed_data"]
    assert made["log_prior"]["prior"].shape == (4, 500)
    assert np.allclose(made["log_prior"]["prior"], 0.0)  # flat
    assert "posterior_predictive" not in posterior.children


def test_vectors_and_the_same_seed():
    model = MultivariateNormal(2)
    rng = np.random.default_rng(1)
    records = model.sample_records(model.sample_prior(rng), 30, rng)
    release = Gaussian(Moments(2, -20, 20), mu=1.0).privatize(records, rng)
    posterior = na.sample(model, release, draws=100, warmup=100, random_seed=1, progressbar=False)
    first, again = (
        na.posterior_predictive(posterior, model, draws=10, records=3, random_seed=4)
        for _ in range(2)
    )
    assert first["posterior_predictive"]["records"].shape == (4, 10, 3, 2)
    sensitivity = arviz_stats.psense(first, group="prior", var_names=["mean"])
    assert np.isfinite(sensitivity["mean"]).all()
    assert (
        first["posterior_predictive"]
        .to_dataset()
        .equals(again["posterior_predictive"].to_dataset())
    )


def test_an_unknown_number_of_records():
    release = na.Release([14.0], Laplace(Count(), scale=SCALE), n_records=None)
    posterior = na.sample(
        MODEL, release, size=na.sizes.Uniform(20, 60), draws=100, random_seed=1, progressbar=False
    )
    made = na.posterior_predictive(posterior, MODEL, draws=20, random_seed=1)
    assert made["posterior_predictive"]["release"].shape == (4, 20, 1)


@pytest.mark.parametrize("written", [True, False])
def test_the_log_prior_has_that_of_n(written):
    """log p(theta) + log p(n); a prior that cannot be written is given, or there is no group."""
    release = na.Release([14.0], Laplace(Count(), scale=SCALE), n_records=None)
    size = na.sizes.Poisson(40.0)
    if not written:
        size = na.sizes.LogPmf(stats.poisson(40.0).logpmf, 1, 100)
    posterior = na.sample(
        MODEL, release, size=size, draws=50, chains=1, random_seed=1, progressbar=False
    )
    if not written:
        assert "log_prior" not in na.posterior_predictive(posterior, MODEL, draws=5).children
    made = na.posterior_predictive(posterior, MODEL, size=None if written else size, draws=5)
    n, p = (posterior["posterior"][name].values for name in ("n_records", "probability"))
    alone = np.array([MODEL.log_prior({"probability": one}) for one in p.ravel()])
    found = made["log_prior"]["prior"].values.ravel() - alone
    expected = stats.poisson.logpmf(n.ravel(), 40.0)
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-9)
    assert len(np.unique(n)) > 5


CELLS = np.linspace(-1.0, 1.0, 12)
LOCAL = {
    "cells": (
        na.models.CountRegression(CELLS[:, None]),
        na.Release(
            [1.3, -2.0, 4.4, 0.2, 3.1, 5.0, 2.2, 1.0, 6.1, 3.3, 0.4, 7.0],
            na.mechanisms.LocalGaussian(na.queries.Value(), scale=2.0),
            12,
        ),
        lambda theta, s: special.logsumexp(
            stats.poisson.logpmf(
                np.arange(80)[:, None],
                np.exp(theta["coefficients"][0] + theta["coefficients"][1] * CELLS),
            )
            + stats.norm.logpdf(s, np.arange(80)[:, None], 2.0),
            axis=0,
        ),
    ),
    "answers": (
        Bernoulli(2.0, 2.0),
        na.Release([1, 0, 1, 1, 0, 1], na.mechanisms.RandomizedResponse(n_levels=2, truth=0.8), 6),
        lambda theta, s: np.log(
            np.where(s == 1, 0.6 * theta["probability"] + 0.2, 0.8 - 0.6 * theta["probability"])
        ),
    ),
}


def likelihood_difference(name):
    """The largest difference of log p(s_i | theta) from sums by hand, over draws and records."""
    model, release, exactly = LOCAL[name]
    posterior = na.sample(
        model, release, draws=200, warmup=60, random_seed=1, progressbar=False, chains=2
    )
    made = na.posterior_predictive(posterior, model, draws=200, random_seed=1)
    values = made["log_likelihood"]["release"].values.reshape(-1, len(release.values))
    drawn = predictive.thetas(posterior["posterior"].to_dataset(), model)
    wanted = [exactly(theta, release.values) for theta in drawn]
    return made, np.abs(values - wanted).max()


@pytest.mark.parametrize("name", LOCAL)
def test_the_pointwise_likelihood_of_local_releases(name):
    made, difference = likelihood_difference(name)
    assert difference < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about few draws
        assert np.isfinite(arviz_stats.loo(made).elpd)
        assert arviz_stats.loo_pit(made)["release"].shape == made["observed_data"]["release"].shape
        for group in ("likelihood", "prior"):
            assert np.isfinite(arviz_stats.psense(made, group=group).to_array()).all()


def test_a_likelihood_without_its_constant_is_seen():
    edit = Edit(predictive, "pointwise", "laws).log_p + constants", "laws).log_p")
    with planted(edit):
        assert likelihood_difference("cells")[1] > 1e-12


def test_a_total_has_no_pointwise_likelihood(posterior):
    made = na.posterior_predictive(posterior, MODEL, draws=5, random_seed=1)
    assert "log_likelihood" not in made.children


def test_mistakes(posterior):
    with pytest.raises(ValueError, match="no 'mean', a parameter of Normal"):
        na.posterior_predictive(posterior, Normal())
    with pytest.raises(ValueError, match="draws must be a positive integer; got 0"):
        na.posterior_predictive(posterior, MODEL, draws=0)
    bare = posterior.copy()
    bare.attrs = {**bare.attrs, "release_json": ""}
    with pytest.raises(ValueError, match="release must be given"):
        na.posterior_predictive(bare, MODEL)
    made = na.posterior_predictive(bare, MODEL, release=RELEASE, draws=5)
    assert made["posterior_predictive"]["release"].shape == (4, 5, 1)


# ------------------------------------------------------------------ the response of a regression

X = np.array([[-1.0, 0.5], [0.0, 0.0], [1.5, -0.3]])
BETA = np.array([0.2, 0.6, -0.4])
REGRESSIONS = {
    "linear": (na.models.LinearRegression(2, noise_variance=2.0), lambda e: e, lambda e: 2.0),
    "logistic": (
        na.models.LogisticRegression(2),
        lambda e: 1 / (1 + np.exp(-e)),
        lambda e: np.exp(-e) / (1 + np.exp(-e)) ** 2,
    ),
    "Poisson": (na.models.PoissonRegression(2), np.exp, np.exp),
}


def known_theta(model):
    """A posterior whose draws all have the same coefficients."""
    from xarray import Dataset, DataTree

    content = {}
    rng = np.random.default_rng(0)
    theta = model.sample_prior(rng) | {"coefficients": BETA}
    for name, value in theta.items():
        dims = ("chain", "draw", *(f"{name}_{k}" for k in range(np.ndim(value))))
        content[name] = (dims, np.broadcast_to(value, (2, 2000, *np.shape(value))))
    labels = {"chain": np.arange(2), "draw": np.arange(2000)}
    return DataTree.from_dict({"posterior": Dataset(content, coords=labels)})


def response_scores(name):
    """Of means and variances of responses, and the differences of what is expected."""
    model, mean, variance = REGRESSIONS[name]
    made = na.predict(known_theta(model), model, X, random_seed=1)["predictions"]
    eta = BETA[0] + X @ BETA[1:]
    y = made["response"].values.reshape(-1, len(X))
    spread = (y - mean(eta)) ** 2
    of_mean = (y.mean(axis=0) - mean(eta)) / np.sqrt(variance(eta) / len(y))
    of_variance = (spread.mean(axis=0) - variance(eta)) / (spread.std(axis=0) / np.sqrt(len(y)))
    return np.abs([of_mean, of_variance]).max(), made["expected"].values - mean(eta)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_response_has_the_law_of_the_model(name):
    score, difference = response_scores(name)
    assert score < 5.5
    assert np.abs(difference).max() < 1e-12


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("linear", Edit(na.models.LinearRegression, "_respond", "np.sqrt", "")),
        ("logistic", Edit(REGRESSION, "predict_response", "beta[0] + ", "")),
        ("Poisson", Edit(REGRESSION, "predict_response", "beta[1:]", "-beta[1:]")),
    ],
    ids=["variance for deviation", "no intercept", "a sign"],
)
def test_a_wrong_response_is_seen(name, edit):
    with planted(edit):
        score, difference = response_scores(name)
    assert score > 5.5 or np.abs(difference).max() > 1e-12


def test_predict_by_names_and_bad_features(posterior):
    import pandas as pd

    model = REGRESSIONS["linear"][0]
    known = known_theta(model)
    frame = pd.DataFrame({"x2": X[:, 1], "x1": X[:, 0]})  # in another order
    made = na.predict(known, model, frame, random_seed=1)
    again = na.predict(known, model, X, random_seed=1)
    assert np.array_equal(made["predictions"]["response"], again["predictions"]["response"])
    assert made["predictions_constant_data"]["features"].values.tolist() == X.tolist()
    with pytest.raises(ValueError, match=r"features must be rows of 2 finite numbers \(x1, x2\)"):
        na.predict(known, model, [[1.0]])
    with pytest.raises(ValueError, match="predict needs a regression, with predict_response"):
        na.predict(posterior, MODEL, X)
