"""Records in groups of known sizes: what the models of groups share.

A record is its group, an integer from 0, and its outcome. The group sizes are public, so i fixes
the group of record i: the first n_0 records are in group 0, the next n_1 in group 1, and so on. A
model of groups sets ``uses_index``, so that the sampler tells it which records to build. All other
methods read the group from the record.

**Groups that share a prior**, in `StratifiedMeans` and `StratifiedProportions`, each have a level
h_g (the mean, or the logit of the proportion) with

    h_g ~ N(mu, tau^2)
    mu ~ N(m_0, s_0^2)                     m_0 = location_mean, s_0 = location_sd
    tau ~ HalfNormal(s)                    s = spread_scale; density 2 N(tau; 0, s^2), tau > 0

so that the groups learn from one another (partial pooling), the more so the smaller tau.

**Coordinates.** h_g and tau are hard to move together: for small tau the h_g crowd around mu, and
for large tau they are far apart, a funnel that no single step size fits. `NonCentred` uses
z_g = (h_g - mu) / tau instead, standard normal whatever mu and tau. The transport move proposes in
v = (mu, log tau, z_1, ..., z_G), and log v for a variance v, with

    |d theta / d v| = tau tau^G              (times p_g (1 - p_g) for each proportion, times v).
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

from noiseaware.basics.arguments import as_labels, whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.maths.coordinates import Coordinates
from noiseaware.maths.densities import log_normal_iid
from noiseaware.models.arguments import read_floats
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.inverse_cdf import inside
from noiseaware.models.ready import CompiledModel, labelled
from noiseaware.parameters import Parameter


@njit(cache=True, nogil=True)
def group_of(records, i, n_groups):
    """Return the group of record i, or -1 if there is no such group."""
    if not 0 <= records[i, 0] < n_groups:
        return -1
    group = int(records[i, 0])
    return group if group == records[i, 0] else -1


@njit(cache=True, nogil=True)
def _add_up(records, yes_no, totals, sizes):
    """Add up the outcomes and the records of each group; False at an invalid record."""
    for i in range(records.shape[0]):
        group = group_of(records, i, totals.shape[0])
        if group < 0 or (yes_no and not 0 <= records[i, 1] <= 1):
            return False
        totals[group] += records[i, 1]
        sizes[group] += 1.0
    return True


class Grouped(CompiledModel):
    """Groups of known sizes, with names; a base for dataclasses."""

    sizes: Sequence[int] | None
    """The number of records in each group; None inside `UnknownSizes`."""
    labels: Sequence[str] | None
    """A name for each group; default "0", "1", ..."""

    uses_index = True
    column_names = ("group", "outcome")
    width = 2
    example: ClassVar[dict[str, Any]] = {"sizes": [3, 2]}
    number: ClassVar[int | None] = None
    """The required number of groups; None: two or more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes, labels = self.sizes, self.labels
        if sizes is None:
            G = self.number or (0 if labels is None else len(labels))
            if G < 2:
                raise ValueError(
                    f"labels must name at least 2 groups where sizes are not given; got {labels!r}"
                )
        else:
            G = len(self._read_sizes(sizes))
        self._n_groups = G
        self.labels = None if labels is None else list(as_labels("labels", labels, G))
        self._group_names = self.labels or [str(g) for g in range(G)]
        if self.sizes is not None:
            self.n_records = sum(self.sizes)
            self._group_of = np.repeat(np.arange(G), self.sizes)

    def _read_sizes(self, sizes: Any) -> Sequence[int]:
        if isinstance(sizes, str) or not np.iterable(sizes):
            raise TypeError(f"sizes must list the number of records in each group; got {sizes!r}")
        self.sizes = tuple(whole_number(f"the size of group {g}", n) for g, n in enumerate(sizes))
        G = len(self.sizes)
        if G < 2 or (self.number or G) != G:
            wanted = f"{self.number} numbers" if self.number else "at least 2 numbers"
            raise ValueError(f"sizes must be {wanted}, one for each group; got {list(sizes)!r}")
        return self.sizes

    def _each(self, name: str, support: str) -> Parameter:
        return labelled(name, support, "group", self._group_names)

    def _groups(self, n: int, index: ArrayLike | None) -> NDArray[np.int64]:
        """Return the groups of n records: those in ``index``, or the first n."""
        if self.sizes is None:
            raise ValueError(
                f"sizes of {type(self).__name__} must be given, the number of records in each "
                "group; where nobody says them, noiseaware.models.UnknownSizes takes the model"
            )
        if index is None:
            if n > self.n_records:
                raise ValueError(f"n must be at most the model's {self.n_records} records; got {n}")
            return self._group_of[:n]
        index = np.asarray(index)
        if index.shape != (n,):
            raise ValueError(f"index must have shape ({n},), one per record; got {index.shape}")
        if n and not (index.min() >= 0 and index.max() < self.n_records):
            raise ValueError(
                f"index must be from 0 to {self.n_records - 1}; got {index.min()} to {index.max()}"
            )
        return self._group_of[index]

    def build_records(
        self, theta: Theta, innovations: ArrayLike, index: ArrayLike | None = None
    ) -> NDArray[Any]:
        innovations = read_floats("innovations", innovations, 1)
        return self.build_in(theta, self._groups(len(innovations), index), innovations)

    def build_in(
        self, theta: Theta, groups: NDArray[np.int64], innovations: Floats
    ) -> NDArray[Any]:
        """Return records in these groups, ``(n, 2)``, from innovations ``(n, 1)``."""
        records: NDArray[Any] = np.empty((len(innovations), 2), dtype=self.dtype)
        records[:, 0] = groups
        self.compiled.build(*self._read(theta), innovations, records)
        return records

    def _totals(self, records: ArrayLike) -> tuple[Floats, Floats]:
        totals, sizes = np.zeros(self._n_groups), np.zeros(self._n_groups)
        yes_no = self.dtype is np.int64
        if not _add_up(self._read_records(records), yes_no, totals, sizes):
            self.check_records(records)
        return totals, sizes


def without_sizes(model: Any) -> Grouped:
    """Return the model if it is one of groups, made without sizes; otherwise raise ValueError."""
    if not isinstance(model, Grouped) or model.sizes is not None:
        raise ValueError(
            "groups must be a model of groups made without sizes, such as TwoMeans() or "
            f"StratifiedMeans(labels=[...]); got {model!r}"
        )
    return model


# ------------------------------------------------------------------ groups that share a prior

LARGEST_LOGIT = 36.0
"""Beyond it a proportion rounds to 1; no sensible prior reaches it."""


@njit(cache=True, nogil=True)
def _from_vector(v, n_groups, proportions, natural):
    """Fill `natural` with mu, tau, the groups' parameters and v; return the log Jacobian."""
    log_jacobian = (1.0 + n_groups) * v[1]
    natural[0] = v[0]
    natural[1] = math.exp(v[1])
    for g in range(n_groups):
        level = v[0] + natural[1] * v[2 + g]
        if proportions:
            if not abs(level) < LARGEST_LOGIT:
                log_jacobian = -math.inf
            soft = math.log1p(math.exp(-abs(level)))
            log_jacobian -= abs(level) + 2.0 * soft
            level = inside(math.exp(min(level, 0.0) - soft))
        natural[2 + g] = level
    if v.shape[0] > 2 + n_groups:
        natural[2 + n_groups] = math.exp(v[2 + n_groups])
        log_jacobian += v[2 + n_groups]
    return log_jacobian


@njit(cache=True, nogil=True)
def _to_vector(natural, n_groups, proportions, v):
    v[0] = natural[0]
    v[1] = math.log(max(natural[1], SMALLEST))
    for g in range(n_groups):
        level = natural[2 + g]
        if proportions:
            level = math.log(level) - math.log1p(-level)
        v[2 + g] = (level - v[0]) / max(natural[1], SMALLEST)
    if v.shape[0] > 2 + n_groups:
        v[2 + n_groups] = math.log(max(natural[2 + n_groups], SMALLEST))


class NonCentred(Coordinates):
    """The coordinates (mu, log tau, z_1, ..., z_G), and log v if there is a variance v."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__(parameters)
        self._n = parameters[2].size
        self._proportions = parameters[2].support == "unit"

    def _constrain(self, v: Floats, natural: Floats) -> float:
        return _from_vector(v, self._n, self._proportions, natural)

    def _unconstrain(self, natural: Floats, v: Floats) -> None:
        _to_vector(natural, self._n, self._proportions, v)

    def spread_of(self, v: Floats) -> float:
        """Return tau: how far the level of a group moves with its z."""
        return math.exp(v[1])

    def around(self, theta: Theta) -> Shared:
        """Return the coordinates of what the groups share, with every z_g held fixed."""
        return Shared(self, self.to_vector(theta))

    def blocks(self, largest: int) -> list[NDArray[np.int64]]:
        """Cut v into blocks of at most `largest` coordinates; a variance is its own block.

        The kernel for p(theta | x) redraws the other coordinates freely, but moves the variance
        only as far as n records allow. Transport has to move it, and does so best alone.
        """
        variance = [] if self._proportions else [np.array([self.size - 1])]
        rest = np.arange(2 + self._n)
        if len(rest) <= largest:
            return [rest, *variance]
        z = np.array_split(rest[2:], -(-self._n // largest))
        return [rest[:2], *z, *variance]


class Shared:
    """The coordinates (mu, log tau) and log v of a `NonCentred`, with the z held fixed."""

    def __init__(self, own: NonCentred, held: Floats) -> None:
        self._own, self._held = own, held
        self._index = np.array([0, 1, len(held) - 1])
        self.size = len(self._index)

    def to_vector(self, theta: Theta) -> Floats:
        """Return v, (size,), with theta(v) = theta, for a theta with the same z."""
        return self._own.to_vector(theta)[self._index]

    def from_vector(self, v: Floats) -> tuple[Theta, float]:
        """Return theta(v), and the log of the Jacobian of all coordinates."""
        whole = self._held.copy()
        whole[self._index] = v
        return self._own.from_vector(whole)

    def blocks(self, largest: int) -> list[NDArray[np.int64]]:
        """Return the block (mu, log tau), and the variance as its own block."""
        return [np.arange(2), np.array([2])]


class Pooled(Grouped):
    """Groups whose levels share a prior; combined with a base for their outcomes."""

    location_mean: float
    location_sd: float
    spread_scale: float

    derived = (Parameter("overall"),)
    group_parameter: ClassVar[str]
    """The parameter of the groups: "means" or "proportions"."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hyper = np.array([self.location_mean, self.location_sd**-2, self.spread_scale**-2])
        proportions = self.group_parameter == "proportions"
        # The logit of a proportion is bounded, so its z is not quite normal.
        self.group_levels = None if proportions else slice(2, 2 + self._n_groups)
        each = self._each(self.group_parameter, "unit" if proportions else "real")
        self.parameters = (Parameter("location"), Parameter("spread", (), "positive"), each)

    @cached_property
    def coordinates(self) -> NonCentred:
        """The coordinates in which theta is moved; see the module docstring."""
        return NonCentred(self.parameters)

    def _draw_shared(self, rng: Generator) -> tuple[float, float, Floats]:
        z = rng.standard_normal(2 + self._n_groups)
        location = float(self._hyper[0] + z[0] / math.sqrt(self._hyper[1]))
        spread = max(abs(float(z[1])) / math.sqrt(self._hyper[2]), SMALLEST)
        return location, spread, location + spread * z[2:]

    def _log_shared(self, theta: Theta, levels: Floats) -> float:
        """Return log p(mu, tau, h), normalised; -inf if tau is not positive."""
        location, spread = float(theta["location"]), float(theta["spread"])
        if not 0.0 < spread < math.inf:
            return -math.inf
        centre, precision, spread_precision = self._hyper.tolist()
        constant = 0.5 * math.log(precision * spread_precision) - math.log(math.pi)
        return (
            constant
            - 0.5 * precision * (location - centre) * (location - centre)
            - 0.5 * spread_precision * spread * spread  # a product may overflow; ** would raise
            + log_normal_iid(levels, location, spread)
        )

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the weighted mean of the groups at draws of theta, by sizes or shares."""
        levels = np.asarray(theta[self.group_parameter])
        if self.sizes is None:
            return {"overall": (levels * theta["shares"]).sum(axis=-1)}
        return {"overall": levels @ (np.array(self.sizes) / self.n_records)}
