"""Local mechanisms: every record is released with its own noise.

Here nobody holds the database: each person makes their own record private and sends that. The
release has n values, and value i depends on record i alone,

    g(s_dp, x) = prod_i h(s_i | x_i),        log g = sum_i log h(s_i | x_i).

This is record additive with one coordinate: t_i(x_i, s_dp) = log h(s_i | x_i), and log g is the
total T itself (`terms.LINEAR`). t_i depends on the index, because record i is compared with its own
value; this is why a mechanism may have `statistic(records, index, values)`. Changing a record
changes one factor, so the guarantee is that of h, and the sampler's acceptance ratio for record i
is h(s_i | x_i*) / h(s_i | x_i): the other records do not enter.

- `LocalLaplace`, `LocalGaussian`, `LocalGeometric`: s_i = t(x_i) + e_i, with t a query of one
  coordinate (a clamped record, say) and e_i Laplace, Gaussian or discrete Laplace noise. The
  query's sensitivity under "change" is the largest |t(x) - t(x')|, and epsilon (mu for Gaussian
  noise) is sensitivity / scale, as for a total.
- `RandomizedResponse`: k levels; the true level is released with probability p, each other one
  with probability (1 - p) / (k - 1). The largest ratio of h is p (k - 1) / (1 - p), which is
  exp(epsilon), so that p = exp(epsilon) / (exp(epsilon) + k - 1).

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
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.contract import Query, check_query
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
from noiseaware.mechanisms.gaussian import Gaussian
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.laplace import DiscreteLaplace, Laplace
from noiseaware.mechanisms.ready import as_numbers
from noiseaware.mechanisms.terms import LINEAR, N_PARAMETERS, SeparableDensity, plain_formula
from noiseaware.queries import Histogram, Sum
from noiseaware.registry import MECHANISMS


@njit(cache=True, nogil=True)
def noise_scores(family, inverse, statistic, index, values, scores):
    """Fill in log h(s_i | x_i), up to a constant, for additive noise.

    Parameters
    ----------
    family, inverse
        `LAPLACE` or `GAUSSIAN`, and 1 / scale.
    statistic
        t(x_i), (m, 1).
    index
        The number of each record in the database, int64 (m,).
    values
        All released values, (n,).
    scores
        (m, 1), overwritten.
    """
    for i in range(index.shape[0]):
        scores[i, 0] = plain_formula(family, values[index[i]], inverse, statistic[i, 0])


@njit(cache=True, nogil=True)
def response_scores(log_truth, log_other, records, index, values, scores):
    """Fill in log h(s_i | x_i) for randomized response; arguments as in `noise_scores`."""
    for i in range(index.shape[0]):
        scores[i, 0] = log_truth if values[index[i]] == records[i] else log_other


class LocalMechanism(SeparableMechanism):
    """What all local mechanisms share; a subclass gives h, and draws from it."""

    per_record: ClassVar[bool] = True
    """A release has one value for each record; `Release` sees to their number."""
    discrete: ClassVar[bool]
    """Whether the released values are integers."""

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
        array = as_numbers(values)
        if array.ndim != 1:
            raise ValueError(
                f"values must be one number for each record, (n,); got shape {array.shape}"
            )
        bad = np.flatnonzero(~np.isfinite(array))
        if bad.size:
            raise ValueError(f"values must be finite; got {array[bad[0]]} for record {bad[0]}")
        if self.discrete:
            bad = np.flatnonzero(array != np.floor(array))
            if bad.size:
                raise ValueError(
                    f"values must be integers under {type(self).__name__}; "
                    f"got {array[bad[0]]} for record {bad[0]}"
                )
        return array

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
    """Additive noise on one coordinate of every record; a subclass gives the noise."""

    needed = ("scale", "query")

    law: ClassVar[type[AdditiveNoise]]
    """The mechanism that adds such noise to a total."""
    scale: float

    def _set_query(self, query: Query) -> None:
        check_query(query)
        name = type(self).__name__
        if len(query.names) != 1:
            raise ValueError(
                f"query must have one coordinate for {name}, which releases one number for each "
                f"record; {type(query).__name__} has {len(query.names)}"
            )
        check_noise_query(self, query, "LocalLaplace")
        self.query = query

    def statistic(
        self, records: NDArray[Any], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1)."""
        scores = np.empty((len(index), 1))
        statistic = self.query.statistic(records)
        noise_scores(self.law.family, 1.0 / self.scale, statistic, index, values, scores)
        return scores

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        noise = self.law.draw(self.scale, len(records), rng)
        return self.query.statistic(records)[:, 0] + noise

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [noise_words(self.law, self.scale, "every record, one by one")]


class LocalLaplace(LocalNoise):
    """Laplace noise on every record.

    Parameters
    ----------
    query
        The number that is asked of each record: a query of one coordinate, such as
        `queries.Sum(lower, upper)` for a clamped record.
    epsilon
        The pure differential privacy to reach: scale = sensitivity / epsilon.
    scale
        Or the scale itself, as published.

    Examples
    --------
    >>> import noiseaware as na
    >>> na.mechanisms.LocalLaplace(na.queries.Sum(0.0, 5.0), epsilon=2.0).scale
    2.5
    """

    law: ClassVar[type[AdditiveNoise]] = Laplace
    discrete = False

    def __init__(
        self, query: Query, epsilon: float | None = None, scale: float | None = None
    ) -> None:
        self._set_query(query)
        self.scale, self.guarantee = laplace_noise(query, "change", epsilon=epsilon, scale=scale)

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
        as `queries.Sum(0, 10, integer_valued=True)`.
    epsilon
        The pure differential privacy to reach: scale = sensitivity / epsilon.
    scale
        Or the scale itself, as published.
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
        The standard deviation of the noise, as published.
    epsilon, delta
        The approximate differential privacy to reach.
    rho
        The zero-concentrated differential privacy to reach.
    mu
        The Gaussian differential privacy to reach: scale = sensitivity / mu.
    """

    law = Gaussian
    discrete = False

    def __init__(
        self,
        query: Query,
        scale: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
    ) -> None:
        self._set_query(query)
        self.scale, self.guarantee = gaussian_noise(
            query, "change", scale=scale, epsilon=epsilon, delta=delta, rho=rho, mu=mu
        )

    @classmethod
    def example(cls) -> LocalGaussian:
        """Return a small one."""
        return cls(Sum.example(), scale=2.0)


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

    Attributes
    ----------
    truth
        p.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.RandomizedResponse(n_levels=2, truth=0.75)
    >>> round(mechanism.guarantee.epsilon, 4)  # log 3
    1.0986
    """

    needed = ("n_levels", "truth")
    discrete = True

    def __init__(
        self, n_levels: int, epsilon: float | None = None, truth: float | None = None
    ) -> None:
        self.n_levels = whole_number("n_levels", n_levels, 2)
        check_one_way("epsilon and truth", epsilon=epsilon, truth=truth)
        self.query = Histogram(n_levels=self.n_levels)
        others = self.n_levels - 1
        if truth is not None:
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
        self._log_truth = math.log(self.truth)
        self._log_other = math.log1p(-self.truth) - math.log(others)
        self.guarantee = Guarantee("pure", epsilon=epsilon)

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
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

    def statistic(
        self, records: NDArray[Any], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return t_i(x_i, s_dp) = log P(s_i | x_i), (m, 1)."""
        scores = np.empty((len(index), 1))
        response_scores(self._log_truth, self._log_other, records, index, values, scores)
        return scores

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        n, k = len(records), self.n_levels
        lies = rng.random(n) >= self.truth
        # One of the k - 1 other levels: go on by 1 to k - 1 places, around the end.
        steps = rng.integers(1, k, size=n)
        return np.where(lies, (records + steps) % k, records).astype(np.float64)

    @classmethod
    def example(cls) -> RandomizedResponse:
        """Return a small one."""
        return cls(n_levels=2, truth=0.75)


def _response_epsilon(truth: float, others: int) -> float:
    """Return the epsilon of randomized response: the log of its largest ratio of probabilities.

    Where the truth is the rarest answer, the ratio is that of another level.
    """
    return abs(math.log(truth) + math.log(others) - math.log1p(-truth))


MECHANISMS.add(LocalLaplace)
MECHANISMS.add(LocalGeometric)
MECHANISMS.add(LocalGaussian)
MECHANISMS.add(RandomizedResponse)
