"""Post-processing of noisy numbers: clamped, withheld, rounded.

Noisy numbers Y_j = T_j + e_j, from any of the four additive mechanisms, are often changed again
before publication. A likelihood that treats the published number as Y_j is then wrong.

The published v is a nondecreasing function of Y_j, so v either determines Y_j or places it in an
interval A:

| step          | published v            | what v says about Y_j                   |
|---------------|------------------------|-----------------------------------------|
| `Clamped`     | lower < v < upper      | Y = v                                   |
|               | v = lower              | Y <= lower (an atom, not a density)     |
|               | v = upper              | Y >= upper                              |
| `Thresholded` | v > threshold          | Y = v                                   |
|               | withheld (NaN)         | Y <= threshold                          |
| `Rounded`     | v = m step             | abs(Y - m step) <= step / 2             |

Given T, the likelihood of v is P(T_j + e_j in A) for an interval (a sum for discrete noise), and
the noise density at v - T_j for a point. One release may mix the two: whether v is an atom does
not depend on T, so densities with respect to "length plus atoms" have the right ratios for every T.

These steps use only Y, so the mechanism's promise still holds (differential privacy is closed under
post-processing: Dwork and Roth 2014, proposition 2.1). Steps can be nested and apply from the
inside out: `Clamped(Rounded(Laplace(...), 5), lower=0)` rounds first. A is found from the outside
in.

Forcing noise into a range is different, because its probability depends on T (`forced`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive, refuse
from noiseaware.basics.described import bound_words
from noiseaware.contract import Floats
from noiseaware.mechanisms.additive import AdditiveNoise, Laplace, SeparableMechanism, is_additive
from noiseaware.mechanisms.ready import as_numbers, check_values, mechanism_words, named
from noiseaware.mechanisms.terms import (
    BETWEEN,
    FOLDED,
    TRUNCATED,
    ExtendedDensity,
    SeparableDensity,
    additive_terms,
)
from noiseaware.registry import MECHANISMS


class AfterNoise(SeparableMechanism):
    """Base class of what happens to noisy numbers; keeps the query and scale of the noise."""

    noisy_totals = True
    left_out = ("inf", "-inf")

    in_words: ClassVar[str]  # what was done to the numbers: "they were ..."
    mechanism: Any  # what made the numbers that the step was applied to
    noise: AdditiveNoise  # the additive mechanism at the bottom of all steps

    def __init__(self, mechanism: Any) -> None:
        if not (is_additive(mechanism) or isinstance(mechanism, Step)):
            raise TypeError(
                f"mechanism must be Laplace, Gaussian, DiscreteLaplace or DiscreteGaussian for "
                f"{type(self).__name__}, or one of them clamped, thresholded or rounded; "
                f"got {mechanism!r}"
            )
        self.mechanism, self.noise = mechanism, mechanism.noise
        self.query, self.scale = self.noise.query, self.noise.scale
        self.neighbours, self.guarantee = self.noise.neighbours, mechanism.guarantee

    def _wanted(self) -> list[str]:
        """Return in words what a value must be."""
        raise NotImplementedError

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        """Return the density, and which values are possible, (d,)."""
        raise NotImplementedError

    def _terms_in_range(
        self, code: int, values: Floats, low: Any, high: Any
    ) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        """Return the same for numbers in [low, high], by a formula that uses both ends."""
        family, parameters = additive_terms(code, values, self.scale)
        parameters[:, 2], parameters[:, 3] = low, high
        possible = (values >= low) & (values <= high)
        if self.noise.discrete:
            possible &= values == np.floor(values)
        return ExtendedDensity(family, parameters), possible

    @property
    def can_withhold(self) -> bool:
        """Whether any step withholds values."""
        return self.mechanism.can_withhold

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (d,); NaN is a withheld value.

        Raises ValueError if their number differs from the query's, or a value is impossible.
        """
        names = self.query.names
        array = check_values(values, names, integers=False, withheld=self.can_withhold)
        right = f"values must be {' and '.join(self._wanted())}"
        refuse(right, array, ~self._terms(array)[1], named(names), "g")
        return array

    def terms(self, values: ArrayLike) -> SeparableDensity:
        return self._terms(self.check_values(values))[0]

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return the sum of the noise's constants over the values whose formula omits it.

        These are points; intervals of discrete noise, whose sums are not normalised; and truncated
        values of continuous noise (for discrete noise the constants cancel in the ratio).
        """
        family = self.terms(values).family
        points, truncated = family < BETWEEN, (family >= TRUNCATED) & (family < FOLDED)
        lacks = ~truncated if self.noise.discrete else points | truncated
        return self.noise.log_constants(lacks)

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        """Read a file entry; in a list of bounds, "inf" is infinity."""
        if isinstance(value, list):
            return [float(b) if b in ("inf", "-inf") else b for b in value]
        return super()._read(name, value)

    def words(self) -> list[str]:
        step = type(self).__name__
        for name in (*self.needed, *self.optional_arguments):
            bound = getattr(self, name)
            if isinstance(bound, float) and math.isfinite(bound):
                step += f", {name} {bound_words(bound)}"
        after = f"After the noise they were {self.in_words}: {step}."
        return [*mechanism_words(self.mechanism), f"{after} This analysis takes that into account."]


class Step(AfterNoise):
    """Post-processing: a step that uses only the noisy numbers."""

    def _apply(self, values: Floats) -> Floats:
        """Apply this step alone to the output of `mechanism`, (d,)."""
        raise NotImplementedError

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Return the interval of inputs that this step maps into [low, high]; all (d,).

        Intervals with low > high are empty. Only `Thresholded` uses `withheld`.
        """
        raise NotImplementedError

    def _interval(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        """Return the interval of noisy numbers Y behind each value; low = high is a point.

        Works from the outermost step inwards.
        """
        low, high = self._pull(low, high, withheld)
        return self.mechanism._interval(low, high, withheld)

    def _terms(self, values: Floats) -> tuple[SeparableDensity, NDArray[np.bool_]]:
        low, high = self._interval(values.copy(), values.copy(), np.isnan(values))
        terms = interval_terms(self.noise, low, high, self.scale)
        return ExtendedDensity(*terms), low <= high

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return self._apply(np.array(self.mechanism.privatize(records, rng).values))


class Clamped(Step):
    """Noisy numbers clamped to a range.

    The ends are atoms: a published `lower` means that the noisy number was at most `lower`. A
    library that returns counts as unsigned integers clamps at 0.

    Parameters
    ----------
    mechanism
        An additive mechanism, or another step.
    lower, upper
        The range: numbers, or one for each value, (d,); infinite for no bound.

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    >>> clamped = na.mechanisms.Clamped(laplace, lower=0.0)
    >>> round(clamped.log_density(values=[0.0], total=[3.0]), 4)  # log P(3 + noise <= 0)
    -2.1931
    """

    needed, optional_arguments = ("mechanism",), ("lower", "upper")
    in_words = "clamped to a range"
    example_arguments = {"mechanism": Laplace.example(), "lower": 0.0}

    def __init__(self, mechanism: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        super().__init__(mechanism)
        self.lower, self.upper = read_range(self, lower, upper)

    def _apply(self, values: Floats) -> Floats:
        return np.clip(values, self.lower, self.upper)  # NaN stays NaN

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        return clamped_from(low, high, self.lower, self.upper)

    def _wanted(self) -> list[str]:
        right = f"between {shown(self.lower)} and {shown(self.upper)} (clamped)"
        inner = " and ".join(self.mechanism._wanted())
        return [f"{right}, and inside {inner}" if inner else right]


class Thresholded(Step):
    """Noisy numbers withheld unless they are above a threshold.

    A withheld value is NaN in `values` (null in a file). It is informative: the noisy number was at
    most the threshold. If a library also publishes numbers equal to its threshold, subtract 1 from
    the threshold of integers; for continuous noise it makes no difference.

    Parameters
    ----------
    mechanism
        An additive mechanism, or another step.
    threshold
        A number, or one for each value, (d,).

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    >>> thresholded = na.mechanisms.Thresholded(laplace, threshold=10.0)
    >>> round(thresholded.log_density(values=[float("nan")], total=[3.0]), 4)
    -0.0152
    """

    needed, optional_arguments = ("threshold", "mechanism"), ()
    in_words = "withheld where they were below a threshold"
    can_withhold = True
    example_arguments = {"mechanism": Laplace.example(), "threshold": 5.0}

    def __init__(self, mechanism: Any, threshold: Any) -> None:
        super().__init__(mechanism)
        if mechanism.can_withhold:
            raise ValueError("mechanism must not be thresholded twice; give the higher threshold")
        self.threshold = read_bound(self, "threshold", threshold)
        if not np.isfinite(self.threshold).all():
            raise ValueError(f"threshold must be finite; got {threshold!r}")

    def _apply(self, values: Floats) -> Floats:
        return np.where(values > self.threshold, values, np.nan)

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        return thresholded_from(low, high, withheld, self.threshold, self.noise.discrete)

    def _wanted(self) -> list[str]:
        right = f"above the threshold {shown(self.threshold)} or withheld (NaN)"
        return [*self.mechanism._wanted(), right]


class Rounded(Step):
    """Noisy numbers rounded to the nearest multiple of a step.

    Ties go to the even multiple, as in Python and NumPy: with step 10, 5 becomes 0 and 15 becomes
    20. This matters only for discrete noise.

    Parameters
    ----------
    mechanism
        An additive mechanism, or another step.
    step
        A positive number; an integer for discrete noise.
    """

    needed, optional_arguments = ("step", "mechanism"), ()
    in_words = "rounded"
    example_arguments = {"mechanism": Laplace.example(), "step": 5.0}

    def __init__(self, mechanism: Any, step: float) -> None:
        super().__init__(mechanism)
        self.step = read_step(step, self.noise.discrete)

    def _apply(self, values: Floats) -> Floats:
        return rounded(values, self.step)

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        return rounded_from(low, high, self.step, self.noise.discrete)

    def _wanted(self) -> list[str]:
        inner = self.mechanism._wanted()
        return [*(w for w in inner if w != "integers"), f"multiples of {self.step:g} (rounded)"]


def interval_terms(noise: Any, low: Floats, high: Floats, scale: Any) -> SeparableDensity:
    """Return the formulas for noisy numbers known to be in [low, high]; low = high is a point.

    `noise` is an additive mechanism or its class.
    """
    found, between = additive_terms(noise.family, low, scale), low < high
    found.family[between] = BETWEEN + noise.family + 2 * noise.discrete
    found.parameters[between, 2] = high[between]
    return found


def read_step(step: Any, discrete: bool) -> float:
    """Return the rounding step, checked."""
    number = positive("step", step)
    if discrete and number != math.floor(number):
        raise ValueError(f"step must be an integer under discrete noise; got {step!r}")
    return number


def clamped_from(low: Floats, high: Floats, lower: Any, upper: Any) -> tuple[Floats, Floats]:
    """Return the interval that is clamped into [low, high]; empty if its low > high."""
    empty = (high < lower) | (low > upper)
    low, high = np.where(low <= lower, -np.inf, low), np.where(high >= upper, np.inf, high)
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)


def thresholded_from(
    low: Floats, high: Floats, withheld: NDArray[np.bool_], threshold: Any, discrete: bool
) -> tuple[Floats, Floats]:
    """Return the interval that is published in [low, high]; up to the threshold if withheld.

    Outer steps leave withheld values alone.
    """
    if discrete:
        above = np.maximum(low, np.floor(threshold) + 1.0)
    else:
        above = np.where(high <= threshold, np.inf, np.maximum(low, threshold))
    return np.where(withheld, -np.inf, above), np.where(withheld, threshold, high)


def rounded(values: Floats, step: float) -> Floats:
    """Return the nearest multiples of a step; ties go to the even one."""
    return np.rint(values / step) * step + 0.0  # not -0.0


def rounded_from(low: Floats, high: Floats, step: float, discrete: bool) -> tuple[Floats, Floats]:
    """Return the interval that is rounded into [low, high]."""
    first, last = low / step, high / step
    first, last = np.ceil(first - _rounding(first)), np.floor(last + _rounding(last))
    empty = first > last
    low, high = (first - 0.5) * step, (last + 0.5) * step
    if discrete:
        # Ties go to the even multiple, so intervals of odd ones are open at both ends.
        low = np.where(_odd(first), np.floor(low) + 1.0, np.ceil(low))
        high = np.where(_odd(last), np.ceil(high) - 1.0, np.floor(high))
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)


def _rounding(multiple: Floats) -> Floats:
    """Return how far v / step may be from an integer: multiples of 0.1 are not exact floats."""
    return 1e-9 + 4e-16 * np.where(np.isfinite(multiple), np.abs(multiple), 0.0)


def _odd(multiple: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # infinity is neither
        return np.remainder(multiple, 2.0) == 1.0


def read_bound(step: AfterNoise, name: str, value: Any) -> Any:
    """Return a bound as a float or as floats (d,); errors name the argument."""
    d, right = len(step.query.names), f"{name} must be a number, or one for each value"
    if isinstance(value, bool):
        raise TypeError(f"{right}; got {value!r}")
    array = as_numbers(value, right)
    if array.shape not in ((), (d,)):
        raise ValueError(f"{name} must be one number or {d}; got shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{name} must not be NaN; got {value!r}")
    return float(array) if array.ndim == 0 else array


def read_range(step: AfterNoise, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return both ends of a range; ValueError unless lower <= upper."""
    low, high = read_bound(step, "lower", lower), read_bound(step, "upper", upper)
    if not np.all(np.asarray(low) <= high) or np.any(np.isposinf(low) | np.isneginf(high)):
        raise ValueError(f"lower must be at most upper; got {lower!r} and {upper!r}")
    return low, high


def shown(bound: Any) -> str:
    """Return a bound for a message."""
    if isinstance(bound, float):
        return f"{bound:g}"
    return f"its own ({bound.min():g} to {bound.max():g})"


MECHANISMS.add(Clamped, Thresholded, Rounded)
