"""Proposals for theta in the transport move: where to go, and the proposal's part of the ratio.

All work on the unconstrained vector v. Each returns log q(v | v') - log q(v' | v), which is what
the acceptance ratio of `transport` needs, and each learns its own shape in warm-up.

- `Walk`: v' = v + s c L z, z standard normal, in one block of coordinates. Symmetric, so its part
  is 0. L is the Cholesky factor of the block's posterior covariance, or of its covariance given u
  (`tuning.Shape`); s is tuned; c is a random factor that does not depend on v, so that steps of
  several sizes are tried.
- `Jump`: v' from a multivariate Student t with the block's posterior mean and covariance,
  independent of v; its part is log t(v) - log t(v'). Right where the noise is so large that theta
  given u is almost theta given s_dp. Its tails are heavier than those that Laplace noise gives
  the posterior, so that no point is hard to leave.
- `AimedJump`: v' from a Student t around m(v), the point where T would come to s_dp if T were
  linear in v and noise and prior were normal (`tuning.Shape.aimed`). m depends on v and on T(v), so
  its part is log t(v; m(v')) - log t(v'; m(v)), and needs T(v') first: `propose` gives minus the
  second and `back` the first. Right where the noise is about as large as the sampling error: theta
  given u is then narrower than theta given s_dp, and elsewhere for every u.
- `PriorJump`: all of theta from the prior. q is then the prior itself, and the acceptance ratio
  of `transport` is g' / g: nothing else is left. Right where the release says very little, in any
  number of dimensions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.mechanisms.terms import BETWEEN, TRUNCATED, SeparableDensity
from noiseaware.sampler.moves.tuning import Shape

WANTED = 0.3
"""Share of walks to accept: between the optima of one (0.44) and many (0.23) dimensions."""

SPREAD = 1.2
"""Standard deviation of the logarithm of the walk's random factor."""

DOF = 4.0
"""Degrees of freedom of the jump; chi-square(4) is twice a sum of two standard exponentials."""


WALK_GIVEN_U, WALK, JUMP, AIMED = range(4)
KINDS = 4
"""The proposals in the chain of `surrogate`, in this order; with cells only the first three."""


@njit(cache=True, nogil=True)
def _place(uniform, shares, count):
    """Return which of the first `count` shares a uniform number falls into."""
    place, below = 0, shares[0]
    while place < count - 1 and uniform >= below:
        place += 1
        below += shares[place]
    return place


@njit(cache=True, nogil=True)
def choose(uniforms, shares, block_shares, kinds):
    """Return the kind and the block that two uniform numbers choose."""
    return _place(uniforms[0], shares, kinds), _place(uniforms[1], block_shares, len(block_shares))


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
    """Return the log density of a Student t in the coordinates `index`, as in `proposals.jump`."""
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


class Walk:
    """A random walk in one block of coordinates, shaped like theta given s_dp or given u too."""

    def __init__(self, index: np.ndarray, *, given_u: bool) -> None:
        self.index = index
        self.given_u = given_u
        self.factor = np.eye(len(index))
        self.size = 1.0
        self._acceptance: list[float] = []

    def take(self, shape: Shape) -> None:
        """Take the block's part of the covariance."""
        covariance = shape.covariance_given_u if self.given_u else shape.covariance
        self.factor = factor_of(covariance, self.index)

    def note(self, log_ratio: float) -> None:
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
        """Draw the random numbers of `steps` proposals."""
        normals = rng.standard_normal((steps, len(self.index) + 1))
        return normals, [self.size * math.exp(SPREAD * z) for z in normals[:, -1].tolist()]

    def propose(self, v: np.ndarray, prepared: tuple[Any, ...], k: int, proposed) -> float:
        """Fill `proposed` with the k-th prepared proposal."""
        normals, sizes = prepared
        walk(v, self.index, self.factor, sizes[k], normals[k], proposed)
        return 0.0


class Jump:
    """An independent draw from a Student t fitted to the posterior, in one block."""

    def __init__(self, index: np.ndarray) -> None:
        self.index = index
        self.mean = np.zeros(len(index))
        self.factor = np.eye(len(index))

    def take(self, shape: Shape) -> None:
        """Take the block's part of the mean and the covariance."""
        self.mean = np.ascontiguousarray(shape.mean[self.index])
        self.factor = factor_of(shape.covariance, self.index)

    def note(self, log_ratio: float) -> None:
        """Nothing to note."""

    def tune(self, count: int) -> None:
        """Nothing to tune but the shape."""

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw the random numbers of `steps` proposals."""
        return draw_t(steps, len(self.index), rng)

    def propose(self, v: np.ndarray, prepared: tuple[Any, ...], k: int, proposed) -> float:
        """Fill `proposed` with the k-th prepared proposal."""
        normals, radius = prepared
        return jump(v, self.index, self.mean, self.factor, DOF, normals[k], radius[k], proposed)


class AimedJump:
    """A draw from a Student t around where theta would fit the release, with u held; one block.

    Parameters
    ----------
    index
        The block's coordinates.
    terms
        The mechanism's, which say where the release draws T to.

    Attributes
    ----------
    total
        T where the chain is; the transport move keeps it up to date.
    """

    scratch = ("total",)

    def __init__(self, index: np.ndarray, terms: SeparableDensity) -> None:
        self.index = index
        self.centres = centres_of(terms)
        self.factor = np.eye(len(index))
        self.total = np.zeros(len(terms.family))
        self._pull = self._prior_pull = self._prior_mean = np.empty(0)

    def take(self, shape: Shape) -> None:
        """Take how T answers to theta, and the prior's pull."""
        covariance, pull, self._prior_pull = shape.aimed(self.index)
        self.factor = np.ascontiguousarray(np.linalg.cholesky(covariance))
        self._pull = np.ascontiguousarray(np.broadcast_to(pull, (len(pull), len(self.total))))
        self._prior_mean = shape.prior_mean

    def note(self, log_ratio: float) -> None:
        """Nothing to note."""

    def tune(self, count: int) -> None:
        """Nothing to tune but the shape."""

    def prepare(self, steps: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Draw the random numbers of `steps` proposals."""
        return draw_t(steps, len(self.index), rng)

    def _aim(self, v: np.ndarray, total: np.ndarray) -> np.ndarray:
        mean = np.empty(len(self.index))
        aim(
            v, total, self.index, self.centres, self._pull, self._prior_pull, self._prior_mean, mean
        )
        return mean

    def propose(self, v: np.ndarray, prepared: tuple[Any, ...], k: int, proposed) -> float:
        """Fill `proposed`, with T at v in `total`; return minus the log density of going there."""
        normals, radius = prepared
        mean = self._aim(v, self.total)
        leap(v, self.index, mean, self.factor, normals[k], radius[k], proposed)
        return -log_t(proposed, self.index, mean, self.factor, DOF)

    def back(self, v: np.ndarray, proposed: np.ndarray, total: np.ndarray) -> float:
        """Return the log density of coming back from where T is `total`."""
        return log_t(v, self.index, self._aim(proposed, total), self.factor, DOF)


class PriorJump:
    """An independent draw of all of theta from the prior; its ratio is that of g alone."""

    def __init__(self, size: int) -> None:
        self.index = np.arange(size)

    def take(self, shape: Shape) -> None:
        """Take nothing: the prior does not change."""

    def note(self, log_ratio: float) -> None:
        """Nothing to note."""

    def tune(self, count: int) -> None:
        """Nothing to tune."""


def factor_of(covariance: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor of a block of a covariance."""
    return np.ascontiguousarray(np.linalg.cholesky(covariance[np.ix_(index, index)]))
