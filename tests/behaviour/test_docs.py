"""Every Python block of the README and the docs runs, in order, page by page.

`make test` runs them with short chains and few replicates, but for pages that take long all the
same; `make validate` runs them all, as they are written, and the demo.
"""

import contextlib
import functools
import io
import re
from pathlib import Path

import pytest
from matplotlib import pyplot

import noiseaware as na

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = {page: re.findall(r"```python\n(.*?)```", page.read_text(), re.S) for page in PAGES}


def test_there_are_pages_with_code():
    assert sum(map(len, BLOCKS.values())) >= 5


MOST = {
    "sample": {"draws": 50, "warmup": 50, "chains": 2},
    "sbc": {"replicates": 8},
}
"""What the functions are given in `make test`, whatever a block asks for beyond it."""


def at_most(function, **most):
    """Return the function with these arguments cut down."""

    @functools.wraps(function)
    def called(*args, **given):
        return function(*args, **{**given, **{k: min(given.get(k, m), m) for k, m in most.items()}})

    return called


LONG = (
    *("kernel.md", "mechanism.md", "model.md", "move.md", "query.md"),
    *("count-regression.md", "studies.md", "tutorial.md", "cells-page-views.md"),
    *("cells.md", "after-noise.md", "beyond.md", "interop.md"),
    *("joint-mechanisms.md", "rounded-tables.md", "your-own.md", "report.md", "naive.md"),
    *("unknown-sizes.md", "local-mechanisms.md", "noisy-covariate.md", "dirichlet.md"),
    *("categorical.md", "logistic-regression.md"),
)
"""Pages that take long, in `na.validate` and `na.study` or to compile: in `make validate` only."""


def run_blocks(page):
    names = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for block in BLOCKS[page]:
            exec(compile(block, str(page), "exec"), names)
    pyplot.close("all")


def in_a_folder_of_its_own(monkeypatch, tmp_path):
    """Change to a folder that has the examples: what a page writes goes there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


WITH_BLOCKS = [page for page in PAGES if BLOCKS[page]]


@pytest.mark.parametrize(
    "page", [page for page in WITH_BLOCKS if page.name not in LONG], ids=lambda p: p.name
)
def test_the_blocks_of_a_page_run(page, monkeypatch, tmp_path):
    in_a_folder_of_its_own(monkeypatch, tmp_path)
    for name, most in MOST.items():
        monkeypatch.setattr(na, name, at_most(getattr(na, name), **most))
    run_blocks(page)


@pytest.mark.full
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: p.name)
def test_the_blocks_of_a_page_run_as_they_are_written(page, monkeypatch, tmp_path):
    in_a_folder_of_its_own(monkeypatch, tmp_path)
    run_blocks(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.full
def test_the_demo_prints_what_the_readme_shows(tmp_path, monkeypatch, capfd):
    import importlib.util

    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    monkeypatch.setattr(demo, "OUT", tmp_path)
    demo.main()
    printed = capfd.readouterr().out
    section = (ROOT / "README.md").read_text().split("## Two commands")[1].split("## In Python")[0]
    shown = re.findall(r"```text\n(.*?)```", section, re.S)
    assert len(shown) == 2
    for block in shown:
        # The words, not the digits: another processor adds floats in another order, and a chain
        # that differs in one bit is another chain.
        assert _without_numbers(block.strip()) in _without_numbers(printed)
    assert f"The report: {tmp_path / 'report.html'}" in printed
    assert "Does exercise lower the resting pulse?" in (tmp_path / "report.html").read_text()
    assert na.check(na.load(tmp_path / "posterior.nc"))


def _without_numbers(text):
    return re.sub(r"[ -]+", " ", re.sub(r"[+-]?\d+(\.\d+)?", "#", text))
