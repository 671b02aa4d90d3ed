"""A model's parameters, and the randomness behind its records.

A model lists its parameters as `Parameter` objects: name, shape, the set in which the values live
(the *support*), and labels for summaries. The sampler uses the support to work in unconstrained
coordinates; the posterior uses the dimensions and coordinates.

A model whose records can be written x_i = F(u_i; theta), with u_i from a fixed distribution,
declares that distribution with `Innovations`. If its methods do much more than simple arithmetic,
it can say so with `Work`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

__all__ = ["INNOVATION_KINDS", "SUPPORTS", "Innovations", "Parameter", "Work"]

SUPPORTS = ("real", "positive", "unit", "simplex", "table", "covariance")
INNOVATION_KINDS = ("normal", "uniform")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a model: a name, a shape, a support, and labels for the results.

    Parameters
    ----------
    name : str
        A Python identifier; the key in ``theta`` and the variable's name in the posterior.
    shape : tuple of int
        ``()`` for a scalar.
    support : str
        ``"real"``; ``"positive"``; ``"unit"``, each entry in (0, 1); ``"simplex"``, positive
        entries that sum to 1 along the last axis; ``"table"``, positive entries that sum to 1 over
        all axes; ``"covariance"``, one symmetric positive definite matrix.
    dims : tuple of str
        A name for each axis, or ``()`` to leave the axes unnamed.
    coords : mapping of str to sequence, optional
        Labels along named axes, one for each position.
    """

    name: str
    shape: tuple[int, ...] = ()
    support: str = "real"
    dims: tuple[str, ...] = ()
    coords: Mapping[str, Sequence[Any]] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"name must be a Python identifier; got {self.name!r}")
        mine, support = f"parameter {self.name!r}", self.support
        shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        if any(isinstance(size, bool) or int(size) != size or size < 1 for size in shape):
            raise ValueError(f"shape of {mine} must hold positive integers; got {self.shape!r}")
        if support not in SUPPORTS:
            right = f"support of {mine} must be one of {', '.join(SUPPORTS)}"
            raise ValueError(f"{right}; got {support!r}")
        if support in ("simplex", "table") and len(shape) == 0:
            raise ValueError(f"{mine} is a {support}, so its shape cannot be ()")
        if support == "covariance" and (len(shape) != 2 or shape[0] != shape[1]):
            raise ValueError(f"{mine} is a covariance, so its shape must be square; got {shape}")
        dims = (self.dims,) if isinstance(self.dims, str) else tuple(self.dims)
        if dims and len(dims) != len(shape):
            right = f"dims of {mine} must name each of its {len(shape)} axes"
            raise ValueError(f"{right}; got {self.dims!r}")
        if len(set(dims)) != len(dims):
            raise ValueError(f"dims of {mine} must differ from each other; got {dims}")
        coords = {name: list(labels) for name, labels in (self.coords or {}).items()}
        for name, labels in coords.items():
            if name not in dims:
                wrong = f"name {name!r}, which is not among its dims {dims}"
                raise ValueError(f"coords of {mine} {wrong}")
            size = shape[dims.index(name)]
            if len(labels) != size:
                right = f"coords of {mine} must give {size} labels for {name!r}"
                raise ValueError(f"{right}; got {len(labels)}")
        # A frozen dataclass can only be set through object.__setattr__.
        object.__setattr__(self, "shape", tuple(int(size) for size in shape))
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "coords", coords)

    @property
    def size(self) -> int:
        """Number of entries (not of free coordinates: a simplex of J entries has size J)."""
        return math.prod(self.shape)

    @property
    def labels(self) -> list[str]:
        """A name for each entry, using the labels of its axes: `coefficients[x1]`."""
        if not self.shape:
            return [self.name]
        dims = self.dims or [""] * len(self.shape)
        axes = [(self.coords or {}).get(d, range(k)) for d, k in zip(dims, self.shape, strict=True)]
        places = itertools.product(*axes)
        return [f"{self.name}[{', '.join(map(str, place))}]" for place in places]


NUMBER = "n_records"
"""The name of the number of records in a posterior, and beside theta when both move."""


class Work(NamedTuple):
    """The cost of a model's methods relative to simple arithmetic on each record.

    The unit is one plain pass over the records, such as adding them up. The sampler allocates its
    time by these numbers; the draws are exact in any case. `python -m benchmarks steps` measures
    them.

    Attributes
    ----------
    calls
        The fixed cost of building records, in calls of a compiled function.
    update, draw
        `update_parameters` and `sample_records`, in passes.
    build, recover
        `build_records` and `recover_innovations`, each including the query's total, in passes.
    """

    calls: float = 1.0
    update: float = 2.0
    draw: float = 4.0
    build: float = 1.0
    recover: float = 1.0


PLAIN_WORK = Work()


@dataclass(frozen=True)
class Innovations:
    """The distribution of u_i in x_i = F(u_i; theta).

    Parameters
    ----------
    kind : str
        ``"normal"``: independent standard normal entries; ``"uniform"``: independent uniform
        entries on [0, 1).
    width : int
        The number of entries of u_i.
    work : Work
        The cost of the model's methods, if much more than simple arithmetic.
    """

    kind: str
    width: int
    work: Work = PLAIN_WORK

    def __post_init__(self) -> None:
        if self.kind not in INNOVATION_KINDS:
            raise ValueError(
                f"kind must be one of {', '.join(INNOVATION_KINDS)}; got {self.kind!r}"
            )
        if isinstance(self.width, bool) or int(self.width) != self.width or self.width < 1:
            raise ValueError(f"width must be a positive integer; got {self.width!r}")
        if not isinstance(self.work, Work):
            raise TypeError(f"work must be a noiseaware.Work; got {self.work!r}")
        object.__setattr__(self, "width", int(self.width))

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw u for n records, (n, width)."""
        shape = (n, self.width)
        return rng.standard_normal(shape) if self.kind == "normal" else rng.random(shape)
