"""Bad files: one clear line on stderr, a non-zero exit, never a traceback, nothing sampled."""

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.registry import MECHANISMS

RELEASE = {
    "format": "noiseaware-release",
    "version": 1,
    "n_records": 100,
    "mechanism": {"type": "Laplace", "scale": 1.0, "query": {"type": "Count", "value": 1}},
    "values": {"count of 1": 37.2},
}
MODEL = 'type = "Bernoulli"\n'


def replaced(content, path, value):
    """Return a copy with one entry replaced; `...` removes it."""
    content = copy.deepcopy(content)
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return content


def changed(path, value):
    """Return the release with one entry replaced, as a file."""
    return json.dumps(replaced(RELEASE, path, value))


RELEASES = {
    "empty": ("", "is not JSON"),
    "not JSON": ("n_records: 100", "is not JSON"),
    "cut off": (json.dumps(RELEASE)[:-20], "is not JSON"),
    "binary": (bytes(range(256)), "is not JSON"),
    "nested": ("[" * 100_000, "nested too deeply"),
    "a list": ("[1, 2]", 'the field "format" must be "noiseaware-release"'),
    "a number": ("3", 'the field "format" must be'),
    "no format": (changed(["format"], ...), 'the field "format" must be'),
    "newer": (changed(["version"], 9), "reads version 1"),
    "no n_records": (changed(["n_records"], ...), 'lacks the field "n_records"'),
    "text n_records": (changed(["n_records"], "many"), "n_records must be a positive integer"),
    "no values": (changed(["values"], ...), 'lacks the field "values"'),
    "values of another query": (changed(["values"], {"sum": 1.0}), '"values" lacks count of 1'),
    "text values": (changed(["values"], {"count of 1": "x"}), "values must be numbers"),
    "values that are true": (changed(["values"], [True]), "values must be numbers; got true"),
    "version is true": (changed(["version"], True), "reads version 1"),
    "null values": (changed(["values"], None), "values must be"),
    "unknown field": (changed(["epsilon"], 1.0), "unknown fields: epsilon"),
    "no mechanism": (changed(["mechanism"], ...), 'lacks the field "mechanism"'),
    "mechanism is text": (changed(["mechanism"], "Laplace"), "must be described by"),
    "unknown mechanism": (changed(["mechanism", "type"], "Cauchy"), "got 'Cauchy'"),
    "mechanism without a scale": (changed(["mechanism", "scale"], ...), "'scale' is missing"),
    "a promise for a scale": (
        changed(["mechanism"], {"type": "Laplace", "epsilon": 1.0, "query": {"type": "Count"}}),
        "'scale' is missing. A file states the scale of the noise and not epsilon",
    ),
    "a promise beside the scale": (
        changed(["mechanism", "epsilon"], 1.0),
        "got 'epsilon'. A file states the scale",
    ),
    "negative scale": (changed(["mechanism", "scale"], -1.0), "scale must be"),
    "text scale": (changed(["mechanism", "scale"], "big"), "scale must be"),
    "unknown query": (changed(["mechanism", "query"], {"type": "Median"}), "got 'Median'"),
    "query is a number": (changed(["mechanism", "query"], 3), "a query must be described"),
    "wrong argument of the query": (
        changed(["mechanism", "query"], {"type": "Count", "level": 1}),
        "query Count",
    ),
}

MODELS = {
    "empty": ("", "type is missing"),
    "not TOML": ("type: Bernoulli", "is not TOML"),
    "JSON": ('{"type": "Bernoulli"}', "is not TOML"),
    "binary": (bytes(range(256)), "is not TOML"),
    "unknown type": ('type = "bernouli"', "did you mean 'Bernoulli'?"),
    "far type": ('type = "xyz"', "type of a model must be one of Bernoulli, "),
    "type is a number": ("type = 3", "got 3"),
    "unknown key": (MODEL + "alpha = 1.0", "unknown key 'alpha' for Bernoulli; "),
    "misspelt key": (
        'type = "LinearRegression"\nn_featurs = 1',
        "unknown key 'n_featurs' for LinearRegression; did you mean 'n_features'?",
    ),
    "missing key": ('type = "LinearRegression"', "n_features is missing"),
    "text for a number": (MODEL + 'a = "two"', "a must be a finite number; got 'two'"),
    "negative": (MODEL + "a = -2.0", "a must be positive; got -2.0"),
    "array for a number": (MODEL + "a = [1.0]", "a must be a finite number; got [1.0]"),
    "table for a number": (MODEL + "[a]\nb = 2", "a must be a finite number"),
    "date": (MODEL + "a = 2022-06-01", "a must be a finite number"),
    "fraction for a whole number": (
        'type = "Categorical"\nn_levels = 2.5',
        "n_levels must be",
    ),
    "wrong shape": (
        'type = "LinearRegression"\nn_features = 2\nfeature_mean = [1.0]',
        "feature_mean must have shape (2,)",
    ),
    "report is text": (MODEL + 'report = "yes"', "report must be a table"),
    "unknown key of the report": (MODEL + '[report]\ntitel = "a"', "did you mean 'title'?"),
    "parameters of the report": (
        MODEL + '[report]\nparameters = "probability"',
        "parameters in [report] must be a list of names",
    ),
    "unknown parameter": (
        MODEL + '[report]\nparameters = ["probabilty"]',
        "unknown name 'probabilty' in parameters of [report]; did you mean 'probability'?",
    ),
    "unit that is no text": (
        MODEL + "[report.units]\nprobability = 3",
        "units in [report] must be a table of texts; got {'probability': 3}",
    ),
    "unit of what is not there": (
        MODEL + '[report.units]\n"probabilty[1]" = "people"',
        "unknown name 'probabilty[1]' in units of [report]",
    ),
    "unit of an entry that is not there": (
        'type = "Categorical"\nn_levels = 3\n[report.units]\n"probabilities[3]" = "people"',
        "unknown name 'probabilities[3]' in units of [report]; did you mean 'probabilities",
    ),
    "scale that is no number": (
        MODEL + '[report.scales]\nprobability = "%"',
        "scales in [report] must be a table of positive numbers; got {'probability': '%'}",
    ),
    "scale of 0": (
        MODEL + "[report.scales]\nprobability = 0",
        "scales in [report] must be a table of positive numbers; got {'probability': 0}",
    ),
    "scale of what is not there": (
        MODEL + "[report.scales]\nshare = 0.01",
        "unknown name 'share' in scales of [report]",
    ),
    "number in the report": (MODEL + "[report]\ntitle = 3", "title in [report] must be text"),
    "a model that does not fit": ('type = "LinearRegression"\nn_features = 1', "Count"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a good release and a good model; sampling from it is forbidden."""
    (tmp_path / "release.json").write_text(json.dumps(RELEASE))
    (tmp_path / "model.toml").write_text(MODEL)

    def never(*arguments, **options):
        raise AssertionError("the fault was not found before sampling")

    monkeypatch.setattr("noiseaware.running.run._advance_all", never)
    return tmp_path


def refused(result, *words):
    """Assert that the command said all of it in one line, and return the line."""
    assert result.exit_code == 3, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("noiseaware: ")
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert str(word) in result.stderr
    return result.stderr


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def fit(folder, *options, out="posterior.nc"):
    return run(
        *("fit", folder / "release.json", "--model", folder / "model.toml"),
        *("--out", folder / out, "--quiet", *options),
    )


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)


@pytest.mark.parametrize("content", RELEASES.values(), ids=RELEASES.keys())
def test_a_bad_release_file(folder, content):
    write(folder / "release.json", content[0])
    refused(fit(folder), content[1])
    assert not (folder / "posterior.nc").exists()


@pytest.mark.parametrize("content", MODELS.values(), ids=MODELS.keys())
def test_a_bad_model_file(folder, content):
    write(folder / "model.toml", content[0])
    line = refused(fit(folder), content[1])
    if content[1] != "Count":
        assert str(folder / "model.toml") in line


@pytest.mark.parametrize("name", ["release.json", "model.toml"])
def test_an_input_that_is_not_a_file(folder, name):
    (folder / name).unlink()
    refused(fit(folder), folder / name, "no such file")
    (folder / name).mkdir()
    refused(fit(folder), folder / name, "is a directory")


def test_every_field_of_every_mechanism_may_be_missing_or_wrong():
    """Whatever is done to a mechanism's description, reading it gives a ValueError or a release."""
    for name in MECHANISMS.names:
        good = MECHANISMS[name].example().to_dict()
        for path in _paths(good):
            for value in (..., None, "text", -1, 1.5, [], {}, [None], {"type": "Laplace"}, True):
                content = replaced(good, path, value)
                try:
                    na.Release.from_dict({**RELEASE, "mechanism": content, "values": [1.0]})
                except (ValueError, TypeError):
                    pass
                except Exception as error:
                    raise AssertionError(f"{name}: {path} = {value!r} gives {error!r}") from error


def _paths(content, before=()):
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*before, key))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--draws", 0, "--draws must be a positive integer; got 0"),
        ("--warmup", -1, "--warmup must be zero or a positive integer; got -1"),
        ("--chains", 0, "chains must be"),
        ("--cores", 0, "cores must be"),
        ("--seed", -3, "--seed must be zero or a positive integer; got -3"),
        ("--keep-records", 5000, "--keep-records must be at most --draws (1000); got 5000"),
        ("--interval", 90, "--interval must be a probability between 0 and 1; got 90"),
    ],
)
def test_a_number_that_cannot_be(folder, option, value, words):
    refused(fit(folder, option, value), words)


def test_words_that_are_not_understood(folder):
    for words in (
        ["fit"],
        ["fit", folder / "release.json"],
        ["fit", folder / "release.json", "--modle", "m"],
        ["fit", folder / "release.json", "-m", "m", "-o", "o", "--draws", "many"],
        ["fitt"],
    ):
        result = run(*words)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_an_output_that_cannot_be_written(folder):
    (folder / "directory").mkdir()
    refused(fit(folder, out="directory"), "--out must be a file", "is a directory")
    refused(fit(folder, out="nowhere/p.nc"), "the directory", "does not exist")
    refused(fit(folder, out="p.csv"), "--out must end in .nc or .netcdf; got", "p.csv")
    refused(fit(folder, "--report", folder / "r.pdf"), "--report must end in .html or .htm; got")
    refused(fit(folder, out="release.json/p.nc"), "is not a directory")
    refused(fit(folder, out="release.json"), "--out would overwrite", "release.json")
    refused(fit(folder, out="model.toml"), "--out would overwrite")
    refused(fit(folder, out="p" * 300), "file name too long")
    if os.name == "posix":
        refused(fit(folder, out="../" * 40 + "dev/null"), "ordinary file")
    refused(fit(folder, "--report", folder / "no" / "r.html"), "--report", "does not exist")
    refused(fit(folder, "--report", folder / "posterior.nc"), "must be two files")
    refused(fit(folder, "--report", folder / "model.toml"), "--report would overwrite")
    assert sorted(p.name for p in folder.iterdir()) == ["directory", "model.toml", "release.json"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(folder):
    (folder / "locked").mkdir(mode=0o500)
    refused(fit(folder, out="locked/p.nc"), "--out cannot be written")


def netcdf(tmp_path, kind):
    path = tmp_path / "posterior.nc"
    if kind == "somebody else's":
        xr.Dataset({"temperature": ("day", np.arange(3.0))}).to_netcdf(path, engine="h5netcdf")
    elif kind == "another posterior":
        draws = xr.Dataset({"mu": (("chain", "draw"), np.zeros((2, 3)))})
        xr.DataTree.from_dict({"posterior": draws}).to_netcdf(path, engine="h5netcdf")
    elif kind == "HDF5 only":
        import h5py

        with h5py.File(path, "w") as file:
            file["numbers"] = np.arange(3)
    elif kind == "directory":
        path.mkdir()
    elif kind == "cut off":
        xr.Dataset({"t": ("day", np.arange(1000.0))}).to_netcdf(path, engine="h5netcdf")
        path.write_bytes(path.read_bytes()[:2000])
    elif kind != "missing":
        write(path, {"empty": "", "text": "hello\n", "binary": bytes(range(256)) * 8}[kind])
    return path


@pytest.mark.parametrize("command", ["check", "impute", "report"])
@pytest.mark.parametrize(
    "kind",
    [
        "missing",
        "directory",
        "empty",
        "text",
        "binary",
        "cut off",
        "HDF5 only",
        "somebody else's",
        "another posterior",
    ],
)
def test_a_posterior_that_is_none(tmp_path, command, kind):
    path = netcdf(tmp_path, kind)
    output = [] if command == "check" else ["--out", tmp_path / "out"]
    line = refused(run(command, path, *output), path)
    if kind in ("somebody else's", "another posterior", "HDF5 only", "directory"):
        assert "not a posterior saved by noiseaware" in line
    assert not (tmp_path / "out").exists()


def test_what_is_in_somebody_elses_file_gives_no_warning(tmp_path):
    """Outside of the tests a warning is not an error, but two more lines."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        refused(run("check", netcdf(tmp_path, "HDF5 only")), "not a posterior saved by noiseaware")
    assert seen == []


@pytest.mark.parametrize("command", ["impute", "report"])
def test_the_output_of_impute_and_report(tmp_path, command):
    path = netcdf(tmp_path, "text")
    refused(run(command, path, "--out", tmp_path), "--out must be a file")
    refused(run(command, path, "--out", tmp_path / "no" / "d.csv"), "does not exist")
    refused(run(command, path, "--out", path), "--out would overwrite")


@pytest.mark.parametrize("what", ["models", "mechanisms", "queries"])
def test_a_name_that_is_not_there(what):
    refused(run(what, "Nromal" if what == "models" else "Laplac"), "there is no", what[:3])


@pytest.mark.parametrize("error", [KeyError, AssertionError, ImportError])
def test_a_fault_of_ours_is_called_so(folder, monkeypatch, error):
    monkeypatch.setattr(na, "load", raises(error("draw")))
    result = run("check", folder / "posterior.nc")
    assert result.exit_code == 70
    assert result.stderr.count("\n") == 1
    assert f"a fault in noiseaware, {error.__name__}: {error('draw')}" in result.stderr
    monkeypatch.setenv("NOISEAWARE_TRACEBACK", "1")
    assert isinstance(run("check", folder / "posterior.nc").exception, error)


@pytest.mark.parametrize("error", [ValueError, TypeError, RecursionError])
def test_what_readers_raise_is_a_fault_of_ours_once_the_files_are_read(folder, monkeypatch, error):
    monkeypatch.setattr(na, "sample", raises(error("shapes (3,) and (4,)")))
    result = fit(folder)
    assert result.exit_code == 70
    assert f"a fault in noiseaware, {error.__name__}: shapes (3,) and (4,)" in result.stderr
    assert result.stderr.count("\n") == 1


def raises(error):
    def broken(*arguments, **options):
        raise error

    return broken


def test_a_checkpoint_of_another_plan_is_not_a_fault(folder):
    plan = (Path(__file__).parents[2] / "examples" / "plan" / "mean.toml").read_text()
    (folder / "plan.toml").write_text(plan)
    done = folder / "planned" / "checkpoint" / "query-0"
    done.mkdir(parents=True)
    header = {"format": "noiseaware-study", "noiseaware": na.__version__, "seed": "1"}
    (done / "replicates.jsonl").write_text(json.dumps(header) + "\n")
    words = ("plan", folder / "plan.toml", "--out", folder / "planned", "--replicates", 1, "-q")
    refused(run(*words), "belongs to another study")


def test_more_records_than_there_is_memory(tmp_path):
    write(tmp_path / "model.toml", MODEL)
    write(tmp_path / "release.json", changed(["n_records"], 10**15))
    refused(fit(tmp_path), "n_records must be at most 1000000000000")
    write(tmp_path / "release.json", changed(["n_records"], 10**12))
    refused(
        fit(tmp_path, "--keep-records", "1", "--draws", "10"),
        "not enough memory",
        "Unable to allocate",
    )


@pytest.mark.parametrize(
    ("release", "out", "words"),
    [
        ("{", "posterior.nc", "is not JSON"),
        pytest.param(
            *(changed(["mechanism", "type"], "Cauchy"), "posterior.nc", "got 'Cauchy'"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            *(json.dumps(RELEASE), "nowhere/posterior.nc", "does not exist"),
            marks=pytest.mark.full,
        ),
    ],
)
def test_the_real_command(tmp_path, release, out, words):
    (tmp_path / "release.json").write_text(release)
    (tmp_path / "model.toml").write_text(MODEL)
    result = subprocess.run(
        [
            *(sys.executable, "-m", "noiseaware", "fit", "release.json"),
            *("--model", "model.toml", "--out", out),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(na.__file__).parents[1])},
    )
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.startswith("noiseaware: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
