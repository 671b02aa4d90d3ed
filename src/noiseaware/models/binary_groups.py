"""Groups with yes-or-no outcomes: the methods of `TwoProportions` and `StratifiedProportions`.

Records are int64 ``(n, 2)``, the group and the outcome, and P(outcome = 1) = p_g. With u uniform on
[0, 1), the outcome is 1 if u < p_g, else 0; given the outcome, u is uniform on [0, p_g) or
[p_g, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.models.arguments import check_levels, read_floats, read_integers, read_parameter
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.groups import Groups
from noiseaware.models.inverse_cdf import SPACING, uniform_between


class Model(Protocol):
    """What the methods here need of a model; its parameter is ``proportions`` (G,)."""

    _groups: Groups


@njit(cache=True, nogil=True)
def _edge(probability):
    """Return p, kept inside (0, 1) so that both outcomes own a float."""
    return min(max(probability, SMALLEST), 1.0 - SPACING)


@njit(cache=True, nogil=True)
def _build(groups, probabilities, innovations, records):
    for i in range(records.shape[0]):
        records[i, 0] = groups[i]
        records[i, 1] = innovations[i, 0] < _edge(probabilities[groups[i]])


@njit(cache=True, nogil=True)
def _recover(probabilities, records, innovations):
    """Move each uniform into [0, p_g) or [p_g, 1); False at a wrong record."""
    for i in range(records.shape[0]):
        group = records[i, 0]
        if not 0 <= group < probabilities.shape[0]:
            return False
        edge = _edge(probabilities[group])
        v = innovations[i, 0]
        if records[i, 1] == 1:
            innovations[i, 0] = uniform_between(0.0, edge, v)
        elif records[i, 1] == 0:
            innovations[i, 0] = uniform_between(edge, 1.0, v)
        else:
            return False
    return True


@njit(cache=True, nogil=True)
def _count(records, ones, sizes):
    """Add up the ones and the records of each group; False at a wrong record."""
    for i in range(records.shape[0]):
        group = records[i, 0]
        if not 0 <= group < ones.shape[0] or not 0 <= records[i, 1] <= 1:
            return False
        ones[group] += records[i, 1]
        sizes[group] += 1
    return True


def read(self: Model, theta: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the p_g."""
    return read_parameter(theta, "proportions", (len(self._groups),))


def check_records(self: Model, records: ArrayLike) -> None:
    """Raise ValueError or TypeError if these cannot be records of this model."""
    levels, names = [len(self._groups), 2], ["the group", "the outcome"]
    check_levels(read_integers(records, 2), levels, names)


def sample_records(
    self: Model,
    theta: Mapping[str, Any],
    n: int,
    rng: np.random.Generator,
    index: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Draw the records of these numbers, or the first n, from f(. | theta); ``(n, 2)``."""
    return build_records(self, theta, rng.random((n, 1)), index)


def log_likelihood(
    self: Model, theta: Mapping[str, Any], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta) for each record; shape ``(n,)``."""
    array = read_integers(records, 2)
    check_records(self, array)
    p = read(self, theta)[array[:, 0]]
    with np.errstate(divide="ignore"):
        return np.where(array[:, 1] == 1, np.log(p), np.log1p(-p))


def build_records(
    self: Model, theta: Mapping[str, Any], innovations: ArrayLike, index: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Return the records F(u_i; theta), ``(n, 2)``, of innovations ``(n, 1)``."""
    innovations = read_floats("innovations", innovations, 1)
    groups = self._groups.of(len(innovations), index)
    records = np.empty((len(innovations), 2), dtype=np.int64)
    _build(groups, read(self, theta), innovations, records)
    return records


def recover_innovations(
    self: Model, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
    array = read_integers(records, 2)
    innovations = rng.random((len(array), 1))
    if not _recover(read(self, theta), array, innovations):
        check_records(self, array)
    return innovations


def count(self: Model, records: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ones and the number of records in each group."""
    array = read_integers(records, 2)
    ones, sizes = np.zeros(len(self._groups)), np.zeros(len(self._groups))
    if not _count(array, ones, sizes):
        check_records(self, array)
    return ones, sizes
