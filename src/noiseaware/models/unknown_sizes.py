"""Groups of unknown sizes.

The model
---------
The other models of groups are given the number of records in each group. Here the group of a
record is as random as its outcome:

    shares ~ Dirichlet(a, ..., a)                    a = concentration
    group of record i ~ Categorical(shares)
    outcome of record i ~ as in the model of the groups.

The records are then exchangeable, and their number may be known, with only the split unknown, or
unknown (`sample(..., size=...)`). With a = 1 every split of n records into sizes is equally likely.

The conditionals
----------------
With m_g records in group g,

* shares | x ~ Dirichlet(a + m_1, ..., a + m_G), independent of the other parameters given x, whose
  kernel is that of the groups' model;
* log f(x_i | theta) is that of the groups' model plus log shares_g.

With yes-or-no outcomes, theta can be integrated out of the distribution of the counts. Given m_g,
the cells of group g have their prior in the groups' model, which omits the factor
1 / Gamma(w_g + m_g), w_g the sum of their concentrations. The m_g are Dirichlet-multinomial,
prod_g Gamma(a + m_g) / Gamma(G a + n). Both are rows of `CountsPrior`.

The construction x = F(u; theta)
--------------------------------
The groups' model has its own innovations. The group is the level of a uniform number U
(`inverse_cdf`). If those innovations are uniform, U is one more. If they are normal, U takes two, a
and b: U = exp(-(a^2 + b^2) / 2) is uniform, since (a^2 + b^2) / 2 is standard exponential. Given
the group, U is uniform in its interval and the angle of (a, b) is uniform, independent of U.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import CountsPrior, Floats, Theta, model_abilities
from noiseaware.maths.coordinates import Coordinates
from noiseaware.models.arguments import PRIOR_SHAPE, read_floats, read_parameter
from noiseaware.models.conjugate import SMALLEST, log_dirichlet, log_dirichlet_constant, shares_of
from noiseaware.models.grouped import without_sizes
from noiseaware.models.inverse_cdf import fill_edges
from noiseaware.models.ready import ReadyModel, needed
from noiseaware.parameters import Innovations, Parameter, Work
from noiseaware.registry import MODELS

_WORK = Work(calls=3.0, draw=9.0, build=4.0, recover=14.0)
"""The cost for two groups with normal outcomes: NumPy finds the groups and sorts the records."""


class _WithShares:
    """The coordinates of the groups' model, followed by those of the shares."""

    def __init__(self, own: Any, shares: Parameter) -> None:
        self._own, self._shares = own, Coordinates((shares,))
        self.size: int = own.size + self._shares.size

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta, (size,)."""
        return np.append(self._own.to_vector(theta), self._shares.to_vector(theta))

    def from_vector(self, v: Floats) -> tuple[Theta, float]:
        """Return theta(v), and the log of the Jacobian at v."""
        theta, log_jacobian = self._own.from_vector(np.ascontiguousarray(v[: self._own.size]))
        shares, more = self._shares.from_vector(np.ascontiguousarray(v[self._own.size :]))
        return {**theta, **shares}, log_jacobian + more

    def blocks(self, largest: int) -> list[NDArray[np.int64]]:
        """Return the blocks of both, one after another."""
        after = [self._own.size + block for block in self._shares.blocks(largest)]
        return [*self._own.blocks(largest), *after]


@dataclass(repr=False, eq=False)
class UnknownSizes(ReadyModel):
    """Groups of unknown sizes: a model of groups, plus the share of each group.

        shares              ~ Dirichlet(concentration, ..., concentration)
        group of record i   ~ Categorical(shares)
        outcome of record i ~ as in the model of the groups

    Parameters
    ----------
    groups : TwoMeans, TwoProportions, StratifiedMeans or StratifiedProportions
        The model of the groups, made without `sizes`; or its description, a dict.
    concentration : float, default 1
        The prior of the shares; 1 makes every split of the records equally likely.

    Notes
    -----
    Records are those of the groups' model, in any order. Parameters: those of the groups' model,
    and ``shares`` (G,). Derived: as in the groups' model, with ``overall`` weighted by the shares.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import TwoProportions, UnknownSizes
    >>> model = UnknownSizes(TwoProportions(labels=["control", "treated"]))
    >>> [parameter.name for parameter in model.parameters]
    ['proportions', 'shares']
    >>> theta = {"proportions": [0.3, 0.8], "shares": [0.6, 0.4]}
    >>> model.build_records(theta, np.array([[0.5, 0.1], [0.5, 0.9]]))
    array([[0, 0],
           [1, 1]])
    """

    groups: Any
    _: KW_ONLY
    concentration: float = field(default=1.0, metadata=PRIOR_SHAPE)

    example: ClassVar[dict[str, Any]] = {"groups": {"type": "TwoMeans"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        described = isinstance(self.groups, Mapping)
        self.groups = without_sizes(MODELS.read(self.groups) if described else self.groups)
        inner = self._able = model_abilities(self.groups)
        shares = self.groups._each("shares", "simplex")
        self.parameters = (*inner.parameters, shares)
        self.derived = inner.derived
        self._n_groups = shares.shape[0]
        self._prior = np.full(self._n_groups, self.concentration)
        self._log_constant = log_dirichlet_constant(self._prior)
        own = self.groups.innovations
        width = own.width + (1 if own.kind == "uniform" else 2)
        self.innovations = Innovations(own.kind, width, _WORK)
        self.column_names = self.groups.column_names
        if inner.coordinates is not None:
            self.coordinates = _WithShares(inner.coordinates, shares)
        self.record_values = inner.record_values
        for name in ("scale_records", "update_from_counts", "from_gammas"):
            if getattr(inner, name) is None:
                setattr(self, name, None)

    @cached_property
    def counts_prior(self) -> CountsPrior | None:
        """The prior of the counts; see the module docstring."""
        inner = self._able.counts_prior
        if inner is None:
            return None
        of = (self.record_values[:, 0] == np.arange(self._n_groups)[:, None]).astype(np.float64)
        return CountsPrior(
            inner.concentrations,
            np.concatenate([of, of]),
            np.append(of @ inner.concentrations, self._prior),
            np.repeat([-1.0, 1.0], self._n_groups),
            whole=float(self._prior.sum()),
        )

    def _shares(self, theta: Theta) -> Floats:
        return read_parameter(theta, "shares", (self._n_groups,))

    def _edges(self, theta: Theta) -> Floats:
        """Return the edges of the groups' intervals, (G + 1,)."""
        edges = np.empty((1, self._n_groups + 1))
        fill_edges(self._shares(theta)[None], 0, self._n_groups, edges)
        return edges[0]

    def _with_shares(self, theta: Theta, sizes: NDArray[Any], rng: Generator) -> Theta:
        """Return theta of the groups, plus shares drawn given the group sizes."""
        drawn: Floats = rng.standard_gamma(np.asarray(self._prior + sizes, dtype=np.float64))
        shares = np.maximum(drawn / max(drawn.sum(), SMALLEST), SMALLEST)
        return {**theta, "shares": shares / shares.sum()}

    def sample_prior(self, rng: Generator) -> Theta:
        return self._with_shares(self.groups.sample_prior(rng), np.zeros(self._n_groups), rng)

    def log_prior(self, theta: Theta) -> float:
        shares = log_dirichlet(self._shares(theta)[None], 0, self._n_groups, self._prior - 1.0)
        return float(self.groups.log_prior(theta) + shares + self._log_constant)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        given = self.groups.log_likelihood(theta, records)
        with np.errstate(divide="ignore"):
            return given + np.log(self._shares(theta))[np.asarray(records)[:, 0].astype(np.int64)]

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta: the groups' by its own kernel, the shares drawn given x."""
        given = self.groups.update_parameters(theta, records, rng)
        groups = np.asarray(records)[:, 0].astype(np.int64)
        return self._with_shares(given, np.bincount(groups, minlength=self._n_groups), rng)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta, likewise, from the count of each possible record."""
        given = self.groups.update_from_counts(theta, counts, rng)
        return self._with_shares(given, np.bincount(self.record_values[:, 0], counts), rng)

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of theta: the groups' own, and the shares from the last gammas."""
        own, shares = logs[:, : -self._n_groups], logs[:, -self._n_groups :]
        return {**self.groups.from_gammas(own), "shares": shares_of(shares)}

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[Any]:
        innovations = read_floats("innovations", innovations, self.innovations.width)
        own = self.groups.innovations.width
        edges, more = self._edges(theta), innovations[:, own:]
        groups = np.searchsorted(edges[1:-1], _uniform(more), side="right")
        return self.groups.build_in(theta, groups, np.ascontiguousarray(innovations[:, :own]))

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        rng = needed(rng)
        own = self.groups.recover_innovations(theta, records, rng)
        groups, edges = np.asarray(records)[:, 0].astype(np.int64), self._edges(theta)
        low, high = edges[groups], edges[groups + 1]
        uniform = np.minimum(low + rng.random(len(groups)) * (high - low), np.nextafter(high, 0.0))
        if self.groups.innovations.kind == "uniform":
            return np.column_stack([own, uniform])
        angle = 2.0 * math.pi * rng.random(len(groups))
        more = _normals(uniform, angle)
        # If rounding takes U across an edge, use the middle of the interval.
        across = np.searchsorted(edges[1:-1], _uniform(more), side="right") != groups
        more[across] = _normals(0.5 * (low + high)[across], angle[across])
        return np.column_stack([own, more])

    def scale_records(
        self, theta: Theta, records: ArrayLike, amount: float
    ) -> tuple[Theta, Floats, float]:
        """Push the records away from their group means, as the groups' model does."""
        return self.groups.scale_records(theta, records, amount)

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return what the groups' model derives."""
        assert self._able.derive is not None
        return dict(self._able.derive(theta))

    def check_records(self, records: ArrayLike) -> None:
        self.groups.check_records(records)


def _uniform(more: Floats) -> Floats:
    """Return U from the innovations of the groups, (n,)."""
    if more.shape[1] == 1:
        return more[:, 0]
    return cast(Floats, np.exp(-0.5 * (more**2).sum(axis=1)))


def _normals(uniform: Floats, angle: Floats) -> Floats:
    """Return the pair (a, b) with this U and this angle, (n, 2)."""
    radius = np.sqrt(-2.0 * np.log(np.maximum(uniform, SMALLEST)))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


MODELS.add(UnknownSizes)
