"""A bar over all pieces of work, with the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]
"""Told how much work has just been done."""


@contextmanager
def bar(words: str, total: float, shown: bool | Advance = True) -> Iterator[Advance]:
    """Show a bar during the block, which is given the function that advances it.

    A function instead of True is called in place of the bar; False shows nothing.
    """
    if callable(shown) or not shown:
        yield shown or (lambda amount: None)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # Pieces differ in length, so the speed is averaged over two minutes.
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, speed_estimate_period=120) as rich_bar:
        task = rich_bar.add_task(words, total=total)
        yield lambda amount: rich_bar.advance(task, amount)
