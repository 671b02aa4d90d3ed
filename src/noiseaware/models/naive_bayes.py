"""The naive Bayes log-linear model: the paper's sections 4 and S-4.

The model
---------
A record is a row of 1 + K integers, all categories counted from 0: a class y, then K features
x_1, ..., x_K. There are I classes, and feature k has J_k levels.

    P(y = i) = p_i
    P(x_k = j | y = i) = p^k_{ij}               independently over k, given the class

with independent Dirichlet(a, ..., a) priors on p = (p_i)_i and on each p^k_{i-} = (p^k_{ij})_j
(a = 2 in the paper).

The conditional of the parameters
---------------------------------
The likelihood depends on the counts n_i = #(y = i) and n^k_{ij} = #(y = i, x_k = j):
it is prod_i p_i^{n_i} prod_{ijk} (p^k_{ij})^{n^k_{ij}}. Given the records,

    p ~ Dirichlet(a + n_i)_i,      p^k_{i-} ~ Dirichlet(a + n^k_{ij})_j,

all independent: `NaiveBayes.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1)^{1+K}. The class is the inverse CDF of p at u_0, and feature k is the inverse
CDF of p^k_{y-} at u_k. Given a record, u_0 is uniform in the interval of its class and u_k in the
interval of its level under that class; `noiseaware.models.inverse_cdf` keeps this exact in floating
point.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware import contract
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import ClosedForm, CountsPrior, Floats, Parts, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import positive_number, read_parameter
from noiseaware.models.conjugate import normalise_rows
from noiseaware.models.discrete import Discrete
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

MOST_VALUES = 256
"""Tables with up to this many possible records are listed, so that the sampler may count the
records of each kind. In a larger table most counts are 0 or 1: parts are counted, or records
moved."""


class NaiveBayes(Discrete):
    """Categorical class and features, with the features independent given the class.

        P(class = i)                     = class_probabilities_i
        P(feature k = level j | class i) = feature_probabilities_ikj

    Every vector of probabilities has the prior Dirichlet(concentration, ..., concentration).

    Parameters
    ----------
    n_classes : int
        I, at least 2.
    n_levels : int or sequence of int
        J_k for each feature, at least 2; or one number for all, with ``n_features``.
    concentration : float, default 2
        The prior; 1 is uniform.
    n_features : int, optional
        K, required if ``n_levels`` is one number.

    Notes
    -----
    Records are int64 of shape ``(n, 1 + K)``: the class, then the features, each from 0.
    Parameters: ``class_probabilities`` (I,) and ``feature_probabilities`` (I, K, J) if all features
    have the same number J of levels; otherwise ``feature_probabilities_1`` (I, J_1), and so on.

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

    example: ClassVar[dict[str, Any]] = {"n_classes": 2, "n_levels": [3, 2]}

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
        pairs = enumerate(n_levels)
        self.n_levels = [whole_number(f"n_levels[{k}]", count, least=2) for k, count in pairs]
        self.n_features = len(self.n_levels)
        if self.n_features == 0:
            raise ValueError("n_levels must list at least one feature; got []")
        if n_features is not None and n_features != self.n_features:
            raise ValueError(
                f"n_features must be the length of n_levels, {self.n_features}; got {n_features!r}"
            )
        self.concentration = positive_number("concentration", concentration)
        self._equal = len(set(self.n_levels)) == 1
        features = [f"feature{k + 1}" for k in range(self.n_features)]
        self.column_names = ["class", *features]
        self.parameters = self._parameters(features)
        sizes = (self.n_classes, *self.n_levels)
        names = ["the class", *(f"feature {k + 1}" for k in range(self.n_features))]
        self._prepare(sizes, np.full(max(sizes), self.concentration), names)
        small = math.prod(sizes) <= MOST_VALUES
        self.record_values = self._cells if small else None

    def _parameters(self, features: list[str]) -> tuple[Parameter, ...]:
        n_classes = self.n_classes
        labels: dict[str, Sequence[Any]] = {"class": range(n_classes)}
        classes = Parameter("class_probabilities", (n_classes,), "simplex", ("class",), labels)
        if self._equal:
            count = self.n_levels[0]
            shape, dims = (n_classes, len(features), count), ("class", "feature", "level")
            labels |= {"feature": features, "level": range(count)}
            tables = [Parameter("feature_probabilities", shape, "simplex", dims, labels)]
        else:
            tables = [
                Parameter(
                    f"feature_probabilities_{k}",
                    (n_classes, count),
                    "simplex",
                    ("class", f"level_{k}"),
                    {"class": range(n_classes), f"level_{k}": range(count)},
                )
                for k, count in enumerate(self.n_levels, start=1)
            ]
        return (classes, *tables)

    def _read(self, theta: Theta) -> tuple[Floats, NDArray[np.int64]]:
        table, (classes, *features) = np.zeros(self._rows), self.parameters
        table[0, : self.n_classes] = read_parameter(theta, classes.name, classes.shape)
        for k, each in enumerate(features, start=1):
            rows = slice(1, None) if self._equal else slice(k, None, self.n_features)
            levels = each.shape[-1]
            table[rows, :levels] = read_parameter(theta, each.name, each.shape).reshape(-1, levels)
        return table, self._columns

    def _theta(self, tables: Floats) -> Theta:
        classes, *features = self.parameters
        theta = {classes.name: tables[:, 0, : self.n_classes]}
        for k, each in enumerate(features, start=1):
            rows = slice(1, None) if self._equal else slice(k, None, self.n_features)
            part = np.ascontiguousarray(tables[:, rows, : each.shape[-1]])
            theta[each.name] = part.reshape(-1, *each.shape)
        return theta

    def sample_prior(self, rng: Generator) -> Theta:
        if not self._equal or self.concentration < 1.0:  # below 1 a gamma may be too small
            return super().sample_prior(rng)
        classes = rng.standard_gamma(self.concentration, (1, self.n_classes))
        features = rng.standard_gamma(self.concentration, (self._rows[0] - 1, self.n_levels[0]))
        normalise_rows(classes)
        normalise_rows(features)
        tables = features.reshape(self.parameters[1].shape)
        return {"class_probabilities": classes[0], "feature_probabilities": tables}

    from_gammas = Discrete.from_gammas  # that of the prior above

    def parts(self, query: Any) -> Parts | None:
        """Return the cells of class, feature and level, if these determine the query.

        Given the counts x_ikj, with n_i records of class i, one database has the probability

            prod_i Gamma(a + n_i) prod_ikj Gamma(a + x_ikj) / prod_ik Gamma(J_k a + n_i),

        up to a constant that depends on n: Dirichlet-multinomials of the classes, and of each
        feature in each class.
        """
        levels = (self.n_classes, *self.n_levels)
        see, a = contract.query_abilities(query).part_columns, self.concentration
        columns = None if see is None else see(levels)
        if columns is None:
            return None
        first = np.arange(sum(self.n_levels)) < self.n_levels[0]
        classes = np.kron(np.eye(self.n_classes), first)
        shifts, signs = [a], [1.0]
        for count, times in Counter(self.n_levels).items():
            shifts.append(count * a)
            signs.append(-float(times))
        prior = CountsPrior(
            np.full(classes.shape[1], a),
            np.concatenate([classes] * len(shifts)),
            np.repeat(shifts, self.n_classes),
            np.repeat(signs, self.n_classes),
            whole=self.n_classes * a,
        )
        return Parts(levels, columns, prior, self._from_part_gammas, self._log_cells)

    def _from_part_gammas(self, logs: Floats) -> Theta:
        """Return draws of theta from gammas for the cells, then for the classes."""
        cells = logs[:, : -self.n_classes].reshape(len(logs), self.n_classes, -1)
        features = np.split(cells, np.cumsum(self.n_levels)[:-1], axis=2)
        in_order = [logs[:, -self.n_classes :], *(x.reshape(len(logs), -1) for x in features)]
        return self.from_gammas(np.concatenate(in_order, axis=1))

    def _log_cells(self, theta: Theta) -> Floats:
        """Return log p^k_ij, plus log p_i with the first feature, by class, feature, level."""
        table, _ = self._read(theta)
        features = [table[k :: self.n_features, :j] for k, j in enumerate(self.n_levels, start=1)]
        logs = np.log(np.concatenate(features, axis=1))
        logs[:, : self.n_levels[0]] += np.log(table[0, : self.n_classes, np.newaxis])
        return logs.reshape(-1)

    def to_dict(self) -> dict[str, Any]:
        written = super().to_dict()
        del written["n_features"]  # the length of n_levels
        return written

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given exact counts, Dirichlets, and the estimates."""
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

    def _name_tables(self, classes: Floats, features: list[Any]) -> Theta:
        """Name the tables (..., I) and (..., I, J_k) as the parameters are."""
        tables = [np.stack(features, axis=-2)] if self._equal else features
        names = [parameter.name for parameter in self.parameters]
        return dict(zip(names, [classes, *tables], strict=True))


MODELS.add(NaiveBayes)
