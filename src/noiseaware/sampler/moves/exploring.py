"""Explore with a formula for the total, decide with the records.

With u held, the transport move samples p(theta | u, s_dp), proportional to p(theta) g(s_dp, T(F(u;
theta))), and every look at T is a pass over the records. Given a formula T*(theta; u) close to T
that does not need the records, a whole chain of steps can be made for each look at the records (the
surrogate transition method: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, 9.4.3). A
model and a query may supply such a formula (`formula`); otherwise warm-up can learn one
(`learned`).

**The ratio.** Let pi(v) = p(theta) J(v) g(s_dp, T) be the target with u held, in unconstrained
coordinates v, and pi*(v) the same with T* in place of T. Let P be a Metropolis kernel for pi* that
picks one of several proposals at random in each step, with probabilities that do not depend on v. P
satisfies detailed balance for pi*, and so does K = P^k, k steps of it: pi*(v) K(v, v') = pi*(v')
K(v', v). Take the end v' of the k steps as one proposal for pi. Its ratio is

    pi(v') K(v', v)     pi(v') pi*(v)
    ---------------  =  -------------,
    pi(v)  K(v, v')     pi(v) pi*(v')

so `ExploringJump.propose` returns log pi*(v) - log pi*(v'), and nothing is approximated. (A fixed
order of different proposals would not do: K would not be reversible.) pi* may depend on u, which is
held, and on what warm-up learned, but not on v.

**The correction of the formula.** T*(v) = A(v) + T(r) - A(r), where A is the formula, r the
posterior mean found in warm-up, and T(r) takes one look at the records for all steps with this u.
The noise of pi* is wider than that of pi; the ratio above holds for any pi*.

**The proposals of P** are those of `proposals`: two walks and a jump.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.adapt import log_change
from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.mechanisms.terms import SeparableDensity
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.proposals import (
    DOF,
    SPREAD,
    WANTED,
    Proposal,
    factor_of,
    jump,
    walk,
)
from noiseaware.sampler.target import Target

WALK_GIVEN_U, WALK, JUMP = range(3)
KINDS = 3
"""The proposals of the chain, in this order."""

STEPS = 64
"""Steps with the formula for one look at the records; `benchmarks ablation` has half and twice."""

STEPS_A_CALL = 16.0
"""Steps with the formula that cost about as much as the calls of one pass over the records; `python
-m benchmarks steps` prints both costs."""


class Noise(NamedTuple):
    """The noise of pi*: the terms of log g, and (T(r) - A(r)) / n, (d,)."""

    terms: SeparableDensity
    offset: np.ndarray


class Steps(NamedTuple):
    """The proposals of the chain; lists of different lengths are padded with zeros.

    Attributes
    ----------
    blocks, widths
        The coordinates proposed together, and their number.
    factors, sizes
        Cholesky factors and sizes, by kind and block.
    means
        Of a jump, by block.
    shares, block_shares
        The probabilities of the kinds and of the blocks.
    """

    blocks: np.ndarray
    widths: np.ndarray
    factors: np.ndarray
    sizes: np.ndarray
    means: np.ndarray
    shares: np.ndarray
    block_shares: np.ndarray


class Numbers(NamedTuple):
    """Random numbers, a row for each step.

    Uniforms for its kind and block; normals for its direction and the spread of its size; standard
    exponentials (waits) for a jump's radius and for acceptance.
    """

    uniforms: np.ndarray
    normals: np.ndarray
    waits: np.ndarray


class Counts(NamedTuple):
    """How many times each kind was tried in each block, and its summed acceptance probabilities."""

    tried: np.ndarray
    taken: np.ndarray


@njit(cache=True, nogil=True, **UNCOUNTED)
def pick(uniform, shares):
    """Return which of the shares a uniform number falls into."""
    place, below = 0, shares[0]
    while place < shares.shape[0] - 1 and uniform >= below:
        place += 1
        below += shares[place]
    return place


@njit(cache=True, nogil=True, **UNCOUNTED)
def radius_of(numbers, k):
    """Return the radius of step k, a Student t."""
    return math.sqrt(0.5 * DOF / (numbers.waits[k, 0] + numbers.waits[k, 1]))


@njit(cache=True, nogil=True, **UNCOUNTED)
def size_of(steps, kind, block, numbers, k):
    """Return the size of step k, a walk."""
    return steps.sizes[kind, block] * math.exp(SPREAD * numbers.normals[k, -1])


@njit(cache=True, nogil=True, **UNCOUNTED)
def propose_step(steps, kind, block, numbers, k, v, proposed):
    """Fill `proposed` with a jump or a walk; return log q(v | v') - log q(v' | v)."""
    index = steps.blocks[block, : steps.widths[block]]
    factor = steps.factors[kind, block]
    normals = numbers.normals[k]
    if kind == JUMP:
        return jump(
            v, index, steps.means[block], factor, DOF, normals, radius_of(numbers, k), proposed
        )
    walk(v, index, factor, size_of(steps, kind, block, numbers, k), normals, proposed)
    return 0.0


@njit(cache=True, nogil=True, **UNCOUNTED)
def accepts(log_ratio, counts, kind, block, wait):
    """Count a step, and return whether it is accepted."""
    counts.tried[kind, block] += 1.0
    if log_ratio > -700.0:
        counts.taken[kind, block] += math.exp(min(0.0, log_ratio))
    return -wait < log_ratio < math.inf


def _filled_up(lists: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return lists as the zero-padded rows of one array, and their lengths."""
    lengths = np.array([len(one) for one in lists])
    array = np.zeros((len(lists), lengths.max()), dtype=np.int64)
    for row, one in zip(array, lists, strict=True):
        row[: len(one)] = one
    return array, lengths


class ExploringJump(Proposal):
    """The end of a chain run with a formula for the total; moves all of theta.

    Parameters
    ----------
    blocks
        The coordinates that the chain proposes together.
    target
        The target.

    Attributes
    ----------
    mean
        The posterior mean of v: r.
    """

    scratch: tuple[str, ...] = ("counts", "noise")
    learned: tuple[str, ...] = ("mean", "steps")
    if_needed = True
    softer = 0.95
    """pi* has wider noise than pi: 1 / b_j, the second column of the terms, is multiplied by this.
    A chain gets stuck where pi* is lower than pi, never where it is higher. Measured by `python -m
    benchmarks ablation`."""

    def __init__(self, blocks: list[np.ndarray], target: Target) -> None:
        assert target.terms is not None
        self.coordinates = target.coordinates
        self.mean = np.zeros(target.moved.size)
        self.formula_total = self.total
        self.formula_steps = STEPS
        self.more_calls = STEPS / STEPS_A_CALL
        count, widest = len(blocks), max(map(len, blocks))
        self.steps = Steps(
            *_filled_up(blocks),
            factors=np.zeros((KINDS, count, widest, widest)),
            sizes=np.ones((KINDS, count)),
            means=np.zeros((count, widest)),
            shares=np.full(KINDS, 1.0 / KINDS),
            block_shares=np.full(count, 1.0 / count),
        )
        self.counts = Counts(np.zeros((KINDS, count)), np.zeros((KINDS, count)))
        wider = target.terms.parameters * np.array([1.0, self.softer, 1.0, 1.0])
        self.noise = Noise(
            target.terms._replace(parameters=wider),
            offset=np.zeros(target.d),
        )
        self._normals = widest

    def total(self, v: np.ndarray) -> np.ndarray:
        """Return A(v), (d,), with the u that is held."""
        raise NotImplementedError

    def set_geometry(self, geometry: Geometry) -> None:
        self.mean = geometry.mean.copy()
        for b, width in enumerate(self.steps.widths.tolist()):
            index = self.steps.blocks[b, :width]
            factors = self.steps.factors[:, b, :width, :width]
            factors[WALK_GIVEN_U] = factor_of(geometry.covariance_given_u, index)
            factors[WALK] = factors[JUMP] = factor_of(geometry.covariance, index)
        self.steps = self.steps._replace(means=self.mean[self.steps.blocks])

    def tune(self, count: int) -> None:
        tried, taken = self.counts
        sizes = self.steps.sizes
        for at in np.argwhere(tried[:JUMP]):
            kind, block = at.tolist()
            acceptance = float(taken[kind, block] / tried[kind, block])
            size = sizes[kind, block] * math.exp(log_change(acceptance, WANTED, count, gain=2.0))
            sizes[kind, block] = min(max(size, 1e-4), 10.0)
        tried[:] = 0.0
        taken[:] = 0.0

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        shape = (steps, self.formula_steps)
        return (
            rng.random((*shape, 2)),
            rng.standard_normal((*shape, self._normals + 1)),
            rng.standard_exponential((*shape, 3)),
        )

    def propose(self, v, prepared, k, proposed) -> float:
        """Fill `proposed` with the end of the k-th chain; return log pi*(v) - log pi*(v')."""
        proposed[:] = v
        before, after = self.explore(Numbers(*(numbers[k] for numbers in prepared)), proposed)
        return before - after

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        """Run the chain, in place in v; return log pi* before and after."""
        raise NotImplementedError
