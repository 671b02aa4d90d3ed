"""Local mechanisms defined by tables: randomized response, random rounding, cell keys.

`local` has the derivation.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import first_line
from noiseaware.contract import Floats
from noiseaware.mechanisms.calibrate import check_one_way, positive, probability
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.local import LocalMechanism
from noiseaware.mechanisms.terms import EXACT, GAUSSIAN, N_PARAMETERS, TABLE, CellLaws
from noiseaware.queries import Histogram, Value
from noiseaware.registry import MECHANISMS


def drawn_columns(rows: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each row of a table of probabilities."""
    place = (rng.random(len(rows))[:, np.newaxis] >= np.cumsum(rows, axis=1)).sum(axis=1)
    return np.minimum(place, rows.shape[1] - 1)  # a sum may be a little below 1


@njit(cache=True, nogil=True)
def response_scores(log_matrix, records, index, values, scores):
    """Fill in log h(s_i | x_i) for randomized response, from the logarithms of its table.

    `index` says which records these are; `values` holds all n released levels.
    """
    for i in range(index.shape[0]):
        level = int(values[index[i]])
        known = 0 <= level < log_matrix.shape[1]
        scores[i, 0] = log_matrix[records[i], level] if known else -np.inf


def stochastic(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a table, or ValueError unless its rows are probabilities."""
    table = np.array(value, dtype=np.float64)
    if table.ndim != 2 or table.shape != shape:
        raise ValueError(f"{name} must be a table of shape {shape}; got shape {table.shape}")
    wrong = (table < 0.0).any(axis=1) | (np.abs(table.sum(axis=1) - 1.0) > 1e-8)
    if not np.isfinite(table).all() or wrong.any():
        i = int(np.argmax(wrong))
        got = f"got {table[i].tolist()} in row {i}"
        raise ValueError(f"{name} must have rows of probabilities that sum to 1; {got}")
    return table


class RandomizedResponse(LocalMechanism):
    """Each person tells their level, 0 to k - 1, or with some probability another one.

    Parameters
    ----------
    n_levels
        k, at least 2. Records are integers of shape (n,).
    epsilon
        Pure differential privacy to reach.
    truth
        Alternatively, the published probability p of releasing the true level. Each other level is
        released with probability (1 - p) / (k - 1).
    matrix
        Alternatively, any probabilities, (k, k): row x is the distribution of the released level if
        the true one is x. The attribute `matrix` is always set; `truth` is None if this was given.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.RandomizedResponse(n_levels=2, truth=0.75)
    >>> round(mechanism.guarantee.epsilon, 4)  # log 3
    1.0986
    """

    needed = ("n_levels",)
    example_arguments = {"n_levels": 2, "truth": 0.75}
    optional_arguments, left_out = ("truth", "matrix", "guarantee"), (None,)
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
        ways = "epsilon and truth" if matrix is None else "epsilon, truth and matrix"
        check_one_way(ways, epsilon=epsilon, truth=truth, matrix=matrix)
        self.query, others = Histogram(n_levels=k), k - 1
        self.truth: float | None = None
        if matrix is not None:
            self.matrix = stochastic("matrix", matrix, (k, k))
            self.guarantee = _matrix_guarantee(self.matrix)
            with np.errstate(divide="ignore"):
                self._log_matrix = np.log(self.matrix)
            return
        if truth is not None:
            self.truth = probability("truth", truth)
            epsilon = _response_epsilon(self.truth, others)
        else:
            epsilon = positive("epsilon", epsilon)
            self.truth = 1.0 / (1.0 + others * math.exp(-epsilon))
            # So near to 1, p no longer determines epsilon: 1 - p is lost to rounding.
            if self.truth == 1.0 or _response_epsilon(self.truth, others) > epsilon * (1 + 1e-7):
                raise ValueError(
                    f"epsilon must be small enough for another level to be released; got {epsilon}"
                )
        self._log_matrix = np.full((k, k), math.log1p(-self.truth) - math.log(others))
        np.fill_diagonal(self._log_matrix, math.log(self.truth))
        self.matrix = np.exp(self._log_matrix)
        self.guarantee = Guarantee("pure", epsilon=epsilon)

    def check_values(self, values: ArrayLike) -> Floats:
        array, k = super().check_values(values), self.n_levels
        right = f"from 0 to {k - 1}, one of the {k} levels"
        self._refuse(right, array, (array < 0) | (array >= k), "g")
        return array

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        scores = np.empty((len(index), 1))
        response_scores(self._log_matrix, records.astype(np.int64), index, values, scores)
        return scores

    def record_tails(self, records: NDArray[Any], values: Floats) -> Floats:
        """Return log P(Y < s_i), log P(Y = s_i) and log P(Y > s_i) given x_i, (3, n)."""
        rows, levels = self.matrix[records.astype(np.int64)], np.arange(self.n_levels)
        away = levels - values[:, np.newaxis]
        with np.errstate(divide="ignore"):
            return np.log([(rows * part).sum(axis=1) for part in (away < 0, away == 0, away > 0)])

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return drawn_columns(self.matrix[records], rng).astype(np.float64)

    def _written(self, name: str) -> Any:
        follows = name == "matrix" and self.truth is not None
        return None if follows else super()._written(name)

    def __repr__(self) -> str:
        if self.truth is None:
            return f"RandomizedResponse(matrix={self.matrix.tolist()})"
        return f"RandomizedResponse(n_levels={self.n_levels}, truth={self.truth})"


def _response_epsilon(truth: float, others: int) -> float:
    """Return the epsilon of randomized response: the log of its largest ratio of probabilities.

    abs() covers the case where the true level is the least likely answer.
    """
    return abs(math.log(truth) + math.log(others) - math.log1p(-truth))


def _matrix_guarantee(matrix: Floats) -> Guarantee:
    """Return the guarantee of a table: epsilon is the log of the largest ratio within a column."""
    low, high = matrix.min(axis=0), matrix.max(axis=0)
    if ((low == 0.0) & (high > 0.0)).any():
        reason = "a released level is impossible for one true level and possible for another"
        return Guarantee("unknown", reason=reason)
    asked = high > 0.0
    return Guarantee("pure", epsilon=float(np.log(high[asked] / low[asked]).max()))


class CountLaw(LocalMechanism):
    """A published count whose distribution depends on the true count; a subclass defines it."""

    discrete = True
    can_withhold = True
    needed: ClassVar[tuple[str, ...]] = ()
    optional_arguments: ClassVar[tuple[str, ...]] = ()
    promise: ClassVar[str]  # why no guarantee is stated

    def _hold(self) -> None:
        self.query = Value()
        self.guarantee = Guarantee("unknown", reason=self.promise)

    def _possible(self, value: float) -> tuple[int, Floats]:
        """Return the first true count that can give this value, and P(value | x) from there on."""
        raise NotImplementedError

    def check_values(self, values: ArrayLike) -> Floats:
        array = super().check_values(values)
        seen = set(array[~np.isnan(array)])
        impossible = [value for value in seen if not (self._possible(value)[1] > 0.0).any()]
        wrong = np.isin(array, impossible)
        self._refuse(f"what {type(self).__name__} can publish", array, wrong)
        return array

    def record_laws(self, values: Floats) -> CellLaws:
        """Return log P(s_i | x_i) as tables, one for each distinct value."""
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

    def record_tails(self, records: NDArray[Any], values: Floats) -> Floats:
        """Return tails that treat s_i as certain, (3, n): it is nearly determined by the count."""
        return np.repeat([[-np.inf], [0.0], [-np.inf]], len(values), axis=1)

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        family, parameters, table = self.record_laws(values[index])
        place = np.asarray(records, dtype=np.int64) - parameters[:, 0].astype(np.int64)
        inside = (family == TABLE) & (place >= 0) & (place < parameters[:, 2])
        scores = np.where(family == TABLE, -np.inf, 0.0)
        scores[inside] = table[parameters[inside, 1].astype(np.int64) + place[inside]]
        return scores[:, np.newaxis]

    def words(self) -> list[str]:
        return [first_line(self), f"There is no guarantee: {self.promise}."]


class RandomRounding(CountLaw):
    """Counts rounded at random to a multiple of a base, up or down, so that the mean is kept.

    A multiple is kept. Any other count x goes up with probability (x mod base) / base, and down
    otherwise: Statistics New Zealand's random rounding to base 3, for example.

    Parameters
    ----------
    base
        At least 2.
    """

    needed = ("base",)
    example_arguments = {"base": 3}
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


class CellKey(CountLaw):
    """Counts perturbed by a table of probabilities, as cell-key methods do.

    Parameters
    ----------
    probabilities
        (K, D). Row x holds the probabilities of the perturbations `lowest`, `lowest` + 1, ... of a
        true count x; the last row also serves all larger counts.
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
    example_arguments = {"probabilities": [[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], "lowest": -1}
    promise = "perturbation by a table is not differential privacy"

    def __init__(self, probabilities: ArrayLike, lowest: int) -> None:
        table = np.array(probabilities, dtype=np.float64)
        self.probabilities = stochastic("probabilities", table, table.shape)
        if isinstance(lowest, bool) or int(lowest) != lowest:
            raise ValueError(f"lowest must be an integer; got {lowest!r}")
        self.lowest = int(lowest)
        K, D = table.shape
        published = np.add.outer(np.arange(K), self.lowest + np.arange(D))
        for x, j in np.argwhere((self.probabilities > 0.0) & (published < 0))[:1]:
            raise ValueError(
                f"probabilities must publish no negative count; row {x} has "
                f"{self.probabilities[x, j]} for {published[x, j]}"
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
        rows = self.probabilities[np.minimum(records, len(self.probabilities) - 1)]
        return (records + self.lowest + drawn_columns(rows, rng)).astype(np.float64)


class LocalExact(CountLaw):
    """Each record's number as it is.

    Parameters
    ----------
    integer_valued
        Whether the numbers are counts or levels, from 0, rather than any real numbers.
    """

    optional_arguments = ("integer_valued",)
    promise = "the numbers are published as they are"

    def __init__(self, *, integer_valued: bool = True) -> None:
        self._hold()
        self.integer_valued = self.discrete = bool(integer_valued)
        self.query = Value(integer_valued=self.integer_valued)

    def check_values(self, values: ArrayLike) -> Floats:
        return (CountLaw if self.integer_valued else LocalMechanism).check_values(self, values)

    def record_laws(self, values: Floats) -> CellLaws:
        """Return the laws that fix x_i to s_i where there is one."""
        if self.integer_valued:
            return super().record_laws(values)
        nothing = np.isnan(values)
        parameters = np.zeros((len(values), N_PARAMETERS))
        parameters[~nothing, 0] = values[~nothing]
        return CellLaws(np.where(nothing, GAUSSIAN, EXACT), parameters, np.zeros(0))

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return 0 where x_i = s_i or s_i is missing, and minus infinity elsewhere, (m, 1)."""
        seen = values[index]
        right = np.isnan(seen) | (seen == np.asarray(records, dtype=np.float64))
        return np.where(right, 0.0, -np.inf)[:, np.newaxis]

    def _possible(self, value: float) -> tuple[int, Floats]:
        return max(0, int(value)), np.array([float(value >= 0)])

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return np.asarray(records, dtype=np.float64)


MECHANISMS.add(RandomizedResponse, RandomRounding, CellKey, LocalExact)
