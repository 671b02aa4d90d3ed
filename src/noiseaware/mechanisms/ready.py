"""The base class of the package's own mechanisms: files, words and simulated releases.

Your own mechanism need not inherit from `ReadyMechanism`; see `noiseaware.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive, refuse
from noiseaware.basics.described import WithExample, first_line, written
from noiseaware.basics.frames import as_array
from noiseaware.contract import (
    Floats,
    Neighbours,
    Query,
    check_query,
    mechanism_abilities,
    query_abilities,
)
from noiseaware.mechanisms.guarantee import Guarantee, check_neighbours, confirmed
from noiseaware.registry import LOSSES, MECHANISMS, QUERIES
from noiseaware.release import Release

_INSIDE = {"query": QUERIES.read, "loss": LOSSES.read, "mechanism": MECHANISMS.read}
"""Fields of a file that hold a nested description, with the function that reads it."""

Ready = TypeVar("Ready", bound="ReadyMechanism")


class ReadyMechanism(WithExample):
    """Base class; each of `needed` and `optional_arguments` must also be an attribute."""

    needed: ClassVar[tuple[str, ...]]
    """Constructor arguments that a file must have."""
    optional_arguments: ClassVar[tuple[str, ...]] = ("neighbours", "guarantee")
    """Those that it may have; the guarantee is no argument but is checked against the scale."""
    left_out: ClassVar[tuple[Any, ...]] = ()
    """Entries omitted from files because they carry no information."""
    noisy_totals: ClassVar[bool] = False
    discrete: bool = False  # whether the released values are integers

    query: Any
    neighbours: Neighbours = "change"
    guarantee: Guarantee

    def _hold_query(self, query: Query, neighbours: Neighbours) -> None:
        check_query(query)
        check_neighbours(neighbours)
        self.query, self.neighbours = query, neighbours

    def check_values(self, values: Any) -> Floats:
        """Return the released values as a new float64 array (d,).

        Raises ValueError unless they are as many as the query's names, finite and, for discrete
        noise, integers.
        """
        return check_values(values, tuple(self.query.names), integers=self.discrete)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        """Simulate the released values."""
        raise NotImplementedError

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of confidential records (the first axis) with noise from `rng`.

        For simulation only: floating-point noise from an ordinary random generator is open to
        known attacks (Mironov 2012). To protect real people, use a vetted library such as OpenDP.
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(
                "rng must be a numpy.random.Generator, such as numpy.random.default_rng(1); "
                f"got {rng!r}"
            )
        records = as_array(records, self.query)
        check = query_abilities(self.query).check_records
        if check is not None:
            check(records)
        n = len(records) or None  # a model of an unknown number of records may have none
        return Release(self._draw(records, rng), self, n)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; `noiseaware.mechanisms.from_dict` reads it back.

        Raises ValueError if the query or the loss cannot be written to a file, as functions cannot.
        """
        names = sorted((*self.needed, *self.optional_arguments), key=lambda name: name in _INSIDE)
        entries = {name: self._written(name) for name in names}
        kept = {name: entry for name, entry in entries.items() if entry not in self.left_out}
        return {"type": type(self).__name__, **kept}

    def _written(self, name: str) -> Any:
        value = getattr(self, name)
        if name in _INSIDE and query_abilities(value).to_dict is None:
            raise ValueError(
                f"a {type(self).__name__} with the {name} {type(value).__name__} cannot be written "
                f"to a file: {type(value).__name__} has no to_dict"
            )
        return written(value)

    @classmethod
    def from_dict(cls: type[Ready], entries: Mapping[str, Any]) -> Ready:
        """Read what `to_dict` wrote. The scale is read, never recomputed.

        A guarantee in `entries` that promises more than the scale and the query's sensitivity give
        is an error.
        """
        for name in cls.needed:
            if name not in entries:
                right = f"{cls.__name__} must have {', '.join(cls.needed)}"
                raise ValueError(f"{right}; {name!r} is missing{_scale_hint(entries)}")
        known = ("type", *cls.needed, *cls.optional_arguments)
        foreign = sorted(set(entries) - set(known))
        if foreign:
            right = f"{cls.__name__} may have {', '.join(known)}"
            raise ValueError(f"{right}; got {foreign[0]!r}{_scale_hint(foreign)}")
        given = {name: value for name, value in entries.items() if name != "type"}
        stated = given.pop("guarantee", None)
        mechanism = cls._made({name: cls._read(name, value) for name, value in given.items()})
        if "guarantee" in entries:
            mechanism.guarantee = confirmed(mechanism.guarantee, Guarantee.from_dict(stated))
        return mechanism

    @classmethod
    def _made(cls: type[Ready], arguments: dict[str, Any]) -> Ready:
        return cls(**arguments)

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        """Return a constructor argument from its entry in a file."""
        if name == "scale":
            return positive("scale", value)
        return _INSIDE[name](value) if name in _INSIDE else value

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [f"{type(self).__name__}: {first_line(self)}"]

    def __repr__(self) -> str:
        """Write the call that makes it, with its actual scale."""
        names = [name for name in (*self.needed, *self.optional_arguments) if name != "guarantee"]
        values = {name: getattr(self, name) for name in names}
        shown = [repr(value) for name, value in values.items() if name in _INSIDE]
        shown += [
            f"{name}={_shown(value)}"
            for name, value in values.items()
            if not (name in _INSIDE or value is None or (name, value) == ("neighbours", "change"))
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    """Return an argument for `repr`; long arrays as their length."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= 8 else f"<{len(value)}>"
    return repr(value)


def mechanism_words(mechanism: Any) -> list[str]:
    """Return the mechanism's own words, or else its first docstring line."""
    words = mechanism_abilities(mechanism).words
    name = type(mechanism).__name__
    return [f"{name}: {first_line(mechanism)}"] if words is None else list(words())


def _scale_hint(fields: Iterable[str]) -> str:
    """Return a hint to write the scale instead of a promise, which does not determine it."""
    promises = [name for name in ("epsilon", "delta", "rho", "mu") if name in fields]
    if not promises:
        return ""
    return (
        f". A file states the scale of the noise and not {promises[0]}: for Laplace noise it is "
        "the query's l1 sensitivity / epsilon"
    )


def log_normaliser(mechanism: Any, values: ArrayLike) -> float:
    """Return the constant that normalises a mechanism's log density; TypeError if unknown.

    Your own mechanism with a normalised log density needs a method `log_normaliser` returning 0.
    """
    known = mechanism_abilities(mechanism).log_normaliser
    if known is None:
        raise TypeError(
            "the evidence needs a mechanism with log_normaliser(values), what its log_density "
            f"lacks to be normalised over all releases; {type(mechanism).__name__} has none"
        )
    return float(known(values))


def check_values(
    values: ArrayLike, names: tuple[str, ...], integers: bool, withheld: bool = False
) -> Floats:
    """Return `values` as a new float64 array (d,); a ValueError names the bad coordinate.

    With `withheld`, NaN is allowed: a value that was not published.
    """
    array = as_numbers(values)
    if array.ndim == 0:
        array = array[np.newaxis]
    if array.ndim != 1 or len(array) != len(names):
        got = f"{len(array)}" if array.ndim == 1 else f"an array of shape {array.shape}"
        shown = [*names[:3], "...", names[-1]] if len(names) > 5 else names
        raise ValueError(
            f"values must be {len(names)} numbers, one for each name of the query "
            f"({', '.join(shown)}); got {got}"
        )
    where = named(names)

    def hinted(j: int) -> str:
        hint = " (a withheld value needs Thresholded)"
        return where(j) + (hint if np.isnan(array[j]) else "")

    wrong = np.isinf(array) if withheld else ~np.isfinite(array)
    refuse("values must be finite", array, wrong, hinted)
    if integers:
        wrong = array != np.floor(array)
        refuse("values must be integers under discrete noise", array, wrong, where)
    return array


def named(names: Sequence[str]) -> Callable[[int], str]:
    """Return the function that tells `refuse` the name of a value."""
    return lambda j: f"for {names[j]!r}"


def as_numbers(values: ArrayLike, right: str = "values must be numbers") -> Floats:
    """Return `values` as a new float64 array; a TypeError says what would be `right`."""
    try:
        # NumPy would read the text "1" as a number and drop an imaginary part.
        if np.asarray(values).dtype.kind not in "biufO":
            raise TypeError
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{right}; got {values!r}") from None
