"""What the package's models share: how they draw records and how they print.

Your own model need not inherit from `ReadyModel`; see `noiseaware.contract` for what it needs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import ClosedForm, Floats, Theta
from noiseaware.maths.densities import log_gamma, log_inverse_gamma, log_normal
from noiseaware.models.arguments import check_levels, read_floats, read_integers
from noiseaware.models.conjugate import SMALLEST
from noiseaware.parameters import Innovations, Parameter

PRIORS: dict[str, tuple[str, str, Callable[[float, float, float], float]]] = {
    "normal": ("mean", "sd", log_normal),
    "gamma": ("shape", "rate", log_gamma),
    "inverse gamma": ("shape", "scale", log_inverse_gamma),
}
"""Priors of a single number v: the suffixes of its arguments v_..., and log p(v) given these."""


class ReadyModel:
    """A model that keeps each constructor argument as an attribute of the same name.

    Arrays, tuples and plain values need no more. If an attribute says more than the argument (a
    computed default, say), the model extends `to_dict`. Models with many arguments are dataclasses,
    with the check of each argument in the ``metadata`` of its field.
    """

    example: ClassVar[dict[str, Any]] = {}
    """The required arguments of a small example, for the command's lists and example files."""

    _priors: ClassVar[Mapping[str, str]] = {}
    """The prior, a key of `PRIORS`, of each parameter that is a single number."""

    parameters: tuple[Parameter, ...]
    innovations: Innovations
    build_records: Callable[..., NDArray[Any]]

    def __post_init__(self) -> None:
        for field in fields(cast(Any, self)):
            value = getattr(self, field.name)
            if "check" in field.metadata and not (value is None and field.default is None):
                setattr(self, field.name, field.metadata["check"](field.name, value))

    def _unknown(self, *parameters: Parameter) -> tuple[Parameter, ...]:
        """Return the unknown parameters: those whose attribute of the same name is None."""
        return tuple(each for each in parameters if getattr(self, each.name) is None)

    def _number(self, theta: Theta, name: str) -> float:
        """Return a parameter that is a single number, from theta or as known."""
        known: float | None = getattr(self, name)
        return float(theta[name]) if known is None else known

    @cached_property
    def _prior_arguments(self) -> dict[str, tuple[float, float]]:
        """The two prior arguments of each parameter that is a single number."""
        found = {}
        for name, kind in self._priors.items():
            first, second, _ = PRIORS[kind]
            found[name] = getattr(self, f"{name}_{first}"), getattr(self, f"{name}_{second}")
        return found

    def _draw_number(
        self, name: str, rng: Generator, more_a: Any = 0.0, more_b: Any = 0.0
    ) -> Floats:
        """Draw a number from its prior; if that is (inverse) gamma, with the given more of a, b."""
        kind, (a, b) = self._priors[name], self._prior_arguments[name]
        if kind == "normal":
            return np.array(a + b * rng.standard_normal())
        gamma = rng.standard_gamma(a + more_a)
        if kind == "inverse gamma":
            return np.array((b + more_b) / gamma)
        # A gamma variable with a small shape can round to 0; its logarithm stays finite.
        return np.array(max(gamma / (b + more_b), SMALLEST))

    def _log_density(self, name: str, theta: Theta) -> float:
        log_density = PRIORS[self._priors[name]][2]
        return log_density(float(theta[name]), *self._prior_arguments[name])

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        raise NotImplementedError

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised, over the lower triangle of a covariance."""
        raise NotImplementedError

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta) for each record, (n,)."""
        raise NotImplementedError

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        raise NotImplementedError

    def sample_records(
        self, theta: Theta, n: int, rng: Generator, **index: ArrayLike
    ) -> NDArray[Any]:
        """Draw n records from f(. | theta), as F(u; theta) of fresh innovations u."""
        return self.build_records(theta, self.innovations.draw(n, rng), **index)

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON.

        Raises ValueError for a subclass that has other arguments than the package's model.
        """
        arguments = inspect.signature(type(self)).parameters
        try:
            pairs = arguments.items()
            written = {name: _plain(getattr(self, name), a.default) for name, a in pairs}
        except AttributeError as error:
            raise ValueError(f"{type(self).__name__} cannot be written as JSON: {error}") from None
        return {"type": type(self).__name__, **written}

    def __repr__(self) -> str:
        """Write the call that makes the model, omitting arguments at their defaults."""
        try:
            written = self.to_dict()
        except ValueError:
            return f"{type(self).__name__}(...)"
        shown = [
            f"{name}={written[name]!r}"
            for name, argument in inspect.signature(type(self)).parameters.items()
            if name in written and written[name] != argument.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class Compiled(NamedTuple):
    """The compiled functions of a model, on all its records; each fills its last argument.

    `values` is the result of the model's `_read(theta)`. A function that fails returns False, which
    raises an error if a record is invalid. `recover` is given fresh uniforms in the last columns of
    `innovations`, as many as the model's `uniforms`.
    """

    build: Callable[..., bool | None]
    """(*values, innovations, records): x_i = F(u_i; theta)."""
    recover: Callable[..., bool | None] | None
    """(*values, records, innovations): u_i with F(u_i; theta) = x_i. None: defined by the model."""
    log_likelihood: Callable[..., bool | None]
    """(*values, records, out): log f(x_i | theta)."""


class CompiledModel(ReadyModel):
    """A ready model whose records are handled by compiled functions."""

    dtype: ClassVar[type] = np.float64
    """The type of the records, float64 or int64."""
    width: int | None = None
    """The number of entries of a record; None: one, and the records have shape (n,)."""
    uniforms: ClassVar[int | None] = None
    """How many uniforms are needed to recover the innovations of a record, if more than one u makes
    it. None: as many as there are innovations if these are uniform, otherwise none."""
    compiled: ClassVar[Compiled]

    _known_width: int = 0
    """The number of innovations of a record, the first, that are known and not part of u."""
    _sizes: Sequence[int] = ()
    _names: Sequence[str] = ()
    """For integer records: the number of levels of each column, and the name of each column."""

    def _read(self, theta: Theta) -> tuple[Any, ...]:
        """Return theta as the compiled functions take it."""
        raise NotImplementedError

    def _read_possible(self, theta: Theta) -> tuple[Any, ...]:
        """As `_read`, for the construction; may move values impossible under the prior inside."""
        return self._read(theta)

    def _read_records(self, records: ArrayLike) -> NDArray[Any]:
        if self.dtype is np.int64:
            return read_integers(records, self.width)
        return read_floats("records", records, self.width)

    def check_records(self, records: ArrayLike) -> None:
        array = self._read_records(records)
        if not np.isfinite(array).all():
            raise ValueError("records must be finite; got NaN or an infinite number")
        self._check(array)

    def _check(self, records: NDArray[Any]) -> None:
        """Raise ValueError unless finite records of the right type and shape are possible."""
        if self.dtype is np.int64:
            check_levels(records, self._sizes, self._names)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        array = self._read_records(records)
        out = np.empty(len(array))
        if self.compiled.log_likelihood(*self._read(theta), array, out) is False:
            self.check_records(records)
        return out

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta, by the kernel for p(theta | x) in the module docstring."""
        return self._update(theta, self._read_records(records), rng)

    def _update(self, theta: Theta, records: NDArray[Any], rng: Generator) -> Theta:
        raise NotImplementedError

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[Any]:
        """Return the records F(u_i; theta)."""
        u = read_floats("innovations", innovations, self.innovations.width)
        return self._build(theta, u, (len(u),) if self.width is None else (len(u), self.width))

    def _build(self, theta: Theta, innovations: Floats, shape: tuple[int, ...]) -> NDArray[Any]:
        records: NDArray[Any] = np.empty(shape, dtype=self.dtype)
        self.compiled.build(*self._read_possible(theta), innovations, records)
        return records

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        """Return u_i with F(u_i; theta) = x_i, drawn from p(u | x, theta) if not unique."""
        array, width = self._read_records(records), self._known_width + self.innovations.width
        innovations, uniforms = np.empty((len(array), width)), self.uniforms
        if uniforms is None:
            uniforms = width if self.innovations.kind == "uniform" else 0
        if uniforms > 0:
            innovations[:, -uniforms:] = needed(rng).random((len(array), uniforms))
        assert self.compiled.recover is not None
        if self.compiled.recover(*self._read_possible(theta), array, innovations) is False:
            self.check_records(records)
        return np.ascontiguousarray(innovations[:, self._known_width :])


class Numbers(CompiledModel):
    """A model whose parameters are single numbers with independent `_priors`."""

    _largest: Mapping[str, float] = {}
    """Values above which a parameter is treated as impossible."""

    def _given(self, events: float, exposure: float, estimate: float) -> ClosedForm:
        """Return the closed form of a rate for which `_draw_number` is exact."""
        shape, rate = self._prior_arguments["rate"]

        def draw(draws: int, rng: Generator) -> Theta:
            return {"rate": rng.standard_gamma(shape + events, size=draws) / (rate + exposure)}

        return ClosedForm({"rate": np.array(estimate)}, draw)

    def sample_prior(self, rng: Generator) -> Theta:
        return {each.name: self._draw_number(each.name, rng) for each in self.parameters}

    def log_prior(self, theta: Theta) -> float:
        for name, largest in self._largest.items():
            if float(theta[name]) > largest:
                return -math.inf
        total = 0.0
        for parameter in self.parameters:
            total += self._log_density(parameter.name, theta)
        return total


def labelled(name: str, support: str, dim: str, labels: Sequence[Any]) -> Parameter:
    """Return a parameter with one value for each label."""
    return Parameter(name, (len(labels),), support, (dim,), {dim: labels})


def needed(rng: Generator | None) -> Generator:
    """Return the generator; TypeError if there is none."""
    if rng is None:
        raise TypeError("rng must be given: more than one u makes the same record")
    return rng


def _plain(value: Any, default: Any) -> Any:
    """Return an argument in the form for JSON.

    If the default is one number, which stands for all, an array of equal numbers becomes one.
    """
    if isinstance(value, np.ndarray):
        if isinstance(default, float) and (value == value.flat[0]).all():
            return float(value.flat[0])
        return value.tolist()
    if isinstance(value, Mapping):  # columns by name
        return {name: column.tolist() for name, column in value.items()} or None
    if isinstance(value, ReadyModel):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value
