"""Records in groups of known sizes: what the models of groups share.

A record is its group, an integer from 0, and its outcome. The sizes of the groups are public, so
the group of record i is fixed by i: the first n_0 records are in group 0, the next n_1 in group 1,
and so on. A model of groups says so with ``uses_index``, and the sampler then tells it which
records it is to make. All other methods read the group from the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.models.arguments import read_floats
from noiseaware.models.ready import CompiledModel
from noiseaware.parameters import Parameter


@njit(cache=True, nogil=True)
def group_of(records, i, n_groups):
    """Return the group of record i, or -1 if there is no such group."""
    if not 0 <= records[i, 0] < n_groups:
        return -1
    group = int(records[i, 0])
    return group if group == records[i, 0] else -1


@njit(cache=True, nogil=True)
def _add_up(records, yes_no, totals, sizes):
    """Add up the outcomes and the records of each group; False at a wrong record."""
    for i in range(records.shape[0]):
        group = group_of(records, i, totals.shape[0])
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
        self.labels = None if labels is None else list(as_labels("labels", labels, G))
        names = self.labels or [str(g) for g in range(G)]
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
