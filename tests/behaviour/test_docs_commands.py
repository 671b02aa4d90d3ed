"""Every `noiseaware ...` line in a console block of the README and the docs runs, and ends well.

`make test` draws few samples where a line asks for no number of its own, so that a check of the
chains may fail (exit code 1); `make validate` runs the lines as they are written. What another test
of `make test` runs, it need not run twice: the commands of command.md, plan.md, reproduce.md,
cells.md and reliability.md are those of `test_command`, `test_plan`, `test_reproduce`,
`test_cells_file` and `test_checkpoint`.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.cli.fit import fit

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page):
    """Return the commands of a page: what stands behind `noiseaware` in its console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    lines = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("noiseaware ")]


ANSWERS = "1\n250\n1\nepsilon=0.5\n81.4\n"
"""Typed at `noiseaware new`, as the page shows it."""

WITH_COMMANDS = [page for page in PAGES if commands(page)]


def test_the_docs_show_every_command():
    shown = {words[1] for page in WITH_COMMANDS for words in commands(page)}
    assert {command.callback.__name__ for command in app.registered_commands} <= shown


def run_commands(page, tmp_path, monkeypatch, few=(), ends=(0,)):
    """Run them in a copy of the folder `examples`, one after the other."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    for words in commands(page):
        more = few if words[1] == "fit" and "--draws" not in words else ()
        answers = ANSWERS if words[1] == "new" else None
        result = CliRunner().invoke(app, [*words[1:], *more], input=answers)
        right = ends if words[1] in ("fit", "check", "resume") else (0,)
        assert result.exit_code in right, f"{shlex.join(words)}\n{result.output}"


LONG = ("command.md", "plan.md", "reproduce.md", "cells.md", "reliability.md")
"""Run as they are written, in `make validate` only."""


@pytest.mark.parametrize(
    "page", [page for page in WITH_COMMANDS if page.name not in LONG], ids=lambda page: page.name
)
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch):
    few = ("--draws", "50", "--warmup", "50", "--chains", "2")
    run_commands(page, tmp_path, monkeypatch, few, ends=(0, 1))


@pytest.mark.full
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_as_they_are_written(page, tmp_path, monkeypatch):
    run_commands(page, tmp_path, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("name", ["README.md", "docs/command.md", "docs/cells.md"])
def test_the_table_of_a_page_is_what_its_first_fit_prints_now(name, tmp_path, monkeypatch):
    text = (ROOT / name).read_text(encoding="utf-8")
    shown = re.search(r"^(parameter +mean .*?)(?:\n\n|\n```)", text, re.S | re.M).group(1)
    words = next(words for words in commands(ROOT / name) if words[1] == "fit")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    printed = CliRunner().invoke(app, [*words[1:], "--seed", "1", "--quiet"]).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    assert [line for line in shown.splitlines() if line not in lines] == []


def test_the_release_files_that_are_shown_can_be_read():
    """The JSON of the page, and the one line of `fit --help`."""
    page = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    shown = re.findall(r"```json\n(.*?)```", page, re.S)
    shown.append(re.search(r"file: `(.*?)`", " ".join(str(fit.__doc__).split())).group(1))
    assert [len(na.Release.from_dict(json.loads(text)).values) for text in shown] == [3, 1]
