"""Groups with yes-or-no outcomes whose proportions share a prior: partial pooling of proportions.

The model
---------
A record is a group, 0, ..., G - 1, and an outcome, 0 or 1. The sizes of the groups are known.

    P(outcome = 1 in group g) = p_g,      h_g = log(p_g / (1 - p_g))
    h_g ~ N(mu, tau^2)
    mu ~ N(m_0, s_0^2)                          m_0 = location_mean, s_0 = location_sd
    tau ~ HalfNormal(s)                         s = spread_scale

The kernel for p(theta | x)
---------------------------
With s_g ones among n_g records, the likelihood of h_g is exp(s_g h_g) / (1 + exp(h_g))^n_g. The
scan holds in turn

*the levels*: each h_g by a slice step in
  l(h_g) = s_g h_g - n_g log(1 + exp(h_g)) - (h_g - mu)^2 / (2 tau^2); mu exactly, from
  N(c (m_0/s_0^2 + sum_g h_g/tau^2), c), 1/c = 1/s_0^2 + G/tau^2; log tau by a slice step in
  l = log tau - tau^2/(2 s^2) - G log tau - sum_g (h_g - mu)^2 / (2 tau^2);

*the deviations* z_g = (h_g - mu)/tau: mu and then log tau by slice steps in
  l = sum_g [s_g h_g - n_g log(1 + exp(h_g))] + log prior, with h_g = mu + tau z_g.

In the coordinates (mu, tau, z) the prior of z does not hold mu and tau, and |dh/dz| = tau^G takes
the place of the prior's tau^-G; so both halves leave p(theta | x) invariant. The first is fast
where the groups are large, the second where they are small (Yu and Meng 2011 call it interweaving).

The construction x = F(u; theta)
--------------------------------
That of `grouped.py`: the outcome is 1 if u < p_g. The transport move proposes in the
coordinates of `noiseaware.models.hierarchical.NonCentred`.

Reference
---------
Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. JCGS 20(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Theta
from noiseaware.models.arguments import POSITIVE, REAL
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.grouped import YesNoGroups
from noiseaware.models.hierarchical import (
    LOCATION_GIVEN_Z,
    LOGIT,
    POOL,
    SPREAD_GIVEN_Z,
    SPREAD_OF_LOGITS,
    Pooled,
    slice_step,
)
from noiseaware.models.inverse_cdf import SPACING
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _scan(location, spread, levels, data, uniforms, normal):
    """Do the scan of the module docstring; ``levels``, the h_g, are updated in place.

    Returns mu and tau. ``data`` is that of `log_target`, and ``uniforms`` is (G + 3, POOL).
    """
    _, sizes, hyper = data
    n_groups = sizes.shape[0]
    for g in range(n_groups):
        width = 3.0 / math.sqrt(0.25 * sizes[g] + 1.0 / spread**2)
        held = (g, location, spread, 0.0, levels)
        levels[g] = slice_step(LOGIT, levels[g], width, held, data, uniforms[g])
    precision = hyper[1] + n_groups / spread**2
    centre = hyper[0] * hyper[1] + levels.sum() / spread**2
    location = centre / precision + normal / math.sqrt(precision)
    held = (0, location, spread, 0.0, levels)
    log_spread = math.log(spread)
    log_spread = slice_step(SPREAD_OF_LOGITS, log_spread, 1.0, held, data, uniforms[n_groups])
    spread = math.exp(log_spread)
    deviations = (levels - location) / spread
    width = 3.0 / math.sqrt(0.25 * sizes.sum() + hyper[1])
    held = (0, location, spread, 0.0, deviations)
    location = slice_step(LOCATION_GIVEN_Z, location, width, held, data, uniforms[n_groups + 1])
    held = (0, location, spread, 0.0, deviations)
    log_spread = slice_step(SPREAD_GIVEN_Z, log_spread, 1.0, held, data, uniforms[n_groups + 2])
    spread = math.exp(log_spread)
    for g in range(n_groups):
        levels[g] = location + spread * deviations[g]
    return location, spread


@dataclass(repr=False, eq=False)
class StratifiedProportions(Pooled, YesNoGroups):
    """Groups of known sizes with yes-or-no outcomes, whose log odds share a normal prior.

    Parameters
    ----------
    sizes : two or more ints
        The number of records in each group.
    location_mean, location_sd : float
        Mean and standard deviation of the prior of mu, the centre of the groups' log odds.
    spread_scale : float
        Scale of the half-normal prior of tau, the standard deviation of the groups' log odds.
    labels : texts, optional
        Names of the groups; "0", "1", ... if not given.

    Notes
    -----
    Records are int64 of shape ``(n, 2)``: the group and the outcome, those of group 0 first.
    Parameters: ``location`` (), ``spread`` () and ``proportions`` (G,). Derived: ``overall`` (),
    the mean of the proportions weighted by the sizes of their groups.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import StratifiedProportions
    >>> model = StratifiedProportions(sizes=[1, 2])
    >>> theta = {"location": 0.0, "spread": 1.0, "proportions": [0.3, 0.8]}
    >>> model.build_records(theta, np.array([[0.5], [0.5], [0.9]]))
    array([[0, 0],
           [1, 1],
           [1, 0]])
    """

    sizes: Sequence[int] | None = None
    _: KW_ONLY
    location_mean: float = field(default=0.0, metadata=REAL)
    location_sd: float = field(default=1.5, metadata=POSITIVE)
    spread_scale: float = field(default=1.0, metadata=POSITIVE)
    labels: Sequence[str] | None = None

    group_parameter = "proportions"

    @staticmethod
    def _theta(location: float, spread: float, levels: Floats) -> Theta:
        proportions = 1.0 / (1.0 + np.exp(-levels))
        return {
            "location": np.array(location),
            "spread": np.array(spread),
            "proportions": np.clip(proportions, SMALLEST, 1.0 - SPACING),
        }

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        return self._theta(*self._draw_shared(rng))

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        (p,) = self._read(theta)
        if not ((p > 0.0) & (p < 1.0)).all():
            return -math.inf
        log_yes, log_no = np.log(p), np.log1p(-p)
        # dh/dp = 1 / (p (1 - p))
        return float(self._log_shared(theta, log_yes - log_no) - (log_yes + log_no).sum())

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta by one scan of p(theta | x); see the module docstring."""
        return self._scan(theta, *self._totals(records), rng)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta, likewise, from the zeros and ones of each group."""
        ones = counts[1::2].astype(np.float64)
        return self._scan(theta, ones, ones + counts[::2], rng)

    def _scan(self, theta: Theta, ones: Floats, sizes: Floats, rng: Generator) -> Theta:
        data = (ones, sizes, self._hyper)
        (p,) = self._read(theta)
        levels = np.log(p) - np.log1p(-p)
        uniforms = rng.random((self._n_groups + 3, POOL))
        start = float(theta["location"]), float(theta["spread"])
        location, spread = _scan(*start, levels, data, uniforms, rng.standard_normal())
        return self._theta(location, spread, levels)


MODELS.add(StratifiedProportions)
