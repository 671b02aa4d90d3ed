"""Groups that share a prior: what `StratifiedMeans` and `StratifiedProportions` have in common.

Both have a level h_g for each group (its mean, or the logit of its proportion) and

    h_g ~ N(mu, tau^2)
    mu ~ N(m_0, s_0^2)                     m_0 = location_mean, s_0 = location_sd
    tau ~ HalfNormal(s)                    s = spread_scale; density 2 N(tau; 0, s^2), tau > 0

so that the groups learn from one another, the more the smaller tau is: partial pooling.

**Coordinates.** h_g and tau are hard to move together. Where tau is small the h_g crowd around mu,
and where it is large they are far apart, a funnel that no single step size fits. `NonCentred` holds
z_g = (h_g - mu) / tau instead, which are standard normal whatever mu and tau are. The transport
move proposes in v = (mu, log tau, z_1, ..., z_G), and log v for a variance v, with

    |d theta / d v| = tau tau^G              (times p_g (1 - p_g) for each proportion, times v).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import log_normal_iid
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.grouped import Grouped
from noiseaware.models.inverse_cdf import inside
from noiseaware.parameters import Parameter

LARGEST_LOGIT = 36.0
"""Beyond it a proportion rounds to 1. Under any prior of use it is never met."""


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
    """Fill `v`; the inverse of `_from_vector`."""
    v[0] = natural[0]
    v[1] = math.log(max(natural[1], SMALLEST))
    for g in range(n_groups):
        level = natural[2 + g]
        if proportions:
            level = math.log(level) - math.log1p(-level)
        v[2 + g] = (level - v[0]) / max(natural[1], SMALLEST)
    if v.shape[0] > 2 + n_groups:
        v[2 + n_groups] = math.log(max(natural[2 + n_groups], SMALLEST))


class NonCentred:
    """The coordinates (mu, log tau, z_1, ..., z_G), and log v where there is a variance v.

    ``groups`` is the name of the groups' parameter, "means" or "proportions".
    """

    def __init__(self, groups: str, n_groups: int) -> None:
        self._groups, self._n = groups, n_groups
        self._proportions = groups == "proportions"
        self.size = 2 + n_groups + (not self._proportions)

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta, (size,)."""
        natural = np.empty(self.size)
        natural[0], natural[1] = theta["location"], theta["spread"]
        natural[2 : 2 + self._n] = theta[self._groups]
        if not self._proportions:
            natural[-1] = theta["variance"]
        v = np.empty(self.size)
        _to_vector(natural, self._n, self._proportions, v)
        return v

    def from_vector(self, v: Floats) -> tuple[Theta, float]:
        """Return theta(v), in arrays of its own, and the log of the Jacobian at v."""
        natural = np.empty(self.size)
        log_jacobian = _from_vector(v, self._n, self._proportions, natural)
        theta = {
            "location": natural[0:1].reshape(()),
            "spread": natural[1:2].reshape(()),
            self._groups: natural[2 : 2 + self._n],
        }
        if not self._proportions:
            theta["variance"] = natural[-1:].reshape(())
        return theta, log_jacobian

    def spread_of(self, v: Floats) -> float:
        """Return tau: how far the level of a group goes with its z."""
        return math.exp(v[1])

    def around(self, theta: Theta) -> Shared:
        """Return the coordinates of what the groups share, with every z_g held as it is."""
        return Shared(self, self.to_vector(theta))

    def blocks(self, largest: int) -> list[NDArray[np.int64]]:
        """Cut v into blocks of at most `largest` coordinates; a variance is a block of its own.

        The kernel for p(theta | x) draws all the others afresh, but the variance only as widely as
        n records allow. Transport has to carry it, and does that best alone.
        """
        variance = [] if self._proportions else [np.array([self.size - 1])]
        rest = np.arange(2 + self._n)
        if len(rest) <= largest:
            return [rest, *variance]
        z = np.array_split(rest[2:], -(-self._n // largest))
        return [rest[:2], *z, *variance]


class Shared:
    """The coordinates (mu, log tau) and log v of `NonCentred` ones, whose z are held."""

    def __init__(self, own: NonCentred, held: Floats) -> None:
        self._own, self._held = own, held
        self._index = np.array([0, 1, len(held) - 1])
        self.size = len(self._index)

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta, (size,), of a theta with the same z."""
        return self._own.to_vector(theta)[self._index]

    def from_vector(self, v: Floats) -> tuple[Theta, float]:
        """Return theta(v), and the log of the Jacobian of all coordinates."""
        whole = self._held.copy()
        whole[self._index] = v
        return self._own.from_vector(whole)

    def blocks(self, largest: int) -> list[NDArray[np.int64]]:
        """Return the variance as a block of its own, and the others."""
        return [np.arange(2), np.array([2])]


class Pooled(Grouped):
    """Groups whose levels share a prior; a base of models, beside that of their outcomes."""

    location_mean: float
    location_sd: float
    spread_scale: float

    derived = (Parameter("overall"),)
    group_parameter: ClassVar[str]
    """The parameter of the groups: "means" or "proportions"."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._hyper = np.array([self.location_mean, self.location_sd**-2, self.spread_scale**-2])
        self.coordinates = NonCentred(self.group_parameter, self._n_groups)
        proportions = self.group_parameter == "proportions"
        # The logit of a proportion stays below a bound, so that its z is not quite normal.
        self.group_levels = None if proportions else slice(2, 2 + self._n_groups)
        support = "unit" if proportions else "real"
        self.parameters = (
            Parameter("location"),
            Parameter("spread", (), "positive"),
            self._each(self.group_parameter, support),
        )

    def _draw_shared(self, rng: Generator) -> tuple[float, float, Floats]:
        """Draw mu, tau and h from the prior."""
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
        """Return the mean of the groups of draws of theta, weighted by sizes or shares."""
        levels = np.asarray(theta[self.group_parameter])
        if self.sizes is None:
            return {"overall": (levels * theta["shares"]).sum(axis=-1)}
        return {"overall": levels @ (np.array(self.sizes) / self.n_records)}
