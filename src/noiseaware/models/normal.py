"""Normal records with an unknown mean, an unknown variance, or both.

The model
---------
A record is a float.

    x_i ~ N(mu, v)
    mu ~ N(m_0, s_0^2)                          m_0 = mean_mean, s_0 = mean_sd
    v ~ InverseGamma(a, b)                      density prop. to v^(-a-1) exp(-b/v)

with mu and v independent a priori; either may be known instead.

The full conditionals
---------------------
The likelihood is prop. to v^(-n/2) exp(-sum_i (x_i - mu)^2 / (2 v)), so

* mu | v, x: completing the square, N(w (m_0/s_0^2 + sum_i x_i / v), w) with
  1/w = 1/s_0^2 + n/v;
* v | mu, x: InverseGamma(a + n/2, b + sum_i (x_i - mu)^2 / 2).

`Normal.update_parameters` draws mu, then v, each if unknown: an exact draw when one is known, a
Gibbs scan of p(mu, v | x) when both are not.

The construction x = F(u; theta)
--------------------------------
x = mu + sqrt(v) u with u standard normal, inverted by u = (x - mu) / sqrt(v).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.contract import ClosedForm, Reading, Theta
from noiseaware.densities import log_inverse_gamma
from noiseaware.models.arguments import (
    not_both_known,
    positive_number,
    prior_shape,
    read_finite,
    read_numbers,
    real_number,
)
from noiseaware.models.ready import Compiled, CompiledModel
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS

_LOG_2PI = math.log(2.0 * math.pi)


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
    return True


@njit(cache=True, nogil=True)
def _log_likelihood(mean, variance, records, out):
    """Write log N(x_i; mu, v)."""
    if not variance > 0.0:
        out[:] = -math.inf
        return True
    constant = -0.5 * (_LOG_2PI + math.log(variance))
    half_precision = 0.5 / variance
    for i in range(records.shape[0]):
        difference = records[i] - mean
        out[i] = constant - half_precision * difference * difference
    return True


@njit(cache=True, nogil=True)
def _draw_mean(records, variance, prior_mean, prior_precision, z):
    """Draw mu | v, x with the standard normal z."""
    total = 0.0
    for i in range(records.shape[0]):
        total += records[i]
    precision = prior_precision + records.shape[0] / variance
    return (prior_mean * prior_precision + total / variance) / precision + z / math.sqrt(precision)


@njit(cache=True, nogil=True)
def _sum_squares(records, mean):
    """Return sum_i (x_i - mu)^2."""
    total = 0.0
    for i in range(records.shape[0]):
        difference = records[i] - mean
        total += difference * difference
    return total


class Normal(CompiledModel):
    """Independent normal records; the mean, the variance or both unknown.

    Parameters
    ----------
    mean : float, optional
        mu if it is known. None: unknown, with prior N(mean_mean, mean_sd^2).
    variance : float, optional
        v if it is known. None: unknown, with an inverse-gamma prior.
    mean_mean, mean_sd : float
        Mean and standard deviation of the prior of mu.
    variance_shape, variance_scale : float
        a and b of InverseGamma(a, b); the prior mean of v is b / (a - 1).

    Notes
    -----
    Records are float64 of shape ``(n,)``. Parameters, those that are unknown: ``mean`` () and
    ``variance`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Normal
    >>> model = Normal(variance=4.0)
    >>> model.build_records({"mean": 1.0}, np.array([[0.0], [1.0]]))
    array([1., 3.])
    """

    innovations = Innovations("normal", 1)
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def __init__(
        self,
        mean: float | None = None,
        variance: float | None = None,
        *,
        mean_mean: float = 0.0,
        mean_sd: float = 10.0,
        variance_shape: float = 3.0,
        variance_scale: float = 2.0,
    ) -> None:
        not_both_known(mean=mean, variance=variance)
        self.mean = None if mean is None else real_number("mean", mean)
        self.variance = None if variance is None else positive_number("variance", variance)
        self.mean_mean = real_number("mean_mean", mean_mean)
        self.mean_sd = positive_number("mean_sd", mean_sd)
        self.variance_shape = prior_shape("variance_shape", variance_shape)
        self.variance_scale = positive_number("variance_scale", variance_scale)
        self._mean_precision = self.mean_sd**-2
        both = (Parameter("mean", (), "real"), Parameter("variance", (), "positive"))
        self.parameters = tuple(p for p in both if getattr(self, p.name) is None)

    def _read(self, theta: Theta) -> tuple[float, float]:
        """Return mu and v, each from theta or from what is known."""
        mean = float(theta["mean"]) if self.mean is None else self.mean
        variance = float(theta["variance"]) if self.variance is None else self.variance
        return mean, variance

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        read_finite(records, None)

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        theta: Theta = {}
        if self.mean is None:
            theta["mean"] = np.array(self.mean_mean + self.mean_sd * rng.standard_normal())
        if self.variance is None:
            gamma = rng.standard_gamma(self.variance_shape)
            theta["variance"] = np.array(self.variance_scale / gamma)
        return theta

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        total = 0.0
        if self.mean is None:
            z = (float(theta["mean"]) - self.mean_mean) / self.mean_sd
            total -= 0.5 * (z * z + _LOG_2PI) + math.log(self.mean_sd)
        if self.variance is None:
            total += log_inverse_gamma(
                float(theta["variance"]), self.variance_shape, self.variance_scale
            )
        return total

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta by one Gibbs scan of p(theta | x); see the module docstring."""
        records = read_numbers(records)
        new: Theta = {}
        mean = self.mean
        if mean is None:
            variance = float(theta["variance"]) if self.variance is None else self.variance
            mean = _draw_mean(
                records, variance, self.mean_mean, self._mean_precision, rng.standard_normal()
            )
            new["mean"] = np.array(mean)
        if self.variance is None:
            gamma = rng.standard_gamma(self.variance_shape + 0.5 * len(records))
            new["variance"] = np.array(
                (self.variance_scale + 0.5 * _sum_squares(records, mean)) / gamma
            )
        return new

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the mean given an exact sum, if the variance is known, and its estimate."""
        if reading.kind != "sum" or self.mean is not None or self.variance is None:
            return None
        variance = 1.0 / (self.mean_sd**-2 + n / self.variance)
        mean = variance * (self.mean_mean / self.mean_sd**2 + reading.values / self.variance)
        return ClosedForm(
            {"mean": np.array(reading.values / n)},
            lambda draws, rng: {"mean": mean + math.sqrt(variance) * rng.standard_normal(draws)},
        )


MODELS.add(Normal)
