"""The functional mechanism: the noisy coefficients of a polynomial objective (Zhang et al. 2012).

Written as a polynomial in the weights w, the summed loss has coefficients that are sums over the
records. Laplace noise on these makes the whole objective private. For records (x, y), without an
intercept, as in the paper:

    linear:    sum (y - x'w)^2
               = sum y^2 - sum_j (sum 2 y x_j) w_j + sum_jk (sum x_j x_k) w_j w_k
    logistic:  sum log(1 + exp(x'w)) - y x'w, with log(1 + exp(z)) replaced by its Taylor
               polynomial at 0, log 2 + z / 2 + z^2 / 8:
               n log 2 + sum_j (sum (1/2 - y) x_j) w_j + sum_jk (sum x_j x_k / 8) w_j w_k

(w_j w_k and w_k w_j are one monomial, whose coefficient combines both; n log 2 is public.) The
release is these coefficients plus Laplace noise, so g is that of `Laplace`, and the records enter
through `ObjectiveCoefficients`. The Taylor polynomial defines the released statistic, so inference
involves no approximation.

Sensitivity: a record's coefficients have l1 norm at most S, so changing one moves the total by at
most 2 S, the bound that the paper uses. Features (and the linear response) are scaled to [-1, 1]:
S = (1 + p)^2 for linear, and p / 2 + p^2 / 8 for logistic regression.

**A release of only the minimiser is not covered.** There are more coefficients than weights, so
many noisy objectives share a minimiser, and its density is an integral over all of them. The noisy
quadratic form need not be positive definite (the paper then repairs it with a ridge and by cutting
eigenvalues), so the integral has no closed form and g cannot be evaluated. Ask the curator for the
coefficients: they are private already, and more informative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from noiseaware.contract import Floats, Neighbours
from noiseaware.mechanisms.additive import Laplace
from noiseaware.mechanisms.losses import RegressionLoss, RegressionRecords, scaled
from noiseaware.mechanisms.ready import ReadyMechanism
from noiseaware.queries.arguments import as_float_records, check_norm
from noiseaware.registry import MECHANISMS, QUERIES


@njit(cache=True, nogil=True)
def objective_coefficients(linear, records, lower, upper, result):
    """Fill each row of `result` with the coefficients of a record; `records` is (n, p + 1)."""
    n, width = records.shape
    p = width - 1
    x = np.empty(width)
    for i in range(n):
        for j in range(width):
            x[j] = scaled(records[i, j], lower[j], upper[j])
        position = 0
        if linear:
            first, second = -2.0 * x[p], 1.0
            result[i, 0] = x[p] * x[p]
            position = 1
        else:
            first, second = 0.5 - records[i, p], 0.125
        for j in range(p):
            result[i, position] = first * x[j]
            position += 1
        for j in range(p):
            for k in range(j, p):
                twice = 1.0 if j == k else 2.0
                result[i, position] = twice * second * x[j] * x[k]
                position += 1


class ObjectiveCoefficients(RegressionRecords):
    """The coefficients of a regression's polynomial objective, one for each monomial.

    Parameters
    ----------
    loss
        `"linear"` or `"logistic"`.
    n_features
        Number of features; records are (n, n_features + 1), the response last (0 or 1 if
        logistic).
    lower, upper
        Bounds: numbers, or one for each feature and, if linear, the response.

    Examples
    --------
    >>> query = ObjectiveCoefficients("linear", 1, lower=-1.0, upper=1.0)
    >>> query.names
    ('1', 'w1', 'w1*w1')
    >>> query.statistic(np.array([[0.5, 1.0]]))
    array([[ 1.  , -1.  ,  0.25]])
    """

    loss: str
    example_arguments = {"loss": "linear", **RegressionLoss.example_arguments}

    def __init__(self, loss: str, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        if loss not in ("linear", "logistic"):
            raise ValueError(f"loss must be 'linear' or 'logistic'; got {loss!r}")
        self._hold(loss=loss, linear=loss == "linear")
        self._hold_bounds(n_features, lower, upper)
        weights = [f"w{j}" for j in range(1, n_features + 1)]
        pairs = [f"{a}*{b}" for j, a in enumerate(weights) for b in weights[j:]]
        self._hold(names=(*(["1"] if self.linear else []), *weights, *pairs))

    def statistic(self, records: ArrayLike) -> Floats:
        """Return each record's coefficients, (n, d)."""
        array = as_float_records(records)
        result = np.empty((len(array), len(self.names)))
        objective_coefficients(self.linear, array, self._lower, self._upper, result)
        return result

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return an upper bound on the l1 sensitivity."""
        check_norm(norm, neighbours)
        if norm != 1:
            raise ValueError(f"ObjectiveCoefficients knows its l1 sensitivity only; got {norm!r}")
        p = self.n_features
        largest = (1.0 + p) ** 2 if self.linear else p / 2.0 + p * p / 8.0
        return 2.0 * largest if neighbours == "change" else largest


class Functional(Laplace):
    """Laplace noise on the coefficients of a regression's polynomial objective.

    The released values are the noisy coefficients, not the minimiser.

    Parameters
    ----------
    loss, n_features, lower, upper
        As in `ObjectiveCoefficients`.
    epsilon
        Pure differential privacy to reach: scale = (l1 sensitivity) / epsilon.
    scale
        Alternatively, the published scale.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> mechanism = Functional("linear", 1, lower=-1.0, upper=1.0, epsilon=2.0)
    >>> mechanism.scale
    4.0
    """

    example_arguments = {**ObjectiveCoefficients.example_arguments, "epsilon": 2.0}

    def __init__(
        self,
        loss: str,
        n_features: int,
        lower: ArrayLike,
        upper: ArrayLike,
        epsilon: float | None = None,
        scale: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        query = ObjectiveCoefficients(loss, n_features, lower, upper)
        super().__init__(query, epsilon, scale, neighbours)

    @classmethod
    def _made(cls, arguments: dict[str, Any]) -> Functional:
        query = arguments.pop("query")
        if not isinstance(query, ObjectiveCoefficients):
            raise ValueError("the query of a mechanism 'Functional' must be ObjectiveCoefficients")
        return cls(query.loss, query.n_features, query.lower, query.upper, **arguments)

    def words(self) -> list[str]:
        return ReadyMechanism.words(self)


QUERIES.add(ObjectiveCoefficients)
MECHANISMS.add(Functional)
