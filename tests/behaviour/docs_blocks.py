"""Blocks of pages that need a library which may not be installed: fenced with `py`."""

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def run_blocks(library: str, page: str = "interop.md") -> None:
    """Run the blocks that import this library, of which there must be some."""
    for block in _blocks(page, f"import {library}"):
        _run(block, page, {})


def run_page(page: str) -> None:
    """Run all of these blocks of a page, in order, as one program."""
    names: dict = {}
    for block in _blocks(page):
        _run(block, page, names)


def _blocks(page: str, word: str = "") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```py\n(.*?)```", text, re.S) if word in block]
    assert blocks
    return blocks


def _run(block: str, page: str, names: dict) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, page, "exec"), names)
