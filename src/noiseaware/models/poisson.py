"""Counts with an unknown rate; and `CountModel`, what all models of counts share.

The model
---------
A record is a count, an integer from 0.

    x_i ~ Poisson(lambda),      P(x_i = x) = lambda^x exp(-lambda) / x!
    lambda ~ Gamma(a, b)        density prop. to l^(a-1) exp(-b l): shape a, rate b, mean a/b

The conditional of the parameter
--------------------------------
The likelihood of n records with the sum s is prop. to lambda^s exp(-n lambda), so
lambda | x ~ Gamma(a + s, b + n): `Poisson.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1) and x is the inverse CDF at u, counted from above; given x, u is uniform in
the interval that gives x (`count_cdf.py`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware.contract import ClosedForm, Reading, Theta
from noiseaware.models import count_cdf, estimates
from noiseaware.models.arguments import positive_number
from noiseaware.models.gamma_priors import GammaPriors
from noiseaware.models.ready import Compiled
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


class CountModel(GammaPriors):
    """Counts with a mean m and a size r (r = inf: Poisson), which `_read` returns."""

    dtype = np.int64
    innovations = Innovations("uniform", 1)
    compiled = Compiled(count_cdf.build_counts, count_cdf.recover_counts, count_cdf.log_masses)
    _sizes, _names = [count_cdf.LARGEST_COUNT + 1], ["the count"]

    def _total(self, records: NDArray[np.int64]) -> float:
        """Return the sum of the records."""
        found = count_cdf.sum_counts(records)
        if found < 0.0:
            self.check_records(records)
        return found


class Poisson(CountModel):
    """Independent counts with an unknown rate.

    Parameters
    ----------
    rate_shape, rate_rate : float
        The Gamma(shape, rate) prior of the rate; its mean is shape / rate. The defaults
        are an exponential distribution with mean 10.

    Notes
    -----
    Records are int64 of shape ``(n,)``, from 0. Parameter: ``rate`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Poisson
    >>> model = Poisson(rate_shape=2.0, rate_rate=1.5)
    >>> model.build_records({"rate": 3.0}, np.array([[0.9], [0.5], [0.01]]))
    array([1, 3, 8])
    """

    parameters = (Parameter("rate", (), "positive"),)

    def __init__(self, rate_shape: float = 1.0, rate_rate: float = 0.1) -> None:
        self.rate_shape = positive_number("rate_shape", rate_shape)
        self.rate_rate = positive_number("rate_rate", rate_rate)
        self._largest = {"rate": count_cdf.largest_mean("rate", self.rate_shape, self.rate_rate)}

    def _read(self, theta: Theta) -> tuple[float, float]:
        return float(theta["rate"]), math.inf

    def _read_possible(self, theta: Theta) -> tuple[float, float]:
        return min(float(theta["rate"]), self._largest["rate"]), math.inf

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the rate given an exact sum S, Gamma(a + S, b + n), and its estimate S / n."""
        if reading.kind != "sum":
            return None
        total = max(reading.values, 0.0)
        shape, rate = self.rate_shape + total, self.rate_rate + n
        return ClosedForm(
            {"rate": np.array(max(total, estimates.TINY) / n)},
            lambda draws, rng: {"rate": rng.standard_gamma(shape, size=draws) / rate},
        )

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        return {"rate": self._draw("rate", rng, self._total(records), len(records))}


MODELS.add(Poisson)
