"""What the four additive-noise mechanisms share.

An additive mechanism releases T + e: T is the query summed over the records, (d,), and e has
independent coordinates with one law, and one scale or one for each. Laplace, Gaussian and their
discrete forms differ in that law, in the sensitivity that turns a promise into a scale, and in
nothing else; the rest is here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Neighbours, Query, query_abilities, total_of
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.ready import ReadyMechanism, check_values
from noiseaware.mechanisms.terms import (
    SeparableDensity,
    additive_terms,
    log_density,
)


class SeparableMechanism(ReadyMechanism):
    """A mechanism whose log density is a sum over the coordinates of T."""

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density, coordinate by coordinate, for compiled code."""
        raise NotImplementedError

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), up to a constant free of T: released values and total, (d,)."""
        return log_density(self.terms(values), total)


class AdditiveNoise(SeparableMechanism):
    """T plus independent noise; a subclass gives the law of the noise and sets the scale."""

    needed = ("scale", "query")
    noisy_totals = True

    family: ClassVar[int]
    """The code of the noise in `terms`."""
    discrete: ClassVar[bool]
    """Whether the noise is integer-valued."""
    in_words: ClassVar[str]
    """The noise, for the report."""
    spread: ClassVar[float | None]
    """Its standard deviation in units of the scale, if that is a constant."""
    calibrated: ClassVar[Callable[..., tuple[float, Guarantee]]]
    """From the query, its neighbours and a promise or a scale to the scale and the guarantee."""
    can_withhold: ClassVar[bool] = False

    scale: Any
    """One number, or one for each coordinate, (d,)."""

    @property
    def kind(self) -> int:
        """Laplace 0, Gaussian 1, discrete Laplace 2, discrete Gaussian 3."""
        return self.family + 2 * self.discrete

    @staticmethod
    def draw(scale: float, size: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the noise, (size,)."""
        raise NotImplementedError

    @staticmethod
    def log_constant(scale: Any) -> Any:
        """Return c such that noise e has log density, or log mass, phi(e) + c; for each scale."""
        raise NotImplementedError

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return what log g lacks to be normalised in s_dp."""
        return self.log_constants(np.ones(len(self.check_values(values)), dtype=bool))

    def log_constants(self, lacks: NDArray[np.bool_]) -> float:
        """Return the sum of `log_constant` over the coordinates where `lacks` (d,) is true."""
        return float(np.broadcast_to(self.log_constant(self.scale), lacks.shape)[lacks].sum())

    def _noise(self, size: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the noise, (size,), those of one scale together."""
        return drawn_by_scale(self.draw, self.scale, size, rng)

    def _calibrate(self, **given: Any) -> None:
        """Set the scale and the guarantee from one of the ways to give them.

        Noise with a scale b_j for each coordinate is that of the query T_j / b_j with the scale 1,
        so that the guarantee follows from the largest norm of (Delta T_j / b_j)_j. Where a query
        does not know it, that is at most its sensitivity over the smallest scale.
        """
        scale, query = given.get("scale"), self.query
        each = None if scale is None or np.ndim(scale) == 0 else _scales(scale, len(query.names))
        if each is not None:
            weighted = query_abilities(query).weighted
            given["scale"] = float(each.min()) if weighted is None else 1.0
            query = query if weighted is None else weighted(1.0 / each)
        found, self.guarantee = self.calibrated(query, self.neighbours, **given)
        self.scale = found if each is None else each

    def _hold_query(self, query: Query, neighbours: Neighbours) -> None:
        super()._hold_query(query, neighbours)
        check_noise_query(self, query, type(self).__name__.removeprefix("Discrete"))

    def terms(self, values: ArrayLike) -> SeparableDensity:
        return additive_terms(self.family, self.check_values(values), self.scale)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (d,).

        ValueError if their number is not the query's, one is not finite, or not an integer though
        the noise is discrete.
        """
        return check_values(values, self.query.names, integers=self.discrete)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = total_of(self.query, records)
        return total + self._noise(len(total), rng)

    def with_scale(self, scale: float) -> AdditiveNoise:
        """Return the same mechanism with noise of another scale."""
        other = copy.copy(self)
        other._calibrate(scale=scale)
        return other

    def words(self) -> list[str]:
        return [noise_words(self, self.scale, "each of these numbers")]

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        if name == "scale" and isinstance(value, list):
            return value
        return super()._read(name, value)

    # What a step after the noise asks of what is inside (`after_noise`).

    @property
    def noise(self) -> AdditiveNoise:
        """The noise itself, with no step after it."""
        return self

    def _interval(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Return the interval of the noisy numbers that is known; integers for discrete noise."""
        return (np.ceil(low), np.floor(high)) if self.discrete else (low, high)

    def _wanted(self) -> list[str]:
        """Return what is right for a value, in words."""
        return ["integers"] if self.discrete else []


def _scales(value: Any, d: int) -> Floats:
    """Return a scale for each of d coordinates, or an error that names the one that is wrong."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"scale must be a positive number, or {d} of them; got {value!r}")
    if array.shape != (d,):
        raise ValueError(
            f"scale must be one number, or one for each of the query's {d} numbers; "
            f"got shape {array.shape}"
        )
    wrong = ~((array > 0.0) & np.isfinite(array))
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(f"scale must be positive numbers; got {array[j]} in place {j}")
    return array.astype(np.float64)


def drawn_by_scale(draw: Any, scale: Any, size: int, rng: np.random.Generator) -> Floats:
    """Return the noise of `size` numbers, all of one scale drawn together."""
    if not np.ndim(scale):
        return draw(scale, size, rng)
    noise = np.empty(size)
    for one in np.unique(scale):
        mine = np.flatnonzero(scale == one)
        noise[mine] = draw(float(one), len(mine), rng)
    return noise


def is_additive(mechanism: Any) -> bool:
    """Whether this is plain additive noise, with no step after it."""
    return isinstance(mechanism, AdditiveNoise)


def check_noise_query(mechanism: Any, query: Query, instead: str) -> None:
    """ValueError if discrete noise would be added to what is no integer."""
    if mechanism.discrete and not query_abilities(query).integer_valued:
        raise ValueError(
            f"query must be integer-valued for {type(mechanism).__name__}; {type(query).__name__} "
            f"is not (use {instead})"
        )


def noise_words(law: Any, scale: Any, where: str) -> str:
    """Return the sentence that says which noise was added to what."""
    if np.ndim(scale):
        least, most = np.min(scale), np.max(scale)
        return (
            f"Random {law.in_words} was added to {where}, with a scale of its own ({least:.4g} to "
            f"{most:.4g})."
        )
    spread = "" if law.spread is None else f" (a standard deviation of {scale * law.spread:.3g})"
    return f"Random {law.in_words} with scale {scale:.4g}{spread} was added to {where}."
