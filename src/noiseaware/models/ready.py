"""What the package's own models share: how they draw records and how they show themselves.

A model of yours does not inherit from `ReadyModel`; `noiseaware.contract` says what it needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.parameters import Innovations, Parameter


class ReadyModel:
    """A model that keeps each argument of its constructor as an attribute of the same name.

    A model whose attribute says more than was given (a default that was worked out, say) extends
    `to_dict`. Arrays, tuples and plain values need nothing.
    """

    example: ClassVar[dict[str, Any]] = {}
    """The required arguments of a small example. The lists of the command, example files."""

    parameters: tuple[Parameter, ...]
    innovations: Innovations
    build_records: Callable[..., NDArray[Any]]

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator, **index: ArrayLike
    ) -> NDArray[Any]:
        """Draw n records from f(. | theta): F(u; theta) of fresh innovations u."""
        return self.build_records(theta, self.innovations.draw(n, rng), **index)

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        arguments = inspect.signature(type(self)).parameters
        written = {name: _plain(getattr(self, name), a.default) for name, a in arguments.items()}
        return {"type": type(self).__name__, **written}

    def __repr__(self) -> str:
        """Write the call that makes the model, without the arguments left at their defaults."""
        written = self.to_dict()
        shown = [
            f"{name}={written[name]!r}"
            for name, argument in inspect.signature(type(self)).parameters.items()
            if name in written and written[name] != argument.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _plain(value: Any, default: Any) -> Any:
    """Return an argument as JSON knows it.

    An argument with one number as its default takes one number for all: if all the numbers of its
    array are equal, the one is written.
    """
    if isinstance(value, np.ndarray):
        if isinstance(default, float) and (value == value.flat[0]).all():
            return float(value.flat[0])
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
