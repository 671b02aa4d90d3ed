"""Log prior and log likelihood of every model: those of SciPy, and normalised."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from mutate_models import mutated_models
from noiseaware import models
from protocol.model_cases import reference


def test_log_prior_is_that_of_scipy(model, rng):
    for _ in range(10):
        theta = model.sample_prior(rng)
        expected = reference(model).prior(model, theta)
        assert model.log_prior(theta) == pytest.approx(expected, rel=1e-9)


def test_log_likelihood_is_that_of_scipy(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 40, rng)
    expected = reference(model).likelihood(model, theta, records)
    np.testing.assert_allclose(model.log_likelihood(theta, records), expected, rtol=1e-8, atol=1e-8)


# One parameter of one dimension: the arguments of a model, the parameter at v, and its range.
PRIORS = {
    "unit": ("Bernoulli", {"a": 2.5, "b": 1.5}, lambda v: {"probability": v}, 0.0, 1.0),
    "simplex": (
        "Categorical",
        {"n_levels": 2, "concentration": [1.5, 3.0]},
        lambda v: {"probabilities": np.array([v, 1.0 - v])},
        0.0,
        1.0,
    ),
    "real": ("Normal", {"variance": 1.0, "mean_mean": 2.0}, lambda v: {"mean": v}, -np.inf, np.inf),
    "gamma": (
        "Exponential",
        {"rate_shape": 2.5, "rate_rate": 3.0},
        lambda v: {"rate": v},
        0,
        np.inf,
    ),
    # Not the default scale: with a mean of 1, a power too few would not change the mass.
    "positive": (
        "Normal",
        {"mean": 0.0, "variance_scale": 3.0},
        lambda v: {"variance": v},
        0.0,
        np.inf,
    ),
    # The coefficients are held where their density is known, and divided out.
    "covariance": (
        "LinearRegression",
        {"n_features": 1, "noise_variance": 1.0, "feature_mean": [0.0]},
        lambda v: {"coefficients": np.zeros(2), "feature_covariance": np.array([[v]])},
        0.0,
        np.inf,
    ),
}


def prior_mass(package, case):
    """Integrate exp(log_prior) over a parameter of one dimension."""
    kind, arguments, point, low, high = PRIORS[case]
    model = getattr(package, kind)(**arguments)
    known = 2 * stats.norm.logpdf(0.0, scale=2.0) if case == "covariance" else 0.0
    return integrate.quad(lambda v: math.exp(model.log_prior(point(v)) - known), low, high)[0]


@pytest.mark.parametrize("case", PRIORS)
def test_the_prior_integrates_to_1(case):
    assert prior_mass(models, case) == pytest.approx(1.0, abs=1e-6)


DENSITY_BUGS = [
    ("densities.py", "- (shape + 1.0) * math.log(value)", "- shape * math.log(value)", "positive"),
    ("densities.py", "(shape - 1.0) * math.log(value)", "shape * math.log(value)", "gamma"),
    ("densities.py", "- 0.5 * df * size * math.log(2.0)", "", "covariance"),
    (
        "conjugate.py",
        "math.lgamma(concentrations.sum()) - sum(",
        "math.lgamma(concentrations.sum()) + sum(",
        "simplex",
    ),
    ("bernoulli.py", "(self.b - 1.0) * math.log1p(-p)", "self.b * math.log1p(-p)", "unit"),
    ("densities.py", "(z * z + LOG_2PI) + math.log(sd)", "(z * z + LOG_2PI)", "real"),
]


@pytest.mark.parametrize(("file", "old", "new", "case"), DENSITY_BUGS)
def test_a_bug_in_a_prior_is_caught(file, old, new, case):
    with mutated_models(file, old, new) as mutant:
        assert abs(prior_mass(mutant, case) - 1.0) > 1e-3
