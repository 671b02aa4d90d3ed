"""Proposals for theta in the transport move, and their part of the ratio.

All but the prior's work on the unconstrained vector v, and each learns its own geometry in warm-up.

- `Walk`: v' = v + s c L z, z standard normal, in one block of coordinates. Symmetric, so its part
  is 0. L is the Cholesky factor of the block's posterior covariance, or of its covariance given u
  (`geometry`); s is tuned; c is a random factor that does not depend on v, so that steps of several
  sizes are tried.
- `Jump`: v' from q, independent of v; its part is log q(v) - log q(v'). q is a multivariate Student
  t with the block's posterior mean and covariance, mixed with another that has those of the prior
  (a defensive mixture: Hesterberg 1995). Right where the noise is so large that theta given u is
  almost theta given s_dp. The prior's part is for what warm-up did not see. Sums of clamped records
  leave a small chance that a mean lies far beyond the bounds, where every record is clamped; an
  independent jump that has q = 0 there is refused on the way in, and on the way out. In many
  dimensions draws from the prior hardly ever fit, so some jumps redraw one parameter only.
- `PriorJump`: all of theta from the prior. q is then the prior itself, and the acceptance ratio
  of `transport` is g' / g: nothing else is left. Right where the release says very little, in any
  number of dimensions.

`exploring` adds one with a formula for T: a model's own (`formula`), or one learned in warm-up
(`learned`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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

PRIOR_SHARE = 0.1
"""Share of jumps to where the prior is. It costs as large a share of the others, and with it the
ratio pi / q is nowhere more than about ten times g. `python -m benchmarks ablation` has a run
without it."""

PART_SHARE = 0.25
"""Share of jumps that redraw one parameter, half of them to where the prior is; likewise."""


class Proposal:
    """A way to propose theta; the defaults are for a proposal that learns nothing."""

    needs_v: bool = True
    """Whether it proposes a vector v. If not, theta is drawn from the prior and `propose` is not
    called."""
    always: bool = False
    """It gets a share of the steps: it leads to and from places where a learned geometry is
    wrong."""
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


class Laws(NamedTuple):
    """The two Student t laws of a mixture: of the posterior, and of the prior.

    Attributes
    ----------
    means, factors
        Locations, (2, k), and Cholesky factors of the scale matrices, (2, k, k).
    log_shares
        log(1 - s) and log s, (2,).
    """

    means: np.ndarray
    factors: np.ndarray
    log_shares: np.ndarray

    @staticmethod
    def unknown(k: int, prior_share: float) -> Laws:
        """Return laws of which nothing is known yet."""
        shares = np.log([1.0 - prior_share, prior_share])
        return Laws(np.zeros((2, k)), np.stack([np.eye(k), np.eye(k)]), shares)


@njit(cache=True, nogil=True, **UNCOUNTED)
def log_student(v, index, mean, factor, scratch):
    """Return log t of v in the coordinates `index`, up to a constant that all such laws share."""
    k = index.shape[0]
    log_height, distance = 0.0, 0.0
    for a in range(k):
        residual = v[index[a]] - mean[a]
        for b in range(a):
            residual -= factor[a, b] * scratch[b]
        scratch[a] = residual / factor[a, a]
        distance += scratch[a] ** 2
        log_height -= math.log(factor[a, a])
    return log_height - 0.5 * (DOF + k) * math.log1p(distance / DOF)


@njit(cache=True, nogil=True, **UNCOUNTED)
def log_mixture(v, index, laws, scratch):
    """Return log q(v) = log((1 - s) t_posterior(v) + s t_prior(v)), up to a constant."""
    means, factors, log_shares = laws
    own = log_shares[0] + log_student(v, index, means[0], factors[0], scratch)
    wide = log_shares[1] + log_student(v, index, means[1], factors[1], scratch)
    return max(own, wide) + math.log1p(math.exp(-abs(own - wide)))


@njit(cache=True, nogil=True, **UNCOUNTED)
def mixed_jump(v, index, laws, law, normals, radius, proposed):
    """Fill `proposed` with a draw from one of the laws; return log q(v) - log q(v').

    As `jump`; q is the mixture, whichever law the draw is from. `normals` are overwritten.
    """
    jump(v, index, laws.means[law], laws.factors[law], DOF, normals, radius, proposed)
    return log_mixture(v, index, laws, normals) - log_mixture(proposed, index, laws, normals)


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

    always = True
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
    """An independent draw of a block, or of a part of it, from a mixture of posterior and prior.

    The first geometry that it is given is the prior's.

    Parameters
    ----------
    index, block
        The coordinates of the block, and its number.
    parts
        The coordinates of each parameter in it, if there are several.
    """

    always = True
    learned = ("laws",)

    def __init__(self, index: np.ndarray, block: int, parts: Sequence[np.ndarray] = ()) -> None:
        self.index, self.block, self.fitted = [index, *parts], block, False
        self.prior_shares = [PRIOR_SHARE, *(0.5 for _ in parts)]
        widths_shares = zip(map(len, self.index), self.prior_shares, strict=True)
        self.laws = [Laws.unknown(k, share) for k, share in widths_shares]

    def set_geometry(self, geometry: Geometry) -> None:
        which = slice(0, 1 if self.fitted else 2)
        for index, laws in zip(self.index, self.laws, strict=True):
            laws.means[which] = geometry.mean[index]
            laws.factors[which] = factor_of(geometry.covariance, index)
        self.fitted = True

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        normals = rng.standard_normal((steps, len(self.index[0])))
        part = [0] * steps
        if len(self.laws) > 1:
            which = rng.integers(1, len(self.laws), steps)
            part = np.where(rng.random(steps) < PART_SHARE, which, 0).tolist()
        uniforms = rng.random(steps).tolist()
        law = [int(u < self.prior_shares[j]) for u, j in zip(uniforms, part, strict=True)]
        return normals, [student_radius(rng) for _ in range(steps)], part, law

    def propose(self, v, prepared, k, proposed) -> float:
        normals, radius, part, law = prepared
        index, laws = self.index[part[k]], self.laws[part[k]]
        return mixed_jump(v, index, laws, law[k], normals[k], radius[k], proposed)

    def log_density(self, v: np.ndarray) -> float:
        return log_mixture(v, self.index[0], self.laws[0], np.empty(len(self.index[0])))
