"""Many independent tasks: on several cores, with a progress bar and a file to continue from.

A task is a function of a key (a tuple of integers) that returns numbers and lists of numbers.
Results go into a file of JSON lines, one per key; a stopped run reads it and does the rest. A
truncated line is ignored, and its task done again.
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
"""Called with the amount of work just done."""


@contextmanager
def bar(words: str, total: float, shown: bool | Advance = True) -> Iterator[Advance]:
    """Show a progress bar during the block, and yield the function that advances it.

    If `shown` is a function, it replaces the bar; False shows nothing.
    """
    if callable(shown) or not shown:
        yield shown or (lambda amount: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    done = (BarColumn(), "{task.percentage:3.0f}%", TimeElapsedColumn())
    columns = ("{task.description}", *done, "left", TimeRemainingColumn())
    # Tasks differ in length, so the speed is averaged over two minutes.
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, speed_estimate_period=120) as rich_bar:
        task = rich_bar.add_task(words, total=total)
        yield lambda amount: rich_bar.advance(task, amount)


Key = tuple[int, ...]


class Lines:
    """The file of finished tasks; without a path nothing is written.

    The first line, `header`, says what the lines belong to; CheckpointError if a file has another.
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
        """Keep a result and write it to the file."""
        self.done[key] = result
        if self._path is not None:
            result = _mapped(result, _writable)
            entry = {"key": list(key), "result": result, "sum": _sum(key, result)}
            self._append(json.dumps(entry, allow_nan=False))

    def _append(self, line: str) -> None:
        """Append a line so that it survives this process, and a crash of the machine if synced.

        Syncing takes at most a share `SHARE` of the time.
        """
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
        """Lock the file's folder against other processes."""
        return nullcontext() if self._path is None else locked(self._path.parent)


def _sum(key: Key, result: Any) -> int:
    return zlib.crc32(json.dumps([list(key), result]).encode())


def run_tasks(
    function: Callable[[Key], Any], keys: Sequence[Key], lines: Lines, cores: int, advance: Advance
) -> dict[Key, Any]:
    """Run the tasks that are not done yet; return the results of all keys, in order.

    `cores` is the number of worker processes; 1 runs in this process. Inside a
    `joblib.parallel_config` block its backend provides the workers. `advance` is called with the
    number of tasks just done, first those from the file.
    """
    todo = [key for key in keys if key not in lines.done]
    advance(len(keys) - len(todo))
    with lines.locked(), terminable():
        for key, result in _results(function, todo, cores):
            lines.add(key, result)
            advance(1)
    return {key: lines.done[key] for key in keys}


def _results(function, todo: Sequence[Key], cores: int) -> Iterator[tuple[Key, Any]]:
    """Yield each task's key and result as it finishes; retry tasks whose worker died."""
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
    """Return a value that JSON can hold: NaN and infinities as text."""
    return x if not isinstance(x, float) or math.isfinite(x) else str(x)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to every leaf of nested dictionaries and lists."""
    if isinstance(value, dict):
        return {name: _mapped(entry, change) for name, entry in value.items()}
    if isinstance(value, list):
        return [_mapped(entry, change) for entry in value]
    return change(value)
