"""Atomic files: written under another name, synced, then renamed.

A file of arrays is an uncompressed NumPy npz file: any program that reads NumPy's arrays can read
it, every array has a checksum, and reading it never executes code.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware._version import __version__

SHARE = 0.02
"""The share of a run's time that may go to waiting for the disk: after a write that took a second,
the next comes after 50 seconds. No result depends on it."""

PART = ".part-"
"""Marks the name of an unfinished file."""


def part_of(path: Path) -> Path:
    """Return a unique temporary name for a file, in the same directory and with the same ending."""
    path = path.resolve()
    return path.with_name(f".{path.stem}{PART}{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")


def write_whole(path: str | Path, write: Callable[[Path], object], *, synced: bool = True) -> None:
    """Let `write` fill a file beside `path`, then move it into place.

    If the run dies while writing, or the disk is full, an older file is left intact; if `synced`,
    also in a power cut.
    """
    path = Path(path)
    part = part_of(path)
    try:
        write(part)
        if synced:
            sync(part)
        os.replace(part, path.resolve())
    finally:
        part.unlink(missing_ok=True)
    if synced:
        sync(part.parent)


@contextmanager
def going_on(path: Path, how: str) -> Iterator[None]:
    """Let an OSError in the block name a path, and say how to continue once it is writable."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}; nothing that was written is lost: {how}"
        raise OSError(error.errno, why, str(path)) from error


def sync(path: Path) -> None:
    """Wait until a file is on disk, or a folder's entries if the system can do that."""
    folder = path.is_dir()
    with suppress(OSError) if folder else nullcontext():  # not every system opens folders
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    text = json.dumps(value, indent=2) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_table(path: str | Path, frame: Any) -> None:
    """Write a pandas table as CSV, atomically. Text that looks like a formula is escaped."""

    def safe(entry: Any) -> Any:
        begins = isinstance(entry, str) and entry.startswith(("=", "+", "-", "@", "\t", "\r"))
        return f"'{entry}" if begins else entry

    text = frame.rename(columns=safe)
    for name in text.columns[[kind.kind == "O" for kind in text.dtypes]]:
        text[name] = text[name].map(safe)
    write_whole(path, lambda part: text.to_csv(part, index=False))


def write_arrays(
    path: Path, arrays: Mapping[str, np.ndarray], words: Any, *, synced: bool = True
) -> None:
    """Write named arrays of numbers, with JSON beside them, as an npz file."""
    text = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, json=text, **arrays)

    write_whole(path, write, synced=synced)


_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, OverflowError, SyntaxError)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """Return the arrays and the JSON that `write_arrays` wrote.

    ValueError if the file is damaged or of another kind. No array larger than the file is made.
    """
    try:
        with zipfile.ZipFile(path) as stored:
            members = stored.infolist()
            size = sum(member.file_size for member in members)
            if size > path.stat().st_size or any(m.compress_type for m in members):
                raise ValueError("it says that it is larger than it is")
            arrays = {m.filename.removesuffix(".npy"): _array(stored.read(m)) for m in members}
        words = json.loads(arrays.pop("json").tobytes())
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged, or no file of arrays: {error}") from None
    return arrays, words


def _array(data: bytes) -> np.ndarray:
    """Return a copy of an array in NumPy's npy format, after checking its length."""
    file = io.BytesIO(data)
    form = np.lib.format
    version = form.read_magic(file)
    read = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"an array has the unknown version {version}")
    shape, fortran, dtype = read[version](file)
    count = prod(shape)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("an array holds something other than numbers")
    if count * dtype.itemsize != len(data) - file.tell():
        raise ValueError("an array is not as long as it says")
    flat = np.frombuffer(data, dtype=dtype, count=count, offset=file.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


class CheckpointError(ValueError):
    """A checkpoint is invalid, in use, or belongs to something else."""


def agree(path: Path, what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise CheckpointError naming the first respect in which a checkpoint differs."""
    for name in sorted(set(found) | set(wanted)):
        if found.get(name) != wanted.get(name):
            raise CheckpointError(
                f"{path} belongs to another {what}: its {name} is {_short(found.get(name))}, "
                f"and here it is {_short(wanted.get(name))}. Take another directory"
            )


def same_version(path: Path | str, written_by: Any) -> None:
    """Raise CheckpointError unless this version of noiseaware wrote a checkpoint."""
    if written_by != __version__:
        raise CheckpointError(
            f"{path} was written by noiseaware {written_by or 'before 0.2'}, and this is "
            f"{__version__}: only the same version makes the same draws"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system; the files are whole all the same
        yield
        return
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(f"{folder} is in use by another process") from None
        for part in folder.glob(f".*{PART}*"):  # of a process that was killed
            with suppress(OSError):
                part.unlink()
        yield
