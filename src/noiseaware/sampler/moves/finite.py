"""Records of few values, released one by one: theta with them summed out, then each drawn exactly.

With p(s_i | theta) = sum_c f(c | theta) h(s_i | c) (`agreement.listed`), a slice sampler moves
theta and leaves

    p(theta | s_dp)  proportional to  p(theta) prod_i p(s_i | theta)

invariant. Then every record is drawn from p(x_i | theta, s_i). The new pair has the distribution
p(theta | s_dp) p(x | theta, s_dp) = p(theta, x | s_dp), whatever x was before: nothing is accepted
or rejected, and theta and x do not hold each other back. A value that is impossible for a record, h
= 0, is never drawn, so a law may have zeros.

For a model with `random_size`, f are the means m_c of Poisson counts, which do not add up to 1. The
n ordered records have the density prod_i m(x_i) exp(-sum_c m_c) / n!, so p(theta) is multiplied by
exp(-sum_c m_c); the draws of the records are unchanged.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from noiseaware.contract import Theta
from noiseaware.kernels.slice import Slice
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

MOST = 32
"""Most coordinates of theta to move with the records summed out; more would take too long."""

KERNEL = Slice()

TRIES = 1000


class FiniteMove(ReadyMove):
    """Move theta with the records summed out, and draw every record from its conditional.

    A theta of more than 32 coordinates stays; `ParameterUpdate` moves it given x.
    """

    def check(self, target: Target) -> None:
        if target.listed is None:
            raise ValueError(
                "FiniteMove needs a model that lists all values of a record, with log_prior and "
                "log_likelihood, and a mechanism that releases every record; got "
                f"{target.abilities.name} and {target.mechanism_abilities.name}"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        """Draw records that can have led to the release; return the kernel's tuning, if any."""
        for _ in range(TRIES):  # a probability of the prior's may be rounded to 0
            if np.isfinite(target.listed.log_seen(_log_f(target, state.theta))).all():
                break
            state.theta = target.sample_prior(state.rng)
        else:
            raise ValueError(f"the release is impossible at {TRIES} draws of the prior")
        self._draw(target, state)
        moves = target.coordinates.size <= MOST
        return KERNEL.start(_summed(target), state) if moves else {}

    @staticmethod
    def _draw(target: Target, state: ChainState) -> None:
        state.records = target.listed.draw(_log_f(target, state.theta), state.rng)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[()]:
        if tuning:
            KERNEL.step(_summed(target), state, tuning)
        self._draw(target, state)
        return ()

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if tuning:
            KERNEL.learn(_summed(target), state, tuning)

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        if tuning:
            KERNEL.freeze(target, state, tuning)


def _summed(target: Target) -> Target:
    """Return a target whose likelihood is that of the release, with the records summed out."""
    summed, laws, able = copy.copy(target), target.listed, target.abilities

    def log_seen(theta: Any, _: Any) -> Any:
        return laws.log_seen(_log_f(target, theta))

    def log_prior(theta: Any) -> float:
        assert able.log_prior is not None  # `can_list` saw to it
        return able.log_prior(theta) - float(np.exp(_log_f(target, theta)).sum())

    summed.abilities = replace(able, log_likelihood=log_seen)
    if able.random_size:
        summed.abilities = replace(summed.abilities, log_prior=log_prior)
    return summed


def _log_f(target: Target, theta: Theta) -> Any:
    """Return log f of each possible value of a record, (C,)."""
    log_likelihood = target.abilities.log_likelihood
    assert log_likelihood is not None  # `can_list` saw to it
    return log_likelihood(theta, target.listed.values)
