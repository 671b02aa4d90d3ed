"""Records in groups of known sizes: what the models of groups share.

A record is its group, an integer from 0, and its outcome. The sizes of the groups are public, so
the group of record i is fixed by i: the first n_0 records are in group 0, the next n_1 in group 1,
and so on. A model of groups says so with ``uses_index``, and the sampler then tells it which
records it is to make; see `Groups.of`. All other methods read the group from the record.

`binary_groups.py` and `normal_groups.py` hold the methods that deal with records, for the two kinds
of outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number


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
        is_list = np.iterable(labels) and not isinstance(labels, str)
        if labels is not None and not (is_list and all(isinstance(a, str) for a in labels)):
            raise TypeError(f"labels must be a list of texts; got {labels!r}")
        self.given_labels = None if labels is None else list(labels)
        labels = [str(g) for g in range(len(self.sizes))] if labels is None else list(labels)
        if len(labels) != len(self.sizes) or len(set(labels)) != len(labels):
            raise ValueError(f"labels must be {len(self.sizes)} different texts; got {labels!r}")
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


def stacked(theta: dict[str, Any], name: str) -> NDArray[np.float64]:
    """Return a parameter as a float array, with whatever draws there are in front."""
    return np.asarray(theta[name], dtype=np.float64)
