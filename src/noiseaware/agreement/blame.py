"""Errors from inside a user's method, reported with the method's name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any


@contextmanager
def blame(*things: Any, when: str = "") -> Iterator[None]:
    """Turn an exception from inside a user's method into one that names the method.

    `things` are the objects whose methods are called inside: the model, the mechanism, the query,
    the moves. The message includes `when`, such as " at iteration 12".
    """
    try:
        yield
    except Exception as error:
        method = _raised_in(error, things)
        if not method:
            raise
        # Only the first lines: a compiler's message runs to pages.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = " ".join(lines[:3]) if lines else "(no message)"
        message = f"{method} raised {type(error).__name__}{when}: {said}"
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def is_user_defined(thing: Any) -> bool:
    """Whether an object's class is defined outside this package."""
    return type(thing).__module__.partition(".")[0] != "noiseaware"


def _raised_in(error: Exception, things: tuple[Any, ...]) -> str:
    """Return "Class.method" of the outermost method of `things` in the traceback, or ""."""
    names: dict[CodeType, str] = {}
    for thing in things:
        own = vars(thing) if "__dict__" in dir(thing) else {}
        for attribute, value in own.items():
            function = _function(value)  # one that was handed over, such as that of a Query
            if function is not None:
                names[function.__code__] = f"{attribute} {function.__name__}"
        for owner in reversed(type(thing).__mro__) if is_user_defined(thing) else ():
            for attribute, value in vars(owner).items():
                function = _function(value)
                if function is not None:
                    names[function.__code__] = f"{type(thing).__name__}.{attribute}"
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in names:
            return names[trace.tb_frame.f_code]
        trace = trace.tb_next
    return ""


def _function(value: Any) -> Any:
    """Return the Python function inside a method, property or compiled function, or None."""
    for attribute in ("__func__", "fget", "py_func"):
        value = getattr(value, attribute, value)
    return value if inspect.isfunction(value) else None
