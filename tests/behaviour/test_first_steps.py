"""What somebody does first: copies the examples, swaps two files, saves one in another editor."""

import json
from pathlib import Path

import numba
import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.documents.model_file import read_model_file
from noiseaware.sampler.chain import Schedule
from noiseaware.sampler.progress import Rows

ROOT = Path(__file__).parents[2]
MECHANISM = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), epsilon=1.0)
RELEASE = na.Release([61.0, 24.5, 14.0], MECHANISM, n_records=100)
MODEL = 'type = "Categorical"\nn_levels = 3\n'


def run(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


@pytest.fixture
def files(tmp_path):
    RELEASE.to_json(tmp_path / "release.json")
    (tmp_path / "model.toml").write_text(MODEL)
    (tmp_path / "report.html").write_text("<!DOCTYPE html><p>")
    tree = na.sample(
        *(na.models.Categorical(n_levels=3), RELEASE),
        draws=4, warmup=2, chains=2, random_seed=1, progressbar=False,
    )  # fmt: skip
    na.save(tree, tmp_path / "posterior.nc")
    return tmp_path


def test_the_examples_are_copied_and_all_of_them_are_read(tmp_path):
    result = run("examples", tmp_path / "a" / "b")
    assert result.exit_code == 0, result.output
    assert "noiseaware fit exercise_release.json --model exercise_model.toml" in result.stdout
    copied = tmp_path / "a" / "b"
    for path in copied.rglob("*.json"):
        na.Release.from_json(path)
    for path in (copied / "models").iterdir():
        read_model_file(path)
    of = {path.stem for path in (copied / "models").iterdir()}
    assert of == {path.stem for path in (copied / "releases").iterdir()}
    assert len(of) >= 18
    again = run("examples", copied)
    assert again.exit_code == 3
    assert again.stderr.count("\n") == 1
    assert "already exists; choose another name" in again.stderr


@pytest.mark.parametrize(
    ("release", "model", "words"),
    [
        ("model.toml", "release.json", "model.toml is not JSON; it is TOML, as a model file is"),
        ("posterior.nc", "model.toml", "posterior.nc is not JSON; it is netCDF, as a posterior is"),
        ("report.html", "model.toml", "report.html is not JSON; it is HTML, as a report is"),
        ("release.json", "release.json", "is not TOML; it is JSON, as a release file is"),
        ("release.json", "posterior.nc", "is not TOML; it is netCDF, as a posterior is"),
    ],
)
def test_files_that_are_swapped(files, release, model, words):
    result = run("fit", files / release, "-m", files / model, "-o", files / "out.nc")
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_a_release_is_not_a_posterior(files):
    for command in ("report", "impute"):
        result = run(command, files / "release.json", "-o", files / "out.csv")
        assert result.exit_code == 3
        assert "it is JSON, as a release file is" in result.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_files_saved_by_any_editor(tmp_path, encoding, end):
    text = json.dumps(RELEASE.to_dict(), indent=2)
    (tmp_path / "release.json").write_bytes(text.replace("\n", end).encode(encoding))
    assert na.Release.from_json(tmp_path / "release.json").to_dict() == RELEASE.to_dict()
    model = MODEL + "# naïve\n"
    (tmp_path / "model.toml").write_bytes(model.replace("\n", end).encode(encoding))
    assert read_model_file(tmp_path / "model.toml").model.n_levels == 3


def test_values_by_name():
    names = RELEASE.names
    values = dict(zip(reversed(names), RELEASE.values[::-1].tolist(), strict=True))
    np.testing.assert_array_equal(na.Release(values, MECHANISM, 100).values, RELEASE.values)
    with pytest.raises(ValueError, match=f'"values" lacks {names[1]}'):
        na.Release({n: v for n, v in values.items() if n != names[1]}, MECHANISM, 100)
    with pytest.raises(ValueError, match="names that the query does not give: level=7"):
        na.Release({**values, "level=7": 1.0}, MECHANISM, 100)


def test_the_inputs_are_looked_at_before_the_outputs(files):
    result = run(
        "fit", files / "none.json", "-m", files / "model.toml", "-o", files / "no" / "p.nc"
    )
    assert result.exit_code == 3
    assert "none.json" in result.stderr


def test_one_group_of_a_posterior_is_not_a_posterior(files):
    with pytest.raises(TypeError, match="give the whole tree, not one group"):
        na.check(na.load(files / "posterior.nc")["posterior"])


def test_a_table_of_the_model_file_that_is_misspelt(files):
    (files / "model.toml").write_text(MODEL + "[reports]\n")
    with pytest.raises(ValueError, match=r"unknown key 'reports' .* did you mean 'report'"):
        read_model_file(files / "model.toml")


def test_one_chain_is_refused(files):
    result = run(
        "fit", files / "release.json", "-m", files / "model.toml", "-o", files / "out.nc",
        "--chains", 1,
    )  # fmt: skip
    assert result.exit_code == 3
    assert "--chains must be an integer of at least 2; got 1" in result.stderr


def compile_something():
    return numba.njit(lambda x: x + 1)(1)


def test_the_rows_say_that_functions_are_compiled(capsys):
    schedule = Schedule.make(10, 10, 0, 10)
    with Rows(2, schedule):
        compile_something()
    assert capsys.readouterr().err.count("0/20 compiling (first time only)") == 2
    with Rows(2, schedule) as rows:
        compile_something()
        rows.update(0, 15, 0.5)
        rows.update(1, 15, 0.5)
    shown = capsys.readouterr().err
    assert shown.count("15/20 drawing") == 2
    assert "compiling" not in shown


def refused():
    with Rows(2, Schedule.make(10, 10, 0, 10)):
        compile_something()
        raise ValueError("no")


def test_a_run_that_is_refused_leaves_no_rows(capsys):
    with pytest.raises(ValueError, match="no"):
        refused()
    assert "chain" not in capsys.readouterr().err
