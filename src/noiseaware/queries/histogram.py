"""The number of records in each bin of a range, or at each level of a category."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, whole_number
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Reading
from noiseaware.queries.arguments import (
    as_float_records,
    as_integer_records,
    check_flat,
    check_integer_dtype,
    check_range,
    check_real_dtype,
)
from noiseaware.queries.counts import CountsQuery
from noiseaware.registry import QUERIES


@njit(cache=True, nogil=True)
def bin_cells(records, edges, cells):
    """Fill in the bin of every record, `cells` (n, 1); -1 for a record outside of all bins.

    Bin j is edges[j] <= x < edges[j + 1], and the last bin holds its upper edge too, as in
    `numpy.histogram`.
    """
    last = edges.shape[0] - 1
    for i in range(records.shape[0]):
        x = records[i]
        if not edges[0] <= x <= edges[last]:  # also when x is NaN
            cells[i, 0] = -1
            continue
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if edges[middle] <= x:
                low = middle
            else:
                high = middle
        cells[i, 0] = low


@njit(cache=True, nogil=True)
def level_cells(records, n_levels, cells):
    """Fill in the cell of every record, `cells` (n, 1), which is its level.

    Returns whether all levels are in range. If not, `cells` must not be used.
    """
    in_range = True
    for i in range(records.shape[0]):
        in_range &= 0 <= records[i] < n_levels
        cells[i, 0] = records[i]
    return in_range


class Histogram(CountsQuery):
    """How many records are in each bin, or at each level.

    Give either `edges`, for records that are numbers, or `n_levels`, for records that are
    integer categories. Records have shape (n,).

    Parameters
    ----------
    edges
        Increasing edges of the bins; the first may be -inf and the last inf. A record outside
        of all bins is not counted. A record on an edge belongs to the bin above it, except
        that the last bin holds its upper edge.
    n_levels
        The number of levels; the records are 0, ..., n_levels - 1.
    labels
        A name for each bin or level, if there are better ones than those made here.

    Examples
    --------
    >>> query = Histogram(edges=[0, 10, 20])
    >>> query.names
    ('[0, 10)', '[10, 20]')
    >>> query.cells([3.0, 10.0, 25.0]).ravel()
    array([ 0,  1, -1])
    >>> Histogram(n_levels=2).names
    ('level=0', 'level=1')
    """

    in_words = "How many records fall in each cell."
    edges: tuple[float, ...] | None
    n_levels: int | None
    labels: tuple[str, ...] | None
    _edges: Floats
    example_arguments: ClassVar[dict[str, Any]] = {"n_levels": 3}

    def __init__(
        self,
        *,
        edges: Sequence[float] | None = None,
        n_levels: int | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        if (edges is None) == (n_levels is None):
            raise ValueError(
                "give edges or n_levels, one of the two; "
                f"got edges={edges!r}, n_levels={n_levels!r}"
            )
        if edges is not None:
            edges = _as_edges(edges)
            names = _bin_names(edges)
        else:
            n_levels = whole_number("n_levels", n_levels, least=2)
            names = tuple(f"level={level}" for level in range(n_levels))
        if labels is not None:
            labels = names = as_labels("labels", labels, len(names))
        inner = np.array(edges or (), dtype=np.float64)
        self._hold(edges=edges, n_levels=n_levels, labels=labels, names=names, _edges=inner)

    def cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the cell of each record, -1 for a record outside of all bins, (n, 1)."""
        read = as_integer_records if self.edges is None else as_float_records
        array = read(records, self)
        check_flat(array)  # compiled code takes (n,) only
        cells = np.empty((array.shape[0], 1), dtype=np.int64)
        if self.edges is not None:
            bin_cells(array, self._edges, cells)
        elif not level_cells(array, self.n_levels, cells):
            self.check_records(array)  # says which record it is
        return cells

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return the counts of the levels; bins say less of the records than a model needs."""
        if self.n_levels is None:
            return None
        return Reading("counts", np.maximum(totals, 0.0), "with negative counts set to 0")

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are numbers, or levels, of shape (n,)."""
        array = as_array(records, self)
        check_flat(array)
        if self.n_levels is not None:
            check_integer_dtype(array)
            check_range("records", array, self.n_levels)
            return
        check_real_dtype(array)
        if np.isnan(array).any():
            raise ValueError(
                f"records must not be NaN; got NaN in record {np.isnan(array).argmax()}"
            )


def _as_edges(edges: Sequence[float | str]) -> tuple[float, ...]:
    try:
        result = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        raise TypeError(f"edges must be a list of numbers; got {edges!r}") from None
    if len(result) < 2:
        raise ValueError(f"edges must be at least 2 numbers; got {len(result)}")
    for a, b in pairwise(result):
        if not a < b:  # also when one is NaN
            raise ValueError(f"edges must be increasing; got {a} before {b}")
    return result


def _bin_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    # Six digits read well; more are used only where six would give two edges one name.
    digits = next(k for k in (6, 9, 12, 17) if len({f"{e:.{k}g}" for e in edges}) == len(edges))
    texts = [f"{edge:.{digits}g}" for edge in edges]
    names = [f"[{a}, {b})" for a, b in pairwise(texts)]
    names[-1] = names[-1][:-1] + "]"
    return tuple(names)


QUERIES.add(Histogram)
