"""Normal records with an unknown mean, an unknown variance, or both.

The model
---------
A record is a float.

    x_i ~ N(mu, v)
    mu ~ N(m_0, s_0^2)                          m_0 = mean_mean, s_0 = mean_sd
    v ~ InverseGamma(a, b)                      density prop. to v^(-a-1) exp(-b/v)

with mu and v independent a priori; either may be known.

The full conditionals
---------------------
The likelihood is prop. to v^(-n/2) exp(-sum_i (x_i - mu)^2 / (2 v)), so

* mu | v, x: completing the square, N(w (m_0/s_0^2 + sum_i x_i / v), w) with
  1/w = 1/s_0^2 + n/v;
* v | mu, x: InverseGamma(a + n/2, b + sum_i (x_i - mu)^2 / 2).

`Normal.update_parameters` draws mu, then v, skipping a known one: an exact draw if one is known, a
Gibbs scan of p(mu, v | x) otherwise.

The construction x = F(u; theta)
--------------------------------
x = mu + sqrt(v) u with u standard normal; the inverse is u = (x - mu) / sqrt(v).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator

from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.maths.densities import LOG_2PI
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, REAL, not_both_known
from noiseaware.models.ready import Compiled, Numbers
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _build_records(mean, variance, innovations, records):
    """Write x_i = mu + sqrt(v) u_i; NaN if the variance is negative."""
    sd = math.sqrt(variance) if variance >= 0.0 else math.nan
    for i in range(records.shape[0]):
        records[i] = mean + sd * innovations[i, 0]


@njit(cache=True, nogil=True)
def _recover_innovations(mean, variance, records, innovations):
    """Write u_i = (x_i - mu) / sqrt(v); NaN if the variance is not positive."""
    inverse = 1.0 / math.sqrt(variance) if variance > 0.0 else math.nan
    for i in range(records.shape[0]):
        innovations[i, 0] = (records[i] - mean) * inverse


@njit(cache=True, nogil=True)
def _log_likelihood(mean, variance, records, out):
    if not variance > 0.0:
        out[:] = -math.inf
        return
    constant = -0.5 * (LOG_2PI + math.log(variance))
    half_precision = 0.5 / variance
    for i in range(records.shape[0]):
        difference = records[i] - mean
        out[i] = constant - half_precision * difference * difference


@njit(cache=True, nogil=True)
def _draw_mean(records, variance, prior_mean, prior_precision, z):
    """Draw mu | v, x, using the standard normal z."""
    precision = prior_precision + records.shape[0] / variance
    weighted = prior_mean * prior_precision + records.sum() / variance
    return weighted / precision + z / math.sqrt(precision)


@njit(cache=True, nogil=True)
def _sum_squares(records, mean):
    total = 0.0
    for i in range(records.shape[0]):
        difference = records[i] - mean
        total += difference * difference
    return total


@dataclass(repr=False, eq=False)
class Normal(Numbers):
    """Independent normal records with unknown mean, unknown variance, or both.

        x_i      ~ N(mean, variance)
        mean     ~ N(mean_mean, mean_sd^2)
        variance ~ InverseGamma(variance_shape, variance_scale)

    The defaults suit records within a few tens of units of 0 that vary by about one unit.

    Parameters
    ----------
    mean : float, optional
        The mean, if known. Default: unknown.
    variance : float, optional
        The variance, if known. Default: unknown.
    mean_mean, mean_sd : float, default 0 and 10
        Prior mean and standard deviation of the mean.
    variance_shape, variance_scale : float, default 3 and 2
        The prior mean of the variance is scale / (shape - 1).

    Notes
    -----
    Records are float64 of shape ``(n,)``. Parameters, if unknown: ``mean`` () and ``variance`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Normal
    >>> model = Normal(variance=4.0)
    >>> model.build_records({"mean": 1.0}, np.array([[0.0], [1.0]]))
    array([1., 3.])
    """

    mean: float | None = field(default=None, metadata=REAL)
    variance: float | None = field(default=None, metadata=POSITIVE)
    _: KW_ONLY
    mean_mean: float = field(default=0.0, metadata=REAL)
    mean_sd: float = field(default=10.0, metadata=POSITIVE)
    variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    variance_scale: float = field(default=2.0, metadata=POSITIVE)

    _priors: ClassVar = {"mean": "normal", "variance": "inverse gamma"}
    innovations = Innovations("normal", 1)
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def __post_init__(self) -> None:
        not_both_known(mean=self.mean, variance=self.variance)
        super().__post_init__()
        self.parameters = self._unknown(Parameter("mean"), Parameter("variance", (), "positive"))

    def _read(self, theta: Theta) -> tuple[float, float]:
        return self._number(theta, "mean"), self._number(theta, "variance")

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        new: Theta = {}
        mean = self.mean
        if mean is None:
            variance = self._number(theta, "variance")
            prior = (self.mean_mean, self.mean_sd**-2)
            mean = _draw_mean(records, variance, *prior, rng.standard_normal())
            new["mean"] = np.array(mean)
        if self.variance is None:
            squares = _sum_squares(records, mean)
            new["variance"] = self._draw_number("variance", rng, 0.5 * len(records), 0.5 * squares)
        return new

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior of the mean, and its estimate, given an exact sum and variance."""
        if reading.kind != "sum" or self.mean is not None or self.variance is None:
            return None
        variance = 1.0 / (self.mean_sd**-2 + n / self.variance)
        mean = variance * (self.mean_mean / self.mean_sd**2 + reading.values / self.variance)
        return ClosedForm(
            {"mean": np.array(reading.values / n)},
            lambda draws, rng: {"mean": mean + math.sqrt(variance) * rng.standard_normal(draws)},
        )


MODELS.add(Normal)
