"""p(theta | x) as a density of the unconstrained vector v.

    log p(v | x) = log p(theta(v)) + log |d theta / d v| + sum_i log f(x_i | theta(v)) + constant.

The Jacobian is there because theta is moved in v: without it the kernel would leave another
density invariant.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model, ModelAbilities, Theta


class Target(Protocol):
    """What a kernel needs to know of what is sampled; see `noiseaware.sampler.target`."""

    model: Model
    abilities: ModelAbilities
    coordinates: Any
    n: int

    def propose(self, theta: Theta, m: int, rng: np.random.Generator, start: int = 0) -> Any:
        """Draw m records from f(. | theta), with their innovations."""
        ...


class State(Protocol):
    """What a kernel needs to know of a chain; see `noiseaware.sampler.state`."""

    theta: Theta
    records: np.ndarray
    rng: np.random.Generator


def log_density(target: Target, v: np.ndarray, records: np.ndarray) -> tuple[float, Theta]:
    """Return log p(v | x) up to a constant, and theta(v).

    It is minus infinity where the model gives NaN: far out, where its arithmetic ends. So it is
    where the model gives plus infinity, on the edge of a support that v reaches only by rounding.
    """
    theta, log_jacobian = target.coordinates.from_vector(v)
    log_prior, log_likelihood = target.abilities.log_prior, target.abilities.log_likelihood
    assert log_prior is not None  # `DensityKernel.check` saw to it
    assert log_likelihood is not None
    value = float(log_prior(theta)) + log_jacobian
    if value > -math.inf:  # not with NaN, and no likelihood outside the prior's support
        value += float(np.sum(log_likelihood(theta, records)))
    return (value if -math.inf < value < math.inf else -math.inf), theta


class DensityKernel:
    """A kernel that goes by the density alone, `steps` times in an iteration."""

    def __init__(self, steps: int) -> None:
        self.steps = whole_number("steps", steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"

    def check(self, target: Target) -> None:
        """Raise if the model has no prior density or no likelihood."""
        able = target.abilities
        for method, found in (
            ("log_prior(theta)", able.log_prior),
            ("log_likelihood(theta, records)", able.log_likelihood),
        ):
            if found is None:
                raise ValueError(
                    f"{type(self).__name__} needs a model with {method}; {able.name} has none"
                )
