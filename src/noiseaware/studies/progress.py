"""A bar over all pieces of work, with the time left; or the one that shows nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(words: str, total: float, shown: bool = True) -> Iterator[Callable[[float], None]]:
    """Show a bar for the length of the block; the block gets a function that moves it on."""
    if not shown:
        yield lambda amount: None
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
        # Pieces differ in length, so the speed is taken over a long stretch.
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(file=sys.stderr), speed_estimate_period=120
    ) as shown_bar:
        task = shown_bar.add_task(words, total=total)
        yield lambda amount: shown_bar.advance(task, amount)
