"""Independent counts: what `Poisson` and `NegativeBinomial` share.

Records are int64 ``(n,)``, from 0, with mean m and size r (r = inf: Poisson). u is uniform on
[0, 1) and x is the inverse CDF at u, counted from above; given x, u is uniform in the interval that
gives x (`count_cdf.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Theta
from noiseaware.models.arguments import check_levels, read_floats, read_integers
from noiseaware.models.count_cdf import (
    LARGEST_COUNT,
    build_counts,
    log_masses,
    recover_counts,
    sum_counts,
)
from noiseaware.models.gamma_priors import GammaPriors
from noiseaware.parameters import Innovations


class CountModel(GammaPriors):
    """Counts whose mean and size follow from theta."""

    innovations = Innovations("uniform", 1)

    def _read(self, theta: Theta) -> tuple[float, float]:
        """Return m and r."""
        raise NotImplementedError

    def _possible(self, theta: Theta) -> tuple[float, float]:
        """As `_read`, with what the prior makes impossible moved inside."""
        raise NotImplementedError

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError or TypeError if these cannot be records of this model."""
        check_levels(read_integers(records, None), [LARGEST_COUNT + 1], ["the count"])

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_integers(records, None)
        out = np.empty(len(records))
        if not log_masses(*self._read(theta), records, out):
            self.check_records(records)
        return out

    def build_records(self, theta: Theta, innovations: ArrayLike) -> NDArray[np.int64]:
        """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
        innovations = read_floats("innovations", innovations, 1)
        records = np.empty(len(innovations), dtype=np.int64)
        build_counts(*self._possible(theta), innovations, records)
        return records

    def recover_innovations(self, theta: Theta, records: ArrayLike, rng: Generator) -> Floats:
        """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
        records = read_integers(records, None)
        innovations = rng.random((len(records), 1))
        if not recover_counts(*self._possible(theta), records, innovations):
            self.check_records(records)
        return innovations

    def _total(self, records: NDArray[np.int64]) -> float:
        """Return the sum of the records."""
        found = sum_counts(records)
        if found < 0.0:
            self.check_records(records)
        return found
