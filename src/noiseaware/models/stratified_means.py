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

The stretch
-----------
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
That of `normal_groups.py`: the outcome is m_g + sqrt(v) u, u standard normal. The transport move
proposes in the coordinates of `noiseaware.models.hierarchical.NonCentred`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.models import normal_groups as shared
from noiseaware.models.arguments import (
    arguments_repr,
    positive_number,
    read_floats,
    read_parameter,
    real_number,
)
from noiseaware.models.conjugate import log_inverse_gamma
from noiseaware.models.groups import Groups, stacked
from noiseaware.models.hierarchical import (
    POOL,
    SPREAD_OF_MEANS,
    NonCentred,
    draw_shared_prior,
    log_shared_prior,
    slice_step,
    weigh,
)
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]


@njit(cache=True, nogil=True)
def _scan(records, spread, variance, totals, sizes, hyper, scale, uniforms, normals, gamma, out):
    """Fill `out` with mu, tau, m_1, ..., m_G and v: the scan of the module docstring."""
    n_groups = sizes.shape[0]
    means = out[2 : 2 + n_groups]
    log_spread = slice_step(
        SPREAD_OF_MEANS,
        math.log(spread),
        1.0,
        0,
        0.0,
        0.0,
        variance,
        means,
        totals,
        sizes,
        hyper,
        uniforms,
    )
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
    shared.sum_squares(records, means, squares)
    out[2 + n_groups] = (scale + 0.5 * squares.sum()) / gamma


@njit(cache=True, nogil=True)
def _stretch(records, means, totals, sizes, factor, stretched):
    """Write y_g + factor (x_i - y_g); return sum_g n_g (y_g - m_g)^2."""
    for i in range(records.shape[0]):
        group = int(records[i, 0])
        centre = totals[group] / sizes[group]
        stretched[i, 0] = records[i, 0]
        stretched[i, 1] = centre + factor * (records[i, 1] - centre)
    between = 0.0
    for g in range(sizes.shape[0]):
        if sizes[g] > 0.0:
            between += sizes[g] * (totals[g] / sizes[g] - means[g]) ** 2
    return between


class StratifiedMeans:
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

    uses_index = True
    column_names = ("group", "outcome")
    check_records = shared.check_records
    sample_records = shared.sample_records
    log_likelihood = shared.log_likelihood
    build_records = shared.build_records
    recover_innovations = shared.recover_innovations

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        location_mean: float = 0.0,
        location_sd: float = 10.0,
        spread_scale: float = 2.0,
        variance_shape: float = 3.0,
        variance_scale: float = 2.0,
        labels: Sequence[str] | None = None,
    ) -> None:
        self._groups = Groups(sizes, labels)
        self.sizes, self.labels = self._groups.sizes, self._groups.labels
        self.n_records = self._groups.n_records
        self.location_mean = real_number("location_mean", location_mean)
        self.location_sd = positive_number("location_sd", location_sd)
        self.spread_scale = positive_number("spread_scale", spread_scale)
        self.variance_shape = positive_number("variance_shape", variance_shape)
        self.variance_scale = positive_number("variance_scale", variance_scale)
        self._hyper = np.array([self.location_mean, self.location_sd**-2, self.spread_scale**-2])
        n_groups = len(self.sizes)
        self.parameters: tuple[Parameter, ...] = (
            Parameter("location"),
            Parameter("spread", (), "positive"),
            Parameter("means", (n_groups,), "real", ("group",), self._groups.coords),
            Parameter("variance", (), "positive"),
        )
        self.derived = (Parameter("overall"),)
        self.coordinates = NonCentred("means", n_groups)
        self.innovations = Innovations("normal", 1)

    def _read(self, theta: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean and the variance of each group."""
        n_groups = len(self.sizes)
        means = read_parameter(theta, "means", (n_groups,))
        return means, np.full(n_groups, float(theta["variance"]))

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        location, spread, means = draw_shared_prior(len(self.sizes), self._hyper, rng)
        variance = self.variance_scale / rng.standard_gamma(self.variance_shape)
        return {
            "location": np.array(location),
            "spread": np.array(spread),
            "means": means,
            "variance": np.array(variance),
        }

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised."""
        means = read_parameter(theta, "means", (len(self.sizes),))
        return log_shared_prior(
            float(theta["location"]), float(theta["spread"]), means, self._hyper
        ) + log_inverse_gamma(float(theta["variance"]), self.variance_shape, self.variance_scale)

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta by one scan of p(theta | x); see the module docstring."""
        records = read_floats("records", records, 2)
        n_groups = len(self.sizes)
        totals, sizes = shared.sums(self, records)
        out = np.empty(3 + n_groups)
        _scan(
            records,
            float(theta["spread"]),
            float(theta["variance"]),
            totals,
            sizes,
            self._hyper,
            self.variance_scale,
            rng.random(POOL),
            rng.standard_normal(1 + n_groups),
            rng.standard_gamma(self.variance_shape + 0.5 * len(records)),
            out,
        )
        return {
            "location": np.array(out[0]),
            "spread": np.array(out[1]),
            "means": out[2 : 2 + n_groups],
            "variance": np.array(out[-1]),
        }

    def scale_records(
        self, theta: Mapping[str, Any], records: ArrayLike, amount: float
    ) -> tuple[Theta, NDArray[np.float64], float]:
        """Push the records away from their groups' means; see the module docstring.

        Returns theta', the records, and the log ratio of the densities with the Jacobian.
        """
        records = read_floats("records", records, 2)
        totals, sizes = shared.sums(self, records)
        means = read_parameter(theta, "means", (len(self.sizes),))
        before = float(theta["variance"])
        after = before * math.exp(amount)
        stretched = np.empty_like(records)
        between = _stretch(records, means, totals, sizes, math.exp(0.5 * amount), stretched)
        prior = (self.variance_shape, self.variance_scale)
        log_ratio = (
            log_inverse_gamma(after, *prior)
            - log_inverse_gamma(before, *prior)
            + amount * (1.0 - 0.5 * np.count_nonzero(sizes))
            - 0.5 * between * (1.0 / after - 1.0 / before)
        )
        new = {name: np.array(value, dtype=np.float64) for name, value in theta.items()}
        new["variance"] = np.array(after)
        return new, stretched, log_ratio

    def derive(self, theta: dict[str, Any]) -> dict[str, NDArray[np.float64]]:
        """Return the weighted mean of draws of theta."""
        return {"overall": stacked(theta, "means") @ (np.array(self.sizes) / self.n_records)}

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "StratifiedMeans",
            "sizes": list(self.sizes),
            "location_mean": self.location_mean,
            "location_sd": self.location_sd,
            "spread_scale": self.spread_scale,
            "variance_shape": self.variance_shape,
            "variance_scale": self.variance_scale,
            "labels": self._groups.given_labels,
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
