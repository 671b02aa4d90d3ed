"""A draw of one number by slice sampling, for densities that are written in Python."""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.random import Generator


def slice_draw(
    log_density: Callable[[float], float], now: float, width: float, rng: Generator
) -> float:
    """Return a new value, by stepping out and shrinking; the density is invariant (Neal 2003)."""
    level = log_density(now) + math.log(1.0 - rng.random())
    low = now - width * rng.random()
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while True:
        new = low + rng.random() * (high - low)
        if log_density(new) >= level or high - low < 1e-12:
            return new
        low, high = (new, high) if new < now else (low, new)
