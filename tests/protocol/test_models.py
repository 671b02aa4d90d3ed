"""Every model through one contract: shapes, supports, inputs, files and errors.

Statistical tests of models use fixed seeds (change them with the environment variable
NOISEAWARE_TEST_SEED), a false-alarm rate of at most 1e-6 each, and come with planted bugs that they
are shown to catch.
"""

import inspect
import json
import math
import pickle

import numpy as np
import pytest

from noiseaware import models
from noiseaware.maths.coordinates import Coordinates
from noiseaware.parameters import Innovations, Parameter
from protocol.model_cases import (
    SEED,
    assert_valid,
    make,
    reference,
    round_trip_error,
    same_theta,
)

NAN = float("nan")

# ------------------------------------------------------------------ shapes, supports, inputs


def test_parameters_are_declared(model):
    assert isinstance(model.parameters, tuple)
    assert all(isinstance(parameter, Parameter) for parameter in model.parameters)
    assert isinstance(model.innovations, Innovations)
    for parameter in model.parameters:
        assert len(parameter.dims) == len(parameter.shape)
        assert set(parameter.coords) == set(parameter.dims)


def test_known_parameters_are_not_parameters():
    assert [p.name for p in make("regression-known").parameters] == ["coefficients"]
    names = ["coefficients", "noise_variance", "feature_mean", "feature_covariance"]
    assert [p.name for p in make("regression-unknown").parameters] == names
    assert [p.name for p in make("normal-mean").parameters] == ["mean"]
    assert [p.name for p in make("normal-variance").parameters] == ["variance"]
    assert [p.name for p in make("vector").parameters] == ["mean", "covariance"]
    assert [p.name for p in make("vector-mean").parameters] == ["mean"]
    assert [p.name for p in make("vector-covariance").parameters] == ["covariance"]
    assert [p.name for p in make("gamma").parameters] == ["shape", "rate"]
    assert [p.name for p in make("gamma-rate").parameters] == ["rate"]
    assert [p.name for p in make("gamma-shape").parameters] == ["shape"]


def test_names_and_labels_of_parameters():
    coefficients = make("regression-known").parameters[0]
    assert coefficients.coords == {"coefficient": ["intercept", "x1", "x2"]}
    bayes = make("bayes").parameters[1]
    assert (bayes.name, bayes.shape) == ("feature_probabilities", (4, 2, 3))
    assert bayes.dims == ("class", "feature", "level")
    ragged = make("bayes-ragged").parameters
    assert [p.name for p in ragged[1:]] == [f"feature_probabilities_{k}" for k in (1, 2, 3)]
    assert [p.shape for p in ragged[1:]] == [(3, 2), (3, 4), (3, 3)]


def test_prior_draws_are_in_the_support(model, rng):
    for _ in range(20):
        theta = model.sample_prior(rng)
        assert_valid(model, theta)
        assert isinstance(model.log_prior(theta), float)
        assert np.isfinite(model.log_prior(theta))


def test_records_have_their_shape_and_dtype(model, rng):
    theta, expected = model.sample_prior(rng), reference(model)
    width = expected.width(model)
    for n in (0, 1, 23):
        records = model.sample_records(theta, n, rng)
        assert records.shape == ((n,) if width is None else (n, width))
        assert records.dtype == (np.int64 if "levels" in vars(expected) else np.float64)
        model.check_records(records)
        likelihood = model.log_likelihood(theta, records)
        assert likelihood.shape == (n,)
        assert np.isfinite(likelihood).all()
        assert_valid(model, model.update_parameters(theta, records, rng))
        innovations = model.recover_innovations(theta, records, rng)
        assert innovations.shape == (n, model.innovations.width)
        assert innovations.dtype == np.float64


def test_records_are_built_from_innovations(model, rng):
    theta = model.sample_prior(rng)
    shape = (50, model.innovations.width)
    copy = np.random.default_rng(SEED)
    normal = model.innovations.kind == "normal"
    innovations = copy.standard_normal(shape) if normal else copy.random(shape)
    built = model.build_records(theta, innovations)
    assert np.array_equal(built, model.sample_records(theta, 50, np.random.default_rng(SEED)))


def test_a_proposal_far_out_is_answered(model, rng):
    """Transport may propose anything: the prior is a number, and records are built if it allows."""
    own = getattr(model, "coordinates", None)
    coordinates = Coordinates(tuple(model.parameters)) if own is None else own
    start = coordinates.to_vector(model.sample_prior(rng))
    u = model.innovations.draw(5, rng)
    some = [*np.eye(coordinates.size)[:6], np.ones(coordinates.size)]
    for far in (40.0, 400.0, 709.0, 1e5):
        for direction in [*some, *(-d for d in some)]:
            with np.errstate(all="ignore"):
                theta, log_jacobian = coordinates.from_vector(start + far * direction)
                log_prior = model.log_prior(theta) + log_jacobian
                assert isinstance(log_prior, float)
                if -math.inf < log_prior < math.inf:
                    assert len(model.build_records(theta, u)) == 5


def test_draws_depend_on_the_generator_only(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 9, rng)
    for draw, arguments in ((model.sample_prior, ()), (model.update_parameters, (theta, records))):
        first, again, other = (draw(*arguments, np.random.default_rng(s)) for s in (1, 1, 2))
        assert same_theta(first, again)
        assert not same_theta(first, other)
    first, again = (model.sample_records(theta, 9, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, again)


def test_inputs_are_left_alone_and_outputs_are_fresh(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 9, rng)
    innovations = model.recover_innovations(theta, records, rng)
    before = {k: np.array(v) for k, v in theta.items()}, records.copy(), innovations.copy()
    new = model.update_parameters(theta, records, rng)
    model.log_prior(theta)
    model.log_likelihood(theta, records)
    rebuilt = model.build_records(theta, innovations)
    recovered = model.recover_innovations(theta, records, rng)
    assert same_theta(theta, before[0])
    assert np.array_equal(records, before[1])
    assert np.array_equal(innovations, before[2])
    for value in new.values():
        assert not any(np.shares_memory(value, old) for old in theta.values())
        assert value.flags.writeable
    assert not np.shares_memory(rebuilt, innovations)
    assert not np.shares_memory(recovered, records)
    again = model.update_parameters(new, records, rng)
    assert not any(np.shares_memory(new[k], again[k]) for k in new)


def test_any_layout_of_the_input_gives_the_same(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 11, rng)
    expected = model.log_likelihood(theta, records)
    strided = np.repeat(records, 2, axis=0)[::2]
    assert np.array_equal(model.log_likelihood(theta, strided), expected)
    listed = {key: value.tolist() for key, value in theta.items()}
    assert np.array_equal(model.log_likelihood(listed, records), expected)
    if records.dtype == np.int64:
        short = np.int8 if records.max() < 128 else np.int32
        assert np.array_equal(model.log_likelihood(theta, records.astype(short)), expected)


def test_compiled_kernels_equal_their_python_source(name, plain_models):
    """The copy runs the same source uncompiled; so every kernel is compared, inner ones too."""

    def run(model):
        rng = np.random.default_rng([SEED, 7])
        theta = model.sample_prior(rng)
        records = model.sample_records(theta, 12, rng)
        new = model.update_parameters(theta, records, rng)
        recovered = model.recover_innovations(new, records, rng)
        return [
            *theta.values(),
            records,
            *new.values(),
            recovered,
            model.build_records(new, recovered),
            model.log_prior(new),
            model.log_likelihood(new, records),
        ]

    for compiled, python in zip(run(make(name)), run(make(name, plain_models)), strict=True):
        np.testing.assert_allclose(compiled, python, rtol=1e-9, atol=1e-12)


def test_a_theta_outside_its_support_makes_no_records():
    model = make("regression-covariance")
    rng = np.random.default_rng(SEED)
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 5, rng)
    theta["feature_covariance"] = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert model.log_prior(theta) == -math.inf
    assert (model.log_likelihood(theta, records) == -math.inf).all()
    assert np.isnan(model.build_records(theta, records)).all()
    assert np.isnan(model.recover_innovations(theta, records)).all()
    normal = make("normal")
    assert normal.log_prior({"mean": 0.0, "variance": -1.0}) == -math.inf
    assert np.isnan(normal.build_records({"mean": 0.0, "variance": -1.0}, np.ones((3, 1)))).all()
    vector = make("vector-covariance")
    wrong = {"covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}
    assert vector.log_prior(wrong) == -math.inf
    assert (vector.log_likelihood(wrong, np.ones((3, 2))) == -math.inf).all()
    assert np.isnan(vector.build_records(wrong, np.ones((3, 2)))).all()
    assert np.isnan(vector.recover_innovations(wrong, np.ones((3, 2)))).all()
    for rate in (-1.0, 0.0):
        assert models.Exponential().log_prior({"rate": rate}) == -math.inf
        assert (models.Exponential().log_likelihood({"rate": rate}, [1.0]) == -math.inf).all()
        assert np.isnan(models.Exponential().build_records({"rate": rate}, np.ones((2, 1)))).all()
        theta = {"shape": rate, "rate": 1.0}
        assert make("gamma").log_prior(theta) == -math.inf
        assert (make("gamma").log_likelihood(theta, [1.0]) == -math.inf).all()
        assert np.isnan(make("gamma").build_records(theta, np.ones((2, 1)))).all()
    assert models.Bernoulli().log_prior({"probability": 1.5}) == -math.inf
    assert models.Categorical(2).log_prior({"probabilities": [1.2, -0.2]}) == -math.inf
    assert models.Categorical(2).log_prior({"probabilities": [0.7, 0.7]}) == -math.inf
    for rate in (0.0, -1.0, math.inf, NAN):
        assert models.Poisson().log_prior({"rate": rate}) == -math.inf
        assert (models.Poisson().log_likelihood({"rate": rate}, [3, 0]) == -math.inf).all()
        wrong = {"mean": rate, "dispersion": 1.0}
        assert models.NegativeBinomial().log_prior(wrong) == -math.inf
        assert (models.NegativeBinomial().log_likelihood(wrong, [3]) == -math.inf).all()
    wrong = {"mean": 1.0, "dispersion": -1.0}
    assert models.NegativeBinomial().log_prior(wrong) == -math.inf
    assert (models.NegativeBinomial().log_likelihood(wrong, [3]) == -math.inf).all()


# ------------------------------------------------------------------ files and words


def test_a_model_survives_json_and_pickle(model, rng):
    text = json.dumps(model.to_dict())
    theta = model.sample_prior(rng)
    for other in (models.from_dict(json.loads(text)), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert other.to_dict() == model.to_dict()
        assert other.parameters == model.parameters
        assert other.log_prior(theta) == model.log_prior(theta)


def test_a_model_shows_the_call_that_makes_it(model):
    made = eval(repr(model), vars(models))
    assert made.to_dict() == model.to_dict()


def test_repr_leaves_out_defaults():
    assert repr(models.Bernoulli()) == "Bernoulli()"
    shown = repr(models.LinearRegression(2, noise_variance=2))
    assert shown == "LinearRegression(n_features=2, noise_variance=2.0)"


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, 'a model must be described by a "type"'),
        ({"type": "Cauchy"}, "must be one of .*Bernoulli.* got 'Cauchy'"),
        ({"type": "Bernoulli", "c": 1}, "arguments of the model Bernoulli are not right"),
        ("Bernoulli", "must be described"),
    ],
)
def test_a_wrong_description_is_refused(description, message):
    with pytest.raises(ValueError, match=message):
        models.from_dict(description)


def test_promised_signatures():
    regression = list(inspect.signature(models.LinearRegression).parameters)
    assert regression[:5] == [
        "n_features",
        "coefficient_sd",
        "noise_variance",
        "feature_mean",
        "feature_covariance",
    ]
    bayes = list(inspect.signature(models.NaiveBayes).parameters)
    assert bayes[:3] == ["n_classes", "n_levels", "concentration"]


# ------------------------------------------------------------------ wrong records and thetas


def test_wrong_records_are_refused(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 6, rng)
    wrong = [(records[..., None], ValueError, "records must have shape")]
    if records.ndim == 2:
        wrong.append((records[:, :-1], ValueError, "records must have shape"))
    if records.dtype == np.int64:
        wrong.append((records.astype(float), TypeError, "records must be integers"))
        for column, count in enumerate(reference(model).levels(model)):
            for level in (-1, count, 2**62):
                bad = records.reshape(6, -1).copy()
                bad[4, column] = level
                bad = bad.reshape(records.shape)
                wrong.append((bad, ValueError, f"got {level} in record 4"))
    for given, error, message in wrong:
        with pytest.raises(error, match=message):
            model.log_likelihood(theta, given)
        for call in (model.update_parameters, model.recover_innovations):
            with pytest.raises(error, match=message):
                call(theta, given, rng)


def test_records_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="records must be finite"):
        make("regression-known").check_records(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="records must be finite"):
        make("normal").check_records(np.array([1.0, np.inf]))
    with pytest.raises(ValueError, match="records must be finite"):
        make("vector-mean").check_records(np.full((3, 2), np.nan))


def test_durations_out_of_range_are_refused():
    make("exponential").check_records([0.0, 2.0])
    with pytest.raises(ValueError, match=r"durations of at least 0; got -1.0 in record 1"):
        make("exponential").check_records([2.0, -1.0])
    with pytest.raises(ValueError, match=r"durations above 0; got 0.0 in record 0"):
        make("gamma").check_records([0.0, 2.0])
    with pytest.raises(ValueError, match="records must be finite"):
        make("gamma").check_records([np.nan])
    assert (make("gamma-shape").log_likelihood({"shape": 2.0}, [0.0, -1.0]) == -math.inf).all()
    assert make("exponential").log_likelihood({"rate": 2.0}, [-1.0])[0] == -math.inf


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("logistic", 2.0, "must be 0 or 1; got 2.0 in record 1"),
        ("logistic", 0.5, "must be 0 or 1; got 0.5 in record 1"),
        ("poisson-regression", -1.0, "must be a whole number from 0; got -1.0 in record 1"),
        ("poisson-regression", 1.5, "must be a whole number from 0; got 1.5 in record 1"),
    ],
)
def test_a_response_that_cannot_be_is_refused(name, wrong, message):
    records = np.zeros((3, 3))
    records[1, 2] = wrong
    with pytest.raises(ValueError, match=message):
        make(name).check_records(records)


def test_shares_off_the_simplex_are_refused():
    model = make("shares")
    with pytest.raises(ValueError, match=r"shares above 0 .* got \[0.5, 0.5, 0.0\] in record 1"):
        model.check_records([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match=r"sum to 1; got \[0.5, 0.6, 0.1\] in record 0"):
        model.check_records([[0.5, 0.6, 0.1]])
    with pytest.raises(ValueError, match="records must be finite"):
        model.check_records([[0.5, np.nan, 0.1]])
    theta = {"mean": np.full(3, 1 / 3), "precision": 3.0}
    off = [[0.5, 0.5, 0.0], [0.5, 0.6, 0.1], [0.2, 0.3, 0.5]]
    likelihood = model.log_likelihood(theta, off)
    np.testing.assert_allclose(likelihood, [-np.inf, -np.inf, math.log(2)])
    theta["precision"] = -1.0
    assert model.log_prior(theta) == -math.inf
    assert (model.log_likelihood(theta, off) == -math.inf).all()
    assert np.isnan(model.build_records(theta, np.ones((2, 3)))).all()
    assert np.isnan(model.recover_innovations(theta, off, np.random.default_rng(1))).all()


def test_tiny_shares_survive():
    """Concentrations so small that most gammas are no doubles."""
    model, rng = make("shares"), np.random.default_rng(SEED)
    theta = {"mean": np.array([0.98, 0.0199, 0.0001]), "precision": np.array(0.5)}
    records = model.sample_records(theta, 2000, rng)
    assert (records > 0).all()
    np.testing.assert_allclose(records.sum(axis=1), 1.0, rtol=1e-12)
    assert round_trip_error(model, theta, records, rng) < 1e-10
    assert np.isfinite(model.log_likelihood(theta, records)).all()
    assert_valid(model, model.update_parameters(theta, records, rng))


def test_innovations_of_the_wrong_width_are_refused(model, rng):
    theta = model.sample_prior(rng)
    with pytest.raises(ValueError, match=r"innovations must have shape \(n, "):
        model.build_records(theta, np.full((4, model.innovations.width + 1), 0.5))


def test_a_theta_of_the_wrong_shape_is_refused(model, rng):
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, 4, rng)
    for parameter in model.parameters:
        if parameter.shape:
            wrong = dict(theta)
            wrong[parameter.name] = np.ones((*parameter.shape[:-1], parameter.shape[-1] + 1))
            with pytest.raises(ValueError, match=f"{parameter.name} must have shape"):
                model.log_likelihood(wrong, records)
