"""Every model of the package with every mechanism that its query allows, in small."""

from itertools import product

import noiseaware as na
from noiseaware.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

MOMENTS = na.queries.RegressionMoments(n_features=1, lower=-4.0, upper=4.0)

# name -> model, query, number of records. Narrow priors keep the clamps in play without making
# every record hit them; few records keep a chain's memory short.
MODELS = {
    "regression-known": (
        na.models.LinearRegression(
            1, noise_variance=1.0, feature_mean=[0.5], feature_covariance=[[1.0]]
        ),
        MOMENTS,
        8,
    ),
    "regression-unknown": (na.models.LinearRegression(1, feature_mean_sd=1.0), MOMENTS, 8),
    "logistic-regression": (
        na.models.LogisticRegression(1, feature_mean_sd=1.0),
        na.queries.RegressionMoments(1, [-4.0, 0.0], [4.0, 1.0]),
        8,
    ),
    "poisson-regression": (
        na.models.PoissonRegression(1, 0.7, feature_mean_sd=1.0, largest_rate=20.0),
        na.queries.RegressionMoments(1, [-4.0, 0.0], [4.0, 6.0]),
        8,
    ),
    "naive-bayes": (
        na.models.NaiveBayes(2, [2, 3]),
        na.queries.ClassFeatureCounts(2, [2, 3]),
        8,
    ),
    "bernoulli": (na.models.Bernoulli(2.0, 1.5), na.queries.Count(), 10),
    "normal": (na.models.Normal(mean_sd=2.0), na.queries.Sum(-3.0, 3.0), 8),
    "normal-histogram": (
        na.models.Normal(mean_sd=2.0),
        na.queries.Histogram(edges=[-4.0, -1.0, 0.0, 1.0, 4.0]),
        8,
    ),
    "categorical": (na.models.Categorical(3), na.queries.Histogram(n_levels=3), 10),
    "dirichlet": (
        na.models.Dirichlet(2, precision_rate=0.3),
        na.queries.Shares(2, squares=True),
        8,
    ),
    "multivariate-normal": (
        na.models.MultivariateNormal(2, mean_sd=1.5),
        na.queries.Moments(2, -4.0, 4.0),
        8,
    ),
    "exponential": (na.models.Exponential(), na.queries.Sum(0.0, 3.0), 8),
    "gamma": (
        na.models.Gamma(shape_shape=3.0),
        na.queries.Histogram(edges=[0.0, 0.5, 1.5, 4.0, float("inf")]),
        8,
    ),
    "two-proportions": (
        na.models.TwoProportions([4, 6], 2.0, 1.5),
        na.queries.ByGroup(na.queries.Count(), 2),
        10,
    ),
    "two-means": (
        na.models.TwoMeans([3, 5], mean_sd=2.0),
        na.queries.ByGroup(na.queries.Sum(-3.0, 3.0), 2),
        8,
    ),
    "stratified-proportions": (
        na.models.StratifiedProportions([2, 3, 5]),
        na.queries.ByGroup(na.queries.Count(), 3),
        10,
    ),
    "stratified-means": (
        na.models.StratifiedMeans([2, 2, 4], location_sd=2.0, spread_scale=1.0),
        na.queries.ByGroup(na.queries.Sum(-3.0, 3.0), 3),
        8,
    ),
    "unknown-sizes-means": (
        na.models.UnknownSizes(na.models.TwoMeans(mean_sd=2.0)),
        na.queries.ByGroup(na.queries.Sum(-3.0, 3.0), 2),
        8,
    ),
    "unknown-sizes-stratified": (
        na.models.UnknownSizes(
            na.models.StratifiedMeans(labels=["a", "b"], location_sd=2.0, spread_scale=1.0)
        ),
        na.queries.ByGroup(na.queries.Sum(-3.0, 3.0), 2),
        8,
    ),
    "unknown-sizes-counts": (
        na.models.UnknownSizes(na.models.TwoProportions(a=2.0, b=1.5), concentration=2.0),
        na.queries.ByGroup(na.queries.Histogram(n_levels=2), 2),
        10,
    ),
    "unknown-sizes-proportions": (
        na.models.UnknownSizes(na.models.StratifiedProportions(labels=["a", "b", "c"])),
        na.queries.ByGroup(na.queries.Histogram(n_levels=2), 3),
        10,
    ),
    "table": (
        na.models.ContingencyTable([2, 3]),
        na.queries.Margins([2, 3], [[0], [1]]),
        8,
    ),
    "poisson-table": (
        na.models.PoissonTable([2, 3], shape=1.5, rate=0.5),
        na.queries.Margins([2, 3], [[0], [1]]),
        None,
    ),
    "log-normal-table": (
        na.models.LogNormalTable(3, log_mean=1.0, log_sd=0.7),
        na.queries.Linear.sums(["all"] * 3, range(3)),
        None,
    ),
    "log-linear-table": (
        na.models.LogLinearTable([2, 3], [[0, 1]], 0.5, 0.7, 0.5),
        na.queries.Margins([2, 3], [[0], [1]]),
        None,
    ),
    "poisson": (
        na.models.Poisson(2.0, 0.7),
        na.queries.Sum(0, 8, integer_valued=True),
        8,
    ),
    "negative-binomial": (
        na.models.NegativeBinomial(2.0, 0.7),
        na.queries.Histogram(edges=[0, 1, 3, 6, 12]),
        8,
    ),
}

MECHANISMS = {
    "laplace": (Laplace, {"epsilon": 2.0}),
    "gaussian": (Gaussian, {"mu": 1.5}),
    "discrete-laplace": (DiscreteLaplace, {"epsilon": 2.0}),
    "discrete-gaussian": (DiscreteGaussian, {"rho": 1.0}),
}

SAMPLERS = {
    "default": None,
    "algorithm1": na.moves.algorithm1(),
    "mix": (
        na.moves.ParameterUpdate(),
        na.moves.Transport(steps=2),
        na.moves.RecordSweep(),
    ),
}


def make(model: str, mechanism: str):
    """The model, the mechanism on its query, and the number of records."""
    made, query, n_records = MODELS[model]
    kind, arguments = MECHANISMS[mechanism]
    return made, kind(query, **arguments), n_records


def check(calibration, model: str, mechanism: str, **options):
    """`na.geweke` or `na.sbc` must pass with a model and a mechanism of this file."""
    made, noise, n_records = make(model, mechanism)
    result = calibration(made, noise, n_records=n_records, **options)
    assert result, str(result)


# The mechanism of a model where one is enough: in `make test`, in SBC, and with the mix.
MECHANISM_OF = {
    "regression-known": "laplace",
    "regression-unknown": "gaussian",
    "logistic-regression": "laplace",
    "poisson-regression": "gaussian",
    "naive-bayes": "discrete-laplace",
    "bernoulli": "discrete-gaussian",
    "normal": "laplace",
    "normal-histogram": "discrete-laplace",
    "categorical": "gaussian",
    "dirichlet": "laplace",
    "multivariate-normal": "gaussian",
    "exponential": "laplace",
    "gamma": "discrete-gaussian",
    "two-proportions": "discrete-laplace",
    "two-means": "gaussian",
    "stratified-proportions": "laplace",
    "stratified-means": "laplace",
    "unknown-sizes-means": "laplace",
    "unknown-sizes-stratified": "gaussian",
    "unknown-sizes-counts": "discrete-laplace",
    "unknown-sizes-proportions": "laplace",
    "table": "discrete-gaussian",
    "poisson-table": "discrete-gaussian",
    "log-normal-table": "laplace",
    "log-linear-table": "discrete-laplace",
    "poisson": "discrete-laplace",
    "negative-binomial": "gaussian",
}
BY_COUNTS = (
    "naive-bayes",
    "bernoulli",
    "categorical",
    "two-proportions",
    "stratified-proportions",
    "unknown-sizes-counts",
    "unknown-sizes-proportions",
    "table",
)
"""Models whose records the default sampler only counts: the mix moves them as records."""

GEWEKE = [
    (model, mechanism, sampler)
    for model, mechanism, sampler in product(MODELS, MECHANISMS, ("default", "algorithm1"))
    if MODELS[model][1].integer_valued or not mechanism.startswith("discrete")
    if MODELS[model][2] is not None
    or sampler == "default"  # no others for an open number of records
] + [(model, MECHANISM_OF[model], "mix") for model in BY_COUNTS]
"""What `make validate` has of Geweke's test."""

QUICK_WITH_ALGORITHM1 = ("regression-unknown", "naive-bayes", "stratified-means")
"""Of the others, `make test` checks the kernels (`exact.test_conditionals`) and the updates of the
records (`exact.test_enumeration`) apart."""

QUICK_MODELS = (
    "regression-unknown",
    "naive-bayes",
    "stratified-proportions",
    "stratified-means",
    "unknown-sizes-means",
    "poisson-table",
)
"""At least one for each of the moves of the default sampler. The others are like one of them, so
that `make validate` is soon enough."""

QUICK_IN_SBC = ("table",)
"""SBC takes three times as long as Geweke's test."""

QUICK_FALSE_ALARM = 1e-6
QUICK_GEWEKE = {"replicates": 150, "rounds": 3, "false_alarm": QUICK_FALSE_ALARM}
QUICK_SBC = {
    "replicates": 60,
    "ranks": 9,
    "draws": 90,
    "warmup": 70,
    "false_alarm": QUICK_FALSE_ALARM,
}
"""How much is simulated in `make test`; `test_power` shows what is still caught."""
