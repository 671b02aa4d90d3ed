"""Categories with unknown probabilities.

The model
---------
A record is an integer from 0 to J - 1.

    P(x_i = j) = p_j,      p ~ Dirichlet(a_0, ..., a_{J-1})

The conditional of the parameter
--------------------------------
With n_j records at level j the likelihood is prod_j p_j^{n_j}, so p | x ~ Dirichlet(a_j + n_j)_j:
`Categorical.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1) and x is the inverse CDF of p at u; given x, u is uniform in the interval of
the CDF that gives x (`noiseaware.models.inverse_cdf`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.contract import ClosedForm, Reading
from noiseaware.models import estimates
from noiseaware.models.arguments import (
    arguments_repr,
    check_levels,
    read_floats,
    read_integers,
    read_parameter,
    real_array,
)
from noiseaware.models.conjugate import (
    draw_dirichlet,
    gamma_pool,
    log_dirichlet,
    log_dirichlet_constant,
    longer_pool,
    pool_size,
)
from noiseaware.models.inverse_cdf import fill_edges, level_of, uniform_between
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]

_DONE, _POOL_ENDED, _WRONG_LEVEL = 0, 1, 2
_NO_BOOSTS = np.empty((0, 0))
_NO_RECORDS = np.empty(0, dtype=np.int64)


@njit(cache=True, nogil=True)
def _build_records(probabilities, innovations, records):
    """Write the level that each innovation gives; ``probabilities`` is (1, J)."""
    n_levels = probabilities.shape[1]
    edges = np.empty((1, n_levels + 1))
    fill_edges(probabilities, 0, n_levels, edges)
    for i in range(records.shape[0]):
        records[i] = level_of(innovations[i, 0], edges, 0, n_levels)


@njit(cache=True, nogil=True)
def _recover_innovations(probabilities, records, innovations):
    """Move each uniform of ``innovations`` into the interval that gives its record."""
    n_levels = probabilities.shape[1]
    edges = np.empty((1, n_levels + 1))
    fill_edges(probabilities, 0, n_levels, edges)
    for i in range(records.shape[0]):
        if not 0 <= records[i] < n_levels:
            return _WRONG_LEVEL
        innovations[i, 0] = uniform_between(
            edges[0, records[i]], edges[0, records[i] + 1], innovations[i, 0]
        )
    return _DONE


@njit(cache=True, nogil=True)
def _log_likelihood(probabilities, records, out):
    """Write log p_{x_i}."""
    for i in range(records.shape[0]):
        if not 0 <= records[i] < probabilities.shape[1]:
            return _WRONG_LEVEL
        p = probabilities[0, records[i]]
        out[i] = math.log(p) if p > 0.0 else -math.inf
    return _DONE


@njit(cache=True, nogil=True)
def _draw_probabilities(records, concentrations, normals, uniforms, boosts, probabilities):
    """Draw p | x into ``probabilities``, (1, J); with no records, from the prior."""
    n_levels = probabilities.shape[1]
    shapes = np.empty(probabilities.shape)
    shapes[0] = concentrations
    for i in range(records.shape[0]):
        if not 0 <= records[i] < n_levels:
            return _WRONG_LEVEL
        shapes[0, records[i]] += 1.0
    used = draw_dirichlet(shapes, 0, n_levels, normals, uniforms, 0, boosts, probabilities)
    return _POOL_ENDED if used < 0 else _DONE


class Categorical:
    """Independent categories with unknown probabilities.

    Parameters
    ----------
    n_levels : int
        J, at least 2.
    concentration : float or array_like, shape (J,)
        The Dirichlet prior's a_j; one number for all levels or one for each.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameter: ``probabilities`` (J,).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Categorical
    >>> model = Categorical(3)
    >>> theta = {"probabilities": np.array([0.2, 0.3, 0.5])}
    >>> model.build_records(theta, np.array([[0.1], [0.4], [0.9]]))
    array([0, 1, 2])
    """

    def __init__(self, n_levels: int, concentration: float | ArrayLike = 1.0) -> None:
        self.n_levels = whole_number("n_levels", n_levels, least=2)
        shape = () if np.ndim(concentration) == 0 else (self.n_levels,)
        given = real_array("concentration", concentration, shape)
        if not (given > 0).all():
            raise ValueError(f"concentration must be positive; got {given.tolist()}")
        self.concentration: float | list[float] = given.tolist()
        self._concentrations = np.ascontiguousarray(np.broadcast_to(given, (self.n_levels,))).copy()
        self._exponents = self._concentrations - 1.0
        self._log_constant = log_dirichlet_constant(self._concentrations)
        self._needs_boosts = bool((self._concentrations < 1.0).any())
        self._pool_size = pool_size(self.n_levels)
        self.parameters: tuple[Parameter, ...] = (
            Parameter(
                "probabilities",
                (self.n_levels,),
                "simplex",
                ("level",),
                {"level": list(range(self.n_levels))},
            ),
        )
        self.innovations = Innovations("uniform", 1)
        self.record_values: NDArray[np.int64] = np.arange(self.n_levels)

    def _read(self, theta: Mapping[str, Any]) -> NDArray[np.float64]:
        return read_parameter(theta, "probabilities", (self.n_levels,)).reshape(1, -1)

    def _draw(self, records: NDArray[np.int64], rng: np.random.Generator) -> Theta:
        pool = gamma_pool(rng, self._pool_size)
        boosts = rng.random((1, self.n_levels)) if self._needs_boosts else _NO_BOOSTS
        probabilities = np.empty((1, self.n_levels))
        while status := _draw_probabilities(
            records, self._concentrations, *pool, boosts, probabilities
        ):
            if status == _WRONG_LEVEL:
                self.check_records(records)
            pool = longer_pool(rng, pool)
        return {"probabilities": probabilities.reshape(-1)}

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(read_integers(records, None), [self.n_levels], ["the level"])

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        return self._draw(_NO_RECORDS, rng)

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised, over the first J - 1 probabilities."""
        probabilities = self._read(theta)
        return self._log_constant + log_dirichlet(probabilities, 0, self.n_levels, self._exponents)

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw n records from f(. | theta); shape ``(n,)``."""
        return self.build_records(theta, rng.random((n, 1)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_integers(records, None)
        out = np.empty(len(records))
        if _log_likelihood(self._read(theta), records, out):
            self.check_records(records)
        return out

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the probabilities given exact counts, a Dirichlet, and their estimate."""
        if reading.kind != "counts" or len(reading.values) != self.n_levels:
            return None
        shapes = self._concentrations + reading.values
        return ClosedForm(
            {"probabilities": estimates.shares(reading.values)},
            lambda draws, rng: {"probabilities": rng.dirichlet(shapes, size=draws)},
        )

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        return self._draw(read_integers(records, None), rng)

    def build_records(self, theta: Mapping[str, Any], innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        records = np.empty(len(innovations), dtype=np.int64)
        _build_records(self._read(theta), innovations, records)
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
        records = read_integers(records, None)
        innovations = rng.random((len(records), 1))
        if _recover_innovations(self._read(theta), records, innovations):
            self.check_records(records)
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "Categorical",
            "n_levels": self.n_levels,
            "concentration": self.concentration,
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
