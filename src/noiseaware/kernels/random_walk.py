"""Random-walk Metropolis on p(theta | x).

In the unconstrained vector v, propose v' = v + s C z with z standard normal, in one block of
coordinates at a time, and accept with probability

    min(1, p(v' | x) / p(v | x)),

the density of v, Jacobian included (`density.py`). The proposal is symmetric, q(v' | v) =
q(v | v'), so this is the Metropolis-Hastings ratio and detailed balance holds. C C' is the
covariance of the block given x and the other blocks, from the learned precision (`density.py`). s
starts at 2.38 / sqrt(size of the block) (Roberts, Gelman and Gilks 1997) and is tuned to the
optimal acceptance rate, .44 in one dimension and .23 in many.

C and s change in warm-up only: a kernel that kept adapting would not leave p(theta | x) invariant.

Reference
---------
Roberts, G. O., Gelman, A. and Gilks, W. R. (1997). Weak convergence and optimal scaling of random
    walk Metropolis algorithms. Annals of Applied Probability 7(1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.basics.adapt import log_change
from noiseaware.kernels.density import DensityKernel, State, Target, log_density

LARGEST_BLOCK = 12
"""Most coordinates proposed together; larger blocks would need steps that are too small."""


class RandomWalk(DensityKernel):
    """Random-walk Metropolis on p(theta | x), tuned in warm-up and then frozen.

    It needs a model with `log_prior(theta)` and `log_likelihood(theta, records)`.

    Parameters
    ----------
    steps : int
        Steps of each block of coordinates in an iteration.

    Examples
    --------
    >>> import noiseaware as na
    >>> update = na.moves.ParameterUpdate(na.kernels.RandomWalk(steps=10))
    >>> update
    ParameterUpdate(RandomWalk(steps=10))
    """

    reports = ("kernel_acceptance",)

    def __init__(self, steps: int = 5) -> None:
        super().__init__(steps)

    def _begin(self, target: Target) -> dict[str, Any]:
        blocks = target.coordinates.blocks(LARGEST_BLOCK)
        return {
            "blocks": blocks,
            "log_scales": [math.log(2.38 / math.sqrt(len(index))) for index in blocks],
            "accepted": [0.0] * len(blocks),
            "warming": True,
        }

    def _take(self, tuning: dict[str, Any]) -> None:
        """Set C of each block, C C' = inverse of the block's part of the precision.

        That part is the precision of the block given the others. With K K' equal to it, C = K^-T.
        """
        precision = tuning["precision"].matrix
        parts = [precision[np.ix_(index, index)] for index in tuning["blocks"]]
        tuning["factors"] = [np.linalg.inv(np.linalg.cholesky(part)).T for part in parts]

    def step(self, target: Target, state: State, tuning: dict[str, Any]) -> tuple[float]:
        """Do `steps` steps of each block; report the share accepted."""
        rng, records = state.rng, state.records
        v = target.coordinates.to_vector(state.theta)
        now, _ = log_density(target, v, records)
        total = 0.0
        blocks, factors = tuning["blocks"], tuning["factors"]
        for which, (index, factor) in enumerate(zip(blocks, factors, strict=True)):
            normals = rng.standard_normal((self.steps, len(index)))
            moves = math.exp(tuning["log_scales"][which]) * (normals @ factor.T)
            log_uniform = -rng.standard_exponential(self.steps)
            expected = 0.0
            for k in range(self.steps):
                proposed = v.copy()
                proposed[index] += moves[k]
                new, theta = log_density(target, proposed, records)
                ratio = new - now
                expected += math.exp(min(0.0, ratio)) if new > -math.inf else 0.0
                if log_uniform[k] < ratio < math.inf:  # a v off V is not left; see `coordinates`
                    v, now = proposed, new
                    state.theta = theta
            if tuning["warming"]:
                tuning["accepted"][which] = expected / self.steps
            total += expected
        return (total / (self.steps * len(blocks)),)

    def learn(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Also tune the size of the steps."""
        super().learn(target, state, tuning)
        for which, index in enumerate(tuning["blocks"]):
            wanted = 0.23 + 0.21 / len(index)
            accepted, count = tuning["accepted"][which], tuning["count"]
            tuning["log_scales"][which] += log_change(accepted, wanted, count, gain=2.0)

    def freeze(self, target: Target, state: State, tuning: dict[str, Any]) -> None:
        """Stop learning."""
        tuning.update(warming=False, precision=None)
