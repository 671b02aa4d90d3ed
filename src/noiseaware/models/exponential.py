"""Exponential durations with an unknown rate.

The model
---------
A record is a duration, a float of at least 0.

    x_i ~ Exponential(r)                        density r exp(-r x), mean 1 / r
    r ~ Gamma(a, b)                             density prop. to r^(a-1) exp(-b r)

with a = rate_shape and b = rate_rate.

The full conditional
--------------------
The likelihood is r^n exp(-r sum_i x_i), so r | x ~ Gamma(a + n, b + sum_i x_i): an exact draw.

The construction x = F(u; theta)
--------------------------------
x = -log(u) / r with u uniform, inverted by u = exp(-r x). u is the probability of lasting longer
than x, and not that of ending before it, because a double is finer near 0 than near 1: that keeps
the digits of long durations. (The records that u = 0 and x = 0 would give, infinity and u = 1, are
moved by one unit of rounding; u = 0 has probability 2^-53.)
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator

from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import positive_number, prior_shape, refuse_records
from noiseaware.models.gamma_priors import GammaPriors
from noiseaware.models.ready import Compiled
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS

_LEAST = 2.0**-1074
_MOST = 1.0 - 2.0**-53
"""The smallest positive double and the largest below 1: the range of u."""


@njit(cache=True, nogil=True)
def _build_records(rate, innovations, records):
    """Write x_i = -log(u_i) / r; NaN if the rate is not positive."""
    scale = -1.0 / rate if rate > 0.0 else math.nan
    for i in range(records.shape[0]):
        records[i] = scale * math.log(max(innovations[i, 0], _LEAST))


@njit(cache=True, nogil=True)
def _recover_innovations(rate, records, innovations):
    """Write u_i = exp(-r x_i)."""
    for i in range(records.shape[0]):
        innovations[i, 0] = min(max(math.exp(-rate * records[i]), _LEAST), _MOST)


@njit(cache=True, nogil=True)
def _log_likelihood(rate, records, out):
    """Write log r - r x_i; -inf below 0, and if the rate is not positive."""
    log_rate = math.log(rate) if rate > 0.0 else -math.inf
    for i in range(records.shape[0]):
        possible = rate > 0.0 and records[i] >= 0.0
        out[i] = log_rate - rate * records[i] if possible else -math.inf


class Exponential(GammaPriors):
    """Independent exponential durations with a gamma prior on their rate.

    Parameters
    ----------
    rate_shape, rate_rate : float
        a and b of the prior Gamma(a, b) of the rate; its mean is a / b, and a tells how much it is
        believed: as much as a durations that sum to b.

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

    parameters = (Parameter("rate", (), "positive"),)
    innovations = Innovations("uniform", 1)
    uniforms = 0
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def __init__(self, rate_shape: float = 2.0, rate_rate: float = 1.0) -> None:
        self.rate_shape = prior_shape("rate_shape", rate_shape)
        self.rate_rate = positive_number("rate_rate", rate_rate)

    def _read(self, theta: Theta) -> tuple[float]:
        return (float(theta["rate"]),)

    def _check(self, records: Floats) -> None:
        refuse_records(records < 0.0, "records must be durations of at least 0", records)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        return {"rate": self._draw("rate", rng, len(records), records.sum())}

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the rate given an exact sum S, Gamma(a + n, b + S), and its estimate n / S."""
        if reading.kind != "sum":
            return None
        total = max(reading.values, 0.0)
        shape, rate = self.rate_shape + n, self.rate_rate + total
        return ClosedForm(
            {"rate": np.array(n / max(total, estimates.TINY * n))},
            lambda draws, rng: {"rate": rng.standard_gamma(shape, size=draws) / rate},
        )


MODELS.add(Exponential)
