"""Output files of a command: checked before the work starts, and written whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from noiseaware.basics.files import part_of, write_whole
from noiseaware.basics.interrupts import held_back
from noiseaware.cli.errors import fail

NETCDF, PAGE = (".nc", ".netcdf"), (".html", ".htm")
"""The suffixes that a posterior and a report may have."""


def check_output(option: str, path: Path, *inputs: Path) -> None:
    """Raise ValueError if an option's path cannot be written or would overwrite an input."""
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
    part = part_of(path)
    try:
        part.touch()
        part.unlink()
    except OSError as error:
        raise ValueError(f"{option} cannot be written to {path}: {error.strerror}") from None


def check_ending(option: str, path: Path, endings: tuple[str, ...]) -> None:
    """Raise ValueError unless the file's suffix is one of `endings`."""
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{option} must end in {' or '.join(endings)}; got {path}")


@contextmanager
def stopping(words: str) -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM inside the block; then raise with `words` if one came."""
    from noiseaware.running.workers import terminable

    try:
        with terminable(), held_back():
            yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words) from None


def write_or_say(path: Path, write: Callable[[Path], object], kept: str = "") -> None:
    """Write a file; if that fails, write it elsewhere, say where, and end the command.

    `kept` is what to say if no place works: where the draws are.
    """
    try:
        write_whole(path, write)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        for folder in (Path.cwd(), Path(tempfile.gettempdir()), Path.home()):
            other = folder / f"noiseaware-{os.getpid()}-{path.name}"
            try:
                write_whole(other, write)
            except OSError:
                continue
            fail(f"{why}; it is in {other} instead")
        fail(f"{why}, and nowhere else either{'; ' + kept if kept else ''}")
