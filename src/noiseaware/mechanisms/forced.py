"""Noise forced into a range: truncated by redrawing it, or folded by mirrors at the bounds.

**Truncated.** Noise is drawn until T_j + e_j lies in [lower, upper]. This renormalises the density
by a number that depends on the confidential T_j,

    log g = sum_j  log p(v_j - T_j) - log P(lower <= T_j + e_j <= upper).

The second term belongs to the likelihood and costs privacy. For Laplace noise the two terms each
move by at most epsilon between neighbours, so the promise is 2 epsilon (Holohan, Antonatos, Braghin
and Mac Aonghusa 2020 find the scale that restores epsilon). For Gaussian noise no such bound holds
for every T, and the guarantee is "unknown".

**Folded.** The noisy number Y = T + e becomes 2 lower - Y if it is below `lower`, 2 upper - Y if
above `upper`, and so on until it is inside (diffprivlib's `LaplaceFolded`, `GeometricFolded`). With
D = upper - lower, the numbers that fold to the released value v are v + 2 k D and
2 lower - v + 2 k D for every integer k. So

    g(v, T) = sum_k [ h(v + 2 k D - T) + h(2 lower - v + 2 k D - T) ],

with h(e) proportional to exp(-|e| / b). The sum has period 2 D in T and is the same at T and
2 lower - T, so T can be folded into the range first. Then a = |v - T| and c = v + T - 2 lower are
between 0 and 2 D, and both sums over k are geometric series:

    g(v, T)  is proportional to  e^(-a/b) + e^(-(2D - a)/b) + e^(-c/b) + e^(-(2D - c)/b),

with a factor 1 / (1 - e^(-2D/b)) free of T. An infinite bound leaves one mirror and two terms.
The formula also holds for integers: at a bound both series count the same numbers, a factor of 2
free of T. Bounds of discrete noise may be half-integers.

Folding is post-processing, so the guarantee is that of the noise.

Example
-------
>>> import noiseaware as na
>>> noise = na.mechanisms.Laplace(na.queries.Count(value=1), epsilon=0.5)
>>> mechanism = na.mechanisms.Folded(noise, lower=0, upper=20)
>>> release = na.Release([1.25], mechanism, n_records=20)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, total_of
from noiseaware.mechanisms.additive import Laplace, LaplaceNoise, is_additive
from noiseaware.mechanisms.after_noise import AfterNoise, read_range, shown
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.terms import FOLDED, LAPLACE, TRUNCATED, SeparableDensity, log_between
from noiseaware.registry import MECHANISMS


class Truncated(AfterNoise):
    """Noise drawn until the noisy number lies in a range.

    Unlike `Clamped` this has no atoms, and the density is renormalised by a number that depends on
    the confidential total.

    Parameters
    ----------
    mechanism
        An additive mechanism, with no step after it.
    lower, upper
        The range: numbers, or one for each value, (d,); infinite for no bound.

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5)
    >>> print(na.mechanisms.Truncated(laplace, lower=0.0, upper=100.0).guarantee)
    pure differential privacy with epsilon = 1, when one record is changed
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    in_words = "forced into a range by drawing the noise again"
    example_arguments = {"mechanism": Laplace.example(), "lower": 0.0, "upper": 100.0}

    def __init__(self, mechanism: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        super().__init__(mechanism)
        if mechanism is not self.noise:
            raise TypeError(
                "mechanism must be additive noise for Truncated, without a step before it; "
                f"got {type(mechanism).__name__}"
            )
        self.lower, self.upper = read_range(self, lower, upper)
        if self.noise.discrete:
            if np.any(np.ceil(self.lower) > np.floor(self.upper)):
                raise ValueError(
                    f"lower and upper must have an integer between them under discrete noise; "
                    f"got {lower!r} and {upper!r}"
                )
        elif np.any(self.lower == self.upper):
            raise ValueError(f"lower must be below upper; got {lower!r} and {upper!r}")
        self.guarantee = _truncated_guarantee(mechanism.guarantee)

    def _ends(self) -> tuple[Any, Any]:
        if self.noise.discrete:
            return np.ceil(self.lower), np.floor(self.upper)
        return self.lower, self.upper

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        return self._terms_in_range(TRUNCATED + self.noise.kind, values, *self._ends())

    def _wanted(self) -> list[str]:
        right = f"between {shown(self.lower)} and {shown(self.upper)} (truncated)"
        return [*self.mechanism._wanted(), right]

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = total_of(self.query, records)
        kind, inverse = self.noise.kind, 1.0 / self.scale
        each = np.broadcast_arrays(inverse, *self._ends(), total, 1.0 - rng.random(len(total)))
        return np.array([draw_between(kind, *one) for one in zip(*each, strict=True)])


@njit(cache=True, nogil=True)
def draw_between(noise, inverse, low, high, total, u):
    """Return y with P(low <= Y <= y) = u P(low <= Y <= high), for 0 < u <= 1 and Y = T + e.

    A uniform u makes y a draw of Y given that it is in the range, where redrawing might take for
    ever. Bisection ends at neighbouring floats or, for discrete noise, at the smallest integer with
    at least this probability. `noise` is an `AdditiveNoise.kind`.
    """
    goal = math.log(u) + log_between(noise, low, high, inverse, total)
    # Beyond 45 scales from the most likely number, the probability is below 1e-19.
    likeliest, reach = min(max(total, low), high), math.ceil(45.0 / inverse)
    below, above = max(low, likeliest - reach), min(high, likeliest + reach)
    discrete = noise >= 2
    if discrete:
        below -= 1.0
    while True:
        middle = 0.5 * (below + above)
        if discrete:
            middle = math.floor(middle)
        if not below < middle < above:
            return above
        if log_between(noise, low, middle, inverse, total) < goal:
            below = middle
        else:
            above = middle


def _truncated_guarantee(inner: Guarantee) -> Guarantee:
    if inner.pure_epsilon is not None:
        return Guarantee("pure", epsilon=2.0 * inner.pure_epsilon, neighbours=inner.neighbours)
    reason = inner.reason or (
        "truncated Gaussian noise is renormalised by a number that depends on the confidential "
        "total, so the promise of Gaussian noise does not hold for it"
    )
    return Guarantee("unknown", neighbours=inner.neighbours, reason=reason)


class Folded(AfterNoise):
    """Laplace noise, continuous or discrete, folded into [lower, upper].

    Parameters
    ----------
    mechanism
        A `Laplace` or a `DiscreteLaplace`.
    lower, upper
        The range of the released values; either may be infinite. For discrete noise, integers or
        half-integers.
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    in_words = "mirrored into a range"
    example_arguments = {"mechanism": Laplace.example(), "lower": 0.0}

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
        """Return the constant to add to log g: the noise's, and that of the sum over images.

        Between two mirrors, log g has only the first terms of the geometric series. An integer on a
        mirror is its own image and was counted twice.
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
    """Return the values reflected at the bounds until they are inside."""
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


MECHANISMS.add(Truncated, Folded)
