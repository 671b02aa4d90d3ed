"""Positive parameters with gamma priors, as durations and counts have them.

    v ~ Gamma(a, b)                             density b^a v^(a-1) exp(-b v) / Gamma(a), mean a / b

for each unknown parameter v, independently; the arguments are called ``v_shape`` and ``v_rate``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import log_gamma
from noiseaware.models.conjugate import SMALLEST
from noiseaware.models.ready import CompiledModel


class GammaPriors(CompiledModel):
    """A model whose parameters have gamma priors."""

    _largest: Mapping[str, float] = {}
    """Values above which a parameter is treated as impossible."""

    def _prior(self, name: str) -> tuple[float, float]:
        """Return a and b of a parameter."""
        return getattr(self, f"{name}_shape"), getattr(self, f"{name}_rate")

    def _draw(
        self, name: str, rng: Generator, events: float = 0.0, exposure: float = 0.0
    ) -> Floats:
        """Draw a parameter from Gamma(a + events, b + exposure)."""
        shape, rate = self._prior(name)
        # A gamma variable with a small shape can round to 0; its logarithm stays finite.
        return np.array(max(rng.standard_gamma(shape + events) / (rate + exposure), SMALLEST))

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        return {parameter.name: self._draw(parameter.name, rng) for parameter in self.parameters}

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        total = 0.0
        for parameter in self.parameters:
            name, value = parameter.name, float(theta[parameter.name])
            if value > self._largest.get(name, math.inf):
                return -math.inf
            total += log_gamma(value, *self._prior(name))
        return total
