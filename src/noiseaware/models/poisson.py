"""Counts with an unknown rate.

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
the interval that gives x (`noiseaware.models.count_cdf`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.models.arguments import (
    arguments_repr,
    check_levels,
    positive_number,
    read_floats,
    read_integers,
)
from noiseaware.models.conjugate import SMALLEST, log_gamma
from noiseaware.models.count_cdf import (
    LARGEST_COUNT,
    build_counts,
    largest_mean,
    log_masses,
    recover_counts,
    sum_counts,
)
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]


class Poisson:
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

    def __init__(self, rate_shape: float = 1.0, rate_rate: float = 0.1) -> None:
        self.rate_shape = positive_number("rate_shape", rate_shape)
        self.rate_rate = positive_number("rate_rate", rate_rate)
        self._largest = largest_mean("rate", self.rate_shape, self.rate_rate)
        self.parameters: tuple[Parameter, ...] = (Parameter("rate", (), "positive"),)
        self.innovations = Innovations("uniform", 1)

    @staticmethod
    def _draw(shape: float, rate: float, rng: np.random.Generator) -> Theta:
        # A gamma variable with a small shape can round to 0; its logarithm stays finite.
        return {"rate": np.array(max(rng.standard_gamma(shape) / rate, SMALLEST))}

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(read_integers(records, None), [LARGEST_COUNT + 1], ["the count"])

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        return self._draw(self.rate_shape, self.rate_rate, rng)

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised."""
        rate = float(theta["rate"])
        if rate > self._largest:
            return -math.inf
        return log_gamma(rate, self.rate_shape, self.rate_rate)

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw n records from f(. | theta); shape ``(n,)``."""
        return self.build_records(theta, rng.random((n, 1)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_integers(records, None)
        out = np.empty(len(records))
        if not log_masses(float(theta["rate"]), math.inf, records, out):
            self.check_records(records)
        return out

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        records = read_integers(records, None)
        total = sum_counts(records)
        if total < 0.0:
            self.check_records(records)
        return self._draw(self.rate_shape + total, self.rate_rate + len(records), rng)

    def build_records(self, theta: Mapping[str, Any], innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        records = np.empty(len(innovations), dtype=np.int64)
        build_counts(min(float(theta["rate"]), self._largest), math.inf, innovations, records)
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
        records = read_integers(records, None)
        innovations = rng.random((len(records), 1))
        rate = min(float(theta["rate"]), self._largest)
        if not recover_counts(rate, math.inf, records, innovations):
            self.check_records(records)
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {"type": "Poisson", "rate_shape": self.rate_shape, "rate_rate": self.rate_rate}

    def __repr__(self) -> str:
        return arguments_repr(self)
