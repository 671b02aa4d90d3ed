"""Descriptions for files and reports: the constructor's arguments, and words.

The package's own queries and losses inherit from `Described`. Your class need not: give it
`to_dict` if it is to be written to a file, and `words` if the report should say more than the first
line of its docstring.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, ClassVar, Self

import numpy as np

from noiseaware.contract import query_abilities


class WithExample:
    """A class that can provide a small example of itself."""

    example_arguments: ClassVar[dict[str, Any]] = {}
    """The constructor's arguments for the example."""

    @classmethod
    def example(cls) -> Self:
        """Return a small example."""
        return cls(**cls.example_arguments)


class Described(WithExample):
    """An immutable object that keeps each argument of its constructor as an attribute.

    Constructors set attributes by `_hold`. Objects of one class with equal arguments are equal.
    """

    in_words: ClassVar[str] = ""
    """Its description for the report; if empty, the first line of the class's docstring."""

    def _hold(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise AttributeError(f"{name} of a {kind} cannot be changed: make another {kind}")

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON; None is left out."""
        arguments = {k: written(v) for k, v in self._arguments().items() if v is not None}
        return {"type": type(self).__name__, **arguments}

    def words(self) -> list[str]:
        """Return its description, in sentences for the report."""
        return [self.in_words or first_line(self)]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((type(self), *self._arguments().values()))

    def __repr__(self) -> str:
        """Return the constructor call, without arguments left at their defaults."""
        signature = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}"
            for name, value in self._arguments().items()
            if value != signature[name].default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Clamping(Described):
    """An object that clamps its input to bounds, and says so."""

    lower: Any
    upper: Any

    def words(self) -> list[str]:
        """Return its description, in sentences for the report."""
        return [*super().words(), clamped_words(self.lower, self.upper)]


def written(value: Any) -> Any:
    """Return a value as JSON types; infinity, which JSON lacks, becomes text."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [written(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    describe = query_abilities(value).to_dict  # a query, a loss, a mechanism inside
    return value if describe is None else describe()


def first_line(thing: Any) -> str:
    """Return the first line of the docstring of an object's class."""
    text = inspect.getdoc(type(thing)) or f"{type(thing).__name__}."
    line = text.strip().splitlines()[0].replace("`", "")
    return line if line.endswith(".") else f"{line}."


def query_words(query: Any) -> list[str]:
    """Return what was asked, in sentences: the query's words, or its class's first line."""
    words = query_abilities(query).words
    return [first_line(query)] if words is None else list(words())


def clamped_words(lower: Any, upper: Any) -> str:
    """Return the sentence about clamping."""
    low, high = bound_words(lower), bound_words(upper)
    return (
        f"For this, every value was clamped: values below {low} count as {_same(low)}, values "
        f"above {high} as {_same(high)}. This analysis takes the clamping into account."
    )


def _same(bound: str) -> str:
    return bound if " " not in bound else "that"


def bound_words(bound: Any) -> str:
    """Return a bound, or those of several columns, in words."""
    values = np.atleast_1d(np.asarray(bound, dtype=np.float64))
    shown = [f"{value:.4g}".replace("-", "−") for value in values.ravel()]
    if len(set(shown)) == 1:
        return shown[0]
    if len(shown) > 8:
        return f"its own bound ({shown[0]}, {shown[1]}, …)"
    return f"({', '.join(shown)}), column by column,"
