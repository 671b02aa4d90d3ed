"""Models, queries and mechanisms of a user's own: they work, and their mistakes are named."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import beta

import noiseaware as na
from behaviour.examples import Coin, Simulator, WeightedNoise, small_release
from noiseaware.sampler import chain

LONG = {"draws": 400, "warmup": 200, "chains": 4, "progressbar": False}


def assert_mean(posterior, name, exact, errors=5.0):
    """The posterior mean is within `errors` Monte Carlo standard errors of the exact one."""
    row = na.summary(posterior, round_to="none").loc[name]
    assert abs(row["mean"] - exact) < errors * row["mcse_mean"], (row, exact)


def exact_mean(n, log_g):
    """E(p | s_dp) for a coin with a flat prior, by going through all 2^n databases."""
    above = below = 0.0
    for records in product([0, 1], repeat=n):
        ones = sum(records)
        weight = math.exp(log_g(np.array(records)))
        below += weight * beta(1 + ones, 1 + n - ones)
        above += weight * beta(2 + ones, 1 + n - ones)
    return above / below


# ------------------------------------------------------------------ they work


@pytest.mark.parametrize(
    ("model", "moves"),
    # A simulator has no kernel for p(theta | x); the ready coin is in `exact.test_closed_forms`.
    [(Coin(), "default"), (Coin(), "algorithm1"), (Simulator(), "default")],
    ids=lambda thing: thing if isinstance(thing, str) else type(thing).__name__,
)
def test_a_coin_however_it_is_written(model, moves, seed):
    release = small_release(n_records=6, value=5.0, epsilon=1.5)
    posterior = na.sample(
        model,
        release,
        moves=None if moves == "default" else na.moves.algorithm1(),
        random_seed=seed,
        **LONG,
    )
    exact = exact_mean(6, lambda x: -1.5 * abs(5.0 - x.sum()))
    assert_mean(posterior, "probability", exact)


def test_a_simulator_needs_nothing_but_a_prior_and_f(seed):
    posterior = na.sample(
        Simulator(), small_release(), draws=50, warmup=50, keep_records=2, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    assert posterior["posterior"]["probability"].shape == (4, 50)
    assert set(np.unique(posterior["latent_records"]["records"])) <= {0, 1}


def test_a_simulator_cannot_be_sampled_by_algorithm_1():
    with pytest.raises(ValueError, match="Simulator has no update_parameters"):
        na.sample(Simulator(), small_release(), moves=na.moves.algorithm1())


@pytest.mark.full
def test_a_mechanism_of_ones_own_with_weights_by_index(seed):
    """Record additivity in full: t_i depends on the index, and log g is a Python function."""
    mechanism = WeightedNoise(na.queries.Count(), scale=1.5)
    release = na.Release([7.0], mechanism, n_records=6)
    weights = np.array([1, 2, 3, 1, 2, 3])
    exact = exact_mean(6, lambda x: -0.5 * ((7.0 - weights @ x) / 1.5) ** 2)
    for model in (Coin(), na.models.Bernoulli()):
        posterior = na.sample(model, release, random_seed=seed, **LONG)
        assert_mean(posterior, "probability", exact)
        assert math.isnan(posterior.attrs["change_epsilon"])
        assert "acceptance against" not in str(na.check(posterior))


def test_a_query_of_ones_own(seed):
    query = na.Query(lambda x: (x == 1).astype(float), ["ones"], sensitivity=1.0)
    release = na.Release([5.0], na.mechanisms.Laplace(query, epsilon=1.5), n_records=6)
    posterior = na.sample(Coin(), release, random_seed=seed, **LONG)
    assert_mean(posterior, "probability", exact_mean(6, lambda x: -1.5 * abs(5.0 - x.sum())))


@pytest.mark.full
def test_geweke_on_classes_of_ones_own(seed):
    mechanism = WeightedNoise(na.queries.Count(), scale=1.5)
    for model in (Coin(), Simulator()):
        result = na.geweke(
            model, mechanism, n_records=4, replicates=150, rounds=4, random_seed=seed,
            false_alarm=1e-6,
        )  # fmt: skip
        assert result, str(result)


# ------------------------------------------------------------------ their mistakes are named

X = np.ones(7, dtype=np.int64)


def mutate(records):
    records[0] = 1 - records[0]
    return records


# method -> what it wrongly returns (a function of its arguments), and what the message says.
MISTAKES = [
    ("sample_prior", lambda rng: [0.5], r"must return a dict of parameters; got list"),
    ("sample_prior", lambda rng: {"p": 0.5}, r"must return .*\['probability'\]; got \['p'\]"),
    ("sample_prior", lambda rng: {"probability": 0.5, "q": 1}, r"got \['probability', 'q'\]"),
    ("sample_prior", lambda rng: {"probability": [0.5]}, r"with shape \(\); got \(1,\)"),
    ("sample_prior", lambda rng: {"probability": math.nan}, "probability that is not finite"),
    ("sample_prior", lambda rng: {"probability": 1.5}, "must be between 0 and 1; got 1.5"),
    ("sample_prior", lambda rng: {"probability": "half"}, "must return numbers .*; got 'half'"),
    ("log_prior", lambda theta: math.nan, "must return one finite number"),
    ("log_prior", lambda theta: -math.inf, "must return one finite number"),
    ("log_prior", lambda theta: np.zeros(2), "must return one finite number"),
    (
        "sample_records",
        lambda theta, n, rng: [1] * n,
        "must return a NumPy array of real numbers; got list",
    ),
    ("sample_records", lambda theta, n, rng: X[:-1], r"must return 7 records .*shape \(6,\)"),
    ("sample_records", lambda theta, n, rng: X[:, None].T, r"must return 7 records .*\(1, 7\)"),
    ("sample_records", lambda theta, n, rng: np.array(1), "must return 7 records"),
    ("sample_records", lambda theta, n, rng: X * math.nan, "records that are not finite"),
    (
        "sample_records",
        lambda theta, n, rng: X.astype("U1"),
        "NumPy array of real numbers; got dtype",
    ),
    ("sample_records", lambda theta, n, rng: np.ones((n, 2), dtype=int), "same shape and dtype"),
    (
        "build_records",
        lambda theta, u: [1] * len(u),
        "must return a NumPy array of real numbers; got list",
    ),
    ("build_records", lambda theta, u: np.ones(len(u) + 1, int), r"must return 7 records .*\(8,\)"),
    ("build_records", lambda theta, u: u[:, 0] * math.inf, "records that are not finite"),
    ("build_records", lambda theta, u: u[:, 0], "same shape and dtype"),
    ("build_records", lambda theta, u: mutate(u)[:, 0], "must not change the innovations"),
    ("update_parameters", lambda theta, x, rng: None, "must return a dict .*; got NoneType"),
    ("update_parameters", lambda theta, x, rng: {"p": 1.0}, r"got \['p'\]"),
    ("update_parameters", lambda theta, x, rng: {"probability": x / 7}, r"got \(7,\)"),
    ("update_parameters", lambda theta, x, rng: {"probability": math.nan}, "not finite"),
    ("update_parameters", lambda theta, x, rng: {"probability": -1}, "between 0 and 1; got -1"),
    ("update_parameters", lambda theta, x, rng: mutate(x) is x and theta, "not change the records"),
    ("log_likelihood", lambda theta, x: 0.0, r"shape \(7,\)"),
    ("log_likelihood", lambda theta, x: np.zeros((7, 1)), r"shape \(7,\)"),
    ("log_likelihood", lambda theta, x: np.full(7, math.nan), "no NaN"),
    ("log_likelihood", lambda theta, x: mutate(x) * 0.0, "must not change the records"),
    ("recover_innovations", lambda theta, x, rng: np.ones(7), r"return shape \(7, 1\).*got \(7,\)"),
    ("recover_innovations", lambda theta, x, rng: np.ones((6, 1)), r"got \(6, 1\)"),
    ("recover_innovations", lambda theta, x, rng: np.ones((7, 1)), "give back the records"),
    ("recover_innovations", lambda theta, x, rng: np.full((7, 1), math.nan), "give back the rec"),
]


@pytest.mark.parametrize(("method", "wrong", "message"), MISTAKES)
def test_a_mistake_in_a_model(method, wrong, message, monkeypatch):
    monkeypatch.setattr(chain, "start", lambda *_: pytest.fail("sampling began"))
    broken = type("Broken", (Coin,), {method: staticmethod(wrong)})()
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        na.sample(broken, small_release())
    assert method in str(caught.value)
    assert "Broken" in str(caught.value)


def without(*methods):
    """Return a Coin that lacks some methods."""
    kept = {k: v for k, v in vars(Coin).items() if k not in methods and k[:2] != "__"}
    return type("Lacking", (), kept)()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["parameters"], "model must have `parameters`; Lacking has none"),
        (["sample_prior"], "model must have `sample_prior`; Lacking has none"),
        (["sample_records", "build_records"], "sample_records.* or build_records.* has neither"),
        (["innovations"], "Lacking has build_records, so it needs `innovations` too"),
        (["log_prior"], "Lacking has build_records, so it needs `log_prior` too"),
        (
            ["update_parameters", "build_records", "log_likelihood"],
            "must have update_parameters.* Lacking has none of update_parameters, log_likelihood",
        ),
        (["build_records"], "Lacking has recover_innovations, so it needs build_records too"),
    ],
)
def test_a_model_that_lacks_something(missing, message, monkeypatch):
    monkeypatch.setattr(chain, "start", lambda *_: pytest.fail("sampling began"))
    with pytest.raises(TypeError, match=message):
        na.sample(without(*missing), small_release())


@pytest.mark.parametrize(
    "missing",
    [
        ["sample_records"],
        ["log_likelihood"],
        ["recover_innovations"],
        ["update_parameters"],
        ["update_parameters", "recover_innovations"],
        ["build_records", "innovations", "recover_innovations", "log_prior"],
    ],
    ids=" and ".join,
)
def test_a_model_that_lacks_what_is_not_needed(missing):
    posterior = na.sample(
        without(*missing), small_release(), draws=20, warmup=20, chains=2, progressbar=False
    )
    assert posterior["posterior"].sizes["draw"] == 20


def test_parameters_that_share_a_dimension_share_its_labels():
    class Two(Coin):
        parameters = (
            na.Parameter("a", (2,), dims=("level",), coords={"level": ["low", "high"]}),
            na.Parameter("b", (3,), dims=("level",), coords={"level": [1, 2, 3]}),
        )

    with pytest.raises(ValueError, match="a and b both have the dimension 'level'"):
        na.sample(Two(), small_release())

    class Twice(Coin):
        parameters = (na.Parameter("a"), na.Parameter("a"))

    with pytest.raises(ValueError, match="must have different names"):
        na.sample(Twice(), small_release())


class CountOfMine:
    """A query as a class of the user's, without `check_records`."""

    names = ("ones",)
    integer_valued = True

    def __init__(self, wrong=None):
        self.wrong = wrong

    def sensitivity(self, norm=1, neighbours="change"):
        return 1.0

    def statistic(self, records):
        if self.wrong is not None:
            return self.wrong(records)
        return np.asarray(records, dtype=float)[:, None]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.astype(float), r"must return shape \(7, 1\) for 7 records; got \(7,\)"),
        (lambda x: np.ones((7, 2)), r"must return shape \(7, 1\) for 7 records; got \(7, 2\)"),
        (lambda x: np.ones((6, 1)), r"must return shape \(7, 1\) for 7 records; got \(6, 1\)"),
        (lambda x: np.full((7, 1), math.nan), "a value that is not finite"),
        (lambda x: [[1.0]] * 7, "must return a NumPy array of numbers"),
        (lambda x: mutate(x)[:, None].astype(float), "must not change the records"),
    ],
)
def test_a_mistake_in_a_query(wrong, message, monkeypatch):
    monkeypatch.setattr(chain, "start", lambda *_: pytest.fail("sampling began"))
    mechanism = na.mechanisms.Laplace(CountOfMine(wrong), epsilon=1.0)
    with pytest.raises((ValueError, TypeError), match=r"CountOfMine\.statistic.*" + message):
        na.sample(Coin(), na.Release([3.0], mechanism, 12))


def test_a_query_class_of_ones_own(seed):
    mechanism = na.mechanisms.Laplace(CountOfMine(), epsilon=1.5)
    posterior = na.sample(
        na.models.Bernoulli(), na.Release([5.0], mechanism, 6), random_seed=seed, **LONG
    )
    assert_mean(posterior, "probability", exact_mean(6, lambda x: -1.5 * abs(5.0 - x.sum())))


def test_a_mistake_in_a_function_is_told_with_its_name():
    def too_wide(records):
        return np.ones((len(records), 2))

    query = na.Query(too_wide, ["ones"], sensitivity=1.0)
    with pytest.raises(ValueError, match=r"does not fit .*function too_wide must return shape"):
        na.sample(Coin(), na.Release([3.0], na.mechanisms.Laplace(query, 1.0), 12))


@pytest.mark.parametrize("wrong", [math.nan, -math.inf, np.zeros(2)], ids=str)
def test_a_mistake_in_a_mechanism(wrong, monkeypatch):
    class Strange(WeightedNoise):
        def log_density(self, values, total):
            return wrong

    monkeypatch.setattr(chain, "start", lambda *_: pytest.fail("sampling began"))
    with pytest.raises(ValueError, match=r"Strange\.log_density must return one finite number"):
        na.sample(Coin(), na.Release([3.0], Strange(na.queries.Count(), 1.0), 12))


def test_a_proposal_of_the_users_own_that_is_wrong():
    def proposal(records, index, theta, release, rng):
        return records[:0], np.zeros(0)

    moves = [na.moves.ParameterUpdate(), na.moves.RecordSweep(proposal)]
    with pytest.raises(ValueError, match=r"proposal must return records of shape \(12,\)"):
        na.sample(na.models.Bernoulli(), small_release(), moves=moves, progressbar=False)
