"""Many independent pieces of work: on several cores, with a bar, and a file to continue from.

A piece of work is a function of a key (a tuple of whole numbers) that returns numbers and lists of
numbers. What is done goes into a file of JSON lines, one for each key; a run that was stopped reads
it and does the rest. A line that was cut off in the middle is ignored, and its piece done again.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from noiseaware._version import __version__
from noiseaware.basics.files import (
    SHARE,
    CheckpointError,
    agree,
    going_on,
    locked,
    same_version,
    write_whole,
)
from noiseaware.running.run import backend_is_chosen
from noiseaware.running.workers import say_died, terminable, unordered, worker_deaths

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
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    done = (BarColumn(), "{task.percentage:3.0f}%", TimeElapsedColumn())
    columns = ("{task.description}", *done, "left", TimeRemainingColumn())
    # Pieces differ in length, so the speed is averaged over two minutes.
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, speed_estimate_period=120) as rich_bar:
        task = rich_bar.add_task(words, total=total)
        yield lambda amount: rich_bar.advance(task, amount)


Key = tuple[int, ...]


class Lines:
    """The file of what is done; without a path nothing is written.

    `header`, the first line, is what the lines belong to; CheckpointError if a file has another.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self._path = path
        self._synced = 0.0
        self.done: dict[Key, Any] = {}
        if path is None:
            return
        header = json.loads(json.dumps({**header, "noiseaware": __version__}))
        text = path.read_bytes() if path.exists() else b""
        if b"\n" in text:
            self._read(path, text, header)
        else:  # nothing yet, or a first line that was cut off
            path.parent.mkdir(parents=True, exist_ok=True)
            first = json.dumps(header) + "\n"
            write_whole(path, lambda part: part.write_text(first, encoding="utf-8"))

    def _read(self, path: Path, text: bytes, header: dict[str, Any]) -> None:
        first, *lines = text.split(b"\n")
        try:
            found = json.loads(first)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise CheckpointError(f"{path} is not a file that a study can continue from")
        same_version(path, found.get("noiseaware"))
        agree(path, "study", found, header)
        for line in lines:
            try:
                entry = json.loads(line)
                key, result = tuple(map(int, entry["key"])), entry["result"]
                if entry.get("sum", _sum(key, result)) == _sum(key, result):
                    self.done[key] = _mapped(result, lambda x: float(x) if type(x) is str else x)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue  # cut off when the run was stopped, or damaged: it is done again
        if lines[-1]:
            self._append("")

    def add(self, key: Key, result: Any) -> None:
        """Keep a result, in the file too."""
        self.done[key] = result
        if self._path is not None:
            result = _mapped(result, _writable)
            entry = {"key": list(key), "result": result, "sum": _sum(key, result)}
            self._append(json.dumps(entry, allow_nan=False))

    def _append(self, line: str) -> None:
        """Add a line, which outlives this process; and the machine, if the disk is quick."""
        assert self._path is not None
        how = "the same call goes on"
        with going_on(self._path, how), self._path.open("ab") as file:
            file.write(f"{line}\n".encode())
            file.flush()
            began = time.monotonic()
            if began >= self._synced:
                os.fsync(file.fileno())
                ended = time.monotonic()
                self._synced = ended + (ended - began) / SHARE

    def locked(self) -> AbstractContextManager[None]:
        """Let no other process work with the file's folder."""
        return nullcontext() if self._path is None else locked(self._path.parent)


def _sum(key: Key, result: Any) -> int:
    """Return a checksum of a line."""
    return zlib.crc32(json.dumps([list(key), result]).encode())


def run_tasks(
    function: Callable[[Key], Any], keys: Sequence[Key], lines: Lines, cores: int, advance: Advance
) -> dict[Key, Any]:
    """Do what is not done yet; return the results of all keys, in their order.

    `cores` is the number of worker processes; 1 runs here. Inside a `joblib.parallel_config` block
    the workers are those of its backend. Results are added to `lines`, and `advance` is told how
    many pieces have just been done, beginning with those from the file.
    """
    todo = [key for key in keys if key not in lines.done]
    advance(len(keys) - len(todo))
    with lines.locked(), terminable():
        for key, result in _results(function, todo, cores):
            lines.add(key, result)
            advance(1)
    return {key: lines.done[key] for key in keys}


def _results(function, todo: Sequence[Key], cores: int) -> Iterator[tuple[Key, Any]]:
    """Yield the key and the result of each piece as it is done; again if its worker dies."""
    workers = None if backend_is_chosen() else min(cores, len(todo))
    if workers is not None and workers <= 1:
        yield from ((key, function(key)) for key in todo)
        return
    left, deaths = list(todo), 0
    while left:
        found = unordered(workers, _with_key, function, left)
        try:
            for key, result in found:
                left.remove(key)
                deaths = 0
                yield key, result
        except worker_deaths() as problem:
            deaths += 1
            say_died(problem, deaths)


def _with_key(function, key):
    return key, function(key)


def _writable(x: Any) -> Any:
    """Return what JSON can hold: it has no NaN and no infinity, which are written as text."""
    return x if not isinstance(x, float) or math.isfinite(x) else str(x)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested dictionaries and lists with every number in them changed."""
    if isinstance(value, dict):
        return {name: _mapped(entry, change) for name, entry in value.items()}
    if isinstance(value, list):
        return [_mapped(entry, change) for entry in value]
    return change(value)
