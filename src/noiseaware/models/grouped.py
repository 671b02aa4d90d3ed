"""Records in groups of known sizes: what the models of groups share.

A record is its group, an integer from 0, and its outcome. The sizes of the groups are public, so
the group of record i is fixed by i: the first n_0 records are in group 0, the next n_1 in group 1,
and so on. A model of groups says so with ``uses_index``, and the sampler then tells it which
records it is to make. All other methods read the group from the record.

Yes-or-no outcomes
------------------
P(outcome = 1) = p_g. With u uniform on [0, 1), the outcome is 1 if u < p_g, else 0; given the
outcome, u is uniform on [0, p_g) or [p_g, 1).

Normal outcomes
---------------
The outcome is N(m_g, v_g). With u standard normal, it is m_g + sqrt(v_g) u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import LOG_2PI
from noiseaware.models.arguments import check_levels, read_floats, read_parameter, refuse_records
from noiseaware.models.inverse_cdf import inside, uniform_of
from noiseaware.models.ready import Compiled, CompiledModel
from noiseaware.parameters import Innovations, Parameter


@njit(cache=True, nogil=True)
def _group(records, i, n_groups):
    """Return the group of record i, or -1 if there is no such group."""
    if not 0 <= records[i, 0] < n_groups:
        return -1
    group = int(records[i, 0])
    return group if group == records[i, 0] else -1


@njit(cache=True, nogil=True)
def _add_up(records, yes_no, totals, sizes):
    """Add up the outcomes and the records of each group; False at a wrong record."""
    for i in range(records.shape[0]):
        group = _group(records, i, totals.shape[0])
        if group < 0 or (yes_no and not 0 <= records[i, 1] <= 1):
            return False
        totals[group] += records[i, 1]
        sizes[group] += 1.0
    return True


class Grouped(CompiledModel):
    """Groups of known sizes, with names; a base of dataclasses."""

    sizes: Sequence[int] | None
    """The number of records in each group; None inside of `UnknownSizes`."""
    labels: Sequence[str] | None
    """A name for each group; "0", "1", ... if not given."""

    uses_index = True
    column_names = ("group", "outcome")
    width = 2
    example: ClassVar[dict[str, Any]] = {"sizes": [3, 2]}
    number: ClassVar[int | None] = None
    """How many groups there must be; None: two or more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes, labels = self.sizes, self.labels
        if sizes is None:
            G = self.number or (0 if labels is None else len(labels))
            if G < 2:
                raise ValueError(
                    f"labels must name at least 2 groups where sizes are not given; got {labels!r}"
                )
        else:
            G = len(self._read_sizes(sizes))
        self._n_groups = G
        is_list = np.iterable(labels) and not isinstance(labels, str)
        if labels is not None and not (is_list and all(isinstance(a, str) for a in labels)):
            raise TypeError(f"labels must be a list of texts; got {labels!r}")
        self.labels = None if labels is None else list(labels)
        names = [str(g) for g in range(G)] if labels is None else list(labels)
        if len(names) != G or len(set(names)) != G:
            raise ValueError(f"labels must be {G} different texts; got {names!r}")
        self._coords = {"group": names}
        if self.sizes is not None:
            self.n_records = sum(self.sizes)
            self._group_of = np.repeat(np.arange(G), self.sizes)

    def _read_sizes(self, sizes: Any) -> Sequence[int]:
        """Take the sizes of the groups, after a look at them."""
        if isinstance(sizes, str) or not np.iterable(sizes):
            raise TypeError(f"sizes must list the number of records in each group; got {sizes!r}")
        self.sizes = tuple(
            whole_number(f"the size of group {group}", size) for group, size in enumerate(sizes)
        )
        G = len(self.sizes)
        if G < 2 or (self.number or G) != G:
            wanted = f"{self.number} numbers" if self.number else "at least 2 numbers"
            raise ValueError(f"sizes must be {wanted}, one for each group; got {list(sizes)!r}")
        return self.sizes

    def _each(self, name: str, support: str) -> Parameter:
        """Return a parameter with one value for each group."""
        return Parameter(name, (self._n_groups,), support, ("group",), self._coords)

    def _groups(self, n: int, index: ArrayLike | None) -> NDArray[np.int64]:
        """Return the groups of n records: those with these numbers, or the first n."""
        if self.sizes is None:
            raise ValueError(
                f"sizes of {type(self).__name__} must be given, the number of records in each "
                "group; where nobody says them, noiseaware.models.UnknownSizes takes the model"
            )
        if index is None:
            if n > self.n_records:
                raise ValueError(f"n must be at most the model's {self.n_records} records; got {n}")
            index = np.arange(n)
        index = np.asarray(index)
        if index.shape != (n,):
            raise ValueError(f"index must have shape ({n},), one per record; got {index.shape}")
        if n and not (index.min() >= 0 and index.max() < self.n_records):
            raise ValueError(
                f"index must be from 0 to {self.n_records - 1}; got {index.min()} to {index.max()}"
            )
        return self._group_of[index]

    def build_records(
        self, theta: Theta, innovations: ArrayLike, index: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the records F(u_i; theta), ``(n, 2)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        return self.build_in(theta, self._groups(len(innovations), index), innovations)

    def build_in(
        self, theta: Theta, groups: NDArray[np.int64], innovations: Floats
    ) -> NDArray[Any]:
        """Return records of these groups, ``(n, 2)``, of innovations ``(n, 1)``."""
        records: NDArray[Any] = np.empty((len(innovations), 2), dtype=self.dtype)
        records[:, 0] = groups
        self.compiled.build(*self._read(theta), innovations, records)
        return records

    def _totals(self, records: ArrayLike) -> tuple[Floats, Floats]:
        """Return the sum of the outcomes and the number of records in each group."""
        totals, sizes = np.zeros(self._n_groups), np.zeros(self._n_groups)
        yes_no = self.dtype is np.int64
        if not _add_up(self._read_records(records), yes_no, totals, sizes):
            self.check_records(records)
        return totals, sizes


def without_sizes(model: Any) -> Grouped:
    """Return the model, if it is one of groups and was not told their sizes; else ValueError."""
    if not isinstance(model, Grouped) or model.sizes is not None:
        raise ValueError(
            "groups must be a model of groups made without sizes, such as TwoMeans() or "
            f"StratifiedMeans(labels=[...]); got {model!r}"
        )
    return model


# ------------------------------------------------------------------ yes-or-no outcomes


@njit(cache=True, nogil=True)
def _build_outcomes(probabilities, innovations, records):
    """Write whether u_i < p_g; the groups are there already."""
    for i in range(records.shape[0]):
        records[i, 1] = innovations[i, 0] < inside(probabilities[records[i, 0]])


@njit(cache=True, nogil=True)
def _recover_outcomes(probabilities, records, innovations):
    """Move each uniform into [0, p_g) or [p_g, 1); False at a wrong record."""
    for i in range(records.shape[0]):
        group = _group(records, i, probabilities.shape[0])
        if group < 0 or not 0 <= records[i, 1] <= 1:
            return False
        innovations[i, 0] = uniform_of(records[i, 1], probabilities[group], innovations[i, 0])
    return True


@njit(cache=True, nogil=True)
def _outcome_likelihood(probabilities, records, out):
    """Write log p_g or log(1 - p_g); False at a wrong record."""
    for i in range(records.shape[0]):
        group = _group(records, i, probabilities.shape[0])
        if group < 0 or not 0 <= records[i, 1] <= 1:
            return False
        p = probabilities[group]
        if records[i, 1] == 1:
            out[i] = math.log(p) if p > 0.0 else -math.inf
        else:
            out[i] = math.log1p(-p) if p < 1.0 else -math.inf
    return True


class YesNoGroups(Grouped):
    """Groups with yes-or-no outcomes; the parameter is ``proportions`` (G,)."""

    dtype = np.int64
    innovations = Innovations("uniform", 1)
    compiled = Compiled(_build_outcomes, _recover_outcomes, _outcome_likelihood)

    @property
    def record_levels(self) -> int:
        """The largest number of levels: of groups, or no and yes."""
        return self._n_groups

    @property
    def record_values(self) -> NDArray[np.int64]:
        """All the records that there can be: no and yes of each group in turn, (2 G, 2)."""
        return np.indices((self._n_groups, 2), dtype=np.int64).reshape(2, -1).T.copy()

    @property
    def value_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The group of each of these, and the sizes of the groups."""
        if self.sizes is None:
            return None
        return self.record_values[:, 0].copy(), np.array(self.sizes, dtype=np.int64)

    def _read(self, theta: Theta) -> tuple[Floats]:
        """Return the p_g."""
        return (read_parameter(theta, "proportions", (self._n_groups,)),)

    def _check(self, records: NDArray[np.int64]) -> None:
        check_levels(records, [self._n_groups, 2], ["the group", "the outcome"])


# ------------------------------------------------------------------ normal outcomes


@njit(cache=True, nogil=True)
def _build_normals(means, variances, innovations, records):
    """Write m_g + sqrt(v_g) u_i; NaN if a variance is negative. The groups are there already."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        variance = variances[group]
        sd = math.sqrt(variance) if variance >= 0.0 else math.nan
        records[i, 1] = means[group] + sd * innovations[i, 0]


@njit(cache=True, nogil=True)
def _recover_normals(means, variances, records, innovations):
    """Write (x_i - m_g) / sqrt(v_g), NaN if v_g is not positive; False at a wrong group."""
    for i in range(records.shape[0]):
        group = _group(records, i, means.shape[0])
        if group < 0:
            return False
        variance = variances[group]
        sd = math.sqrt(variance) if variance > 0.0 else math.nan
        innovations[i, 0] = (records[i, 1] - means[group]) / sd
    return True


@njit(cache=True, nogil=True)
def _normal_likelihood(means, variances, records, out):
    """Write log N(x_i; m_g, v_g); False at a wrong group."""
    for i in range(records.shape[0]):
        group = _group(records, i, means.shape[0])
        if group < 0:
            return False
        out[i] = -math.inf
        if variances[group] > 0.0:
            u = (records[i, 1] - means[group]) / math.sqrt(variances[group])
            out[i] = -0.5 * (u * u + LOG_2PI + math.log(variances[group]))
    return True


@njit(cache=True, nogil=True)
def sum_squares(records, means, squares):
    """Add (x_i - m_g)^2 to the group's entry of `squares`; the groups were seen to be right."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        difference = records[i, 1] - means[group]
        squares[group] += difference * difference


class NormalGroups(Grouped):
    """Groups with normal outcomes; `_read` returns the mean and the variance of each group."""

    innovations = Innovations("normal", 1)
    compiled = Compiled(_build_normals, _recover_normals, _normal_likelihood)

    def _check(self, records: Floats) -> None:
        groups, G = records[:, 0], self._n_groups
        wrong = (groups < 0) | (groups >= G) | (groups != np.floor(groups))
        right = f"records must hold whole numbers from 0 to {G - 1} as the group"
        refuse_records(wrong, right, groups)
