"""Files that are whole or not there: written under another name, synced, then renamed.

A file of arrays is what NumPy calls npz, not compressed: any program that reads NumPy's arrays can
read it, every array has a checksum, and nothing in it is ever executed.
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
"""Of the time of a run that waiting for the disk may take: after a write that took a second, the
next comes after 50 seconds. No result depends on it."""

PART = ".part-"
"""In the name of a file that is not whole yet."""


def part_of(path: Path) -> Path:
    """Return a name to use until the file is whole; same directory, same ending, nobody else's."""
    path = path.resolve()
    return path.with_name(f".{path.stem}{PART}{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")


def write_whole(path: str | Path, write: Callable[[Path], object], *, synced: bool = True) -> None:
    """Let `write` fill a file beside `path`, then put it in its place.

    A run that dies while it writes, or a disk that is full, leaves an older file as it was. So does
    a power cut, unless it is not `synced`.
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
    """Let an OSError of the block name a path, and say how to go on once it can be written to."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror or error}; nothing that was written is lost: {how}"
        raise OSError(error.errno, why, str(path)) from error


def sync(path: Path) -> None:
    """Wait until a file, or what a folder says of its files, is on disk; a folder if it can be."""
    folder = path.is_dir()
    with suppress(OSError) if folder else nullcontext():  # not every system opens folders
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole."""
    text = json.dumps(value, indent=2) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_table(path: str | Path, frame: Any) -> None:
    """Write a pandas table as CSV, whole. A spreadsheet finds text in it, and no formulas."""

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
    """Write arrays of numbers by name, and JSON beside them, as an npz file."""
    text = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, json=text, **arrays)

    write_whole(path, write, synced=synced)


_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, OverflowError, SyntaxError)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """Return the arrays and the JSON that `write_arrays` wrote.

    ValueError if the file is damaged or no such file; no array is made that is larger than it.
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
    """Return an array of NumPy's npy format, a copy that is as long as it says."""
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
    """A checkpoint is not one, is in use, or belongs to something else."""


def agree(path: Path, what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise CheckpointError that names the first thing in which a checkpoint is of another kind."""
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
    """Let no other process work with a folder; the lock ends with the process, however it ends."""
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
