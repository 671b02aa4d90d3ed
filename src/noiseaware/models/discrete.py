"""Categories with Dirichlet priors: `Categorical`, `ContingencyTable`, the base of `NaiveBayes`.

A record is a class y, one of I, and K features x_1, ..., x_K, feature k with J_k levels, all
integers from 0. P(y = i) = p_i, and given y = i the features are independent, P(x_k = j) =
p^k_{ij}. Each row of probabilities has its own Dirichlet prior, with the same concentrations
a_0, a_1, ... See `naive_bayes.py` for the conditional of the parameters and the construction
x = F(u; theta).

A categorical variable is a class without features, K = 0. With n_j records at level j,
p | x ~ Dirichlet(a_j + n_j)_j, an exact draw, and x is the inverse CDF of p at u, uniform on
[0, 1). The same holds for the cell of a table of K variables with J_1, ..., J_K levels: the
saturated multinomial, with C = J_1 ... J_K cells in C order (the last variable fastest). It assumes
nothing about the dependence between variables; where noisy margins (`noiseaware.queries.Margins`)
are silent, the posterior stays as wide as the prior.

For a 2 x 2 table, ``log_odds_ratio`` is log(p_00 p_11 / (p_01 p_10)), positive if the variables are
positively associated. (The odds ratio itself need not have a mean; for its quantiles, exponentiate
those of its logarithm.) A stated probability of 0 counts as the smallest double, as in the draws.

In the compiled functions the probabilities are the rows of a ``table``, (1 + I K, J): row 0 is p,
row i K + k is p^k_{i-}, with k from 1. ``sizes`` holds I, J_1, ..., J_K, and J is its maximum; a
shorter row uses its first entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import as_labels, variable_names, whole_number
from noiseaware.contract import ClosedForm, CountsPrior, Floats, Reading, Theta
from noiseaware.models import arguments, conjugate, estimates
from noiseaware.models.arguments import check_levels, read_integers, read_parameter
from noiseaware.models.conjugate import SMALLEST, draw_dirichlet, log_dirichlet, shares_of
from noiseaware.models.inverse_cdf import fill_edges, level_of, uniform_between
from noiseaware.models.ready import Compiled, CompiledModel, ReadyModel, labelled
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS

_DONE, _POOL_ENDED, _WRONG_LEVEL = 0, 1, 2
_NO_BOOSTS = np.empty((0, 0))


@njit(cache=True, nogil=True)
def levels_of(row, sizes):
    """Return the number of levels of a row of the table."""
    return sizes[0] if row == 0 else sizes[1 + (row - 1) % (sizes.shape[0] - 1)]


@njit(cache=True, nogil=True)
def _edges(table, sizes):
    edges = np.empty((table.shape[0], table.shape[1] + 1))
    for row in range(table.shape[0]):
        fill_edges(table, row, levels_of(row, sizes), edges)
    return edges


@njit(cache=True, nogil=True)
def _build_records(table, sizes, innovations, records):
    edges, levels = _edges(table, sizes), sizes[1:]
    for i in range(records.shape[0]):
        y = level_of(innovations[i, 0], edges, 0, sizes[0])
        records[i, 0] = y
        row = 1 + y * levels.shape[0]
        for k in range(levels.shape[0]):
            records[i, 1 + k] = level_of(innovations[i, 1 + k], edges, row + k, levels[k])


@njit(cache=True, nogil=True)
def _recover_innovations(table, sizes, records, innovations):
    """Move each uniform of ``innovations`` into the interval of its record's entry."""
    edges, levels = _edges(table, sizes), sizes[1:]
    for i in range(records.shape[0]):
        y, u = records[i, 0], innovations[i, 0]
        if not 0 <= y < sizes[0]:
            return False
        innovations[i, 0] = uniform_between(edges[0, y], edges[0, y + 1], u)
        for k in range(levels.shape[0]):
            x, u, row = records[i, 1 + k], innovations[i, 1 + k], 1 + y * levels.shape[0] + k
            if not 0 <= x < levels[k]:
                return False
            innovations[i, 1 + k] = uniform_between(edges[row, x], edges[row, x + 1], u)
    return True


@njit(cache=True, nogil=True)
def _log_likelihood(table, sizes, records, out):
    """Write log p_y + sum_k log p^k_{y x_k} for each record."""
    levels, logs = sizes[1:], np.empty(table.shape)
    for row in range(table.shape[0]):
        for j in range(table.shape[1]):
            logs[row, j] = math.log(table[row, j]) if table[row, j] > 0.0 else -math.inf
    for i in range(records.shape[0]):
        y = records[i, 0]
        if not 0 <= y < sizes[0]:
            return False
        total, row = logs[0, y], 1 + y * levels.shape[0]
        for k in range(levels.shape[0]):
            x = records[i, 1 + k]
            if not 0 <= x < levels[k]:
                return False
            total += logs[row + k, x]
        out[i] = total
    return True


@njit(cache=True, nogil=True)
def _draw_probabilities(records, sizes, concentrations, pool, boosts, table):
    """Draw every Dirichlet of the conditional; without records, a draw from the prior."""
    normals, uniforms = pool
    levels, shapes, used = sizes[1:], np.empty(table.shape), 0
    for j in range(table.shape[1]):
        shapes[:, j] = concentrations[j]
    for i in range(records.shape[0]):
        y = records[i, 0]
        if not 0 <= y < sizes[0]:
            return _WRONG_LEVEL
        shapes[0, y] += 1.0
        row = 1 + y * levels.shape[0]
        for k in range(levels.shape[0]):
            x = records[i, 1 + k]
            if not 0 <= x < levels[k]:
                return _WRONG_LEVEL
            shapes[row + k, x] += 1.0
    for row in range(table.shape[0]):
        n = levels_of(row, sizes)
        used = draw_dirichlet(shapes, row, n, normals, uniforms, used, boosts, table)
        if used < 0:
            return _POOL_ENDED
    return _DONE


@njit(cache=True, nogil=True)
def _log_prior(table, sizes, exponents):
    """Return the sum of the log densities of all rows, without their constants."""
    total = 0.0
    for row in range(table.shape[0]):
        total += log_dirichlet(table, row, levels_of(row, sizes), exponents)
    return total


def concentrations(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return one concentration for all cells, an array (), or one for each."""
    given = arguments.real_array(name, value, () if np.ndim(value) == 0 else shape)
    if not (given > 0).all():
        raise ValueError(f"{name} must be positive; got {given.tolist()}")
    return given


class Discrete(CompiledModel):
    """Records of a class and features; a subclass names and shapes the probabilities."""

    dtype = np.int64
    record_values: Any
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def _prepare(self, sizes: Sequence[int], concentrations: Floats, names: Sequence[str]) -> None:
        """Precompute what every call needs; ``names`` are the entries of a record, for messages."""
        self._sizes, self._names = tuple(sizes), names
        n_classes, *n_levels = sizes
        self._columns = np.array(sizes, dtype=np.int64)
        self._rows = (1 + n_classes * len(n_levels), max(sizes))
        self._concentrations = concentrations
        self._exponents = concentrations - 1.0
        self._boosted = bool((concentrations < 1.0).any())
        n_gammas = n_classes * (1 + sum(n_levels))
        self._pool_size = n_gammas + n_gammas // 8 + 16  # that suffices almost always
        constant = conjugate.log_dirichlet_constant
        constants = {J: constant(concentrations[:J]) for J in set(self._sizes)}
        self._log_constant = constants[n_classes] + n_classes * sum(constants[J] for J in n_levels)
        self.width = len(self._sizes)
        self.record_levels = max(self._sizes)
        self.innovations = Innovations("uniform", self.width)
        self._no_records = np.empty((0, self.width), dtype=np.int64)

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        """All possible records in C order, (C, 1 + K)."""
        cells = np.indices(self._sizes, dtype=np.int64).reshape(len(self._sizes), -1)
        return np.ascontiguousarray(cells.T)

    @cached_property
    def counts_prior(self) -> CountsPrior | None:
        """The prior of the counts, with all probabilities integrated out.

        Every row of probabilities gives a Dirichlet-multinomial. For the classes it is

            prod_i Gamma(a_i + n_i) / Gamma(sum a + n),        n_i the records of class i,

        where, without features, a class is a cell. For feature k in class i it is
        prod_j Gamma(a_j + n_ikj) / Gamma(sum_{j <= J_k} a_j + n_i), n_ikj the records at level j.
        """
        a, (n_classes, *n_levels) = self._concentrations, self._sizes
        if not n_levels:
            return CountsPrior(a, whole=float(a.sum()))
        if self.record_values is None:
            return None
        cells = self._cells
        ofs = [cells[:, 0] == i for i in range(n_classes)]
        rows, shifts, signs = list(ofs), list(a[:n_classes]), [1.0] * n_classes
        for k, levels in enumerate(n_levels, start=1):
            for i in range(n_classes):
                rows += [ofs[i] & (cells[:, k] == j) for j in range(levels)] + [ofs[i]]
                shifts += [*a[:levels], a[:levels].sum()]
                signs += [1.0] * levels + [-1.0]
        matrix, whole = np.array(rows, dtype=np.float64), float(a[:n_classes].sum())
        none = np.zeros(len(cells))
        return CountsPrior(none, matrix, np.array(shifts), np.array(signs), whole=whole)

    def _read(self, theta: Theta) -> tuple[Floats, NDArray[np.int64]]:
        """Return the table of probabilities, (1 + I K, J), and I, J_1, ..., J_K."""
        (only,) = self.parameters
        return read_parameter(theta, only.name, only.shape).reshape(1, -1), self._columns

    def _theta(self, tables: Floats) -> Theta:
        """Return draws of theta from tables (m, 1 + I K, J)."""
        (only,) = self.parameters
        return {only.name: tables.reshape(-1, *only.shape)}

    def _draw(self, records: NDArray[np.int64], rng: Generator) -> Theta:
        """Draw theta given the records; without records, from the prior."""
        pool = rng.standard_normal(self._pool_size), rng.random(self._pool_size)
        table, boosts = np.empty(self._rows), _NO_BOOSTS
        if self._boosted:
            boosts, (n_classes, *n_levels) = np.empty(self._rows), self._sizes
            boosts[0, :n_classes] = rng.random(n_classes)
            most = max(n_levels, default=0)
            boosts[1:, :most] = rng.random((len(boosts) - 1, most))
        given = (records, self._columns, self._concentrations)
        while status := _draw_probabilities(*given, pool, boosts, table):
            if status == _WRONG_LEVEL:
                check_levels(records, self._sizes, self._names)
            size = len(pool[0])  # the same pool with as much again behind it
            more = rng.standard_normal(size), rng.random(size)
            pool = np.concatenate((pool[0], more[0])), np.concatenate((pool[1], more[1]))
        return {name: values[0] for name, values in self._theta(table[np.newaxis]).items()}

    def sample_prior(self, rng: Generator) -> Theta:
        return self._draw(self._no_records, rng)

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised, over all but the last entry of each row."""
        return self._log_constant + _log_prior(*self._read(theta), self._exponents)

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        return self._draw(records, rng)

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of theta: each row of probabilities is a row of gammas over their sum."""
        n_classes, *n_levels = self._sizes
        tables, used = np.empty((len(logs), *self._rows)), n_classes
        tables[:, 0, :n_classes] = shares_of(logs[:, :n_classes])
        for k, levels in enumerate(n_levels, start=1):
            rows = logs[:, used : used + n_classes * levels].reshape(-1, n_classes, levels)
            tables[:, k :: len(n_levels), :levels] = shares_of(rows)
            used += n_classes * levels
        return self._theta(tables)


class Categorical(Discrete):
    """Independent categories with unknown probabilities.

        x_i           ~ Categorical(probabilities)
        probabilities ~ Dirichlet(concentration, ..., concentration)

    Parameters
    ----------
    n_levels : int
        J, at least 2.
    concentration : float or array_like, shape (J,), default 1
        The prior, one number for all levels or one for each; 1 is uniform.
    labels : texts, optional
        Names of the levels in tables and plots. Default: 0, 1, ...

    Notes
    -----
    Records are int64 of shape ``(n,)``, levels from 0. Parameter: ``probabilities`` (J,).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Categorical
    >>> model = Categorical(3)
    >>> theta = {"probabilities": np.array([0.2, 0.3, 0.5])}
    >>> model.build_records(theta, np.array([[0.1], [0.4], [0.9]]))
    array([0, 1, 2])
    """

    example: ClassVar[dict[str, Any]] = {"n_levels": 2}

    def __init__(
        self,
        n_levels: int,
        concentration: float | ArrayLike = 1.0,
        labels: Sequence[str] | None = None,
    ) -> None:
        self.n_levels = whole_number("n_levels", n_levels, least=2)
        given = concentrations("concentration", concentration, (self.n_levels,))
        self.concentration: float | list[float] = given.tolist()
        self.labels = None if labels is None else list(as_labels("labels", labels, self.n_levels))
        levels: list[Any] = self.labels or list(range(self.n_levels))
        self.parameters = (labelled("probabilities", "simplex", "level", levels),)
        self._prepare([self.n_levels], np.full(self.n_levels, given), ["the level"])
        self.record_values = self._cells.reshape(-1)

    def _read_records(self, records: ArrayLike) -> NDArray[np.int64]:
        return read_integers(records, None).reshape(-1, 1)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[np.int64]:
        return super().build_records(theta, innovations).reshape(-1)

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given exact counts, a Dirichlet, and the estimate."""
        if reading.kind != "counts" or len(reading.values) != self.n_levels:
            return None
        shapes = self._concentrations + reading.values
        return ClosedForm(
            {"probabilities": estimates.shares(reading.values)},
            lambda draws, rng: {"probabilities": rng.dirichlet(shapes, size=draws)},
        )


# ------------------------------------------------------------------ tables


@njit(cache=True, nogil=True)
def cells_of(records, levels, cells):
    """Write the number of each record's cell; False at a level out of range."""
    # v and top - v both have a clear sign bit exactly when v is in 0, ..., top.
    signs = 0
    for i in range(records.shape[0]):
        cell = 0
        for k in range(levels.shape[0]):
            signs |= records[i, k] | (levels[k] - 1 - records[i, k])
            cell = cell * levels[k] + records[i, k]
        cells[i] = cell
    return signs >= 0


class Table(ReadyModel):
    """Records that are the cells of a table, in C order; combined with a base for their law."""

    variables: list[str]
    _width: int | None
    """The number of variables of a record; None: a record is a plain number."""

    def _lay_out(
        self, levels: list[int], variables: Sequence[str] | None, *, flat: bool = False
    ) -> None:
        self._shape, self._axes = tuple(levels), np.array(levels, dtype=np.int64)
        self._width = None if flat else len(levels)
        self.variables = list(variable_names(variables, len(levels)))
        self.column_names = None if flat else self.variables
        grid = np.indices(self._shape, dtype=np.int64).reshape(len(levels), -1).T
        self.record_values = np.ascontiguousarray(grid[:, 0] if flat else grid)

    def _each(self, name: str, support: str) -> Parameter:
        coords = {v: range(count) for v, count in zip(self.variables, self._shape, strict=True)}
        return Parameter(name, self._shape, support, tuple(self.variables), coords)

    def _cell_numbers(self, records: ArrayLike) -> NDArray[np.int64]:
        array = read_integers(records, self._width)
        cells = np.empty(len(array), dtype=np.int64)
        if not cells_of(array.reshape(len(array), len(self._shape)), self._axes, cells):
            self.check_records(array)
        return cells

    def check_records(self, records: ArrayLike) -> None:
        check_levels(read_integers(records, self._width), self._shape, self.variables)


class ContingencyTable(Table, Discrete):
    """Independent records of several categorical variables with unrestricted dependence.

        P(record in cell c) = cell_probabilities_c
        cell_probabilities  ~ Dirichlet(concentration, ..., concentration)

    Parameters
    ----------
    n_levels : sequence of int
        J_1, ..., J_K, each at least 2.
    concentration : float or array_like, shape (J_1, ..., J_K), default 1
        The prior, one number for all cells or one for each; 1 is uniform.
    variables : sequence of str, optional
        K names, used as dimensions of the posterior. Default: ``variable1``, ...

    Notes
    -----
    Records are int64 of shape ``(n, K)``, levels from 0. Parameter: ``cell_probabilities``
    (J_1, ..., J_K), with sum 1 over all cells. A margin of the posterior is a sum over dimensions:
    ``posterior["cell_probabilities"].sum("age")``. Derived, for a 2 x 2 table only:
    ``log_odds_ratio`` (), of level 1 of both variables.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import ContingencyTable
    >>> model = ContingencyTable([2, 3], variables=["sex", "age"])
    >>> theta = {"cell_probabilities": np.full((2, 3), 1 / 6)}
    >>> model.build_records(theta, np.array([[0.1], [0.6], [0.9]]))
    array([[0, 0],
           [1, 0],
           [1, 2]])
    """

    example: ClassVar[dict[str, Any]] = {"n_levels": [3, 2]}

    def __init__(
        self,
        n_levels: Sequence[int],
        concentration: float | ArrayLike = 1.0,
        variables: Sequence[str] | None = None,
    ) -> None:
        right = "list the number of levels of each variable"
        self.n_levels = arguments.table_levels(n_levels, right)
        self._lay_out(self.n_levels, variables)
        given = concentrations("concentration", concentration, self._shape)
        self.concentration: float | list[Any] = given.tolist()
        each = np.full(self._shape, given).reshape(-1)
        self._prepare([len(each)], each, ["the cell"])
        self.parameters = (self._each("cell_probabilities", "table"),)
        self.derived = (Parameter("log_odds_ratio"),) if self._shape == (2, 2) else ()

    def _read_records(self, records: ArrayLike) -> NDArray[np.int64]:
        return self._cell_numbers(records).reshape(-1, 1)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[np.int64]:
        return self.record_values.take(super().build_records(theta, innovations)[:, 0], axis=0)

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the log odds ratio of a 2 x 2 table at draws of theta; for others, nothing."""
        if not self.derived:
            return {}
        logs = np.log(np.maximum(theta["cell_probabilities"], SMALLEST))
        both = logs[..., 0, 0] + logs[..., 1, 1]
        return {"log_odds_ratio": both - logs[..., 0, 1] - logs[..., 1, 0]}


MODELS.add(Categorical)
MODELS.add(ContingencyTable)
