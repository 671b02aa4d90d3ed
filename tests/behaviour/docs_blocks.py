"""Blocks of docs/interop.md that need a library which may not be installed: fenced with `py`."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "interop.md"


def run_blocks(library: str) -> None:
    """Run the blocks that import this library, of which there must be some."""
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    blocks = [block for block in blocks if f"import {library}" in block]
    assert blocks
    with contextlib.redirect_stdout(io.StringIO()):
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), {})
