"""Mistakes that show only during sampling: an error that names the method, never a compiler's."""

import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import Coin, WeightedNoise, small_release
from noiseaware.mechanisms.terms import SeparableDensity

SHORT = {"draws": 15, "warmup": 15, "chains": 1, "random_seed": 1, "progressbar": False}


class Vector(Coin):
    """Records of two columns and a parameter with two entries."""

    parameters = (na.Parameter("mean", (2,)),)
    innovations = na.Innovations("normal", 2)

    def sample_prior(self, rng):
        return {"mean": rng.standard_normal(2)}

    def log_prior(self, theta):
        return -0.5 * float(np.sum(np.asarray(theta["mean"]) ** 2))

    def sample_records(self, theta, n, rng):
        return theta["mean"] + rng.standard_normal((n, 2))

    def log_likelihood(self, theta, records):
        return -0.5 * ((records - theta["mean"]) ** 2).sum(axis=1)

    def update_parameters(self, theta, records, rng):
        n = len(records)
        return {"mean": records.sum(axis=0) / (n + 1) + rng.standard_normal(2) / np.sqrt(n + 1)}

    def build_records(self, theta, innovations):
        return theta["mean"] + innovations

    def recover_innovations(self, theta, records, rng):
        return records - theta["mean"]


def vector_release(mechanism=na.mechanisms.Laplace):
    query = na.queries.Sum(lower=[-3, -3], upper=[3, 3])
    return na.Release([3.0, 4.0], mechanism(query, 1.0), 12)


def spoiled(model, method, wrong, after=20):
    """Return the model with a method whose result is spoiled after some calls."""
    right = getattr(model, method)
    calls = []

    def late(self, *arguments):
        calls.append(1)
        made = right(*arguments)
        return made if len(calls) <= after else wrong(made)

    return type("Late", (type(model),), {method: late})()


def fails(*_):
    raise KeyError("nothing here")


AFTER = {
    "sample_prior": 45,
    "log_prior": 20,
    "build_records": 40,
    "sample_records": 20,
    "recover_innovations": 10,
    "update_parameters": 10,
}
LATE = [
    ("sample_prior", lambda made: [0.0, 0.0], "must return a dict of parameters; got list"),
    ("sample_prior", lambda made: {"mean": made["mean"][:1]}, r"shape \(2,\); got \(1,\)"),
    ("sample_prior", fails, "raised KeyError.*nothing here"),
    ("log_prior", fails, "raised KeyError.*nothing here"),
    ("build_records", list, "must return a NumPy array of real numbers; got list"),
    ("build_records", lambda made: made[:, 0], r"same shape each time; got shape \(12,\)"),
    ("build_records", lambda made: made[:, :1], "same shape each time"),
    ("build_records", lambda made: made[:-1], "must return 12 records"),
    ("build_records", lambda made: made.astype(object), "real numbers; got dtype object"),
    ("build_records", lambda made: made.astype(complex), "real numbers; got dtype complex"),
    ("build_records", lambda made: made.astype("U9"), "real numbers; got dtype <U9"),
    ("build_records", lambda made: None, "real numbers; got NoneType"),
    ("build_records", fails, "raised KeyError.*nothing here"),
    ("sample_records", lambda made: made.tolist(), "real numbers; got list"),
    ("sample_records", lambda made: np.column_stack([made, made]), "same shape each time"),
    ("sample_records", lambda made: made[1:], "must return 12 records"),
    ("sample_records", fails, "raised KeyError.*nothing here"),
    ("recover_innovations", lambda made: made[:, 0], r"shape \(12, 2\).*got \(12,\)"),
    ("recover_innovations", lambda made: [*made.astype("U9").tolist(), "a"], "must return numbers"),
    ("recover_innovations", fails, "raised KeyError.*nothing here"),
    ("update_parameters", lambda made: made["mean"], "must return a dict .*; got ndarray"),
    ("update_parameters", lambda made: {"mean": made["mean"][:1]}, r"shape \(2,\); got \(1,\)"),
    ("update_parameters", lambda made: {"mean": "high"}, "must return numbers for mean"),
    ("update_parameters", lambda made: made | {"sd": 1.0}, r"got \['mean', 'sd'\]"),
    ("update_parameters", lambda made: {"mean": made["mean"] * np.nan}, "mean became NaN"),
    ("update_parameters", fails, "raised KeyError.*nothing here"),
]


@pytest.mark.parametrize(("method", "wrong", "message"), LATE)
def test_a_late_mistake_in_a_model(method, wrong, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        na.sample(spoiled(Vector(), method, wrong, AFTER[method]), vector_release(), **SHORT)
    assert method in str(caught.value)
    assert "Late" in str(caught.value)


FINE = [
    lambda made: np.asfortranarray(made),
    lambda made: made[::-1],
    lambda made: made.astype(">f8"),
    lambda made: made.astype(np.float32),
    lambda made: made.astype(np.float16),
    lambda made: made.astype(np.longdouble),
    lambda made: np.round(made).astype(np.int32),
    lambda made: _read_only(made),
    lambda made: np.repeat(made, 2, axis=0)[::2],
    lambda made: made.view(type("Own", (np.ndarray,), {})),
]


def _read_only(made):
    made = made.copy()
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("method", ["build_records", "sample_records"])
@pytest.mark.parametrize("change", FINE)
def test_arrays_of_another_kind_than_the_first_are_taken(method, change):
    """Where an array can be turned into what the compiled loops need without loss, it is."""
    posterior = na.sample(spoiled(Vector(), method, change), vector_release(), **SHORT)
    assert np.isfinite(posterior["posterior"]["mean"]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, ">f8", np.float32])
def test_unusual_numbers_from_the_first_record_on(dtype):
    class Unusual(Vector):
        def build_records(self, theta, innovations):
            return super().build_records(theta, innovations).astype(dtype)

        def sample_records(self, theta, n, rng):
            return super().sample_records(theta, n, rng).astype(dtype)

        def recover_innovations(self, theta, records, rng):
            return records.astype(float) - theta["mean"]

    na.sample(Unusual(), vector_release(), **SHORT)


def test_floats_where_there_were_integers():
    late = spoiled(Coin(), "sample_records", lambda made: made + 0.5)
    with pytest.raises(TypeError, match=r"Late\.sample_records .*same dtype.*float64.*int64"):
        na.sample(late, small_release(), **SHORT | {"moves": na.moves.algorithm1()})


def test_records_that_are_the_innovations_themselves():
    """A model may return a view of u; the records are then a copy, and u stays as it was."""

    class Plain:
        parameters = (na.Parameter("shift"),)
        innovations = na.Innovations("normal", 1)

        def sample_prior(self, rng):
            return {"shift": rng.standard_normal()}

        def log_prior(self, theta):
            return -0.5 * float(theta["shift"]) ** 2

        def build_records(self, theta, innovations):
            return innovations[:, 0]

    release = na.Release([3.0], na.mechanisms.Laplace(na.queries.Sum(-3, 3), 1.0), 12)
    from noiseaware.sampler.target import Target

    u = np.zeros((12, 1))
    Target(Plain(), release).build({"shift": 0.0}, u)[:] = 1.0
    assert not u.any()


class Mine:
    """A query as a class of the user's, with everything that a query may have."""

    names = ("ones",)
    integer_valued = True

    def sensitivity(self, norm=1, neighbours="change"):
        return 1.0

    def statistic(self, records):
        return records.astype(float)[:, None]

    def cells(self, records):
        return records[:, None] - 1

    def total(self, records):
        return np.array([records.sum()], dtype=float)


def spoil_query(method, wrong, after):
    query = spoiled(Mine(), method, wrong, after)
    return na.Release([3.0], na.mechanisms.Laplace(query, 1.0), 12)


QUERIES = [
    ("statistic", lambda made: made.tolist(), 0, "must return a NumPy array of numbers; got"),
    ("statistic", lambda made: made[:, 0], 0, r"must return shape \(7, 1\)"),
    ("statistic", fails, 0, "raised KeyError"),
    ("cells", lambda made: made + 5, 0, "from 0 to 0, or -1 for no cell; got"),
    ("cells", lambda made: made + 5, 12, "from 0 to 0, or -1 for no cell; got"),
    ("cells", lambda made: made - 7, 12, "from 0 to 0, or -1 for no cell; got -"),
    ("cells", lambda made: made * 1.0, 12, "array of integers"),
    ("cells", lambda made: made[:, 0], 12, r"must return shape \(12, k\)"),
    ("cells", lambda made: -1 - made, 0, "must say the same"),
    ("cells", fails, 12, "raised KeyError"),
    ("total", lambda made: made + 1, 0, r"must be the sum of Late\.statistic"),
    ("total", lambda made: float(made[0]), 30, r"must return an array of shape \(1,\)"),
    ("total", lambda made: np.ones(3), 30, r"must return an array of shape \(1,\)"),
    ("total", fails, 30, "raised KeyError"),
]


@pytest.mark.parametrize(("method", "wrong", "after", "message"), QUERIES)
def test_a_mistake_in_a_query(method, wrong, after, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        na.sample(Coin(), spoil_query(method, wrong, after), **SHORT)
    assert method in str(caught.value)
    assert "Late" in str(caught.value)


def test_a_mistake_in_the_statistic_of_a_query_without_cells():
    class Dense(Mine):
        cells = property()

    for wrong, message in (
        (lambda made: made[:, 0], r"Late\.statistic must return shape \(12, 1\)"),
        (lambda made: [[1.0]], r"Late\.statistic must return a NumPy array"),
        (fails, r"Late\.statistic raised KeyError"),
    ):
        query = spoiled(Dense(), "statistic", wrong, 30)
        release = na.Release([3.0], na.mechanisms.Laplace(query, 1.0), 12)
        with pytest.raises((ValueError, TypeError), match=message):
            na.sample(Coin(), release, **SHORT)


MECHANISMS = [
    ("statistic", lambda made: made[:, 0], 30, r"must return shape \(12, 1\)"),
    ("statistic", lambda made: made.tolist(), 30, "must return a NumPy array"),
    ("statistic", fails, 30, "raised KeyError"),
    ("log_density", lambda made: "low", 0, "must return one finite number"),
    ("log_density", lambda made: None, 60, "must return one number; got None"),
    ("log_density", lambda made: np.zeros(3), 60, "must return one number"),
    ("log_density", fails, 60, "raised KeyError"),
]


@pytest.mark.parametrize(("method", "wrong", "after", "message"), MECHANISMS)
def test_a_late_mistake_in_a_mechanism(method, wrong, after, message):
    class Noise(WeightedNoise):
        def __init__(self):
            super().__init__(na.queries.Count(), 1.0)

    mechanism = spoiled(Noise(), method, wrong, after)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        na.sample(Coin(), na.Release([3.0], mechanism, 12), **SHORT)
    assert method in str(caught.value)
    assert "Late" in str(caught.value)


@pytest.mark.parametrize(
    "terms",
    [
        None,
        [1.0, 2.0],
        SeparableDensity(np.zeros(1), np.zeros((1, 4))),
        SeparableDensity(np.zeros(2, int), np.zeros(2)),
    ],
    ids=repr,
)
def test_terms_that_a_loop_could_not_read(terms):
    class Strange(na.mechanisms.Laplace):
        def terms(self, values):
            return terms

    with pytest.raises(TypeError, match=r"Strange\.terms must return .*SeparableDensity"):
        na.sample(Coin(), na.Release([3.0], Strange(na.queries.Count(), 1.0), 12), **SHORT)


def test_a_function_a_kernel_and_a_proposal_that_fail():
    def total(records):
        raise ZeroDivisionError("by zero")

    def kernel(theta, records, rng):
        return {"p": 1.0}

    def proposal(records, index, theta, release, rng):
        return records[index].oops

    query = na.Query(total, ["total"], sensitivity=1.0)
    with pytest.raises(ValueError, match="function total raised ZeroDivisionError: by zero"):
        na.sample(Coin(), na.Release([3.0], na.mechanisms.Laplace(query, 1.0), 12), **SHORT)
    moves = [na.moves.ParameterUpdate(kernel), na.moves.RecordSweep()]
    with pytest.raises(ValueError, match=r"kernel must return the parameters .*got \['p'\]"):
        na.sample(Coin(), small_release(), moves=moves, **SHORT)
    moves = [na.moves.ParameterUpdate(), na.moves.RecordSweep(proposal)]
    with pytest.raises(ValueError, match="proposal proposal raised AttributeError"):
        na.sample(Coin(), small_release(), moves=moves, **SHORT)


def test_what_is_given_must_not_be_changed_and_what_is_made_must_be_new():
    class Changes(Vector):
        def log_prior(self, theta):
            theta["mean"] += 1.0
            return 0.0

    with pytest.raises(ValueError, match=r"Changes\.log_prior must not change the theta"):
        na.sample(Changes(), vector_release(), **SHORT)

    class Reuses(Vector):
        buffer = np.zeros((100, 2))

        def build_records(self, theta, innovations):
            made = self.buffer[: len(innovations)]
            made[:] = theta["mean"] + innovations
            return made

    with pytest.raises(ValueError, match=r"Reuses\.build_records must return a new array each"):
        na.sample(Reuses(), vector_release(), **SHORT)


def test_the_users_own_traceback_is_kept():
    late = spoiled(Vector(), "build_records", fails)
    with pytest.raises(ValueError, match="raised KeyError") as caught:
        na.sample(late, vector_release(), **SHORT)
    assert isinstance(caught.value.__cause__, KeyError)
