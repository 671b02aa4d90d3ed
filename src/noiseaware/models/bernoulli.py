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
u is uniform on [0, 1), and x = 1 if u < p, else 0. (The ones come first so that the edge is p
itself: 1 - p would be rounded.) Given x, u is uniform on [0, p) for a one, on [p, 1) for a zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import ClosedForm, Reading
from noiseaware.models import estimates
from noiseaware.models.arguments import (
    arguments_repr,
    check_levels,
    positive_number,
    read_floats,
    read_integers,
)
from noiseaware.models.conjugate import SMALLEST, log_dirichlet_constant
from noiseaware.models.inverse_cdf import SPACING, uniform_between
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]


@njit(cache=True, nogil=True)
def _edge(probability):
    """Return p, kept inside (0, 1) so that both values of a record own a float."""
    return min(max(probability, SMALLEST), 1.0 - SPACING)


@njit(cache=True, nogil=True)
def _build_records(probability, innovations, records):
    """Write x_i = 1 if u_i < p, else 0."""
    edge = _edge(probability)
    for i in range(records.shape[0]):
        records[i] = innovations[i, 0] < edge


@njit(cache=True, nogil=True)
def _recover_innovations(probability, records, innovations):
    """Move each uniform of ``innovations`` into [0, p) or [p, 1); False at a wrong record."""
    edge = _edge(probability)
    for i in range(records.shape[0]):
        v = innovations[i, 0]
        if records[i] == 1:
            innovations[i, 0] = uniform_between(0.0, edge, v)
        elif records[i] == 0:
            innovations[i, 0] = uniform_between(edge, 1.0, v)
        else:
            return False
    return True


@njit(cache=True, nogil=True)
def _count_ones(records):
    """Return the number of ones, or -1 if a record is neither 0 nor 1."""
    total = 0
    strange = 0
    for i in range(records.shape[0]):
        total += records[i]
        # 0 and 1 have no bit above the first; everything else has one.
        strange |= records[i] & ~1
    return total if strange == 0 else -1


class Bernoulli:
    """Independent zeros and ones with an unknown probability of a one.

    Parameters
    ----------
    a, b : float
        The Beta(a, b) prior; (1, 1) is uniform.

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

    def __init__(self, a: float = 1.0, b: float = 1.0) -> None:
        self.a = positive_number("a", a)
        self.b = positive_number("b", b)
        self._log_constant = log_dirichlet_constant(np.array([self.a, self.b]))
        self.parameters: tuple[Parameter, ...] = (Parameter("probability", (), "unit"),)
        self.innovations = Innovations("uniform", 1)
        self.record_values: NDArray[np.int64] = np.array([0, 1])

    @staticmethod
    def _draw(a: float, b: float, rng: np.random.Generator) -> Theta:
        # A beta variable can round to 0 or 1; the open interval keeps its logit finite.
        return {"probability": np.array(min(max(rng.beta(a, b), SMALLEST), 1.0 - SPACING))}

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(read_integers(records, None), [2], ["the value"])

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        return self._draw(self.a, self.b, rng)

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised."""
        p = float(theta["probability"])
        if not 0.0 < p < 1.0:
            return -math.inf
        return self._log_constant + (self.a - 1.0) * math.log(p) + (self.b - 1.0) * math.log1p(-p)

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw n records from f(. | theta); shape ``(n,)``."""
        return self.build_records(theta, rng.random((n, 1)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_integers(records, None)
        if _count_ones(records) < 0:
            self.check_records(records)
        p = float(theta["probability"])
        log_one = math.log(p) if p > 0.0 else -math.inf
        log_zero = math.log1p(-p) if p < 1.0 else -math.inf
        return np.where(records == 1, log_one, log_zero)

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return p given exact counts, Beta(a + ones, b + zeros), and its estimate."""
        found = estimates.zeros_and_ones(reading, n)
        if found is None:
            return None
        zeros, ones = found
        return ClosedForm(
            {"probability": estimates.shares(found)[1]},
            lambda draws, rng: {"probability": rng.beta(self.a + ones, self.b + zeros, size=draws)},
        )

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        records = read_integers(records, None)
        ones = _count_ones(records)
        if ones < 0:
            self.check_records(records)
        return self._draw(self.a + ones, self.b + len(records) - ones, rng)

    def build_records(self, theta: Mapping[str, Any], innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        records = np.empty(len(innovations), dtype=np.int64)
        _build_records(float(theta["probability"]), innovations, records)
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
        records = read_integers(records, None)
        innovations = rng.random((len(records), 1))
        if not _recover_innovations(float(theta["probability"]), records, innovations):
            self.check_records(records)
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {"type": "Bernoulli", "a": self.a, "b": self.b}

    def __repr__(self) -> str:
        return arguments_repr(self)
