"""A run on disk: kill -9 costs the segment under way, or the last ten seconds if it is shorter.

A folder holds `run.json` (the release, the model and the settings), `draws-000001.npz`,
`draws-000002.npz`, ... (what all chains drew, piece by piece) and one `state-000002.npz` (where the
chains are after that piece). A chain is a pure function of its state, so a run that goes on from
there makes the same draws, bit for bit, as one that was never stopped.

The draws are written before the state that goes on from them, and the new state before the old one
is deleted, so that the folder is whole at every moment.

What a process has written outlives it, but not a power cut: for that the disk must be waited for,
which is done only as often as it costs little. The last state that was waited for stays until the
next, and is gone back to if a later one turns out to be damaged.
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
"""What was run; and what the command that runs it wants to do with the result."""


LONGEST_WAIT = 10.0
"""Seconds from a write to the first segment that is written again, at most."""

LONG = 1000
"""Letters of what an object shows of itself that are kept; of longer words there is a digest."""

MOST, MOST_CHAINS = 10**9, 10**4
"""What a file may ask for; larger numbers are damage."""


def as_json(thing: Any) -> str:
    """Return JSON of what the object says of itself, or "" for a class that cannot be written."""
    try:
        return json.dumps(thing.to_dict())
    except (AttributeError, ValueError, TypeError):
        return ""


def words_of(thing: Any) -> str:
    """Return what an object shows of itself, without addresses: they differ in the next run.

    Of an object that shows only its address, what it holds. Of long arrays and words, a digest.
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
    """Return what tells an object from others: what it says of itself in JSON, or else shows."""
    stated = as_json(thing)
    return json.loads(stated) if stated else words_of(thing)


def digest(what: Any) -> str:
    """Return a digest of what JSON can hold."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def describe(
    model: Any, release: Release, moves: Any, size: Any, random_seed: int, **numbers: int
) -> dict[str, Any]:
    """Return what a checkpoint says of its run, as JSON.

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
    """Return what a checkpoint says of its run; FileNotFoundError or CheckpointError if none."""
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
"""Where the chains are, what each drew in pieces, and the seconds that it took."""


@contextmanager
def opened(folder: str | Path, wanted: dict[str, Any]) -> Iterator[tuple[Checkpoint, int]]:
    """Begin a checkpoint in a folder, or take up the one that is there.

    With it comes the number of draws that the run was begun with. CheckpointError if what is there
    belongs to another run, has more draws than are wanted, or is in use.
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
    """The files of a run, and what is run (`describe`)."""

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
        """Return where the chains are, what they drew in pieces, and the seconds that it took.

        Chains that start are returned as they are if nothing was written yet. CheckpointError if
        the files are damaged, of another run, or hold more draws than are wanted.
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
        """Return what `read` does, by the newest state that is not damaged."""
        found = sorted(self.folder.glob("state-*.npz"))
        while found:
            self._safe = found.pop()
            try:
                return self._read(self._safe, [state.copy() for state in started])
            except CheckpointError:
                if not found:
                    raise
                # A power cut damaged it: back to an older one.
        return started, [[] for _ in started], 0.0

    def _read(self, path: Path, started: list[ChainState]) -> Read:
        """Return what `read` does, by one state that was written."""
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
        """Return what is in a file; ValueError unless it was written for what the header says."""
        arrays, words = read_arrays(path)
        if words["run"] != self._identity():
            raise ValueError(f"it was not drawn from what {HEADER} says; one of them was changed")
        return arrays, words

    def _identity(self) -> str:
        """Return a digest of the header, but for the draws, of which there may be more."""
        return digest({name: said for name, said in self.header.items() if name != "draws"})

    def note(self, states: Sequence[ChainState], drawn: Sequence[Draws], seconds: float) -> None:
        """Take note of a segment of all chains; write it if enough time has gone by."""
        before = self._pending or [[] for _ in drawn]
        pending = [[*parts, draws] for parts, draws in zip(before, drawn, strict=True)]
        # All at once: Ctrl-C may come at any line.
        self._states, self._seconds, self._pending = list(states), seconds, pending
        now = time.monotonic()
        if now >= self._next:
            self.write(synced=now >= self._next_sync)

    def write(self, synced: bool = True) -> None:
        """Write what was noted and is not in the folder yet; wait for the disk if `synced`."""
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
        # Ctrl-C may come at any line; what is then written again is written to the same files.
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
        """Wait until all that was written is on disk, and go by the last state from now on."""
        for path in self._unsynced:
            sync(path)
        sync(self.folder)
        self._unsynced, self._safe = set(), self._last or self._safe
        self._drop_older()

    def _drop_older(self) -> None:
        """Delete states before the last one, but for the last that a power cut spares."""
        for path in self.folder.glob("state-*.npz"):
            if self._last is not None and path.name < self._last.name and path != self._safe:
                path.unlink(missing_ok=True)
                self._unsynced.discard(path)

    def _piece(self, number: int) -> Path:
        return self.folder / f"draws-{number:06d}.npz"


def _pack_draws(chains: Sequence[Draws]) -> tuple[Arrays, Any]:
    """Return the arrays of all chains by name, and how many databases each has."""
    arrays: Arrays = {}
    for i, draws in enumerate(chains):
        arrays |= {f"{i}/theta/{name}": values for name, values in draws.theta.items()}
        arrays |= {f"{i}/reports/{name}": values for name, values in draws.reports.items()}
        arrays |= {f"{i}/databases/{k}": x for k, x in enumerate(draws.databases)}
    return arrays, {"databases": [len(draws.databases) for draws in chains]}


def _read_draws(arrays: Arrays, words: Any) -> list[Draws]:
    """Return the draws of each chain that were packed."""

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
