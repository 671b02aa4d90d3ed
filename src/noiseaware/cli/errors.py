"""How the command ends: exit codes, and one line on stderr instead of a traceback.

| code | meaning                                                                          |
|------|----------------------------------------------------------------------------------|
| 0    | done, and the checks passed                                                      |
| 1    | done, but a check failed: the result is there, and should not be used as it is   |
| 2    | the command was not understood (an unknown option, a missing argument)           |
| 3    | a file could not be read or written, or says something that cannot be            |
| 70   | a fault in noiseaware itself                                                     |
| 130  | Ctrl-C; what was drawn until then has been saved                                 |

With the environment variable `NOISEAWARE_TRACEBACK=1` errors are shown in full.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

CHECKS_FAILED = 1
BAD_INPUT = 3
FAULT = 70
INTERRUPTED = 130


class PlainErrors(TyperGroup):
    """A group of commands whose errors are one line each."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what the library raises becomes a line and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            fail(str(error) or "stopped", INTERRUPTED)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            if os.environ.get("NOISEAWARE_TRACEBACK"):
                raise
            fail(_words(error), BAD_INPUT)
        except MemoryError as error:
            if os.environ.get("NOISEAWARE_TRACEBACK"):
                raise
            fail(f"there is not enough memory for this: {error or 'an array is too large'}")
        except Exception as error:
            # typer's own ways of leaving a command are exceptions too.
            if _is_typers(error) or os.environ.get("NOISEAWARE_TRACEBACK"):
                raise
            fail(
                f"this is a fault in noiseaware, {type(error).__name__}: {error}. "
                "NOISEAWARE_TRACEBACK=1 shows where",
                FAULT,
            )


def fail(message: str, code: int = BAD_INPUT) -> NoReturn:
    """Say why in one line on stderr, and end the command."""
    print("noiseaware: " + " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return error.strerror
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    if isinstance(error, RecursionError):
        return "the file is nested too deeply"
    return str(error)


def _is_typers(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("typer", "click")
