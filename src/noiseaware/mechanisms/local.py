"""Local mechanisms: every record is released with its own noise.

Here nobody holds the database: each person makes their own record private and sends that. The
release has n values, and value i depends on record i alone,

    g(s_dp, x) = prod_i h(s_i | x_i),        log g = sum_i log h(s_i | x_i).

This is record additive with one coordinate: t_i(x_i, s_dp) = log h(s_i | x_i), and log g is the
total T itself (`terms.LINEAR`). t_i depends on the index, because record i is compared with its own
value; this is why a mechanism may have `statistic(records, index, values)`. Changing a record
changes one factor, so the guarantee is that of h, and the sampler's acceptance ratio for record i
is h(s_i | x_i*) / h(s_i | x_i): the other records do not enter.

- `LocalLaplace`, `LocalGaussian`, `LocalGeometric`, `LocalDiscreteGaussian`: s_i = t(x_i) + e_i,
  with t a query of one coordinate (a clamped record, say, or `queries.Value()`) and e_i Laplace,
  Gaussian, discrete Laplace or discrete Gaussian noise, of one scale or of one for each record. The
  query's sensitivity under "change" is the largest |t(x) - t(x')|, and epsilon (mu for Gaussian
  noise) is sensitivity / scale, as for a total; with several scales, the smallest counts.
- After the noise, Y_i = t(x_i) + e_i may have been rounded, then clamped, then withheld: what is
  published is then known to come from an interval, and h is the probability of that interval
  (`after_noise` has the derivation). A value that is NaN was withheld if there is a threshold,
  h = P(Y_i <= threshold); without one it was never asked for, and h = 1.
- `RandomizedResponse`: k levels; the true level is released with probability p, each other one
  with probability (1 - p) / (k - 1). The largest ratio of h is p (k - 1) / (1 - p), which is
  exp(epsilon), so that p = exp(epsilon) / (exp(epsilon) + k - 1). Or any table of probabilities.
- `RandomRounding`, `CellKey`: laws that depend on the true count, as tables; `LocalExact`: the
  number as it is. None of them is differential privacy, and their guarantee says so.

The number of records is seen in the release, so one that is added or removed is not hidden: the
neighbour relation is always "change".

References
----------
Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer bias.
    JASA 60(309).
Kasiviswanathan, S. P., Lee, H. K., Nissim, K., Raskhodnikova, S. and Smith, A. (2011). What can we
    learn privately? SIAM Journal on Computing 40(3).
Kairouz, P., Oh, S. and Viswanath, P. (2016). Extremal mechanisms for local differential privacy.
    JMLR 17. (k-ary randomized response.)

Example
-------
>>> import noiseaware as na
>>> mechanism = na.mechanisms.RandomizedResponse(n_levels=3, epsilon=1.0)
>>> release = na.Release([0, 2, 2, 1, 2], mechanism, n_records=5)
>>> print(mechanism.guarantee)
pure differential privacy with epsilon = 1, when one record is changed
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.contract import Query, check_query, query_abilities
from noiseaware.described import first_line
from noiseaware.frames import as_floats
from noiseaware.mechanisms.additive import (
    AdditiveNoise,
    SeparableMechanism,
    check_noise_query,
    noise_words,
)
from noiseaware.mechanisms.calibrate import (
    check_one_way,
    gaussian_noise,
    laplace_noise,
    positive,
    probability,
)
from noiseaware.mechanisms.gaussian import DiscreteGaussian, Gaussian
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.intervals import log_discrete_gaussian_between
from noiseaware.mechanisms.laplace import DiscreteLaplace, Laplace
from noiseaware.mechanisms.ready import as_numbers
from noiseaware.mechanisms.terms import (
    BETWEEN,
    GAUSSIAN,
    LINEAR,
    N_PARAMETERS,
    TABLE,
    CellLaws,
    SeparableDensity,
    formula,
)
from noiseaware.queries import Histogram, Sum, Value
from noiseaware.registry import MECHANISMS

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def noise_scores(family, parameters, statistic, scores):
    """Fill in log h(s_i | x_i), up to a constant, for additive noise.

    Parameters
    ----------
    family, parameters
        The formula of each record, as `LocalNoise.laws` gives it.
    statistic
        t(x_i), (m, 1).
    scores
        (m, 1), overwritten.
    """
    for i in range(family.shape[0]):
        p = parameters[i]
        scores[i, 0] = formula(family[i], p[0], p[1], p[2], p[3], statistic[i, 0])


@njit(cache=True, nogil=True)
def response_scores(log_matrix, records, index, values, scores):
    """Fill in log h(s_i | x_i) for randomized response, from the logarithms of its table.

    `index` has the numbers of these records in the database, `values` all n released levels.
    """
    for i in range(index.shape[0]):
        level = int(values[index[i]])
        known = 0 <= level < log_matrix.shape[1]
        scores[i, 0] = log_matrix[records[i], level] if known else -np.inf


class LocalMechanism(SeparableMechanism):
    """What all local mechanisms share; a subclass gives h, and draws from it."""

    per_record: ClassVar[bool] = True
    """A release has one value for each record; `Release` sees to their number."""
    discrete: ClassVar[bool]
    """Whether the released values are integers."""
    can_withhold: bool = False

    def statistic(
        self, records: NDArray[Any], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1).

        Parameters
        ----------
        records
            Some of the records.
        index
            Which ones they are, (m,).
        values
            s_dp, all n released values.
        """
        raise NotImplementedError

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return log g for compiled code: one coordinate, whose term is T itself."""
        parameters = np.zeros((1, N_PARAMETERS))
        # The factor stands where other families have 1 / scale. The sampler's tuning reads it so:
        # the square of dT/dtheta, averaged over the posterior, is the information in T.
        parameters[0, 1] = 1.0
        return SeparableDensity(np.array([LINEAR]), parameters)

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as a new float64 array (n,).

        Raises
        ------
        ValueError
            If they are not one-dimensional, not finite, or not what h can give.
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

    @staticmethod
    def _refuse(right: str, values: NDArray[np.float64], wrong: NDArray[np.bool_]) -> None:
        """ValueError for the first of the values that is wrong."""
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"values must be {right}; got {values[i]} for record {i}")

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Any:
        """Read back what `to_dict` wrote; the scale is read, never computed again."""
        if entries.get("neighbours", "change") != "change":
            raise ValueError(
                f"neighbours must be 'change' for {cls.__name__}, whose release shows the number "
                f"of records; got {entries['neighbours']!r}"
            )
        return super().from_dict({k: v for k, v in entries.items() if k != "neighbours"})


class LocalNoise(LocalMechanism):
    """Additive noise on one coordinate of every record; a subclass gives the noise.

    Attributes
    ----------
    scale, threshold
        One number for all records, or one for each, (n,).
    step, clamp
        What the noisy numbers were rounded to, and the two ends between which they were kept.
    """

    needed = ("scale", "query")
    optional_arguments = ("threshold", "step", "clamp", "guarantee")
    can_withhold = True

    law: ClassVar[type[AdditiveNoise]]
    """The mechanism that adds such noise to a total."""
    scale: Any
    threshold: Any = None
    step: float | None = None
    clamp: tuple[float, float] | None = None

    def _hold(self, query: Query, threshold: Any, step: Any, clamp: Any) -> None:
        """Keep the query, and what was done after the noise."""
        check_query(query)
        name = type(self).__name__
        if len(query.names) != 1:
            raise ValueError(
                f"query must have one coordinate for {name}, which releases one number for each "
                f"record; {type(query).__name__} has {len(query.names)}"
            )
        check_noise_query(self, query, "LocalLaplace")
        self.query = query
        if threshold is not None:
            self.threshold = one_or_each("threshold", threshold)
        if step is not None:
            self.step = positive("step", step)
            if self.discrete and self.step != math.floor(self.step):
                raise ValueError(f"step must be an integer under discrete noise; got {step!r}")
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
        """Set the scale and the guarantee: that of the record with the smallest scale."""
        scales = None if scale is None else one_or_each("scale", scale, positive=True)
        least = None if scales is None else float(np.min(scales))
        found, self.guarantee = calibrate(self.query, "change", scale=least, **others)
        self.scale = found if scales is None else scales

    @property
    def _after_noise(self) -> bool:
        return not (self.threshold is None and self.step is None and self.clamp is None)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (n,); NaN is no value.

        Raises
        ------
        ValueError
            If one of them cannot be published, or their number is not that of the scales.
        """
        array = super().check_values(values)
        for name in ("scale", "threshold"):
            each = getattr(self, name)
            if np.ndim(each) and len(each) != len(array):
                raise ValueError(
                    f"values must be {len(each)}, as many as {name} has; got {len(array)}"
                )
        low, high = self.interval(array, slice(None))
        rules = [
            (self.threshold, "above the threshold or NaN"),
            (self.clamp, f"inside {self.clamp}"),
            (self.step, f"multiples of {self.step}"),
        ]
        right = " and ".join(words for given, words in rules if given is not None)
        self._refuse(right, array, ~np.isnan(low) & (low > high))
        return array

    def interval(self, values: Floats, index: Any) -> tuple[Floats, Floats]:
        """Return the interval of the noisy numbers that gives each value, empty if none does.

        `index` are the numbers of these records. A point has low = high; NaN is a record of which
        nothing is known. From the outermost step inwards, as in `after_noise`.
        """
        low, high = values.copy(), values.copy()
        if self.threshold is not None:
            threshold = self._each(self.threshold, index)
            withheld = np.isnan(values)
            low = np.where(withheld, -np.inf, np.where(values > threshold, values, np.inf))
            high = np.where(withheld, threshold, values)
        if self.clamp is not None:
            empty = (high < self.clamp[0]) | (low > self.clamp[1])
            low = np.where(low <= self.clamp[0], -np.inf, low)
            high = np.where(high >= self.clamp[1], np.inf, high)
            low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        if self.step is not None:
            low, high = rounded_from(low, high, self.step, self.discrete)
        return (np.ceil(low), np.floor(high)) if self.discrete else (low, high)

    @staticmethod
    def _each(given: Any, index: Any) -> Any:
        return given[index] if np.ndim(given) else given

    def _rows(self, values: Floats, index: Any) -> tuple[NDArray[np.int64], Floats]:
        """Return the formula of log h for each of these records, as `terms.formula` reads it."""
        family = np.full(len(values), self.law.family)
        parameters = np.zeros((len(values), N_PARAMETERS))
        parameters[:, 0] = values
        parameters[:, 1] = 1.0 / self._each(self.scale, index)
        if self._after_noise:
            low, high = self.interval(values, index)
            between = low < high
            family[between] = BETWEEN + self.law.family + 2 * self.discrete
            parameters[:, 0] = low
            parameters[between, 2] = high[between]
        nothing = np.isnan(parameters[:, 0])
        family[nothing] = GAUSSIAN
        parameters[nothing] = 0.0
        return family, parameters

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1)."""
        scores = np.empty((len(index), 1))
        family, parameters = self._rows(values[index], index)
        noise_scores(family, parameters, self.query.statistic(records), scores)
        return scores

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return what log g lacks: the noise's constant for each record whose formula lacks it.

        A point does, and so does an interval of discrete noise.
        """
        values = self.check_values(values)
        family, parameters = self._rows(values, np.arange(len(values)))
        lacks = ((family < BETWEEN) | self.discrete) & (parameters[:, 1] > 0.0)
        return float(np.broadcast_to(self.law.log_constant(self.scale), len(values))[lacks].sum())

    def record_laws(self, values: Floats) -> CellLaws | None:
        """Return log h(s_i | x_i) as a function of x_i, if the query is the record itself."""
        if not query_abilities(self.query).is_value:
            return None
        family, parameters = self._rows(values, np.arange(len(values)))
        table = tails(family, parameters) if self.threshold is not None else np.zeros(0)
        return CellLaws(family, parameters, table)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        made = self.query.statistic(records)[:, 0] + self._noise(len(records), rng)
        if self.step is not None:
            made = np.rint(made / self.step) * self.step + 0.0
        if self.clamp is not None:
            made = np.clip(made, *self.clamp)
        return made if self.threshold is None else np.where(made > self.threshold, made, np.nan)

    def _noise(self, n: int, rng: np.random.Generator) -> Floats:
        """Return the noise of n records, all of one scale drawn together."""
        if not np.ndim(self.scale):
            return self.law.draw(self.scale, n, rng)
        noise = np.empty(n)
        for scale in np.unique(self.scale):
            mine = np.flatnonzero(self.scale == scale)
            noise[mine] = self.law.draw(float(scale), len(mine), rng)
        return noise

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; what was not given is left out."""
        return {name: entry for name, entry in super().to_dict().items() if entry is not None}

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        if name == "clamp":
            return [float(end) for end in value]
        return value if isinstance(value, list) else super()._read(name, value)

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        if np.ndim(self.scale):
            least, most = np.min(self.scale), np.max(self.scale)
            noise = (
                f"Random {self.law.in_words} was added to every record, one by one, with a scale "
                f"of its own ({least:.4g} to {most:.4g})."
            )
        else:
            noise = noise_words(self.law, self.scale, "every record, one by one")
        after = [
            words
            for given, words in (
                (self.step, f"rounded to multiples of {self.step}"),
                (self.clamp, f"clamped to {self.clamp}"),
                (self.threshold, "withheld unless they were above a threshold"),
            )
            if given is not None
        ]
        if not after:
            return [noise]
        return [noise, f"After the noise they were {', then '.join(after)}."]


class LocalLaplace(LocalNoise):
    """Laplace noise on every record.

    Parameters
    ----------
    query
        The number that is asked of each record: a query of one coordinate, such as
        `queries.Sum(lower, upper)` for a clamped record, or `queries.Value()`.
    epsilon
        The pure differential privacy to reach: scale = sensitivity / epsilon.
    scale
        Or the scale itself, as published: a number, or one for each record, (n,).
    threshold
        Values up to it were withheld, and are NaN in the release: a number, or one for each
        record. Without a threshold, a value that is NaN was never asked for.
    step, clamp
        Noisy numbers were rounded to multiples of `step`, and kept between the two ends of `clamp`
        (None for no end), in this order and before any was withheld.

    Examples
    --------
    >>> import noiseaware as na
    >>> na.mechanisms.LocalLaplace(na.queries.Sum(0.0, 5.0), epsilon=2.0).scale
    2.5
    """

    law: ClassVar[type[AdditiveNoise]] = Laplace
    discrete = False

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

    @classmethod
    def example(cls) -> LocalLaplace:
        """Return a small one."""
        return cls(Sum.example(), epsilon=2.0)


class LocalGeometric(LocalLaplace):
    """Discrete Laplace (two-sided geometric) noise on every record.

    P(e) is proportional to exp(-|e| / scale), for integers e.

    Parameters
    ----------
    query
        The integer that is asked of each record: an integer-valued query of one coordinate, such
        as `queries.Sum(0, 10, integer_valued=True)`, or `queries.Value()`.
    epsilon
        The pure differential privacy to reach: scale = sensitivity / epsilon.
    scale, threshold, step, clamp
        As for `LocalLaplace`.
    """

    law = DiscreteLaplace
    discrete = True

    @classmethod
    def example(cls) -> LocalGeometric:
        """Return a small one."""
        return cls(Sum(lower=0, upper=10, integer_valued=True), epsilon=2.0)


class LocalGaussian(LocalNoise):
    """Gaussian noise on every record.

    Give exactly one of: the scale, epsilon with delta, rho, mu.

    Parameters
    ----------
    query
        The number that is asked of each record: a query of one coordinate.
    scale
        The standard deviation of the noise, as published: a number, or one for each record.
    epsilon, delta
        The approximate differential privacy to reach.
    rho
        The zero-concentrated differential privacy to reach.
    mu
        The Gaussian differential privacy to reach: scale = sensitivity / mu.
    threshold, step, clamp
        As for `LocalLaplace`.
    """

    law: ClassVar[type[AdditiveNoise]] = Gaussian
    discrete = False

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

    @classmethod
    def example(cls) -> LocalGaussian:
        """Return a small one."""
        return cls(Sum.example(), scale=2.0)


class LocalDiscreteGaussian(LocalGaussian):
    """Integer Gaussian noise on every record.

    P(e) is proportional to exp(-e^2 / (2 scale^2)), for integers e. Give exactly one of: the scale,
    epsilon with delta, rho.

    Parameters
    ----------
    query
        The integer that is asked of each record: an integer-valued query of one coordinate, such
        as `queries.Value()`.
    scale
        sigma, as published: a number, or one for each record.
    epsilon, delta
        The approximate differential privacy to reach, by way of zCDP.
    rho
        The zero-concentrated differential privacy to reach.
    mu
        Not available for discrete noise: an error that says so.
    threshold, step, clamp
        As for `LocalLaplace`.
    """

    law = DiscreteGaussian
    discrete = True

    @classmethod
    def example(cls) -> LocalDiscreteGaussian:
        """Return a small one."""
        return cls(Value(), scale=2.0)


class RandomizedResponse(LocalMechanism):
    """Each person tells their level, 0 to k - 1, or with some probability another one.

    Parameters
    ----------
    n_levels
        k, at least 2. Records are integers of shape (n,).
    epsilon
        The pure differential privacy to reach.
    truth
        Or the probability p with which the true level is released, as published. The other
        levels are released with probability (1 - p) / (k - 1) each.
    matrix
        Or any probabilities, (k, k): row x has those of each released level, if the true one is x.

    Attributes
    ----------
    truth
        p, or None for a matrix.
    matrix
        The probabilities.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.RandomizedResponse(n_levels=2, truth=0.75)
    >>> round(mechanism.guarantee.epsilon, 4)  # log 3
    1.0986
    """

    needed = ("n_levels",)
    optional_arguments = ("truth", "matrix", "guarantee")
    discrete = True

    def __init__(
        self,
        n_levels: int | None = None,
        epsilon: float | None = None,
        truth: float | None = None,
        *,
        matrix: ArrayLike | None = None,
    ) -> None:
        if n_levels is None and matrix is not None:
            n_levels = len(np.asarray(matrix))
        k = self.n_levels = whole_number("n_levels", n_levels, 2)
        if matrix is None:
            check_one_way("epsilon and truth", epsilon=epsilon, truth=truth)
        else:
            check_one_way("epsilon, truth and matrix", epsilon=epsilon, truth=truth, matrix=matrix)
        self.query = Histogram(n_levels=k)
        others = k - 1
        self.truth: float | None = None
        if matrix is not None:
            probabilities = stochastic("matrix", matrix, (k, k))
            self.guarantee = _matrix_guarantee(probabilities)
        elif truth is not None:
            self.truth = probability("truth", truth)
            epsilon = _response_epsilon(self.truth, others)
        else:
            epsilon = positive("epsilon", epsilon)
            self.truth = 1.0 / (1.0 + others * math.exp(-epsilon))
            # A probability so near to 1 does not hold epsilon any more: 1 - p is rounded off.
            if self.truth == 1.0 or _response_epsilon(self.truth, others) > epsilon * (1 + 1e-7):
                raise ValueError(
                    f"epsilon must be small enough for another level to be released; got {epsilon}"
                )
        if self.truth is not None:
            log_other = math.log1p(-self.truth) - math.log(others)
            self._log_matrix = np.full((k, k), log_other)
            np.fill_diagonal(self._log_matrix, math.log(self.truth))
            probabilities = np.exp(self._log_matrix)
            self.guarantee = Guarantee("pure", epsilon=epsilon)
        else:
            with np.errstate(divide="ignore"):
                self._log_matrix = np.log(probabilities)
        self.matrix = probabilities

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released levels as a new float64 array (n,).

        Raises
        ------
        ValueError
            If one is not an integer from 0 to n_levels - 1.
        """
        array = super().check_values(values)
        bad = np.flatnonzero((array < 0) | (array >= self.n_levels))
        if bad.size:
            raise ValueError(
                f"values must be from 0 to {self.n_levels - 1}, one of the {self.n_levels} levels; "
                f"got {array[bad[0]]:g} for record {bad[0]}"
            )
        return array

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return 0: log g is the log of a probability."""
        return 0.0

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp) = log P(s_i | x_i), (m, 1)."""
        scores = np.empty((len(index), 1))
        response_scores(self._log_matrix, records.astype(np.int64), index, values, scores)
        return scores

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        cumulative = np.cumsum(self.matrix, axis=1)[records]
        drawn = (rng.random(len(records))[:, np.newaxis] >= cumulative).sum(axis=1)
        return np.minimum(drawn, self.n_levels - 1).astype(np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON: the probability of the truth, or the matrix."""
        kept = "matrix" if self.truth is None else "truth"
        dropped = {"truth", "matrix"} - {kept}
        return {name: entry for name, entry in super().to_dict().items() if name not in dropped}

    def __repr__(self) -> str:
        if self.truth is None:
            return f"RandomizedResponse(matrix={self.matrix.tolist()})"
        return f"RandomizedResponse(n_levels={self.n_levels}, truth={self.truth})"

    @classmethod
    def example(cls) -> RandomizedResponse:
        """Return a small one."""
        return cls(n_levels=2, truth=0.75)


def _response_epsilon(truth: float, others: int) -> float:
    """Return the epsilon of randomized response: the log of its largest ratio of probabilities.

    Where the truth is the rarest answer, the ratio is that of another level.
    """
    return abs(math.log(truth) + math.log(others) - math.log1p(-truth))


def _matrix_guarantee(matrix: Floats) -> Guarantee:
    """Return what any table of probabilities promises: the log of its largest ratio in a column."""
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    if ((low == 0.0) & (high > 0.0)).any():
        reason = "a released level is impossible for one true level and possible for another"
        return Guarantee("unknown", reason=reason)
    asked = high > 0.0
    return Guarantee("pure", epsilon=float(np.log(high[asked] / low[asked]).max()))


class CountLaw(LocalMechanism):
    """A published count whose law depends on the true count; a subclass gives the table."""

    discrete = True
    can_withhold = True
    needed: ClassVar[tuple[str, ...]] = ()
    optional_arguments: ClassVar[tuple[str, ...]] = ()
    promise: ClassVar[str]
    """Why no guarantee is stated."""

    def _hold(self) -> None:
        self.query = Value()
        self.guarantee = Guarantee("unknown", reason=self.promise)

    def _possible(self, value: float) -> tuple[int, Floats]:
        """Return the first true count that can give this value, and P(value | x) from it on."""
        raise NotImplementedError

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (n,); NaN is no value.

        Raises
        ------
        ValueError
            If one of them cannot be published.
        """
        array = super().check_values(values)
        possible = {
            value: (self._possible(value)[1] > 0.0).any() for value in set(array[~np.isnan(array)])
        }
        wrong = np.array([not possible.get(value, True) for value in array], dtype=bool)
        self._refuse(f"what {type(self).__name__} can publish", array, wrong)
        return array

    def record_laws(self, values: Floats) -> CellLaws:
        """Return log P(s_i | x_i) as tables, one for each different value."""
        family = np.full(len(values), TABLE)
        parameters = np.zeros((len(values), N_PARAMETERS))
        nothing = np.isnan(values)
        family[nothing] = GAUSSIAN
        tables, at = [np.zeros(0)], 0
        for value in np.unique(values[~nothing]):
            first, probabilities = self._possible(float(value))
            with np.errstate(divide="ignore"):
                tables.append(np.log(probabilities))
            parameters[values == value, :3] = first, at, len(probabilities)
            at += len(probabilities)
        return CellLaws(family, parameters, np.concatenate(tables))

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return 0: log g is the log of a probability."""
        return 0.0

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp) = log P(s_i | x_i), (m, 1)."""
        family, parameters, table = self.record_laws(values[index])
        place = np.asarray(records, dtype=np.int64) - parameters[:, 0].astype(np.int64)
        inside = (family == TABLE) & (place >= 0) & (place < parameters[:, 2])
        scores = np.where(family == TABLE, -np.inf, 0.0)
        scores[inside] = table[parameters[inside, 1].astype(np.int64) + place[inside]]
        return scores[:, np.newaxis]

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [first_line(self), f"There is no guarantee: {self.promise}."]


class RandomRounding(CountLaw):
    """Counts rounded at random to a multiple of a base, up or down, so that the mean is kept.

    A multiple stays as it is. Any other count x goes up with probability (x mod base) / base, and
    down otherwise: Statistics New Zealand's random rounding to base 3, for example.

    Parameters
    ----------
    base
        At least 2.
    """

    needed = ("base",)
    promise = "random rounding is not differential privacy, a multiple of the base is exact"

    def __init__(self, base: int = 3) -> None:
        self.base = whole_number("base", base, 2)
        self._hold()

    def _possible(self, value: float) -> tuple[int, Floats]:
        if value < 0 or value % self.base:
            return 0, np.zeros(1)
        first = max(0, int(value) - self.base + 1)
        x = np.arange(first, int(value) + self.base)
        return first, 1.0 - np.abs(x - value) / self.base

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        below = records // self.base * self.base
        up = rng.random(len(records)) * self.base < records - below
        return (below + self.base * up).astype(np.float64)

    @classmethod
    def example(cls) -> RandomRounding:
        """Return a small one."""
        return cls(base=3)


class CellKey(CountLaw):
    """Counts perturbed by a table of probabilities, as cell-key methods do.

    Parameters
    ----------
    probabilities
        (K, D). Row x has the probabilities of the perturbations `lowest`, `lowest` + 1, ... of a
        true count x; the last row is that of all larger counts.
    lowest
        The smallest perturbation.

    Examples
    --------
    >>> import noiseaware as na
    >>> table = [[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]]  # 0 stays; others go down, stay, go up
    >>> print(na.mechanisms.CellKey(table, lowest=-1).guarantee.kind)
    unknown
    """

    needed = ("probabilities", "lowest")
    promise = "perturbation by a table is not differential privacy"

    def __init__(self, probabilities: ArrayLike, lowest: int) -> None:
        table = np.array(probabilities, dtype=np.float64)
        self.probabilities = stochastic("probabilities", table, table.shape)
        if isinstance(lowest, bool) or int(lowest) != lowest:
            raise ValueError(f"lowest must be an integer; got {lowest!r}")
        self.lowest = int(lowest)
        for x, row in enumerate(self.probabilities):
            below = np.flatnonzero((row > 0.0) & (x + self.lowest + np.arange(len(row)) < 0))
            if below.size:
                raise ValueError(
                    f"probabilities must publish no negative count; row {x} has "
                    f"{row[below[0]]} for {x + self.lowest + int(below[0])}"
                )
        self._hold()

    def _possible(self, value: float) -> tuple[int, Floats]:
        K, D = self.probabilities.shape
        first = max(0, int(value) - self.lowest - D + 1)
        x = np.arange(first, max(first, int(value) - self.lowest) + 1)
        change = int(value) - x - self.lowest
        inside = (change >= 0) & (change < D)
        found = self.probabilities[np.minimum(x, K - 1), np.clip(change, 0, D - 1)]
        return first, np.where(inside, found, 0.0)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        rows = np.cumsum(self.probabilities, axis=1)[
            np.minimum(records, len(self.probabilities) - 1)
        ]
        place = (rng.random(len(records))[:, np.newaxis] >= rows).sum(axis=1)
        place = np.minimum(place, self.probabilities.shape[1] - 1)
        return (records + self.lowest + place).astype(np.float64)

    @classmethod
    def example(cls) -> CellKey:
        """Return a small one."""
        return cls([[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], lowest=-1)


class LocalExact(CountLaw):
    """Each record's number as it is."""

    promise = "the numbers are published as they are"

    def __init__(self) -> None:
        self._hold()

    def _possible(self, value: float) -> tuple[int, Floats]:
        return max(0, int(value)), np.array([float(value >= 0)])

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return np.asarray(records, dtype=np.float64)

    @classmethod
    def example(cls) -> LocalExact:
        """Return one."""
        return cls()


# ------------------------------------------------------------------ arguments and tables


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


def stochastic(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a table whose rows are probabilities."""
    table = np.array(value, dtype=np.float64)
    if table.ndim != 2 or table.shape != shape:
        raise ValueError(f"{name} must be a table of shape {shape}; got shape {table.shape}")
    wrong = (table < 0.0).any(axis=1) | (np.abs(table.sum(axis=1) - 1.0) > 1e-8)
    if not np.isfinite(table).all() or wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must have rows of probabilities that sum to 1; got {table[i].tolist()} in row "
            f"{i}"
        )
    return table


def rounded_from(low: Floats, high: Floats, step: float, discrete: bool) -> tuple[Any, Any]:
    """Return the interval of numbers that are rounded into [low, high]; ties go to even multiples.

    Multiples of 0.1 are not exact floats: a value may be a little off.
    """
    with np.errstate(invalid="ignore"):
        first, last = low / step, high / step
        slack = 1e-9 + 4e-16 * np.abs(np.nan_to_num(values_of(first, last), posinf=0, neginf=0))
        first, last = np.ceil(first - slack), np.floor(last + slack)
        empty = first > last
        low, high = (first - 0.5) * step, (last + 0.5) * step
        if discrete:
            low = np.where(np.remainder(first, 2.0) == 1.0, np.floor(low) + 1.0, np.ceil(low))
            high = np.where(np.remainder(last, 2.0) == 1.0, np.ceil(high) - 1.0, np.floor(high))
    return np.where(empty, np.inf, low), np.where(empty, -np.inf, high)


def values_of(first: Floats, last: Floats) -> Floats:
    """Return the finite end of each interval, or 0."""
    return np.where(np.isfinite(first), first, np.where(np.isfinite(last), last, 0.0))


MOST_TAILS = 20_000_000
"""Numbers in all tables of `tails`; beyond it, tails are added up where they are needed."""


def tails(family: NDArray[np.int64], parameters: Floats) -> Floats:
    """Return log P(T + e <= high) of discrete Gaussian noise as tables over high - T, one a scale.

    There is no closed form, and a sum for each x of each record would cost as much as all else. A
    withheld record gets the place of its table, plus 1, as its fourth parameter; see
    `noiseaware.cells.log_h`. The table of a scale goes from -38 to 9 scales, in whole numbers.
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
        start = log_discrete_gaussian_between(-math.inf, d[0], inverse, 0.0)
        logs[0] = start
        tables.append(np.logaddexp.accumulate(logs))
        parameters[rows[parameters[rows, 1] == inverse], 3] = at + 1.0
        at += len(d)
    return np.concatenate(tables)


for kind in (
    LocalLaplace,
    LocalGeometric,
    LocalGaussian,
    LocalDiscreteGaussian,
    RandomizedResponse,
    RandomRounding,
    CellKey,
    LocalExact,
):
    MECHANISMS.add(kind)
