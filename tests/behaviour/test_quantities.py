"""Quantities that follow from theta: formulas and functions, wherever a posterior goes."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.maths.quantities import Formula
from noiseaware.mechanisms import Laplace
from noiseaware.models import Bernoulli, Categorical, Gamma, TwoProportions
from noiseaware.studies import Sampler

RELEASE = na.Release([8.0], Laplace(na.queries.Count(), epsilon=1.0), 12)
RUN = {"draws": 50, "warmup": 50, "chains": 2, "random_seed": 1, "progressbar": False}
THETA = {"shape": 3.0, "rate": 2.0, "weights": np.array([0.2, 0.3, 0.5])}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("shape / rate", 1.5),
        ("-shape ** 2 + 1e1", 1.0),
        ("exp(log(shape)) * sqrt(rate * rate)", 6.0),
        ("weights[1] / (1 - weights[1])", 0.3 / 0.7),
        ("sum(weights) + max(weights) - min(weights)", 1.3),
        ("logit(expit(rate))", 2.0),
    ],
)
def test_formulas(text, value):
    assert Formula(text, tuple(THETA))(THETA) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shape / rat", "unknown name 'rat'"),
        ("__import__('os')", "unknown function '__import__'"),
        ("shape.__class__", "cannot stand in the formula"),
        ("(lambda: 1)()", "cannot stand in the formula"),
        ("[1, 2]", "cannot stand in the formula"),
        ("'text'", "cannot stand in the formula"),
        ("True", "cannot stand in the formula"),
        ("shape if rate else 1", "cannot stand in the formula"),
        ("shape and rate", "cannot stand in the formula"),
        ("exp(shape, rate)", "not of one argument"),
        ("weights[3]", "must be an entry by its number"),
        ("weights[-1]", "must be an entry by its number"),
        ("weights[0:2]", "must be an entry by its number"),
        ("shape[0]", "must be an entry by its number"),
        ("shape /", "is not a formula"),
        ("import os", "is not a formula"),
        ("1 + " * 200 + "1", "may have 500 characters"),
    ],
)
def test_what_is_no_formula(text, message):
    with pytest.raises(ValueError, match=message):
        Formula(text, tuple(THETA))(THETA)


def test_a_formula_and_a_function_say_the_same():
    derived = {
        "odds": "probability / (1 - probability)",
        "again": lambda theta: theta["probability"] / (1 - theta["probability"]),
    }
    posterior = na.sample(Bernoulli(), RELEASE, derived=derived, **RUN)
    drawn = posterior["posterior"].to_dataset()
    share = drawn["probability"]
    np.testing.assert_allclose(drawn["odds"], share / (1 - share))
    np.testing.assert_allclose(drawn["again"], drawn["odds"])
    assert "odds" in posterior["prior"]
    assert "odds" in na.summary(posterior).index
    assert json.loads(posterior.attrs["derived"]) == ["odds", "again"]


def test_the_draws_are_the_same_with_and_without():
    plain = na.sample(Bernoulli(), RELEASE, **RUN)
    more = na.sample(Bernoulli(), RELEASE, derived={"odds": "probability * 2"}, **RUN)
    for posterior in (plain, more):
        assert (posterior["posterior"]["probability"] == plain["posterior"]["probability"]).all()


def test_vectors_keep_their_labels():
    model = na.models.derived(Categorical(3), {"percent": "100 * probabilities"})
    parameter = model.derived[0]
    assert parameter.shape == (3,)
    assert parameter.dims == Categorical(3).parameters[0].dims


def test_beside_what_the_model_derives_itself():
    model = na.models.derived(TwoProportions([5, 6]), {"twice": "2 * proportions[0]"})
    names = [parameter.name for parameter in model.derived]
    assert names == [*(p.name for p in TwoProportions([5, 6]).derived), "twice"]
    theta = {"proportions": np.array([[0.1, 0.2], [0.3, 0.4]])}
    assert model.derive(theta)["twice"].tolist() == [0.2, 0.6]


def test_a_model_with_formulas_is_written_and_read():
    model = na.models.derived(Gamma(), {"sd": "sqrt(shape) / rate"})
    again = na.models.from_dict(model.to_dict())
    assert again.to_dict() == model.to_dict()
    assert again.to_dict()["derived"] == {"sd": "sqrt(shape) / rate"}
    assert again.derive({"shape": np.array([9.0]), "rate": np.array([2.0])})["sd"] == [1.5]
    assert "derived" not in Gamma().to_dict()


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        ({"probability": "1"}, "Bernoulli has 'probability' already"),
        ({"odds": "p / 2"}, "unknown name 'p'"),
        ({"ones": "n_records * probability"}, "says how many records there are: write the number"),
        ({"two words": "1 + 1"}, "name must be a Python identifier"),
        ({"odds": lambda theta: theta["p"]}, "derived 'odds' cannot be computed: KeyError"),
    ],
)
def test_mistakes(derived, message):
    with pytest.raises(ValueError, match=message):
        na.sample(Bernoulli(), RELEASE, derived=derived, **RUN)


@pytest.mark.parametrize(
    "ones", ["n_records * probability", lambda theta: theta["n_records"] * theta["probability"]]
)
def test_an_unknown_number_of_records_is_a_name(ones):
    release = na.Release(RELEASE.values, RELEASE.mechanism, n_records=None)
    drawn = na.sample(
        Bernoulli(), release, size=na.sizes.Uniform(10, 40), derived={"ones": ones}, **RUN
    )
    for group in ("posterior", "prior"):
        found = drawn[group]
        expected = found["n_records"] * found["probability"]
        np.testing.assert_allclose(found["ones"].values, expected.values, rtol=1e-12)


@pytest.mark.parametrize("derived", ["odds", {"odds": 3}])
def test_mistakes_of_type(derived):
    with pytest.raises(TypeError, match="must be"):
        na.sample(Bernoulli(), RELEASE, derived=derived, **RUN)


def test_the_command(tmp_path):
    RELEASE.to_json(tmp_path / "release.json")
    model = tmp_path / "model.toml"
    model.write_text(
        'type = "Bernoulli"\n[derived]\nodds = "probability / (1 - probability)"\n'
        '[report]\nparameters = ["odds"]\n'
    )
    arguments = [
        "fit", str(tmp_path / "release.json"), "-m", str(model), "-o", str(tmp_path / "p.nc"),
        "-r", str(tmp_path / "r.html"), "--draws", "100", "--warmup", "100", "--seed", "1",
    ]  # fmt: skip
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code in (0, 1), ran.output
    assert "odds" in ran.stdout
    assert "odds" in (tmp_path / "r.html").read_text()
    model.write_text('type = "Bernoulli"\n[derived]\nodds = "probability / q"\n')
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 3
    assert "unknown name 'q'" in ran.output.replace("\n", " ")


def test_the_command_with_an_unknown_number_of_records(tmp_path):
    """`"n_records": null` in the release file, `[size]` and a quantity of n in the model file."""
    na.Release(RELEASE.values, RELEASE.mechanism, None).to_json(tmp_path / "release.json")
    model = tmp_path / "model.toml"
    size = '[size]\ntype = "Uniform"\nlower = 10\nupper = 40\n'
    model.write_text(f'type = "Bernoulli"\n{size}[derived]\nones = "n_records * probability"\n')
    arguments = [
        "fit", str(tmp_path / "release.json"), "-m", str(model), "-o", str(tmp_path / "p.nc"),
        "--draws", "100", "--warmup", "100", "--seed", "1",
    ]  # fmt: skip
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code in (0, 1), ran.output
    assert "ones" in ran.stdout
    drawn = na.load(tmp_path / "p.nc")["posterior"]
    assert ((drawn["n_records"] >= 10) & (drawn["n_records"] <= 40)).all()
    np.testing.assert_allclose(drawn["ones"], drawn["n_records"] * drawn["probability"])
    model.write_text('type = "Bernoulli"\n')
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 3
    assert "how many records" in ran.output.replace("\n", " ")


def test_in_a_study():
    """A quantity is estimated, and compared with its truth, like a parameter."""
    model = na.models.derived(Bernoulli(), {"odds": "probability / (1 - probability)"})
    done = na.study(
        model, RELEASE.mechanism, n_records=12, true_parameters={"probability": 0.4}, replicates=2,
        samplers={"short": Sampler(warmup=30, draws=40)}, random_seed=1,
        progressbar=False, cores=1,
    )  # fmt: skip
    odds = done.table[done.table["parameter"] == "odds"]
    assert odds["replicates"].tolist() == [2]
    np.testing.assert_allclose(odds["true"], 0.4 / 0.6)
