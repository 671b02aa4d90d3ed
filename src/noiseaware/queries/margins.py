"""Margins of a contingency table: how many records there are at each combination of some variables.

A record has one level for each of K categorical variables. The margin over a set of them counts the
records at each combination of their levels; the margin over all K is the whole table. Every record
adds 1 to one cell of each margin, so the query has the shape "counts": the sampler works with the
cells of a record and not with its statistic, all but a few entries of which are zero.

Cells are ordered by margin and, within a margin, in C order: the level of the margin's last
variable changes fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, variable_names, whole_number
from noiseaware.basics.frames import as_array
from noiseaware.queries.arguments import (
    as_integer_records,
    check_columns,
    check_integer_dtype,
    check_range,
)
from noiseaware.queries.counts import CountsQuery
from noiseaware.registry import QUERIES

COLUMNS = ", one column for each variable"


@njit(cache=True, nogil=True)
def margin_cells(records, n_levels, first_cell, strides, cells):
    """Fill in the cells that every record adds 1 to, `cells` (n, M).

    `records` (n, K) are levels, of which there are `n_levels` (K,). Margin m has its first cell at
    first_cell[m], and its cell grows by strides[m, k] with the level of variable k, which is 0 for
    one that is not in it. Returns whether all levels are in range. If not, `cells` must not be
    used.
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


class Margins(CountsQuery):
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
        K names; ``variable1``, ``variable2``, ... if there are none.
    labels
        For each variable the names of its levels; numbers if there are none.

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
    _levels: NDArray[np.int64]
    _first_cell: NDArray[np.int64]
    _strides: NDArray[np.int64]
    example_arguments: ClassVar[dict[str, Any]] = {"n_levels": [2, 3], "margins": [[0], [1]]}

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
            _levels=np.array(levels, dtype=np.int64),
            _first_cell=np.array(first_cell, dtype=np.int64),
            _strides=strides,
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names by which columns of a frame are found: those of the variables."""
        return self.variables

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cells that each record adds 1 to, one in each margin, (n, M)."""
        records = as_integer_records(records, self)
        check_columns(records, len(self.n_levels), COLUMNS)  # or compiled code reads past the end
        cells = np.empty((records.shape[0], len(self.margins)), dtype=np.int64)
        if not margin_cells(records, self._levels, self._first_cell, self._strides, cells):
            self.check_records(records)  # says which record it is
        return cells

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are levels of this query's variables."""
        array = as_array(records, self)
        check_columns(array, len(self.n_levels), COLUMNS)
        check_integer_dtype(array)
        for k, (name, count) in enumerate(zip(self.variables, self.n_levels, strict=True)):
            check_range(f"levels of {name}", array[:, k], count)


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
        if isinstance(margin, (str, int, np.integer)):
            raise ValueError(
                f"each of margins must list its variables, as in [[0], [0, 1]]; got {margin!r}"
            )
        numbers = tuple(_variable(k, variables) for k in margin)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(
                f"each of margins must list different variables, at least one; got {margin!r}"
            )
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
    if number >= len(variables):
        raise ValueError(
            f"margins must have variables from 0 to {len(variables) - 1}; got {number}"
        )
    return number


QUERIES.add(Margins)
