"""The logistic loss of rows that are shortened to a published length, as in diffprivlib.

A row x of features that is longer than `norm` (in the l2 norm) is replaced by x norm / ||x||. An
intercept is a 1 before the shortened row. With p = P(y = 1 | s), the gradient of a record is
(p - y) (1, x), and its Hessian p (1 - p) (1, x)(1, x)'.

`free_intercept` is taken from the ridge of the intercept: each record adds -free_intercept s_0^2/2,
so that n records and the ridge r of `ObjectivePerturbation` leave r - n free_intercept for it. What
is minimised is convex as long as that is not negative.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import positive, whole_number
from noiseaware.basics.described import Described
from noiseaware.contract import Floats, Neighbours
from noiseaware.mechanisms.losses import from_triangle
from noiseaware.queries.arguments import as_float_records, check_norm, check_numbers
from noiseaware.registry import LOSSES


class RowNormLogisticLoss(Described):
    """log(1 + exp(s'x)) - y s'x, of rows shortened to a largest length.

    Parameters
    ----------
    n_features
        Features of a record; records are (n, n_features + 1), the response last, 0 or 1.
    norm
        The largest l2 norm of the features of a record.
    intercept
        Whether s starts with an intercept.
    free_intercept
        What each record takes from the ridge of the intercept.
    """

    n_features: int
    norm: float
    intercept: bool
    free_intercept: float
    names: tuple[str, ...]
    example_arguments: ClassVar[dict[str, Any]] = {"n_features": 1, "norm": 1.0}

    def __init__(
        self, n_features: int, norm: float, intercept: bool = False, free_intercept: float = 0.0
    ) -> None:
        p = whole_number("n_features", n_features)
        free = float(free_intercept)
        if not 0.0 <= free < math.inf:
            raise ValueError(f"free_intercept must be at least 0; got {free_intercept!r}")
        features = tuple(f"x{j}" for j in range(1, p + 1))
        self._hold(
            n_features=p,
            norm=positive("norm", norm),
            intercept=bool(intercept),
            free_intercept=free,
            names=("intercept", *features) if intercept else features,
        )

    def derivatives(self, records: ArrayLike, s: Floats) -> Floats:
        """Return gradient and upper triangle of the Hessian of each record, (n, q + q(q+1)/2)."""
        array, s = as_float_records(records), np.asarray(s, dtype=np.float64)
        x, y = array[:, :-1], array[:, -1]
        length = np.sqrt(np.einsum("ij,ij->i", x, x))
        x = x * np.minimum(1.0, self.norm / np.maximum(length, self.norm))[:, np.newaxis]
        if self.intercept:
            x = np.column_stack((np.ones(len(x)), x))
        p = 0.5 * (1.0 + np.tanh(0.5 * (x @ s)))
        gradient = (p - y)[:, np.newaxis] * x
        rows, columns = np.triu_indices(x.shape[1])
        hessian = (p * (1.0 - p))[:, np.newaxis] * x[:, rows] * x[:, columns]
        if self.intercept:
            gradient[:, 0] -= self.free_intercept * s[0]
            hessian[:, 0] -= self.free_intercept
        return np.column_stack((gradient, hessian))

    def gradient(self, records: ArrayLike, s: Floats) -> Floats:
        """Return the gradient of each record's loss at s, (n, q)."""
        return self.derivatives(records, s)[:, : len(self.names)]

    def hessian(self, records: ArrayLike, s: Floats) -> Floats:
        """Return the Hessian of each record's loss at s, (n, q, q)."""
        q = len(self.names)
        return from_triangle(self.derivatives(records, s)[:, q:], q)

    @property
    def _longest(self) -> float:
        return math.sqrt(self.norm**2 + self.intercept)

    def sensitivity(self, norm: float = 2, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the summed gradient, in the l2 norm."""
        check_norm(norm, neighbours)
        if norm != 2:
            raise ValueError(f"the sensitivity of a RowNormLogisticLoss is in norm 2; got {norm}")
        return 2.0 * self._longest if neighbours == "change" else self._longest

    def hessian_bound(self) -> tuple[float, int]:
        """Return the largest eigenvalue of a record's Hessian and its rank.

        Infinite if a part of the ridge is taken away: the determinant is then not bounded by it.
        """
        return (math.inf if self.free_intercept else 0.25 * self._longest**2), 1

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the shape is right and the response is 0 or 1."""
        array = np.asarray(records)
        check_numbers(array)
        if array.ndim != 2 or array.shape[1] != self.n_features + 1:
            raise ValueError(
                f"records must have shape (n, {self.n_features + 1}), the response last; "
                f"got {array.shape}"
            )
        bad = (array[:, -1] != 0) & (array[:, -1] != 1)
        if bad.any():
            raise ValueError(
                f"the response (the last entry of a record) must be 0 or 1; got {array[bad][0, -1]}"
            )

    def words(self) -> list[str]:
        """Return what was minimised, in sentences for the report."""
        return [
            "The coefficients of a logistic regression. For this, a record whose features are "
            f"longer than {self.norm:.4g} was shortened to that length; this analysis takes that "
            "into account."
        ]


LOSSES.add(RowNormLogisticLoss)
