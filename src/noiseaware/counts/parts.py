"""A chain of counts of parts of records: a class, and features that are independent given it.

The records of naive Bayes have I J_1 ... J_K possible values, soon more than there are records, so
a table of them gains nothing. But where a query sees the class of a record with one feature at a
time, all that matters are the I (J_1 + ... + J_K) counts x_ikj of records of class i with level j
of feature k. Every feature counts all records of a class,

    sum_j x_ikj = n_i    for all k,        sum_i n_i = n.

The number of databases with these counts is the number of ways to order the classes, times the ways
to order the levels of each feature among the records of each class:

    n! / prod_i n_i!  prod_ik [n_i! / prod_j x_ikj!]  =  n! prod_i n_i!^(K-1) / prod_ikj x_ikj!.

So it is a table as in `counts.target`, with (K - 1) log Gamma(1 + n_i) added to the rows of the
n_i, and with the differences between the n_i of two features fixed at 0.

**Steps.** If no row contains counts of several classes, all counts are drawn at once
(`counts.redraw`). Otherwise they move on lines (`counts.move`). Pairs of levels of one feature in
one class reach every table with the same n_i. A record that changes from class i to class i' leaves
one cell of each feature and enters another: an element with 2 K cells, one from each set (i, k) and
(i', k), drawn at random. Pairs can first bring the counts of class i to these cells, so together
they reach every table. Where n is unknown, a record comes or goes: an element with one cell of each
(i, k).
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from noiseaware.contract import (
    Floats,
    Model,
    Parts,
    Size,
    Theta,
    mechanism_abilities,
    model_abilities,
)
from noiseaware.counts.redraw import Around, Box, add_up_box, make_box
from noiseaware.counts.target import Cells, CountTarget, Table, why_not
from noiseaware.counts.weights import WINDOW
from noiseaware.release import Release

MOST_PRODUCTS = 2**28
"""Most products for the sums over a fixed box: they take 0.05 to 0.3 s. This is enough for windows
of 1,800 points, or all tables of as many records, in 75 cells (`python -m benchmarks.counts
sums`)."""

SPREADS = 16.0
"""Points of a window of a fixed box per standard deviation of its number: 8 to either side, beyond
which Laplace noise has 1e-5 of its mass, for each of some hundred windows."""

LITTLE = 8
"""The share of a window, 1 / 8, by which its ends may be off: a window of 16 standard deviations
then has 6 at either side."""

MOST_BOXES = 8
"""Most fixed boxes to keep, for chains that take turns; each has 7 MB at most."""


def parts_of(model: Model, release: Release) -> Parts | None:
    """Return how the release sees the parts of records, or None if it sees more than them."""
    parts, mechanism = model_abilities(model).parts, mechanism_abilities(release.mechanism)
    total = mechanism.terms is not None and mechanism.statistic is None
    if parts is None or not total or mechanism.exact_parts is not None:
        return None
    return parts(release.query)


def count_target(model: Model, release: Release, size: Size | None = None) -> CountTarget:
    """Return the target of a chain of counts: of parts of records, or of the possible records."""
    parts = parts_of(model, release)
    if parts is None:
        return CountTarget(model, release, size)
    return PartsTarget(model, release, size, parts)


def why_not_counts(model: Model, release: Release, size: Size | None = None) -> str:
    """Return why the state cannot be counts, in words; "" if it can."""
    return why_not(model, release, size, parts_of(model, release))


class PartsTarget(CountTarget):
    """The joint posterior of theta and the counts of the parts of records.

    Parameters
    ----------
    model, release, size
        As in `Target`.
    parts
        How the release sees the records of the model.
    """

    def __init__(self, model: Model, release: Release, size: Size | None, parts: Parts) -> None:
        self.parts = parts
        n_classes, *n_levels = parts.levels
        self._ends = np.cumsum([0, *n_levels])
        self._n_classes, self._per_class = n_classes, int(self._ends[-1])
        self._boxes: tuple[object, dict[bytes | None, tuple[Box, Box]]] = (None, {})
        super().__init__(model, release, size, parts)

    def _find_cells(self) -> Cells:
        """Lay out the cells, and what is known about their counts."""
        n_parts, n_cells = len(self._ends) - 1, self._n_classes * self._per_class
        by_part = sparse.csr_array(
            [(self._ends[k] <= np.arange(self._per_class)) for k in range(n_parts + 1)], dtype=float
        )
        of_class = [
            sparse.kron(sparse.eye_array(self._n_classes), by_part[[k]] - by_part[[k + 1]])
            for k in range(n_parts)
        ]
        first, n = of_class[0], self.release.n_records
        held = [sparse.csr_array((0, n_cells))]
        held += [sparse.csr_array(other - first) for other in of_class[1:]]
        number = sparse.csr_array(first.sum(axis=0)[None])
        if n is not None:
            held.append(number)
        held_rows = sparse.csr_array(sparse.vstack(held))
        values = np.zeros(held_rows.shape[0])
        values[len(values) - (n is not None) :] = n or 0
        return Cells(
            columns=sparse.csr_array(self.parts.columns),
            held=held_rows,
            held_values=values,
            number=number,
            prior=self.parts.prior,
            from_gammas=self.parts.from_gammas,
            orders=sparse.csr_array(first),
            order_sign=n_parts - 1.0,
            elements=self._elements(n_cells),
            part_ends=self._ends,
        )

    def _make_table(self, cells: Cells) -> Table:
        """Collect all rows, and the rows of each number if every row has only one."""
        table = super()._make_table(cells)
        shape = (len(table.fixed), self.n)
        matrix = sparse.csc_array((table.weight, table.row, table.start), shape=shape)
        return table._replace(**nodes_of(sparse.csr_array(matrix), table.fixed, self._ends))

    def boxes(self, around: Around | None) -> tuple[Box, Box]:
        """Return the fixed box, with its sums, and the one for random windows.

        The sums are computed once for each place: several chains may take turns.
        """
        if self._boxes[0] is not self:  # a copy has another density
            self._boxes = (self, {})
        made, key = self._boxes[1], None if around is None else around.starts.tobytes()
        if key not in made:
            if len(made) >= MOST_BOXES:
                made.pop(next(iter(made)))  # the oldest
            made[key] = self._make_boxes(around)
        return made[key]

    def _make_boxes(self, around: Around | None) -> tuple[Box, Box]:
        """Return a fixed and a random box, or one fixed box of all tables if its sums are cheap."""
        none = make_box(0, 0, 0)
        if len(self.table.node_start) == 1:
            return none, none
        free = make_box(self.n, self._n_classes, WINDOW)
        if self._most < self._most_points:
            around, free = Around(self._most + 1, np.zeros_like(free.starts), True), none
        if around is None:
            return none, free
        fixed = make_box(self.n, self._n_classes, around.points)
        fixed.starts[:] = around.starts
        fixed.sizes[:] = around.starts[: self.n].reshape(self._n_classes, -1)[:, self._ends[1] - 1]
        add_up_box(self.density, self.table, self.slopes, self._most, 1, fixed)
        return fixed, free

    @property
    def _most(self) -> int:
        """The number of records, or the largest possible number."""
        n = self.release.n_records if self.size is None else self.size.upper
        assert n is not None
        return n

    @property
    def _most_points(self) -> int:
        return math.isqrt(MOST_PRODUCTS // (self.n + self._n_classes))

    def links(self, counts: np.ndarray) -> np.ndarray:
        """Return the numbers y_c and m_i of `counts.redraw`, (C + I,)."""
        by_class = counts.reshape(self._n_classes, -1)
        parts = np.split(by_class, self._ends[1:-1], axis=1)
        sums = np.concatenate([np.cumsum(part, axis=1) for part in parts], axis=1)
        return np.append(sums, np.cumsum(parts[0].sum(axis=1)))

    def place(
        self, centres: np.ndarray, spreads: np.ndarray, old: Around | None = None
    ) -> Around | None:
        """Return where a fixed box is: around these links, as wide as their spreads require.

        There is none if it would have less than half that width, as on the way to the posterior. If
        the windows of the old place are off by little, it is kept, which saves new sums.
        """
        most, everything = self._most_points, self._most < self._most_points
        if len(self.table.node_start) == 1 or everything or not spreads.any():
            return None
        wanted = max(WINDOW, math.ceil(SPREADS * spreads.max()))
        points = min(wanted, most)
        if 2 * points < wanted:
            return None
        starts = np.rint(centres - points / 2).astype(np.int64)
        starts = np.clip(starts, 0, self._most + 1 - points)
        if old is not None:
            ends = np.abs([starts - old.starts, starts + points - old.starts - old.points])
            if ends.max() <= points / LITTLE:
                return old
        return Around(points, starts, points == wanted)

    def _elements(self, n_cells: int) -> list[dict[int, int]]:
        """Return the directions that change the n_i, by the first cells of the sets."""
        starts = np.arange(0, n_cells, self._per_class)[:, None] + self._ends[:-1]
        made = [
            {int(c): step for row, step in ((a, 1), (b, -1)) for c in row}
            for a, b in combinations(starts, 2)
        ]
        if self.size is not None:
            made += [{int(c): 1 for c in row} for row in starts]
        return made

    def _log_cells(self, theta: Theta) -> Floats:
        return self.parts.log_cells(theta)

    def propose(
        self, theta: Theta, m: int, rng: np.random.Generator, start: int = 0
    ) -> tuple[np.ndarray, None]:
        """Draw the counts of all records from f(. | theta)."""
        p = np.exp(self.log_values(theta)).reshape(self._n_classes, -1)
        counts = np.empty(p.shape, dtype=np.int64)
        n = self.release.n_records
        for begin, end in zip(self._ends[:-1], self._ends[1:], strict=True):
            part = p[:, begin:end]
            if begin == 0:
                drawn = rng.multinomial(m if n is None else n, part.reshape(-1) / part.sum())
                counts[:, :end] = drawn.reshape(part.shape)
                sizes = counts[:, :end].sum(axis=1)
            else:
                counts[:, begin:end] = rng.multinomial(
                    sizes, part / part.sum(axis=1, keepdims=True)
                )
        return counts.reshape(-1), None

    def number(self, records: np.ndarray) -> int:
        """Return how many records these counts are of."""
        return int(records.sum()) // (len(self._ends) - 1)

    def hold(self, records: np.ndarray) -> np.ndarray:
        """Return the counts of a list of records."""
        cells = records[:, :1] * self._per_class + self._ends[:-1] + records[:, 1:]
        return np.bincount(cells.reshape(-1), minlength=self.n)

    def expand(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return records with these counts, in random order."""
        made = []
        for i, of_class in enumerate(counts.reshape(self._n_classes, -1)):
            parts = np.split(of_class, self._ends[1:-1])
            columns = [rng.permutation(np.repeat(np.arange(len(x)), x)) for x in parts]
            made.append(np.column_stack([np.full(len(columns[0]), i), *columns]))
        return rng.permutation(np.concatenate(made))


def nodes_of(rows: sparse.csr_array, fixed: np.ndarray, ends: np.ndarray) -> dict[str, Any]:
    """Return the fields of `Table` about nodes; none if a row combines several numbers."""
    if len(ends) == 1:
        return {}
    n_cells, width, lengths = rows.shape[1], ends[-1], np.diff(ends)
    n_classes, found = n_cells // width, []
    for r in np.flatnonzero(~fixed):
        row = rows[[r]].toarray().reshape(n_classes, width)
        cells = np.flatnonzero(row)
        # A feature with equal weights for all levels sees the size of the class.
        sums = np.add.reduceat(row, ends[:-1], axis=1) / lengths
        whole = sums.sum(axis=1)
        if len(cells) == 1:
            found.append((int(cells[0]), r, row.flat[cells[0]]))
        elif (row != np.repeat(sums, lengths, axis=1)).any():
            return {}
        elif np.count_nonzero(whole) == 1:
            found.append((n_cells + int(np.argmax(whole != 0)), r, whole[whole != 0][0]))
        elif np.ptp(whole) == 0:
            found.append((n_cells + n_classes, r, whole[0]))
        else:
            return {}
    nodes, numbers, weights = (np.array(part) for part in zip(*sorted(found), strict=True))
    return {
        "node_start": np.searchsorted(nodes, np.arange(n_cells + n_classes + 2)),
        "node_row": numbers.astype(np.int64),
        "node_weight": weights.astype(np.float64),
    }
