"""Losses for mechanisms that release a minimiser.

A loss assigns each record a convex function of the output s, with q entries. The density of the
release needs only the summed gradient and Hessian at s_dp. Your own loss is a plain class with the
attributes of `noiseaware.contract.Loss` and `LossAbilities`; a guarantee needs `sensitivity` and,
without a grid, `hessian_bound`.

Features are clamped to published bounds and scaled to [-1, 1], as in `queries.RegressionMoments`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive, whole_number
from noiseaware.basics.deprecated import renamed
from noiseaware.basics.described import Clamping, Described
from noiseaware.contract import Floats, Loss, Neighbours, loss_abilities, missing
from noiseaware.queries.arguments import (
    Bound,
    as_bounds,
    as_float_records,
    bound_array,
    check_norm,
    check_numbers,
)
from noiseaware.registry import LOSSES


@njit(cache=True, nogil=True)
def scaled(value, lower, upper):
    """Return the value clamped to its bounds and scaled to [-1, 1]."""
    return 2.0 * (min(max(value, lower), upper) - lower) / (upper - lower) - 1.0


@njit(cache=True, nogil=True)
def regression_derivatives(linear, records, s, lower, upper, intercept, result):
    """Fill each row of `result` with the gradient (q) and upper triangle of the Hessian at s.

    `records` is (n, p + 1), the response last; `lower` and `upper` are (p + 1,).
    """
    n, width = records.shape
    p, q = width - 1, len(s)
    x = np.ones(q)
    for i in range(n):
        score = s[0] if intercept else 0.0
        for j in range(p):
            x[q - p + j] = scaled(records[i, j], lower[j], upper[j])
            score += s[q - p + j] * x[q - p + j]
        if linear:
            first, second = score - scaled(records[i, p], lower[p], upper[p]), 1.0
        else:
            # Two forms of the logistic function, so that exp never overflows.
            if score >= 0.0:
                probability = 1.0 / (1.0 + math.exp(-score))
            else:
                probability = math.exp(score) / (1.0 + math.exp(score))
            first, second = probability - records[i, p], probability * (1.0 - probability)
        position = q
        for j in range(q):
            result[i, j] = first * x[j]
            for k in range(j, q):
                result[i, position] = second * x[j] * x[k]
                position += 1


class RegressionRecords(Clamping):
    """Records (n, p + 1), the response last; 0 or 1 if the regression is logistic."""

    linear: bool
    n_features: int
    names: tuple[str, ...]
    lower: Bound
    upper: Bound
    _lower: Floats
    _upper: Floats

    def _hold_bounds(self, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        """Keep the bounds; lists include the response only if the regression is linear."""
        p = whole_number("n_features", n_features)
        low, high = as_bounds(lower, upper)
        bounded = p + self.linear
        for name, bound in (("lower", low), ("upper", high)):
            if isinstance(bound, tuple) and len(bound) != bounded:
                raise ValueError(f"{name} must be a number or {bounded} numbers; got {len(bound)}")
            self._hold(**{f"_{name}": np.resize(bound_array(bound, bounded), p + 1)})
        self._hold(n_features=p, lower=low, upper=high)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the shape is right and a logistic response is 0 or 1."""
        array = np.asarray(records)
        check_numbers(array)
        if array.ndim != 2 or array.shape[1] != self.n_features + 1:
            raise ValueError(
                f"records must have shape (n, {self.n_features + 1}), the response last; "
                f"got {array.shape}"
            )
        response = array[:, -1]
        bad = (response != 0) & (response != 1)
        if not self.linear and bad.any():
            raise ValueError(
                f"the response (the last entry of a record) must be 0 or 1; got {response[bad][0]}"
            )


class RegressionLoss(RegressionRecords):
    """Base class of the regression losses."""

    intercept: bool
    example_arguments = {"n_features": 1, "lower": -1.0, "upper": 1.0}

    def __init__(
        self, n_features: int, lower: ArrayLike, upper: ArrayLike, intercept: bool = True
    ) -> None:
        self._hold_bounds(n_features, lower, upper)
        self._hold_names(n_features, intercept)

    def _hold_names(self, n_features: int, intercept: bool) -> None:
        features = tuple(f"x{j}" for j in range(1, n_features + 1))
        names = ("intercept", *features) if intercept else features
        self._hold(intercept=bool(intercept), names=names)

    def derivatives(self, records: ArrayLike, s: Floats) -> Floats:
        """Return the gradient and upper triangle of the Hessian by record, (n, q + q(q+1)/2)."""
        array, s = as_float_records(records), np.ascontiguousarray(s, dtype=np.float64)
        q = len(self.names)
        result = np.empty((len(array), q + q * (q + 1) // 2))
        regression_derivatives(
            self.linear, array, s, self._lower, self._upper, self.intercept, result
        )
        return result

    def gradient(self, records: ArrayLike, s: Floats) -> Floats:
        """Return the gradient of each record's loss at s, (n, q)."""
        return self.derivatives(records, s)[:, : len(self.names)]

    def hessian(self, records: ArrayLike, s: Floats) -> Floats:
        """Return the Hessian of each record's loss at s, (n, q, q)."""
        q = len(self.names)
        return from_triangle(self.derivatives(records, s)[:, q:], q)


class LogisticLoss(RegressionLoss):
    """log(1 + exp(s'x)) - y s'x, for a response y of 0 or 1.

    With p = P(y = 1), the gradient is (p - y) x, no longer than x, and the Hessian p (1 - p) x x'.

    Parameters
    ----------
    n_features
        Number of features; records are (n, n_features + 1), the response last.
    lower, upper
        Bounds of the features: numbers, or one for each feature.
    intercept
        Whether s starts with an intercept.
    """

    linear = False

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the summed gradient, the supremum over s."""
        check_norm(norm, neighbours)
        q = len(self.names)
        longest = float(q) ** (0.0 if math.isinf(norm) else 1.0 / norm)
        return 2.0 * longest if neighbours == "change" else longest

    def hessian_bound(self) -> tuple[float, int]:
        """Return the largest eigenvalue of a record's Hessian, x'x / 4, and its rank."""
        return 0.25 * len(self.names), 1


class RowNormLogisticLoss(RegressionLoss):
    """log(1 + exp(s'x)) - y s'x, with rows x clipped to a largest length, as in diffprivlib.

    A feature row x longer than `norm` (in the l2 norm) becomes x norm / ||x||. An intercept is a 1
    before the clipped row.

    Each record adds -free_intercept s_0^2 / 2, which reduces the ridge r of `ObjectivePerturbation`
    to r - n free_intercept for the intercept. The objective is convex if that is not negative.

    Parameters
    ----------
    n_features
        Number of features; records are (n, n_features + 1), the response last, 0 or 1.
    norm
        The largest l2 norm of a record's features.
    intercept
        Whether s starts with an intercept.
    free_intercept
        How much each record takes off the ridge of the intercept.
    """

    linear = False
    norm: float
    free_intercept: float
    example_arguments = {"n_features": 1, "norm": 1.0}

    def __init__(
        self, n_features: int, norm: float, intercept: bool = False, free_intercept: float = 0.0
    ) -> None:
        p = whole_number("n_features", n_features)
        free = float(free_intercept)
        if not 0.0 <= free < math.inf:
            raise ValueError(f"free_intercept must be at least 0; got {free_intercept!r}")
        self._hold_names(p, intercept)
        self._hold(n_features=p, norm=positive("norm", norm), free_intercept=free)

    def derivatives(self, records: ArrayLike, s: Floats) -> Floats:
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

        Infinite with `free_intercept`, because the ridge then does not bound the determinant.
        """
        return (math.inf if self.free_intercept else 0.25 * self._longest**2), 1

    def words(self) -> list[str]:
        return [
            "The coefficients of a logistic regression. For this, a record whose features are "
            f"longer than {self.norm:.4g} was shortened to that length; this analysis takes that "
            "into account."
        ]


class LinearLoss(RegressionLoss):
    """(y - s'x)^2 / 2, with the response clamped and scaled to [-1, 1] like the features.

    Its gradient is unbounded in s, so it has no sensitivity: a mechanism that uses it needs the
    published scale, and its guarantee is unknown. (Restricting s to a bounded set gives a
    guarantee, but the minimiser can then lie on the edge, which the densities here do not cover.)

    Parameters
    ----------
    n_features
        Number of features; records are (n, n_features + 1), the response last.
    lower, upper
        Bounds: numbers, or n_features + 1 of them, the response last.
    intercept
        Whether s starts with an intercept.
    """

    linear = quadratic = True

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Raise ValueError: the gradient is not bounded."""
        check_norm(norm, neighbours)
        raise ValueError("the gradient of LinearLoss is not bounded over all outputs s")

    def hessian_bound(self) -> tuple[float, int]:
        """Return the largest eigenvalue of a record's Hessian, x'x, and its rank."""
        return float(len(self.names)), 1


def check_scalars(records: ArrayLike) -> None:
    """Raise ValueError unless the records are finite numbers, (n,)."""
    array = np.asarray(records)
    check_numbers(array)
    if array.ndim != 1:
        raise ValueError(f"records must have shape (n,); got {array.shape}")


class MeanLoss(Clamping):
    """(s - x)^2 / 2 for records x (n,) clamped to bounds; minimised by the clamped mean.

    Parameters
    ----------
    lower, upper
        The bounds, two numbers.
    """

    names = ("mean",)
    quadratic = constant_hessian = True
    check_records = staticmethod(check_scalars)
    lower: float
    upper: float
    example_arguments = {"lower": 0.0, "upper": 5.0}

    def __init__(self, lower: float, upper: float) -> None:
        low, high = as_bounds(lower, upper)
        if isinstance(low, tuple) or isinstance(high, tuple):
            raise ValueError(f"lower and upper must be numbers; got {lower!r}, {upper!r}")
        self._hold(lower=low, upper=high)

    def gradient(self, records: ArrayLike, s: Floats) -> Floats:
        """Return s - x, (n, 1)."""
        x = np.clip(as_float_records(records), self.lower, self.upper)
        return (s[0] - x)[:, np.newaxis]

    def hessian(self, records: ArrayLike, s: Floats) -> Floats:
        """Return 1 for each record, (n, 1, 1)."""
        return np.ones((np.shape(records)[0], 1, 1))

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return upper - lower: s cancels when a record is changed."""
        check_norm(norm, neighbours)
        if neighbours == "add-remove":
            raise ValueError(
                "the gradient of MeanLoss is not bounded over all outputs s when a record is added "
                "or removed"
            )
        return self.upper - self.lower

    def hessian_bound(self) -> tuple[float, int]:
        """Return 1 and rank 1."""
        return 1.0, 1


class QuantileLoss(Described):
    """The pinball loss of records x (n,), minimised by a quantile.

    Its gradient is 1{x <= s} - quantile (a subgradient at s = x). It has no Hessian, so it needs a
    grid of outputs.

    Parameters
    ----------
    quantile
        The quantile's level, strictly between 0 and 1.
    """

    names = ("quantile",)
    check_records = staticmethod(check_scalars)
    quantile: float
    example_arguments = {"quantile": 0.5}

    def __init__(self, quantile: float = 0.5) -> None:
        if isinstance(quantile, bool | str) or not 0.0 < quantile < 1.0:
            raise ValueError(f"quantile must be strictly between 0 and 1; got {quantile!r}")
        self._hold(quantile=float(quantile))

    def gradient(self, records: ArrayLike, s: Floats) -> Floats:
        """Return 1{x <= s} - quantile, (n, 1)."""
        return ((np.asarray(records) <= s[0]) - self.quantile)[:, np.newaxis]

    def gradients(self, records: ArrayLike, grid: Floats) -> Floats:
        """Return the gradient at every point of a grid (K, 1) at once, (n, K, 1)."""
        below = np.asarray(records)[:, np.newaxis, np.newaxis] <= grid
        return below.astype(np.float64) - self.quantile

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the summed gradient."""
        check_norm(norm, neighbours)
        return 1.0 if neighbours == "change" else max(self.quantile, 1.0 - self.quantile)


@functools.cache
def _triangle(q: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of an upper triangle; cached, because it is slow."""
    return np.triu_indices(q)


def from_triangle(triangles: Floats, q: int) -> Floats:
    """Return the symmetric matrices (n, q, q) of upper triangles (n, q (q + 1) / 2)."""
    rows, columns = _triangle(q)
    result = np.empty((len(triangles), q, q))
    result[:, rows, columns] = triangles
    result[:, columns, rows] = triangles
    return result


def derivatives(loss: Any, records: Any, s: Floats) -> Floats:
    """Return the gradient and upper triangle of the Hessian of each record at s, checked, C order.

    A loss with a method `derivatives` computes both at once.
    """
    at_once = loss_abilities(loss).derivatives
    if at_once is not None:
        return at_once(records, s)
    n, q, name = len(records), len(loss.names), type(loss).__name__
    first = np.asarray(loss.gradient(records, s), dtype=np.float64)
    second = np.asarray(loss.hessian(records, s), dtype=np.float64)
    if first.shape != (n, q):
        raise ValueError(f"{name}.gradient must return shape {(n, q)}; got {first.shape}")
    if second.shape != (n, q, q):
        raise ValueError(f"{name}.hessian must return shape {(n, q, q)}; got {second.shape}")
    rows, columns = _triangle(q)
    return np.ascontiguousarray(np.hstack([first, second[:, rows, columns]]))


def check_loss(loss: Any, *, hessian: bool = False) -> None:
    """Raise TypeError unless `loss` has what a mechanism needs."""
    lacks = missing(loss, Loss)
    if hessian and loss_abilities(loss).hessian is None:
        lacks.append("hessian")
    if lacks or isinstance(loss, type):
        raise TypeError(
            "loss must be a loss, such as noiseaware.mechanisms.LogisticLoss(2, -1.0, 1.0); "
            f"got {loss!r}" + (f", which has no {', '.join(lacks)}" if lacks else "")
        )


from_dict = LOSSES.read

LOSSES.add(LogisticLoss, RowNormLogisticLoss, LinearLoss, MeanLoss, QuantileLoss)

__getattr__ = renamed(
    "noiseaware.mechanisms.losses", {"LossLike": ("noiseaware.contract.Loss", Loss)}
)
