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
variable fastest); given x, u is uniform in the interval of its cell. A table is a `Categorical`
model of its cells, and this file only goes between cells and rows of levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import variable_names, whole_number
from noiseaware.models.arguments import (
    arguments_repr,
    check_levels,
    read_integers,
    read_parameter,
    real_array,
)
from noiseaware.models.categorical import Categorical
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]

_MOST_VALUES = 256
"""Cells that are worth listing: going through them all for each record must be cheap."""


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


class ContingencyTable:
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
    dimensions: ``posterior["cell_probabilities"].sum("age")``.

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
        given = real_array(
            "concentration", concentration, () if np.ndim(concentration) == 0 else self._shape
        )
        if not (given > 0).all():
            raise ValueError(f"concentration must be positive; got {given.tolist()}")
        self.concentration: float | list[Any] = given.tolist()
        n_cells = math.prod(self.n_levels)
        self._cells = Categorical(n_cells, given.reshape(-1) if given.ndim else given)
        self._levels = np.array(self.n_levels, dtype=np.int64)
        self.parameters: tuple[Parameter, ...] = (
            Parameter(
                "cell_probabilities",
                self._shape,
                "table",
                tuple(self.variables),
                {
                    name: list(range(count))
                    for name, count in zip(self.variables, self.n_levels, strict=True)
                },
            ),
        )
        self.innovations = Innovations("uniform", 1)
        self.table_concentrations: NDArray[np.float64] = np.array(
            np.broadcast_to(given, self._shape)
        )
        self.record_values: NDArray[np.int64] | None = None
        if n_cells <= _MOST_VALUES:
            self.record_values = self._rows(np.arange(n_cells))

    def _read(self, theta: Mapping[str, Any]) -> Theta:
        """Return theta as the model of the cells has it."""
        table = read_parameter(theta, "cell_probabilities", self._shape)
        return {"probabilities": table.reshape(-1)}

    def _number(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each record's cell, (n,)."""
        records = read_integers(records, len(self.n_levels))
        cells = np.empty(len(records), dtype=np.int64)
        if not cells_of(records, self._levels, cells):
            self.check_records(records)
        return cells

    def _rows(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the levels of each cell, (n, K)."""
        records = np.empty((len(cells), len(self.n_levels)), dtype=np.int64)
        rows_of(cells, self._levels, records)
        return records

    def _table(self, theta: Theta) -> Theta:
        return {"cell_probabilities": theta["probabilities"].reshape(self._shape)}

    @property
    def column_names(self) -> list[str]:
        """The names of a record's entries, for imputed databases."""
        return self.variables

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(read_integers(records, len(self.n_levels)), self.n_levels, self.variables)

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        return self._table(self._cells.sample_prior(rng))

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised, over all cells but the last."""
        return self._cells.log_prior(self._read(theta))

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw n records from f(. | theta); shape ``(n, K)``."""
        return self._rows(self._cells.sample_records(self._read(theta), n, rng))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        return self._cells.log_likelihood(self._read(theta), self._number(records))

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        return self._table(self._cells.update_parameters({}, self._number(records), rng))

    def build_records(self, theta: Mapping[str, Any], innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta), ``(n, K)``, of innovations ``(n, 1)``."""
        return self._rows(self._cells.build_records(self._read(theta), innovations))

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
        return self._cells.recover_innovations(self._read(theta), self._number(records), rng)

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "ContingencyTable",
            "n_levels": list(self.n_levels),
            "concentration": self.concentration,
            "variables": list(self.variables),
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
