"""Counts that vary more than Poisson counts do: unknown mean and dispersion.

The model
---------
A record is a count, an integer from 0. With mean m, dispersion d and r = 1/d,

    P(x_i = x) = Gamma(x + r) / (Gamma(r) x!) (m / (m + r))^x (r / (m + r))^r,
    E(x_i) = m,      Var(x_i) = m + d m^2:

a Poisson count whose rate is itself gamma distributed, with mean m and squared coefficient of
variation d; d -> 0 is the Poisson distribution. (r is called size in R and phi in Stan.)

    m ~ Gamma(a_m, b_m),      d ~ Gamma(a_d, b_d)        shape and rate, independent

Mean and dispersion are the parametrisation that mixes: their Fisher information is diagonal, where
shape and probability are strongly correlated.

The kernel for p(theta | x)
---------------------------
With n records, their sum s, and w_x of them equal to x, the posterior density in the coordinates
(log m, log d) is, up to a constant,

    sum_x w_x [log Gamma(x + r) - log Gamma(r)] + s log(m / (m + r)) - n r log(1 + m / r)
        + a_m log m - b_m m + a_d log d - b_d d,

the last line being the priors with the Jacobian m d of the logarithms. `update_parameters` draws
log m and then log d, each by a slice step as in `shape_kernels.py`, which leaves p(theta | x)
invariant for every width that does not depend on the coordinate that moves. The width uses d and
the records for log m, and is 1 for log d. Only the sum over w_x costs more than a few operations,
and the draw of log m does not need it.

The construction x = F(u; theta)
--------------------------------
That of `poisson.py`: x is the inverse CDF at u, uniform on [0, 1), counted from above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.contract import Theta
from noiseaware.models.arguments import POSITIVE
from noiseaware.models.conjugate import SMALLEST, gamma_bound
from noiseaware.models.count_cdf import largest_mean, log_rising
from noiseaware.models.poisson import CountModel
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

_MEAN, _DISPERSION = 0, 1
_FARTHEST = 690.0
"""Largest |log m| and |log d|: beyond it, exp has no room. No prior has mass there to speak of."""

_POOL = 48
"""Uniforms for a scan; it needs about 15, and asks for more in the rare case."""


def tabulate(records: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the different counts and how many records have each.

    Where the counts spread so far that few are equal, each record is listed by itself.
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
    values: NDArray[np.float64]
    """The different counts x."""
    weights: NDArray[np.float64]
    """w_x of each."""
    mean_shape: float
    mean_rate: float
    dispersion_shape: float
    dispersion_rate: float


@njit(cache=True, nogil=True)
def _log_posterior(point, which, given):
    """Return the log density in (log m, log d), without what ``which`` does not change."""
    if not abs(point[which]) < _FARTHEST:
        return -math.inf
    log_mean, log_dispersion = point[_MEAN], point[_DISPERSION]
    mean = math.exp(log_mean)
    dispersion = math.exp(log_dispersion)
    size = 1.0 / dispersion
    result = given.total * (log_mean - math.log(mean + size))
    result -= given.n * size * math.log1p(mean / size)
    if which == _MEAN:
        return result + given.mean_shape * log_mean - given.mean_rate * mean
    for j in range(given.values.shape[0]):
        result += given.weights[j] * log_rising(given.values[j], size)
    return result + given.dispersion_shape * log_dispersion - given.dispersion_rate * dispersion


@njit(cache=True, nogil=True)
def _slice(point, which, width, given, uniforms, used):
    """Move ``point[which]`` by slice sampling, in place; return the position in the pool.

    The position is -1 if the pool came to its end.
    """
    if used + 2 > uniforms.shape[0]:
        return -1
    now = point[which]
    level = _log_posterior(point, which, given)
    level += math.log(1.0 - uniforms[used])
    low = now - width * uniforms[used + 1]
    high = low + width
    used += 2
    point[which] = low
    while _log_posterior(point, which, given) > level:
        low -= width
        point[which] = low
    point[which] = high
    while _log_posterior(point, which, given) > level:
        high += width
        point[which] = high
    while high - low > 1e-13 * (1.0 + abs(now)):
        if used >= uniforms.shape[0]:
            return -1
        point[which] = low + uniforms[used] * (high - low)
        used += 1
        if _log_posterior(point, which, given) > level:
            return used
        if point[which] < now:
            low = point[which]
        else:
            high = point[which]
    point[which] = now
    return used


@njit(cache=True, nogil=True)
def _scan(start, given, uniforms, point):
    """Draw log m given log d, then log d given log m, into ``point``; False if the pool ended."""
    copy_vector(start, point)
    # About 3 posterior standard deviations of log m: its information is n / (1/m + d) + a_m.
    typical = (given.total + given.mean_shape) / (given.n + given.mean_rate)
    information = given.n / (1.0 / typical + math.exp(point[_DISPERSION])) + given.mean_shape
    width = 3.0 / math.sqrt(information)
    used = _slice(point, _MEAN, width, given, uniforms, 0)
    if used < 0:
        return False
    return _slice(point, _DISPERSION, 1.0, given, uniforms, used) >= 0


@dataclass(repr=False, eq=False)
class NegativeBinomial(CountModel):
    """Independent counts with an unknown mean and dispersion.

    Parameters
    ----------
    mean_shape, mean_rate : float
        The Gamma(shape, rate) prior of the mean m. The defaults are an exponential
        distribution with mean 10.
    dispersion_shape, dispersion_rate : float
        The Gamma(shape, rate) prior of the dispersion d; the variance of a count is m + d m^2.
        The defaults are an exponential distribution with mean 1, whose mode is d = 0, the
        Poisson distribution.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._largest = {
            "mean": largest_mean("mean", self.mean_shape, self.mean_rate),
            "dispersion": gamma_bound(self.dispersion_shape, self.dispersion_rate),
        }
        self.parameters = tuple(Parameter(name, (), "positive") for name in self._largest)

    def _read(self, theta: Theta) -> tuple[float, float]:
        """Return the mean and the size r = 1 / dispersion; NaN for a dispersion below 0."""
        dispersion = float(theta["dispersion"])
        size = 1.0 / max(dispersion, SMALLEST) if dispersion >= 0.0 else math.nan
        return float(theta["mean"]), size

    def _read_possible(self, theta: Theta) -> tuple[float, float]:
        mean, size = self._read(theta)
        return min(mean, self._largest["mean"]), max(size, 1.0 / self._largest["dispersion"])

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        total = self._total(records)
        priors = (*self._prior("mean"), *self._prior("dispersion"))
        given = Given(len(records), total, *tabulate(records), *priors)
        start = np.log([float(theta["mean"]), float(theta["dispersion"])])
        start = np.clip(start, 1e-6 - _FARTHEST, _FARTHEST - 1e-6)
        pool, point = rng.random(_POOL), np.empty(2)
        while not _scan(start, given, pool, point):
            pool = np.concatenate((pool, rng.random(_POOL)))
        return {
            "mean": np.array(math.exp(point[_MEAN])),
            "dispersion": np.array(math.exp(point[_DISPERSION])),
        }


MODELS.add(NegativeBinomial)
