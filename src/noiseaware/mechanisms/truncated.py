"""Noise drawn until the noisy number lies in a range; `after_noise` has the derivation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from noiseaware.contract import Floats
from noiseaware.mechanisms.after_noise import AfterNoise, read_range, shown
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.mechanisms.terms import TRUNCATED, SeparableDensity
from noiseaware.registry import MECHANISMS


class Truncated(AfterNoise):
    """Noise drawn until the noisy number lies in a range.

    Not `Clamped`: there are no atoms, and the density is renormalised, by a number that depends on
    the confidential total.

    Parameters
    ----------
    mechanism
        An additive mechanism; its other steps, if any, cannot come first.
    lower, upper
        The range: numbers, or one for each value, (d,). Infinite for no end.

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5)
    >>> print(na.mechanisms.Truncated(laplace, lower=0.0, upper=100.0).guarantee)
    pure differential privacy with epsilon = 1, when one record is changed
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    in_words = "forced into a range by drawing the noise again"
    example_arguments: ClassVar[dict[str, Any]] = {
        "mechanism": Laplace.example(),
        "lower": 0.0,
        "upper": 100.0,
    }

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
        # Instead of drawing until a number falls into the range, which may take for ever, the
        # distribution function is inverted inside the range.
        total = self.query.statistic(records).sum(axis=0)
        low, high = self._ends()
        noise = self.noise
        draw = _DRAW_BETWEEN[noise.kind]
        values = total + noise.scale * draw(
            (low - total) / noise.scale, (high - total) / noise.scale, noise.scale, rng
        )
        if noise.discrete:
            values = np.rint(values)
        return np.clip(values, low, high)


# Noise of scale 1 between two numbers, by inversion. An interval above 0 is turned over first:
# near 1, a distribution function has no digits left.


def _turned(draw: Callable[..., Floats]) -> Callable[..., Floats]:
    def both_sides(a: Floats, b: Floats, scale: float, rng: np.random.Generator) -> Floats:
        over = a > 0.0
        a, b = np.where(over, -b, a), np.where(over, -a, b)
        return np.where(over, -1.0, 1.0) * draw(a, b, rng.random(len(a)))

    return both_sides


@_turned
def _laplace_between(a: Floats, b: Floats, u: Floats) -> Floats:
    # In the lower tail, relative to its upper end: exp(y - c) is uniform between exp(a - c) and 1.
    c = np.minimum(b, 0.0)
    tail = c + np.log1p(-u * -np.expm1(a - c))
    below, above = 0.5 * np.exp(a), 0.5 * np.exp(-np.maximum(b, 0.0))
    p = below + u * (1.0 - above - below)
    p = np.clip(p, 1e-300, 1.0 - 1e-16)
    across = np.where(p < 0.5, np.log(2.0 * p), -np.log(2.0 * (1.0 - p)))
    return np.where(b <= 0.0, tail, across)


@_turned
def _gaussian_between(a: Floats, b: Floats, u: Floats) -> Floats:
    log_b, log_a = log_ndtr(b), log_ndtr(a)
    # log of Phi(b) - u (Phi(b) - Phi(a)).
    return ndtri_exp(log_b + np.log1p(-u * -np.expm1(log_a - log_b)))


def _integers_between(log_mass: Callable[[Floats], Floats]) -> Callable[..., Floats]:
    def draw(a: Floats, b: Floats, scale: float, rng: np.random.Generator) -> Floats:
        reach = math.ceil(45.0 * scale)  # the mass beyond is below 1e-19
        result = np.empty(len(a))
        for j, (low, high) in enumerate(zip(np.rint(a * scale), np.rint(b * scale), strict=True)):
            top = min(max(0.0, low), high)
            k = np.arange(max(low, top - reach), min(high, top + reach) + 1.0)
            weights = np.cumsum(np.exp(log_mass(k / scale) - log_mass(np.array(top / scale))))
            place = np.searchsorted(weights, rng.random() * weights[-1], side="right")
            result[j] = k[min(int(place), len(k) - 1)] / scale
        return result

    return draw


_DRAW_BETWEEN = (
    _laplace_between,
    _gaussian_between,
    _integers_between(lambda z: -np.abs(z)),
    _integers_between(lambda z: -0.5 * z * z),
)


def _truncated_guarantee(inner: Guarantee) -> Guarantee:
    if inner.pure_epsilon is not None:
        return Guarantee("pure", epsilon=2.0 * inner.pure_epsilon, neighbours=inner.neighbours)
    reason = inner.reason or (
        "truncated Gaussian noise is renormalised by a number that depends on the confidential "
        "total, so the promise of Gaussian noise does not hold for it"
    )
    return Guarantee("unknown", neighbours=inner.neighbours, reason=reason)


MECHANISMS.add(Truncated)
