"""Records in groups of known sizes: what the models of groups share.

A record is its group, an integer from 0, and its outcome. The sizes of the groups are public, so
the group of record i is fixed by i: the first n_0 records are in group 0, the next n_1 in group 1,
and so on. A model of groups says so with ``uses_index``, and the sampler then tells it which
records it is to make; see `Groups.of`. All other methods read the group from the record.

Two kinds of outcome:

*binary*, records int64 ``(n, 2)``: P(outcome = 1) = p_g. With u uniform on [0, 1), the outcome is 1
if u < p_g, else 0; given the outcome, u is uniform on [0, p_g) or [p_g, 1).

*normal*, records float64 ``(n, 2)``: the outcome is N(m_g, v_g). With u standard normal, it is
m_g + sqrt(v_g) u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.models.arguments import check_levels, read_finite, read_floats, read_integers
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.inverse_cdf import SPACING, uniform_between

_LOG_2PI = math.log(2.0 * math.pi)


class Groups:
    """The sizes and the names of the groups, and which record is in which.

    Parameters
    ----------
    sizes
        The number of records in each group.
    labels
        A name for each group; "0", "1", ... if not given.
    number
        The number of groups that there must be; None: two or more.
    """

    def __init__(
        self, sizes: Sequence[int], labels: Sequence[str] | None, number: int | None = None
    ) -> None:
        if isinstance(sizes, str) or not np.iterable(sizes):
            raise TypeError(f"sizes must list the number of records in each group; got {sizes!r}")
        self.sizes = tuple(
            whole_number(f"the size of group {group}", size) for group, size in enumerate(sizes)
        )
        if len(self.sizes) < 2 or len(self.sizes) != (number or len(self.sizes)):
            wanted = f"{number} numbers" if number else "at least 2 numbers"
            raise ValueError(f"sizes must be {wanted}, one for each group; got {list(sizes)!r}")
        self.given_labels = None if labels is None else list(labels)
        if labels is None:
            labels = [str(group) for group in range(len(self.sizes))]
        if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
            raise TypeError(f"labels must be a list of texts; got {labels!r}")
        if len(labels) != len(self.sizes) or len(set(labels)) != len(labels):
            raise ValueError(
                f"labels must be {len(self.sizes)} different texts; got {list(labels)!r}"
            )
        self.labels = tuple(labels)
        self.n_records = sum(self.sizes)
        self._group_of = np.repeat(np.arange(len(self.sizes)), self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def coords(self) -> dict[str, list[str]]:
        """The labels of the dimension ``group``."""
        return {"group": list(self.labels)}

    def of(self, n: int, index: ArrayLike | None) -> NDArray[np.int64]:
        """Return the groups of n records: those with these numbers, or the first n."""
        if index is None:
            if n > self.n_records:
                raise ValueError(f"n must be at most the model's {self.n_records} records; got {n}")
            return self._group_of[:n]
        index = np.asarray(index)
        if index.shape != (n,):
            raise ValueError(f"index must have shape ({n},), one a record; got {index.shape}")
        if n and not (index.min() >= 0 and index.max() < self.n_records):
            raise ValueError(
                f"index must be from 0 to {self.n_records - 1}; got {index.min()} to {index.max()}"
            )
        return self._group_of[index]


# Binary outcomes.


@njit(cache=True, nogil=True)
def _edge(probability):
    """Return p, kept inside (0, 1) so that both outcomes own a float."""
    return min(max(probability, SMALLEST), 1.0 - SPACING)


@njit(cache=True, nogil=True)
def _build_binary(groups, probabilities, innovations, records):
    for i in range(records.shape[0]):
        records[i, 0] = groups[i]
        records[i, 1] = innovations[i, 0] < _edge(probabilities[groups[i]])


@njit(cache=True, nogil=True)
def _recover_binary(probabilities, records, innovations):
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
def _count_binary(records, ones, sizes):
    """Add up the ones and the records of each group; False at a wrong record."""
    for i in range(records.shape[0]):
        group = records[i, 0]
        if not 0 <= group < ones.shape[0] or not 0 <= records[i, 1] <= 1:
            return False
        ones[group] += records[i, 1]
        sizes[group] += 1
    return True


def build_binary(
    groups: NDArray[np.int64], probabilities: NDArray[np.float64], innovations: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the records ``(n, 2)`` of innovations ``(n, 1)``."""
    records = np.empty((len(innovations), 2), dtype=np.int64)
    _build_binary(groups, probabilities, innovations, records)
    return records


def recover_binary(
    probabilities: NDArray[np.float64], records: ArrayLike, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the innovations given the records, ``(n, 1)``."""
    array = read_integers(records, 2)
    innovations = rng.random((len(array), 1))
    if not _recover_binary(probabilities, array, innovations):
        check_binary(array, len(probabilities))
    return innovations


def count_binary(
    records: ArrayLike, n_groups: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ones and the number of records in each group."""
    array = read_integers(records, 2)
    ones, sizes = np.zeros(n_groups), np.zeros(n_groups)
    if not _count_binary(array, ones, sizes):
        check_binary(array, n_groups)
    return ones, sizes


def log_likelihood_binary(
    probabilities: NDArray[np.float64], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta), ``(n,)``."""
    array = read_integers(records, 2)
    check_binary(array, len(probabilities))
    p = probabilities[array[:, 0]]
    with np.errstate(divide="ignore"):
        return np.where(array[:, 1] == 1, np.log(p), np.log1p(-p))


def check_binary(records: ArrayLike, n_groups: int) -> None:
    """Raise ValueError or TypeError unless these are groups with zeros and ones."""
    check_levels(read_integers(records, 2), [n_groups, 2], ["the group", "the outcome"])


# Normal outcomes.


@njit(cache=True, nogil=True)
def _build_normal(groups, means, variances, innovations, records):
    """Write m_g + sqrt(v_g) u_i; NaN if a variance is negative."""
    for i in range(records.shape[0]):
        group = groups[i]
        variance = variances[group]
        sd = math.sqrt(variance) if variance >= 0.0 else math.nan
        records[i, 0] = group
        records[i, 1] = means[group] + sd * innovations[i, 0]


@njit(cache=True, nogil=True)
def _recover_normal(means, variances, records, innovations):
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
def _sum_normal(records, sums, sizes):
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


def build_normal(
    groups: NDArray[np.int64],
    means: NDArray[np.float64],
    variances: NDArray[np.float64],
    innovations: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the records ``(n, 2)`` of innovations ``(n, 1)``."""
    records = np.empty((len(innovations), 2))
    _build_normal(groups, means, variances, innovations, records)
    return records


def recover_normal(
    means: NDArray[np.float64], variances: NDArray[np.float64], records: ArrayLike
) -> NDArray[np.float64]:
    """Return the innovations of the records, ``(n, 1)``."""
    array = read_normal(records)
    innovations = np.empty((len(array), 1))
    if not _recover_normal(means, variances, array, innovations):
        check_normal(array, len(means))
    return innovations


def read_normal(records: ArrayLike) -> NDArray[np.float64]:
    """Return records as a contiguous float64 array ``(n, 2)``."""
    return read_floats("records", records, 2)


def sum_normal(
    records: NDArray[np.float64], n_groups: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum of the outcomes and the number of records in each group."""
    sums, sizes = np.zeros(n_groups), np.zeros(n_groups)
    if not _sum_normal(records, sums, sizes):
        check_normal(records, n_groups)
    return sums, sizes


def log_likelihood_normal(
    means: NDArray[np.float64], variances: NDArray[np.float64], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta), ``(n,)``; -inf where a variance is not positive."""
    u = recover_normal(means, variances, records)[:, 0]
    v = variances[read_normal(records)[:, 0].astype(np.int64)]
    positive = v > 0.0
    logs = np.log(v, out=np.zeros_like(v), where=positive)
    return np.where(positive, -0.5 * (u * u + _LOG_2PI + logs), -math.inf)


def check_normal(records: ArrayLike, n_groups: int) -> None:
    """Raise ValueError unless these are groups with finite numbers."""
    groups = read_finite(records, 2)[:, 0]
    wrong = (groups < 0) | (groups >= n_groups) | (groups != np.floor(groups))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(
            f"records must hold whole numbers from 0 to {n_groups - 1} as the group; "
            f"got {groups[where]} in record {where}"
        )


def stacked(theta: dict[str, Any], name: str) -> NDArray[np.float64]:
    """Return a parameter as a float array, with whatever draws there are in front."""
    return np.asarray(theta[name], dtype=np.float64)
