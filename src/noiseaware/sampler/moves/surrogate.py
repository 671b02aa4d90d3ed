"""Explore with a formula, decide with the records.

With u held, the transport move samples p(theta | u, s_dp), which is proportional to p(theta)
g(s_dp, T(F(u; theta))), and every look at T is a pass over the records. Where the model and the
query have a `Surrogate`, a formula T*(theta; u) that is close to T and does not need the records, a
whole chain of steps can be made with the formula before the records are looked at once (the
surrogate transition method: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, 9.4.3).

**The ratio.** Let pi(v) = p(theta) J(v) g(s_dp, T) be the target with u held, in unconstrained
coordinates v, and pi*(v) the same with T* in place of T. Let P be a Metropolis kernel for pi* that
chooses one of several proposals at random in each step, with probabilities that do not depend on
v. P satisfies detailed balance for pi*, and so does K = P^k, k steps of it: pi*(v) K(v, v') =
pi*(v') K(v', v). Take the end v' of the k steps as one proposal for pi. Its ratio is

    pi(v') K(v', v)     pi(v') pi*(v)
    ---------------  =  -------------,
    pi(v)  K(v, v')     pi(v) pi*(v')

so `SurrogateJump.propose` has to return log pi*(v) - log pi*(v'), and nothing is approximated. (A
fixed order of different proposals would not do: K would not be reversible.) pi* may depend on u,
which is held, and on what warm-up learned, but not on v.

**What is added to the formula.** T*(v) = A(v) + T(r) - A(r), where A is the formula, r the
posterior mean that warm-up found, and T(r) a look at the records, one for all steps with this u.
The noise of pi* is wider than that of pi, and may have a floor (`SOFTER`, `FLOOR`): whatever pi*
is, the ratio is the one above.

**The proposals of P** are those of `proposals`: two walks, a jump and, without cells, an aimed
jump. Where the formula without clamping, B, can be solved for theta, the walk that is shaped like
theta given u is made in it instead: B' = B(v) + s c b z, with the noise's scales b, and v' solves
B(v') = B'. The posterior is as wide there as the noise, whatever its shape in theta. In B the walk
is symmetric, so that in v

    q(v | v') / q(v' | v)  =  |dB / dv|(v) / |dB / dv|(v').
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.coordinates import constrain
from noiseaware.mechanisms.terms import term
from noiseaware.models.surrogates import (
    CELLS,
    REGRESSION,
    Surrogate,
    approximate,
    clamped,
    log_volume,
    solve,
    work_size,
)
from noiseaware.sampler.moves.proposals import (
    AIMED,
    DOF,
    JUMP,
    KINDS,
    SPREAD,
    WALK,
    WALK_GIVEN_U,
    WANTED,
    aim,
    centres_of,
    choose,
    factor_of,
    jump,
    leap,
    log_t,
    walk,
)
from noiseaware.sampler.moves.surrogate_cells import explore_cells, touched_by
from noiseaware.sampler.moves.tuning import Shape
from noiseaware.sampler.target import Target

SOFTER = {REGRESSION: 0.95, CELLS: 0.85}
"""pi* is given wider noise than pi: 1 / b_j, the second column of `SeparableDensity`, is multiplied by this. A
proposal that is too narrow makes the chain stick where it is not; one that is too wide does not.
The formula for cells is the rougher one."""

FLOOR = 4.0
"""With a regression, in no coordinate is pi* lowered by more than exp(-FLOOR) b_j / n: the formula
may be far off while T fits, and a chain that got there would hardly ever leave it by a proposal
that takes the formula at its word."""

WALKS_WORTH = 0.06
LEAST_SHARE = 0.05
"""Each kind of jump gets a share of the steps that is proportional to its acceptance, where both
walks together count as much as a jump with this acceptance, and no less than the least."""

STEPS = 10
FEWEST, MOST = 32, 64
"""Steps with the formula for one look at the records: so many a coordinate, within bounds."""

STEPS_PER_RECORD = {False: 0.02, True: 0.015}
MOST_EVER = 400
"""Where a pass over the records is long, more steps with the formula cost little: a third of an
iteration of Algorithm 1, and with cells a seventh."""


@njit(cache=True, nogil=True, error_model="numpy")
def log_target(
    code, integers, fixed, summary, layout, offset, terms, floor,
    v, natural, work, unclamped, total,
):  # fmt: skip
    """Return log pi*(v), up to a constant, and fill in the total without and with clamping."""
    log_jacobian = constrain(layout, v, natural)
    log_prior = approximate(code, integers, fixed, summary, natural, work, unclamped)
    clamped(code, integers, summary, unclamped, work, total)
    log_g = 0.0
    for j in range(total.shape[0]):
        total[j] += offset[j]
        log_g += max(term(terms, j, total[j]), floor[j])
    return log_prior + log_jacobian + log_g


@njit(cache=True, nogil=True, error_model="numpy")
def explore(
    code, integers, fixed, summary, layout, offset, terms, floor,
    blocks, widths, factors, means, centres, pulls, prior_pulls, prior_mean, sizes, shares,
    block_shares, uniforms, normals, waits, natural_size, solvable, v, tried, taken,
):  # fmt: skip
    """Do all steps of the chain for pi*, in place in `v`; return log pi* before and after.

    Step k uses row k of `uniforms` (its kind and its block), of `normals` (its direction and the
    spread of its size) and of `waits`, standard exponentials (a jump's radius, and acceptance).
    `tried` and `taken`, (kinds, blocks), count the steps and add up their acceptance probabilities.
    """
    natural = np.empty(natural_size)
    work = np.empty(work_size(code, integers))
    total = np.empty(offset.shape[0])
    total_there = np.empty(offset.shape[0])
    unclamped, unclamped_there = np.empty(offset.shape[0]), np.empty(offset.shape[0])
    mean_of = np.empty(blocks.shape[1])
    proposed = np.empty_like(v)
    before = log_target(
        code, integers, fixed, summary, layout, offset, terms, floor,
        v, natural, work, unclamped, total,
    )  # fmt: skip
    now = before
    for k in range(uniforms.shape[0]):
        kind, block = choose(uniforms[k], shares, block_shares, KINDS)
        width = widths[block]
        index = blocks[block, :width]
        factor = factors[kind, block, :width, :width]
        log_q = 0.0
        if kind == JUMP:
            radius = math.sqrt(0.5 * DOF / (waits[k, 0] + waits[k, 1]))
            mean = means[block, :width]
            log_q = jump(v, index, mean, factor, DOF, normals[k], radius, proposed)
        elif kind == AIMED:
            radius = math.sqrt(0.5 * DOF / (waits[k, 0] + waits[k, 1]))
            aim(v, total, index, centres, pulls[block], prior_pulls[block], prior_mean, mean_of)
            leap(v, index, mean_of, factor, normals[k], radius, proposed)
            log_q = -log_t(proposed, index, mean_of, factor, DOF)
        elif kind == WALK_GIVEN_U and solvable:
            size = sizes[kind, block] * math.exp(SPREAD * normals[k, -1])
            for j in range(total.shape[0]):
                unclamped_there[j] = unclamped[j] + size * normals[k, j] / terms[1][j, 1]
            if not solve(integers, fixed, summary, unclamped_there, proposed, work):
                tried[kind, block] += 1.0  # no such theta: refused
                continue
            log_q = log_volume(integers, v) - log_volume(integers, proposed)
        else:
            size = sizes[kind, block] * math.exp(SPREAD * normals[k, -1])
            walk(v, index, factor, size, normals[k], proposed)
        there = log_target(
            code, integers, fixed, summary, layout, offset, terms, floor,
            proposed, natural, work, unclamped_there, total_there,
        )  # fmt: skip
        if kind == AIMED:
            aim(
                proposed, total_there, index, centres, pulls[block], prior_pulls[block], prior_mean,
                mean_of,
            )  # fmt: skip
            log_q += log_t(v, index, mean_of, factor, DOF)
        log_ratio = there - now + log_q
        tried[kind, block] += 1.0
        if log_ratio > -700.0:
            taken[kind, block] += math.exp(min(0.0, log_ratio))
        if -waits[k, 2] < log_ratio < math.inf:
            v[:] = proposed
            unclamped[:] = unclamped_there
            total[:] = total_there
            now = there
    return before, now


def _floor(terms: Any, centres: np.ndarray, n: int) -> np.ndarray:
    """Return the lowest that a coordinate's part of log pi* may be, (d,); see `FLOOR`."""
    low, high = centres
    # A release may be an interval that is open below, above, or both.
    at = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    highest = [term(terms, j, total) for j, total in enumerate(at)]
    return np.array(highest) - FLOOR - np.log1p(n * terms.parameters[:, 1])


class SurrogateJump:
    """The end of a chain that was run with a formula for the total; all of theta.

    Parameters
    ----------
    surrogate
        The formula.
    blocks
        The coordinates that the chain proposes together.
    target
        What is sampled.
    """

    scratch = ("summary", "offset", "offset_unclamped", "tried", "taken")

    def __init__(self, surrogate: Surrogate, blocks: list[np.ndarray], target: Target) -> None:
        assert target.terms is not None
        self.surrogate = surrogate
        size = target.coordinates.size
        self.index = np.arange(size)
        self.steps = min(max(STEPS * size, FEWEST), MOST)
        per_record = STEPS_PER_RECORD[target.uses_cells]
        self.steps = max(self.steps, min(int(per_record * target.n), MOST_EVER))
        count, widest = len(blocks), max(map(len, blocks))
        self.widths = np.array([len(block) for block in blocks])
        self.blocks = np.zeros((count, widest), dtype=np.int64)
        for b, block in enumerate(blocks):
            self.blocks[b, : len(block)] = block
        self.factors = np.zeros((KINDS, count, widest, widest))
        self.means = np.zeros((count, widest))
        self.pulls = np.zeros((count, widest, target.d))
        self.prior_pulls = np.zeros((count, widest, size))
        self.prior_mean = np.zeros(size)
        self.centres = centres_of(target.terms)
        self.kinds = JUMP + 1 if surrogate.code == CELLS else KINDS
        self.touched = (
            touched_by(blocks, target.coordinates.layout, surrogate.integers)
            if surrogate.code == CELLS
            else None
        )
        # A block that touches more cells is harder to move, and gets more of the steps.
        weights = np.ones(count) if self.touched is None else np.sqrt(self.touched.n_cells)
        self.block_shares = weights / weights.sum()
        self.sizes = np.ones((KINDS, count))
        self.shares = np.array([0.4, 0.2, 0.4, 0.0])
        self.reference = np.zeros(size)
        self.tried = np.zeros((KINDS, count))
        self.taken = np.zeros_like(self.tried)
        self._normals = max(widest, target.d) if surrogate.solvable else widest
        self.natural_size = target.coordinates.natural_size
        self.layout = target.coordinates.layout
        softer = np.array([1.0, SOFTER[surrogate.code], 1.0, 1.0])
        self.terms = target.terms._replace(parameters=target.terms.parameters * softer)
        self.floor = np.full(target.d, -np.inf)
        if surrogate.code == REGRESSION:
            self.floor = _floor(self.terms, self.centres, target.n)
        self.summary = np.empty(0)
        self.offset = np.zeros(target.d)
        self.offset_unclamped = np.zeros(target.d)

    def take(self, shape: Shape) -> None:
        """Take the shapes of the proposals, and the posterior mean as the reference."""
        for b, width in enumerate(self.widths.tolist()):
            index = self.blocks[b, :width]
            self.factors[WALK_GIVEN_U, b, :width, :width] = factor_of(
                shape.covariance_given_u, index
            )
            marginal = factor_of(shape.covariance, index)
            self.factors[WALK, b, :width, :width] = marginal
            self.factors[JUMP, b, :width, :width] = marginal
            self.means[b, :width] = shape.mean[index]
            if self.kinds <= AIMED:
                continue
            covariance, pull, prior_pull = shape.aimed(index)
            self.factors[AIMED, b, :width, :width] = np.linalg.cholesky(covariance)
            self.pulls[b, :width] = pull
            self.prior_pulls[b, :width] = prior_pull
        self.prior_mean = shape.prior_mean
        self.reference = shape.mean.copy()

    def hold(self, target: Target, u: np.ndarray) -> None:
        """Prepare for steps with this u."""
        self.summary = self.surrogate.summarise(u)
        theta, _ = target.coordinates.from_vector(self.reference)
        at_reference = target.total(target.build(theta, u))
        unclamped, at_formula = self.formulas(self.reference)
        self.offset = at_reference - at_formula
        self.offset_unclamped = at_reference - unclamped

    def formula(self, v: np.ndarray) -> np.ndarray:
        """Return A(v), (d,), with the u that is held."""
        return self.formulas(v)[1]

    def formulas(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the total by the formula, without clamping and with it."""
        natural, unclamped = np.empty(self.natural_size), np.full(len(self.offset), np.nan)
        constrain(self.layout, v, natural)
        code, integers, fixed = self.surrogate[:3]
        work, total = np.empty(work_size(code, integers)), np.empty_like(unclamped)
        approximate(code, integers, fixed, self.summary, natural, work, unclamped)
        clamped(code, integers, self.summary, unclamped, work, total)
        return unclamped, total

    def note(self, log_ratio: float) -> None:
        """Nothing to note: what is tuned are the steps with the formula."""

    def tune(self, count: int) -> None:
        """Tune the walks' sizes and the shares of all, after `count` iterations.

        Robbins-Monro for both: the sizes on their logarithms, the shares towards what the
        acceptance of the last steps speaks for.
        """
        rate = 1.0 / math.sqrt(count)
        excess = self.taken - WANTED * self.tried
        many = np.maximum(self.tried, 1.0)
        self.sizes[:JUMP] *= np.exp(2.0 * rate * excess / many)[:JUMP]
        np.clip(self.sizes, 1e-4, 10.0, out=self.sizes)
        worth = self.taken.sum(axis=1) / np.maximum(self.tried.sum(axis=1), 1.0)
        worth[:JUMP] = 2.0 / 3.0 * WALKS_WORTH, 1.0 / 3.0 * WALKS_WORTH
        worth[self.kinds :] = 0.0
        wanted = LEAST_SHARE + (1.0 - self.kinds * LEAST_SHARE) * worth / worth.sum()
        wanted[self.kinds :] = 0.0
        self.shares += min(1.0, 2.0 * rate) * (wanted - self.shares)
        self.tried[:] = 0.0
        self.taken[:] = 0.0

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw the random numbers of `steps` proposals."""
        shape = (steps, self.steps)
        return (
            rng.random((*shape, 2)),
            rng.standard_normal((*shape, self._normals + 1)),
            rng.standard_exponential((*shape, 3)),
        )

    def propose(self, v: np.ndarray, prepared: tuple[Any, ...], k: int, proposed) -> float:
        """Fill `proposed` with the end of the k-th chain; return log pi*(v) - log pi*(v')."""
        uniforms, normals, waits = prepared
        proposed[:] = v
        code, integers, fixed = self.surrogate[:3]
        if self.touched is None:
            before, after = explore(
                code, integers, fixed, self.summary, self.layout, self.offset, self.terms,
                self.floor, self.blocks, self.widths, self.factors, self.means, self.centres,
                self.pulls, self.prior_pulls, self.prior_mean, self.sizes, self.shares,
                self.block_shares, uniforms[k], normals[k], waits[k], self.natural_size,
                self.surrogate.solvable, proposed, self.tried, self.taken,
            )  # fmt: skip
        else:
            before, after = explore_cells(
                integers, fixed, self.touched, self.offset, self.terms, self.blocks, self.widths,
                self.factors, self.means, self.sizes, self.shares, self.block_shares, uniforms[k],
                normals[k], waits[k], self.natural_size, proposed, self.tried, self.taken,
            )  # fmt: skip
        return before - after
