"""Whose mistake is it? An exception from inside a user's method, told with the method's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any


@contextmanager
def named(*things: Any, when: str = "") -> Iterator[None]:
    """Turn an exception from inside a user's method into one that names the method.

    Parameters
    ----------
    *things
        The model, the mechanism, the query, the moves: objects whose methods are called inside.
    when
        What the message adds, such as " at iteration 12".
    """
    try:
        yield
    except Exception as error:
        method = _raised_in(error, things)
        if not method:
            raise
        message = f"{method} raised {type(error).__name__}{when}: {_first_words(error)}"
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def _first_words(error: Exception) -> str:
    """Return what an exception says, without the pages that a compiler's has."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3]) if lines else "(no message)"


def _raised_in(error: Exception, things: tuple[Any, ...]) -> str:
    """Return "Class.method" of the outermost method of `things` on an exception's way, or ""."""
    names: dict[CodeType, str] = {}
    for thing in things:
        for attribute, value in getattr(thing, "__dict__", {}).items():
            code = _code(value)  # a function that was handed over, such as that of a Query
            if code is not None:
                names[code] = f"{attribute} {getattr(value, '__name__', '')}".strip()
        if is_own(thing):
            for owner in reversed(type(thing).__mro__):
                for attribute, value in vars(owner).items():
                    code = _code(value)
                    if code is not None:
                        names[code] = f"{type(thing).__name__}.{attribute}"
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in names:
            return names[trace.tb_frame.f_code]
        trace = trace.tb_next
    return ""


def is_own(thing: Any) -> bool:
    """Whether an object is of a class of the user's own, and not one of this package."""
    return type(thing).__module__.partition(".")[0] != "noiseaware"


def _code(value: Any) -> CodeType | None:
    for attribute in ("__func__", "fget", "py_func"):  # static and class methods, properties, numba
        value = getattr(value, attribute, value)
    return getattr(value, "__code__", None)
