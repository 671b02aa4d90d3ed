"""Many independent pieces of work: on several cores, with a bar, and a file to continue from.

A piece of work is a function of a key (a tuple of whole numbers) that returns numbers and lists of
numbers. What is done goes into a file of JSON lines, one for each key; a run that was stopped reads
it and does the rest. A line that was cut off in the middle is ignored, and its piece done again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from noiseaware.sampler.run import backend_is_chosen
from noiseaware.studies.progress import Advance

Key = tuple[int, ...]


class CheckpointError(ValueError):
    """The file of a checkpoint is not one, or belongs to another study."""


class Lines:
    """The file of what is done; without a path nothing is written.

    Parameters
    ----------
    path
        The file of JSON lines.
    header
        What the lines belong to: the first line.

    Raises
    ------
    CheckpointError
        If there is a file with another header.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self._path = path
        self.done: dict[Key, Any] = {}
        if path is None:
            return
        header = json.loads(json.dumps(header))
        if path.exists() and path.stat().st_size:
            self._read(path, header)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(header) + "\n", encoding="utf-8")

    def _read(self, path: Path, header: dict[str, Any]) -> None:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        try:
            found = json.loads(lines[0])
        except json.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise CheckpointError(f"{path} is not a file that a study can continue from")
        for name in sorted(set(found) | set(header)):
            if found.get(name) != header.get(name):
                raise CheckpointError(
                    f"{path} belongs to another study: its {name} is {_short(found.get(name))}, "
                    f"and here it is {_short(header.get(name))}. Take another directory"
                )
        for line in lines[1:]:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off when the run was stopped
            self.done[tuple(entry["key"])] = _unwrapped(entry["result"])
        if not text.endswith("\n"):
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def add(self, key: Key, result: Any) -> None:
        """Keep a result, in the file too."""
        self.done[key] = result
        if self._path is not None:
            line = json.dumps({"key": list(key), "result": _wrapped(result)}, allow_nan=False)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def run_tasks(
    function: Callable[[Key], Any],
    keys: Sequence[Key],
    lines: Lines,
    cores: int,
    advance: Advance,
) -> dict[Key, Any]:
    """Do what is not done yet; return the results of all keys, in their order.

    Parameters
    ----------
    function
        What to do for a key.
    keys
        All of them, also those that are done.
    lines
        What is done; results are added to it.
    cores
        Worker processes; 1 runs here. Inside a `joblib.parallel_config` block the workers are
        those of its backend.
    advance
        Told the number of pieces that have just been done, beginning with those from the file.
    """
    todo = [key for key in keys if key not in lines.done]
    advance(len(keys) - len(todo))
    for key, result in _results(function, todo, cores):
        lines.add(key, result)
        advance(1)
    return {key: lines.done[key] for key in keys}


def _results(function, todo: Sequence[Key], cores: int) -> Iterable[tuple[Key, Any]]:
    if backend_is_chosen():
        parallel = Parallel(return_as="generator_unordered")
    elif cores == 1 or len(todo) == 1:
        return ((key, function(key)) for key in todo)
    else:
        parallel = Parallel(n_jobs=min(cores, len(todo)), return_as="generator_unordered")
    return parallel(delayed(_with_key)(function, key) for key in todo) if todo else ()


def _with_key(function, key):
    return key, function(key)


def pick_cores(cores: int | None, seconds: float) -> int:
    """Return the number of worker processes: as asked for, or one for work of a few seconds."""
    if cores is not None:
        return cores
    return 1 if seconds < 10.0 else (os.cpu_count() or 1)


def _wrapped(value: Any) -> Any:
    """Return what JSON can hold: it has no NaN and no infinity, which are written as text."""
    return _mapped(value, lambda x: x if not isinstance(x, float) or math.isfinite(x) else str(x))


def _unwrapped(value: Any) -> Any:
    return _mapped(value, lambda x: float(x) if isinstance(x, str) else x)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested dictionaries and lists with every number in them changed."""
    if isinstance(value, dict):
        return {name: _mapped(entry, change) for name, entry in value.items()}
    if isinstance(value, list):
        return [_mapped(entry, change) for entry in value]
    return change(value)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
