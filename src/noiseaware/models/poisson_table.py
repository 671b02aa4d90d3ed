"""Tables of Poisson counts: the number of records in each cell is unknown, and so is their total.

The models
----------
The cells c are all combinations of the levels of some variables. The counts are independent,

    x_c ~ Poisson(m_c),

and `PoissonTable` has m_c ~ Gamma(a_c, b_c), with the density proportional to m^(a-1) exp(-b m).
`log_linear_table.py` has the models in which log m is normal.

The prior of the counts
-----------------------
Integrating m_c out of Poisson(x_c; m_c) Gamma(m_c; a_c, b_c) leaves

    p(x_c) proportional to Gamma(a_c + x_c) / x_c! (1 + b_c)^-x_c,

a negative binomial: `CountsPrior` with the concentrations a_c and the slopes -log(1 + b_c). Given
x_c, m_c is Gamma(a_c + x_c, b_c + 1).

Where the number of records is published, the same x are conditioned on their sum: a chain then
stays on the tables with this sum, and nothing else changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import variable_names, whole_number
from noiseaware.contract import CountsPrior, Floats, Theta
from noiseaware.models.arguments import check_levels, read_integers, read_parameter
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.contingency_table import MOST_CELLS, cells_of
from noiseaware.models.discrete import concentrations
from noiseaware.models.ready import ReadyModel
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS


class CountTable(ReadyModel):
    """The cells of a table of counts; a model adds the law of their means."""

    example: ClassVar[dict[str, Any]] = {"n_levels": [3, 2]}
    random_size = True
    n_levels: int | list[int]
    variables: list[str]

    def _prepare(self, n_levels: int | Sequence[int], variables: Sequence[str] | None) -> None:
        """Hold the levels and the names of the variables; one number: cells without variables."""
        flat = np.ndim(n_levels) == 0
        listed: Any = [n_levels] if flat else n_levels
        if np.ndim(listed) != 1 or len(listed) == 0:
            raise ValueError(
                "n_levels must be the number of cells, or list the number of levels of each "
                f"variable; got {n_levels!r}"
            )
        levels = [whole_number(f"n_levels[{k}]", count, least=2) for k, count in enumerate(listed)]
        self.n_levels = levels[0] if flat else levels
        self._shape = tuple(levels)
        self._width = None if flat else len(levels)
        self.n_cells = math.prod(levels)
        if self.n_cells > MOST_CELLS:
            raise ValueError(
                f"n_levels must make a table of at most {MOST_CELLS:,} cells; got "
                f"{self.n_cells:,}: leave out variables, or put levels together"
            )
        names = ["cell"] if flat and variables is None else variables
        self.variables = list(variable_names(names, len(levels)))
        self.column_names = None if flat else self.variables
        self._axes = np.array(levels, dtype=np.int64)
        grid = np.indices(self._shape, dtype=np.int64).reshape(len(levels), -1).T
        self.record_values = np.ascontiguousarray(grid[:, 0] if flat else grid)
        self.count_table = self._each("counts", "real")

    def _each(self, name: str, support: str) -> Parameter:
        """Return a parameter with a value for each cell."""
        coords = {v: range(count) for v, count in zip(self.variables, self._shape, strict=True)}
        return Parameter(name, self._shape, support, tuple(self.variables), coords)

    def _cells(self, records: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each record's cell, (n,)."""
        array = read_integers(records, self._width)
        cells = np.empty(len(array), dtype=np.int64)
        if not cells_of(array.reshape(len(array), len(self._shape)), self._axes, cells):
            self.check_records(array)
        return cells

    def _log_means(self, theta: Theta) -> Floats:
        """Return log m_c, (C,)."""
        raise NotImplementedError

    def check_records(self, records: ArrayLike) -> None:
        check_levels(read_integers(records, self._width), list(self._shape), self.variables)

    def sample_records(
        self, theta: Theta, n: int, rng: Generator, **index: ArrayLike
    ) -> NDArray[np.int64]:
        """Draw n records: given their number, each is in cell c with probability m_c / sum m."""
        logs = self._log_means(theta)
        shares = np.exp(logs - logs.max())
        return self.record_values[rng.choice(self.n_cells, n, p=shares / shares.sum())]

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log m_c of each record's cell, (n,)."""
        return self._log_means(theta)[self._cells(records)]

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta given all the records of a table."""
        counts = np.bincount(self._cells(records), minlength=self.n_cells)
        return self.update_from_counts(theta, counts, rng)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta, by a kernel that leaves p(theta | counts) invariant."""
        raise NotImplementedError


class PoissonTable(CountTable):
    """A table of independent Poisson counts whose means have gamma priors.

    Parameters
    ----------
    n_levels : int or sequence of int
        The number of cells, or J_1, ..., J_K, the levels of each variable; each at least 2.
    shape, rate : float or array_like, shape (J_1, ..., J_K)
        The Gamma(shape, rate) prior of a cell's mean, one for all cells or one for each. Its mean
        is shape / rate.
    variables : sequence of str, optional
        K names, which become the dimensions of the posterior.

    Notes
    -----
    Records are int64 of shape ``(n, K)``, from 0, or ``(n,)`` if `n_levels` is one number.
    Parameter: ``means`` (J_1, ..., J_K). The posterior has ``counts`` too, the true table.
    The number of records need not be known: a release says ``n_records=None``.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import PoissonTable
    >>> model = PoissonTable(3, shape=2.0, rate=0.1)
    >>> model.from_gammas(np.log([[1.1, 2.2, 11.0]]))["means"].round(6)
    array([[ 1.,  2., 10.]])
    """

    def __init__(
        self,
        n_levels: int | Sequence[int],
        shape: float | ArrayLike = 1.0,
        rate: float | ArrayLike = 0.01,
        variables: Sequence[str] | None = None,
    ) -> None:
        self._prepare(n_levels, variables)
        a = concentrations("shape", shape, self._shape)
        b = concentrations("rate", rate, self._shape)
        self.shape: float | list[Any] = a.tolist()
        self.rate: float | list[Any] = b.tolist()
        self._a, self._b = np.full(self._shape, a), np.full(self._shape, b)
        self.parameters = (self._each("means", "positive"),)
        self.counts_prior = CountsPrior(self._a.reshape(-1), slopes=-np.log1p(self._b.reshape(-1)))
        lgammas = np.array([math.lgamma(each) for each in self._a.flat])
        self._log_constant = float((self._a * np.log(self._b)).sum() - lgammas.sum())

    def _log_means(self, theta: Theta) -> Floats:
        means = read_parameter(theta, "means", self._shape)
        logs: Floats = np.log(np.maximum(means, SMALLEST)).reshape(-1)
        return logs

    def sample_prior(self, rng: Generator) -> Theta:
        return {"means": np.maximum(rng.standard_gamma(self._a) / self._b, SMALLEST)}

    def log_prior(self, theta: Theta) -> float:
        means = read_parameter(theta, "means", self._shape)
        if not (means > 0.0).all():
            return -math.inf
        terms = (self._a - 1.0) * np.log(means) - self._b * means
        return self._log_constant + float(terms.sum())

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return means drawn from their gamma distributions given the counts."""
        drawn = rng.standard_gamma(self._a + counts.reshape(self._shape)) / (self._b + 1.0)
        return {"means": np.maximum(drawn, SMALLEST)}

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of the means of which these are the logarithms times b + 1."""
        means = np.exp(logs).reshape(-1, *self._shape) / (self._b + 1.0)
        return {"means": np.maximum(means, SMALLEST)}


MODELS.add(PoissonTable)
