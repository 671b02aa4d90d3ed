"""Linear queries of a table of counts: A x, one number for each row of a matrix.

A record of a finite model is in one of C cells, and x_c records are in cell c. The total is A x: a
record in cell c adds column c of A. Special cases are margins, histograms, cumulative counts and
hierarchies (a county is the sum of its tracts).

If all entries of A are 0 or 1, the query is a set of counts, and the sampler uses the rows that a
record adds to instead of its column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours
from noiseaware.queries import arguments
from noiseaware.queries.arguments import as_integer_records, check_norm
from noiseaware.registry import QUERIES

FIELDS = ("shape", "rows", "columns", "entries")
"""The fields of a matrix in a file: its shape, and the places and values of nonzero entries."""


class Linear(Described):
    """Weighted sums of the cells of a table: A x, for x the number of records in each cell.

    Parameters
    ----------
    matrix
        A, (d, C): an array, a `scipy.sparse` matrix, or a mapping with ``shape``, ``rows``,
        ``columns`` and ``entries``. C is the number of values that a record can have.
    names
        The rows' names; by default "row 0", "row 1", ...
    n_levels
        The number of levels of each column of a record; cells are then in C order, the last column
        changing fastest. None if a record is the number of its cell.

    Examples
    --------
    >>> query = Linear([[1, 1, 1], [0, 1, 2]], ["people", "children"])
    >>> query.statistic([2, 0])
    array([[1., 2.],
           [1., 0.]])
    >>> query.sensitivity(norm=1)
    2.0
    >>> Linear.sums(["county"] * 3, ["tract 1", "tract 1", "tract 2"]).names
    ('county', 'tract 1', 'tract 2')
    """

    matrix: sparse.csc_array
    names: tuple[str, ...]
    n_levels: tuple[int, ...] | None
    n_cells: int
    integer_valued: bool
    cells: Callable[[ArrayLike], NDArray[np.int64]] | None
    example_arguments = {"matrix": [[1, 1, 1], [0, 1, 1]], "names": ["all", "above 0"]}

    def __init__(
        self, matrix: Any, names: Sequence[str] | None = None, n_levels: Sequence[int] | None = None
    ) -> None:
        held = _as_matrix(matrix)
        d, n_cells = held.shape
        levels = None
        if n_levels is not None:
            levels = tuple(
                whole_number(f"n_levels[{k}]", count) for k, count in enumerate(n_levels)
            )
            if math.prod(levels) != n_cells:
                raise ValueError(
                    f"matrix must have a column for each of the {math.prod(levels)} cells of a "
                    f"table with n_levels {list(levels)}; got {n_cells} columns"
                )
        counts = bool((held.data == 1.0).all())
        self._hold(
            matrix=held,
            names=_as_names(names, d),
            n_levels=levels,
            n_cells=n_cells,
            integer_valued=bool((held.data == np.floor(held.data)).all()),
            cells=self._cells if counts else None,
            _rows=_padded(held) if counts else None,
        )

    @classmethod
    def sums(
        cls, *labels: Sequence[Hashable | None], n_levels: Sequence[int] | None = None
    ) -> Linear:
        """Return the query that counts the records of each label.

        Parameters
        ----------
        labels
            Each is one level of a hierarchy, or any other grouping: a label for every cell. Cells
            with the same label form one row, named by the label; cells with None are not counted.
            Rows are in the order in which their labels first appear.
        n_levels
            As above.
        """
        if not labels or len({len(part) for part in labels}) != 1:
            lengths = [len(part) for part in labels]
            raise ValueError(f"labels must be lists with a label for each cell; got {lengths}")
        rows: list[int] = []
        columns: list[int] = []
        names: list[str] = []
        for part in labels:
            number: dict[Hashable, int] = {}
            for column, label in enumerate(part):
                if label is not None:
                    rows.append(len(names) + number.setdefault(label, len(number)))
                    columns.append(column)
            names += [str(label) for label in number]
        shape = (len(names), len(labels[0]))
        return cls(sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape), names, n_levels)

    def weighted(self, weights: Floats) -> Linear:
        """Return the query with each row multiplied by its weight, (d,)."""
        diagonal = sparse.diags_array(np.asarray(weights, dtype=np.float64))
        return Linear(diagonal @ self.matrix, self.names, self.n_levels)

    def _cell_of(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each record's cell, (n,)."""
        array = as_integer_records(records, self)
        self.check_records(array)
        if self.n_levels is None:
            return array
        return np.ravel_multi_index(tuple(array.T), self.n_levels)

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the rows to which each record adds 1, (n, k); -1 is none."""
        return vars(self)["_rows"][self._cell_of(records)]

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the column of A of each record's cell, (n, d)."""
        return self.matrix[:, self._cell_of(records)].T.toarray(order="C")

    def total(self, records: ArrayLike) -> Floats:
        """Return A x, (d,)."""
        return self.matrix @ np.bincount(self._cell_of(records), minlength=self.n_cells)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are cells of this query's table."""
        array = as_array(records, self)
        arguments.check_integer_dtype(array)
        if self.n_levels is None:
            arguments.check_flat(array)
            arguments.check_range("records", array, self.n_cells)
            return
        arguments.check_columns(array, len(self.n_levels))
        for k, count in enumerate(self.n_levels):
            arguments.check_range(f"column {k} of records", array[:, k], count)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total; every value is attained.

        Adding a record to cell c moves the total by column a_c; moving a record from cell c to cell
        b moves it by a_b - a_c. Row r moves by at most max_c A_rc - min_c A_rc, which settles the
        l-infinity norm. For l1 and l2, all pairs are searched except those that cannot beat the
        best one found: without the rows that are constant over columns, ||a_b - a_c|| is at most
        ||a_b|| + ||a_c||, and for l2 and nonnegative entries at most
        (||a_b||^2 + ||a_c||^2)^(1/2).
        """
        check_norm(norm, neighbours)
        A = self.matrix
        if norm == math.inf:
            low, high = _ends(A)
            moved = high - low if neighbours == "change" else np.maximum(high, -low)
            return float(moved.max())
        power = int(norm)
        if neighbours == "add-remove":
            return float(_sums(A, np.abs(A.data) ** power).max() ** (1.0 / power))
        return _largest_difference(A, power) ** (1.0 / power)

    def _arguments(self) -> dict[str, Any]:
        matrix = tuple(map(tuple, self._described().values()))
        return {"matrix": matrix, "names": self.names, "n_levels": self.n_levels}

    def _described(self) -> dict[str, list[Any]]:
        places = sparse.coo_array(self.matrix)
        parts = (self.matrix.shape, places.row, places.col, places.data)
        return {k: np.asarray(part).tolist() for k, part in zip(FIELDS, parts, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        levels = {} if self.n_levels is None else {"n_levels": list(self.n_levels)}
        return {"type": "Linear", "matrix": self._described(), "names": list(self.names), **levels}

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": (self.matrix, self.names, self.n_levels)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Linear.__init__(self, *state["arguments"])

    def __repr__(self) -> str:
        return f"Linear(<{len(self.names)} x {self.n_cells}>)"

    def words(self) -> list[str]:
        what = "How many records there are in" if self.cells else "Weighted numbers of records in"
        return [f"{what} each of {len(self.names)} sets of the {self.n_cells} cells of a table."]


def _as_matrix(matrix: Any) -> sparse.csc_array:
    """Return A with finite entries, none stored twice or as 0."""
    try:
        if isinstance(matrix, Mapping):
            shape, *places, entries = (matrix[field] for field in FIELDS)
            if set(matrix) != set(FIELDS):
                raise ValueError
            matrix = sparse.coo_array((entries, tuple(places)), shape=tuple(shape))
        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            raise ValueError
        held = sparse.csc_array(matrix, dtype=np.float64)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise ValueError(
            "matrix must be numbers of shape (d, C), an array or a scipy.sparse matrix, or a "
            f"mapping with {', '.join(FIELDS)}; got {_short(matrix)}"
        ) from None
    if not np.isfinite(held.data).all():
        wrong = held.data[~np.isfinite(held.data)][0]
        raise ValueError(f"matrix must hold finite numbers; got {wrong}")
    if 0 in held.shape:
        raise ValueError(f"matrix must have a row and a column at least; got shape {held.shape}")
    held.sum_duplicates()
    held.eliminate_zeros()
    held.sort_indices()
    return held


def _short(matrix: Any) -> str:
    shape = f" of shape {matrix.shape}" if isinstance(matrix, np.ndarray) else ""
    shown = repr(matrix)
    return shown if len(shown) < 80 else f"{type(matrix).__name__}{shape}"


def _as_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"row {r}" for r in range(d))
    listed = () if isinstance(names, str) else tuple(names)
    if len(listed) != d or not all(isinstance(name, str) and name for name in listed):
        raise ValueError(
            f"names must be {d} texts, one for each row of matrix; got {len(listed)} names"
        )
    if len(set(listed)) < d:
        twice = next(name for name in listed if listed.count(name) > 1)
        raise ValueError(f"names must be different; got {twice!r} more than once")
    return listed


def _padded(A: sparse.csc_array) -> NDArray[np.int64]:
    """Return the rows of each column's entries, (C, k), padded with -1."""
    sizes = np.diff(A.indptr)
    rows = np.full((A.shape[1], max(1, sizes.max())), -1, dtype=np.int64)
    column = np.repeat(np.arange(A.shape[1]), sizes)
    rows[column, np.arange(A.nnz) - A.indptr[column]] = A.indices
    return rows


def _ends(A: sparse.csc_array) -> tuple[Floats, Floats]:
    """Return the smallest and the largest entry of each row, (d,)."""
    return A.min(1).toarray().ravel(), A.max(1).toarray().ravel()


def _sums(A: sparse.csc_array, terms: Floats) -> Floats:
    """Return the sum of `terms`, one for each entry of A, over each column, (C,)."""
    column = np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
    return np.bincount(column, terms, minlength=A.shape[1]).astype(np.float64)


def _largest_difference(A: sparse.csc_array, power: int) -> float:
    """Return the largest sum_r |A_rb - A_rc|^power over pairs of columns, power 1 or 2."""
    low, high = _ends(A)
    A = sparse.csc_array(sparse.csr_array(A)[low != high])
    if 0 in A.shape:
        return 0.0
    sizes = _sums(A, np.abs(A.data) ** power)
    order = np.argsort(-sizes, kind="stable")
    positive = bool((A.data > 0.0).all())
    best = 0.0
    for i in order:
        if power == 1 or positive:
            bound = sizes[i] + sizes[order[0]]
        else:
            bound = (math.sqrt(sizes[i]) + math.sqrt(sizes[order[0]])) ** 2
        if bound <= best * (1.0 + 1e-12):
            break
        mine = np.zeros(A.shape[0])
        part = slice(A.indptr[i], A.indptr[i + 1])
        mine[A.indices[part]] = A.data[part]
        there = mine[A.indices]
        # Rows where the other column is 0 add |mine|^power (in `sizes`); `terms` corrects the rest.
        terms = np.abs(A.data - there) ** power - np.abs(there) ** power
        best = max(best, float(sizes[i] + _sums(A, terms).max()))
    return best


QUERIES.add(Linear)
