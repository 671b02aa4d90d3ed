"""Counts with an unknown rate, or with an unknown mean and dispersion.

A record is an integer from 0. u is uniform on [0, 1) and x is the inverse CDF at u, counted from
above; given x, u is uniform in the interval of x (`count_cdf.py`).

Poisson
-------
    x_i ~ Poisson(lambda),      P(x_i = x) = lambda^x exp(-lambda) / x!
    lambda ~ Gamma(a, b)        a = rate_shape, b = rate_rate

The likelihood of n records with sum s is prop. to lambda^s exp(-n lambda), so
lambda | x ~ Gamma(a + s, b + n): `Poisson.update_parameters` is an exact draw.

Negative binomial
-----------------
With mean m, dispersion d and r = 1/d,

    P(x_i = x) = Gamma(x + r) / (Gamma(r) x!) (m / (m + r))^x (r / (m + r))^r,
    E(x_i) = m,      Var(x_i) = m + d m^2.

This is a Poisson count whose rate is gamma distributed with mean m and squared coefficient of
variation d; d -> 0 is the Poisson distribution. (r is called size in R and phi in Stan.)

    m ~ Gamma(a_m, b_m),      d ~ Gamma(a_d, b_d)        shape and rate, independent

Mean and dispersion mix well because their Fisher information is diagonal, whereas shape and
probability are strongly correlated.

**The kernel.** With n records, their sum s, and w_x of them equal to x, the posterior density in
(log m, log d) is, up to a constant,

    sum_x w_x [log Gamma(x + r) - log Gamma(r)] + s log(m / (m + r)) - n r log(1 + m / r)
        + a_m log m - b_m m + a_d log d - b_d d,

where the last line is the priors with the Jacobian m d of the logarithms. `update_parameters` draws
log m and then log d, each by a slice step. The slice width for log m depends on d and the records;
for log d it is 1. Only the sum over w_x is expensive, and the draw of log m does not need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import count_cdf, estimates
from noiseaware.models.arguments import POSITIVE
from noiseaware.models.conjugate import SMALLEST, gamma_bound
from noiseaware.models.ready import Compiled, Numbers
from noiseaware.models.slice_sampling import slice_in_pool
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


class CountModel(Numbers):
    """Counts with a mean m and a size r (r = inf: Poisson), which `_read` returns."""

    dtype = np.int64
    innovations = Innovations("uniform", 1)
    compiled = Compiled(count_cdf.build_counts, count_cdf.recover_counts, count_cdf.log_masses)
    _sizes, _names = [count_cdf.LARGEST_COUNT + 1], ["the count"]

    def _total(self, records: NDArray[np.int64]) -> float:
        found = count_cdf.sum_counts(records)
        if found < 0.0:
            self.check_records(records)
        return found


@dataclass(repr=False, eq=False)
class Poisson(CountModel):
    """Independent counts with an unknown rate.

        x_i  ~ Poisson(rate)
        rate ~ Gamma(rate_shape, rate_rate)

    Parameters
    ----------
    rate_shape, rate_rate : float, default 1 and 0.1
        The prior mean is shape / rate; the default is exponential with mean 10.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameter: ``rate`` (), the mean count.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Poisson
    >>> model = Poisson(rate_shape=2.0, rate_rate=1.5)
    >>> model.build_records({"rate": 3.0}, np.array([[0.9], [0.5], [0.01]]))
    array([1, 3, 8])
    """

    rate_shape: float = field(default=1.0, metadata=POSITIVE)
    rate_rate: float = field(default=0.1, metadata=POSITIVE)

    parameters = (Parameter("rate", (), "positive"),)
    _priors: ClassVar = {"rate": "gamma"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._largest = {"rate": count_cdf.largest_mean("rate", self.rate_shape, self.rate_rate)}

    def _read(self, theta: Theta) -> tuple[float, float]:
        return float(theta["rate"]), math.inf

    def _read_possible(self, theta: Theta) -> tuple[float, float]:
        return min(float(theta["rate"]), self._largest["rate"]), math.inf

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        return {"rate": self._draw_number("rate", rng, self._total(records), len(records))}

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given an exact sum S, Gamma(a + S, b + n), and the estimate."""
        if reading.kind != "sum":
            return None
        total = max(reading.values, 0.0)
        return self._given(total, n, max(total, estimates.TINY) / n)


# ------------------------------------------------------------------ negative binomial

_FARTHEST = 690.0
"""Largest |log m| and |log d|, so that exp cannot overflow; prior mass beyond is negligible."""

_POOL = 48
"""Uniforms for a scan, which needs about 15 and rarely asks for more."""


def tabulate(records: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the distinct counts and how many records have each.

    If the counts are so spread out that few are equal, each record is listed separately.
    """
    if records.max(initial=0) > 4 * len(records):
        return records.astype(np.float64), np.ones(len(records))
    table = np.bincount(records)
    values = np.flatnonzero(table)
    return values.astype(np.float64), table[values].astype(np.float64)


class Given(NamedTuple):
    """What p(theta | x) depends on: the records and the priors."""

    n: int
    total: float
    """s, the sum of the records."""
    values: Floats
    """The distinct counts x."""
    weights: Floats
    """w_x of each."""
    mean_shape: float
    mean_rate: float
    dispersion_shape: float
    dispersion_rate: float


@njit(cache=True, nogil=True)
def _log_mean_density(log_mean, log_dispersion, given):
    """Return the log density in log m, up to a constant."""
    if not abs(log_mean) < _FARTHEST:
        return -math.inf
    mean, size = math.exp(log_mean), 1.0 / math.exp(log_dispersion)
    result = given.total * (log_mean - math.log(mean + size))
    result -= given.n * size * math.log1p(mean / size)
    return result + given.mean_shape * log_mean - given.mean_rate * mean


@njit(cache=True, nogil=True)
def _log_dispersion_density(log_dispersion, log_mean, given):
    """Return the log density in log d, up to a constant."""
    if not abs(log_dispersion) < _FARTHEST:
        return -math.inf
    mean, dispersion = math.exp(log_mean), math.exp(log_dispersion)
    size = 1.0 / dispersion
    result = given.total * (log_mean - math.log(mean + size))
    result -= given.n * size * math.log1p(mean / size)
    for j in range(given.values.shape[0]):
        result += given.weights[j] * count_cdf.log_rising(given.values[j], size)
    return result + given.dispersion_shape * log_dispersion - given.dispersion_rate * dispersion


@njit(cache=True, nogil=True)
def _scan(log_mean, log_dispersion, given, uniforms):
    """Draw log m given log d, then log d given log m; return both and the place in the pool."""
    # About 3 posterior standard deviations of log m, whose information is n / (1/m + d) + a_m.
    typical = (given.total + given.mean_shape) / (given.n + given.mean_rate)
    information = given.n / (1.0 / typical + math.exp(log_dispersion)) + given.mean_shape
    width, rest = 3.0 / math.sqrt(information), (log_dispersion, given)
    log_mean, used = slice_in_pool(_log_mean_density, log_mean, rest, width, uniforms, 0)
    if used >= 0:
        log_dispersion, used = slice_in_pool(
            _log_dispersion_density, log_dispersion, (log_mean, given), 1.0, uniforms, used
        )
    return log_mean, log_dispersion, used


@dataclass(repr=False, eq=False)
class NegativeBinomial(CountModel):
    """Independent counts with an unknown mean and dispersion.

        x_i        ~ NegativeBinomial,     E(x_i) = mean,  Var(x_i) = mean + dispersion mean^2
        mean       ~ Gamma(mean_shape, mean_rate)
        dispersion ~ Gamma(dispersion_shape, dispersion_rate)

    Dispersion 0 is the Poisson distribution.

    Parameters
    ----------
    mean_shape, mean_rate : float, default 1 and 0.1
        The prior mean is shape / rate; the default is exponential with mean 10.
    dispersion_shape, dispersion_rate : float, default 1 and 1
        The default is exponential with mean 1, whose mode is the Poisson distribution.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameters: ``mean`` () and ``dispersion`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import NegativeBinomial
    >>> model = NegativeBinomial(mean_rate=0.2)
    >>> theta = {"mean": 3.0, "dispersion": 0.5}
    >>> model.build_records(theta, np.array([[0.9], [0.5], [0.01]]))
    array([ 0,  2, 12])
    """

    mean_shape: float = field(default=1.0, metadata=POSITIVE)
    mean_rate: float = field(default=0.1, metadata=POSITIVE)
    dispersion_shape: float = field(default=1.0, metadata=POSITIVE)
    dispersion_rate: float = field(default=1.0, metadata=POSITIVE)

    _priors: ClassVar = {"mean": "gamma", "dispersion": "gamma"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._largest = {
            "mean": count_cdf.largest_mean("mean", self.mean_shape, self.mean_rate),
            "dispersion": gamma_bound(self.dispersion_shape, self.dispersion_rate),
        }
        self.parameters = tuple(Parameter(name, (), "positive") for name in self._largest)

    def _read(self, theta: Theta) -> tuple[float, float]:
        """Return the mean and the size r = 1 / dispersion; NaN if the dispersion is negative."""
        dispersion = float(theta["dispersion"])
        size = 1.0 / max(dispersion, SMALLEST) if dispersion >= 0.0 else math.nan
        return float(theta["mean"]), size

    def _read_possible(self, theta: Theta) -> tuple[float, float]:
        mean, size = self._read(theta)
        return min(mean, self._largest["mean"]), max(size, 1.0 / self._largest["dispersion"])

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        total = self._total(records)
        priors = (*self._prior_arguments["mean"], *self._prior_arguments["dispersion"])
        given = Given(len(records), total, *tabulate(records), *priors)
        start = np.log([float(theta["mean"]), float(theta["dispersion"])])
        start = np.clip(start, 1e-6 - _FARTHEST, _FARTHEST - 1e-6)
        pool, used = np.empty(0), -1
        while used < 0:
            pool = np.concatenate((pool, rng.random(_POOL)))
            log_mean, log_dispersion, used = _scan(start[0], start[1], given, pool)
        mean, dispersion = math.exp(log_mean), math.exp(log_dispersion)
        return {"mean": np.array(mean), "dispersion": np.array(dispersion)}


MODELS.add(Poisson)
MODELS.add(NegativeBinomial)
