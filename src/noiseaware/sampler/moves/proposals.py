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
- `PriorJump`: all of theta from the prior. q is then the prior itself, and the acceptance ratio
  of `transport` is g' / g: nothing else is left. Right where the release says very little, in any
  number of dimensions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.sampler.moves.tuning import Shape

WANTED = 0.3
"""Share of walks to accept: between the optima of one (0.44) and many (0.23) dimensions."""

SPREAD = 1.2
"""Standard deviation of the logarithm of the walk's random factor."""

DOF = 4.0
"""Degrees of freedom of the jump; chi-square(4) is twice a sum of two standard exponentials."""


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
        normals = rng.standard_normal((steps, len(self.index)))
        waits = rng.standard_exponential((steps, 2)).tolist()
        return normals, [math.sqrt(0.5 * DOF / (a + b)) for a, b in waits]

    def propose(self, v: np.ndarray, prepared: tuple[Any, ...], k: int, proposed) -> float:
        """Fill `proposed` with the k-th prepared proposal."""
        normals, radius = prepared
        return jump(v, self.index, self.mean, self.factor, DOF, normals[k], radius[k], proposed)


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
