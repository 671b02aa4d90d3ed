"""Draw theta and all records afresh.

Where the noise is large, the release says little about the records beyond theta: a database drawn
from the model at a posterior theta has about as high a density g as the current one. So theta is
proposed from a q that does not depend on the state: a Student t fitted to the posterior, or the
prior (`proposals`). The database comes with it, x' ~ f(. | theta').

**The ratio.** The target is p(theta) J(v) prod_i f(x_i | theta) g(s_dp, T(x)) in unconstrained
coordinates v, with J the Jacobian of theta(v). The proposal has the density q(v') prod_i
f(x_i' | theta'). The likelihoods cancel, and (v', x') is accepted with probability min(1, r),

    r =  p(theta') J(v') g(s_dp, T(x'))  q(v )
        ---------------------------------------.
         p(theta ) J(v ) g(s_dp, T(x ))  q(v')

With q = p(theta) J(v), the prior, only g' / g is left. Where n is unknown, v has log w as its last
coordinate (`size`), p(theta) includes the factor p(n), and x' has as many records as w' says.

A step does the work of a whole iteration for one look at the records. It is worthless where rarely
accepted, so warm-up measures how far it carries theta and `tuning.choose_brief` decides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.sampler.moves.proposals import Proposal
from noiseaware.sampler.moves.tuning import EVERY
from noiseaware.sampler.size import with_size, without_size
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class Afresh:
    """Where the chain is, and where the last proposal would take it.

    Attributes
    ----------
    v, log_prior
        theta as a vector, with log w where n is unknown, and its log density; found only if the
        proposal needs them.
    log_g
        log g(s_dp, T).
    """

    def __init__(
        self, target: Target, state: ChainState, proposal: Proposal, log_g: float | None = None
    ) -> None:
        self.target, self.state, self.proposal = target, state, proposal
        self.log_g = target.log_g(target.total(state.records)) if log_g is None else log_g
        self.v, self.log_prior = np.empty(0), 0.0
        if proposal.needs_v:
            self.v = self.vector()
            inside, log_jacobian = target.moved.from_vector(self.v)
            self.log_prior = target.log_prior_moved(inside) + log_jacobian

    def vector(self) -> np.ndarray:
        """Return v of the current state."""
        theta, target = self.state.theta, self.target
        if target.size is not None:
            theta = with_size(theta, len(self.state.records), self.state.rng)
        return target.moved.to_vector(theta)

    def propose(self, prepared: Any, k: int) -> float:
        """Return the log of the ratio r of the k-th proposal."""
        target, rng = self.target, self.state.rng
        log_ratio = 0.0
        if self.proposal.needs_v:
            self.v_new = np.empty_like(self.v)
            log_ratio = self.proposal.propose(self.v, prepared, k, self.v_new)
            theta, log_jacobian = target.moved.from_vector(self.v_new)
            self.log_prior_new = target.log_prior_moved(theta) + log_jacobian
            log_ratio += self.log_prior_new - self.log_prior
            if not log_ratio > -math.inf:
                return -math.inf
        else:  # q is the prior, so that the two cancel
            theta = target.sample_moved(rng)
        self.moved, self.theta, n = theta, theta, target.n
        if target.size is not None:
            self.theta, n = without_size(theta)
        self.records, self.u = target.propose(self.theta, n, rng)
        self.log_g_new = target.log_g(target.total(self.records))
        return log_ratio + self.log_g_new - self.log_g

    def accept(self) -> None:
        """Go to the last proposal."""
        self.state.theta, self.log_g = self.theta, self.log_g_new
        self.state.set_records(self.records, self.u)
        if self.proposal.needs_v:
            self.v, self.log_prior = self.v_new, self.log_prior_new


def draw_afresh(
    target: Target, state: ChainState, proposal: Proposal, steps: int, log_g: float | None = None
) -> float:
    """Make `steps` steps, given log g if it is known; return log g."""
    here, rng = Afresh(target, state, proposal, log_g), state.rng
    prepared = proposal.prepare(steps, rng)
    for k in range(steps):
        log_ratio = here.propose(prepared, k)
        if -rng.standard_exponential() < log_ratio < math.inf:
            here.accept()
    return here.log_g


def look_afresh(
    target: Target, state: ChainState, proposal: Proposal
) -> tuple[np.ndarray, float, float]:
    """Return v, and log w at the current state and at a proposal, without moving.

    w is the density of the target over that of the proposal, up to a constant.
    """
    here = Afresh(target, state, proposal)
    v = here.v if proposal.needs_v else here.vector()
    log_w = here.log_g + here.log_prior - proposal.log_density(v)
    log_ratio = here.propose(proposal.prepare(1, state.rng), 0)
    return v, log_w, log_w + (log_ratio if log_ratio < math.inf else -math.inf)


def times_afresh(looks: list[tuple[np.ndarray, float, float]], most: int) -> list[float]:
    """Return the iterations per effective draw with 1, 2, ..., `most` steps in each.

    The proposal does not depend on x, so a step from x is accepted with probability a(x) = E min(1,
    w' / w(x)), the mean over all places looked at. With k steps the chain leaves x with probability
    b(x) = 1 - (1 - a(x))^k. If f has mean 0 where it then goes, the autocorrelations of f are E f^2
    (1 - b)^t / E f^2, which add up to a time of E f^2 (2 / b - 1) / E f^2. f is each coordinate
    less its mean, and the square of that, which describes the tails; the longest time counts. No
    stay is longer than `tuning.EVERY`.

    Where the posterior has a narrow and a wide part, a chain may leave each point of the wide part
    at once, and only for another of the same. But such a chain does no better than importance
    sampling by w, in which k proposals are worth k (E w)^2 / E w^2 independent draws (Kong 1992).

    Parameters
    ----------
    looks
        What `look_afresh` found in some iterations.
    most
        The largest number of steps.
    """
    v, log_w, log_w_there = (np.array(found) for found in zip(*looks, strict=True))
    accept = np.exp(np.minimum(log_w_there - log_w[:, None], 0.0)).mean(axis=1)
    off = v - v.mean(axis=0)
    f = np.hstack([off, off**2 - (off**2).mean(axis=0)]) ** 2
    share = f / np.maximum(f.sum(axis=0), 1e-300)
    leave = [np.maximum(1 - (1 - accept) ** k, 1 / EVERY) for k in range(1, most + 1)]
    times = [float(((2 / b - 1) @ share).max()) for b in leave]
    w = np.exp(log_w_there - log_w_there.max())
    worth = float(w.mean() ** 2 / (w**2).mean())
    return [max(time, 1 / (k * worth)) for k, time in enumerate(times, start=1)]
