"""Checks of arguments, for the whole package."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MOST = {
    "n_features": 1_000,
    "n_columns": 1_000,
    "n_parts": 100_000,
    "n_classes": 1_000_000,
    "n_groups": 1_000_000,
    "n_levels": 10_000_000,
    "n_records": 10**12,
    "replicates": 1_000_000,
}
"""The largest values that a file may ask for: more would not fit into any memory."""


def refuse(
    right: str, values: Any, wrong: Any, where: Callable[[int], str], form: str = ""
) -> None:
    """Raise ValueError saying what is `right`, with the first value that is `wrong` and where.

    `where` describes its position; `form` is the number's format.
    """
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"{right}; got {values.flat[i]:{form}} {where(i)}")


def as_labels(name: str, labels: Any, count: int) -> tuple[str, ...]:
    """Return `count` different names."""
    listed = np.iterable(labels) and not isinstance(labels, str)
    if not listed or not all(isinstance(label, str) and label for label in labels):
        raise TypeError(f"{name} must be a list of texts; got {labels!r}")
    if len(labels) != count or len(set(labels)) != count:
        raise ValueError(f"{name} must be {count} different texts; got {list(labels)!r}")
    return tuple(labels)


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; the error names the argument.

    Floats, even whole ones, and booleans are refused: they are more often mistakes than meant.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        words = {0: "zero or a positive integer", 1: "a positive integer"}
        wanted = words.get(least, f"an integer of at least {least}")
        raise ValueError(f"{name} must be {wanted}; got {value!r}")
    if value > MOST.get(name, value):
        raise ValueError(f"{name} must be at most {MOST[name]}; got a larger number")
    return int(value)


def seed_number(random_seed: Any) -> int | None:
    """Return a checked seed; None stays None."""
    return None if random_seed is None else whole_number("random_seed", random_seed, 0)


def check_memory(what: str, size: int) -> None:
    """Raise MemoryError, before anything is allocated, if `size` bytes exceed the free memory."""
    free = _free_memory()
    if size > free:
        raise MemoryError(f"{what} take {size / 2**30:.3g} GiB; free are {free / 2**30:.3g} GiB")


def _free_memory() -> float:
    """Return the bytes that a process can still get, including swap; infinity if unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            said = dict(line.split(":") for line in file)
        return 1024.0 * sum(int(said[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def positive(name: str, value: Any) -> float:
    """Return `value` as a float, or an error that names the argument."""
    number = _number(name, value, "a positive number")
    if not (number > 0.0 and math.isfinite(number)):
        raise ValueError(f"{name} must be a positive number; got {value}")
    return number


def probability(name: str, value: Any) -> float:
    """Return `value` as a float strictly between 0 and 1, or an error that names the argument."""
    number = _number(name, value, "a number between 0 and 1")
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1; got {value}")
    return number


def _number(name: str, value: Any, wanted: str) -> float:
    # float() would accept an array of one number; booleans and strings are never meant as one.
    if isinstance(value, bool | str | np.ndarray):
        raise TypeError(f"{name} must be {wanted}; got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {wanted}; got {value!r}") from None


def function_name(function: Any) -> str:
    """Return the name of a user's function for messages."""
    return getattr(function, "__name__", type(function).__name__)


def variable_names(variables: Sequence[str] | None, number: int) -> tuple[str, ...]:
    """Return the given names of a table's variables, or variable1, variable2, ..."""
    if variables is None:
        return tuple(f"variable{k}" for k in range(1, number + 1))
    names = () if isinstance(variables, str) else tuple(variables)
    fit = all(isinstance(name, str) and name.isidentifier() for name in names)
    if not fit or not len(names) == len(set(names)) == number:
        right = f"variables must be {number} different names, each a Python identifier"
        raise ValueError(f"{right}; got {variables!r}")
    return names
