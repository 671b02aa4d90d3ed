"""Files from strangers: refused in one line, or right. `make fuzz` tries 6,000."""

import json
import shutil
import time
import unicodedata
from pathlib import Path
from unittest import mock
from xml.dom import minidom

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noiseaware as na
from fuzz import fuzzing
from fuzz.fuzzing import ROOT, fuzz, outcome
from noiseaware.basics import arguments
from noiseaware.basics.arguments import check_memory, whole_number
from noiseaware.basics.files import write_table
from noiseaware.cli import app, errors
from noiseaware.plots import plain
from noiseaware.report.pictures import draw

CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def test_mutated_files_are_refused_in_one_line(seed):
    counts, wrong = fuzz(20, 10, seed)
    assert not wrong, wrong
    assert counts["refused"] > 12


@pytest.mark.parametrize("found", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_was_found_once_is_refused(found, tmp_path):
    """The first word of a file's name is the command that it broke; "model" is another of `fit`.

    The second word of a release or a model is the example that the other file is of.
    """
    command, example = found.name.split("-")[:2]
    model, release = (ROOT / "examples" / part / example for part in ("models", "releases"))
    (tmp_path / "run").mkdir()
    if command == "resume":
        shutil.copy(found, tmp_path / "run" / "run.json")
    out = ["-o", str(tmp_path / "out.nc"), "-q"]
    words = {
        "report": ["report", str(found), "-o", str(tmp_path / "out.html")],
        "resume": ["resume", str(tmp_path / "run"), *out],
        "fit": ["fit", str(found), "-m", str(model.with_suffix(".toml")), *out],
        "model": ["fit", str(release.with_suffix(".json")), "-m", str(found), *out],
        "plan": ["plan", str(found), "-q"],
    }
    assert outcome(words[command]) == "refused"


def test_a_hang_is_wrong(tmp_path, monkeypatch):
    words = ["check", str(tmp_path / "there is no such file.nc")]
    with monkeypatch.context() as patch:
        patch.setattr(fuzzing, "SECONDS", -1000)
        assert fuzzing.real_outcome(words).startswith("took more than")
    monkeypatch.setattr(fuzzing, "WAIT", 0.1)
    monkeypatch.setattr(na, "load", lambda path: time.sleep(60))
    assert outcome(words).startswith("took more than")


@pytest.mark.full
def test_mutated_files_through_a_process_of_their_own(seed):
    counts, wrong = fuzz(6, 6, seed, real=True)
    assert not wrong, wrong
    assert counts["refused"]


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_the_memory_is_that_of_the_process_itself(monkeypatch):
    words = ["check", "there is no such file.nc"]
    monkeypatch.setattr(fuzzing, "MEMORY", 500 << 20)
    ours = np.ones(600 << 17)  # 600 MiB here, which are not there
    assert ours.nbytes > fuzzing.MEMORY
    assert fuzzing.real_outcome(words) == "refused"
    monkeypatch.setattr(fuzzing, "MEMORY", 10 << 20)
    assert fuzzing.real_outcome(words).endswith(" MiB")


def test_the_fuzzer_sees_a_fault(tmp_path, monkeypatch):
    (tmp_path / "release.json").write_text("{}")
    monkeypatch.setattr(na.Release, "from_json", lambda path: {}["format"])
    words = ["fit", str(tmp_path / "release.json"), "-m", "m", "-o", str(tmp_path / "o.nc")]
    assert outcome(words).startswith("fault: noiseaware: this is a fault in noiseaware, KeyError")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_records", 10**400, "n_records must be at most 1000000000000"),
        ("values", {"count of 1": 10**400}, "too large"),
        ("unknown\x1b[2J", 1, r"unknown\x1b[2J"),
    ],
)
def test_a_nasty_number_in_a_release(name, value, message, tmp_path):
    release = json.loads((ROOT / "examples/releases/bernoulli.json").read_text())
    (tmp_path / "release.json").write_text(json.dumps({**release, name: value}))
    model = str(ROOT / "examples/models/bernoulli.toml")
    words = ["fit", str(tmp_path / "release.json"), "-m", model, "-o", str(tmp_path / "o.nc"), "-q"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3, result.output
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert "\x1b" not in result.stderr


def test_sizes_that_no_memory_holds():
    with pytest.raises(ValueError, match="n_features must be at most 1000"):
        whole_number("n_features", 10**9)
    with pytest.raises(MemoryError, match=r"records take .* GiB"):
        check_memory("records", 8 * 10**15)


def test_all_chains_must_fit_into_what_is_free(monkeypatch):
    """Refused before anything is made: a chain holds a record, and how often it was accepted."""
    noise = na.mechanisms.Laplace(na.queries.Sum(-5.0, 5.0), scale=2.0)
    release = na.Release([3.0], noise, n_records=10**6)
    options = {"draws": 1, "warmup": 0, "chains": 4, "progressbar": False}
    monkeypatch.setattr(arguments, "_free_memory", lambda: 5 * 16e6 - 1)
    with mock.patch.object(na.models.Normal, "build_records", wraps=None) as build:
        build.side_effect = lambda theta, u: np.zeros(len(u))
        with pytest.raises(
            MemoryError, match=r"1000000 records, of 4 chains and a copy, take 0.07"
        ):
            na.sample(na.models.Normal(), release, **options)
        assert max(len(call.args[1]) for call in build.call_args_list) < 1000
    # What does not hold the records does not need to have room for them.
    count = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    na.sample(na.models.Bernoulli(), na.Release([3.0], count, n_records=10**12), **options)


def test_what_is_free_is_what_the_system_says():
    assert 2**20 < arguments._free_memory() < 2**60


def test_a_table_has_no_formulas(tmp_path):
    frame = pd.DataFrame({"=a": ["=1+1", "@x", "b"], "n": [-1.0, 2.0, 3.0]})
    write_table(tmp_path / "t.csv", frame)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["'=a,n", "'=1+1,-1.0", "'@x,2.0", "b,3.0"]


def test_names_in_pictures_are_no_formulas_and_no_markup():
    name = "$\\frac{x$ <script>alert(1)</script> \x1b[31m"
    svg = draw(1.0, name, lambda ax: plain(ax, name))
    texts = minidom.parseString(svg).getElementsByTagName("text")
    assert "$\\frac{x$ <script>alert(1)</script> \ufffd[31m" in [t.firstChild.data for t in texts]


def test_a_report_obeys_no_text(tmp_path):
    noise = na.mechanisms.Laplace(na.queries.Count(name="a\x1b[31m \u202eb\x9b\ud800"), scale=2.0)
    posterior = na.sample(
        na.models.Bernoulli(), na.Release([3.0], noise, n_records=9), draws=20, warmup=20, chains=2,
        keep_records=2, random_seed=1, progressbar=False,
    )  # fmt: skip
    title = "The \u2066title\u2069\x07 says \u05e9\u05dc\u05d5\u05dd"
    page = na.write_report(posterior, tmp_path / "report.html", title=title).read_text("utf-8")
    assert "The \ufffdtitle\ufffd\ufffd says \u05e9\u05dc\u05d5\u05dd" in page
    assert "a\ufffd[31m \ufffdb\ufffd\ufffd" in page
    wrong = {c for c in page if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - set("\n\t")
    assert not wrong


def test_half_a_pair_in_a_release_is_refused(tmp_path):
    release = json.loads((ROOT / "examples/releases/bernoulli.json").read_text())
    release["mechanism"]["query"]["name"] = "\ud800"
    (tmp_path / "release.json").write_text(json.dumps(release))
    with pytest.raises(ValueError, match=r"release\.json: .* surrogates not allowed"):
        na.Release.from_json(tmp_path / "release.json")


def test_what_a_terminal_would_obey_is_shown():
    assert errors.printable("a\x1b[31m\u202e\nb\x07") == r"a\x1b[31m\u202e" + "\n" + r"b\x07"
