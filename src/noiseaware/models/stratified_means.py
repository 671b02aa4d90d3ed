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
(x_i - y_g)^2 in group g and K groups having records, p(m | mu, tau) f(x | theta) is

    v^(-(n-K)/2) exp(-sum_g Q_g / (2 v))  prod_g N(y_g; mu, tau^2 + v/n_g)  prod_g N(m_g; a_g, c_g)

up to a constant, a_g and c_g being the mean and the variance of m_g given the rest, above. The m_g
would hold v back, the more the more groups there are. So they go with it,

    m_g' = a_g' + sqrt(c_g' / c_g) (m_g - a_g),

by which the last product times |dm'/dm| stays what it is. Q_g'/v' = Q_g/v, and the map multiplies v
by exp(s) and the n - K dimensions of the records around their groups' means by exp(s/2) each. So

    log [p(theta') f(x'|theta') |det| / (p(theta) f(x|theta))]
        = log p(v') - log p(v) + s
          + sum_g [log N(y_g; mu, tau^2 + v'/n_g) - log N(y_g; mu, tau^2 + v/n_g)].

A group without records has a_g = mu and c_g = tau^2, stays, and adds nothing.

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
def _scale(records, totals, sizes, factor, scaled):
    """Write y_g + factor (x_i - y_g)."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        centre = totals[group] / sizes[group]
        scaled[i, 0] = records[i, 0]
        scaled[i, 1] = centre + factor * (records[i, 1] - centre)


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
        before = float(theta["variance"])
        after = before * math.exp(amount)
        scaled = np.empty_like(records)
        _scale(records, totals, sizes, math.exp(0.5 * amount), scaled)
        location, spread = float(theta["location"]), float(theta["spread"])

        def given(variance: float) -> tuple[Floats, Floats, float]:
            """Return all a_g and sqrt(c_g), and sum_g log N(y_g; mu, tau^2 + v/n_g)."""
            within = variance + spread**2 * sizes
            off = totals - location * sizes
            centres = location + spread**2 * off / within
            sds = spread * np.sqrt(variance / within)
            some = sizes > 0
            fits = np.log(within[some]) + off[some] ** 2 / (sizes * within)[some]
            return centres, sds, -0.5 * float(fits.sum())

        (centres, sds, fit), (new_centres, new_sds, new_fit) = given(before), given(after)
        means, _ = self._read(theta)
        prior = (self.variance_shape, self.variance_scale)
        log_ratio = log_inverse_gamma(after, *prior) - log_inverse_gamma(before, *prior)
        new = {name: np.array(value, dtype=np.float64) for name, value in theta.items()}
        new["variance"] = np.array(after)
        new["means"] = new_centres + new_sds / sds * (means - centres)
        return new, scaled, log_ratio + amount + new_fit - fit


MODELS.add(StratifiedMeans)
