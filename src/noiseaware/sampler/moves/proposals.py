"""Proposals for theta in the transport move: where to go, and the proposal's part of the ratio.

All but the prior's work on the unconstrained vector v, and each learns its own geometry in warm-up.

- `Walk`: v' = v + s c L z, z standard normal, in one block of coordinates. Symmetric, so its part
  is 0. L is the Cholesky factor of the block's posterior covariance, or of its covariance given u
  (`geometry`); s is tuned; c is a random factor that does not depend on v, so that steps of several
  sizes are tried.
- `Jump`: v' from a multivariate Student t with the block's posterior mean and covariance,
  independent of v; its part is log t(v) - log t(v'). Right where the noise is so large that theta
  given u is almost theta given s_dp. Its tails are heavier than those that Laplace noise gives
  the posterior, so that no point is hard to leave.
- `AimedJump`: v' from a Student t around m(v), the point where T would come to s_dp if T were
  linear in v and noise and prior were normal (`Geometry.aimed`). m depends on v and on T(v), so
  its part is log t(v; m(v')) - log t(v'; m(v)), and needs T(v') first: `propose` gives minus the
  second and `log_reverse` the first. Right where the noise is about as large as the sampling error:
  theta given u is then narrower than theta given s_dp, and elsewhere for every u.
- `PriorJump`: all of theta from the prior. q is then the prior itself, and the acceptance ratio
  of `transport` is g' / g: nothing else is left. Right where the release says very little, in any
  number of dimensions.

`formula` has two more, for models and queries with a formula for T.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numba import njit

from noiseaware.mechanisms.terms import BETWEEN, TRUNCATED, SeparableDensity
from noiseaware.sampler.moves.geometry import Geometry

WANTED = 0.3
"""Share of walks to accept: between the optima of one (0.44) and many (0.23) dimensions."""

SPREAD = 1.2
"""Standard deviation of the logarithm of the walk's random factor."""

DOF = 4.0
"""Degrees of freedom of the jump; chi-square(4) is twice a sum of two standard exponentials."""


class Proposal(Protocol):
    """One way to propose theta; the defaults are those of a proposal that learns nothing."""

    needs_v: bool = True
    """It proposes a vector v. Otherwise theta is drawn from the prior, and `propose` not called."""
    walks: bool = False
    """It leads back from far out, where a learned geometry is wrong."""
    block: int | None = None
    """The block of coordinates whose learned geometry it uses, and nothing else."""
    held: Any = None
    """The `HeldFormula` that it works with: to be conditioned on u before the first step."""
    formula_steps: int = 0
    """Steps with the formula in one step."""
    learning_steps: int = 2
    """Steps in an iteration of warm-up; early on only walks get anywhere."""

    def set_geometry(self, geometry: Geometry) -> None:
        """Take what warm-up has learned so far."""
        return

    def record(self, log_ratio: float) -> None:
        """Take note of the log ratio of a step of warm-up."""
        return

    def tune(self, count: int) -> None:
        """Tune what is not geometry, after `count` iterations of warm-up."""
        return

    def prepare(self, steps: int, rng: np.random.Generator) -> Any:
        """Draw the random numbers of `steps` proposals."""
        return None

    def propose(
        self, v: np.ndarray, total: np.ndarray, prepared: Any, k: int, proposed: np.ndarray
    ) -> float:
        """Fill `proposed` with the k-th prepared proposal from v, where T is `total`.

        Returns log q(v | v') - log q(v' | v), without what `log_reverse` adds.
        """
        return 0.0

    def log_reverse(self, v: np.ndarray, proposed: np.ndarray, total: np.ndarray) -> float:
        """Return what is known of log q(v | v') only with T at v'."""
        return 0.0


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

    Returns log t(v) - log t(v'), where t has location `mean`, scale matrix L L' and `dof` degrees
    of freedom: log t(v) = -(dof + k)/2 log(1 + |L^-1 (v - mean)|^2 / dof) + constant. `radius` is
    sqrt(dof / chi-square(dof)), so that v' = mean + radius L z.
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


@njit(cache=True, nogil=True)
def aim(v, total, index, centres, pull, prior_pull, prior_mean, mean):
    """Fill `mean` with where the release and the prior pull the coordinates `index`.

    T is to come into `centres`, rows of lowest and highest, where it is out of them.
    """
    for a in range(index.shape[0]):
        mean[a] = v[index[a]]
        for j in range(total.shape[0]):
            nearest = min(max(total[j], centres[0, j]), centres[1, j])
            mean[a] += pull[a, j] * (nearest - total[j])
        for i in range(v.shape[0]):
            mean[a] += prior_pull[a, i] * (prior_mean[i] - v[i])


@njit(cache=True, nogil=True)
def leap(v, index, mean, factor, normals, radius, proposed):
    """Fill `proposed` with mean + radius L z in the coordinates `index`."""
    walk(v, index, factor, radius, normals, proposed)
    for a in range(index.shape[0]):
        proposed[index[a]] += mean[a] - v[index[a]]


@njit(cache=True, nogil=True)
def log_t(v, index, mean, factor, dof):
    """Return the log density of a Student t in the coordinates `index`, as in `jump`."""
    k = index.shape[0]
    whitened = np.empty(k)
    distance = 0.0
    for a in range(k):
        residual = v[index[a]] - mean[a]
        for b in range(a):
            residual -= factor[a, b] * whitened[b]
        whitened[a] = residual / factor[a, a]
        distance += whitened[a] ** 2
    return -0.5 * (dof + k) * math.log1p(distance / dof)


def centres_of(terms: SeparableDensity) -> np.ndarray:
    """Return where each T_j is drawn to, (2, d): a value, or the ends of an interval."""
    low, high = terms.parameters[:, 0].copy(), terms.parameters[:, 0].copy()
    between = (terms.family >= BETWEEN) & (terms.family < TRUNCATED)
    high[between] = terms.parameters[between, 2]
    return np.stack([low, high])


def draw_t(steps: int, size: int, rng: np.random.Generator) -> tuple[np.ndarray, list[float]]:
    """Draw z and the radius of `steps` Student t variables, as `jump` and `leap` take them."""
    normals = rng.standard_normal((steps, size))
    waits = rng.standard_exponential((steps, 2)).tolist()
    return normals, [math.sqrt(0.5 * DOF / (a + b)) for a, b in waits]


def factor_of(covariance: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a block of a covariance."""
    return np.ascontiguousarray(np.linalg.cholesky(covariance[np.ix_(index, index)]))


class PriorJump(Proposal):
    """An independent draw of all of theta from the prior; its ratio is that of g alone."""

    needs_v = False
    learning_steps = 1


class Walk(Proposal):
    """A random walk in one block of coordinates, shaped like theta given s_dp or given u too."""

    walks = True

    def __init__(self, index: np.ndarray, block: int, *, given_u: bool) -> None:
        self.index = index
        self.block = block
        self.given_u = given_u
        self.factor = np.eye(len(index))
        self.size = 1.0
        self._acceptance: list[float] = []

    def set_geometry(self, geometry: Geometry) -> None:
        """Take the block's part of the covariance."""
        covariance = geometry.covariance_given_u if self.given_u else geometry.covariance
        self.factor = factor_of(covariance, self.index)

    def record(self, log_ratio: float) -> None:
        """Note an acceptance probability; a ratio of NaN or nothing is a rejection."""
        self._acceptance.append(math.exp(min(0.0, log_ratio)) if log_ratio > -700.0 else 0.0)

    def tune(self, count: int) -> None:
        """Robbins-Monro on log(size), after `count` iterations of warm-up."""
        rate = 1.0 / math.sqrt(count)
        for acceptance in self._acceptance:
            self.size *= math.exp(rate * (acceptance - WANTED))
        self.size = min(max(self.size, 1e-4), 10.0)
        self._acceptance.clear()

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw z and the size of every step."""
        normals = rng.standard_normal((steps, len(self.index) + 1))
        return normals, [self.size * math.exp(SPREAD * z) for z in normals[:, -1].tolist()]

    def propose(self, v, total, prepared, k, proposed) -> float:  # noqa: D102
        normals, sizes = prepared
        walk(v, self.index, self.factor, sizes[k], normals[k], proposed)
        return 0.0


class Jump(Proposal):
    """An independent draw from a Student t fitted to the posterior, in one block."""

    def __init__(self, index: np.ndarray, block: int) -> None:
        self.index = index
        self.block = block
        self.mean = np.zeros(len(index))
        self.factor = np.eye(len(index))

    def set_geometry(self, geometry: Geometry) -> None:
        """Take the block's part of the mean and the covariance."""
        self.mean = np.ascontiguousarray(geometry.mean[self.index])
        self.factor = factor_of(geometry.covariance, self.index)

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw z and the radius of every step."""
        return draw_t(steps, len(self.index), rng)

    def propose(self, v, total, prepared, k, proposed) -> float:  # noqa: D102
        normals, radius = prepared
        return jump(v, self.index, self.mean, self.factor, DOF, normals[k], radius[k], proposed)


class AimedJump(Proposal):
    """A draw from a Student t around where theta would fit the release, with u held; one block.

    Parameters
    ----------
    index
        The block's coordinates.
    terms
        The mechanism's, which say where the release draws T to.
    """

    def __init__(self, index: np.ndarray, terms: SeparableDensity) -> None:
        self.index = index
        self.centres = centres_of(terms)
        self.factor = np.eye(len(index))
        self._pull = self._prior_pull = self._prior_mean = np.empty(0)

    def set_geometry(self, geometry: Geometry) -> None:
        """Take how T answers to theta, and the prior's pull."""
        covariance, pull, self._prior_pull = geometry.aimed(self.index)
        self.factor = np.ascontiguousarray(np.linalg.cholesky(covariance))
        d = self.centres.shape[1]
        self._pull = np.ascontiguousarray(np.broadcast_to(pull, (len(pull), d)))
        self._prior_mean = geometry.prior_mean

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw z and the radius of every step."""
        return draw_t(steps, len(self.index), rng)

    def _aim(self, v: np.ndarray, total: np.ndarray) -> np.ndarray:
        mean = np.empty(len(self.index))
        aim(
            v, total, self.index, self.centres, self._pull, self._prior_pull, self._prior_mean, mean
        )
        return mean

    def propose(self, v, total, prepared, k, proposed) -> float:
        """Go there, and return minus the log density of going there."""
        normals, radius = prepared
        mean = self._aim(v, total)
        leap(v, self.index, mean, self.factor, normals[k], radius[k], proposed)
        return -log_t(proposed, self.index, mean, self.factor, DOF)

    def log_reverse(self, v: np.ndarray, proposed: np.ndarray, total: np.ndarray) -> float:
        """Return the log density of coming back from where T is `total`."""
        return log_t(v, self.index, self._aim(proposed, total), self.factor, DOF)
