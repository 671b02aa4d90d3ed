"""Groups with normal outcomes whose means share a prior: partial pooling of means.

The model
---------
A record is a group, 0, ..., G - 1, and an outcome, a number. The sizes of the groups are known.

    outcome in group g ~ N(m_g, v)
    m_g ~ N(mu, tau^2)
    mu ~ N(m_0, s_0^2)                          m_0 = location_mean, s_0 = location_sd
    tau ~ HalfNormal(s)                         s = spread_scale
    v ~ InverseGamma(a, b)                      density prop. to v^(-a-1) exp(-b/v)

The full conditionals
---------------------
With n_g records of mean y_g in group g, given v,

* tau | v, x: with all m_g integrated out, y_g ~ N(mu, tau^2 + v/n_g). With weights
  w_g = 1/(tau^2 + v/n_g), P = s_0^-2 + sum_g w_g and M = (m_0 s_0^-2 + sum_g w_g y_g) / P, mu is
  integrated out as well, and

      p(tau | v, x)  prop. to  p(tau) P^(-1/2) prod_g w_g^(1/2)
                               exp(-[s_0^-2 (M - m_0)^2 + sum_g w_g (y_g - M)^2] / 2);

* mu | tau, v, x ~ N(M, 1/P);
* m_g | mu, tau, v, x ~ N(c (mu/tau^2 + n_g y_g/v), c), 1/c = 1/tau^2 + n_g/v, independently;
* v | m, x ~ InverseGamma(a + n/2, b + sum_i (x_i - m_{g(i)})^2 / 2).

`StratifiedMeans.update_parameters` makes one slice step for log tau and draws the rest exactly, in
this order. The first three lines are one draw of (tau, mu, m) given v and x, up to the slice step,
so that the funnel of m and tau is never walked along.

Scaling the records
-------------------
A noisy sum knows y_g and not v. `StratifiedMeans.scale_records` keeps every y_g and pushes the
records away from it, x_i' = y_g + exp(s/2) (x_i - y_g), v' = exp(s) v. With Q_g the sum of
(x_i - y_g)^2 in group g, the likelihood is prop. to

    v^(-n/2) exp(-[sum_g n_g (y_g - m_g)^2 + sum_g Q_g] / (2 v)),

and Q_g'/v' = Q_g/v. The map multiplies v by exp(s), and the n - K dimensions of the records around
their groups' means, K groups having records, by exp(s/2) each. So

    log [p(theta') f(x'|theta') |det| / (p(theta) f(x|theta))]
        = log p(v') - log p(v) + s (1 - K/2) - (1/v' - 1/v) sum_g n_g (y_g - m_g)^2 / 2.

The construction x = F(u; theta)
--------------------------------
That of `grouped.py`: the outcome is m_g + sqrt(v) u, u standard normal. The transport move
proposes in the coordinates of `noiseaware.models.hierarchical.NonCentred`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import log_inverse_gamma
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, REAL, read_parameter
from noiseaware.models.grouped import NormalGroups, sum_squares
from noiseaware.models.hierarchical import POOL, SPREAD_OF_MEANS, Pooled, slice_step, weigh
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _scan(records, spread, variance, data, scale, uniforms, normals, gamma, out):
    """Fill `out` with mu, tau, m_1, ..., m_G and v: the scan of the module docstring."""
    totals, sizes, hyper = data
    n_groups = sizes.shape[0]
    means = out[2 : 2 + n_groups]
    held = (0, 0.0, 0.0, variance, means)
    log_spread = slice_step(SPREAD_OF_MEANS, math.log(spread), 1.0, held, data, uniforms)
    squared = math.exp(2.0 * log_spread)
    precision, mean, _ = weigh(squared, variance, totals, sizes, hyper)
    location = mean + normals[0] / math.sqrt(precision)
    out[0] = location
    out[1] = math.exp(log_spread)
    for g in range(n_groups):
        precision = 1.0 / squared + sizes[g] / variance
        centre = (location / squared + totals[g] / variance) / precision
        means[g] = centre + normals[1 + g] / math.sqrt(precision)
    squares = np.zeros(n_groups)
    sum_squares(records, means, squares)
    out[2 + n_groups] = (scale + 0.5 * squares.sum()) / gamma


@njit(cache=True, nogil=True)
def _scale(records, means, totals, sizes, factor, scaled):
    """Write y_g + factor (x_i - y_g); return sum_g n_g (y_g - m_g)^2."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        centre = totals[group] / sizes[group]
        scaled[i, 0] = records[i, 0]
        scaled[i, 1] = centre + factor * (records[i, 1] - centre)
    between = 0.0
    for g in range(sizes.shape[0]):
        if sizes[g] > 0.0:
            between += sizes[g] * (totals[g] / sizes[g] - means[g]) ** 2
    return between


@dataclass(repr=False, eq=False)
class StratifiedMeans(Pooled, NormalGroups):
    """Groups of known sizes with normal outcomes, whose means share an unknown normal prior.

    Parameters
    ----------
    sizes : two or more ints
        The number of records in each group.
    location_mean, location_sd : float
        Mean and standard deviation of the prior of mu, the centre of the groups' means.
    spread_scale : float
        Scale of the half-normal prior of tau, the standard deviation of the groups' means.
    variance_shape, variance_scale : float
        a and b of the InverseGamma(a, b) prior of v, the variance within a group.
    labels : texts, optional
        Names of the groups; "0", "1", ... if not given.

    Notes
    -----
    Records are float64 of shape ``(n, 2)``: the group and the outcome, those of group 0 first.
    Parameters: ``location`` (), ``spread`` (), ``means`` (G,) and ``variance`` (). Derived:
    ``overall`` (), the mean of the groups' means weighted by their sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import StratifiedMeans
    >>> model = StratifiedMeans(sizes=[1, 1])
    >>> theta = {"location": 0.0, "spread": 1.0, "means": [1.0, 2.0], "variance": 4.0}
    >>> model.build_records(theta, np.array([[0.5], [1.0]]))
    array([[0., 2.],
           [1., 4.]])
    """

    sizes: Sequence[int] | None = None
    _: KW_ONLY
    location_mean: float = field(default=0.0, metadata=REAL)
    location_sd: float = field(default=10.0, metadata=POSITIVE)
    spread_scale: float = field(default=2.0, metadata=POSITIVE)
    variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    variance_scale: float = field(default=2.0, metadata=POSITIVE)
    labels: Sequence[str] | None = None

    group_parameter = "means"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.parameters = (*self.parameters, Parameter("variance", (), "positive"))

    def _read(self, theta: Theta) -> tuple[Floats, Floats]:
        """Return the mean and the variance of each group."""
        means = read_parameter(theta, "means", (self._n_groups,))
        return means, np.full(self._n_groups, float(theta["variance"]))

    @staticmethod
    def _theta(location: float, spread: float, means: Floats, variance: float) -> Theta:
        return {
            "location": np.array(location),
            "spread": np.array(spread),
            "means": means,
            "variance": np.array(variance),
        }

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        shared = self._draw_shared(rng)
        return self._theta(*shared, self.variance_scale / rng.standard_gamma(self.variance_shape))

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        return self._log_shared(theta, self._read(theta)[0]) + log_inverse_gamma(
            float(theta["variance"]), self.variance_shape, self.variance_scale
        )

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        out = np.empty(3 + self._n_groups)
        _scan(
            records,
            float(theta["spread"]),
            float(theta["variance"]),
            (*self._totals(records), self._hyper),
            self.variance_scale,
            rng.random(POOL),
            rng.standard_normal(1 + self._n_groups),
            rng.standard_gamma(self.variance_shape + 0.5 * len(records)),
            out,
        )
        return self._theta(out[0], out[1], out[2:-1], out[-1])

    def scale_records(
        self, theta: Theta, records: ArrayLike, amount: float
    ) -> tuple[Theta, Floats, float]:
        """Push the records away from their groups' means; see the module docstring.

        Returns theta', the records, and the log ratio of the densities with the Jacobian.
        """
        records = self._read_records(records)
        totals, sizes = self._totals(records)
        means, _ = self._read(theta)
        before = float(theta["variance"])
        after = before * math.exp(amount)
        scaled = np.empty_like(records)
        between = _scale(records, means, totals, sizes, math.exp(0.5 * amount), scaled)
        prior = (self.variance_shape, self.variance_scale)
        log_ratio = (
            log_inverse_gamma(after, *prior)
            - log_inverse_gamma(before, *prior)
            + amount * (1.0 - 0.5 * np.count_nonzero(sizes))
            - 0.5 * between * (1.0 / after - 1.0 / before)
        )
        new = {name: np.array(value, dtype=np.float64) for name, value in theta.items()}
        new["variance"] = np.array(after)
        return new, scaled, log_ratio


MODELS.add(StratifiedMeans)
