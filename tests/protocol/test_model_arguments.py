"""Wrong arguments of models, parameters and innovations: the message names what is wrong."""

import math

import numpy as np
import pytest

from noiseaware import models
from noiseaware.parameters import Innovations, Parameter


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("LinearRegression(n_features=0)", "n_features must be a positive integer; got 0"),
        ("LinearRegression(n_features=2.0)", "n_features must be a positive integer"),
        ("LinearRegression(n_features=True)", "n_features must be a positive integer"),
        ("LinearRegression(n_features=1, coefficient_sd=0)", "coefficient_sd must be pos"),
        ("LinearRegression(n_features=1, noise_variance=-1)", "noise_variance must be pos"),
        ("LinearRegression(n_features=1, noise_variance=nan)", "noise_variance must be a"),
        ("LinearRegression(n_features=1, noise_variance='2 m')", "noise_variance must be"),
        (
            "LinearRegression(n_features=2, feature_mean=[1.0])",
            r"feature_mean must have shape \(2,\); got shape \(1,\)",
        ),
        ("LinearRegression(n_features=2, feature_mean=1.0)", "feature_mean must have"),
        ("LinearRegression(n_features=2, feature_mean=[1.0, nan])", "feature_mean must hold"),
        ("LinearRegression(n_features=2, feature_mean=['a', 'b'])", "feature_mean must be"),
        (
            "LinearRegression(n_features=2, feature_covariance=[[1.0, 2.0], [2.0, 1.0]])",
            "feature_covariance must be positive definite",
        ),
        (
            "LinearRegression(n_features=2, feature_covariance=[[1.0, 0.5], [0.0, 1.0]])",
            "feature_covariance must be symmetric",
        ),
        (
            "LinearRegression(n_features=2, feature_covariance=[1.0, 1.0])",
            "feature_covariance must have shape",
        ),
        ("LinearRegression(n_features=1, noise_variance_shape=0)", "noise_variance_shape"),
        ("LinearRegression(n_features=1, noise_variance_scale=0)", "noise_variance_scale"),
        ("LinearRegression(n_features=1, feature_mean_sd=-2)", "feature_mean_sd must be"),
        (
            "LinearRegression(n_features=3, feature_covariance_df=2)",
            "feature_covariance_df must be above n_features - 1 = 2",
        ),
        (
            "LinearRegression(n_features=2, feature_covariance_scale=-eye(2))",
            "feature_covariance_scale must be positive definite",
        ),
        ("NaiveBayes(n_classes=1, n_levels=[2])", "n_classes must be an integer of at"),
        ("NaiveBayes(n_classes=2, n_levels=[2, 1])", r"n_levels\[1\] must be an integer"),
        ("NaiveBayes(n_classes=2, n_levels=[])", "n_levels must list at least one"),
        ("NaiveBayes(n_classes=2, n_levels=3)", "n_features must be given"),
        ("NaiveBayes(n_classes=2, n_levels=3, n_features=0)", "n_features must be a pos"),
        (
            "NaiveBayes(n_classes=2, n_levels=[3, 3], n_features=3)",
            "n_features must be the length of n_levels, 2; got 3",
        ),
        (
            "NaiveBayes(n_classes=2, n_levels=[2], concentration=0)",
            "concentration must be positive; got 0",
        ),
        ("TwoProportions(sizes=[3])", r"sizes must be 2 numbers, .* got \[3\]"),
        ("TwoProportions(sizes=[3, 0])", "the size of group 1 must be a positive integer"),
        ("TwoMeans(sizes=3)", "sizes must list the number of records in each group; got 3"),
        ("TwoMeans(sizes=[3, 4], labels=['a', 'a'])", "labels must be 2 different texts"),
        ("TwoMeans(sizes=[3, 4], labels=3)", "labels must be a list of texts; got 3"),
        ("TwoMeans(sizes=[3, 4], labels='ab')", "labels must be a list of texts; got 'ab'"),
        ("StratifiedMeans(sizes=[4])", "sizes must be at least 2 numbers"),
        ("StratifiedMeans(sizes=[4, 4], spread_scale=0)", "spread_scale must be positive"),
        ("StratifiedProportions(sizes=[4, 4], location_sd=-1)", "location_sd must be pos"),
        ("Bernoulli(a=0)", "a must be positive; got 0"),
        ("Bernoulli(b=inf)", "b must be a finite number"),
        ("Normal(mean=0.0, variance=1.0)", "mean and variance must not both be known"),
        ("Normal(variance=0.0)", "variance must be positive"),
        ("Normal(mean=nan)", "mean must be a finite number"),
        ("Normal(mean_sd=0)", "mean_sd must be positive"),
        ("Normal(variance_shape=-1)", "variance_shape must be positive"),
        ("Normal(variance_scale=0)", "variance_scale must be positive"),
        ("MultivariateNormal(n_columns=0)", "n_columns must be a positive integer; got 0"),
        (
            "MultivariateNormal(n_columns=1, mean=[0.0], covariance=[[1.0]])",
            "mean and covariance must not both be known",
        ),
        ("MultivariateNormal(n_columns=2, mean=[1.0])", r"mean must have shape \(2,\)"),
        (
            "MultivariateNormal(n_columns=2, covariance=[[1.0, 2.0], [2.0, 1.0]])",
            "covariance must be positive definite",
        ),
        (
            "MultivariateNormal(n_columns=2, mean_mean=[1, 2, 3])",
            r"mean_mean must have shape \(2,\)",
        ),
        ("MultivariateNormal(n_columns=2, mean_sd=[1, 0])", "mean_sd must be positive"),
        ("MultivariateNormal(n_columns=2, mean_sd='a')", "mean_sd must be a finite number"),
        (
            "MultivariateNormal(n_columns=3, covariance_df=2)",
            "covariance_df must be above n_columns - 1 = 2",
        ),
        (
            "MultivariateNormal(n_columns=2, covariance_scale=[1, 1])",
            "covariance_scale must have shape",
        ),
        ("Dirichlet(n_parts=1)", "n_parts must be an integer of at least 2; got 1"),
        ("Dirichlet(n_parts=2, mean_concentration=0)", "mean_concentration must be pos"),
        (
            "Dirichlet(n_parts=2, mean_concentration=[1, 1, 1])",
            r"mean_concentration must have shape \(2,\)",
        ),
        ("Dirichlet(n_parts=2, precision_shape=0)", "precision_shape must be positive"),
        ("Dirichlet(n_parts=2, precision_rate=nan)", "precision_rate must be a finite"),
        ("Exponential(rate_shape=0)", "rate_shape must be positive; got 0"),
        ("Exponential(rate_rate=nan)", "rate_rate must be a finite number"),
        ("Gamma(shape=1.0, rate=2.0)", "shape and rate must not both be known"),
        ("Gamma(shape=-1.0)", "shape must be positive; got -1.0"),
        ("Gamma(rate='fast')", "rate must be a finite number; got 'fast'"),
        ("Gamma(shape_shape=0)", "shape_shape must be positive"),
        ("Gamma(shape_rate=0)", "shape_rate must be positive"),
        ("Gamma(rate_shape=-2)", "rate_shape must be positive"),
        ("Gamma(rate_rate=0)", "rate_rate must be positive"),
        ("ContingencyTable(n_levels=3)", "n_levels must list the number of levels"),
        ("ContingencyTable(n_levels=[])", r"n_levels must list .* got \[\]"),
        ("ContingencyTable(n_levels=[2, 1])", r"n_levels\[1\] must be an integer of at least"),
        (
            "ContingencyTable(n_levels=[2, 2], concentration=[1.0, 2.0])",
            r"concentration must have shape \(2, 2\); got shape \(2,\)",
        ),
        ("ContingencyTable(n_levels=[2], concentration=0)", "concentration must be pos"),
        (
            "ContingencyTable(n_levels=[2, 2], variables=['a', 'a'])",
            "variables must be 2 different names",
        ),
        ("ContingencyTable(n_levels=[2], variables='a')", "variables must be 1 different"),
        ("Poisson(rate_shape=0)", "rate_shape must be positive; got 0"),
        ("Poisson(rate_rate='a')", "rate_rate must be a finite number; got 'a'"),
        ("Poisson(rate_rate=1e-07)", r"rate_shape / rate_rate, .* at most 1e\+06; got 1e\+07"),
        ("NegativeBinomial(mean_shape=-1)", "mean_shape must be positive; got -1"),
        ("NegativeBinomial(mean_rate=nan)", "mean_rate must be a finite number; got nan"),
        ("NegativeBinomial(dispersion_shape=0)", "dispersion_shape must be positive"),
        ("NegativeBinomial(dispersion_rate=0)", "dispersion_rate must be positive"),
        ("LogisticRegression(n_features=0)", "n_features must be a positive integer; got 0"),
        ("LogisticRegression(n_features=1, coefficient_sd=0)", "coefficient_sd must be"),
        (
            "LogisticRegression(n_features=3, feature_covariance_df=2)",
            "feature_covariance_df must be above n_features - 1 = 2",
        ),
        ("PoissonRegression(n_features=2, feature_mean=[1])", "feature_mean must have"),
        (
            "PoissonRegression(n_features=2, largest_rate=601)",
            "largest_rate must be at most 600; got 601",
        ),
        ("Categorical(n_levels=1)", "n_levels must be an integer of at least 2; got 1"),
        ("Categorical(n_levels=3, concentration=0)", "concentration must be positive"),
        ("Categorical(n_levels=3, concentration=[1, 2])", "concentration must have shape"),
        ("Categorical(n_levels=2, concentration=[1, -1])", "concentration must be positive"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        eval(call, {**vars(models), "nan": math.nan, "inf": math.inf, "eye": np.eye})


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
