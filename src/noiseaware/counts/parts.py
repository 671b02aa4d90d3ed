"""A chain of counts of the parts of records: a class and features that are independent given it.

The records of naive Bayes have I J_1 ... J_K possible values, soon more than there are records, and
a table of them is no gain. But where a query sees the class of a record with one feature at a time,
all that matters are the I (J_1 + ... + J_K) counts x_ikj of records of class i with level j of
feature k. Every feature counts all records of a class,

    sum_j x_ikj = n_i    for all k,        sum_i n_i = n,

and the databases with these counts are as many as there are ways to put the classes, and then the
levels of each feature among the records of each class, in order:

    n! / prod_i n_i!  prod_ik [n_i! / prod_j x_ikj!]  =  n! prod_i n_i!^(K-1) / prod_ikj x_ikj!.

So it is a table as in `counts.target`, of which the rows of the n_i have (K - 1) log Gamma(1 + n_i)
more, and in which the differences of the n_i by two features are fixed at 0.

**Directions.** Pairs of levels of one feature in one class lead to every table with the same n_i.
A record of class i that becomes one of class i' leaves a cell of each feature and enters another:
an element with 2 K cells, one of each set (i, k) and (i', k), drawn at random. Pairs can first
bring the counts of class i to these cells, so that together they lead everywhere. Where n is
not known, a record comes or goes: an element with one cell of each (i, k).
"""

from __future__ import annotations

from itertools import combinations

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
from noiseaware.counts.target import Cells, CountTarget, why_not
from noiseaware.release import Release


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
        As of `Target`.
    parts
        How the release sees the records of the model.
    """

    def __init__(self, model: Model, release: Release, size: Size | None, parts: Parts) -> None:
        self.parts = parts
        n_classes, *n_levels = parts.levels
        self._ends = np.cumsum([0, *n_levels])
        self._n_classes, self._per_class = n_classes, int(self._ends[-1])
        super().__init__(model, release, size, parts)

    def _find_cells(self) -> Cells:
        """Lay out the cells, and what is known of their counts."""
        n_parts, n_cells = len(self._ends) - 1, self._n_classes * self._per_class
        by_part = sparse.csr_array(
            [(self._ends[k] <= np.arange(self._per_class)) for k in range(n_parts + 1)], dtype=float
        )
        of_class = [
            sparse.kron(sparse.eye_array(self._n_classes), by_part[[k]] - by_part[[k + 1]])
            for k in range(n_parts)
        ]
        first, n = of_class[0], self.release.n_records
        held = [sparse.csr_array(other - first) for other in of_class[1:]]
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

    def _elements(self, n_cells: int) -> list[dict[int, int]]:
        """Return the directions that change the n_i, by the cells that begin the sets."""
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

    def _expand(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return records with these counts, in random order."""
        made = []
        for i, of_class in enumerate(counts.reshape(self._n_classes, -1)):
            parts = np.split(of_class, self._ends[1:-1])
            columns = [rng.permutation(np.repeat(np.arange(len(x)), x)) for x in parts]
            made.append(np.column_stack([np.full(len(columns[0]), i), *columns]))
        return rng.permutation(np.concatenate(made))
