"""What the four additive-noise mechanisms share.

An additive mechanism releases T + e: T is the query summed over the records, (d,), and e has
independent coordinates with one law and one scale. Laplace, Gaussian and their discrete forms
differ in that law, in the sensitivity that turns a promise into a scale, and in nothing else;
the rest is here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Neighbours, Query, query_abilities
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

    scale: float

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
        return len(self.check_values(values)) * float(self.log_constant(self.scale))

    def _noise(self, size: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the noise of this scale, (size,)."""
        return self.draw(self.scale, size, rng)

    def _calibrate(self, **given: float | None) -> None:
        """Set the scale and the guarantee from one of the ways to give them."""
        self.scale, self.guarantee = self.calibrated(self.query, self.neighbours, **given)

    def _hold_query(self, query: Query, neighbours: Neighbours) -> None:
        super()._hold_query(query, neighbours)
        check_noise_query(self, query, type(self).__name__.removeprefix("Discrete"))

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density, coordinate by coordinate, for compiled code."""
        return additive_terms(self.family, self.check_values(values), self.scale)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (d,).

        ValueError if their number is not the query's, one is not finite, or not an integer though
        the noise is discrete.
        """
        return check_values(values, self.query.names, integers=self.discrete)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = self.query.statistic(records).sum(axis=0)
        return total + self._noise(len(total), rng)

    def with_scale(self, scale: float) -> AdditiveNoise:
        """Return the same mechanism with noise of another scale."""
        other = copy.copy(self)
        other._calibrate(scale=scale)
        return other

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [noise_words(self, self.scale, "each of these numbers")]

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


def noise_words(law: Any, scale: float, where: str) -> str:
    """Return the sentence that says which noise was added to what."""
    spread = "" if law.spread is None else f" (a standard deviation of {scale * law.spread:.3g})"
    return f"Random {law.in_words} with scale {scale:.4g}{spread} was added to {where}."
