"""Scale the database along a direction that the release does not see.

A noisy sum pins down the mean of the records but says nothing about their variance. The variance
and the records can then only move together, and with the innovations held (`transport`) a new
variance moves the sum too, unless the mean compensates. A model that knows a better direction has

    scale_records(theta, records, amount) -> theta', records', log_ratio,

a map Phi_s of (theta, x), s the amount, with Phi_{-s} the inverse of Phi_s; for example, all
records pushed away from their mean, and the variance with them. The move draws s from N(0, size^2),
and accepts (theta', x') = Phi_s(theta, x) with probability min(1, r),

    r = p(theta') f(x' | theta') |det D Phi_s|  g(s_dp, T(x'))
        ------------------------------------------------------,
        p(theta ) f(x  | theta )                g(s_dp, T(x ))

where log_ratio is the logarithm of all but g.

**Why it is exact.** On (theta, x, s) the map (theta, x, s) -> (Phi_s(theta, x), -s) is its own
inverse, and the absolute value of its Jacobian determinant is |det D Phi_s|. The target with s is
p(theta, x | s_dp) N(s; 0, size^2), and the density of s is the same at -s. So r is the Metropolis
ratio of the point and its image (Green 1995; Liu and Sabatti 2000 draw s from its conditional
instead). s is drawn afresh in each step and not kept.

References
----------
Green, P. J. (1995). Reversible jump Markov chain Monte Carlo computation. Biometrika 82(4).
Liu, J. S. and Sabatti, C. (2000). Generalised Gibbs sampler and multigrid Monte Carlo for Bayesian
    computation. Biometrika 87(2).
"""

from __future__ import annotations

import math

import numpy as np

from noiseaware.basics.adapt import WANTED_ALONE, StepSize
from noiseaware.sampler.moves.base import TunedMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class ScaleMove(TunedMove):
    """Move along the model's `scale_records`.

    Parameters
    ----------
    steps : int
        Steps in an iteration.
    """

    reports = ("scale_acceptance",)

    def __init__(self, steps: int = 3) -> None:
        super().__init__(steps)

    def __repr__(self) -> str:
        return "ScaleMove()" if self.steps == 3 else super().__repr__()

    def check(self, target: Target) -> None:
        able = target.abilities
        if able.scale_records is None:
            raise ValueError(
                "ScaleMove needs a model with scale_records(theta, records, amount); "
                f"{able.name} has none"
            )
        if able.holds_innovations:
            raise ValueError(
                f"ScaleMove cannot be used with {able.name}: it is only a simulator, and scaled "
                "records do not say what innovations made them"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        return {"size": StepSize(0.5, WANTED_ALONE), "count": 0, "warming": True}

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        scale_records = target.abilities.scale_records
        assert scale_records is not None  # `check` saw to it
        amounts = tuning["size"].size * state.rng.standard_normal(self.steps)
        log_uniform = -state.rng.standard_exponential(self.steps)
        log_g_now = target.log_g(target.total(state.records))
        accepted = 0
        for amount, threshold in zip(amounts.tolist(), log_uniform.tolist(), strict=True):
            theta, records, log_ratio = scale_records(state.theta, state.records, amount)
            records = np.ascontiguousarray(records)
            log_g_new = target.log_g(target.total(records))
            log_ratio += log_g_new - log_g_now
            if tuning["warming"]:
                tuning["size"].note(log_ratio)
            if threshold < log_ratio < math.inf:
                accepted += 1
                log_g_now = log_g_new
                state.theta, state.records = theta, records
        return (accepted / self.steps,)
