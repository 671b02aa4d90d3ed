"""Local mechanisms: every record is released with its own noise.

Nobody holds the database: each person privatises their own record and sends the result. The
release has n values, and value i depends on record i alone,

    g(s_dp, x) = prod_i h(s_i | x_i),        log g = sum_i log h(s_i | x_i).

This is record additive with one coordinate: t_i(x_i, s_dp) = log h(s_i | x_i), and log g is the
total T itself (`terms.LINEAR`). t_i depends on the index, because record i is compared with its own
value; hence the method `statistic(records, index, values)`. Changing a record changes one factor,
so the guarantee is that of h, and the sampler's acceptance ratio for record i is
h(s_i | x_i*) / h(s_i | x_i): the other records do not enter.

- `LocalLaplace`, `LocalGaussian`, `LocalGeometric`, `LocalDiscreteGaussian`: s_i = t(x_i) + e_i,
  with t a query of one coordinate (such as a clamped record, or `queries.Value()`) and e_i Laplace,
  Gaussian, discrete Laplace or discrete Gaussian noise, of one scale or one per record. The query's
  sensitivity under "change" is the largest |t(x) - t(x')|, and epsilon (mu for Gaussian noise) is
  sensitivity / scale, with the smallest scale if there are several.
- Y_i = t(x_i) + e_i may have been rounded, then clamped, then withheld. The published value then
  places it in an interval, and h is the probability of that interval (derived in `after_noise`).
  NaN means withheld if there is a threshold, h = P(Y_i <= threshold); without one the value was
  never asked for, and h = 1.
- `RandomizedResponse`: k levels; the true level is released with probability p, each other one
  with probability (1 - p) / (k - 1). The largest ratio of h is p (k - 1) / (1 - p) = exp(epsilon),
  so p = exp(epsilon) / (exp(epsilon) + k - 1). Any table of probabilities can be given instead.
- `RandomRounding`, `CellKey`: distributions given the true count, as tables; `LocalExact`: the
  number itself. None is differentially private, and their guarantee says so.

The release shows the number of records, so adding or removing one is not hidden: the neighbour
relation is always "change".

References
----------
Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer bias.
    JASA 60(309).
Kasiviswanathan, S. P., Lee, H. K., Nissim, K., Raskhodnikova, S. and Smith, A. (2011). What can we
    learn privately? SIAM Journal on Computing 40(3).
Kairouz, P., Oh, S. and Viswanath, P. (2016). Extremal mechanisms for local differential privacy.
    JMLR 17. (k-ary randomized response.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import refuse
from noiseaware.basics.frames import as_floats
from noiseaware.contract import Floats, Query, check_query, query_abilities
from noiseaware.mechanisms import additive, after_noise, terms
from noiseaware.mechanisms.additive import AdditiveNoise
from noiseaware.mechanisms.calibrate import gaussian_noise, laplace_noise
from noiseaware.mechanisms.intervals import log_discrete_gaussian_between
from noiseaware.mechanisms.ready import as_numbers
from noiseaware.mechanisms.terms import BETWEEN, CellLaws, SeparableDensity, formula, log_between
from noiseaware.queries import Sum, Value
from noiseaware.registry import MECHANISMS


class LocalMechanism(additive.SeparableMechanism):
    """Base class of local mechanisms; a subclass defines h and draws from it."""

    per_record: int = 1  # how many values each record has in a release
    can_withhold: bool = False

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1).

        `index`, (m,), says which records these are; `values` holds all n released values.
        """
        raise NotImplementedError

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return log g for compiled code: one coordinate, whose term is T itself."""
        parameters = np.zeros((1, terms.N_PARAMETERS))
        # The factor stands where other families have 1 / scale, and the sampler's tuning reads it
        # as such: the posterior mean of the square of dT/dtheta is the information in T.
        parameters[0, 1] = 1.0
        return SeparableDensity(np.array([terms.LINEAR]), parameters)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (n,).

        Raises ValueError unless they are one-dimensional, finite and possible under h.
        """
        array = as_numbers(as_floats(values))
        if array.ndim != 1:
            raise ValueError(
                f"values must be one number for each record, (n,); got shape {array.shape}"
            )
        if self.can_withhold:
            self._refuse("finite, or NaN where nothing was published", array, np.isinf(array))
        else:
            self._refuse("finite", array, ~np.isfinite(array))
        if self.discrete:
            wrong = ~np.isnan(array) & (array != np.floor(array))
            self._refuse(f"integers under {type(self).__name__}", array, wrong)
        return array

    def record_constants(self, values: Floats) -> Floats:
        """Return the constants that normalise each log h, (n,): 0 for a log probability."""
        return np.zeros(len(values))

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return the sum of `record_constants`."""
        return float(self.record_constants(self.check_values(values)).sum())

    @staticmethod
    def _refuse(right: str, values: Floats, wrong: NDArray[np.bool_], form: str = "") -> None:
        refuse(f"values must be {right}", values, wrong, "for record {}".format, form)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Any:
        if entries.get("neighbours", "change") != "change":
            raise ValueError(
                f"neighbours must be 'change' for {cls.__name__}, whose release shows the number "
                f"of records; got {entries['neighbours']!r}"
            )
        return super().from_dict({k: v for k, v in entries.items() if k != "neighbours"})


@njit(cache=True, nogil=True)
def noise_scores(family, parameters, statistic, scores):
    """Fill in log h(s_i | x_i), (m, 1), up to a constant, for additive noise.

    `family` and `parameters` give the formula of each record; `statistic` is t(x_i), (m, 1).
    """
    for i in range(family.shape[0]):
        p = parameters[i]
        scores[i, 0] = formula(family[i], p[0], p[1], p[2], p[3], statistic[i, 0])


@njit(cache=True, nogil=True)
def noise_tails(noise, low, high, inverse, constant, total, out):
    """Fill in log P(Y < s), log P(Y = s) and log P(Y > s), (3, n), for Y = T + e.

    s is the event that Y is between `low` and `high`; NaN means nothing was seen. `noise` is 0, 1,
    2 or 3 as in `log_between`, and `constant` its missing constant.
    """
    gap = 1.0 if noise >= 2 else 0.0  # the next whole number is another value
    for i in range(low.shape[0]):
        out[:, i] = -np.inf
        if np.isnan(low[i]) or (low[i] == -np.inf and high[i] == np.inf):
            out[1, i] = 0.0
            continue
        a, b, k, c, t = low[i], high[i], inverse[i], constant[i], total[i]
        if a > -np.inf:
            out[0, i] = log_between(noise, -np.inf, a - gap, k, t) + c
        if a < b or gap > 0.0:
            out[1, i] = log_between(noise, a, b, k, t) + c
        if b < np.inf:
            out[2, i] = log_between(noise, b + gap, np.inf, k, t) + c


class LocalNoise(LocalMechanism):
    """Additive noise on one coordinate of every record; a subclass defines the noise."""

    needed = ("scale", "query")
    optional_arguments = ("threshold", "step", "clamp", "guarantee")
    left_out = (None,)
    can_withhold = True

    law: ClassVar[type[AdditiveNoise]]  # the mechanism that adds such noise to a total
    scale: Any
    threshold: Any = None
    step: float | None = None
    clamp: tuple[float, float] | None = None

    def _hold(self, query: Query, threshold: Any, step: Any, clamp: Any) -> None:
        """Keep the query and the steps after the noise."""
        check_query(query)
        name = type(self).__name__
        if len(query.names) != 1:
            raise ValueError(
                f"query must have one coordinate for {name}, which releases one number for each "
                f"record; {type(query).__name__} has {len(query.names)}"
            )
        additive.check_noise_query(self, query, "LocalLaplace")
        self.query = query
        if threshold is not None:
            self.threshold = one_or_each("threshold", threshold)
        if step is not None:
            self.step = after_noise.read_step(step, self.discrete)
        if clamp is not None:
            low, high = (
                side if end is None else float(end)
                for end, side in zip(clamp, (-math.inf, math.inf), strict=True)
            )
            if not low < high:
                raise ValueError(f"clamp must be a lower and a higher number; got {clamp!r}")
            self.clamp = (low, high)
            if self.threshold is not None and not np.all(self.threshold < high):
                raise ValueError("threshold must be below the upper end of clamp; it is not")

    def _set_noise(self, calibrate: Any, scale: Any, **others: Any) -> None:
        """Set the scale and the guarantee, which is that of the smallest scale."""
        scales = None if scale is None else one_or_each("scale", scale, positive=True)
        least = None if scales is None else float(np.min(scales))
        found, self.guarantee = calibrate(self.query, "change", scale=least, **others)
        self.scale = found if scales is None else scales

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values, (n,), as many as scales; NaN is no value."""
        array = super().check_values(values)
        for name in ("scale", "threshold"):
            each = getattr(self, name)
            if np.ndim(each) and len(each) != len(array):
                raise ValueError(
                    f"values must be {len(each)}, as many as {name} has; got {len(array)}"
                )
        low, high = self.interval(array, slice(None))
        rules = (
            (self.threshold, "above the threshold or NaN"),
            (self.clamp, f"inside {self.clamp}"),
            (self.step, f"multiples of {self.step}"),
        )
        right = " and ".join(words for given, words in rules if given is not None)
        self._refuse(right, array, ~np.isnan(low) & (low > high))
        return array

    def interval(self, values: Floats, index: Any) -> tuple[Floats, Floats]:
        """Return the interval of noisy numbers behind each value, empty if the value is impossible.

        `index` says which records these are. A point has low = high; NaN means that nothing was
        seen. Works from the outermost step inwards, as in `after_noise`.
        """
        low = high = values
        if self.threshold is not None:
            threshold, withheld = self._each(self.threshold, index), np.isnan(values)
            low, high = after_noise.thresholded_from(low, high, withheld, threshold, self.discrete)
        if self.clamp is not None:
            low, high = after_noise.clamped_from(low, high, *self.clamp)
        if self.step is not None:
            low, high = after_noise.rounded_from(low, high, self.step, self.discrete)
        return (np.ceil(low), np.floor(high)) if self.discrete else (low, high)

    @staticmethod
    def _each(given: Any, index: Any) -> Any:
        return given[index] if np.ndim(given) else given

    def _rows(self, values: Floats, index: Any) -> tuple[NDArray[np.int64], Floats]:
        """Return the formula of log h for each of these records, for `terms.formula`."""
        low, high = self.interval(values, index)
        scale = self._each(self.scale, index)
        family, parameters = after_noise.interval_terms(self.law, low, high, scale)
        nothing = np.isnan(parameters[:, 0])
        family[nothing] = terms.GAUSSIAN
        parameters[nothing] = 0.0
        return family, parameters

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        scores = np.empty((len(index), 1))
        family, parameters = self._rows(values[index], index)
        noise_scores(family, parameters, self.query.statistic(records), scores)
        return scores

    def record_constants(self, values: Floats) -> Floats:
        """Return the missing constants, (n,), of points and of intervals of discrete noise."""
        family, parameters = self._rows(values, np.arange(len(values)))
        lacks = ((family < BETWEEN) | self.discrete) & (parameters[:, 1] > 0.0)
        return np.where(lacks, self.law.log_constant(self.scale), 0.0)

    def record_laws(self, values: Floats) -> CellLaws | None:
        """Return log h(s_i | x_i) as a function of x_i; None unless the query is the record."""
        if not query_abilities(self.query).is_value:
            return None
        family, parameters = self._rows(values, np.arange(len(values)))
        table = tails(family, parameters) if self.threshold is not None else np.zeros(0)
        return CellLaws(family, parameters, table)

    def record_tails(self, records: NDArray[Any], values: Floats) -> Floats:
        """Return log P(Y < s_i), log P(Y = s_i) and log P(Y > s_i) given x_i, (3, n)."""
        low, high = self.interval(values, slice(None))
        scale = np.broadcast_to(self.scale, len(values))
        constant = self.law.log_constant(scale) if self.discrete else np.zeros(len(values))
        total, out = self.query.statistic(records)[:, 0], np.empty((3, len(values)))
        kind = self.law.family + 2 * self.law.discrete
        noise_tails(kind, low, high, 1.0 / scale, constant, total, out)
        return out

    def noise_sds(self, n: int) -> Floats:
        """Return the standard deviation of the noise; slightly too large if it is discrete."""
        ratio = math.sqrt(2.0) if self.law.family == terms.LAPLACE else 1.0
        return np.broadcast_to(self.scale, n) * ratio

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        noise = additive.drawn_by_scale(self.law.draw, self.scale, len(records), rng)
        made = self.query.statistic(records)[:, 0] + noise
        if self.step is not None:
            made = after_noise.rounded(made, self.step)
        if self.clamp is not None:
            made = np.clip(made, *self.clamp)
        return made if self.threshold is None else np.where(made > self.threshold, made, np.nan)

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        if name == "clamp":
            return [float(end) for end in value]
        return value if isinstance(value, list) else super()._read(name, value)

    def words(self) -> list[str]:
        noise = additive.noise_words(self.law, self.scale, "every record, one by one")
        steps = (
            (self.step, f"rounded to multiples of {self.step}"),
            (self.clamp, f"clamped to {self.clamp}"),
            (self.threshold, "withheld unless they were above a threshold"),
        )
        after = ", then ".join(words for given, words in steps if given is not None)
        return [noise, f"After the noise they were {after}."] if after else [noise]


class LocalLaplace(LocalNoise):
    """Laplace noise on every record.

    Parameters
    ----------
    query
        The number asked of each record: a query of one coordinate, such as
        `queries.Sum(lower, upper)` for a clamped record, or `queries.Value()`.
    epsilon
        Pure differential privacy to reach: scale = sensitivity / epsilon.
    scale
        Alternatively, the published scale: a number, or one for each record, (n,).
    threshold
        Values up to it were withheld and are NaN in the release: a number, or one for each
        record. Without a threshold, NaN means that the value was never asked for.
    step, clamp
        Noisy numbers were rounded to multiples of `step`, then clamped to `clamp`, a pair (None for
        no bound), then withheld.

    Examples
    --------
    >>> import noiseaware as na
    >>> na.mechanisms.LocalLaplace(na.queries.Sum(0.0, 5.0), epsilon=2.0).scale
    2.5
    """

    law: ClassVar[type[AdditiveNoise]] = additive.Laplace
    example_arguments = {"query": Sum.example(), "epsilon": 2.0}

    def __init__(
        self,
        query: Query,
        epsilon: float | None = None,
        scale: Any = None,
        threshold: Any = None,
        *,
        step: float | None = None,
        clamp: Sequence[float | None] | None = None,
    ) -> None:
        self._hold(query, threshold, step, clamp)
        self._set_noise(laplace_noise, scale, epsilon=epsilon)


class LocalGeometric(LocalLaplace):
    """Discrete Laplace (two-sided geometric) noise on every record.

    P(e) is proportional to exp(-|e| / scale), for integers e.

    Parameters
    ----------
    query
        The integer asked of each record: an integer-valued query of one coordinate, such as
        `queries.Sum(0, 10, integer_valued=True)`, or `queries.Value()`.
    epsilon
        Pure differential privacy to reach: scale = sensitivity / epsilon.
    scale, threshold, step, clamp
        As for `LocalLaplace`.
    """

    law = additive.DiscreteLaplace
    discrete = True
    example_arguments = {"query": Sum(lower=0, upper=10, integer_valued=True), "epsilon": 2.0}


class LocalGaussian(LocalNoise):
    """Gaussian noise on every record.

    Give exactly one of scale, epsilon with delta, rho, mu.

    Parameters
    ----------
    query
        The number asked of each record: a query of one coordinate.
    scale
        The published standard deviation of the noise: a number, or one for each record.
    epsilon, delta
        Approximate differential privacy to reach.
    rho
        Zero-concentrated differential privacy to reach.
    mu
        Gaussian differential privacy to reach: scale = sensitivity / mu.
    threshold, step, clamp
        As for `LocalLaplace`.
    """

    law: ClassVar[type[AdditiveNoise]] = additive.Gaussian
    example_arguments = {"query": Sum.example(), "scale": 2.0}

    def __init__(
        self,
        query: Query,
        scale: Any = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        *,
        threshold: Any = None,
        step: float | None = None,
        clamp: Sequence[float | None] | None = None,
    ) -> None:
        self._hold(query, threshold, step, clamp)
        others = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
        self._set_noise(gaussian_noise, scale, discrete=self.discrete, **others)


class LocalDiscreteGaussian(LocalGaussian):
    """Integer Gaussian noise on every record.

    P(e) is proportional to exp(-e^2 / (2 scale^2)), for integers e. Give exactly one of scale,
    epsilon with delta, rho.

    Parameters
    ----------
    query
        The integer asked of each record: an integer-valued query of one coordinate, such as
        `queries.Value()`.
    scale, epsilon, delta, rho
        As for `LocalGaussian`; (epsilon, delta) is reached via zCDP.
    mu
        Not available for discrete noise; raises an error.
    threshold, step, clamp
        As for `LocalLaplace`.
    """

    law = additive.DiscreteGaussian
    discrete = True
    example_arguments = {"query": Value(), "scale": 2.0}


def one_or_each(name: str, value: Any, *, positive: bool = False) -> Any:
    """Return a float, or one float for each record, (n,); an error names the row."""
    array = as_floats(value)
    if isinstance(value, bool | str) or array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number, or one for each record; got {value!r}")
    array = array.astype(np.float64)
    if array.ndim > 1 or array.size == 0:
        raise ValueError(
            f"{name} must be one number, or one for each record, (n,); got shape {array.shape}"
        )
    wrong = ~np.isfinite(array) | (positive & (array <= 0.0))
    if wrong.any():
        right = "a positive number" if positive else "finite"
        i = int(np.argmax(wrong))
        where = f" for record {i}" if array.ndim else ""
        raise ValueError(f"{name} must be {right}; got {array.flat[i]}{where}")
    return float(array) if array.ndim == 0 else array


MOST_TAILS = 20_000_000
"""The most numbers in all tables of `tails`; beyond it, tails are summed on demand."""


def tails(family: NDArray[np.int64], parameters: Floats) -> Floats:
    """Return log P(T + e <= high) of discrete Gaussian noise, a table over high - T per scale.

    There is no closed form, and a sum for each x of each record would cost too much. The fourth
    parameter of a withheld record becomes the place of its table, plus 1; see
    `noiseaware.maths.cells.log_h`. Tables hold the integers from -38 to 9 scales.
    """
    rows = np.flatnonzero((family == BETWEEN + 3) & (parameters[:, 0] == -np.inf))
    inverses = np.unique(parameters[rows, 1])
    sizes = np.ceil(38.0 / inverses) + np.ceil(9.0 / inverses) + 1.0
    if sizes.sum() > MOST_TAILS:
        return np.zeros(0)
    tables, at = [np.zeros(0)], 0
    for inverse in inverses:
        d = np.arange(-np.ceil(38.0 / inverse), np.ceil(9.0 / inverse) + 1.0)
        logs = -0.5 * (d * inverse) ** 2
        logs[0] = log_discrete_gaussian_between(-math.inf, d[0], inverse, 0.0)
        tables.append(np.logaddexp.accumulate(logs))
        parameters[rows[parameters[rows, 1] == inverse], 3] = at + 1.0
        at += len(d)
    return np.concatenate(tables)


MECHANISMS.add(LocalLaplace, LocalGeometric, LocalGaussian, LocalDiscreteGaussian)
