"""What a file can name: the package's own models, queries, mechanisms, losses and sizes.

A class is registered at the end of its own file, `MODELS.add(Bernoulli)`, where `mypy` also checks
it against the protocol of its kind. The command, the file readers and the lists in the
documentation find it here. What they need to know is in the class itself: `example()` returns a
small example.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from noiseaware import contract

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """The classes of one kind, by name; `kind` is what messages call such an object."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[Kind]] = {}

    def add(self, *made: type[Kind]) -> None:
        """Add classes under their own names."""
        self._classes |= {kind.__name__: kind for kind in made}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in alphabetical order."""
        return tuple(sorted(self._classes))

    def __getitem__(self, name: str) -> type[Kind]:
        return self._classes[self.check(name)]

    def check(self, name: Any) -> str:
        """Return the name of a class, or raise ValueError with the nearest."""
        if isinstance(name, str) and name in self._classes:
            return name
        near, listed = nearest(name, self.names), ", ".join(self.names)
        if near.endswith("?"):
            raise ValueError(f"type of a {self.kind} is {name!r}{near} There are {listed}")
        raise ValueError(f"type of a {self.kind} must be one of {listed}; got {name!r}")

    def read(self, description: Any) -> Kind:
        """Construct what `to_dict` described: a `type`, and the arguments of its constructor.

        A class whose description holds more than that has its own `from_dict`.
        """
        if not isinstance(description, Mapping) or "type" not in description:
            raise ValueError(
                f'a {self.kind} must be described by a "type" and arguments; got {description!r}'
            )
        made = self[description["type"]]
        own = getattr(made, "from_dict", None)
        if own is not None:
            return own(dict(description))
        arguments = {name: value for name, value in description.items() if name != "type"}
        where = f"the arguments of the {self.kind} {made.__name__} are not right"
        for said in wrong_arguments(made, arguments):
            raise ValueError(f"{where}: {said}")
        try:
            return made(**arguments)
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from error


def wrong_arguments(made: type, given: Iterable[str], also: Iterable[str] = ()) -> list[str]:
    """Return what is wrong with the argument names for a class: unknown and missing ones.

    `also` are names allowed beside the arguments.
    """
    known = inspect.signature(made).parameters
    given = list(given)
    unknown = [name for name in given if name not in (*known, *also)]
    missing = [
        name
        for name, argument in known.items()
        if argument.default is inspect.Parameter.empty and name not in given
    ]
    return [
        *(f"unknown key {name!r} for {made.__name__}{nearest(name, [*known, *also])}"
          for name in unknown),
        *(f"{name} is missing: {made.__name__} needs it" for name in missing),
    ]  # fmt: skip


def nearest(word: Any, choices: Iterable[str]) -> str:
    """Return words that name the nearest valid choice, or all of them if none is near."""
    choices = list(choices)
    close: list[str] = []
    if isinstance(word, str):
        # Case does not count, nor does spelling with hyphens.
        plain = {choice.lower(): choice for choice in choices}
        near = difflib.get_close_matches(word.lower().replace("-", "_"), plain, n=1, cutoff=0.5)
        close = [plain[name] for name in near]
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(choices)}"


MODELS: Registry[contract.Model] = Registry("model")
QUERIES: Registry[contract.Query] = Registry("query")
MECHANISMS: Registry[contract.Mechanism] = Registry("mechanism")
LOSSES: Registry[contract.Loss] = Registry("loss")
SIZES: Registry[contract.Size] = Registry("prior for the number of records")
