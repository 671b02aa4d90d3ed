"""How the command ends: exit codes, and one line on stderr instead of a traceback.

| code | meaning                                                                          |
|------|----------------------------------------------------------------------------------|
| 0    | done, and the checks passed                                                      |
| 1    | done, but a check failed: the result is written, but should not be trusted       |
| 2    | the command was not understood (an unknown option, a missing argument)           |
| 3    | a file could not be read or written, or contains an impossible value             |
| 70   | a bug in noiseaware itself                                                       |
| 130  | Ctrl-C; the draws made so far have been saved                                    |

A command first reads its files and checks its options inside `with reading():`. An error there is
about the input (code 3); the same exception anywhere else is our bug (code 70). Set the environment
variable `NOISEAWARE_TRACEBACK=1` to see tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from noiseaware.basics.text_files import printable

CHECKS_FAILED = 1
BAD_INPUT = 3
FAULT = 70
INTERRUPTED = 130


class BadInput(Exception):
    """A file or an option contains an impossible value."""


@contextmanager
def reading(*kinds: type[Exception], about: object = None) -> Iterator[None]:
    """Turn errors of these `kinds` (default: all that readers raise) into `BadInput`.

    `about` is the file to name, for errors that do not name it themselves.
    """
    expected = kinds or (ValueError, TypeError, RecursionError, ArithmeticError)
    try:
        yield
    except expected as error:
        words = str(error)
        if isinstance(error, RecursionError):
            words = "the file is nested too deeply"
        elif isinstance(error, ArithmeticError):
            words = f"a number in the file is too large, or too small, to work with: {error}"
        raise BadInput(words if about is None else f"{about}: {words}") from error


class PlainErrors(TyperGroup):
    """A command group that reports each error in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an exception becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            fail(str(error) or "stopped", INTERRUPTED)
        except Exception as error:
            # typer's own ways of leaving a command are exceptions too.
            is_typers = type(error).__module__.split(".")[0] in ("typer", "click")
            if is_typers or os.environ.get("NOISEAWARE_TRACEBACK"):
                raise
            fail(*_explained(error))


def fail(message: str, code: int = BAD_INPUT) -> NoReturn:
    """Print the reason in one line on stderr and end the command."""
    print("noiseaware: " + printable(" ".join(message.split())), file=sys.stderr)
    raise typer.Exit(code)


def _explained(error: Exception) -> tuple[str, int]:
    """Return the message for an exception, and the exit code."""
    if isinstance(error, BadInput):
        return str(error), BAD_INPUT
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        if error.strerror and error.filename is not None:
            words = f"{error.filename}: {words[0].lower()}{words[1:]}"
        return words, BAD_INPUT
    if isinstance(error, MemoryError):
        words = f"there is not enough memory for this: {error or 'an array is too large'}"
        return words, BAD_INPUT
    words = f"this is a fault in noiseaware, {type(error).__name__}: {error}. "
    return f"{words}NOISEAWARE_TRACEBACK=1 shows where", FAULT
