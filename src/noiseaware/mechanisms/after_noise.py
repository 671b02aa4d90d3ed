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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.mechanisms.additive import AdditiveNoise, check_values, records_to_release
from noiseaware.mechanisms.calibrate import positive
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.terms import (
    N_PARAMETERS,
    Terms,
    additive_terms,
    between_code,
    log_density,
    truncated_code,
)
from noiseaware.queries import QueryLike

if TYPE_CHECKING:
    from noiseaware.release import Release

Floats = NDArray[np.float64]


class AfterNoise:
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

    arguments: ClassVar[tuple[str, ...]]
    """The names of the step's own arguments, as in the constructor and in a file."""

    mechanism: Any
    noise: AdditiveNoise
    query: QueryLike
    guarantee: Guarantee

    def __init__(self, mechanism: Any) -> None:
        name = type(self).__name__
        if isinstance(mechanism, Step):
            self.noise = mechanism.noise
        elif isinstance(mechanism, AdditiveNoise):
            self.noise = mechanism
        else:
            shown = type(mechanism).__name__ if hasattr(mechanism, "query") else repr(mechanism)
            raise TypeError(
                f"mechanism must be Laplace, Gaussian, DiscreteLaplace or DiscreteGaussian for "
                f"{name}, or one of them clamped, thresholded or rounded; got {shown}"
            )
        self.mechanism = mechanism
        self.query = self.noise.query
        self.scale = self.noise.scale
        self.neighbours = self.noise.neighbours

    # Shared by all steps.

    def _wanted(self) -> list[str]:
        """Return what is right for a value, in words."""
        raise NotImplementedError

    def _terms(self, values: Floats) -> tuple[Terms, NDArray[np.bool_]]:
        """Return the terms, and which of the values can be a release at all, (d,)."""
        raise NotImplementedError

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

    @property
    def can_withhold(self) -> bool:
        """Whether one of the steps withholds values."""
        return isinstance(self, Thresholded) or getattr(self.mechanism, "can_withhold", False)

    def terms(self, values: ArrayLike) -> Terms:
        """Return the log density, coordinate by coordinate, for compiled code."""
        return self._terms(self.check_values(values))[0]

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T.

        Parameters
        ----------
        values
            s_dp, the released values, (d,); NaN for a withheld one.
        total
            T, the query summed over the records, (d,).
        """
        return log_density(self.terms(values), total)

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records. For simulation only."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the step with its mechanism, ready for JSON; an infinite bound is left out."""
        entries: dict[str, Any] = {"type": type(self).__name__}
        for name in self.arguments:
            written = _written(getattr(self, name))
            if written is not None:
                entries[name] = written
        return entries | {"mechanism": self.mechanism.to_dict()}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> AfterNoise:
        """Read back what `to_dict` wrote."""
        # `from_dict` of the package knows all mechanisms, this one among them.
        from noiseaware.mechanisms import from_dict

        known = ("type", *cls.arguments, "mechanism")
        foreign = sorted(set(entries) - set(known))
        if foreign:
            raise ValueError(f"{cls.__name__} may have {', '.join(known)}; got {foreign[0]!r}")
        needed = (*(name for name in cls.arguments if name in cls.required), "mechanism")
        missing = [name for name in needed if name not in entries]
        if missing:
            raise ValueError(
                f"{cls.__name__} must have {', '.join(needed)}; {missing[0]!r} is missing"
            )
        arguments = {name: _read(entries[name]) for name in cls.arguments if name in entries}
        return cls(from_dict(entries["mechanism"]), **arguments)

    required: ClassVar[tuple[str, ...]] = ()
    """The arguments that a file must have."""

    def __repr__(self) -> str:
        shown = "".join(f", {name}={_written(getattr(self, name))!r}" for name in self.arguments)
        return f"{type(self).__name__}({self.mechanism!r}{shown})"


class Step(AfterNoise):
    """A step that reads only the noisy numbers: post-processing."""

    def __init__(self, mechanism: Any) -> None:
        super().__init__(mechanism)
        self.guarantee = mechanism.guarantee

    def _apply(self, values: Floats) -> Floats:
        """Apply this step alone to the numbers that `mechanism` made, (d,)."""
        raise NotImplementedError

    def _pull(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the interval of this step's input for which its output is in [low, high].

        Both (d,); an interval with low > high is empty.
        """
        raise NotImplementedError

    def _interval(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the interval of the noisy numbers Y that gives each value; low = high is a point.

        From the outermost step inwards. A withheld value is not seen by the steps outside of
        `Thresholded`, which takes it for everything up to the threshold.
        """
        low, high = values.copy(), values.copy()
        withheld = np.isnan(values)
        step: Any = self
        while isinstance(step, Step):
            if isinstance(step, Thresholded):
                pulled_low, pulled_high = step._pull(low, high)
                low = np.where(withheld, -np.inf, pulled_low)
                high = np.where(withheld, step.threshold, pulled_high)
            else:
                low, high = step._pull(low, high)
            step = step.mechanism
        if self.noise.discrete:
            low, high = np.ceil(low), np.floor(high)
        return low, high

    def _terms(self, values: Floats) -> tuple[Terms, NDArray[np.bool_]]:
        low, high = self._interval(values)
        noise = self.noise
        family, parameters = additive_terms(noise.family, low, noise.scale)
        between = low < high
        # int32 is the sign for compiled code that some formulas are the longer ones.
        family = np.where(between, between_code(noise.family, noise.discrete), family)
        parameters[:, 2] = np.where(between, high, 0.0)
        return Terms(family.astype(np.int32), parameters), low <= high

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records, all steps included. For simulation only."""
        from noiseaware.release import Release

        made = self.mechanism.privatize(records, rng)
        return Release(self._apply(np.array(made.values)), self, made.n_records)


class Clamped(Step):
    """Noisy numbers moved to the nearest end of a range if they are outside.

    The ends are atoms: a published `lower` says that the noisy number was at most `lower`. A
    library that returns counts as unsigned integers clamps at 0.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
    lower, upper
        The range: numbers, or one for each value, (d,). Infinite for no end.

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    >>> clamped = na.mechanisms.Clamped(laplace, lower=0.0)
    >>> round(clamped.log_density(values=[0.0], total=[3.0]), 4)  # log P(3 + noise <= 0)
    -2.1931
    """

    arguments = ("lower", "upper")

    def __init__(self, mechanism: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        super().__init__(mechanism)
        self.lower, self.upper = _range(self, lower, upper)

    def _apply(self, values: Floats) -> Floats:
        return np.clip(values, self.lower, self.upper)  # NaN stays NaN

    def _pull(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        empty = (high < self.lower) | (low > self.upper)
        low = np.where(low <= self.lower, -np.inf, low)
        high = np.where(high >= self.upper, np.inf, high)
        return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)

    def _wanted(self) -> list[str]:
        shown = f"between {_shown(self.lower)} and {_shown(self.upper)} (clamped)"
        inner = " and ".join(_wanted(self.mechanism))
        return [f"{shown}, and inside {inner}" if inner else shown]


class Thresholded(Step):
    """Noisy numbers withheld unless they are above a threshold.

    A withheld value is NaN in `values` (null in a file). It is information: the noisy number was
    at most the threshold. A library that also publishes a number equal to the threshold has, for
    integers, the threshold less 1; for continuous noise it makes no difference.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
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

    arguments = required = ("threshold",)

    def __init__(self, mechanism: Any, threshold: Any) -> None:
        super().__init__(mechanism)
        if getattr(mechanism, "can_withhold", False):
            raise ValueError("mechanism must not be thresholded twice; give the higher threshold")
        self.threshold = _bound(self, "threshold", threshold)
        if not np.isfinite(self.threshold).all():
            raise ValueError(f"threshold must be finite; got {threshold!r}")

    def _apply(self, values: Floats) -> Floats:
        return np.where(values > self.threshold, values, np.nan)

    def _pull(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        if self.noise.discrete:
            return np.maximum(low, np.floor(self.threshold) + 1.0), high
        empty = high <= self.threshold
        return np.where(empty, np.inf, np.maximum(low, self.threshold)), high

    def _wanted(self) -> list[str]:
        shown = f"above the threshold {_shown(self.threshold)} or withheld (NaN)"
        return [*_wanted(self.mechanism), shown]


class Rounded(Step):
    """Noisy numbers rounded to the nearest multiple of a step.

    An integer half way between two multiples goes to the even one, as in Python and NumPy: with
    step 10, 5 becomes 0 and 15 becomes 20. It matters for discrete noise only.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
    step
        A positive number; an integer for discrete noise.
    """

    arguments = required = ("step",)

    def __init__(self, mechanism: Any, step: float) -> None:
        super().__init__(mechanism)
        self.step = positive("step", step)
        if self.noise.discrete and self.step != math.floor(self.step):
            raise ValueError(f"step must be an integer under discrete noise; got {step!r}")

    def _apply(self, values: Floats) -> Floats:
        return np.rint(values / self.step) * self.step + 0.0  # not -0.0

    def _pull(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        first, last = low / self.step, high / self.step
        first, last = np.ceil(first - _rounding(first)), np.floor(last + _rounding(last))
        empty = first > last
        low, high = (first - 0.5) * self.step, (last + 0.5) * self.step
        if self.noise.discrete:
            # A tie belongs to the even multiple: the cells of odd ones are open at both ends.
            low = np.where(_odd(first), np.floor(low) + 1.0, np.ceil(low))
            high = np.where(_odd(last), np.ceil(high) - 1.0, np.floor(high))
        return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)

    def _wanted(self) -> list[str]:
        inner = _wanted(self.mechanism)
        return [*(w for w in inner if w != "integers"), f"multiples of {self.step:g} (rounded)"]


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

    arguments = ("lower", "upper")

    def __init__(self, mechanism: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        super().__init__(mechanism)
        if mechanism is not self.noise:
            raise TypeError(
                "mechanism must be additive noise for Truncated, without a step before it; "
                f"got {type(mechanism).__name__}"
            )
        self.lower, self.upper = _range(self, lower, upper)
        if self.noise.discrete:
            if np.any(np.ceil(self.lower) > np.floor(self.upper)):
                raise ValueError(
                    f"lower and upper must have an integer between them under discrete noise; "
                    f"got {lower!r} and {upper!r}"
                )
        elif np.any(self.lower == self.upper):
            raise ValueError(f"lower must be below upper; got {lower!r} and {upper!r}")
        self.guarantee = _truncated_guarantee(mechanism.guarantee)

    def _ends(self, d: int) -> tuple[Floats, Floats]:
        low, high = np.full(d, self.lower), np.full(d, self.upper)
        return (np.ceil(low), np.floor(high)) if self.noise.discrete else (low, high)

    def _terms(self, values: Floats) -> tuple[Terms, NDArray[np.bool_]]:
        noise = self.noise
        low, high = self._ends(len(values))
        code = truncated_code(noise.family, noise.discrete)
        family, parameters = additive_terms(code, values, noise.scale)
        parameters[:, 2], parameters[:, 3] = low, high
        possible = (values >= low) & (values <= high)
        if noise.discrete:
            possible &= values == np.floor(values)
        assert parameters.shape[1] == N_PARAMETERS
        return Terms(family.astype(np.int32), parameters), possible

    def _wanted(self) -> list[str]:
        shown = f"between {_shown(self.lower)} and {_shown(self.upper)} (truncated)"
        return [*_wanted(self.mechanism), shown]

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records. For simulation only.

        Instead of drawing until a number falls into the range, which may take for ever, the
        distribution function is inverted inside the range.
        """
        from noiseaware.release import Release

        records = records_to_release(self.query, records, rng)
        total = self.query.statistic(records).sum(axis=0)
        low, high = self._ends(len(total))
        noise = self.noise
        draw = _DRAW_BETWEEN[noise.family + 2 * noise.discrete]
        values = total + noise.scale * draw(
            (low - total) / noise.scale, (high - total) / noise.scale, noise.scale, rng
        )
        if noise.discrete:
            values = np.rint(values)
        return Release(np.clip(values, low, high), self, len(records))


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
    from scipy.special import log_ndtr, ndtri_exp

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


def _wanted(mechanism: Any) -> list[str]:
    if isinstance(mechanism, AfterNoise):
        return mechanism._wanted()
    return ["integers"] if mechanism.discrete else []


def _rounding(multiple: Floats) -> Floats:
    """Return how far from an integer v / step may be: multiples of 0.1 are not exact floats."""
    return 1e-9 + 4e-16 * np.where(np.isfinite(multiple), np.abs(multiple), 0.0)


def _odd(multiple: Floats) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # infinity is neither
        return np.remainder(multiple, 2.0) == 1.0


def _bound(step: AfterNoise, name: str, value: Any) -> Any:
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


def _range(step: AfterNoise, lower: Any, upper: Any) -> tuple[Any, Any]:
    low, high = _bound(step, "lower", lower), _bound(step, "upper", upper)
    if not np.all(np.asarray(low) <= high) or np.any(np.isposinf(low) | np.isneginf(high)):
        raise ValueError(f"lower must be at most upper; got {lower!r} and {upper!r}")
    return low, high


def _shown(bound: Any) -> str:
    if isinstance(bound, float):
        return f"{bound:g}"
    return f"its own ({bound.min():g} to {bound.max():g})"


def _written(bound: Any) -> Any:
    """Return a bound as JSON knows it: infinity as text, or None if it is the only one."""
    if isinstance(bound, float):
        return bound if math.isfinite(bound) else None
    return [b if math.isfinite(b) else str(b) for b in bound.tolist()]


def _read(bound: Any) -> Any:
    """Turn "inf" and "-inf" in a list back into numbers; other text is left to be refused."""
    if isinstance(bound, list):
        return [float(b) if b in ("inf", "-inf") else _refuse_text(b) for b in bound]
    return bound


def _refuse_text(bound: Any) -> Any:
    if isinstance(bound, str):
        raise TypeError(f"a bound must be a number; got {bound!r}")
    return bound
