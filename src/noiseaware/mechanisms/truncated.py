"""Noise drawn until the noisy number lies in a range; `after_noise` has the derivation."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from noiseaware.contract import Floats, total_of
from noiseaware.mechanisms.after_noise import AfterNoise, read_range, shown
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.mechanisms.terms import TRUNCATED, SeparableDensity, log_between
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
        total = total_of(self.query, records)
        kind, inverse = self.noise.kind, 1.0 / self.scale
        each = np.broadcast_arrays(inverse, *self._ends(), total, 1.0 - rng.random(len(total)))
        values = [draw_between(kind, *one) for one in zip(*each, strict=True)]
        return np.array(values)


@njit(cache=True, nogil=True)
def draw_between(noise, inverse, low, high, total, u):
    """Return y with P(low <= Y <= y) = u P(low <= Y <= high), for 0 < u <= 1 and Y = T + e.

    With a uniform u this is Y, given that it is in the range; drawing until it is there may take
    for ever. By bisection, down to neighbouring numbers; for discrete noise, to the least integer
    with a probability that is not below. `noise` is an `AdditiveNoise.kind`.
    """
    goal = math.log(u) + log_between(noise, low, high, inverse, total)
    # Beyond 45 scale from the likeliest number, the probability is below 1e-19.
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


MECHANISMS.add(Truncated)
