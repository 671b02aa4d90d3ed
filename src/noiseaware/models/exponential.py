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
from numpy.typing import ArrayLike

from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import (
    check_durations,
    positive_number,
    prior_shape,
    read_floats,
    read_numbers,
)
from noiseaware.models.gamma_priors import GammaPriors
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

    def __init__(self, rate_shape: float = 2.0, rate_rate: float = 1.0) -> None:
        self.rate_shape = prior_shape("rate_shape", rate_shape)
        self.rate_rate = positive_number("rate_rate", rate_rate)
        self.parameters = (Parameter("rate", (), "positive"),)
        self.innovations = Innovations("uniform", 1)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        check_durations(records)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_numbers(records)
        rate = float(theta["rate"])
        if not rate > 0.0:
            return np.full(len(records), -math.inf)
        return np.where(records >= 0.0, math.log(rate) - rate * records, -math.inf)

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

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta, drawn from p(theta | x); see the module docstring."""
        records = read_numbers(records)
        return {"rate": self._draw("rate", rng, len(records), records.sum())}

    def build_records(self, theta: Theta, innovations: ArrayLike) -> Floats:
        """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        records = np.empty(len(innovations))
        _build_records(float(theta["rate"]), innovations, records)
        return records

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        """Return the u_i with F(u_i; theta) = x_i, ``(n, 1)``; no randomness is needed."""
        records = read_numbers(records)
        innovations = np.empty((len(records), 1))
        _recover_innovations(float(theta["rate"]), records, innovations)
        return innovations


MODELS.add(Exponential)
