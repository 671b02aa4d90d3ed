"""Randomized response: each person tells their level, or another one; see `local`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats
from noiseaware.mechanisms.calibrate import check_one_way, positive, probability
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.local import LocalMechanism, stochastic
from noiseaware.queries import Histogram
from noiseaware.registry import MECHANISMS


@njit(cache=True, nogil=True)
def response_scores(log_matrix, records, index, values, scores):
    """Fill in log h(s_i | x_i) for randomized response, from the logarithms of its table.

    `index` has the numbers of these records in the database, `values` all n released levels.
    """
    for i in range(index.shape[0]):
        level = int(values[index[i]])
        known = 0 <= level < log_matrix.shape[1]
        scores[i, 0] = log_matrix[records[i], level] if known else -np.inf


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


MECHANISMS.add(RandomizedResponse)
