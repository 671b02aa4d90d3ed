"""A chain whose state is a table of counts: how many records have each possible value.

Records of a finite model are exchangeable, so all that matters is x_c, the number of records with
value v_c, c = 1, ..., C. There are n! / prod_c x_c! databases with these counts, all equally
likely, so

    p(x | theta, s_dp)  proportional to  prod_c [f(v_c | theta)^x_c / x_c!] g(s_dp, T(x)),
    T(x) = sum_c x_c t(v_c).

**Rows.** All that a chain knows about x are numbers (M x)_r, each with its own function:

    log p(x | ...)  =  sum_c [b_c x_c + log Gamma(a_c + x_c) - log x_c!]  +  sum_r phi_r((M x)_r).

- The noisy totals: M has t(v_c) as its columns, and phi_j is the mechanism's (`mechanisms.terms`).
- The prior with theta integrated out, if the model has it (`contract.CountsPrior`): the a_c, and
  rows with phi = +-log Gamma(h + .). Otherwise theta is held, and b_c = log f(v_c | theta).
- What is fixed: the number of records, or that of each group, and every exact row of a release. phi
  is 0 at the value and minus infinity elsewhere, so no move may change such a row.
- The number of records n = sum_c x_c, where it is unknown but has a prior p(n). There are n! /
  prod_c x_c! databases for one table, and an integrated prior has 1 / Gamma(w + n) for the sum w of
  its concentrations (`CountsPrior.whole`); both are constant in n where n is known. So phi(n) = log
  p(n) + log n! - log Gamma(w + n), without the last term where theta is held.

A change of x along a direction d changes only the rows with (M d)_r != 0: the cost of a move does
not depend on the number of records, and hardly on the number of rows.

**To the other moves this is a target like any other**: `CountTarget` is a `Target` whose records
are the C counts. It is used with the default moves, or where a move says `on_counts`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from noiseaware.basics.arguments import check_memory
from noiseaware.contract import (
    CountsPrior,
    Model,
    Parts,
    Size,
    Theta,
    mechanism_abilities,
    model_abilities,
    size_abilities,
)
from noiseaware.counts.gammas import add_up, draw_log_gammas
from noiseaware.counts.lattice import (
    Directions,
    cells_of,
    connect,
    find_table,
    open_directions,
    same_columns,
)
from noiseaware.counts.redraw import Around, Box, make_box
from noiseaware.mechanisms.terms import EXACT
from noiseaware.release import Release
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target

LARGEST_CUBE = 4
"""Most groups of variables that a step of a table changes at once."""

IMPOSSIBLE = -1e9
"""log f of a record that theta does not allow; finite, so that no such records contribute 0."""

MOST_PATTERNS = 200
"""Most ways to group the variables of a table that a step can pick."""


MOST_SIZES = 10**7
"""Most values of n for which log p(n) is tabulated, unless it is flat."""


def why_not(
    model: Model, release: Release, size: Size | None = None, parts: Parts | None = None
) -> str:
    """Return why the state cannot be counts, of possible records or parts; "" if it can."""
    able, mechanism = model_abilities(model), mechanism_abilities(release.mechanism)
    if release.n_records is None and size is None and not able.random_size:
        return "the number of records is not known"
    if size is not None and able.random_size:
        return f"{able.name} is about the number of records itself"
    wide = size is not None and size.upper - size.lower >= MOST_SIZES
    if wide and not size_abilities(size).flat:
        return f"the prior for the number of records is not flat on {MOST_SIZES:,} numbers"
    if parts is not None:
        return ""
    if able.record_values is None:
        return f"{able.name} does not list all possible records in record_values"
    if mechanism.terms is None or mechanism.statistic is not None:
        return f"the noise of {mechanism.name} is not added to totals, one number at a time"
    if size is not None and able.counts_prior is not None and able.counts_prior.whole is None:
        return f"the counts_prior of {able.name} does not say what `whole` is"
    if able.uses_index and able.value_groups is None:
        return f"the records of {able.name} depend on their index"
    held = able.update_from_counts is not None or able.log_prior is not None
    if able.counts_prior is None and not (held and able.log_likelihood is not None):
        return f"{able.name} has no log_likelihood with a log_prior or an update_from_counts"
    return ""


class Cells(NamedTuple):
    """The cells of a table, and what a chain knows about their counts x.

    Attributes
    ----------
    columns : (d, C)
        What each cell adds to the total.
    held, held_values
        Rows that are fixed besides the exact ones of the release, (m, C), and their values.
    number : (1, C)
        The row that counts the records.
    prior, from_gammas
        log p of a database with theta integrated out, and theta given the gammas of that, or None.
    orders, order_sign
        Rows (R, C) of numbers y of records that can be ordered several times: the log number of
        databases with these counts contains order_sign log Gamma(1 + y).
    grid
        The levels of each variable, if cells are all their combinations in order.
    elements
        Directions that, with pairs, reach every table, by a cell of each set; None: find them.
    part_ends
        Where the parts of a record end among the cells of a class (`counts.parts`), from 0.
    """

    columns: sparse.csr_array
    held: sparse.csr_array
    held_values: np.ndarray
    number: sparse.csr_array
    prior: CountsPrior | None
    from_gammas: Callable[[np.ndarray], Theta] | None
    orders: sparse.csr_array | None = None
    order_sign: float = 0.0
    grid: tuple[int, ...] = ()
    elements: list[dict[int, int]] | None = None
    part_ends: np.ndarray = np.zeros(1, np.int64)


class Table(NamedTuple):
    """A table with C cells and R rows, for compiled code.

    The rows are the d noisy totals, then those of the prior, then the fixed ones.

    Attributes
    ----------
    start, row, weight
        M by columns: cell c has `weight[i]` in `row[i]` for i from start[c] to start[c + 1].
    shifts, signs
        h_r and s_r of the prior's rows.
    fixed : (R,) bool
        Whether a row must not change.
    concentrations : (C,)
        a_c.
    pools, pool_start
        Sets of cells, one after another; any two cells of a set are a pair that keeps the fixed
        rows.
    of_cell, of_cell_start, place
        The pools of each cell by kind, and the cell's place in the pool: those of cell c and kind k
        are from of_cell_start[c, k] to of_cell_start[c, k + 1]. The first kind has one pool, all
        cells with the same column of fixed rows; each other kind has pools of about one size.
    most_pools
        Most pools of each kind that a cell is in.
    levels, strides : (K,)
        The variables of a table in C order; none if the values are not one.
    patterns : (P, K)
        For each variable the number of its group, from 1, or 0: not changed.
    element_start, element_set, element_step
        Directions that are neither pairs nor cubes: element e changes one random cell of the set
        `element_set[i]` by `element_step[i]`, for i from element_start[e] on.
    sets, set_start
        The cells of these sets, one after another.
    most_sets : int
        Most sets of an element.
    size_row : int
        The row of the number of records, where that is unknown; else -1.
    size_range : (2,)
        The smallest and the largest number of records.
    size_logs
        log p(n) for each of them; one number if they are all alike.
    part_ends
        As in `Cells`; for possible records, only a 0.
    node_start, node_row, node_weight
        Where all counts are drawn at once (`counts.redraw`), the rows of each number v (a cell, the
        size of a class, or n): row `node_row[e]` is `node_weight[e]` v, for e from node_start[v]
        on.
    """

    start: np.ndarray
    row: np.ndarray
    weight: np.ndarray
    shifts: np.ndarray
    signs: np.ndarray
    fixed: np.ndarray
    concentrations: np.ndarray
    pools: np.ndarray
    pool_start: np.ndarray
    of_cell: np.ndarray
    of_cell_start: np.ndarray
    place: np.ndarray
    most_pools: np.ndarray
    levels: np.ndarray
    strides: np.ndarray
    patterns: np.ndarray
    element_start: np.ndarray
    element_set: np.ndarray
    element_step: np.ndarray
    sets: np.ndarray
    set_start: np.ndarray
    most_sets: int
    size_row: int = -1
    size_range: np.ndarray = np.zeros(2, np.int64)
    size_logs: np.ndarray = np.zeros(1)
    part_ends: np.ndarray = np.zeros(1, np.int64)
    node_start: np.ndarray = np.zeros(1, np.int64)
    node_row: np.ndarray = np.zeros(0, np.int64)
    node_weight: np.ndarray = np.zeros(0)

    @property
    def kinds(self) -> int:
        """The number of kinds of directions: pairs, cubes, and elements."""
        return len(self.most_pools) + len(self.patterns) + (len(self.element_start) > 1)


class CountTarget(Target):
    """The joint posterior of theta and the counts of each possible record.

    Attributes
    ----------
    cell_values : (C, ...)
        The possible records.
    table : Table
        The rows and the steps, for compiled code.
    slopes : (C,)
        b_c of the prior with theta integrated out.
    groups : (C,)
        The group of each cell.
    order, last : (C,)
        The cells group by group, and the last cell of each group.
    integrated : bool
        Whether theta is integrated out of the prior of the counts; else it is held.
    n_gammas : int
        The number of gammas that theta is a function of, given the counts; 0 if it is not.
    """

    on_counts = True

    def __init__(
        self,
        model: Model,
        release: Release,
        size: Size | None = None,
        parts: Parts | None = None,
    ) -> None:
        reason = why_not(model, release, size, parts)
        if reason:
            raise ValueError(f"a chain of counts is not possible: {reason}")
        super().__init__(model, release, size)
        able, cells = self.abilities, self._find_cells()
        self._by_cell, self.n = cells.columns, cells.columns.shape[1]
        self._density, self.integrated = able.log_likelihood, cells.prior is not None
        self.n_gammas = 0
        self._from_gammas = cells.from_gammas
        if cells.prior is not None and cells.from_gammas is not None:
            plus = (cells.prior.concentrations > 0, cells.prior.signs > 0)
            self.n_gammas = int(sum(map(np.sum, plus)))
        self.table = self._make_table(cells)
        self.abilities = replace(
            able,
            log_likelihood=None if able.log_likelihood is None else self._log_likelihood,
            update_parameters=self._draw_theta if self.n_gammas else able.update_from_counts,
            sample_records=None,
            build_records=None,
            recover_innovations=None,
            formula=None,
            scale_records=None,
            check_records=None,
            uses_index=False,
        )
        self.kernel = self._find_kernel()

    def _find_cells(self) -> Cells:
        """Lay out the cells, here the possible records, and what is known about their counts."""
        able, n = self.abilities, self.release.n_records
        self.cell_values = np.ascontiguousarray(able.record_values)
        n_cells, n_values = len(self.cell_values), len(self.release.values)
        check_memory(f"a table of {n_cells} cells", 8 * n_cells * (2 + n_values // 100))
        self.groups, self._sizes = able.value_groups or (
            np.zeros(n_cells, np.int64),
            np.zeros(0, np.int64) if n is None else np.array([n]),
        )
        self.order = np.argsort(self.groups, kind="stable")
        self.last = np.append(np.diff(self.groups[self.order]) != 0, True)
        sized = sparse.csr_array(
            (np.ones(n_cells), (self.groups, np.arange(n_cells))),
            shape=(int(self.groups.max()) + 1, n_cells),
        )[: len(self._sizes)]
        return Cells(
            columns=self._columns(),
            held=sized,
            held_values=self._sizes,
            number=sparse.csr_array(np.ones((1, n_cells))),
            prior=able.counts_prior,
            from_gammas=able.from_gammas,
            grid=self._grid(),
        )

    def _make_table(self, cells: Cells) -> Table:
        prior = cells.prior or CountsPrior(np.zeros(self.n))
        self.slopes = np.zeros(self.n) if prior.slopes is None else prior.slopes
        prior, self._signs_given = with_orders(prior, cells, sized=self.size is not None)
        rows = [self._by_cell, cells.held]
        if prior.matrix is not None:
            rows.insert(1, prior.matrix)
        matrix = sparse.csc_array(sparse.vstack(rows))
        assert self.terms is not None
        exact, last = self.terms.family == EXACT, self.d + len(prior.shifts)
        fixed = np.arange(matrix.shape[0]) >= last
        fixed[: self.d] = exact
        self._held, self._number = sparse.csr_array(matrix)[fixed], cells.number
        self._held_values = np.append(self.terms.parameters[exact, 0], cells.held_values)
        seen = sparse.csc_array(sparse.vstack([self._by_cell, cells.held]))
        table = make_table(matrix, fixed, prior, cells, seen)
        if self.size is None:
            return table
        possible, logs = tabulate(self.size)
        return table._replace(size_row=last - 1, size_range=possible, size_logs=logs)

    def given(self, theta: Theta) -> CountTarget:
        """Return the target p(x | theta, s_dp): b_c is log f(v_c | theta), and theta is held."""
        other = copy.copy(self)
        other.slopes = self.log_values(theta)
        other.table = self.table._replace(concentrations=np.zeros(self.n), signs=self._signs_given)
        other.n_gammas = 0
        other.abilities = replace(
            self.abilities, update_from_counts=lambda theta, counts, rng: theta
        )
        return other

    def boxes(self, around: Around | None) -> tuple[Box, Box]:
        """Return the fixed box and the one for random windows of `counts.redraw`.

        Neither has points if counts move on lines; the first has none until its place is known.
        """
        return make_box(0, 0, 0), make_box(0, 0, 0)

    def links(self, counts: np.ndarray) -> np.ndarray:
        """Return the numbers whose mean and spread warm-up learns: here, the counts."""
        return counts

    def place(
        self, centres: np.ndarray, spreads: np.ndarray, old: Around | None = None
    ) -> Around | None:
        """Return the place of the fixed box, from mean and spread of the links, if there is one."""
        return None

    def theta_of(self, logs: np.ndarray) -> Theta:
        """Return draws of theta, one for each row of logarithms of gammas."""
        assert self._from_gammas is not None
        return self._from_gammas(logs)

    def shown(self, theta: Theta, records: np.ndarray) -> Theta:
        """Return theta and, if the model shows them, the counts; of one draw or of several."""
        table = self.abilities.count_table
        if table is None:
            return theta
        return {**theta, table.name: records.reshape(*records.shape[:-1], *table.shape)}

    def _draw_theta(self, theta: Theta, counts: np.ndarray, rng: np.random.Generator) -> Theta:
        logs, sums = np.empty((1, self.n_gammas)), np.empty(len(self.table.fixed))
        add_up(self.table, counts, sums)
        draw_log_gammas(self.table, counts, sums, self.d, rng, logs[0], np.zeros((3, logs.size)))
        return {name: np.array(drawn[0]) for name, drawn in self.theta_of(logs).items()}

    def log_values(self, theta: Theta) -> np.ndarray:
        """Return log f of each possible record, or its terms for the parts of records, (C,)."""
        return np.maximum(self._log_cells(theta), IMPOSSIBLE)

    def _log_cells(self, theta: Theta) -> np.ndarray:
        assert self._density is not None
        return self._density(theta, self.cell_values)

    def _columns(self) -> sparse.csr_array:
        """Return t(v_c) as columns, (d, C)."""
        n_cells = len(self.cell_values)
        if not self.uses_cells:
            chunks = range(0, n_cells, CHUNK)
            parts = [self.statistic(self.cell_values[c : c + CHUNK], c) for c in chunks]
            return sparse.csr_array(sparse.hstack([sparse.csr_array(part.T) for part in parts]))
        made = self.statistic(self.cell_values, 0)
        cell, which = np.nonzero(made >= 0)
        entries = np.ones(len(cell)), (made[cell, which], cell)
        return sparse.csr_array(entries, shape=(self.d, n_cells))

    def _grid(self) -> tuple[int, ...]:
        """Return the levels of each variable, if the values are all their combinations in order."""
        values = self.cell_values
        if values.ndim != 2 or values.dtype.kind not in "iu":
            return ()
        levels = tuple(len(np.unique(column)) for column in values.T)
        if np.prod(levels) != len(values):
            return ()
        grid = np.indices(levels).reshape(len(levels), -1).T
        return levels if np.array_equal(values - values.min(axis=0), grid) else ()

    def _log_likelihood(self, theta: Theta, counts: np.ndarray) -> np.ndarray:
        """Return x_c log f(v_c | theta), (C,): they sum to log f of the records in any order."""
        logs = self.slopes_at(theta, held=True)
        value = np.where(counts > 0, counts * logs, 0.0)
        return value - np.exp(logs) if self.abilities.random_size else value

    def slopes_at(self, theta: Theta, held: bool = False) -> np.ndarray:
        """Return b_c: log f(v_c | theta) if theta is held, else that of the integrated prior.

        A copy, which may be written to: what a worker was sent may not (Ray).
        """
        if self.integrated and not held:
            return self.slopes.copy()
        return np.ascontiguousarray(self._log_cells(theta), dtype=np.float64)

    def rates(self, theta: Theta) -> np.ndarray:
        """Return f(v_c | theta), summing to 1 in each group, or Poisson means, (C,)."""
        rates: np.ndarray = np.exp(self.slopes_at(theta, held=True))
        if self.abilities.random_size:
            return rates
        return rates / np.bincount(self.groups, rates)[self.groups]

    def propose(
        self, theta: Theta, m: int, rng: np.random.Generator, start: int = 0
    ) -> tuple[np.ndarray, None]:
        """Draw the counts of all records from f(. | theta)."""
        p = self.rates(theta)
        if not len(self._sizes) and self.size is None:
            return rng.poisson(p), None
        counts = np.zeros(self.n, dtype=np.int64)
        for group, size in enumerate([m] if self.size is not None else self._sizes):
            inside = self.groups == group
            counts[inside] = rng.multinomial(size, p[inside] / p[inside].sum())
        return counts, None

    def total(self, records: np.ndarray, start: int = 0) -> np.ndarray:
        """T, (d,), of these counts."""
        sums = np.empty(len(self.table.fixed))
        add_up(self.table, records, sums)
        return sums[: self.d]

    def find_table(self, rng: np.random.Generator) -> np.ndarray:
        """Return a table with the fixed numbers, (C,); ValueError if there is none."""
        if self.size is None:
            return find_table(self._held, self._held_values, self._held_values, rng)
        rows = sparse.vstack([self._held, self._number])
        low, high = (np.append(self._held_values, n) for n in (self.size.lower, self.size.upper))
        return find_table(rows, low, high, rng)

    def held_bytes(self, n: int) -> int:
        """Return the least number of bytes of a chain's state, whatever n is."""
        return 16 * self.n

    def number(self, records: np.ndarray) -> int:
        """Return how many records these counts are of."""
        return int(records.sum())

    def hold(self, records: np.ndarray) -> np.ndarray:
        """Return the counts of a list of records."""
        return np.bincount(cells_of(self.cell_values, records), minlength=self.n)

    def database(self, state: ChainState) -> np.ndarray:
        """Return records with these counts: in the order of their groups, and random within them.

        The order comes from a separate generator, so keeping records changes no draw.
        """
        seeds = copy.deepcopy(state.rng.bit_generator).random_raw(4)
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seeds.tolist())))
        return self.expand(state.records, rng)

    def expand(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return records with these counts, in random order within their groups."""
        parts = []
        for group in range(int(self.groups.max()) + 1):
            inside = np.flatnonzero(self.groups == group)
            parts.append(rng.permutation(np.repeat(inside, counts[inside])))
        return self.cell_values[np.concatenate(parts)]


def with_orders(prior: CountsPrior, cells: Cells, sized: bool) -> tuple[CountsPrior, np.ndarray]:
    """Return the prior with rows for the parts of the number of databases that are not constant.

    These are the orders of parts and, where n is unknown, log n! and the prior's own -log Gamma(w +
    n). Also return the signs of all rows where theta is held, when the prior has none.
    """
    more = []  # rows, with their shift, sign, and sign where theta is held
    if cells.orders is not None:
        more.append((cells.orders, 1.0, cells.order_sign, cells.order_sign))
    if sized and prior.whole:
        more.append((cells.number, prior.whole, -1.0, 0.0))
    if sized:
        more.append((cells.number, 1.0, 1.0, 1.0))
    rows = [] if prior.matrix is None else [sparse.csr_array(prior.matrix)]
    shifts, signs, given = prior.shifts, prior.signs, np.zeros(len(prior.signs))
    for matrix, shift, sign, held in more:
        rows.append(matrix)
        ones = np.ones(matrix.shape[0])
        shifts, signs = np.append(shifts, shift * ones), np.append(signs, sign * ones)
        given = np.append(given, held * ones)
    stacked = sparse.vstack(rows) if rows else None
    return prior._replace(matrix=stacked, shifts=shifts, signs=signs), given


def tabulate(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of the number of records, (2,), and log p(n); see `Table`."""
    numbers = range(size.lower, size.lower + 1 if size_abilities(size).flat else size.upper + 1)
    logs = np.array([size.log_pmf(n) for n in numbers], dtype=np.float64)
    return np.array([size.lower, size.upper], dtype=np.int64), logs


def make_table(
    matrix: sparse.csc_array,
    fixed: np.ndarray,
    prior: CountsPrior,
    cells: Cells,
    seen: sparse.csc_array,
) -> Table:
    """Collect what compiled code needs; `seen` are the noisy rows with what is fixed."""
    matrix.sum_duplicates()
    held = sparse.csc_array(sparse.csr_array(matrix)[fixed])
    classes = same_columns(held)
    grid, more = cells.grid, []
    if cells.elements is None:
        needed = connect(held, classes, grid)
        more = [] if grid else open_directions(seen)
    else:
        chosen = [{int(classes[c]): z for c, z in e.items()} for e in cells.elements]
        needed = Directions(chosen, [])
    pools = make_pools(sparse.csr_array(matrix)[~fixed], classes)
    levels = np.array(grid, dtype=np.int64)
    strides = [math.prod(grid[k + 1 :]) for k in range(len(grid))]
    return Table(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data.astype(np.float64),
        np.asarray(prior.shifts, dtype=np.float64),
        np.asarray(prior.signs, dtype=np.float64),
        fixed,
        np.asarray(prior.concentrations, dtype=np.float64).reshape(-1),
        *pools,
        levels=levels,
        strides=np.array(strides, dtype=np.int64),
        patterns=patterns_of(len(grid), needed.separations),
        **_elements(needed.elements, more, classes),
        part_ends=cells.part_ends,
    )


def _elements(
    of_classes: list[dict[int, int]], of_cells: list[dict[int, int]], classes: np.ndarray
) -> dict[str, Any]:
    """Return the fields of `Table` about elements; the sets are the classes, then single cells."""
    sizes = np.bincount(classes)
    listed = of_classes + [
        {len(sizes) + c: step for c, step in element.items()} for element in of_cells
    ]
    lengths = [len(element) for element in listed]
    return {
        "element_start": np.cumsum([0, *lengths]),
        "element_set": np.array([k for e in listed for k in e], dtype=np.int64),
        "element_step": np.array([z for e in listed for z in e.values()], dtype=np.int64),
        "sets": np.append(np.argsort(classes, kind="stable"), np.arange(len(classes))),
        "set_start": np.cumsum([0, *sizes, *np.ones(len(classes), np.int64)]),
        "most_sets": max(lengths, default=0),
    }


def make_pools(
    rows: sparse.csr_array, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the pools of `Table`: the classes, and what each row has of each class.

    A kind has those whose sizes have the same logarithm to base 2, rounded down.
    """
    n_cells = len(classes)
    everywhere = sparse.csr_array(
        (np.ones(n_cells), (np.zeros(n_cells, np.int64), np.arange(n_cells))), shape=(1, n_cells)
    )
    coo = sparse.coo_array(sparse.vstack([everywhere, rows]))
    coo.eliminate_zeros()
    key = coo.row.astype(np.int64) * (classes.max() + 1) + classes[coo.col]
    order = np.lexsort((coo.col, key))
    key, cells = key[order], coo.col[order].astype(np.int64)
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    sizes = np.diff(np.append(starts, len(key)))
    # A row that has all of a class, or only one cell of it, adds nothing.
    whole = np.bincount(classes)[classes[cells[starts]]]
    useful = (np.arange(len(starts)) < len(np.unique(classes))) | ((sizes > 1) & (sizes < whole))
    keep = np.repeat(useful, sizes)
    cells, sizes = cells[keep], sizes[useful]
    pool_start = np.concatenate(([0], np.cumsum(sizes)))
    pool = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(cells)) - pool_start[pool]
    sized = np.log2(sizes).astype(np.int64)
    sized[: len(np.unique(classes))] = -1
    _, kind = np.unique(sized, return_inverse=True)
    kinds = kind.max() + 1
    key = cells * kinds + kind[pool]
    by_cell = np.lexsort((pool, key))
    of_cell_start = np.searchsorted(key[by_cell], np.arange(n_cells * kinds + 1))
    most = np.diff(of_cell_start).reshape(n_cells, kinds).max(axis=0)
    ends = np.lib.stride_tricks.sliding_window_view(of_cell_start, kinds + 1)[::kinds]
    return cells, pool_start, pool[by_cell], ends.copy(), place[by_cell], most


def patterns_of(
    n_variables: int, separations: Sequence[tuple[set[int], set[int]]] = ()
) -> np.ndarray:
    """Return ways to put variables into two or more groups, and some into none, (P, K).

    These separations are always included: one group for each side.
    """
    if n_variables < 2:
        return np.zeros((0, n_variables), dtype=np.int64)
    most = min(n_variables, LARGEST_CUBE)
    rng = np.random.default_rng(0)
    if (most + 1) ** n_variables <= MOST_PATTERNS:
        tried = np.indices((most + 1,) * n_variables).reshape(n_variables, -1).T
    else:
        how_many = rng.integers(2, most + 1, size=(MOST_PATTERNS, 1))
        tried = rng.integers(0, how_many + 1, size=(MOST_PATTERNS, n_variables))
    sides = [
        [1 if k in a else 2 if k in b else 0 for k in range(n_variables)] for a, b in separations
    ]
    kept = []
    for pattern in np.array([*tried, *sides]):
        groups = list(dict.fromkeys(pattern[pattern > 0].tolist()))  # in order of appearance
        if len(groups) > 1:
            kept.append([groups.index(g) + 1 if g else 0 for g in pattern])
    return np.unique(np.array(kept, dtype=np.int64), axis=0)
