"""The naive Bayes log-linear model: the paper's sections 4 and S-4.

The model
---------
A record is a class y and K features x_1, ..., x_K, all categories: a row of 1 + K integers, the
class first, each counted from 0. There are I classes, and feature k has J_k levels.

    P(y = i) = p_i
    P(x_k = j | y = i) = p^k_{ij}               independently over k, given the class

with independent Dirichlet(a, ..., a) priors on p = (p_i)_i and on each p^k_{i-} = (p^k_{ij})_j
(a = 2 in the paper).

The conditional of the parameters
---------------------------------
The likelihood of a database depends on the counts n_i = #(y = i) and n^k_{ij} = #(y = i, x_k = j):
it is prod_i p_i^{n_i} prod_{ijk} (p^k_{ij})^{n^k_{ij}}. Multiplied by the Dirichlet densities,
given the records,

    p ~ Dirichlet(a + n_i)_i,      p^k_{i-} ~ Dirichlet(a + n^k_{ij})_j,

all independent: `NaiveBayes.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1)^{1+K}. The class is the inverse CDF of p at u_0, then feature k is the
inverse CDF of p^k_{y-} at u_k. Given a record, u_0 is uniform in the interval of its class and u_k
in the interval of its level under that class. `noiseaware.models.inverse_cdf` keeps this exact in
floating point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.contract import ClosedForm, Reading, query_abilities
from noiseaware.formulas import CellsFormula
from noiseaware.models import estimates
from noiseaware.models.arguments import (
    arguments_repr,
    check_levels,
    positive_number,
    read_floats,
    read_integers,
    read_parameter,
)
from noiseaware.models.conjugate import (
    draw_dirichlet,
    gamma_pool,
    log_dirichlet,
    log_dirichlet_constant,
    longer_pool,
    normalise_rows,
    pool_size,
)
from noiseaware.models.inverse_cdf import fill_edges, level_of, uniform_between
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]

_DONE, _POOL_ENDED, _WRONG_LEVEL = 0, 1, 2
_NO_BOOSTS = np.empty((0, 0))
_MOST_VALUES = 256
"""Possible records that are worth listing: going through them all for each record must be cheap."""


# In the kernels ``classes`` is p as one row, (1, I), and ``features`` holds the p^k_{i-} in rows,
# (I K, J): row i K + k. J is the largest J_k; a shorter row uses its first ``levels[k]`` entries.


@njit(cache=True, nogil=True)
def _fill_tables(classes, features, levels, class_edges, feature_edges):
    n_features = levels.shape[0]
    fill_edges(classes, 0, classes.shape[1], class_edges)
    for row in range(features.shape[0]):
        fill_edges(features, row, levels[row % n_features], feature_edges)


@njit(cache=True, nogil=True)
def _build_records(classes, features, levels, innovations, records):
    """Write the class and the features that each row of ``innovations`` gives."""
    n_classes = classes.shape[1]
    n_features = levels.shape[0]
    class_edges = np.empty((1, n_classes + 1))
    feature_edges = np.empty((features.shape[0], features.shape[1] + 1))
    _fill_tables(classes, features, levels, class_edges, feature_edges)
    for i in range(innovations.shape[0]):
        y = level_of(innovations[i, 0], class_edges, 0, n_classes)
        records[i, 0] = y
        row = y * n_features
        for k in range(n_features):
            records[i, 1 + k] = level_of(innovations[i, 1 + k], feature_edges, row + k, levels[k])


@njit(cache=True, nogil=True)
def _recover_innovations(classes, features, levels, records, innovations):
    """Move each uniform of ``innovations`` into the interval that gives its record's entry."""
    n_classes = classes.shape[1]
    n_features = levels.shape[0]
    class_edges = np.empty((1, n_classes + 1))
    feature_edges = np.empty((features.shape[0], features.shape[1] + 1))
    _fill_tables(classes, features, levels, class_edges, feature_edges)
    for i in range(records.shape[0]):
        y = records[i, 0]
        if not 0 <= y < n_classes:
            return _WRONG_LEVEL
        innovations[i, 0] = uniform_between(
            class_edges[0, y], class_edges[0, y + 1], innovations[i, 0]
        )
        for k in range(n_features):
            x = records[i, 1 + k]
            if not 0 <= x < levels[k]:
                return _WRONG_LEVEL
            row = y * n_features + k
            innovations[i, 1 + k] = uniform_between(
                feature_edges[row, x], feature_edges[row, x + 1], innovations[i, 1 + k]
            )
    return _DONE


@njit(cache=True, nogil=True)
def _log_likelihood(classes, features, levels, records, out):
    """Write log p_y + sum_k log p^k_{y x_k} for each record."""
    n_classes = classes.shape[1]
    n_features = levels.shape[0]
    log_classes = np.empty(n_classes)
    log_features = np.empty(features.shape)
    for y in range(n_classes):
        log_classes[y] = math.log(classes[0, y]) if classes[0, y] > 0.0 else -math.inf
    for row in range(features.shape[0]):
        for j in range(levels[row % n_features]):
            p = features[row, j]
            log_features[row, j] = math.log(p) if p > 0.0 else -math.inf
    for i in range(records.shape[0]):
        y = records[i, 0]
        if not 0 <= y < n_classes:
            return _WRONG_LEVEL
        total = log_classes[y]
        for k in range(n_features):
            x = records[i, 1 + k]
            if not 0 <= x < levels[k]:
                return _WRONG_LEVEL
            total += log_features[y * n_features + k, x]
        out[i] = total
    return _DONE


@njit(cache=True, nogil=True)
def _draw_probabilities(
    records,
    levels,
    concentration,
    normals,
    uniforms,
    class_boosts,
    feature_boosts,
    classes,
    features,
):
    """Draw every Dirichlet of the conditional into ``classes`` and ``features``.

    With no records this is a draw from the prior.
    """
    n_classes = classes.shape[1]
    n_features = levels.shape[0]
    class_shapes = np.full(classes.shape, concentration)
    feature_shapes = np.full(features.shape, concentration)
    for i in range(records.shape[0]):
        y = records[i, 0]
        if not 0 <= y < n_classes:
            return _WRONG_LEVEL
        class_shapes[0, y] += 1.0
        for k in range(n_features):
            x = records[i, 1 + k]
            if not 0 <= x < levels[k]:
                return _WRONG_LEVEL
            feature_shapes[y * n_features + k, x] += 1.0
    used = draw_dirichlet(class_shapes, 0, n_classes, normals, uniforms, 0, class_boosts, classes)
    if used < 0:
        return _POOL_ENDED
    for row in range(features.shape[0]):
        used = draw_dirichlet(
            feature_shapes,
            row,
            levels[row % n_features],
            normals,
            uniforms,
            used,
            feature_boosts,
            features,
        )
        if used < 0:
            return _POOL_ENDED
    return _DONE


@njit(cache=True, nogil=True)
def _log_prior(classes, features, levels, exponents):
    total = log_dirichlet(classes, 0, classes.shape[1], exponents)
    for row in range(features.shape[0]):
        total += log_dirichlet(features, row, levels[row % levels.shape[0]], exponents)
    return total


class NaiveBayes:
    """Categorical class and features, the features independent given the class.

    Parameters
    ----------
    n_classes : int
        I, at least 2.
    n_levels : int or sequence of int
        J_k for each feature, each at least 2; or one number for all, with ``n_features``.
    concentration : float
        a: every probability vector has the prior Dirichlet(a, ..., a).
    n_features : int, optional
        K, needed when ``n_levels`` is one number.

    Notes
    -----
    Records are int64 of shape ``(n, 1 + K)``: the class, then the features, each from 0.
    Parameters: ``class_probabilities`` (I,) and, if all features have the same number J of levels,
    ``feature_probabilities`` (I, K, J); else ``feature_probabilities_1`` (I, J_1), and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import NaiveBayes
    >>> model = NaiveBayes(n_classes=2, n_levels=[3, 3, 3, 3])
    >>> rng = np.random.default_rng(1)
    >>> theta = model.sample_prior(rng)
    >>> theta["feature_probabilities"].shape
    (2, 4, 3)
    >>> model.sample_records(theta, 6, rng).shape
    (6, 5)
    """

    def __init__(
        self,
        n_classes: int,
        n_levels: int | Sequence[int],
        concentration: float = 2.0,
        *,
        n_features: int | None = None,
    ) -> None:
        self.n_classes = whole_number("n_classes", n_classes, least=2)
        if isinstance(n_levels, (int, np.integer)):
            if n_features is None:
                raise ValueError(
                    "n_levels must list the number of levels of each feature, or n_features must "
                    f"be given with it; got n_levels={n_levels!r} alone"
                )
            n_levels = [n_levels] * whole_number("n_features", n_features)
        self.n_levels = [
            whole_number(f"n_levels[{k}]", count, least=2) for k, count in enumerate(n_levels)
        ]
        self.n_features = len(self.n_levels)
        if self.n_features == 0:
            raise ValueError("n_levels must list at least one feature; got []")
        if n_features is not None and n_features != self.n_features:
            raise ValueError(
                f"n_features must be the length of n_levels, {self.n_features}; got {n_features!r}"
            )
        self.concentration = positive_number("concentration", concentration)
        self._levels = np.array(self.n_levels, dtype=np.int64)
        self._equal = len(set(self.n_levels)) == 1
        self.parameters: tuple[Parameter, ...] = self._parameters()
        self.innovations = Innovations("uniform", 1 + self.n_features)
        self._prepare()

    def _parameters(self) -> tuple[Parameter, ...]:
        classes = list(range(self.n_classes))
        found = [
            Parameter(
                "class_probabilities", (self.n_classes,), "simplex", ("class",), {"class": classes}
            )
        ]
        if self._equal:
            found.append(
                Parameter(
                    "feature_probabilities",
                    (self.n_classes, self.n_features, self.n_levels[0]),
                    "simplex",
                    ("class", "feature", "level"),
                    {
                        "class": classes,
                        "feature": [f"feature{k + 1}" for k in range(self.n_features)],
                        "level": list(range(self.n_levels[0])),
                    },
                )
            )
            return tuple(found)
        for k, count in enumerate(self.n_levels):
            level = f"level_{k + 1}"
            found.append(
                Parameter(
                    f"feature_probabilities_{k + 1}",
                    (self.n_classes, count),
                    "simplex",
                    ("class", level),
                    {"class": classes, level: list(range(count))},
                )
            )
        return tuple(found)

    def _prepare(self) -> None:
        """Work out once what every call needs."""
        self._rows = (self.n_classes * self.n_features, max(self.n_levels))
        n_gammas = self.n_classes * (1 + sum(self.n_levels))
        self._pool_size = pool_size(n_gammas)
        longest = max(self.n_classes, *self.n_levels)
        self._exponents = np.full(longest, self.concentration - 1.0)
        self._log_constant = log_dirichlet_constant(
            np.full(self.n_classes, self.concentration)
        ) + self.n_classes * sum(
            log_dirichlet_constant(np.full(count, self.concentration)) for count in self.n_levels
        )
        self._no_records = np.empty((0, 1 + self.n_features), dtype=np.int64)
        sizes = (self.n_classes, *self.n_levels)
        self.record_values: NDArray[np.int64] | None = None
        if math.prod(sizes) <= _MOST_VALUES:
            self.record_values = np.ascontiguousarray(
                np.indices(sizes, dtype=np.int64).reshape(len(sizes), -1).T
            )

    def _read(self, theta: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the class probabilities as one row and the feature probabilities as rows."""
        classes = read_parameter(theta, "class_probabilities", (self.n_classes,))
        if self._equal:
            features = read_parameter(
                theta, "feature_probabilities", (self.n_classes, self.n_features, self.n_levels[0])
            )
        else:
            features = np.zeros((self.n_classes, self.n_features, max(self.n_levels)))
            for k, count in enumerate(self.n_levels):
                name = f"feature_probabilities_{k + 1}"
                features[:, k, :count] = read_parameter(theta, name, (self.n_classes, count))
        return classes.reshape(1, -1), features.reshape(self._rows)

    def _draw(self, records: NDArray[np.int64], rng: np.random.Generator) -> Theta:
        pool = gamma_pool(rng, self._pool_size)
        class_boosts = feature_boosts = _NO_BOOSTS
        if self.concentration < 1.0:
            class_boosts, feature_boosts = rng.random((1, self.n_classes)), rng.random(self._rows)
        classes, features = np.empty((1, self.n_classes)), np.empty(self._rows)
        while status := _draw_probabilities(
            records,
            self._levels,
            self.concentration,
            *pool,
            class_boosts,
            feature_boosts,
            classes,
            features,
        ):
            if status == _WRONG_LEVEL:
                self.check_records(records)
            pool = longer_pool(rng, pool)
        theta: Theta = {"class_probabilities": classes.reshape(-1)}
        tables = features.reshape(self.n_classes, self.n_features, -1)
        if self._equal:
            theta["feature_probabilities"] = tables
        else:
            for k, count in enumerate(self.n_levels):
                theta[f"feature_probabilities_{k + 1}"] = tables[:, k, :count].copy()
        return theta

    @property
    def column_names(self) -> list[str]:
        """The names of a record's entries, for imputed databases."""
        return ["class", *(f"feature{k}" for k in range(1, self.n_features + 1))]

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(
            read_integers(records, 1 + self.n_features),
            [self.n_classes, *self.n_levels],
            ["the class", *(f"feature {k + 1}" for k in range(self.n_features))],
        )

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        if not self._equal or self.concentration < 1.0:  # below 1 a gamma may be too small
            return self._draw(self._no_records, rng)
        classes = rng.standard_gamma(self.concentration, self.n_classes)
        features = rng.standard_gamma(self.concentration, self.parameters[1].shape)
        normalise_rows(classes.reshape(1, -1))
        normalise_rows(features.reshape(self._rows))
        return {"class_probabilities": classes, "feature_probabilities": features}

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised, over all but the last entry of each vector."""
        return self._log_constant + _log_prior(*self._read(theta), self._levels, self._exponents)

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw n records from f(. | theta); shape ``(n, 1 + K)``."""
        return self.build_records(theta, rng.random((n, 1 + self.n_features)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_integers(records, 1 + self.n_features)
        out = np.empty(len(records))
        if _log_likelihood(*self._read(theta), self._levels, records, out):
            self.check_records(records)
        return out

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the tables given exact counts, Dirichlets, and their estimates."""
        if reading.kind != "tables":
            return None
        classes, features = reading.values
        if [part.shape for part in features] != [(self.n_classes, j) for j in self.n_levels]:
            return None

        def draw(draws: int, rng: np.random.Generator) -> Theta:
            a = self.concentration
            tables = [
                np.stack([rng.dirichlet(a + row, size=draws) for row in part], axis=1)
                for part in features
            ]
            return self._name_tables(rng.dirichlet(a + classes, size=draws), tables)

        shares = [estimates.shares(part) for part in features]
        return ClosedForm(self._name_tables(estimates.shares(classes), shares), draw)

    def _name_tables(self, classes: NDArray[np.float64], features: list[Any]) -> Theta:
        """Name the tables (..., I) and (..., I, J_k) as the parameters are."""
        if self._equal:
            named = {"feature_probabilities": np.stack(features, axis=-2)}
        else:
            named = {f"feature_probabilities_{k}": x for k, x in enumerate(features, start=1)}
        return {"class_probabilities": classes, **named}

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        return self._draw(read_integers(records, 1 + self.n_features), rng)

    def build_records(self, theta: Mapping[str, Any], innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta); innovations and records both ``(n, 1 + K)``."""
        innovations = read_floats("innovations", innovations, 1 + self.n_features)
        records = np.empty(innovations.shape, dtype=np.int64)
        _build_records(*self._read(theta), self._levels, innovations, records)
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, 1 + K)``: uniform in the intervals that give x_i."""
        records = read_integers(records, 1 + self.n_features)
        innovations = rng.random(records.shape)
        if _recover_innovations(*self._read(theta), self._levels, records, innovations):
            self.check_records(records)
        return innovations

    def formula(self, query: Any, n: int) -> CellsFormula | None:
        """Return a formula for the total of counts by class and level; see `formulas`."""
        if query_abilities(query).class_feature_levels != (self.n_classes, *self.n_levels):
            return None
        class_place, level_place = np.array(self._places(), dtype=np.int64).T.copy()
        return CellsFormula(class_place, level_place, n, self.concentration)

    def _places(self) -> list[tuple[int, int]]:
        """Return, for each cell of the counts, where its class and its level stand in theta."""
        places = []
        starts = self.n_classes * np.cumsum((1, *self.n_levels))
        for c in range(self.n_classes):
            for k, count in enumerate(self.n_levels):
                if self._equal:
                    first = self.n_classes + (c * self.n_features + k) * count
                else:
                    first = int(starts[k]) + c * count
                places += [(c, first + level) for level in range(count)]
        return places

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "NaiveBayes",
            "n_classes": self.n_classes,
            "n_levels": list(self.n_levels),
            "concentration": self.concentration,
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
