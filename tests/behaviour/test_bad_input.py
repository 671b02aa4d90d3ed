"""Bad input: an error before any sampling, that names the argument, what it got, what is right."""

import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import small_release
from noiseaware.agreement.fit import check_fit
from noiseaware.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from noiseaware.sampler import chain

COUNT = na.queries.Count()
SUM = na.queries.Sum(0.0, 5.0)
COIN = na.models.Bernoulli()


def release(values, mechanism=None, n_records=12):
    return na.Release(values, mechanism or Laplace(COUNT, epsilon=1.0), n_records)


def fit(model, query, **arguments):
    values = np.ones(len(query.names))
    return na.sample(model, na.Release(values, Laplace(query, epsilon=1.0), 12), **arguments)


def sample(**arguments):
    return na.sample(COIN, small_release(), progressbar=False, **arguments)


TABLE = {
    # values
    "nan": (lambda: release([np.nan]), "values must be finite; got nan for 'count of 1'"),
    "infinite": (lambda: release([-np.inf]), "values must be finite; got -inf for 'count of 1'"),
    "too many values": (lambda: release([1, 2]), r"values must be 1 numbers.*; got 2"),
    "no values": (lambda: release([]), r"values must be 1 numbers.*; got 0"),
    "text": (lambda: release(["a"]), r"values must be numbers; got \['a'\]"),
    "fraction under discrete Laplace": (
        lambda: release([1.5], DiscreteLaplace(COUNT, epsilon=1.0)),
        "values must be integers under discrete noise; got 1.5 for 'count of 1'",
    ),
    "fraction under discrete Gaussian": (
        lambda: release([1.5], DiscreteGaussian(COUNT, rho=1.0)),
        "values must be integers under discrete noise; got 1.5 for 'count of 1'",
    ),
    # n_records
    "no records": (lambda: release([1], None, 0), "n_records must be a positive integer; got 0"),
    "negative": (lambda: release([1], None, -3), "n_records must be a positive integer; got -3"),
    "fraction": (lambda: release([1], None, 2.5), "n_records must be a positive integer; got 2.5"),
    "text n": (lambda: release([1], None, "9"), "n_records must be a positive integer; got '9'"),
    "true": (lambda: release([1], None, True), "n_records must be a positive integer; got True"),
    "not a mechanism": (
        lambda: na.Release([1.0], COUNT, 12),
        r"mechanism must be a mechanism such as .*Laplace.*; got Count",
    ),
    # mechanisms
    "epsilon 0": (lambda: Laplace(COUNT, epsilon=0.0), "epsilon must be .*positive.*; got 0.0"),
    "epsilon -1": (lambda: Laplace(COUNT, epsilon=-1), "epsilon must be .*positive.*; got -1"),
    "epsilon nan": (lambda: Laplace(COUNT, epsilon=np.nan), "epsilon must be .*; got nan"),
    "scale 0": (lambda: Gaussian(COUNT, scale=0), "scale must be .*positive.*; got 0"),
    "scale inf": (lambda: DiscreteLaplace(COUNT, scale=np.inf), "scale must be .*; got inf"),
    "delta 0": (lambda: Gaussian(COUNT, epsilon=1, delta=0), "delta must be .*; got 0"),
    "delta 1": (lambda: Gaussian(COUNT, epsilon=1, delta=1), "delta must be .*; got 1"),
    "rho": (lambda: DiscreteGaussian(COUNT, rho=-2.0), "rho must be .*positive.*; got -2.0"),
    "mu": (lambda: Gaussian(COUNT, mu=0), "mu must be .*positive.*; got 0"),
    "scale and epsilon": (lambda: Laplace(COUNT, 1.0, scale=2.0), "epsilon.*scale"),
    "neither": (lambda: Laplace(COUNT), "epsilon.*scale"),
    "epsilon alone": (lambda: Gaussian(COUNT, epsilon=1.0), "delta"),
    "neighbours": (
        lambda: Laplace(COUNT, 1.0, neighbours="both"),
        "neighbours must be 'change' or 'add-remove'; got 'both'",
    ),
    "discrete Laplace on floats": (
        lambda: DiscreteLaplace(SUM, epsilon=1.0),
        r"query must be integer-valued for DiscreteLaplace; Sum is not \(use Laplace, or integer_v",
    ),
    "discrete Gaussian on floats": (
        lambda: DiscreteGaussian(na.queries.RegressionMoments(1, -1, 1), rho=1.0),
        r"query must be integer-valued for DiscreteGaussian; .* is not \(use Gaussian\)",
    ),
    "not a query": (lambda: Laplace("count", epsilon=1.0), "query must be a query.*; got 'count'"),
    # queries
    "lower above upper": (
        lambda: na.queries.Sum(5.0, 0.0),
        "lower must be below upper; got lower=5.0, upper=0.0",
    ),
    "lower at upper": (
        lambda: na.queries.RegressionMoments(2, 1.0, 1.0),
        "lower must be below upper; got lower=1.0, upper=1.0",
    ),
    "one entry of lower": (
        lambda: na.queries.RegressionMoments(1, [0.0, 3.0], [1.0, 2.0]),
        "lower must be below upper; got lower=3.0, upper=2.0 for entry 1",
    ),
    # models
    "covariance": (
        lambda: na.models.LinearRegression(2, feature_covariance=[[1.0, 2.0], [2.0, 1.0]]),
        r"feature_covariance must be positive definite; got \[\[1.0, 2.0\]",
    ),
    "asymmetric covariance": (
        lambda: na.models.LinearRegression(2, feature_covariance=[[1.0, 0.5], [0.0, 1.0]]),
        "feature_covariance must be symmetric; got",
    ),
    "prior covariance": (
        lambda: na.models.LinearRegression(2, feature_covariance_scale=-np.eye(2)),
        "feature_covariance_scale must be positive definite; got",
    ),
    "shape of a mean": (
        lambda: na.models.LinearRegression(2, feature_mean=[1.0]),
        r"feature_mean must have shape \(2,\); got shape \(1,\)",
    ),
    "noise variance": (
        lambda: na.models.LinearRegression(2, noise_variance=0.0),
        "noise_variance must be positive; got 0.0",
    ),
    "concentration": (
        lambda: na.models.NaiveBayes(2, [2, 2], concentration=-1.0),
        "concentration must be positive; got -1.0",
    ),
    "prior of a coin": (lambda: na.models.Bernoulli(a=0), "a must be positive; got 0"),
    # a model and a query that do not fit
    "width": (
        lambda: fit(na.models.LinearRegression(1), na.queries.RegressionMoments(2, -1, 1)),
        r"LinearRegression\(.*does not fit the query RegressionMoments.*\(n, 3\).*\(7, 2\)",
    ),
    "levels": (
        lambda: fit(na.models.Categorical(4), na.queries.Histogram(n_levels=3)),
        r"the query has 3 levels, the model 4; got Histogram.* and Categorical\(n_levels=4\)",
    ),
    "fewer levels": (
        lambda: fit(na.models.Categorical(2), na.queries.Histogram(n_levels=3)),
        "the query has 3 levels, the model 2",
    ),
    "levels of local noise": (
        lambda: na.sample(
            na.models.Bernoulli(),
            na.Release([0, 2], na.mechanisms.RandomizedResponse(n_levels=3, epsilon=1.0), 2),
        ),
        "the query has 3 levels, the model 2",
    ),
    "a count of no number": (
        lambda: fit(na.models.Normal(), COUNT),
        "a count of the value 1 needs a model with whole-number records; those of Normal are other",
    ),
    "rare levels": (
        lambda: fit(na.models.Categorical(12, 5.0), na.queries.Histogram(n_levels=11)),
        "the query has 11 levels, the model 12",
    ),
    "levels of a feature": (
        lambda: fit(na.models.NaiveBayes(2, [2, 3]), na.queries.ClassFeatureCounts(2, [2, 2])),
        "does not fit .*levels of feature 2 must be from 0 to 1; got 2",
    ),
    "classes": (
        lambda: fit(na.models.NaiveBayes(3, [2, 2]), na.queries.ClassFeatureCounts(2, [2, 2])),
        "does not fit .*classes must be from 0 to 1; got 2",
    ),
    "floats for levels": (
        lambda: fit(na.models.Normal(), na.queries.Histogram(n_levels=3)),
        r"Normal\(\) does not fit .*records must be integers; got dtype float64",
    ),
    "shape": (
        lambda: fit(na.models.NaiveBayes(2, [2, 2]), COUNT),
        r"does not fit .*records must have shape \(n,\); got shape \(7, 3\)",
    ),
    # sample
    "draws 0": (lambda: sample(draws=0), "draws must be a positive integer; got 0"),
    "draws 2.5": (lambda: sample(draws=2.5), "draws must be a positive integer; got 2.5"),
    "draws True": (lambda: sample(draws=True), "draws must be a positive integer; got True"),
    "chains 0": (lambda: sample(chains=0), "chains must be a positive integer; got 0"),
    "chains -1": (lambda: sample(chains=-1), "chains must be a positive integer; got -1"),
    "warmup": (lambda: sample(warmup=-1), "warmup must be zero or a positive integer; got -1"),
    "cores": (lambda: sample(cores=0), "cores must be a positive integer; got 0"),
    "seed": (lambda: sample(random_seed=-1), "random_seed must be zero or a positive .*; got -1"),
    "text seed": (lambda: sample(random_seed="a"), "random_seed must be .* integer; got 'a'"),
    "keep": (lambda: sample(keep_records=-1), "keep_records must be zero or .*; got -1"),
    "keep too many": (
        lambda: sample(draws=10, keep_records=11),
        r"keep_records must be at most draws \(10\); got 11",
    ),
    "no moves": (
        lambda: sample(moves=[]),
        r"moves must be a list of at least one move.*; got \[\]",
    ),
    "one move": (
        lambda: sample(moves=na.moves.RecordSweep()),
        r"moves must be a list of at least one move.*; got RecordSweep\(\)",
    ),
    "class of a move": (
        lambda: sample(moves=[na.moves.RecordSweep]),
        "moves must hold moves only; got .*RecordSweep.*, a class",
    ),
    "not a move": (lambda: sample(moves=[7]), "moves must hold moves only; got 7, which has no"),
    "not a release": (
        lambda: na.sample(COIN, [8.0]),
        "release must be a noiseaware.Release; got list: join .* with mechanisms.Several",
    ),
    "raw sums as moments": (
        lambda: na.sample(
            na.models.MultivariateNormal(1),
            na.Release([1520.3, 19800.0], Laplace(na.queries.Moments(1, 0, 30), epsilon=1.0), 150),
        ),
        r"150 records can give.*'x1.*' is at most 150; got 1.*scaled to \[-1, 1\]",
    ),
    "not a model": (lambda: na.sample(None, small_release()), "model must have `parameters`"),
    "swapped": (lambda: na.sample(small_release(), COIN), "release must be a .*; got Bernoulli"),
    # calibration
    "replicates": (
        lambda: na.geweke(COIN, Laplace(COUNT, 1.0), n_records=5, replicates=0),
        "replicates must be a positive integer; got 0",
    ),
    "rounds": (
        lambda: na.geweke(COIN, Laplace(COUNT, 1.0), n_records=5, rounds=0),
        "rounds must be a positive integer; got 0",
    ),
    "ranks": (
        lambda: na.sbc(COIN, Laplace(COUNT, 1.0), n_records=5, ranks=50, draws=40),
        r"ranks must be at most draws \(40\); got 50",
    ),
    "calibration n_records": (
        lambda: na.sbc(COIN, Laplace(COUNT, 1.0), n_records=0),
        "n_records must be a positive integer; got 0",
    ),
    "false_alarm": (
        lambda: na.sbc(COIN, Laplace(COUNT, 1.0), n_records=5, false_alarm=0.0),
        "false_alarm must be between 0 and 1; got 0.0",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_bad_input(case, monkeypatch):
    def start(*_):
        pytest.fail("sampling began")

    monkeypatch.setattr(chain, "start", start)
    call, message = TABLE[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_good_call_is_not_refused(monkeypatch):
    """The trap in `test_bad_input` works: good input does come to the start of a chain."""

    class BeganError(Exception):
        pass

    def start(*_):
        raise BeganError

    monkeypatch.setattr(chain, "start", start)
    with pytest.raises(BeganError):
        sample()


def test_the_values_of_a_release_cannot_be_changed():
    made = release([3.0])
    with pytest.raises(ValueError, match="read-only"):
        made.values[0] = 5.0


def test_a_count_of_zeros_of_a_model_with_many_of_them():
    class Doubled(na.models.Normal):
        """Normal records, of which half are 0."""

        build_records = recover_innovations = innovations = update_parameters = None

        def sample_records(self, theta, n, rng, **_):
            return np.where(rng.random(n) < 0.5, 0.0, rng.normal(theta["mean"], 1.0, n))

    release = na.Release([3.0], na.mechanisms.Laplace(na.queries.Count(0), epsilon=1.0), 8)
    check_fit(Doubled(variance=1.0), release)
