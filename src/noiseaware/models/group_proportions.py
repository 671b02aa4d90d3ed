"""Groups with yes-or-no outcomes: two proportions, or proportions that share a prior.

A record is a group, 0, ..., G - 1, and an outcome, 0 or 1.

    P(outcome = 1 in group g) = p_g

With u uniform on [0, 1) the outcome is 1 if u < p_g, else 0; given the outcome, u is uniform on
[0, p_g) or [p_g, 1).

Two proportions
---------------
p_g ~ Beta(a, b), independently. With s_g ones among the n_g records of group g,
p_g | x ~ Beta(a + s_g, b + n_g - s_g), independently: `TwoProportions.update_parameters` is an
exact draw.

``log_ratio`` is log(p_1 / p_0), and ``log_odds_ratio`` is logit(p_1) - logit(p_0). (The ratios
themselves have no mean if the prior allows p_0 near 0; for their quantiles, exponentiate those of
the logarithms.) A proportion that is given as, or rounds to, 0 or 1 counts as the neighbouring
double, as in the draws.

Stratified proportions
----------------------
The levels of `grouped.py` are the log odds: h_g = log(p_g / (1 - p_g)) ~ N(mu, tau^2). The
likelihood of h_g is exp(s_g h_g) / (1 + exp(h_g))^n_g. The scan has two halves, which hold

*the levels*: each h_g by a slice step in
  l(h_g) = s_g h_g - n_g log(1 + exp(h_g)) - (h_g - mu)^2 / (2 tau^2); mu exactly, from
  N(c (m_0/s_0^2 + sum_g h_g/tau^2), c), 1/c = 1/s_0^2 + G/tau^2; log tau by a slice step in
  l = log tau - tau^2/(2 s^2) - G log tau - sum_g (h_g - mu)^2 / (2 tau^2);

*the deviations* z_g = (h_g - mu)/tau: mu and then log tau by slice steps in
  l = sum_g [s_g h_g - n_g log(1 + exp(h_g))] + log prior, with h_g = mu + tau z_g.

In the coordinates (mu, tau, z) the prior of z does not involve mu and tau, and |dh/dz| = tau^G
cancels the prior's tau^-G; so both halves leave p(theta | x) invariant. The first mixes fast where
groups are large, the second where they are small (interweaving; Yu and Meng 2011).

Reference
---------
Yu, Y. and Meng, X.-L. (2011). To center or not to center: that is not the question. JCGS 20(3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from noiseaware.contract import ClosedForm, CountsPrior, Floats, Reading, Theta
from noiseaware.maths.densities import softplus
from noiseaware.models import estimates
from noiseaware.models.arguments import POSITIVE, REAL, check_levels, read_parameter
from noiseaware.models.conjugate import SMALLEST, log_dirichlet_constant, shares_of
from noiseaware.models.grouped import Grouped, Pooled, group_of
from noiseaware.models.inverse_cdf import SPACING, inside, uniform_of
from noiseaware.models.ready import Compiled
from noiseaware.models.slice_sampling import POOL, of_array, slice_step
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _build_outcomes(probabilities, innovations, records):
    """Write whether u_i < p_g; the groups are already filled in."""
    for i in range(records.shape[0]):
        records[i, 1] = innovations[i, 0] < inside(probabilities[records[i, 0]])


@njit(cache=True, nogil=True)
def _recover_outcomes(probabilities, records, innovations):
    """Move each uniform into [0, p_g) or [p_g, 1); False at an invalid record."""
    for i in range(records.shape[0]):
        group = group_of(records, i, probabilities.shape[0])
        if group < 0 or not 0 <= records[i, 1] <= 1:
            return False
        innovations[i, 0] = uniform_of(records[i, 1], probabilities[group], innovations[i, 0])
    return True


@njit(cache=True, nogil=True)
def _outcome_likelihood(probabilities, records, out):
    """Write log p_g or log(1 - p_g); False at an invalid record."""
    for i in range(records.shape[0]):
        group = group_of(records, i, probabilities.shape[0])
        if group < 0 or not 0 <= records[i, 1] <= 1:
            return False
        p = probabilities[group]
        if records[i, 1] == 1:
            out[i] = math.log(p) if p > 0.0 else -math.inf
        else:
            out[i] = math.log1p(-p) if p < 1.0 else -math.inf
    return True


class YesNoGroups(Grouped):
    """Groups with yes-or-no outcomes; the parameter is ``proportions`` (G,)."""

    dtype = np.int64
    innovations = Innovations("uniform", 1)
    compiled = Compiled(_build_outcomes, _recover_outcomes, _outcome_likelihood)

    @property
    def record_levels(self) -> int:
        """The largest number of levels: of groups, or no and yes."""
        return self._n_groups

    @property
    def record_values(self) -> NDArray[np.int64]:
        """All possible records: no and yes for each group in turn, (2 G, 2)."""
        return np.indices((self._n_groups, 2), dtype=np.int64).reshape(2, -1).T.copy()

    @property
    def value_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The group of each of `record_values`, and the sizes of the groups."""
        if self.sizes is None:
            return None
        return self.record_values[:, 0].copy(), np.array(self.sizes, dtype=np.int64)

    def _read(self, theta: Theta) -> tuple[Floats]:
        return (read_parameter(theta, "proportions", (self._n_groups,)),)

    def _check(self, records: NDArray[np.int64]) -> None:
        check_levels(records, [self._n_groups, 2], ["the group", "the outcome"])


# ------------------------------------------------------------------ two proportions


@dataclass(repr=False, eq=False)
class TwoProportions(YesNoGroups):
    """Two groups of known sizes, each with its own unknown probability of a one.

        outcome in group g ~ Bernoulli(proportions_g)
        proportions_g      ~ Beta(a, b)

    Parameters
    ----------
    sizes : two ints
        The number of records in each group.
    a, b : float, default 1
        The prior of both proportions; (1, 1) is uniform.
    labels : two texts, optional
        Names of the groups. Default: "0" and "1".

    Notes
    -----
    Records are int64 of shape ``(n, 2)``: group and outcome, group 0 first. Parameter:
    ``proportions`` (2,). Derived, all () and of the second group relative to the first:
    ``difference``, ``log_ratio`` and ``log_odds_ratio``.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import TwoProportions
    >>> model = TwoProportions(sizes=[1, 2], labels=["control", "treated"])
    >>> model.build_records({"proportions": [0.3, 0.8]}, np.array([[0.5], [0.5], [0.9]]))
    array([[0, 0],
           [1, 1],
           [1, 0]])
    """

    sizes: Sequence[int] | None = None
    a: float = field(default=1.0, metadata=POSITIVE)
    b: float = field(default=1.0, metadata=POSITIVE)
    _: KW_ONLY
    labels: Sequence[str] | None = None

    number = 2
    derived = (Parameter("difference"), Parameter("log_ratio"), Parameter("log_odds_ratio"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._log_constant = 2.0 * log_dirichlet_constant(np.array([self.a, self.b]))
        self.parameters = (self._each("proportions", "unit"),)
        self.counts_prior = CountsPrior(np.array([self.b, self.a] * 2))

    @staticmethod
    def _draw(a: Any, b: Any, rng: Generator) -> Theta:
        # A beta variable can round to 0 or 1; the open interval keeps its logit finite.
        return {"proportions": np.clip(rng.beta(a, b, size=2), SMALLEST, 1.0 - SPACING)}

    def sample_prior(self, rng: Generator) -> Theta:
        return self._draw(self.a, self.b, rng)

    def log_prior(self, theta: Theta) -> float:
        total = self._log_constant
        for p in self._read(theta)[0].tolist():
            if not 0.0 < p < 1.0:
                return -math.inf
            total += (self.a - 1.0) * math.log(p) + (self.b - 1.0) * math.log1p(-p)
        return total

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        ones, sizes = self._totals(records)
        return self._draw(self.a + ones, self.b + sizes - ones, rng)

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of the proportions: the share of the second of two gammas per group."""
        return {"proportions": shares_of(logs.reshape(-1, 2, 2))[..., 1]}

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the difference and the log ratios at draws of theta."""
        p = np.clip(theta["proportions"], SMALLEST, 1.0 - SPACING)
        return {
            "difference": p[..., 1] - p[..., 0],
            "log_ratio": np.log(p[..., 1]) - np.log(p[..., 0]),
            "log_odds_ratio": logit(p[..., 1]) - logit(p[..., 0]),
        }

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given exact counts, a Beta each, and the estimates."""
        if reading.kind != "groups" or self.sizes is None:
            return None
        parts = reading.values(self.sizes)
        if parts is None:
            return None
        pairs = zip(parts, self.sizes, strict=True)
        found = [estimates.zeros_and_ones(part, m) for part, m in pairs]
        if any(part is None for part in found):
            return None
        zeros, ones = np.transpose(np.array(found))
        a, b = self.a + ones, self.b + zeros
        return ClosedForm(
            {"proportions": estimates.shares(np.array(found))[:, 1]},
            lambda draws, rng: {"proportions": rng.beta(a, b, size=(draws, 2))},
        )


# ------------------------------------------------------------------ stratified proportions


@njit(cache=True, nogil=True)
def _log_level(x, g, location, spread, data):
    """Return the log density of x = h_g given mu and tau, up to a constant.

    ``data`` holds the numbers of ones, (G,), of records, (G,), and (m_0, s_0^-2, s^-2).
    """
    z = (x - location) / spread
    return data[0][g] * x - data[1][g] * softplus(x) - 0.5 * z * z


@njit(cache=True, nogil=True)
def _log_spread(x, location, levels, data):
    """Return the log density of x = log tau given mu and h; its prior is that of tau, times tau."""
    squared = math.exp(2.0 * x)
    result = x - 0.5 * data[2][2] * squared
    for g in range(levels.shape[0]):
        result -= x + 0.5 * (levels[g] - location) ** 2 / squared
    return result


@njit(cache=True, nogil=True)
def _add_likelihood(result, location, spread, deviations, data):
    """Add the log likelihood at h_g = mu + tau z_g to ``result``."""
    ones, sizes, _ = data
    for g in range(sizes.shape[0]):
        level = location + spread * deviations[g]
        result += ones[g] * level - sizes[g] * softplus(level)
    return result


@njit(cache=True, nogil=True)
def _log_location_given_z(x, spread, deviations, data):
    """Return the log density of x = mu given tau and the z_g."""
    hyper = data[2]
    prior = -0.5 * hyper[1] * (x - hyper[0]) ** 2
    return _add_likelihood(prior, x, spread, deviations, data)


@njit(cache=True, nogil=True)
def _log_spread_given_z(x, location, deviations, data):
    """Return the log density of x = log tau given mu and the z_g."""
    prior = x - 0.5 * data[2][2] * math.exp(2.0 * x)
    return _add_likelihood(prior, location, math.exp(x), deviations, data)


@njit(cache=True, nogil=True)
def _scan(location, spread, levels, data, uniforms, normal):
    """Do the scan of the module docstring, the h_g in place; ``uniforms`` is (G + 3, POOL)."""
    _, sizes, hyper = data
    n_groups = sizes.shape[0]
    for g in range(n_groups):
        width = 3.0 / math.sqrt(0.25 * sizes[g] + 1.0 / spread**2)
        rest = (g, location, spread, data)
        levels[g] = slice_step(_log_level, levels[g], rest, width, of_array, uniforms[g])
    precision = hyper[1] + n_groups / spread**2
    centre = hyper[0] * hyper[1] + levels.sum() / spread**2
    location = centre / precision + normal / math.sqrt(precision)
    more, log_spread = uniforms[n_groups:], math.log(spread)
    at = (location, levels, data)
    log_spread = slice_step(_log_spread, log_spread, at, 1.0, of_array, more[0])
    spread = math.exp(log_spread)
    deviations = (levels - location) / spread
    width = 3.0 / math.sqrt(0.25 * sizes.sum() + hyper[1])
    at_z = (spread, deviations, data)
    location = slice_step(_log_location_given_z, location, at_z, width, of_array, more[1])
    at_z = (location, deviations, data)
    log_spread = slice_step(_log_spread_given_z, log_spread, at_z, 1.0, of_array, more[2])
    spread = math.exp(log_spread)
    for g in range(n_groups):
        levels[g] = location + spread * deviations[g]
    return location, spread


@dataclass(repr=False, eq=False)
class StratifiedProportions(Pooled, YesNoGroups):
    """Groups of known sizes with yes-or-no outcomes, whose log odds share a normal prior.

        outcome in group g   ~ Bernoulli(proportions_g)
        logit(proportions_g) ~ N(location, spread^2)
        location             ~ N(location_mean, location_sd^2)
        spread               ~ half-normal(spread_scale)

    Parameters
    ----------
    sizes : two or more ints
        The number of records in each group.
    location_mean, location_sd : float, default 0 and 1.5
        The prior of the centre of the groups' log odds.
    spread_scale : float, default 1
        The prior scale of the standard deviation between groups, in log odds.
    labels : texts, optional
        Names of the groups. Default: "0", "1", ...

    Notes
    -----
    Records are int64 of shape ``(n, 2)``: group and outcome, group 0 first. Parameters:
    ``location`` (), ``spread`` () and ``proportions`` (G,). Derived: ``overall`` (), the mean of
    the proportions, weighted by group size.

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
        shared = {"location": np.array(location), "spread": np.array(spread)}
        proportions = 1.0 / (1.0 + np.exp(-levels))
        return shared | {"proportions": np.clip(proportions, SMALLEST, 1.0 - SPACING)}

    def sample_prior(self, rng: Generator) -> Theta:
        return self._theta(*self._draw_shared(rng))

    def log_prior(self, theta: Theta) -> float:
        (p,) = self._read(theta)
        if not ((p > 0.0) & (p < 1.0)).all():
            return -math.inf
        log_yes, log_no = np.log(p), np.log1p(-p)
        # dh/dp = 1 / (p (1 - p))
        return float(self._log_shared(theta, log_yes - log_no) - (log_yes + log_no).sum())

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        return self._scan(theta, *self._totals(records), rng)

    def update_from_counts(self, theta: Theta, counts: NDArray[np.int64], rng: Generator) -> Theta:
        """Return a new theta, by the same scan, from the counts of zeros and ones per group."""
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


MODELS.add(TwoProportions)
MODELS.add(StratifiedProportions)
