"""p(theta | x) as a density of the unconstrained vector v, and its precision.

    log p(v | x) = log p(theta(v)) + log |d theta / d v| + sum_i log f(x_i | theta(v)) + constant.

The Jacobian is there because theta moves in v: without it the kernel would leave another density
invariant.

**The precision.** Given x, the posterior of v is about as wide as the inverse of its precision,

    precision  =  sum_i s_i s_i'  +  that of the prior,        s_i = d log f(x_i | theta(v)) / d v.

The scores s_i come from central differences of `log_likelihood`, which gives one number per record:
two calls for each coordinate, no derivatives. The mean of their outer products is the Fisher
information if x comes from the model at v, as it nearly does along a chain. Unlike a matrix of
second differences, their sum is never indefinite.

The database changes along the chain, so the precision is averaged over several databases. The
average restarts at each power of two, because the first databases are far from where the chain
ends. A wrong precision costs time, not exactness: nothing is learned after warm-up.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model, ModelAbilities, Theta

DIFFERENCE = 0.1
"""Width of the differences, in standard deviations of v as currently known."""

LOOK_EVERY = 16
"""Iterations of warm-up between two computations of the scores; at first, at each power of two."""

PRIOR_DRAWS = 20
"""Draws from the prior for each coordinate, for its precision."""


class Target(Protocol):
    """What a kernel needs to know about the target; see `noiseaware.sampler.target`."""

    model: Model
    abilities: ModelAbilities
    coordinates: Any
    n: int

    def propose(self, theta: Theta, m: int, rng: np.random.Generator, start: int = 0) -> Any:
        """Draw m records from f(. | theta), with their innovations."""
        ...


class State(Protocol):
    """What a kernel needs to know about a chain; see `noiseaware.sampler.state`."""

    theta: Theta
    records: np.ndarray
    rng: np.random.Generator


def log_density(target: Target, v: np.ndarray, records: np.ndarray) -> tuple[float, Theta]:
    """Return log p(v | x) up to a constant, and theta(v).

    It is minus infinity where the model gives NaN, far out where it overflows, and where the model
    gives plus infinity, on the edge of a support that v reaches only by rounding.
    """
    theta, log_jacobian = target.coordinates.from_vector(v)
    log_prior, log_likelihood = target.abilities.log_prior, target.abilities.log_likelihood
    assert log_prior is not None  # `DensityKernel.check` saw to it
    assert log_likelihood is not None
    value = float(log_prior(theta)) + log_jacobian
    if value > -math.inf:  # not with NaN, and no likelihood outside the prior's support
        value += float(np.sum(log_likelihood(theta, records)))
    return (value if -math.inf < value < math.inf else -math.inf), theta


class Precision:
    """The precision of v given x, learned in warm-up: `matrix` (size, size), positive definite."""

    learned = ("_information", "_looks", "matrix")

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        to_vector, sample = target.coordinates.to_vector, target.model.sample_prior
        times = PRIOR_DRAWS * target.coordinates.size
        draws = np.stack([to_vector(sample(rng)) for _ in range(times)])
        covariance = np.atleast_2d(np.cov(draws, rowvar=False))
        diagonal = np.diag_indices(len(covariance))
        covariance[diagonal] = covariance[diagonal] * (1.0 + 1e-6) + 1e-12
        inverse = np.linalg.inv(covariance)
        self._prior = self.matrix = 0.5 * (inverse + inverse.T)
        self._information, self._looks = np.zeros_like(covariance), 0

    def learn(self, target: Target, state: State, count: int) -> bool:
        """Compute the scores if it is time to; True if the precision changed."""
        forget = count & (count - 1) == 0
        if not forget and count % LOOK_EVERY:
            return False
        scores = self._scores(target, state)
        if scores is None:
            return False
        if forget:
            self._information[:], self._looks = 0.0, 0
        self._information += scores.T @ scores
        self._looks += 1
        self.matrix = self._prior + self._information / self._looks
        return True

    def _scores(self, target: Target, state: State) -> np.ndarray | None:
        """Return the scores (n, size) where the chain is; None if they are not finite."""
        coordinates, log_likelihood = target.coordinates, target.abilities.log_likelihood
        assert log_likelihood is not None
        v = coordinates.to_vector(state.theta)
        widths = DIFFERENCE / np.sqrt(np.diag(self.matrix))
        scores = np.empty((len(state.records), len(v)))
        for j, width in enumerate(widths):
            step = np.where(np.arange(len(v)) == j, width, 0.0)
            thetas = (coordinates.from_vector(moved)[0] for moved in (v + step, v - step))
            above, below = (np.asarray(log_likelihood(theta, state.records)) for theta in thetas)
            scores[:, j] = (above - below) / (2 * width)
        return scores if np.isfinite(scores).all() else None


class DensityKernel:
    """A kernel that needs the density alone, with `steps` steps in an iteration.

    What it takes from the precision of v is learned in warm-up and then frozen.
    """

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

    def _take(self, tuning: dict[str, Any]) -> None:
        """Set what depends on the precision, tuning["precision"].matrix."""
        raise NotImplementedError

    def _begin(self, target: Target) -> dict[str, Any]:
        """Return the rest of the initial tuning."""
        return {}

    def start(self, target: Target, state: State) -> dict[str, Any]:
        """Begin with the prior's precision."""
        precision = Precision(target, state.rng)
        tuning = {"precision": precision, "count": 0, **self._begin(target)}
        self._take(tuning)
        return tuning

    def learn(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Relearn the precision when it is time to."""
        tuning["count"] += 1
        if tuning["precision"].learn(target, state, tuning["count"]):
            self._take(tuning)

    def freeze(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Stop learning."""
        tuning["precision"] = None
