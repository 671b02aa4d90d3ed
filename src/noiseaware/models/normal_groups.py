"""Groups with normal outcomes: the methods of `TwoMeans` and `StratifiedMeans`.

Records are float64 ``(n, 2)``, the group and the outcome, which is N(m_g, v_g). With u standard
normal, it is m_g + sqrt(v_g) u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.models.arguments import read_finite, read_floats
from noiseaware.models.groups import Groups

_LOG_2PI = math.log(2.0 * math.pi)


class Model(Protocol):
    """What the methods here need of a model."""

    _groups: Groups

    def _read(self, theta: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and the variance of each group."""


@njit(cache=True, nogil=True)
def _build(groups, means, variances, innovations, records):
    """Write m_g + sqrt(v_g) u_i; NaN if a variance is negative."""
    for i in range(records.shape[0]):
        group = groups[i]
        variance = variances[group]
        sd = math.sqrt(variance) if variance >= 0.0 else math.nan
        records[i, 0] = group
        records[i, 1] = means[group] + sd * innovations[i, 0]


@njit(cache=True, nogil=True)
def _recover(means, variances, records, innovations):
    """Write (x_i - m_g) / sqrt(v_g), NaN if v_g is not positive; False at a wrong group."""
    for i in range(records.shape[0]):
        if not 0.0 <= records[i, 0] < means.shape[0]:
            return False
        group = int(records[i, 0])
        if group != records[i, 0]:
            return False
        variance = variances[group]
        sd = math.sqrt(variance) if variance > 0.0 else math.nan
        innovations[i, 0] = (records[i, 1] - means[group]) / sd
    return True


@njit(cache=True, nogil=True)
def _sum(records, sums, sizes):
    """Add up the outcomes and the records of each group; False at a wrong group."""
    for i in range(records.shape[0]):
        if not 0.0 <= records[i, 0] < sums.shape[0]:
            return False
        group = int(records[i, 0])
        if group != records[i, 0]:
            return False
        sums[group] += records[i, 1]
        sizes[group] += 1.0
    return True


@njit(cache=True, nogil=True)
def sum_squares(records, means, squares):
    """Add (x_i - m_g)^2 to the group's entry of `squares`; the groups were seen to be right."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        difference = records[i, 1] - means[group]
        squares[group] += difference * difference


def check_records(self: Model, records: ArrayLike) -> None:
    """Raise ValueError if these cannot be records of this model."""
    groups, n_groups = read_finite(records, 2)[:, 0], len(self._groups)
    wrong = (groups < 0) | (groups >= n_groups) | (groups != np.floor(groups))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(
            f"records must hold whole numbers from 0 to {n_groups - 1} as the group; "
            f"got {groups[where]} in record {where}"
        )


def sample_records(
    self: Model,
    theta: Mapping[str, Any],
    n: int,
    rng: np.random.Generator,
    index: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Draw the records of these numbers, or the first n, from f(. | theta); ``(n, 2)``."""
    return build_records(self, theta, rng.standard_normal((n, 1)), index)


def log_likelihood(
    self: Model, theta: Mapping[str, Any], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta) for each record; shape ``(n,)``."""
    records = read_floats("records", records, 2)
    u = recover_innovations(self, theta, records)[:, 0]
    v = self._read(theta)[1][records[:, 0].astype(np.int64)]
    positive = v > 0.0
    logs = np.log(v, out=np.zeros_like(v), where=positive)
    return np.where(positive, -0.5 * (u * u + _LOG_2PI + logs), -math.inf)


def build_records(
    self: Model, theta: Mapping[str, Any], innovations: ArrayLike, index: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the records F(u_i; theta), ``(n, 2)``, of innovations ``(n, 1)``."""
    innovations = read_floats("innovations", innovations, 1)
    groups = self._groups.of(len(innovations), index)
    records = np.empty((len(innovations), 2))
    _build(groups, *self._read(theta), innovations, records)
    return records


def recover_innovations(
    self: Model,
    theta: Mapping[str, Any],
    records: ArrayLike,
    rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Return the u_i with F(u_i; theta) = x_i, ``(n, 1)``; no randomness is needed."""
    records = read_floats("records", records, 2)
    innovations = np.empty((len(records), 1))
    if not _recover(*self._read(theta), records, innovations):
        check_records(self, records)
    return innovations


def sums(
    self: Model, records: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of the outcomes and the number of records in each group."""
    totals, sizes = np.zeros(len(self._groups)), np.zeros(len(self._groups))
    if not _sum(records, totals, sizes):
        check_records(self, records)
    return totals, sizes
