"""Noise that was folded into a range: a number outside is mirrored at the bound that it passed.

The noisy number Y = T + e is replaced by 2 lower - Y if it is below `lower`, by 2 upper - Y if it
is above `upper`, and so on until it is inside (diffprivlib's `LaplaceFolded`, `GeometricFolded`).
The numbers that end at the released value v are v itself and its mirror images: with the width
D = upper - lower they are v + 2 k D and 2 lower - v + 2 k D for every integer k. So

    g(v, T) = sum_k [ h(v + 2 k D - T) + h(2 lower - v + 2 k D - T) ],

with h(e) proportional to exp(-|e| / b). The sum has a period of 2 D in T and is the same at T and
2 lower - T, so T can be folded into the range first. Then a = |v - T| and c = v + T - 2 lower are
between 0 and 2 D, and both sums over k are geometric series:

    g(v, T)  is proportional to  e^(-a/b) + e^(-(2D - a)/b) + e^(-c/b) + e^(-(2D - c)/b),

where the factor 1 / (1 - e^(-2D/b)) is free of T. With one infinite bound there is one mirror, and
two terms. For integers the same formula holds: at a bound the two series are the same numbers
counted twice, which is a factor of 2 that is free of T. Bounds may then be halves of integers.

Folding is done after the noise, so the guarantee is that of the noise.

Example
-------
>>> import noiseaware as na
>>> noise = na.mechanisms.Laplace(na.queries.Count(value=1), epsilon=0.5)
>>> mechanism = na.mechanisms.Folded(noise, lower=0, upper=20)
>>> release = na.Release([1.25], mechanism, n_records=20)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats
from noiseaware.mechanisms.additive import is_additive
from noiseaware.mechanisms.after_noise import AfterNoise
from noiseaware.mechanisms.laplace import Laplace, LaplaceNoise
from noiseaware.mechanisms.terms import FOLDED, LAPLACE, SeparableDensity
from noiseaware.registry import MECHANISMS


class Folded(AfterNoise):
    """Laplace noise, continuous or discrete, folded into [lower, upper].

    Parameters
    ----------
    mechanism
        The noise: a `Laplace` or a `DiscreteLaplace`.
    lower, upper
        The range of the released values; one of them may be infinite. Under discrete noise,
        integers or halves of integers.
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    in_words = "mirrored into a range"
    example_arguments: ClassVar[dict[str, Any]] = {"mechanism": Laplace.example(), "lower": 0.0}

    def __init__(
        self, mechanism: LaplaceNoise, lower: float = -math.inf, upper: float = math.inf
    ) -> None:
        if not is_additive(mechanism) or mechanism.family != LAPLACE:
            raise TypeError(
                f"mechanism must be a Laplace or a DiscreteLaplace; got {type(mechanism).__name__}"
            )
        super().__init__(mechanism)
        self.lower, self.upper = _bounds(lower, upper, mechanism.discrete)

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        return self._terms_in_range(FOLDED, values, self.lower, self.upper)

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return what log g lacks: the noise's constant, and what the sum over images leaves out.

        Between two mirrors, images repeat with the period; of the geometric series only the first
        terms are added up. An integer on a mirror is its own image, and was counted twice.
        """
        checked = self.check_values(values)
        constant = self.noise.log_constants(np.ones(len(checked), dtype=bool))
        period = 2.0 * (self.upper - self.lower)
        if math.isfinite(period):
            scales = np.broadcast_to(self.noise.scale, len(checked))
            constant -= float(np.log(-np.expm1(-period / scales)).sum())
        twice = (checked == self.lower) | (checked == self.upper)
        return constant - self.noise.discrete * int(twice.sum()) * math.log(2.0)

    def _wanted(self) -> list[str]:
        right = f"between {self.lower:g} and {self.upper:g}, into which they were folded"
        return [*self.mechanism._wanted(), right]

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return fold(self.mechanism.privatize(records, rng).values, self.lower, self.upper)


def fold(values: Floats, lower: float, upper: float) -> Floats:
    """Return the values, mirrored at the bounds until they are inside."""
    if math.isinf(upper):
        return values if math.isinf(lower) else lower + np.abs(values - lower)
    if math.isinf(lower):
        return upper - np.abs(values - upper)
    period = 2.0 * (upper - lower)
    place = (values - lower) % period
    return lower + np.minimum(place, period - place)


def _bounds(lower: Any, upper: Any, discrete: bool) -> tuple[float, float]:
    for name, end in (("lower", lower), ("upper", upper)):
        if isinstance(end, bool) or not isinstance(end, int | float | np.number):
            raise TypeError(f"{name} must be a number; got {end!r}")
        if discrete and math.isfinite(end) and 2 * end != math.floor(2 * end):
            raise ValueError(
                f"{name} must be an integer or half of one under discrete noise; got {end!r}"
            )
    if not lower < upper:
        raise ValueError(f"lower must be below upper; got lower={lower}, upper={upper}")
    return float(lower), float(upper)


MECHANISMS.add(Folded)
