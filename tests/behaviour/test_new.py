"""`noiseaware new`: questions are answered, two files are written, and `fit` takes them."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.agreement.fit import check_fit
from noiseaware.cli import app
from noiseaware.documents.model_file import read_model_file


def answered(folder, *answers):
    result = CliRunner().invoke(app, ["new", str(folder)], input="\n".join(answers) + "\n")
    assert result.exit_code == 0, result.output
    release = na.Release.from_json(folder / "release.json")
    read = read_model_file(folder / "model.toml")
    check_fit(read.model, release, read.size)
    return read, release, result.stdout


def test_a_process_of_its_own_from_questions_to_a_posterior(tmp_path):
    def run(*words, text=None):
        return subprocess.run(
            [sys.executable, "-m", "noiseaware", *words],
            cwd=tmp_path, input=text, capture_output=True, text=True, check=False,
        )  # fmt: skip

    made = run("new", text="one\n1\n0\n250\n9\n1\nepsilon=-1\nepsilon=0.5\n81.4 3\n81.4\n")
    assert made.returncode == 0, made.stderr
    for said in (
        "a number from 1 to 7; got 'one'",
        "an integer of at least 1, such as 250; got '0'",
        "a number from 1 to 4; got '9'",
        "epsilon must be a positive number; got -1.0",
        "1 needed (count of 1); got 2",
    ):
        assert said in made.stdout
    content = json.loads((tmp_path / "release.json").read_text())
    assert content["n_records"] == 250
    assert content["mechanism"]["scale"] == 2.0
    few = ("--draws", "50", "--warmup", "50", "--chains", "2", "--seed", "1", "--quiet")
    line = made.stdout.strip().splitlines()[-1].split()
    fitted = run(*line[1:], *few)
    assert fitted.returncode in (0, 1), fitted.stderr
    assert (tmp_path / "posterior.nc").exists()
    again = run("new", text="1\n")
    assert again.returncode == 3
    assert "release.json already exists; choose another folder" in again.stderr


@pytest.mark.parametrize(
    ("answers", "model", "scale", "n"),
    [
        (("1", "?", "400", "3", "4", "81"), "Bernoulli", 4.0, None),
        (("2", "3", "", "120", "1", "b=4", "61.2, 40.9, 15.3"), "Categorical", 4.0, 120),
        (("3", "120, 80", "", "3", "2", "44 21"), "StratifiedProportions", 2.0, 200),
        (("4", "0 18 40 65", "300", "4", "rho=0.5", "1", "90 130 71"), "Normal", 2**0.5, 300),
        (("4", "0 18 40 65", "300", "4", "rho=0.5", "2", "90 130 71"), "Normal", 1.0, 300),
        (("5", "-5 5", "200", "2", "12.5", "130.9"), "Normal", 12.5, 200),
        (("4", "0 18 40 65 inf", "300", "1", "eps=0.5", "1", "9 13 71 4"), "Normal", 4.0, 300),
        (("5", "0 20", "y", "200", "3", "epsilon 0.5", "655"), "Poisson", 40.0, 200),
        (("5", "0 90", "n", "y", "200", "3", "180", "9155"), "NegativeBinomial", 180.0, 200),
        (("5", "0 90", "n", "n", "200", "1", "180", "9155.2"), "Normal", 180.0, 200),
        (("6", "0 100", "400", "1", "0.25", "37.5"), "Normal", 100.0, 400),
        (("6", "0 150,000", "1,200", "1", "epsilon=1", "52,310.5"), "Normal", 150_000.0, 1200),
        (("7", "1", "-5 5", "200", "1", "6", "9 1 20 3 18"), "LinearRegression", 6.0, 200),
    ],
)
def test_every_kind_of_release(tmp_path, answers, model, scale, n):
    read, release, _ = answered(tmp_path / "a" / "b", *answers)
    assert type(read.model).__name__ == model
    assert release.n_records == n
    np.testing.assert_allclose(release.mechanism.scale, scale)
    if answers[0] == "6":  # a mean: what the release holds is the total
        np.testing.assert_allclose(release.values, [float(answers[-1].replace(",", "")) * n])


def test_names_are_those_of_the_release_and_of_the_parameters(tmp_path):
    read, release, _ = answered(tmp_path / "a", "2", "2", "rents, owns", "9", "1", "4", "3 6")
    assert release.names == ("rents", "owns")
    assert read.model.parameters[0].coords == {"level": ["rents", "owns"]}
    read, release, shown = answered(tmp_path / "c", "2", "rents, owns", "9", "1", "4", "3 6")
    assert release.names == ("rents", "owns")
    assert "The 2 published numbers (rents, owns), with spaces between them" in shown
    read, release, _ = answered(tmp_path / "b", "3", "5 4", "north,south", "1", "4", "3 2")
    assert release.names == ("north: count of 1", "south: count of 1")
    assert read.model.parameters[-1].coords == {"group": ["north", "south"]}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (("2", "3", "a, b", "", "120", "3", "4", "61.2 40 15", "61 40 15"), "integers"),
        (("2", "3", "a, b", "", "9", "1", "4", "1 2 3"), "names must be 3 different texts"),
        (("6", "0 100", "9", "1", "4", "1 2", "3"), "1 needed (mean); got 2"),
        (("6", "0 20", "9", "1", "rho=1", "epsilon=0", "4", "3"), "must be a positive number"),
        (("4", "0 18 18", "0 18 40", "9", "1", "4", "3 2"), "each larger than the last"),
        (("4", "-inf 0 inf", "0 18 40", "9", "1", "4", "3 2"), "each larger than the last"),
        (("4", "0 inf 40", "0 18 40", "9", "1", "4", "3 2"), "such as 37.2 40.5; got '0 inf 40'"),
        (("5", "0 20 30", "0 20", "maybe", *"nn9143"), "y or n; got 'maybe'"),
        (("5", "20", "0 20", *"nn9143"), "two numbers on one line, the lower first, such as 0 100"),
        (("6", "0 20", "9", "1", "rho=1", "4", "3"), "or a promise such as epsilon=0.5"),
        (
            ("6", "0 20", "9", "2", "epsilon=1, delta=1e-5", "4", "3"),
            "which formula made the scale",
        ),
        (("6", "0 20", "9", "1", "4 4", "4", "x", "3"), "such as 37.2 40.5; got 'x'"),
        (("5", "0 20", *"nn93143"), "integer"),
        (("2", "apples", "a, b", *"914", "1 2"), "an integer of at least 1, such as 250"),
        (("3", "120", "120 80", "", "1", "4", "3 2"), "each of at least two groups"),
    ],
)
def test_a_wrong_answer_is_asked_for_again(tmp_path, answers, said):
    _, _, shown = answered(tmp_path, *answers)
    assert said in shown


def test_what_the_model_takes_for_granted_is_said(tmp_path):
    _, _, shown = answered(tmp_path, "6", "0 100", "400", "1", "0.25", "37.5")
    said = "the mean is that of the values before clamping to [0, 100], which may lie outside."
    assert (
        f"The model is Normal: the numbers are normally distributed (a bell curve); {said}" in shown
    )
    assert (tmp_path / "model.toml").read_text().splitlines()[0].endswith(said)


def test_nothing_is_written_if_the_answers_end(tmp_path):
    result = CliRunner().invoke(app, ["new", str(tmp_path / "a")], input="1\n250\n")
    assert result.exit_code == 3
    assert "the input ended" in result.stderr
    assert not (tmp_path / "a").exists()
