"""Durations: exponential, or gamma with an unknown shape, an unknown rate, or both.

Exponential
-----------
A record is a float of at least 0.

    x_i ~ Exponential(r)                        density r exp(-r x), mean 1 / r
    r ~ Gamma(a, b)                             a = rate_shape, b = rate_rate

The likelihood is r^n exp(-r sum_i x_i), so r | x ~ Gamma(a + n, b + sum_i x_i): an exact draw.

The construction is x = -log(u) / r with u uniform; the inverse is u = exp(-r x). u is the
probability of lasting longer than x, not of ending before it: doubles are finer near 0 than near 1,
so this keeps the digits of long durations. (u = 0 and x = 0 would give infinity and u = 1, and are
moved by one unit of rounding; u = 0 has probability 2^-53.)

Gamma
-----
A record is a float above 0.

    x_i ~ Gamma(k, r)                           density r^k x^(k-1) exp(-r x) / Gamma(k)
    k ~ Gamma(a_k, b_k)                         a_k = shape_shape, b_k = shape_rate
    r ~ Gamma(a_r, b_r)                         a_r = rate_shape, b_r = rate_rate

with k and r independent a priori; either may be known. The mean of a record is k / r, its
coefficient of variation 1 / sqrt(k); k = 1 is the exponential distribution.

**The full conditionals.** Write S = sum_i x_i and L = sum_i log x_i. The likelihood is

    r^(n k) exp((k - 1) L - r S) / Gamma(k)^n.

* r | k, x ~ Gamma(a_r + n k, b_r + S).
* k | x, with r *integrated out*: the gamma integral of the likelihood times the prior of r is
  Gamma(a_r + n k) / (b_r + S)^(a_r + n k), so that, up to factors without k,

      p(k | x)  prop. to  k^(a_k - 1) exp(-b_k k) Gamma(a_r + n k) (b_r + S)^(-n k) exp(k L)
                          / Gamma(k)^n.

  With r known it is k^(a_k - 1) exp(-b_k k) r^(n k) exp(k L) / Gamma(k)^n. In v = log k, whose
  Jacobian is k, both are `slice_sampling.log_shape_density` with a = a_k, n = n, w = (1), and
  r unknown: b = L - b_k - n log(b_r + S), m = 1, o = a_r, r = n;
  r known: b = L - b_k + n log r, m = 0.

`Gamma.update_parameters` makes a slice step in log k, then draws r given k, in one pass over the
records, for S and L. Given x, k and r are strongly correlated (the mean k / r is known far better
than either), so a scan that drew each given the other would mix slowly. Integrating r out draws the
two together.

**The construction.** x = Q(u; k) / r, where u is standard normal and Q(u; k) is the quantile of
Gamma(k, 1) at Phi(u); see `gamma_quantiles`. The inverse is u = Phi^{-1}(P(Gamma(k, 1) <= r x)).

**Durations that underflow.** A small k makes durations below the smallest (normal) double d: one in
ten at k = 0.003. They are recorded as d, which queries cannot tell apart, and d then carries the
probability of them all,

    P(x <= d) = (r d)^k / Gamma(k + 1)     (exp(-r x) is 1 there)

in place of a density. The density at d is r^k d^(k-1) / Gamma(k): the two differ by the factor
d / k. So each such record adds -log k to log p(k | x), with log d for log x: in
`log_shape_density`, a is a_k minus the number of such records. The conditional of r has r^(n k)
either way. Given x = d, P(Gamma(k, 1) <= r x) is uniform on (0, P(x <= d)).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, not_both_known, refuse_records
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.gamma_quantiles import gamma_scores, log_gamma_quantiles, spread_below
from noiseaware.models.ready import Compiled, Numbers
from noiseaware.models.slice_sampling import move_shape
from noiseaware.parameters import Innovations, Parameter, Work
from noiseaware.registry import MODELS

# ------------------------------------------------------------------ exponential

_LEAST = 2.0**-1074
_MOST = 1.0 - 2.0**-53
"""The smallest positive double and the largest below 1: the range of u."""


@njit(cache=True, nogil=True)
def _build_exponential(rate, innovations, records):
    """Write x_i = -log(u_i) / r; NaN if the rate is not positive."""
    scale = -1.0 / rate if rate > 0.0 else math.nan
    for i in range(records.shape[0]):
        records[i] = scale * math.log(max(innovations[i, 0], _LEAST))


@njit(cache=True, nogil=True)
def _recover_exponential(rate, records, innovations):
    for i in range(records.shape[0]):
        innovations[i, 0] = min(max(math.exp(-rate * records[i]), _LEAST), _MOST)


@njit(cache=True, nogil=True)
def _log_exponential(rate, records, out):
    """Write log r - r x_i; -inf below 0, and if the rate is not positive."""
    log_rate = math.log(rate) if rate > 0.0 else -math.inf
    for i in range(records.shape[0]):
        possible = rate > 0.0 and records[i] >= 0.0
        out[i] = log_rate - rate * records[i] if possible else -math.inf


@dataclass(repr=False, eq=False)
class Exponential(Numbers):
    """Independent exponential durations with an unknown rate.

        x_i  ~ Exponential(rate)            mean 1 / rate
        rate ~ Gamma(rate_shape, rate_rate)

    The rate is events per unit of time, in the unit of the records.

    Parameters
    ----------
    rate_shape, rate_rate : float, default 2 and 1
        The prior mean is shape / rate. The prior weighs as much as ``rate_shape`` durations with
        sum ``rate_rate``.

    Notes
    -----
    Records are float64 of shape ``(n,)``, at least 0. Parameter: ``rate`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Exponential
    >>> model = Exponential()
    >>> model.log_likelihood({"rate": 2.0}, np.array([0.0, 1.0])).round(3)
    array([ 0.693, -1.307])
    """

    rate_shape: float = field(default=2.0, metadata=PRIOR_SHAPE)
    rate_rate: float = field(default=1.0, metadata=POSITIVE)

    _priors: ClassVar = {"rate": "gamma"}
    parameters = (Parameter("rate", (), "positive"),)
    innovations = Innovations("uniform", 1)
    uniforms = 0
    compiled = Compiled(_build_exponential, _recover_exponential, _log_exponential)

    def _read(self, theta: Theta) -> tuple[float]:
        return (float(theta["rate"]),)

    def _check(self, records: Floats) -> None:
        refuse_records(records < 0.0, "records must be durations of at least 0", records)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        return {"rate": self._draw_number("rate", rng, len(records), records.sum())}

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given an exact sum S, Gamma(a + n, b + S), and the estimate."""
        if reading.kind != "sum":
            return None
        total = max(reading.values, 0.0)
        return self._given(n, total, n / max(total, estimates.TINY * n))


# ------------------------------------------------------------------ gamma

_POOL = 32
"""Uniforms drawn per slice step, which uses six on average."""

_LARGEST_EXPONENT = 709.0
_ONE = np.ones(1)


@njit(cache=True, nogil=True)
def _scale(logs, log_rate, records):
    """Write x_i = exp(log gamma_i - log r), kept between the smallest and the largest double."""
    for i in range(records.shape[0]):
        records[i] = max(math.exp(min(logs[i, 0] - log_rate, _LARGEST_EXPONENT)), SMALLEST)


def _build_gamma(shape, rate, innovations, records):
    """Write x_i = Q(u_i; k) / r; NaN if k or r is not positive."""
    records[:] = math.nan
    if 0.0 < shape < math.inf and 0.0 < rate < math.inf:
        _scale(log_gamma_quantiles(np.array([shape]), innovations), math.log(rate), records)


@njit(cache=True, nogil=True)
def _sums(records):
    """Return sum_i x_i, sum_i log x_i, and the number of records at the smallest double."""
    total, logs, smallest = 0.0, 0.0, 0
    for x in records:
        total += x
        logs += math.log(max(x, SMALLEST))
        smallest += x <= SMALLEST
    return total, logs, smallest


@njit(cache=True, nogil=True)
def _log_gamma(shape, rate, records, out):
    """Write log Gamma(x_i; k, r), or log P(x <= d) at the smallest double d; -inf for x_i <= 0."""
    out[:] = -math.inf
    if not (shape > 0.0 and rate > 0.0):
        return
    constant = shape * math.log(rate) - math.lgamma(shape)
    for i in range(records.shape[0]):
        x = records[i]
        if x > SMALLEST:
            out[i] = constant + (shape - 1.0) * math.log(x) - rate * x
        elif x > 0.0:
            out[i] = constant + shape * math.log(SMALLEST) - math.log(shape)


@dataclass(repr=False, eq=False)
class Gamma(Numbers):
    """Independent gamma durations with unknown shape, unknown rate, or both.

        x_i   ~ Gamma(shape, rate)          mean shape / rate
        shape ~ Gamma(shape_shape, shape_rate)
        rate  ~ Gamma(rate_shape, rate_rate)

    The rate is per unit of time, in the unit of the records.

    Parameters
    ----------
    shape : float, optional
        The shape, if known. Default: unknown.
    rate : float, optional
        The rate, if known. Default: unknown.
    shape_shape, shape_rate : float, default 2 and 1
        The prior mean of the shape is shape_shape / shape_rate.
    rate_shape, rate_rate : float, default 2 and 1
        The prior mean of the rate is rate_shape / rate_rate.

    Notes
    -----
    Records are float64 of shape ``(n,)``, above 0. Parameters, if unknown: ``shape`` () and
    ``rate`` (). Derived: ``mean`` (), shape / rate.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Gamma
    >>> model = Gamma(shape=2.0)
    >>> [parameter.name for parameter in model.parameters]
    ['rate']
    >>> model.build_records({"rate": 0.5}, np.array([[0.0], [1.0]])).round(3)  # u = 0: the median
    array([3.357, 6.599])
    """

    shape: float | None = field(default=None, metadata=POSITIVE)
    rate: float | None = field(default=None, metadata=POSITIVE)
    _: KW_ONLY
    shape_shape: float = field(default=2.0, metadata=PRIOR_SHAPE)
    shape_rate: float = field(default=1.0, metadata=POSITIVE)
    rate_shape: float = field(default=2.0, metadata=PRIOR_SHAPE)
    rate_rate: float = field(default=1.0, metadata=POSITIVE)

    _priors: ClassVar = {"shape": "gamma", "rate": "gamma"}
    _work = Work(calls=6.0, update=1.0, draw=6.0, build=3.0, recover=6.5)
    innovations = Innovations("normal", 1, _work)
    compiled = Compiled(_build_gamma, None, _log_gamma)
    derived = (Parameter("mean", (), "positive"),)

    def __post_init__(self) -> None:
        not_both_known(shape=self.shape, rate=self.rate)
        super().__post_init__()
        shape, rate = (Parameter(name, (), "positive") for name in ("shape", "rate"))
        self.parameters = self._unknown(shape, rate)

    def _read(self, theta: Theta) -> tuple[float, float]:
        return self._number(theta, "shape"), self._number(theta, "rate")

    def _check(self, records: Floats) -> None:
        refuse_records(records <= 0.0, "records must be durations above 0", records)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        total, logs, smallest = _sums(records)
        new: Theta = {}
        shape = self.shape
        if shape is None:
            a = self.shape_shape - smallest
            shape = self._draw_shape(float(theta["shape"]), a, len(records), total, logs, rng)
            new["shape"] = np.array(shape)
        if self.rate is None:
            new["rate"] = self._draw_number("rate", rng, len(records) * shape, total)
        return new

    def _draw_shape(
        self, shape: float, a: float, n: int, total: float, logs: float, rng: Generator
    ) -> float:
        """Make a slice step in log k; see the module docstring for the terms."""
        slope = logs - self.shape_rate
        if self.rate is None:
            slope -= n * math.log(self.rate_rate + total)
            terms = (a, slope, 0.0, self.rate_shape, float(n), 1.0, float(n))
        else:
            slope += n * math.log(self.rate)
            terms = (a, slope, 0.0, 0.0, 0.0, 0.0, float(n))
        pool, used = np.empty(0), -1
        while used < 0:
            pool = np.concatenate((pool, rng.random(_POOL)))
            v, used = move_shape(math.log(shape), terms, _ONE, n, pool, 0)
        return math.exp(v)

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the mean of a duration at draws of theta."""
        shape = theta["shape"] if self.shape is None else self.shape
        rate = theta["rate"] if self.rate is None else self.rate
        with np.errstate(over="ignore"):  # a prior may have rates next to 0
            return {"mean": np.divide(shape, rate)}

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        """Return u_i with F(u_i; theta) = x_i, ``(n, 1)``; only the smallest double needs `rng`."""
        records = self._read_records(records)
        shape, rate = self._read(theta)
        if not rate > 0.0:
            return np.full((len(records), 1), math.nan)
        logs = np.log(np.maximum(records, SMALLEST)) + math.log(rate)
        spread_below(logs, records <= SMALLEST, shape, rng)
        return gamma_scores(np.array([shape]), logs[:, np.newaxis])


MODELS.add(Exponential)
MODELS.add(Gamma)
