"""Tables of counts: any margins of a contingency table, and the tables of a naive Bayes model.

A record has a level in each of its columns and adds 1 to one cell of each table. The sampler uses
these cells instead of the sparse statistic.

**Margins.** The margin over a subset of K categorical variables counts the records at each
combination of their levels; the margin over all K is the whole table. Cells are ordered by margin
and, within a margin, in C order: the last variable changes fastest.

**Class by level**, for the naive Bayes log-linear model of the paper's section 4. A record is a
class in 0, ..., I - 1 and a level for each of K features, where feature k has J_k levels. The total
is a table of counts by class and level for each feature, ordered by class, feature, level: with J
levels for every feature, the released values are an array of shape (I, K, J) in C order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, variable_names, whole_number
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
def margin_cells(records, n_levels, first_cell, strides, cells):
    """Fill in the cells to which every record adds 1, `cells` (n, M).

    `records` (n, K) are levels below `n_levels` (K,). Margin m starts at cell first_cell[m], and
    each level of variable k adds strides[m, k], which is 0 for variables outside the margin.
    Returns whether all levels are in range; if not, `cells` must not be used.
    """
    n, n_margins = cells.shape
    n_variables = n_levels.shape[0]
    # v and top - v have no sign bit exactly when v is in 0, ..., top.
    signs = 0
    for i in range(n):
        for k in range(n_variables):
            signs |= records[i, k] | (n_levels[k] - 1 - records[i, k])
        for m in range(n_margins):
            cell = first_cell[m]
            for k in range(n_variables):
                cell += strides[m, k] * records[i, k]
            cells[i, m] = cell
    return signs >= 0


class LevelsQuery(CountsQuery):
    """Counts of records (n, K) with a level in each column."""

    _ranges: tuple[tuple[str, int], ...]  # what messages call a column, and its number of levels
    _columns: str  # what the columns are, for a message

    def _read(self, records: ArrayLike) -> NDArray[np.int64]:
        records = as_integer_records(records, self)
        check_columns(records, len(self._ranges), self._columns)  # or compiled code reads past them
        return records

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are levels of this query's columns."""
        array = as_array(records, self)
        check_columns(array, len(self._ranges), self._columns)
        check_integer_dtype(array)
        for k, (what, count) in enumerate(self._ranges):
            check_range(what, array[:, k], count)


class Margins(LevelsQuery):
    """The number of records at each combination of levels, for any set of margins.

    Records are integers from 0, (n, K), one column for each variable.

    Parameters
    ----------
    n_levels
        The number of levels of each of the K variables, each at least 2.
    margins
        The variables of each margin, by number from 0 or by name: ``[[0], [1, 2]]`` are the
        counts of variable 0 and the table of variables 1 and 2. ``[range(K)]`` is the whole table.
    variables
        K names; by default ``variable1``, ``variable2``, ...
    labels
        The names of each variable's levels; by default numbers.

    Examples
    --------
    >>> query = Margins([2, 3], [[0], [0, 1]], ["sex", "age"])
    >>> query.names[:4]
    ('sex=0', 'sex=1', 'sex=0,age=0', 'sex=0,age=1')
    >>> query.cells([[1, 2]])
    array([[1, 7]])
    >>> query.sensitivity(norm=1)
    4.0
    """

    n_levels: tuple[int, ...]
    margins: tuple[tuple[int, ...], ...]
    variables: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...] | None
    _columns = ", one column for each variable"
    _levels: NDArray[np.int64]
    _first_cell: NDArray[np.int64]
    _strides: NDArray[np.int64]
    example_arguments = {"n_levels": [2, 3], "margins": [[0], [1]]}

    def __init__(
        self,
        n_levels: Sequence[int],
        margins: Sequence[Sequence[int | str]],
        variables: Sequence[str] | None = None,
        labels: Sequence[Sequence[str]] | None = None,
    ) -> None:
        if np.ndim(n_levels) != 1 or len(n_levels) == 0:
            raise ValueError(
                f"n_levels must list the number of levels of each variable; got {n_levels!r}"
            )
        levels = tuple(
            whole_number(f"n_levels[{k}]", count, least=2) for k, count in enumerate(n_levels)
        )
        named = variable_names(variables, len(levels))
        chosen = _as_margins(margins, named)
        if labels is not None:
            labels = _level_names(labels, levels)
        shown = labels or [[str(level) for level in range(count)] for count in levels]
        names: list[str] = []
        first_cell = []
        strides = np.zeros((len(chosen), len(levels)), dtype=np.int64)
        for m, margin in enumerate(chosen):
            first_cell.append(len(names))
            names += [
                ",".join(f"{named[k]}={shown[k][j]}" for k, j in zip(margin, cell, strict=True))
                for cell in product(*(range(levels[k]) for k in margin))
            ]
            for place, k in enumerate(margin):
                strides[m, k] = math.prod(levels[other] for other in margin[place + 1 :])
        self._hold(
            n_levels=levels,
            margins=chosen,
            variables=named,
            labels=labels,
            names=tuple(names),
            n_tables=len(chosen),
            _ranges=tuple((f"levels of {name}", k) for name, k in zip(named, levels, strict=True)),
            _levels=np.array(levels, dtype=np.int64),
            _first_cell=np.array(first_cell, dtype=np.int64),
            _strides=strides,
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of a frame's columns: those of the variables."""
        return self.variables

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        records = self._read(records)
        cells = np.empty((records.shape[0], len(self.margins)), dtype=np.int64)
        if not margin_cells(records, self._levels, self._first_cell, self._strides, cells):
            self.check_records(records)  # says which record it is
        return cells

    def part_columns(self, levels: tuple[int, ...]) -> Any:
        """Return what parts add, unless a margin has two variables besides the first, the class."""
        if levels != self.n_levels or any(len(set(m) - {0}) > 1 for m in self.margins):
            return None
        # A margin of the class alone is assigned to the first feature.
        seen_by = [max((*margin, 1) if margin == (0,) else margin) for margin in self.margins]
        features = [(k, j) for k in range(1, len(levels)) for j in range(levels[k])]
        columns = np.zeros((len(self.names), levels[0] * len(features)))
        for c, (i, (k, j)) in enumerate(product(range(levels[0]), features)):
            for m, by in enumerate(seen_by):
                strides = self._strides[m]
                if by == k:
                    columns[self._first_cell[m] + strides[0] * i + strides[k] * j, c] = 1.0
        return columns


def _level_names(
    labels: Sequence[Sequence[str]], levels: tuple[int, ...]
) -> tuple[tuple[str, ...], ...]:
    if isinstance(labels, str) or len(labels) != len(levels):
        raise ValueError(f"labels must list the names of {len(levels)} variables; got {labels!r}")
    return tuple(as_labels(f"labels[{k}]", names, levels[k]) for k, names in enumerate(labels))


def _as_margins(
    margins: Sequence[Sequence[int | str]], variables: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the margins as tuples of variable numbers, in the order given."""
    if isinstance(margins, str) or not isinstance(margins, Sequence) or len(margins) == 0:
        raise ValueError(
            f"margins must list at least one margin, as in [[0], [0, 1]]; got {margins!r}"
        )
    chosen = []
    for margin in margins:
        right = "each of margins must list"
        if isinstance(margin, (str, int, np.integer)):
            raise ValueError(f"{right} its variables, as in [[0], [0, 1]]; got {margin!r}")
        numbers = tuple(_variable(k, variables) for k in margin)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"{right} different variables, at least one; got {margin!r}")
        chosen.append(numbers)
    if len({frozenset(margin) for margin in chosen}) < len(chosen):
        raise ValueError(f"margins must be different sets of variables; got {margins!r}")
    return tuple(chosen)


def _variable(k: int | str, variables: tuple[str, ...]) -> int:
    if isinstance(k, str):
        if k not in variables:
            raise ValueError(f"margins name {k!r}, which is not among {', '.join(variables)}")
        return variables.index(k)
    number = whole_number("a variable of margins", k, least=0)
    last = len(variables) - 1
    if number > last:
        raise ValueError(f"margins must have variables from 0 to {last}; got {number}")
    return number


@njit(cache=True, nogil=True)
def class_feature_cells(records, n_classes, first_cell, cells):
    """Fill in the cells to which every record adds 1, `cells` (n, K).

    `records` (n, 1 + K) are the class and the features' levels; `first_cell` (K + 1,) holds each
    feature's first cell within class 0, then the number of cells of a class. Returns whether all
    classes and levels are in range; if not, `cells` must not be used.
    """
    n, n_features = cells.shape
    cells_of_a_class = first_cell[n_features]
    # v and top - v have no sign bit exactly when v is in 0, ..., top. Collecting the sign bits
    # checks all values without a branch, at no cost.
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
    """Add up the counts in `total` (d,); arguments and result as in `class_feature_cells`."""
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


class ClassFeatureCounts(LevelsQuery):
    """The number of records with each class and each level, for every feature.

    Records are integers from 0, (n, 1 + K), the class first.

    Parameters
    ----------
    n_classes
        The number of classes I.
    n_levels
        The number of levels J_k of each feature, K integers; or one integer for all of them,
        with `n_features`.
    n_features
        The number of features K, needed only if `n_levels` is one integer.

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
    example_arguments = {"n_classes": 2, "n_levels": [2, 3]}

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
        k = len(levels_of_features)
        features = [f"levels of feature {j}" for j in range(1, k + 1)]
        self._hold(
            n_classes=n_classes,
            n_levels=levels_of_features,
            names=names,
            n_tables=k,
            _ranges=(("classes", n_classes), *zip(features, levels_of_features, strict=True)),
            _columns=f": the class, then {k} feature(s)",
            _first_cell=np.cumsum((0, *levels_of_features), dtype=np.int64),
        )

    @property
    def n_features(self) -> int:
        """The number of features K."""
        return len(self.n_levels)

    def part_columns(self, levels: tuple[int, ...]) -> Any:
        """Return the identity: the cells are those of the parts, in the same order."""
        return np.eye(len(self.names)) if levels == (self.n_classes, *self.n_levels) else None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of a frame's columns: class, feature1, feature2, ..."""
        return ("class", *(f"feature{k}" for k in range(1, self.n_features + 1)))

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
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

    def reading(self, totals: Floats, n: int) -> Reading:
        """Return the counts of the classes and of each feature's levels, at least 0.

        The sum over each feature's levels gives a noisy count of class i; the K of them are
        averaged.
        """
        table = totals.reshape(self.n_classes, -1)
        parts = np.split(table, np.cumsum(self.n_levels)[:-1], axis=1)
        classes = np.mean([part.sum(axis=1) for part in parts], axis=0)
        counts = (np.maximum(classes, 0.0), [np.maximum(part, 0.0) for part in parts])
        averaged = "the size of each class averaged over the features"
        return Reading("tables", counts, f"with negative counts set to 0 and {averaged}")

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


QUERIES.add(Margins, ClassFeatureCounts)
