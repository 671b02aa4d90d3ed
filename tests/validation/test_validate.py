"""`validate`: right classes pass, and each kind of mistake fails in the line of its method.

False alarms: a validation of right classes fails by chance with probability at most 1e-6.
"""

import math
import re

import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import Coin, Simulator, WeightedNoise
from calibration.settings import MODELS
from noiseaware.validation.case import Case
from noiseaware.validation.chains import steps

COUNT = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
QUICK = {"quick": True, "random_seed": 20220614}


class Line:
    """Normal records with an unknown mean and variance, in plain NumPy; every method."""

    parameters = (na.Parameter("mean"), na.Parameter("variance", support="positive"))
    innovations = na.Innovations("normal", 2)
    column_names = ("left", "right")

    def sample_prior(self, rng):
        return {"mean": rng.normal(0.0, 2.0), "variance": 2.0 / rng.gamma(3.0)}

    def log_prior(self, theta):
        mean, variance = float(theta["mean"]), float(theta["variance"])
        return -0.5 * (mean / 2.0) ** 2 - 4.0 * math.log(variance) - 2.0 / variance

    def sample_records(self, theta, n, rng):
        return self.build_records(theta, rng.standard_normal((n, 2)))

    def build_records(self, theta, innovations):
        return theta["mean"] + np.sqrt(theta["variance"]) * innovations

    def recover_innovations(self, theta, records, rng):
        return (records - theta["mean"]) / np.sqrt(theta["variance"])

    def log_likelihood(self, theta, records):
        squares = ((records - theta["mean"]) ** 2).sum(axis=1)
        return -np.log(theta["variance"]) - 0.5 * squares / theta["variance"]

    def update_parameters(self, theta, records, rng):
        variance = float(theta["variance"])
        precision = 0.25 + records.size / variance
        mean = rng.normal(records.sum() / variance / precision, precision**-0.5)
        squares = ((records - mean) ** 2).sum()
        return {"mean": mean, "variance": (2.0 + squares / 2) / rng.gamma(3.0 + records.size / 2)}

    def check_records(self, records):
        if not np.isfinite(records).all():
            raise ValueError("records must be finite")


SUM = na.mechanisms.Laplace(na.queries.Sum(lower=[-4, -4], upper=[4, 4]), epsilon=2.0)


# In `make test` one of each kind; all of them in `make validate`.
LATER = {
    "a sensitivity that is too small",
    "a transport that does not give back",
    "goes on learning",
    "a kernel with half the spread",
    "a prior that is too wide",
    "flips",
    "a prior that is not drawn",
    "a prior density that is NaN",
    "a forgotten Jacobian",
    "floats, then integers",
    "columns that go together",
    "another distribution of sample_records",
    "a log density that is too wide",
    "a log density of -inf",
    "a kernel that draws from the prior",
    "a kernel that returns a list",
    "a kernel that changes theta",
    "a kernel that changes the records",
    "a prior density of zero",
    "one number for all records",
    "a sum that is not clamped",
    "a sensitivity for adding one",
    "a function that fails",
    "no release",
    "weights by the place among those asked for",
    "noise of another law",
    "a constant that depends on the total",
    "a density of NaN",
    "no report",
    "fails",
    "outside",
    "loses a record",
    "not a move",
    "changes the records",
    "returns one thing",
}


def kinds(table):
    """Return the mistakes of a table, the later ones marked."""
    full = pytest.mark.full
    return [pytest.param(name, marks=full if name in LATER else ()) for name in table]


def failed(result):
    return [verdict.name for verdict in result.verdicts if not verdict.passed]


# ------------------------------------------------------------------ right classes


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        pytest.param(Coin(), COUNT, marks=pytest.mark.full),
        pytest.param(Simulator(), COUNT, marks=pytest.mark.full),
        (Line(), SUM),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_right_classes_pass(model, mechanism, seed):
    result = na.validate(model, mechanism, quick=True, random_seed=seed)
    assert result, str(result)
    names = [verdict.name for verdict in result.verdicts]
    assert names[:3] == ["model", "mechanism", "sample_prior"]
    assert names[-1] == "sampler"
    assert str(result).count("ok  ") == len(names)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        (Coin(), WeightedNoise(na.queries.Count(), 1.5)),
        (na.models.Bernoulli(), na.mechanisms.DiscreteLaplace(na.queries.Count(), epsilon=1.0)),
        (na.models.Categorical(3), na.mechanisms.RandomizedResponse(3, epsilon=1.0)),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_other_mechanisms_pass(model, mechanism, seed):
    result = na.validate(model, mechanism, quick=True, random_seed=seed)
    assert result, str(result)


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_ready_models_pass(name, seed):
    model, query, n = MODELS[name]
    result = na.validate(
        model, na.mechanisms.Laplace(query, epsilon=2.0), n_records=n or 20, random_seed=seed
    )
    assert result, str(result)


@pytest.mark.full
def test_right_classes_pass_time_and_again(seed):
    """Fifty validations with a false-alarm rate of 1e-6 each: 5e-5 that one fails by chance."""
    for k in range(25):
        for model, mechanism in ((Coin(), COUNT), (Line(), SUM)):
            result = na.validate(model, mechanism, quick=True, random_seed=seed + k)
            assert result, str(result)


@pytest.mark.full
def test_same_seed_same_words():
    one, other = (str(na.validate(Simulator(), COUNT, **QUICK)) for _ in range(2))
    assert one == other


# ------------------------------------------------------------------ wrong models

TRUE = Line()


# method, what it wrongly does (with self), the verdict that fails, and words in it.
WRONG = {
    "the shape of theta": (
        "sample_prior",
        lambda self, rng: {"mean": rng.normal(size=2), "variance": 1.0},
        "sample_prior",
        r"Wrong\.sample_prior must return mean with shape \(\); got \(2,\)",
    ),
    "a draw outside of its support": (
        "sample_prior",
        lambda self, rng: {"mean": 0.0, "variance": rng.normal() + 1.5},
        "sample_prior",
        "variance must be positive; got -",
    ),
    "random numbers from elsewhere": (
        "sample_prior",
        lambda self, rng: TRUE.sample_prior(np.random.default_rng()),
        "sample_prior",
        "must take all its random numbers from rng",
    ),
    "a prior that is not drawn": (
        "sample_prior",
        lambda self, rng: {"mean": 0.0, "variance": 1.0},
        "sample_prior",
        "must draw from the prior; it returned",
    ),
    "an exception": (
        "sample_prior",
        lambda self, rng: {}["nothing"],
        "sample_prior",
        r"Wrong\.sample_prior raised KeyError: 'nothing'",
    ),
    "a prior density of zero": (
        "log_prior",
        lambda self, theta: -math.inf if theta["mean"] < -2 else TRUE.log_prior(theta),
        "log_prior",
        r"Wrong\.log_prior must return one finite number at a draw of sample_prior; got -inf",
    ),
    "a prior density that is NaN": (
        "log_prior",
        lambda self, theta: math.sqrt(theta["mean"]) if theta["mean"] > 0 else math.nan,
        "log_prior",
        "must return one finite number at a draw of sample_prior; got nan",
    ),
    "a prior that is too wide": (
        "log_prior",
        lambda self, theta: TRUE.log_prior(theta) + 0.4 * (theta["mean"] / 2.0) ** 2,
        "log_prior",
        "must be of the same distribution.*mean",
    ),
    "a forgotten Jacobian": (
        "log_prior",
        lambda self, theta: TRUE.log_prior(theta) + 2.0 * math.log(theta["variance"]),
        "log_prior",
        "must be of the same distribution",
    ),
    "floats, then integers": (
        "sample_records",
        lambda self, theta, n, rng: np.rint(TRUE.sample_records(theta, n, rng)).astype(int),
        "records",
        "must return the same shape and dtype",
    ),
    "one column": (
        "build_records",
        lambda self, theta, u: TRUE.build_records(theta, u)[:, :1],
        "records",
        r"Sum\.check_records refuses records that Wrong\.build_records made",
    ),
    "columns that depend on n": (
        "build_records",
        lambda self, theta, u: TRUE.build_records(theta, u)[:, : 1 + (len(u) > 1)],
        "records",
        r"Wrong\.build_records must return records of the same shape .*got \(1, 1\)",
    ),
    "records that its own check refuses": (
        "check_records",
        lambda self, records: (
            (_ for _ in ()).throw(ValueError("too large")) if records.max() > 5 else None
        ),
        "records",
        r"Wrong\.check_records refuses records that Wrong\.build_records made.*too large",
    ),
    "another distribution of sample_records": (
        "sample_records",
        lambda self, theta, n, rng: (
            theta["mean"] + 2 * np.sqrt(theta["variance"]) * rng.standard_normal((n, 2))
        ),
        "sample_records",
        "must draw from the same distribution; at theta = ",
    ),
    "columns that go together": (
        "sample_records",
        lambda self, theta, n, rng: (
            theta["mean"]
            + np.sqrt(theta["variance"]) * np.repeat(rng.standard_normal((n, 1)), 2, axis=1)
        ),
        "sample_records",
        "must draw from the same distribution.*mixture of the columns",
    ),
    "a transport that does not give back": (
        "recover_innovations",
        lambda self, theta, records, rng: records - theta["mean"],
        "recover_innovations",
        r"must give back the records it started from; record \[.*\] became \[",
    ),
    "a log density without a factor": (
        "log_likelihood",
        lambda self, theta, x: -0.5 * ((x - theta["mean"]) ** 2).sum(axis=1) / theta["variance"],
        "log_likelihood",
        "with every factor that theta is in.*variance",
    ),
    "a log density that is too wide": (
        "log_likelihood",
        lambda self, theta, x: 0.4 * TRUE.log_likelihood(theta, x),
        "log_likelihood",
        "a walk on it that starts at such records leaves them",
    ),
    "a log density of -inf": (
        "log_likelihood",
        lambda self, theta, x: np.where(x[:, 0] > 3, -np.inf, TRUE.log_likelihood(theta, x)),
        "log_likelihood",
        "must be finite at records that the model made; got -inf for the record",
    ),
    "one number for all records": (
        "log_likelihood",
        lambda self, theta, x: TRUE.log_likelihood(theta, x).sum(),
        "log_likelihood",
        r"shape \(20,\)",
    ),
    "a kernel that draws from the prior": (
        "update_parameters",
        lambda self, theta, x, rng: TRUE.sample_prior(rng),
        "update_parameters",
        "must leave p\\(theta \\| x\\) invariant",
    ),
    "a kernel with half the spread": (
        "update_parameters",
        lambda self, theta, x, rng: {
            "mean": rng.normal(x.mean(), 0.5 * (theta["variance"] / x.size) ** 0.5),
            "variance": 2.0 / rng.gamma(3.0),
        },
        "update_parameters",
        "must leave p\\(theta \\| x\\) invariant",
    ),
    "a kernel that changes the records": (
        "update_parameters",
        lambda self, theta, x, rng: x.sort(axis=0) or TRUE.update_parameters(theta, x, rng),
        "update_parameters",
        r"Wrong\.update_parameters must not change the records",
    ),
    "a kernel that changes theta": (
        "update_parameters",
        lambda self, theta, x, rng: theta.update(TRUE.update_parameters(theta, x, rng)) or theta,
        "update_parameters",
        r"Wrong\.update_parameters must not change the theta",
    ),
    "a kernel that returns a list": (
        "update_parameters",
        lambda self, theta, x, rng: [theta["mean"], theta["variance"]],
        "update_parameters",
        r"Wrong\.update_parameters must return a dict of parameters; got list",
    ),
}


@pytest.mark.parametrize("mistake", kinds(WRONG))
def test_a_wrong_model(mistake):
    method, function, verdict, words = WRONG[mistake]
    model = type("Wrong", (Line,), {method: function})()
    result = na.validate(model, SUM, **QUICK)
    assert not result
    assert verdict in failed(result), str(result)
    message = next(v.message for v in result.verdicts if v.name == verdict)
    assert re.search(words, message), message
    assert method in str(result)
    assert "FAIL" in str(result)


@pytest.mark.full
def test_innovations_that_are_not_uniform():
    """The middle of the interval gives the records back, and is wrong all the same."""

    class Middle(Coin):
        def recover_innovations(self, theta, records, rng):
            p = float(theta["probability"])
            return np.where(records == 1, p / 2, (1 + p) / 2)[:, None]

    result = na.validate(Middle(), COUNT, **QUICK)
    assert failed(result) == ["recover_innovations"]
    assert "independent and uniform" in str(result)


def test_records_that_the_query_refuses():
    query = na.queries.Histogram(n_levels=3)
    result = na.validate(
        na.models.Categorical(4), na.mechanisms.Laplace(query, epsilon=1.0), **QUICK
    )
    assert failed(result) == ["records"]
    assert "Histogram.check_records refuses records that Categorical.build_records" in str(result)


@pytest.mark.parametrize("k", range(4))
def test_what_a_move_works_out_anew_is_no_tuning(k):
    query = na.queries.RegressionMoments(1, -5, 5)
    mechanism = na.mechanisms.Laplace(query, epsilon=1.0)
    moves = [na.moves.Transport(), na.moves.RecordSweep()]
    case = Case(na.models.LinearRegression(1), mechanism, 30, 5, 30, 2, 50, 1e-6, k, moves)
    assert "Transport()" in steps(case)


def test_a_model_without_what_is_needed():
    class Empty:
        pass

    result = na.validate(Empty(), COUNT, **QUICK)
    assert failed(result) == ["model"]
    assert "model must have `parameters`; Empty has none" in str(result)


# ------------------------------------------------------------------ wrong queries and mechanisms


def line_with(function, names=("sum",), sensitivity=8.0, **more):
    query = na.Query(function, list(names), sensitivity=sensitivity, **more)
    return na.mechanisms.Laplace(query, scale=2.0)


RELEASES = {
    "a sensitivity that is too small": (
        line_with(lambda x: np.clip(x[:, 0], -4, 4), sensitivity=4.0),
        "sensitivity",
        r"sensitivity\(1, 'change'\) is 4, but changing the record .* moves the total by 8",
    ),
    "a sum that is not clamped": (
        line_with(lambda x: x[:, 0], sensitivity=1e3),
        "sensitivity",
        "moves the total by",
    ),
    "a sensitivity for adding one": (
        line_with(lambda x: np.clip(x[:, 0], -4, 4), sensitivity=3.0, neighbours="add-remove"),
        "sensitivity",
        "adding the record .* moves the total by 4",
    ),
    "a row that depends on the others": (
        line_with(lambda x: np.clip(x[:, 0] - x[:, 0].mean(), -4, 4)),
        "statistic",
        "must give a record the same row whatever the other records are",
    ),
    "a function that fails": (
        line_with(lambda x: x["left"]),
        "records",
        "function <lambda> .*IndexError|refuses records|raised IndexError",
    ),
}


@pytest.mark.parametrize("mistake", kinds(RELEASES))
def test_a_wrong_query(mistake):
    mechanism, verdict, words = RELEASES[mistake]
    if "add" in mistake:
        query = mechanism.query
        mechanism = na.mechanisms.Laplace(query, scale=2.0, neighbours="add-remove")
    result = na.validate(Line(), mechanism, **QUICK)
    assert failed(result)[0] == verdict, str(result)
    assert re.search(words, str(result)), str(result)


class Noise(WeightedNoise):
    """Gaussian noise on a weighted count, right."""

    def __init__(self):
        super().__init__(na.queries.Count(), 1.5)


MECHANISMS = {
    "a density of another scale": (
        "log_density",
        lambda self, values, total: -0.5 * float(np.sum(((values - total) / 4.0) ** 2)),
        "log_density",
        "must be the log density of what Wrong.privatize releases",
    ),
    "noise of another law": (
        "privatize",
        lambda self, records, rng: na.Release(
            self.statistic(records, np.arange(len(records)), None).sum(axis=0)
            + 4.0 * rng.standard_normal(1),
            self,
            len(records),
        ),
        "log_density",
        "must be the log density of what Wrong.privatize releases",
    ),
    "a constant that depends on the total": (
        "log_density",
        lambda self, values, total: (
            WeightedNoise.log_density(self, values, total) - 0.5 * float(total[0])
        ),
        "log_density",
        "must be the log density of what Wrong.privatize releases",
    ),
    "no release": (
        "privatize",
        lambda self, records, rng: np.zeros(1),
        "statistic",
        "Wrong.privatize must return a noiseaware.Release; got ndarray",
    ),
    "weights by the place among those asked for": (
        "statistic",
        lambda self, records, index, values: WeightedNoise.statistic(
            self, records, np.arange(len(records)), values
        ),
        "statistic",
        "must give a record the same row whatever the other records are",
    ),
    "a density of NaN": (
        "log_density",
        lambda self, values, total: math.nan,
        "statistic",
        "Wrong.log_density must return one finite number",
    ),
}


@pytest.mark.parametrize("mistake", kinds(MECHANISMS))
def test_a_wrong_mechanism(mistake):
    method, function, verdict, words = MECHANISMS[mistake]
    mechanism = type("Wrong", (Noise,), {method: function})()
    result = na.validate(Coin(), mechanism, **QUICK)
    assert failed(result)[0] == verdict, str(result)
    assert words in str(result), str(result)


def test_a_mechanism_without_what_is_needed():
    class Bare:
        query = na.queries.Count()

        def log_density(self, values, total):
            return 0.0

    result = na.validate(Coin(), Bare(), **QUICK)
    assert "mechanism must have `privatize`; Bare has none" in str(result)
    assert not result


# ------------------------------------------------------------------ kernels and moves


class Walk:
    """A move of one's own: theta by a step up or down, accepted by the likelihood; right."""

    reports = ("walk_acceptance",)

    def check(self, target):
        pass

    def start(self, target, state):
        return {"size": 0.3, "done": 0}

    def step(self, target, state, tuning):
        p = float(state.theta["probability"])
        new = p + tuning["size"] * state.rng.standard_normal()
        if not 0 < new < 1:
            return (0.0,)
        ones, n = state.records.sum(), len(state.records)
        ratio = ones * math.log(new / p) + (n - ones) * math.log((1 - new) / (1 - p))
        accept = -state.rng.standard_exponential() < ratio
        if accept:
            state.theta = {"probability": new}
        return (float(accept),)

    def learn(self, target, state, tuning):
        tuning["done"] += 1


def changed(**methods):
    return type("Wrong", (Walk,), methods)()


@pytest.mark.full
def test_a_right_move_passes():
    result = na.validate(Coin(), COUNT, moves=[Walk(), na.moves.RecordSweep()], **QUICK)
    assert result, str(result)
    assert "moves" in [verdict.name for verdict in result.verdicts]


def learns_on(self, target, state, tuning):
    tuning["size"] *= 1.01
    return (0.0,)


def loses_a_record(self, target, state, tuning):
    state.records = state.records[:-1]
    return (0.0,)


def leaves_the_support(self, target, state, tuning):
    state.theta = {"probability": 2.0}
    return (0.0,)


def flips(self, target, state, tuning):
    state.records = 1 - state.records
    return (0.0,)


MOVES = {
    "no report": (
        changed(step=lambda *_: None),
        "moves",
        "Wrong.step must return a tuple with one",
    ),
    "goes on learning": (changed(step=learns_on), "moves", "must not change its tuning after"),
    "loses a record": (
        changed(step=loses_a_record),
        "moves",
        "Wrong.step must leave state.records",
    ),
    "outside": (changed(step=leaves_the_support), "moves", "Wrong.step: probability must be"),
    "flips": (changed(step=flips), "sampler", "does not leave the joint distribution"),
    "fails": (changed(step=lambda *_: 1 / 0), "moves", "Wrong.step raised ZeroDivisionError"),
    "not a move": (7, "moves", "moves must hold moves only; got 7"),
}


@pytest.mark.parametrize("mistake", kinds(MOVES))
def test_a_wrong_move(mistake):
    move, verdict, words = MOVES[mistake]
    result = na.validate(
        Coin(), COUNT, moves=[move, na.moves.ParameterUpdate(), na.moves.RecordSweep()], **QUICK
    )
    assert failed(result) == [verdict], str(result)
    assert words in str(result), str(result)


@pytest.mark.full
def test_a_wrong_kernel():
    def kernel(theta, records, rng):
        return {"probability": rng.beta(1 + records.sum(), 1)}

    moves = [na.moves.ParameterUpdate(kernel), na.moves.RecordSweep()]
    result = na.validate(Coin(), COUNT, moves=moves, **QUICK)
    assert failed(result) == ["moves"]
    assert "kernel must leave p(theta | x) invariant" in str(result)


def in_place(records, index, theta, release, rng):
    records[index] = 1
    return records[index], np.zeros(len(index))


def one_only(records, index, theta, release, rng):
    return 1 - records[index]


PROPOSALS = {
    "changes the records": (in_place, "in_place must not change the records"),
    "returns one thing": (one_only, "one_only must return (candidates, log_ratio); got ndarray"),
}


@pytest.mark.parametrize("mistake", kinds(PROPOSALS))
def test_a_wrong_proposal(mistake):
    proposal, words = PROPOSALS[mistake]
    moves = [na.moves.ParameterUpdate(), na.moves.RecordSweep(proposal)]
    result = na.validate(Coin(), COUNT, moves=moves, **QUICK)
    assert failed(result) == ["moves"]
    assert words in str(result)
