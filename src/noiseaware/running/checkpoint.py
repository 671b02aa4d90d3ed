"""A run on disk: kill -9 loses the current segment, or the last ten seconds if that is shorter.

A folder holds `run.json` (the release, the model and the settings), `draws-000001.npz`,
`draws-000002.npz`, ... (the draws of all chains, piece by piece) and one `state-000002.npz` (the
chains' states after that piece). A chain is a pure function of its state, so a resumed run makes
the same draws, bit for bit, as an uninterrupted one.

Draws are written before the state that continues from them, and the new state before the old one is
deleted, so the folder is consistent at every moment.

Written files survive the process, but survive a power cut only after a disk sync, which is done
only as often as it is cheap. The last synced state is kept until the next one, as a fallback if a
later state is damaged.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware._version import __version__
from noiseaware.basics.files import (
    PART,
    SHARE,
    CheckpointError,
    agree,
    going_on,
    locked,
    read_arrays,
    same_version,
    sync,
    write_arrays,
    write_json,
)
from noiseaware.release import Release
from noiseaware.running.plain import Arrays, pack_state, unpack_state
from noiseaware.sampler.state import ChainState, Draws

FORMAT = "noiseaware-checkpoint"
VERSION = 1
HEADER, BESIDE = "run.json", "fit.json"
"""The description of the run; and what the command that runs it does with the result."""


LONGEST_WAIT = 10.0
"""Seconds after a write in which finished segments may wait to be written, at most."""

LONG = 1000
"""Characters of an object's description that are kept; longer ones are replaced by a digest."""

MOST, MOST_CHAINS = 10**9, 10**4
"""The largest numbers that a file may ask for; more means damage."""


def as_json(thing: Any) -> str:
    """Return the object's `to_dict` as JSON, or "" if it cannot be written."""
    try:
        return json.dumps(thing.to_dict())
    except (AttributeError, ValueError, TypeError):
        return ""


def words_of(thing: Any) -> str:
    """Return an object's repr without memory addresses, which change from run to run.

    If the repr is only an address, return the attributes. Long arrays and texts become a digest.
    """

    def value(held: Any) -> str:
        long = isinstance(held, np.ndarray) and held.size > LONG
        return hashlib.sha256(np.ascontiguousarray(held).data).hexdigest() if long else repr(held)

    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        if type(thing).__repr__ is object.__repr__:
            held = (f"{name}={value(one)}" for name, one in sorted(vars(thing).items()))
            words = f"{type(thing).__name__}({', '.join(held)})"
        else:
            words = repr(thing)
    words = re.sub(r" at 0x[0-9a-fA-F]+", "", words)
    return words if len(words) <= LONG else f"{words[: LONG // 2]}... {digest(words)}"


def identity(thing: Any) -> Any:
    """Return what identifies an object: its JSON description, or else its repr."""
    stated = as_json(thing)
    return json.loads(stated) if stated else words_of(thing)


def digest(what: Any) -> str:
    """Return a digest of JSON content."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def describe(
    model: Any, release: Release, moves: Any, size: Any, random_seed: int, **numbers: int
) -> dict[str, Any]:
    """Return the description of a run for its checkpoint, as JSON.

    The numbers are those of `sample`: warmup, draws, keep_records and chains.
    """
    values = f"{release.n_records} records, values {digest(release.values.tolist())}"
    described = {
        "format": FORMAT,
        "version": VERSION,
        "noiseaware": __version__,
        "model": identity(model),
        "size": None if size is None else identity(size),
        "release": json.loads(as_json(release) or "null")
        or f"{words_of(release.mechanism)}, {values}",
        "moves": None if moves is None else ", ".join(map(words_of, moves)),
        "first_draws": numbers["draws"],
        **numbers,
        "random_seed": str(random_seed),
    }
    return json.loads(json.dumps(described))


def read_header(folder: str | Path) -> dict[str, Any]:
    """Return a checkpoint's description; FileNotFoundError or CheckpointError if there is none."""
    path = Path(folder) / HEADER
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint in {folder}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        least = {"warmup": 0, "draws": 1, "first_draws": 1, "keep_records": 0, "chains": 1}
        right = found["format"] == FORMAT and int(found["random_seed"]) >= 0
        written = found["version"], found["noiseaware"]
        for name, number in least.items():
            right = right and type(found[name]) is int and number <= found[name] <= MOST
        right = right and found["chains"] <= MOST_CHAINS and found["keep_records"] <= found["draws"]
        right = right and isinstance(found["moves"], str | None)
        right = right and all(isinstance(found[name], str | dict) for name in ("model", "release"))
        right = right and isinstance(found["size"], str | dict | None)
    except (ValueError, TypeError, KeyError, RecursionError):
        right = False
    if not right:
        raise CheckpointError(f"{path} is damaged, or not of a checkpoint")
    if written[0] != VERSION:
        raise CheckpointError(f"{path} has version {written[0]}; this noiseaware reads {VERSION}")
    same_version(folder, found["noiseaware"])
    return found


Read = tuple[list[ChainState], list[list[Draws]], float]
"""The chains' states, the draws of each in pieces, and the elapsed seconds."""


@contextmanager
def opened(folder: str | Path, wanted: dict[str, Any]) -> Iterator[tuple[Checkpoint, int]]:
    """Create a checkpoint in a folder, or open the existing one.

    Also yields the number of draws with which the run began. CheckpointError if the folder belongs
    to another run, has more draws than wanted, or is in use.
    """
    folder = Path(folder)
    if folder.is_dir() and not (folder / HEADER).exists():
        others = [path for path in folder.iterdir() if path.name not in (BESIDE, "lock")]
        if any(PART not in path.name for path in others):
            raise CheckpointError(f"{folder} holds something else. Take another directory")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if (folder / HEADER).exists():
            found = read_header(folder)
            wanted = {**wanted, "first_draws": found["first_draws"]}
            agree(folder, "run", {**found, "draws": wanted["draws"]}, wanted)
        else:
            write_json(folder / HEADER, wanted)
        yield Checkpoint(folder, wanted), wanted["first_draws"]


@dataclass
class Checkpoint:
    """The files of a run, and its description (`describe`)."""

    folder: Path
    header: dict[str, Any]
    _pieces: int = 0
    _pending: list[list[Draws]] = field(default_factory=list)
    _states: list[ChainState] | None = None
    _next: float = 0.0
    _next_sync: float = 0.0
    _unsynced: set[Path] = field(default_factory=set)
    _last: Path | None = None
    _safe: Path | None = None
    _seconds: float = 0.0

    def read(self, started: list[ChainState]) -> Read:
        """Return the chains' states, their draws in pieces, and the elapsed seconds.

        If nothing has been written, return `started`. CheckpointError if the files are damaged,
        belong to another run, or hold more draws than wanted.
        """
        states, pieces, seconds = self._newest(started)
        done, wanted = states[0].iteration - self.header["warmup"], self.header["draws"]
        if done > wanted:
            raise CheckpointError(
                f"{self.folder} has {done} draws of each chain; draws must be at least as many, "
                f"got {wanted}"
            )
        if read_header(self.folder) != self.header:  # more draws, or fewer, than before
            write_json(self.folder / HEADER, self.header)
        return states, pieces, seconds

    def _newest(self, started: list[ChainState]) -> Read:
        found = sorted(self.folder.glob("state-*.npz"))
        while found:
            self._safe = found.pop()
            try:
                return self._read(self._safe, [state.copy() for state in started])
            except CheckpointError:
                if not found:
                    raise
                # A power cut damaged it: fall back to an older one.
        return started, [[] for _ in started], 0.0

    def _read(self, path: Path, started: list[ChainState]) -> Read:
        """Do what `read` does, from one given state."""
        pieces: list[list[Draws]] = [[] for _ in started]
        try:
            arrays, words = self._load(path)
            self._pieces, seconds = int(words["pieces"]), float(words["seconds"])
            packed = zip(words["chains"], started, strict=True)
            states = [unpack_state(one, arrays, state) for one, state in packed]
            for number in range(1, self._pieces + 1):
                path = self._piece(number)
                for i, draws in enumerate(_read_draws(*self._load(path))):
                    pieces[i].append(draws)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OSError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from None
        return states, pieces, seconds

    def _load(self, path: Path) -> tuple[Arrays, Any]:
        """Return the content of a file; ValueError unless it matches the header."""
        arrays, words = read_arrays(path)
        if words["run"] != self._identity():
            raise ValueError(f"it was not drawn from what {HEADER} says; one of them was changed")
        return arrays, words

    def _identity(self) -> str:
        """Return a digest of the header without the number of draws, which may grow."""
        return digest({name: said for name, said in self.header.items() if name != "draws"})

    def note(self, states: Sequence[ChainState], drawn: Sequence[Draws], seconds: float) -> None:
        """Record a segment of all chains; write it if enough time has passed."""
        before = self._pending or [[] for _ in drawn]
        pending = [[*parts, draws] for parts, draws in zip(before, drawn, strict=True)]
        # A single assignment: Ctrl-C may come at any line.
        self._states, self._seconds, self._pending = list(states), seconds, pending
        now = time.monotonic()
        if now >= self._next:
            self.write(synced=now >= self._next_sync)

    def write(self, synced: bool = True) -> None:
        """Write what was recorded since the last write; wait for the disk if `synced`."""
        began = time.monotonic()
        how = f"the same call goes on, or noiseaware resume {self.folder}"
        with going_on(self.folder, how):
            if self._states is not None:
                self._put(self._states)
            written = time.monotonic()
            self._next = written + min(LONGEST_WAIT, (written - began) / SHARE)
            if synced:
                self._sync()
                ended = time.monotonic()
                self._next_sync = ended + (ended - written) / SHARE

    def _put(self, states: list[ChainState]) -> None:
        # Ctrl-C may come at any line; a repeated write goes to the same files.
        joined, pieces = [Draws.join(parts) for parts in self._pending], self._pieces
        if len(joined[0]):
            pieces += 1
            self._write(self._piece(pieces), *_pack_draws(joined))
        arrays: Arrays = {}
        chains = [pack_state(state, arrays) for state in states]
        path = self.folder / f"state-{states[0].iteration:012d}.npz"
        words = {"pieces": pieces, "seconds": self._seconds, "chains": chains}
        self._write(path, arrays, words)
        self._last, self._pieces, self._states, self._pending = path, pieces, None, []
        self._drop_older()

    def _write(self, path: Path, arrays: Arrays, words: Any) -> None:
        write_arrays(path, arrays, {**words, "run": self._identity()}, synced=False)
        self._unsynced.add(path)

    def _sync(self) -> None:
        """Wait until all files are on disk; from now on the last state is the safe one."""
        for path in self._unsynced:
            sync(path)
        sync(self.folder)
        self._unsynced, self._safe = set(), self._last or self._safe
        self._drop_older()

    def _drop_older(self) -> None:
        """Delete states before the last one, except the safe one."""
        for path in self.folder.glob("state-*.npz"):
            if self._last is not None and path.name < self._last.name and path != self._safe:
                path.unlink(missing_ok=True)
                self._unsynced.discard(path)

    def _piece(self, number: int) -> Path:
        return self.folder / f"draws-{number:06d}.npz"


def _pack_draws(chains: Sequence[Draws]) -> tuple[Arrays, Any]:
    """Return the arrays of all chains by name, and the number of databases of each."""
    arrays: Arrays = {}
    for i, draws in enumerate(chains):
        arrays |= {f"{i}/theta/{name}": values for name, values in draws.theta.items()}
        arrays |= {f"{i}/reports/{name}": values for name, values in draws.reports.items()}
        arrays |= {f"{i}/databases/{k}": x for k, x in enumerate(draws.databases)}
    return arrays, {"databases": [len(draws.databases) for draws in chains]}


def _read_draws(arrays: Arrays, words: Any) -> list[Draws]:
    def named(prefix: str) -> Arrays:
        return {n.removeprefix(prefix): x for n, x in arrays.items() if n.startswith(prefix)}

    return [
        Draws(
            named(f"{i}/theta/"),
            named(f"{i}/reports/"),
            [arrays[f"{i}/databases/{k}"] for k in range(count)],
        )
        for i, count in enumerate(words["databases"])
    ]
