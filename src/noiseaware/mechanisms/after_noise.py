"""What was done to the numbers after the noise: clamped, withheld, rounded, truncated.

A release is often changed once more before it is published. The noisy numbers are
Y_j = T_j + e_j, with one of the four additive mechanisms; what is seen is made from Y_j. A
likelihood that takes the published number for Y_j is wrong.

**Clamped, thresholded, rounded.** The published v is a nondecreasing function of Y_j, so to see v
is to know that Y_j is one number, or that it lies in an interval A:

| step          | published v            | what is known of Y_j                    |
|---------------|------------------------|-----------------------------------------|
| `Clamped`     | lower < v < upper      | Y = v                                   |
|               | v = lower              | Y <= lower (an atom, not a density)     |
|               | v = upper              | Y >= upper                              |
| `Thresholded` | v > threshold          | Y = v                                   |
|               | withheld (NaN)         | Y <= threshold                          |
| `Rounded`     | v = m step             | abs(Y - m step) <= step / 2             |

Given T, the probability of v is therefore P(T_j + e_j in A) for an interval, a sum for discrete
noise, and the density of the noise at v - T_j for a point. The two kinds meet in one release, and
that is no difficulty: whether v is an atom does not depend on T, so densities with respect to
"length plus atoms" have the right ratios for every T. These steps read nothing but Y, so they keep
the promise of the mechanism (differential privacy is closed under post-processing: Dwork and Roth
2014, proposition 2.1). They may be put on one another, and are applied from the inside out:
`Clamped(Rounded(Laplace(...), 5), lower=0)` is rounded first; A is found from the outside in.

**Truncated** is different: noise is drawn until T_j + e_j lies in [lower, upper], so that the
density is renormalised by a number that depends on the confidential T_j,

    log g = sum_j  log p(v_j - T_j) - log P(lower <= T_j + e_j <= upper).

The second part belongs to the likelihood, and it costs privacy: for Laplace noise each of the two
parts moves by at most epsilon between neighbours, so 2 epsilon is promised (Holohan, Antonatos,
Braghin and Mac Aonghusa 2020 find the scale that brings it back to epsilon). For Gaussian noise
nothing of the kind holds for every T, and the guarantee is "unknown".

References
----------
Dwork, C. and Roth, A. (2014). The algorithmic foundations of differential privacy. Foundations
    and Trends in Theoretical Computer Science 9(3-4).
Holohan, N., Antonatos, S., Braghin, S. and Mac Aonghusa, P. (2020). The bounded Laplace mechanism
    in differential privacy. Journal of Privacy and Confidentiality 10(1).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.described import bound_words
from noiseaware.mechanisms.additive import AdditiveNoise, SeparableMechanism, is_additive
from noiseaware.mechanisms.ready import check_values, mechanism_words
from noiseaware.mechanisms.terms import (
    ExtendedDensity,
    SeparableDensity,
    additive_terms,
    between_code,
)

Floats = NDArray[np.float64]


class AfterNoise(SeparableMechanism):
    """A step after the noise of `mechanism`; a subclass says which.

    Attributes
    ----------
    mechanism
        What made the numbers that the step was applied to.
    noise
        The additive mechanism at the bottom of all steps.
    query, scale, neighbours
        Those of `noise`.
    guarantee
        What is still promised after the step.
    """

    noisy_totals = True

    arguments: ClassVar[tuple[str, ...]]
    """The names of the step's own arguments, as in the constructor and in a file."""
    in_words: ClassVar[str]
    """What was done to the numbers: "they were ..."."""

    mechanism: Any
    noise: AdditiveNoise

    def __init__(self, mechanism: Any) -> None:
        if not (is_additive(mechanism) or isinstance(mechanism, Step)):
            raise TypeError(
                f"mechanism must be Laplace, Gaussian, DiscreteLaplace or DiscreteGaussian for "
                f"{type(self).__name__}, or one of them clamped, thresholded or rounded; "
                f"got {mechanism!r}"
            )
        self.mechanism, self.noise = mechanism, mechanism.noise
        self.query = self.noise.query
        self.scale = self.noise.scale
        self.neighbours = self.noise.neighbours
        self.guarantee = mechanism.guarantee

    def _wanted(self) -> list[str]:
        """Return what is right for a value, in words."""
        raise NotImplementedError

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        """Return the density, and which of the values can be a release at all, (d,)."""
        raise NotImplementedError

    @property
    def can_withhold(self) -> bool:
        """Whether one of the steps withholds values."""
        return self.mechanism.can_withhold

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (d,); NaN is a withheld value.

        Raises
        ------
        ValueError
            If their number is not the query's, or one of them cannot come out of these steps.
        """
        names = self.query.names
        array = check_values(values, names, integers=False, withheld=self.can_withhold)
        _, possible = self._terms(array)
        bad = np.flatnonzero(~possible)
        if bad.size:
            where = f"got {array[bad[0]]:g} for {names[bad[0]]!r}"
            raise ValueError(f"values must be {' and '.join(self._wanted())}; {where}")
        return array

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density, coordinate by coordinate, for compiled code."""
        return self._terms(self.check_values(values))[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the step with its mechanism, ready for JSON; an infinite bound is left out."""
        return {
            name: entry for name, entry in super().to_dict().items() if entry not in ("inf", "-inf")
        }

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        """Read an entry of a file: in a list of bounds, "inf" is infinity."""
        if isinstance(value, list):
            return [float(b) if b in ("inf", "-inf") else _refuse_text(b) for b in value]
        return super()._read(name, value)

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        bounds = {name: getattr(self, name) for name in self.arguments}
        numbers = [
            f"{name} {bound_words(bound)}"
            for name, bound in bounds.items()
            if isinstance(bound, float) and math.isfinite(bound)
        ]
        step = ", ".join([type(self).__name__, *numbers])
        return [
            *mechanism_words(self.mechanism),
            f"After the noise they were {self.in_words}: {step}. This analysis takes that into "
            "account.",
        ]


class Step(AfterNoise):
    """A step that reads only the noisy numbers: post-processing."""

    def _apply(self, values: Floats) -> Floats:
        """Apply this step alone to the numbers that `mechanism` made, (d,)."""
        raise NotImplementedError

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Return the interval of this step's input for which its output is in [low, high].

        All (d,); an interval with low > high is empty. Which values were withheld is for the step
        that withholds.
        """
        raise NotImplementedError

    def _interval(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Return the interval of the noisy numbers Y that gives each value; low = high is a point.

        From the outermost step inwards.
        """
        low, high = self._pull(low, high, withheld)
        return self.mechanism._interval(low, high, withheld)

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        low, high = self._interval(values.copy(), values.copy(), np.isnan(values))
        noise = self.noise
        family, parameters = additive_terms(noise.family, low, noise.scale)
        between = low < high
        family = np.where(between, between_code(noise.family, noise.discrete), family)
        parameters[:, 2] = np.where(between, high, 0.0)
        return ExtendedDensity(family, parameters), low <= high

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return self._apply(np.array(self.mechanism.privatize(records, rng).values))


def read_bound(step: AfterNoise, name: str, value: Any) -> Any:
    """Return a bound as a float or as floats (d,), or an error that names the argument."""
    d = len(step.query.names)
    if isinstance(value, bool | str):
        raise TypeError(f"{name} must be a number, or one for each value; got {value!r}")
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, or one for each value; got {value!r}") from None
    if array.shape not in ((), (d,)):
        raise ValueError(f"{name} must be one number or {d}; got shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name} must not be NaN; got {value!r}")
    return float(array) if array.ndim == 0 else array


def read_range(step: AfterNoise, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return both ends of a range, lower not above upper."""
    low, high = read_bound(step, "lower", lower), read_bound(step, "upper", upper)
    if not np.all(np.asarray(low) <= high) or np.any(np.isposinf(low) | np.isneginf(high)):
        raise ValueError(f"lower must be at most upper; got {lower!r} and {upper!r}")
    return low, high


def shown(bound: Any) -> str:
    """Return a bound for a message."""
    if isinstance(bound, float):
        return f"{bound:g}"
    return f"its own ({bound.min():g} to {bound.max():g})"


def _refuse_text(bound: Any) -> Any:
    if isinstance(bound, str):
        raise TypeError(f"a bound must be a number; got {bound!r}")
    return bound
