"""Several categorical variables with any dependence between them: the saturated multinomial.

The model
---------
A record is a row of K integers from 0, the levels of K variables with J_1, ..., J_K levels: one of
the C = J_1 ... J_K cells of a table.

    P(x_i = c) = p_c,      p ~ Dirichlet(a_c)       over all C cells

Nothing is assumed about how the variables depend on one another. Noisy margins of the table are the
query (`noiseaware.queries.Margins`); what they do not say stays as open as the prior leaves it.

The conditional of the parameter
--------------------------------
With n_c records in cell c the likelihood is prod_c p_c^{n_c}, so p | x ~ Dirichlet(a_c + n_c)_c:
`ContingencyTable.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1) and the cell is the inverse CDF of p at u, the cells in C order (the last
variable fastest); given x, u is uniform in the interval of its cell. The cells are the categories
of `discrete.py`, and this file only goes between cells and rows of levels.

What is derived
---------------
Of a 2 x 2 table, ``log_odds_ratio`` is log(p_00 p_11 / (p_01 p_10)): above 0 if the variables go
together. (The odds ratio itself need not have a mean; exp of the quantiles of its logarithm are its
quantiles.) A stated probability of 0 counts as the smallest double, as in the draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import variable_names, whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.models.arguments import check_levels, read_integers, read_parameter
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.discrete import NO_FEATURES, Discrete, concentrations
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

MOST_CELLS = 10_000_000
"""Cells of a table; a draw of the posterior has a number for each."""


@njit(cache=True, nogil=True)
def cells_of(records, levels, cells):
    """Write the number of each record's cell; False at a level that is out of range."""
    # v and top - v have no sign bit exactly when v is in 0, ..., top.
    signs = 0
    for i in range(records.shape[0]):
        cell = 0
        for k in range(levels.shape[0]):
            signs |= records[i, k] | (levels[k] - 1 - records[i, k])
            cell = cell * levels[k] + records[i, k]
        cells[i] = cell
    return signs >= 0


@njit(cache=True, nogil=True)
def rows_of(cells, levels, records):
    """Write the levels of each cell: the inverse of `cells_of`."""
    for i in range(cells.shape[0]):
        left = cells[i]
        for k in range(levels.shape[0] - 1, -1, -1):
            records[i, k] = left % levels[k]
            left //= levels[k]


class ContingencyTable(Discrete):
    """Independent records of several categorical variables, with any dependence between these.

    Parameters
    ----------
    n_levels : sequence of int
        J_1, ..., J_K, each at least 2.
    concentration : float or array_like, shape (J_1, ..., J_K)
        The Dirichlet prior's a_c; one number for all cells or one for each.
    variables : sequence of str, optional
        K names, which become the dimensions of the posterior; ``variable1``, ... if there are none.

    Notes
    -----
    Records are int64 of shape ``(n, K)``, from 0. Parameter: ``cell_probabilities``
    (J_1, ..., J_K), which add up to 1 over all cells. A margin of the posterior is a sum over
    dimensions: ``posterior["cell_probabilities"].sum("age")``. Derived, of a 2 x 2 table:
    ``log_odds_ratio`` (), that of level 1 of both variables.

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
        if np.ndim(n_levels) != 1 or len(n_levels) == 0:
            raise ValueError(
                f"n_levels must list the number of levels of each variable; got {n_levels!r}"
            )
        self.n_levels = [
            whole_number(f"n_levels[{k}]", count, least=2) for k, count in enumerate(n_levels)
        ]
        self._shape = tuple(self.n_levels)
        self.variables = list(variable_names(variables, len(self.n_levels)))
        self.column_names = self.variables
        given = concentrations("concentration", concentration, self._shape)
        self.concentration: float | list[Any] = given.tolist()
        n_cells = math.prod(self._shape)
        if n_cells > MOST_CELLS:
            raise ValueError(
                f"n_levels must make a table of at most {MOST_CELLS:,} cells; got {n_cells:,}: "
                "leave out variables, or put levels together"
            )
        self._prepare(n_cells, (), np.full(self._shape, given).reshape(-1), ["the cell"])
        self._axes = np.array(self.n_levels, dtype=np.int64)
        coords = {
            name: range(count) for name, count in zip(self.variables, self.n_levels, strict=True)
        }
        self.parameters = (
            Parameter("cell_probabilities", self._shape, "table", tuple(self.variables), coords),
        )
        self.derived = (Parameter("log_odds_ratio"),) if self._shape == (2, 2) else ()
        self.record_values = self._unravel(self._cells.reshape(-1))

    def _read(self, theta: Theta) -> tuple[Floats, Floats, NDArray[np.int64]]:
        table = read_parameter(theta, "cell_probabilities", self._shape)
        return table.reshape(1, -1), NO_FEATURES, self._levels

    def _theta(self, classes: Floats, features: Floats) -> Theta:
        return {"cell_probabilities": classes.reshape(-1, *self._shape)}

    def _read_records(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each record's cell, (n, 1)."""
        array = read_integers(records, len(self.n_levels))
        cells = np.empty(len(array), dtype=np.int64)
        if not cells_of(array, self._axes, cells):
            self.check_records(array)
        return cells.reshape(-1, 1)

    def _unravel(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the levels of each cell, (n, K)."""
        records = np.empty((len(cells), len(self.n_levels)), dtype=np.int64)
        rows_of(cells, self._axes, records)
        return records

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the log odds ratio of a 2 x 2 table at draws of theta; of others, nothing."""
        if not self.derived:
            return {}
        logs = np.log(np.maximum(theta["cell_probabilities"], SMALLEST))
        both = logs[..., 0, 0] + logs[..., 1, 1]
        return {"log_odds_ratio": both - logs[..., 0, 1] - logs[..., 1, 0]}

    def check_records(self, records: ArrayLike) -> None:
        check_levels(read_integers(records, len(self.n_levels)), self.n_levels, self.variables)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[np.int64]:
        return self._unravel(super().build_records(theta, innovations).reshape(-1))


MODELS.add(ContingencyTable)
