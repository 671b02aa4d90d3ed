"""Rates from sums: the Poisson and the exponential model have the same conjugate prior.

With lambda ~ Gamma(a, b) (shape, rate) and the sum S of n records taken as exact,

* Poisson counts: lambda | S ~ Gamma(a + S, b + n); the maximum of the likelihood is S / n;
* exponential durations: lambda | S ~ Gamma(a + n, b + S); the maximum is n / S.

A released sum is moved into n [lower, upper] and to at least 0 first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Theta = dict[str, Array]

SMALLEST_SUM = 1e-9


def possible_sum(query: Any, values: Array, n: int) -> float:
    """Move the sum to one that n records of at least 0 can have."""
    return max(float(np.clip(values[0], n * query.lower, n * query.upper)), 0.0)


def draw_poisson(model, query, values, n, draws, rng) -> Theta:
    """Draw the rate of counts."""
    shape = model.rate_shape + possible_sum(query, values, n)
    return {"rate": rng.standard_gamma(shape, size=draws) / (model.rate_rate + n)}


def estimate_poisson(model, query, values, n) -> Theta:
    """Return the maximum likelihood estimate of the rate of counts."""
    return {"rate": np.array(max(possible_sum(query, values, n), SMALLEST_SUM) / n)}


def draw_exponential(model, query, values, n, draws, rng) -> Theta:
    """Draw the rate of durations."""
    rate = model.rate_rate + possible_sum(query, values, n)
    return {"rate": rng.standard_gamma(model.rate_shape + n, size=draws) / rate}


def estimate_exponential(model, query, values, n) -> Theta:
    """Return the maximum likelihood estimate of the rate of durations."""
    return {"rate": np.array(n / max(possible_sum(query, values, n), SMALLEST_SUM * n))}
