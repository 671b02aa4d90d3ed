"""Which tables of counts have the fixed numbers, and how to get from one to another.

What is fixed of a table x of C counts is F x = e: the number of records, or of those in each group,
and every exact row of a release (`mechanisms.Exact`). A chain may visit any nonnegative integer x
with these numbers, and must be able to reach all of them. Its directions are pairs of cells, cubes
of a grid (`counts.move`) and a list made here.

**Classes.** Cells with the same column of F form a class, and only the sum y_k over each class k
matters: D y = e, with D the distinct columns. Within a class, pairs connect all x with the same y,
as any count can be carried to any cell of the class. That leaves y. A direction z of y (D z = 0)
uses one random cell of each class: if the class has y_k records, pairs can first carry all of them
to that cell.

**Nothing fixed.** A class in no row, as where the number of records is unknown, goes up and down by
itself.

**Nothing left.** A row with only one unknown class determines that class. Repeating this may
determine all of y, as it does for totals of the parts of a partition, and for every hierarchy (a
county, its tracts, their blocks): two rows are then nested or disjoint, and the smallest remaining
one has one unknown class.

**Margins of a grid.** Let the cells be the combinations of some variables, and every row the number
of records at some levels (or groups of levels that no row tells apart) of a set of variables, with
all rows of the set present. Remove sets one by one, each time one whose variables shared with other
sets all lie in one of these (Graham's reduction). If this removes all sets, the model with these
margins is decomposable, and the swaps

    (a, s, b) + (a', s, b')  ->  (a, s, b') + (a', s, b)

over the separators s of its junction tree connect all tables (Dobra 2003, theorem 3). They are
cubes with two groups of variables, those on the two sides of s. Levels that no row tells apart are
a class, so a pair can first bring the second cell to the same level of s.

**Everything else that is small.** The Graver basis of D, the z that are not sums of two others of
the same signs, connects all tables for every e: y' - y is a sum of such z, each with the signs of
y' - y, so no count becomes negative on the way. Pottier's algorithm finds it: starting from a basis
of the lattice, sums of two elements are reduced by the known ones until nothing is left over. Rows
that do not touch the same classes are first separated.

Where neither applies an error says so.

References
----------
Dobra, A. (2003). Markov bases for decomposable graphical models. Bernoulli 9(6).
Pottier, L. (1996). The Euclidean algorithm in dimension n. ISSAC.
Sturmfels, B. (1996). Groebner bases and convex polytopes. American Mathematical Society.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

MOST_CLASSES = 40
MOST_ELEMENTS = 1500
"""Most classes of a part with no known form, and most elements of its Graver basis."""


MOST_CELLS, MOST_OPEN = 12, 200
"""Largest table that `open_directions` searches, and most directions that it returns."""


class Directions(NamedTuple):
    """The directions that a chain needs besides pairs.

    Attributes
    ----------
    elements
        Directions of classes: which classes, and by how much each changes.
    separations
        Pairs of sets of variables of a grid that need cubes.
    """

    elements: list[dict[int, int]]
    separations: list[tuple[set[int], set[int]]]


class ExactRows:
    """The totals that n records of a list of values, in some order, must have.

    Parameters
    ----------
    values : (C, ...)
        The possible records.
    parts
        Queries and the published totals of each.
    n
        The number of records, which is one more row.

    Attributes
    ----------
    classes : (C,)
        The class of each value.
    elements
        Classes (out, into), in two lists of the same length: records of the first may be replaced
        by records of the second, and vice versa. These connect all possible counts of the classes.
    """

    def __init__(self, values: np.ndarray, parts: Sequence[tuple[Any, np.ndarray]], n: int) -> None:
        self.values = values
        ones = np.ones((1, len(values)))
        rows = [sparse.csr_array(query.statistic(values).T) for query, _ in parts]
        self._matrix = sparse.csc_array(sparse.vstack([*rows, sparse.csr_array(ones)]))
        self._totals = np.concatenate([*(totals for _, totals in parts), [float(n)]])
        self.classes = same_columns(self._matrix)
        self.elements = [
            ([k for k, z in sorted(element.items()) for _ in range(-z)],
             [k for k, z in sorted(element.items()) for _ in range(z)])
            for element in connect(self._matrix, self.classes, ()).elements
        ]  # fmt: skip

    def find_records(self, rng: np.random.Generator) -> np.ndarray:
        """Return records with these totals, in random order; ValueError if there are none."""
        counts = find_table(self._matrix, self._totals, self._totals, rng)
        return self.values[rng.permutation(np.repeat(np.arange(len(counts)), counts))]

    def cells_of(self, records: np.ndarray) -> np.ndarray:
        """Return which of the values each record has, (n,)."""
        return cells_of(self.values, records)


def cells_of(values: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Return the number of each record among all possible values, (n,)."""
    flat = values.reshape(len(values), -1)
    rows = np.concatenate([flat, np.asarray(records).reshape(-1, flat.shape[1])])
    _, number = np.unique(rows, axis=0, return_inverse=True)
    number = number.reshape(-1)  # (n, 1) in NumPy 2.0.0
    cell = np.empty(number.max() + 1, dtype=np.int64)
    cell[number[: len(flat)]] = np.arange(len(flat))
    return cell[number[len(flat) :]]


def same_columns(matrix: sparse.csc_array) -> np.ndarray:
    """Return a number for each column, the same for equal columns."""
    matrix.sort_indices()
    seen: dict[bytes, int] = {}
    numbers = np.empty(matrix.shape[1], dtype=np.int64)
    for c in range(matrix.shape[1]):
        part = slice(matrix.indptr[c], matrix.indptr[c + 1])
        key = matrix.indices[part].tobytes() + matrix.data[part].tobytes()
        numbers[c] = seen.setdefault(key, len(seen))
    return numbers


def connect(matrix: sparse.csc_array, classes: np.ndarray, grid: tuple[int, ...]) -> Directions:
    """Return directions that connect all tables with F x = e, whatever e.

    Parameters
    ----------
    matrix
        F, (m, C), integers.
    classes
        The class of each cell, (C,).
    grid
        The levels of each variable, if the cells are all their combinations in C order.
    """
    _, first = np.unique(classes, return_index=True)
    distinct = sparse.csc_array(matrix[:, first])
    free = np.flatnonzero(np.diff(distinct.indptr) == 0)
    elements = [{int(k): 1} for k in free]
    open_classes = np.setdiff1d(unknown_classes(distinct), free)
    if not len(open_classes):
        return Directions(elements, [])
    if grid and not len(free):
        separations = decomposed(matrix, classes.reshape(grid))
        if separations is not None:
            return Directions([], separations)
    rows = sparse.csr_array(distinct[:, open_classes])
    for part_rows, part in parts(rows):
        dense = np.rint(rows[part_rows][:, part].toarray()).astype(np.int64)
        for z in graver_basis(dense):
            elements.append({int(open_classes[part[k]]): int(z[k]) for k in np.flatnonzero(z)})
    return Directions(elements, [])


def unknown_classes(distinct: sparse.csc_array) -> np.ndarray:
    """Return the columns of D whose y does not follow from taking one row after another."""
    by_row, by_column = sparse.csr_array(distinct), sparse.csc_array(distinct)
    left = np.diff(by_row.indptr)  # classes of each row that are not known
    known = np.zeros(distinct.shape[1], dtype=bool)
    rows = list(np.flatnonzero(left == 1))
    while rows:
        row = rows.pop()
        columns = by_row.indices[by_row.indptr[row] : by_row.indptr[row + 1]]
        for k in columns[~known[columns]]:
            known[k] = True
            for other in by_column.indices[by_column.indptr[k] : by_column.indptr[k + 1]]:
                left[other] -= 1
                if left[other] == 1:
                    rows.append(other)
    return np.flatnonzero(~known)


# ------------------------------------------------------------------ margins of a grid


def decomposed(
    matrix: sparse.csc_array, classes: np.ndarray
) -> list[tuple[set[int], set[int]]] | None:
    """Return the two sides of every separator, if the rows are decomposable margins; else None.

    `classes` has the shape of the grid.
    """
    labels = [coarse_levels(classes, k) for k in range(classes.ndim)]
    sizes = [int(label.max()) + 1 for label in labels]
    coarse = np.stack(
        [
            label[index]
            for label, index in zip(
                labels, np.unravel_index(np.arange(classes.size), classes.shape), strict=True
            )
        ]
    )
    rows = sparse.csr_array(matrix)
    found: dict[frozenset[int], set[tuple[int, ...]]] = {}
    for r in range(rows.shape[0]):
        part = slice(rows.indptr[r], rows.indptr[r + 1])
        cells, entries = coarse[:, rows.indices[part]], rows.data[part]
        if not len(entries) or (entries != 1.0).any():
            return None
        held = [k for k in range(len(sizes)) if sizes[k] > 1 and len(set(cells[k])) == 1]
        here = np.ones(coarse.shape[1], dtype=bool)
        for k in held:
            here &= coarse[k] == cells[k, 0]
        if here.sum() != len(entries):
            return None
        found.setdefault(frozenset(held), set()).add(tuple(int(cells[k, 0]) for k in held))
    for held_set, levels in found.items():
        if len(levels) != int(np.prod([sizes[k] for k in held_set])):
            return None
    return separators(list(found), classes.ndim)


def coarse_levels(classes: np.ndarray, k: int) -> np.ndarray:
    """Return a number for each level of variable k, the same for levels that no row tells apart."""
    levels = np.moveaxis(classes, k, 0).reshape(classes.shape[k], -1)
    return np.unique(levels, axis=0, return_inverse=True)[1].reshape(-1)


def separators(
    margins: Sequence[frozenset[int]], n_variables: int
) -> list[tuple[set[int], set[int]]] | None:
    """Return the two sides of every edge of a junction tree, or None if there is no such tree.

    Variables in no margin go to the first side.
    """
    largest = [s for s in set(margins) if not any(s < other for other in margins)]
    left = {s: set(s) for s in sorted(largest, key=sorted)}  # with all that hangs on each
    made = []
    while len(left) > 1:
        for leaf in left:
            others = [s for s in left if s != leaf]
            shared = leaf & frozenset().union(*others)
            parent = next((other for other in others if shared <= other), None)
            if parent is not None:
                break
        else:
            return None
        below = left.pop(leaf)
        made.append((below - shared, shared))
        left[parent] |= below
    everything = set(range(n_variables))
    return [(everything - one - shared, one) for one, shared in made]


# ------------------------------------------------------------------ small matrices


def parts(rows: sparse.csr_array) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows and columns of parts that share no row, without redundant rows."""
    from scipy.sparse.csgraph import connected_components

    if rows.shape[1] <= 10 * MOST_CLASSES:
        rows_kept = independent_rows(rows)
    else:
        rows_kept = np.arange(rows.shape[0])
    kept = rows[rows_kept]
    m = kept.shape[0]
    joined = sparse.block_array([[None, kept], [kept.T, None]], format="csr")
    _, number = connected_components(joined, directed=False)
    return [
        (rows_kept[np.flatnonzero(number[:m] == i)], np.flatnonzero(number[m:] == i))
        for i in np.unique(number[m:])
    ]


def independent_rows(rows: sparse.csr_array) -> np.ndarray:
    """Return rows that imply the others, sparse ones first; exact arithmetic."""
    order = np.argsort(np.diff(rows.indptr), kind="stable")
    reduced: list[tuple[int, dict[int, Fraction]]] = []
    kept = []
    for r in order:
        part = slice(rows.indptr[r], rows.indptr[r + 1])
        row = {
            int(k): Fraction(int(v))
            for k, v in zip(rows.indices[part], rows.data[part], strict=True)
            if v != 0
        }
        for pivot, other in reduced:
            factor = row.get(pivot)
            if factor:
                for k, v in other.items():
                    row[k] = row.get(k, Fraction(0)) - factor * v
                row = {k: v for k, v in row.items() if v}
        if row:
            pivot = min(row)
            scale = row[pivot]
            reduced.append((pivot, {k: v / scale for k, v in row.items()}))
            kept.append(r)
    return np.array(sorted(kept), dtype=np.int64)


def kernel_basis(matrix: np.ndarray) -> list[list[int]]:
    """Return a basis of the integer z with D z = 0, by unimodular steps on columns of (D, I)."""
    m, n = matrix.shape
    columns = [
        [int(matrix[i, k]) for i in range(m)] + [int(k == j) for j in range(n)] for k in range(n)
    ]
    done = 0
    for i in range(m):
        while True:
            here = [k for k in range(done, n) if columns[k][i] != 0]
            if not here:
                break
            least = min(here, key=lambda k: abs(columns[k][i]))
            columns[done], columns[least] = columns[least], columns[done]
            pivot = columns[done]
            clean = True
            for k in range(done + 1, n):
                factor = columns[k][i] // pivot[i]
                if factor:
                    columns[k] = [a - factor * b for a, b in zip(columns[k], pivot, strict=True)]
                clean &= columns[k][i] == 0
            if clean:
                done += 1
                break
    return [column[m:] for column in columns[done:]]


def graver_basis(matrix: np.ndarray) -> np.ndarray:
    """Return the Graver basis of D, (elements, K), one of z and -z; ValueError if it is too large.

    Pottier's algorithm. An element g reduces s if it has the signs of s and is not larger.
    """
    refusal = ValueError(
        "the exact rows must be those of a hierarchy, of margins of a table that are decomposable, "
        f"or few: no moves are known that lead to every table with these {len(matrix)} rows, and "
        f"the {matrix.shape[1]} kinds of cells that they tell apart are too many to find some"
    )
    basis = kernel_basis(matrix)
    if not basis:
        return np.zeros((0, matrix.shape[1]), dtype=np.int64)
    if matrix.shape[1] > MOST_CLASSES:
        raise refusal
    found = np.array([*basis, *(np.negative(basis))], dtype=np.int64)
    waiting = [f + g for f, g in combinations(found, 2)]
    while waiting:
        s = waiting.pop()
        while s.any():
            smaller = ((found * s >= 0) & (np.abs(found) <= np.abs(s))).all(axis=1)
            if not smaller.any():
                break
            s = s - found[np.argmax(smaller)]
        if s.any():
            waiting += [s + g for g in found] + [g - s for g in found]
            found = np.vstack([found, s, -s])
            if len(found) > 2 * MOST_ELEMENTS or len(waiting) > 400 * MOST_ELEMENTS:
                raise refusal
    minimal = []
    for i, s in enumerate(found):
        smaller = ((found * s >= 0) & (np.abs(found) <= np.abs(s))).all(axis=1)
        smaller[i] = False
        smaller &= (found != s).any(axis=1)
        if not smaller.any() and s[np.flatnonzero(s)[0]] > 0:
            minimal.append(s)
    return np.unique(np.array(minimal), axis=0)


def open_directions(matrix: sparse.csc_array) -> list[dict[int, int]]:
    """Return directions that no row sees, of few cells with integer rows; none for other tables.

    They are not needed to get everywhere, but to get there soon where rows are known well.
    """
    if matrix.shape[1] > MOST_CELLS or (matrix.data != np.rint(matrix.data)).any():
        return []
    try:
        basis = graver_basis(np.rint(matrix.toarray()).astype(np.int64))
    except ValueError:
        return []
    kept = [z for z in basis if np.abs(z).sum() > 2]  # two cells are a pair
    return [{int(c): int(z[c]) for c in np.flatnonzero(z)} for z in kept[:MOST_OPEN]]


# ------------------------------------------------------------------ a table to begin with


def find_table(
    matrix: sparse.csc_array, lower: np.ndarray, upper: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return integers x >= 0 with lower <= F x <= upper, at a random corner; ValueError if none.

    Solves an integer program with HiGHS. The solution is rounded and checked exactly.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    solved = milp(
        rng.random(matrix.shape[1]),
        integrality=np.ones(matrix.shape[1]),
        bounds=Bounds(0.0, np.inf),
        constraints=LinearConstraint(matrix, lower, upper),
    )
    if solved.x is None:
        raise ValueError(
            "the exact numbers must be those of a table of counts; no nonnegative integers have "
            "them all (they contradict one another, the number of records or its prior, size, or "
            "the sizes of groups)"
        )
    counts = np.rint(solved.x).astype(np.int64)
    made = matrix @ counts
    if (counts < 0).any() or (made < lower).any() or (made > upper).any():
        raise ValueError(
            "no table of counts with the exact numbers was found: they are too large to be solved "
            "for in floating-point numbers"
        )
    return counts
