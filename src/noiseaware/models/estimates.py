"""Maximum likelihood estimates from totals that noise may have moved to the edge of the possible.

Records are simulated from an estimate, so probabilities and variances are kept away from 0.
"""

from __future__ import annotations

import numpy as np

from noiseaware.contract import Floats, Reading

TINY = 1e-9
"""Smallest estimated probability, and smallest estimated variance relative to the squared range of
the bounds."""


def shares(counts: Floats) -> Floats:
    """Return counts as probabilities along the last axis, all above 0."""
    totals = counts.sum(axis=-1, keepdims=True)
    found = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), 1.0)
    found = np.maximum(found, TINY)
    return found / found.sum(axis=-1, keepdims=True)


def zeros_and_ones(reading: Reading | None, n: int) -> Floats | None:
    """Return the numbers of zeros and of ones among n binary records, if the reading has them."""
    if reading is not None and reading.kind == "counts" and len(reading.values) == 2:
        return reading.values
    if reading is not None and reading.kind == "sum" and reading.bounds == (0.0, 1.0):
        return np.array([n - reading.values, reading.values])
    return None


def least_variance(reading: Reading) -> float:
    """Return the smallest variance to estimate, for records within these bounds."""
    lower, upper = reading.bounds
    return TINY * float(np.max(np.subtract(upper, lower))) ** 2
