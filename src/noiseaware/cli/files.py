"""Files that a command writes: checked before the work, and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def check_output(option: str, path: Path, *inputs: Path) -> None:
    """Raise an error that says why `path` cannot be written, before anything is computed.

    Parameters
    ----------
    option
        The option that gave the path, for the message.
    path
        Where something will be written.
    inputs
        Files that are read, and must not be overwritten.
    """
    folder = path.parent
    if path.is_dir():
        raise ValueError(f"{option} must be a file; {path} is a directory")
    if not folder.is_dir():
        what = "is not a directory" if folder.exists() else "does not exist"
        raise ValueError(f"{option} cannot be written to {path}: the directory {folder} {what}")
    if path.exists():
        if not path.is_file():
            raise ValueError(f"{option} must be an ordinary file; {path} is not")
        if any(os.path.samefile(path, other) for other in inputs if other.exists()):
            raise ValueError(f"{option} would overwrite {path}, which is read")
        if not os.access(path, os.W_OK):
            raise ValueError(f"{option} cannot be written to {path}: the file is read-only")
    part = _part(path)
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise ValueError(f"{option} cannot be written to {path}: {error.strerror}") from None


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place.

    A run that dies while it writes leaves an older file as it was.
    """
    part = _part(path)
    try:
        write(part)
        os.replace(part, path.resolve())
    finally:
        part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    """Return the name that is used until the file is whole; same directory, same ending."""
    path = path.resolve()
    return path.with_name(f".{path.stem}.part-{os.getpid()}{path.suffix}")
