"""Carry the database along with the parameters.

Algorithm 1 moves theta with the records held and the records with theta held. When the privacy
noise is large, the release pins down neither, the two move only together, and the chain crawls.
Write the records as x_i = F(u_i; theta), with innovations u_i from a fixed distribution, and move
theta with *u* held: every record follows.

**The ratio.** In the coordinates (theta, u) the joint posterior is

    p(theta, u | s_dp)  proportional to  p(theta) p(u) g(s_dp, T(F(u; theta))),

because x = F(u; theta) with u ~ p(u) is how f(x | theta) makes x. With u held, p(u) cancels, and a
proposal v' ~ q(. | v) in unconstrained coordinates v (theta = theta(v), Jacobian J(v)) is accepted
with probability min(1, r),

    r =  p(theta') J(v') g(s_dp, T(F(u; theta')))  q(v | v')
        ------------------------------------------------------.
         p(theta ) J(v ) g(s_dp, T(F(u; theta )))  q(v' | v)

No density of the records appears, so none is needed: a model that only gives a prior and F can be
sampled. The cost is one pass over the records.

**Where u comes from.** The move acts on (theta, x): u is drawn from p(u | x, theta), theta is
moved with u held, and x = F(u; theta') is put back. Where F is invertible in u, u is F's inverse at
x. A discrete record is F(u) for a whole interval of u, and u is drawn uniformly from it, afresh in
each move. Both leave p(theta, x | s_dp) alone, because p(theta, x, u | s_dp) has it as its margin.
A model that is only a simulator carries u in its state.

**Proposals**, for a block of coordinates at a time, all steps with the same u:

- *walk*: v' = v + s L z, z standard normal; symmetric, so its q cancels. L is the Cholesky factor
  of the block's posterior covariance, and s is tuned to accept a third of the time, then spread
  by a random factor that does not depend on v, so that steps of several sizes are tried.
- *jump*: v' from a multivariate Student t with the block's posterior mean and covariance,
  independent of v; q(v) / q(v') is in the ratio. It is best when the noise is so large that
  theta given u is almost theta given s_dp; its heavy tails keep the ratio bounded where the
  posterior's tails are exponential, as Laplace noise makes them.

Mean, covariance, s, the share of jumps and the number of steps are learned in warm-up and then
frozen. This is the ancillary half of an interweaving scheme (Yu and Meng 2011, "To center or not
to center"); `ParameterUpdate` is the other half, and each is fast where the other is slow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.sampler.moves.tuning import Block, choose_steps
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

DOF = 4.0
"""Degrees of freedom of the jump's Student t; chi-square(4) is twice a sum of two exponentials."""

SPREAD = 0.7
"""Standard deviation of the logarithm of the walk's random factor."""

LARGEST_BLOCK = 12
"""Coordinates that are proposed together; more would need steps that are too small."""

FIRST_WINDOW = 32
"""The shape is learned anew when the number of warm-up iterations reaches this, twice this, ..."""


@njit(cache=True, nogil=True)
def walk(v, index, factor, size, normals, proposed):
    """Fill `proposed` with v + size * L z in the coordinates `index`."""
    for j in range(v.shape[0]):
        proposed[j] = v[j]
    for a in range(index.shape[0]):
        step = 0.0
        for b in range(a + 1):
            step += factor[a, b] * normals[b]
        proposed[index[a]] += size * step


@njit(cache=True, nogil=True)
def jump(v, index, mean, factor, dof, normals, radius, proposed):
    """Fill `proposed` with a Student t draw in the coordinates `index`.

    Returns log q(v) - log q(v'), q the t density with location `mean` and scale matrix L L'; the
    normalising constant cancels. `radius` is sqrt(dof / chi-square(dof)).
    """
    k = index.shape[0]
    for j in range(v.shape[0]):
        proposed[j] = v[j]
    here, there = 0.0, 0.0
    whitened = np.empty(k)
    for a in range(k):
        step = 0.0
        residual = v[index[a]] - mean[a]
        for b in range(a):
            step += factor[a, b] * normals[b]
            residual -= factor[a, b] * whitened[b]
        step += factor[a, a] * normals[a]
        whitened[a] = residual / factor[a, a]
        proposed[index[a]] = mean[a] + radius * step
        here += whitened[a] ** 2
        there += (radius * normals[a]) ** 2
    return -0.5 * (dof + k) * (math.log1p(here / dof) - math.log1p(there / dof))


class Transport:
    """Move theta and rebuild every record with the same innovations.

    Parameters
    ----------
    steps : int, optional
        Proposals for each block of coordinates in an iteration. None chooses in warm-up.
    """

    reports = ("transport_acceptance",)

    def __init__(self, steps: int | None = None) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return "Transport()" if self.steps is None else f"Transport(steps={self.steps})"

    def check(self, target: Target) -> None:
        """Raise if the model does not build its records from innovations."""
        if not target.can_transport:
            raise ValueError(
                f"Transport needs a model with innovations, build_records and, if it has "
                f"update_parameters, recover_innovations; {type(target.model).__name__} lacks them"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin with the prior's mean and covariance, from draws of it."""
        rng = state.rng
        to_vector = target.coordinates.to_vector
        sample = np.stack([to_vector(target.model.sample_prior(rng)) for _ in range(200)])
        blocks = [Block(index, self.steps) for index in target.coordinates.blocks(LARGEST_BLOCK)]
        for block in blocks:
            block.learn_shape(sample)
        return {"blocks": blocks, "history": [], "last": None, "warming": True}

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Do all steps with one u; report the share accepted."""
        if not any(block.steps for block in tuning["blocks"]):
            return (math.nan,)
        model, rng = target.model, state.rng
        v = target.coordinates.to_vector(state.theta)
        theta, log_jacobian = target.coordinates.from_vector(v)
        if target.holds_innovations:
            u = state.innovations
        else:
            u = model.recover_innovations(state.theta, state.records, rng)
        log_now = model.log_prior(theta) + log_jacobian + target.log_g(target.total(state.records))
        warming = tuning["warming"]
        records = None
        proposed = np.empty_like(v)
        accepted = tried = 0
        for block in tuning["blocks"]:
            if warming and tuning["last"] is not None:
                block.note_outside(v, tuning["last"])
            if block.steps == 0:
                continue
            normals = rng.standard_normal((block.steps, len(block.index) + 1))
            waits = rng.standard_exponential((4, block.steps))
            log_uniform = (-waits[0]).tolist()
            jumps = (waits[1] < -math.log1p(-block.jump_share)).tolist()
            radius = np.sqrt(0.5 * DOF / (waits[2] + waits[3])).tolist()
            size = (block.size * np.exp(SPREAD * normals[:, -1])).tolist()
            for k in range(block.steps):
                if jumps[k]:
                    log_q = jump(
                        v,
                        block.index,
                        block.mean,
                        block.factor,
                        DOF,
                        normals[k],
                        radius[k],
                        proposed,
                    )
                else:
                    log_q = 0.0
                    walk(v, block.index, block.factor, size[k], normals[k], proposed)
                theta_new, log_jacobian = target.coordinates.from_vector(proposed)
                candidates = model.build_records(theta_new, u)
                log_new = (
                    model.log_prior(theta_new)
                    + log_jacobian
                    + target.log_g(target.total(candidates))
                )
                log_ratio = log_new - log_now + log_q
                accept = log_uniform[k] < log_ratio
                if warming:
                    block.note_step(jumps[k], log_ratio, v, proposed, accept)
                tried += 1
                if accept:
                    accepted += 1
                    log_now, theta, records = log_new, theta_new, candidates
                    v, proposed = proposed, v
        if records is not None:
            state.theta = theta
            state.records = records
        if warming:
            tuning["last"] = v.copy()
        return (accepted / max(1, tried),)

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Learn the shape from the later half of the history, at 32, 64, 128, ... iterations."""
        history = tuning["history"]
        history.append(tuning["last"])
        count = len(history)
        for block in tuning["blocks"]:
            block.tune_size(count)
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            recent = np.stack(history[count // 2 :])
            for block in tuning["blocks"]:
                block.learn_shape(recent)
                block.choose_kind()
                block.start_counting()

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Learn for the last time, choose the number of steps, and drop the history."""
        history = tuning["history"]
        recent = np.stack(history[len(history) // 2 :])
        for block in tuning["blocks"]:
            block.learn_shape(recent)
            block.choose_kind()
        if self.steps is None:
            choose_steps(tuning["blocks"], target.n, at_least_one=not target.can_update)
        tuning.update(history=[], last=None, warming=False)
