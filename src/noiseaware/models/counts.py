"""Independent counts: the methods of `Poisson` and `NegativeBinomial` that deal with records.

Records are int64 ``(n,)``, from 0, with mean m and size r (r = inf: Poisson). u is uniform on
[0, 1) and x is the inverse CDF at u, counted from above; given x, u is uniform in the interval that
gives x (`count_cdf.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.models.arguments import check_levels, read_floats, read_integers
from noiseaware.models.count_cdf import (
    LARGEST_COUNT,
    build_counts,
    log_masses,
    recover_counts,
    sum_counts,
)


class Model(Protocol):
    """What the methods here need of a model."""

    def _read(self, theta: Mapping[str, Any]) -> tuple[float, float]:
        """Return m and r."""

    def _possible(self, theta: Mapping[str, Any]) -> tuple[float, float]:
        """As `_read`, with what the prior makes impossible moved inside."""


def check_records(self: Model, records: ArrayLike) -> None:
    """Raise ValueError or TypeError if these cannot be records of this model."""
    check_levels(read_integers(records, None), [LARGEST_COUNT + 1], ["the count"])


def sample_records(
    self: Model, theta: Mapping[str, Any], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw n records from f(. | theta); shape ``(n,)``."""
    return build_records(self, theta, rng.random((n, 1)))


def log_likelihood(
    self: Model, theta: Mapping[str, Any], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta) for each record; shape ``(n,)``."""
    records = read_integers(records, None)
    out = np.empty(len(records))
    if not log_masses(*self._read(theta), records, out):
        check_records(self, records)
    return out


def build_records(
    self: Model, theta: Mapping[str, Any], innovations: ArrayLike
) -> NDArray[np.int64]:
    """Return the records F(u_i; theta), ``(n,)``, of innovations ``(n, 1)``."""
    innovations = read_floats("innovations", innovations, 1)
    records = np.empty(len(innovations), dtype=np.int64)
    build_counts(*self._possible(theta), innovations, records)
    return records


def recover_innovations(
    self: Model, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw u_i given x_i and theta, ``(n, 1)``: uniform in the interval that gives x_i."""
    records = read_integers(records, None)
    innovations = rng.random((len(records), 1))
    if not recover_counts(*self._possible(theta), records, innovations):
        check_records(self, records)
    return innovations


def total(self: Model, records: NDArray[np.int64]) -> float:
    """Return the sum of the records."""
    found = sum_counts(records)
    if found < 0.0:
        check_records(self, records)
    return found
