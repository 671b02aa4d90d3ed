"""Proposals for theta in the transport move, and their part of the ratio.

All but the prior's work on the unconstrained vector v, and each learns its own geometry in warm-up.

- `Walk`: v' = v + s c L z, z standard normal, in one block of coordinates. Symmetric, so its part
  is 0. L is the Cholesky factor of the block's posterior covariance, or of its covariance given u
  (`geometry`); s is tuned; c is a random factor that does not depend on v, so that steps of several
  sizes are tried.
- `Jump`: v' from a multivariate Student t with the block's posterior mean and covariance,
  independent of v; its part is log t(v) - log t(v'). Right where the noise is so large that theta
  given u is almost theta given s_dp. Its tails are heavier than those that Laplace noise gives
  the posterior, so that no point is hard to leave.
- `PriorJump`: all of theta from the prior. q is then the prior itself, and the acceptance ratio
  of `transport` is g' / g: nothing else is left. Right where the release says very little, in any
  number of dimensions.

`exploring` adds one with a formula for T: a model's own (`formula`), or one learned in warm-up
(`learned`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from noiseaware.basics.adapt import StepSize
from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.target import Target

WANTED = 0.3
"""Share of walks to accept, between the optima of one (0.44) and many (0.23) dimensions."""

SPREAD = 1.2
"""Standard deviation of the logarithm of the walk's random factor: steps from a tenth to ten times
the tuned size. `python -m benchmarks ablation` has a run without it."""

DOF = 4.0
"""Degrees of freedom of the jump; chi-square(4) is twice a sum of two standard exponentials."""


class Proposal:
    """A way to propose theta; the defaults are for a proposal that learns nothing."""

    needs_v: bool = True
    """Whether it proposes a vector v. If not, theta is drawn from the prior and `propose` is not
    called."""
    walks: bool = False
    """Whether it leads back from far out, where a learned geometry is wrong."""
    block: int | None = None
    """The only block of coordinates whose learned geometry it uses."""
    if_needed: bool = False
    """Whether it is made only if the others are not enough; `learn_formula` is called before."""
    formula_total: Callable[[np.ndarray], np.ndarray] | None = None
    """v -> T by the formula it works with, if any; after `condition_on`."""
    more_calls: float = 0.0
    """The cost of a step beyond building the records, in calls; see `tuning.costs`."""
    span: int = 0
    """The largest n of its formula, if it needs a row whose first `span` entries move together."""
    learned: tuple[str, ...] = ()
    """What it learns; see `contract.HeldAbilities`."""

    def set_geometry(self, geometry: Geometry) -> None:
        """Take what warm-up has learned so far."""

    def learn_formula(self, here: Any, geometry: Geometry) -> None:
        """Learn a formula from looks at the records at and around `here`."""

    def condition_on(self, target: Target, row: Row) -> None:
        """Prepare for steps with these u."""

    def record(self, log_ratio: float) -> None:
        """Record the log ratio of a step of warm-up."""

    def tune(self, count: int) -> None:
        """Tune what is not geometry, after `count` iterations of warm-up."""

    def prepare(self, steps: int, rng: np.random.Generator) -> Any:
        """Draw the random numbers of `steps` proposals."""
        return None

    def propose(self, v: np.ndarray, prepared: Any, k: int, proposed: np.ndarray) -> float:
        """Fill `proposed` with the k-th prepared proposal; return log q(v | v') - log q(v' | v)."""
        return 0.0

    def log_density(self, v: np.ndarray) -> float:
        """Return log q(v), up to a constant, for a jump from the learned geometry; else 0."""
        return 0.0


@njit(cache=True, nogil=True, **UNCOUNTED)
def walk(v, index, factor, size, normals, proposed):
    """Fill `proposed` with v + size * L z in the coordinates `index`."""
    copy_vector(v, proposed)
    for a in range(index.shape[0]):
        step = 0.0
        for b in range(a + 1):
            step += factor[a, b] * normals[b]
        proposed[index[a]] += size * step


@njit(cache=True, nogil=True, **UNCOUNTED)
def jump(v, index, mean, factor, dof, normals, radius, proposed):
    """Fill `proposed` with a Student t draw in the coordinates `index`.

    Returns log t(v) - log t(v'), where t has location `mean`, scale matrix L L' and `dof` degrees
    of freedom: log t(v) = -(dof + k)/2 log(1 + |L^-1 (v - mean)|^2 / dof) + constant. `radius` is
    sqrt(dof / chi-square(dof)), so that v' = mean + radius L z.
    """
    k = index.shape[0]
    copy_vector(v, proposed)
    here, there = 0.0, 0.0
    for a in range(k):
        residual = v[index[a]] - mean[a]
        for b in range(a):
            residual -= factor[a, b] * proposed[index[b]]
        whitened = residual / factor[a, a]
        proposed[index[a]] = whitened  # until the proposal takes its place
        here += whitened**2
        there += (radius * normals[a]) ** 2
    for a in range(k):
        step = 0.0
        for b in range(a + 1):
            step += factor[a, b] * normals[b]
        proposed[index[a]] = mean[a] + radius * step
    return -0.5 * (dof + k) * (math.log1p(here / dof) - math.log1p(there / dof))


def student_radius(rng: np.random.Generator) -> float:
    """Return a draw of sqrt(dof / chi-square(dof))."""
    first, second = rng.standard_exponential(2).tolist()
    return math.sqrt(0.5 * DOF / (first + second))


def factor_of(covariance: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a block of a covariance."""
    return np.ascontiguousarray(np.linalg.cholesky(covariance[np.ix_(index, index)]))


class PriorJump(Proposal):
    """An independent draw of all of theta from the prior; its ratio is that of g alone."""

    needs_v = False


class Walk(Proposal):
    """A random walk in one block of coordinates, shaped like theta given s_dp or given u too."""

    walks = True
    learned = ("factor", "step_size")

    def __init__(self, index: np.ndarray, block: int, *, given_u: bool) -> None:
        self.index, self.block, self.given_u = index, block, given_u
        self.factor = np.eye(len(index))
        self.step_size = StepSize(1.0, WANTED)

    def set_geometry(self, geometry: Geometry) -> None:
        covariance = geometry.covariance_given_u if self.given_u else geometry.covariance
        self.factor = factor_of(covariance, self.index)

    def record(self, log_ratio: float) -> None:
        self.step_size.note(log_ratio)

    def tune(self, count: int) -> None:
        self.step_size.tune(count)

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        normals = rng.standard_normal((steps, len(self.index) + 1))
        size = self.step_size.size
        return normals, [size * math.exp(SPREAD * z) for z in normals[:, -1].tolist()]

    def propose(self, v, prepared, k, proposed) -> float:
        normals, sizes = prepared
        walk(v, self.index, self.factor, sizes[k], normals[k], proposed)
        return 0.0


class Jump(Proposal):
    """An independent draw from a Student t fitted to the posterior, in one block."""

    learned = ("mean", "factor")

    def __init__(self, index: np.ndarray, block: int) -> None:
        self.index, self.block = index, block
        self.mean = np.zeros(len(index))
        self.factor = np.eye(len(index))

    def set_geometry(self, geometry: Geometry) -> None:
        self.mean = np.ascontiguousarray(geometry.mean[self.index])
        self.factor = factor_of(geometry.covariance, self.index)

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        normals = rng.standard_normal((steps, len(self.index)))
        return normals, [student_radius(rng) for _ in range(steps)]

    def propose(self, v, prepared, k, proposed) -> float:
        normals, radius = prepared
        return jump(v, self.index, self.mean, self.factor, DOF, normals[k], radius[k], proposed)

    def log_density(self, v: np.ndarray) -> float:
        z = np.linalg.solve(self.factor, v[self.index] - self.mean)
        return -0.5 * (DOF + len(z)) * math.log1p(float(z @ z) / DOF)
