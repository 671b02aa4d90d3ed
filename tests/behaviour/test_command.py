"""The command `noiseaware`: what it prints, what it writes, how it ends."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app, show
from noiseaware.documents.model_file import read_model_file
from noiseaware.results.units import Units

ROOT = Path(__file__).parents[2]
EXERCISE = ROOT / "examples" / "exercise_release.json"
MODEL = """
type = "Bernoulli"
a = 2.0

[report]
title = "Smokers"
question = "How many smoke?"
units = { probability = "of all people" }
"""


def test_the_probability_of_an_interval_is_not_rounded_away():
    row = {"mean": 1.0, "sd": 0.1, "low": 0.8, "high": 1.2, "ess_bulk": 900, "r_hat": 1.0}
    units = Units({}, {})
    titles = {p: show.summary_table({"x": row}, p, units).columns[3].header for p in (0.9, 0.999)}
    assert titles == {0.9: "90% interval", 0.999: "99.9% interval"}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path):
    """A release of a noisy count, and a model of it."""
    mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    na.Release([37.2], mechanism, n_records=100).to_json(tmp_path / "release.json")
    (tmp_path / "model.toml").write_text(MODEL)
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The folder of a run whose checks pass, and what it printed."""
    folder = tmp_path_factory.mktemp("fitted")
    mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    na.Release([37.2], mechanism, n_records=100).to_json(folder / "release.json")
    (folder / "model.toml").write_text(MODEL)
    result = fit(folder, "--seed", 1, "--keep-records", 3, "--report", folder / "report.html")
    return folder, result


def fit(folder, *options):
    return run(
        *("fit", folder / "release.json", "--model", folder / "model.toml"),
        *("--out", folder / "posterior.nc", *options),
    )


def test_fit_prints_a_table_and_the_checks_in_words(fitted):
    folder, result = fitted
    assert result.exit_code == 0, result.output
    assert "How many smoke?" in result.stdout
    assert "100 records, pure differential privacy with epsilon = 1" in result.stdout
    assert "90% interval" in result.stdout
    assert result.stdout.count("ok  ") == len(na.check(na.load(folder / "posterior.nc")).verdicts)
    assert f"Written: {folder / 'posterior.nc'}" in result.stdout.replace("\n", "")
    # Progress is not for those who read the output.
    assert "chain 0" not in result.stdout
    assert "chain 0" in result.stderr


def test_fit_draws_what_sample_draws(fitted):
    folder, _ = fitted
    posterior = na.load(folder / "posterior.nc")
    expected = na.sample(
        na.models.Bernoulli(a=2.0),
        na.Release.from_json(folder / "release.json"),
        random_seed=1,
        keep_records=3,
        progressbar=False,
    )
    np.testing.assert_array_equal(
        posterior["posterior"]["probability"], expected["posterior"]["probability"]
    )
    assert posterior.attrs["report_title"] == "Smokers"
    assert posterior.attrs["report_question"] == "How many smoke?"


def test_the_stored_command_gives_the_same_draws(files):
    assert fit(files, "--draws", 20, "--warmup", 10, "--chains", 2, "-q").exit_code == 1
    first = na.load(files / "posterior.nc")
    words = first.attrs["command"].split()
    assert words[:2] == ["noiseaware", "fit"]
    assert "--seed" in words
    run(*words[1:])
    again = na.load(files / "posterior.nc")
    np.testing.assert_array_equal(
        first["posterior"]["probability"], again["posterior"]["probability"]
    )


def test_fit_ends_with_1_and_a_sentence_if_a_check_fails(files):
    result = fit(files, "--draws", 20, "--warmup", 10, "--quiet")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert result.stderr.startswith("noiseaware: ")
    assert "effective draws (ESS)" in result.stderr
    assert result.stderr.count("\n") == 1
    assert (files / "posterior.nc").exists()


def test_fit_as_json(files):
    result = fit(files, "--draws", 20, "--warmup", 10, "--quiet", "--json", "--interval", 0.5)
    said = json.loads(result.stdout)
    assert result.exit_code == 1
    assert said["passed"] is False
    assert said["complete"] is True
    assert said["out"] == str(files / "posterior.nc")
    row = said["summary"]["probability"]
    assert row["low"] < row["mean"] < row["high"]
    draws = na.load(files / "posterior.nc")["posterior"]["probability"]
    assert row["low"] == pytest.approx(float(draws.quantile(0.25)), abs=1e-3)


def test_check(fitted):
    folder, _ = fitted
    result = run("check", folder / "posterior.nc")
    assert result.exit_code == 0
    assert "chains agree" in result.stdout
    said = json.loads(run("check", folder / "posterior.nc", "--json").stdout)
    assert said["passed"] is True
    assert all(verdict["passed"] for verdict in said["checks"])


def test_check_ends_with_1_if_one_failed(files):
    fit(files, "--draws", 20, "--warmup", 10, "--quiet")
    result = run("check", files / "posterior.nc", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False
    assert "do not use this result" in result.stderr


def test_fit_writes_a_report(fitted):
    folder, result = fitted
    page = (folder / "report.html").read_text()
    assert "How many smoke?" in page
    assert "Smokers" in page
    assert re.search(r"is about <data[^>]*>[\d.]+</data> of all people; with", page)
    assert "probability (of all people)" in result.stdout
    assert f"--model {folder / 'model.toml'}" in page  # the command to run it again
    assert f"The report: {folder / 'report.html'}" in result.stdout


def test_report_of_a_posterior(fitted):
    folder, _ = fitted
    again = folder / "again.html"
    result = run("report", folder / "posterior.nc", "--out", again, "--question", "Who smokes?")
    assert result.exit_code == 0, result.output
    assert f"Written: {again}" in result.stdout
    assert "Who smokes?" in again.read_text()
    assert "Smokers" in again.read_text()


def test_databases_are_kept_unless_they_are_large():
    from noiseaware.cli.fit import _kept

    assert _kept(None, 300, 1000, 4) == 25
    assert _kept(None, 300, 10, 4) == 10
    assert _kept(None, 100_000, 1000, 4) == 2
    assert _kept(None, 10_000_000, 1000, 4) == 0
    assert _kept(7, 10_000_000, 1000, 4) == 7


def test_impute(fitted):
    folder, _ = fitted
    result = run("impute", folder / "posterior.nc", "--out", folder / "databases.csv")
    assert result.exit_code == 0, result.output
    assert "12 databases of 100 records" in result.stdout
    with open(folder / "databases.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["chain", "draw", "record", "value"]
    stored = na.load(folder / "posterior.nc")["latent_records"]["records"]
    assert len(rows) == stored.size
    for row in rows[:: len(rows) // 50]:
        place = {name: int(row[name]) for name in ("chain", "draw", "record")}
        number = place.pop("record")
        assert int(row["value"]) == int(stored.sel(place)[number])


def test_impute_names_the_columns_of_the_model(tmp_path):
    (tmp_path / "model.toml").write_text('type = "LinearRegression"\nn_features = 1\n')
    (tmp_path / "release.json").write_text(EXERCISE.read_text())
    few = ("--draws", 4, "--warmup", 2, "--chains", 2, "--keep-records", 2, "--quiet")
    assert fit(tmp_path, *few).exit_code == 1
    said = run("impute", tmp_path / "posterior.nc", "-o", tmp_path / "d.csv", "--json").stdout
    assert json.loads(said)["columns"] == ["chain", "draw", "record", "x1", "y"]
    assert json.loads(said)["rows"] == 2 * 2 * 300


def test_impute_without_databases(files):
    fit(files, "--draws", 20, "--warmup", 10, "--quiet", "--keep-records", 0)
    result = run("impute", files / "posterior.nc", "--out", files / "databases.csv")
    assert result.exit_code == 3
    assert "--keep-records" in result.stderr
    assert not (files / "databases.csv").exists()


def read_example(what, text, folder):
    """What an example in a list makes."""
    if what != "models":
        return getattr(na, what).from_dict(json.loads(text))
    for line in text.splitlines():  # also the lines that are comments
        if line.startswith("# ") and not line.endswith("..."):
            tomllib.loads(line.removeprefix("# "))
    (folder / "model.toml").write_text(text)
    return read_model_file(folder / "model.toml").model


@pytest.mark.parametrize("what", ["models", "mechanisms", "queries"])
def test_the_lists_show_everything_in_detail(what, tmp_path):
    listed = json.loads(run(what, "--json").stdout)
    assert len(listed) >= 5
    shown = run(what).stdout
    for entry in listed:
        name = entry["type"]
        assert name in shown
        assert entry["meaning"]
        detail = run(what, name)
        assert detail.exit_code == 0, detail.output
        one = json.loads(run(what, name, "--json").stdout)
        for field in one["fields"]:
            assert field["meaning"], f"{name}.{field['name']} is not described"
            assert field["name"] in detail.stdout
        assert one["example"] in detail.stdout
        assert type(read_example(what, one["example"], tmp_path)).__name__ == name


def test_version_and_help():
    assert run("--version").stdout == f"noiseaware {na.__version__}\n"
    words = run("--help").stdout
    for name in ("fit", "check", "report", "impute", "models", "mechanisms", "queries"):
        assert name in words
        page = run(name, "--help")
        assert page.exit_code == 0
        assert f"noiseaware {name}" in page.stdout  # an example
    assert run().exit_code == 2


def test_the_shell_completes_names():
    result = CliRunner().invoke(
        app,
        [],
        env={
            "_NOISEAWARE_COMPLETE": "complete_bash",
            "COMP_WORDS": "noiseaware models Li",
            "COMP_CWORD": "2",
        },
        prog_name="noiseaware",
    )
    assert result.stdout.split() == ["LinearRegression"]


def test_the_commands_import_the_library_when_they_run():
    """What `--help` loads: typer, and nothing slow of ours that `import noiseaware` does not."""
    script = (
        "import sys, noiseaware; before = set(sys.modules); import noiseaware.cli; "
        "print(*(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"matplotlib", "pandas", "xarray", "jinja2", "arviz_stats", "noiseaware.report"}
    assert not heavy & set(loaded)


posix = pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is pressed on a POSIX terminal")


@posix
@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.full)])
def test_ctrl_c_saves_what_was_drawn(files, cores):
    options = ("--draws", "60000", "--warmup", "10", "--chains", "2", "--cores", str(cores))
    process, err = _interrupt(files, options, "drawing")
    assert process.returncode == 130, err
    last = err.splitlines()[-1]
    posterior = na.load(files / "posterior.nc")
    drawn = posterior["posterior"].sizes["draw"]
    assert last == (
        f"noiseaware: stopped after {drawn} of 60000 draws; "
        f"they are saved in {files / 'posterior.nc'}"
    )
    assert posterior.attrs["complete"] == 0
    assert sorted(path.name for path in files.iterdir()) == [
        "model.toml",
        "posterior.nc",
        "release.json",
    ]


@posix
@pytest.mark.full
def test_ctrl_c_in_warm_up_leaves_nothing(files):
    options = ("--draws", "10", "--warmup", "60000", "--chains", "2", "--cores", "1")
    process, err = _interrupt(files, options, "warming")
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "nothing to keep" in err.splitlines()[-1]
    assert not (files / "posterior.nc").exists()


def _interrupt(folder, options, phase):
    """Start `fit` on a terminal of its own, and press Ctrl-C when a chain is in a phase."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "noiseaware", "fit", str(folder / "release.json")),
            *("--model", str(folder / "model.toml"), "--out", str(folder / "posterior.nc")),
            *options,
        ],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:]), "TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    seen, pressed, until = b"", False, time.monotonic() + 120
    try:
        while time.monotonic() < until:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the terminal is closed at the end
                break
            # A stretch is done when the number of iterations is no longer 0.
            if not pressed and any(
                phase.encode() in row and b" 0/" not in row for row in seen.split(b"chain")[1:]
            ):
                pressed = True
                os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))
    return process, shown.replace("\r", "")
