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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.mechanisms.additive import as_numbers, check_query, records_to_release
from noiseaware.mechanisms.calibrate import (
    check_one_way,
    gaussian_noise,
    laplace_noise,
    positive,
    probability,
)
from noiseaware.mechanisms.discrete_laplace import discrete_laplace
from noiseaware.mechanisms.guarantee import Guarantee, confirmed, with_guarantee
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE, LINEAR, N_PARAMETERS, Terms, term
from noiseaware.queries import Histogram, QueryLike
from noiseaware.queries import from_dict as query_from_dict

if TYPE_CHECKING:
    from noiseaware.release import Release


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
        scores[i, 0] = term(family, values[index[i]], inverse, 0.0, 0.0, statistic[i, 0])


@njit(cache=True, nogil=True)
def response_scores(log_truth, log_other, records, index, values, scores):
    """Fill in log h(s_i | x_i) for randomized response; arguments as in `noise_scores`."""
    for i in range(index.shape[0]):
        scores[i, 0] = log_truth if values[index[i]] == records[i] else log_other


class LocalMechanism:
    """What all local mechanisms share; a subclass gives h.

    Attributes
    ----------
    query
        What is asked of each record.
    guarantee
        What each person is promised.
    """

    per_record: ClassVar[bool] = True
    """A release has one value for each record; `Release` sees to their number."""
    integers: ClassVar[bool]
    """Whether the released values are integers."""

    query: QueryLike
    guarantee: Guarantee
    neighbours = "change"

    def _respond(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw s_i from h(. | x_i) for each record, (n,)."""
        raise NotImplementedError

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

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), which is T itself: the sum of the records' log densities.

        Parameters
        ----------
        values
            s_dp, (n,). They are in T already.
        total
            T, the sum of `statistic` over the records, (1,).
        """
        total = np.asarray(total, dtype=np.float64)
        if total.shape != (1,):
            raise ValueError(f"total must have shape (1,); got {total.shape}")
        return float(total[0])

    def terms(self, values: ArrayLike) -> Terms:
        """Return the same for compiled code: one coordinate, whose term is T."""
        parameters = np.zeros((1, N_PARAMETERS))
        # The factor stands where other families have 1 / scale. The sampler's tuning reads it so:
        # the square of dT/dtheta, averaged over the posterior, is the information in T.
        parameters[0, 1] = 1.0
        return Terms(np.array([LINEAR]), parameters)

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
        if self.integers:
            bad = np.flatnonzero(array != np.floor(array))
            if bad.size:
                raise ValueError(
                    f"values must be integers under {type(self).__name__}; "
                    f"got {array[bad[0]]} for record {bad[0]}"
                )
        return array

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records, each with its own noise.

        For simulation only: the noise is made with floating-point numbers and an ordinary
        random generator, which are open to known attacks (Mironov 2012). To protect real
        people, make the release with a vetted library such as OpenDP.

        Parameters
        ----------
        records
            The confidential records; the first axis is the record.
        rng
            The source of the noise.
        """
        from noiseaware.release import Release

        records = records_to_release(self.query, records, rng)
        return Release(self._respond(records, rng), self, len(records))

    def take_guarantee(self, stated: Guarantee) -> None:
        """Take over what a file says of the guarantee; ValueError if it is not true."""
        self.guarantee = confirmed(self.guarantee, stated)


class LocalNoise(LocalMechanism):
    """Additive noise on one coordinate of every record; a subclass gives the noise."""

    family: ClassVar[int]
    scale: float

    def _noise(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        raise NotImplementedError

    def _set_query(self, query: QueryLike) -> None:
        check_query(query)
        name = type(self).__name__
        if len(query.names) != 1:
            raise ValueError(
                f"query must have one coordinate for {name}, which releases one number for each "
                f"record; {type(query).__name__} has {len(query.names)}"
            )
        if self.integers and not getattr(query, "integer_valued", False):
            raise ValueError(
                f"query must be integer-valued for {name}; {type(query).__name__} is not "
                "(use LocalLaplace)"
            )
        self.query = query

    def statistic(
        self, records: NDArray[Any], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1)."""
        scores = np.empty((len(index), 1))
        statistic = self.query.statistic(records)
        noise_scores(self.family, 1.0 / self.scale, statistic, index, values, scores)
        return scores

    def _respond(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        return self.query.statistic(records)[:, 0] + self._noise(len(records), rng)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; `noiseaware.mechanisms.from_dict` reads it back."""
        return {
            "type": type(self).__name__,
            "scale": self.scale,
            "neighbours": "change",
            "guarantee": self.guarantee.to_dict(),
            "query": self.query.to_dict(),
        }

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> LocalNoise:
        """Read back what `to_dict` wrote; the scale is read, never computed again."""
        _check_fields(cls.__name__, entries, ("scale", "query"))
        query, scale = query_from_dict(entries["query"]), positive("scale", entries["scale"])
        return with_guarantee(cls(query, scale=scale), entries)

    def __init__(self, query: QueryLike, *, scale: float | None = None) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.query!r}, scale={self.scale!r})"


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

    family = LAPLACE
    integers = False

    def __init__(
        self, query: QueryLike, epsilon: float | None = None, scale: float | None = None
    ) -> None:
        self._set_query(query)
        self.scale, self.guarantee = laplace_noise(query, "change", epsilon=epsilon, scale=scale)

    def _noise(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.laplace(scale=self.scale, size=size)


class LocalGeometric(LocalNoise):
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

    family = LAPLACE
    integers = True

    def __init__(
        self, query: QueryLike, epsilon: float | None = None, scale: float | None = None
    ) -> None:
        self._set_query(query)
        self.scale, self.guarantee = laplace_noise(query, "change", epsilon=epsilon, scale=scale)

    def _noise(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return discrete_laplace(self.scale, size, rng)


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

    family = GAUSSIAN
    integers = False

    def __init__(
        self,
        query: QueryLike,
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

    def _noise(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.normal(scale=self.scale, size=size)


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

    integers = True

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

    def _respond(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        n, k = len(records), self.n_levels
        lies = rng.random(n) >= self.truth
        # One of the k - 1 other levels: go on by 1 to k - 1 places, around the end.
        steps = rng.integers(1, k, size=n)
        return np.where(lies, (records + steps) % k, records).astype(np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; `noiseaware.mechanisms.from_dict` reads it back."""
        return {
            "type": "RandomizedResponse",
            "n_levels": self.n_levels,
            "truth": self.truth,
            "neighbours": "change",
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> RandomizedResponse:
        """Read back what `to_dict` wrote; the probability is read, never computed again."""
        _check_fields(cls.__name__, entries, ("n_levels", "truth"))
        return with_guarantee(cls(entries["n_levels"], truth=entries["truth"]), entries)

    def __repr__(self) -> str:
        return f"RandomizedResponse(n_levels={self.n_levels}, truth={self.truth!r})"


def _response_epsilon(truth: float, others: int) -> float:
    """Return the epsilon of randomized response: the log of its largest ratio of probabilities.

    Where the truth is the rarest answer, the ratio is that of another level.
    """
    return abs(math.log(truth) + math.log(others) - math.log1p(-truth))


def _check_fields(name: str, entries: dict[str, Any], needed: tuple[str, ...]) -> None:
    """ValueError unless a file's description of a mechanism has the right fields."""
    known = ("type", *needed, "neighbours", "guarantee")
    missing = [field for field in needed if field not in entries]
    if missing:
        raise ValueError(f"{name} must have {', '.join(needed)}; {missing[0]!r} is missing")
    foreign = sorted(set(entries) - set(known))
    if foreign:
        raise ValueError(f"{name} may have {', '.join(known)}; got {foreign[0]!r}")
    if entries.get("neighbours", "change") != "change":
        raise ValueError(
            f"neighbours must be 'change' for {name}, whose release shows the number of records; "
            f"got {entries['neighbours']!r}"
        )
