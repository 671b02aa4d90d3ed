"""What the package's own models share: how they draw records and how they show themselves.

A model of yours does not inherit from `ReadyModel`; `noiseaware.contract` says what it needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.parameters import Innovations


class ReadyModel:
    """A model that keeps each argument of its constructor as an attribute of the same name."""

    innovations: Innovations

    def build_records(
        self, theta: Mapping[str, Any], innovations: ArrayLike, **index: ArrayLike
    ) -> NDArray[Any]:
        """Return the records F(u_i; theta)."""
        raise NotImplementedError

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator, **index: ArrayLike
    ) -> NDArray[Any]:
        """Draw n records from f(. | theta)."""
        return self.build_records(theta, self.innovations.draw(n, rng), **index)

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        names = inspect.signature(type(self)).parameters
        return {
            "type": type(self).__name__,
            **{name: _plain(getattr(self, name)) for name in names},
        }

    def __repr__(self) -> str:
        """Write the call that makes the model, without the arguments left at their defaults."""
        given = self.to_dict()
        arguments = inspect.signature(type(self)).parameters
        shown = [
            f"{name}={given[name]!r}"
            for name, argument in arguments.items()
            if argument.default is inspect.Parameter.empty or given[name] != argument.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, ReadyModel):
        return value.to_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
