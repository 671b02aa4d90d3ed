"""Yes-or-no records with an unknown probability.

The model
---------
A record is 0 or 1.

    P(x_i = 1) = p,      p ~ Beta(a, b)

The conditional of the parameter
--------------------------------
With s ones among n records the likelihood is p^s (1 - p)^{n - s}, so
p | x ~ Beta(a + s, b + n - s): `Bernoulli.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
u is uniform on [0, 1), and x = 1 if u < p, else 0. Given x, u is uniform on [0, p) for a one and
on [p, 1) for a zero (`noiseaware.models.inverse_cdf`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from noiseaware.contract import ClosedForm, CountsPrior, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import positive_number
from noiseaware.models.conjugate import log_dirichlet_constant, shares_of
from noiseaware.models.inverse_cdf import inside, uniform_of
from noiseaware.models.ready import Compiled, CompiledModel
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _build_records(probability, innovations, records):
    """Write x_i = 1 if u_i < p, else 0."""
    edge = inside(probability)
    for i in range(records.shape[0]):
        records[i] = innovations[i, 0] < edge


@njit(cache=True, nogil=True)
def _recover_innovations(probability, records, innovations):
    """Move each uniform of ``innovations`` into [0, p) or [p, 1); False at an invalid record."""
    for i in range(records.shape[0]):
        if not 0 <= records[i] <= 1:
            return False
        innovations[i, 0] = uniform_of(records[i], probability, innovations[i, 0])
    return True


@njit(cache=True, nogil=True)
def _log_likelihood(probability, records, out):
    """Write log p or log(1 - p); False at an invalid record."""
    log_one = math.log(probability) if probability > 0.0 else -math.inf
    log_zero = math.log1p(-probability) if probability < 1.0 else -math.inf
    for i in range(records.shape[0]):
        out[i] = log_one if records[i] == 1 else log_zero
    return _count_ones(records) >= 0


@njit(cache=True, nogil=True)
def _count_ones(records):
    """Return the number of ones, or -1 if a record is neither 0 nor 1."""
    total = 0
    strange = 0
    for i in range(records.shape[0]):
        total += records[i]
        # 0 and 1 have no bit above the first; every other integer has one.
        strange |= records[i] & ~1
    return total if strange == 0 else -1


class Bernoulli(CompiledModel):
    """Independent zeros and ones with an unknown probability of a one.

        x_i         ~ Bernoulli(probability)
        probability ~ Beta(a, b)

    Parameters
    ----------
    a, b : float, default 1
        The prior; (1, 1) is uniform.

    Notes
    -----
    Records are int64 of shape ``(n,)``. Parameter: ``probability`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Bernoulli
    >>> model = Bernoulli(a=2.0, b=2.0)
    >>> model.build_records({"probability": 0.3}, np.array([[0.1], [0.4]]))
    array([1, 0])
    """

    dtype = np.int64
    parameters = (Parameter("probability", (), "unit"),)
    innovations = Innovations("uniform", 1)
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)
    record_values = np.array([0, 1])
    _sizes, _names = [2], ["the value"]

    def __init__(self, a: float = 1.0, b: float = 1.0) -> None:
        self.a = positive_number("a", a)
        self.b = positive_number("b", b)
        self._log_constant = log_dirichlet_constant(np.array([self.a, self.b]))
        self.counts_prior = CountsPrior(np.array([self.b, self.a]), whole=self.a + self.b)

    def _read(self, theta: Theta) -> tuple[float]:
        return (float(theta["probability"]),)

    @staticmethod
    def _draw(a: float, b: float, rng: Generator) -> Theta:
        # A beta variable can round to 0 or 1.
        return {"probability": np.array(inside(rng.beta(a, b)))}

    def sample_prior(self, rng: Generator) -> Theta:
        return self._draw(self.a, self.b, rng)

    def log_prior(self, theta: Theta) -> float:
        p = float(theta["probability"])
        if not 0.0 < p < 1.0:
            return -math.inf
        return self._log_constant + (self.a - 1.0) * math.log(p) + (self.b - 1.0) * math.log1p(-p)

    def _update(self, theta: Theta, records: NDArray[np.int64], rng: Generator) -> Theta:
        ones = _count_ones(records)
        if ones < 0:
            self.check_records(records)
        return self._draw(self.a + ones, self.b + len(records) - ones, rng)

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of p: the share of the second of two gammas."""
        return {"probability": shares_of(logs)[:, 1]}

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the posterior given exact counts, Beta(a + ones, b + zeros), and the estimate."""
        found = estimates.zeros_and_ones(reading, n)
        if found is None:
            return None
        zeros, ones = found
        return ClosedForm(
            {"probability": estimates.shares(found)[1]},
            lambda draws, rng: {"probability": rng.beta(self.a + ones, self.b + zeros, size=draws)},
        )


MODELS.add(Bernoulli)
