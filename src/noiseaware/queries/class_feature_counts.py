"""The class-by-level tables of a naive Bayes log-linear model (the paper's section 4).

A record is a class c in 0, ..., I - 1 and a level for each of K features, feature k having
J_k levels. The total is, for each feature, the table of how many records have each pair of
class and level. Every record adds 1 to one cell of each of the K tables, so the query has the
shape "counts": the sampler works with the K cells of a record and not with the I * sum_k J_k
entries of its statistic, all but K of which are zero.

Cells are ordered by class, then by feature, then by level: with J levels for every feature,
the released values are an array of shape (I, K, J) in C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Reading
from noiseaware.queries.arguments import (
    as_integer_records,
    check_columns,
    check_integer_dtype,
    check_range,
)
from noiseaware.queries.counts import CountsQuery
from noiseaware.registry import QUERIES


@njit(cache=True, nogil=True)
def class_feature_cells(records, n_classes, first_cell, cells):
    """Fill in the cells that every record adds 1 to, `cells` (n, K).

    `records` (n, 1 + K) are the class and the levels of the features; `first_cell` (K + 1,) has the
    first cell of each feature among the cells of class 0, and then the number of cells of a class.
    Returns whether all classes and levels are in range. If not, `cells` must not be used.
    """
    n, n_features = cells.shape
    cells_of_a_class = first_cell[n_features]
    # v and top - v have no sign bit exactly when v is in 0, ..., top. Collecting the sign bits
    # checks all values without a branch, so that the check costs no time.
    signs = 0
    for i in range(n):
        label = records[i, 0]
        signs |= label | (n_classes - 1 - label)
        for k in range(n_features):
            level = records[i, 1 + k]
            signs |= level | (first_cell[k + 1] - first_cell[k] - 1 - level)
            cells[i, k] = label * cells_of_a_class + first_cell[k] + level
    return signs >= 0


@njit(cache=True, nogil=True)
def class_feature_totals(records, n_classes, first_cell, total):
    """Add up the counts without listing the cells; arguments and answer as above, `total` (d,)."""
    n, n_features = records.shape[0], records.shape[1] - 1
    cells_of_a_class = first_cell[n_features]
    for i in range(n):
        label = records[i, 0]
        if not 0 <= label < n_classes:
            return False
        for k in range(n_features):
            level = records[i, 1 + k]
            if not 0 <= level < first_cell[k + 1] - first_cell[k]:
                return False
            total[label * cells_of_a_class + first_cell[k] + level] += 1.0
    return True


class ClassFeatureCounts(CountsQuery):
    """The number of records with each class and each level, for every feature.

    Records are integers from 0, (n, 1 + K), the class first.

    Parameters
    ----------
    n_classes
        The number of classes I.
    n_levels
        The number of levels J_k of each feature, K integers; or one integer for all of them,
        together with `n_features`.
    n_features
        The number of features K; only needed when `n_levels` is one integer.

    Examples
    --------
    >>> query = ClassFeatureCounts(n_classes=2, n_levels=[2, 3])
    >>> query.names[:3]
    ('class=0,feature1=0', 'class=0,feature1=1', 'class=0,feature2=0')
    >>> query.cells([[1, 0, 2]])
    array([[5, 9]])
    >>> query.sensitivity(norm=1)
    4.0
    """

    in_words = "How many records of each class have each level of each feature."
    n_classes: int
    n_levels: tuple[int, ...]
    _first_cell: NDArray[np.int64]
    example_arguments: ClassVar[dict[str, Any]] = {"n_classes": 2, "n_levels": [2, 3]}

    def __init__(
        self, n_classes: int, n_levels: int | Sequence[int], n_features: int | None = None
    ) -> None:
        n_classes = whole_number("n_classes", n_classes, least=2)
        levels_of_features = _as_levels(n_levels, n_features)
        names = tuple(
            f"class={c},feature{k}={level}"
            for c in range(n_classes)
            for k, levels in enumerate(levels_of_features, start=1)
            for level in range(levels)
        )
        self._hold(
            n_classes=n_classes,
            n_levels=levels_of_features,
            names=names,
            n_tables=len(levels_of_features),
            _first_cell=np.cumsum((0, *levels_of_features), dtype=np.int64),
        )

    @property
    def n_features(self) -> int:
        """The number of features K."""
        return len(self.n_levels)

    @property
    def class_feature_levels(self) -> tuple[int, ...]:
        """The number of classes, then the number of levels of each feature."""
        return (self.n_classes, *self.n_levels)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names by which columns of a frame are found: class, feature1, feature2, ..."""
        return ("class", *(f"feature{k}" for k in range(1, self.n_features + 1)))

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the K cells that each record adds 1 to, (n, K)."""
        records = self._read(records)
        cells = np.empty((records.shape[0], len(self.n_levels)), dtype=np.int64)
        if not class_feature_cells(records, self.n_classes, self._first_cell, cells):
            self.check_records(records)  # says which record it is
        return cells

    def total(self, records: ArrayLike) -> Floats:
        """Return the counts of all records, (I * sum_k J_k,)."""
        records = self._read(records)
        total = np.zeros(len(self.names))
        if not class_feature_totals(records, self.n_classes, self._first_cell, total):
            self.check_records(records)
        return total

    def _read(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the records as integers, (n, 1 + K)."""
        records = as_integer_records(records, self)
        self._check_columns(records)  # or compiled code would read past the end
        return records

    def _check_columns(self, records: NDArray[Any]) -> None:
        k = self.n_features
        check_columns(records, 1 + k, f": the class, then {k} feature(s)")

    def reading(self, totals: Floats, n: int) -> Reading:
        """Return the counts of the classes and of each feature's levels, at least 0.

        Every feature has its own count of class i, the sum over its levels; with noise the K of
        them differ, and their mean is taken.
        """
        table = totals.reshape(self.n_classes, -1)
        parts = np.split(table, np.cumsum(self.n_levels)[:-1], axis=1)
        classes = np.mean([part.sum(axis=1) for part in parts], axis=0)
        counts = (np.maximum(classes, 0.0), [np.maximum(part, 0.0) for part in parts])
        words = (
            "with negative counts set to 0 and the size of each class averaged over the features"
        )
        return Reading("tables", counts, words)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are classes and levels of this query."""
        array = as_array(records, self)
        self._check_columns(array)
        check_integer_dtype(array)
        check_range("classes", array[:, 0], self.n_classes)
        for k, levels in enumerate(self.n_levels, start=1):
            check_range(f"levels of feature {k}", array[:, k], levels)

    def _arguments(self) -> dict[str, Any]:
        return {"n_classes": self.n_classes, "n_levels": self.n_levels}


def _as_levels(n_levels: int | Sequence[int], n_features: int | None) -> tuple[int, ...]:
    if np.ndim(n_levels) == 0:
        levels = whole_number("n_levels", n_levels, least=2)
        if n_features is None:
            raise ValueError(
                f"n_levels must list the levels of each feature, or come with n_features; "
                f"got n_levels={n_levels}"
            )
        return (levels,) * whole_number("n_features", n_features)
    result = tuple(
        whole_number(f"n_levels of feature {k}", levels, least=2)
        for k, levels in enumerate(n_levels, start=1)  # type: ignore[arg-type]
    )
    if not result:
        raise ValueError("n_levels must list at least one feature; got an empty list")
    if n_features is not None and n_features != len(result):
        raise ValueError(f"n_features must be {len(result)}, as in n_levels; got {n_features}")
    return result


QUERIES.add(ClassFeatureCounts)
