"""Explore with a formula learned in warm-up, decide with the records.

`exploring` makes a chain of steps for each look at the records, with a formula for the total. Where
a model and a query have none, and the other proposals are not enough, one is learned for T(F(u;
theta(v))) and log p(theta) J(v) as functions of v, J being the Jacobian. It is a spline through
their values at points near those of the history, renewed with the geometry, for the u of that time.
The difference that another u makes is corrected by a look at the records at the posterior mean r,
as in `exploring`.

**The ratio** is the one of `exploring`. With A and l the splines,

    log pi*(v) = l(v) + sum_j log g_j(s_dp, A_j(v) + T_j(r) - A_j(r)),

a chain of Metropolis steps for pi* leads from v to v', and v' is accepted with probability min(1,
pi(v') pi*(v) / (pi(v) pi*(v'))). Everything about the splines was learned in warm-up, and T(r)
belongs to the u that are held: pi* is one fixed function of v while u is held, and the ratio is
exact for any such function.

**Where pi* is too low** a chain gets stuck, and fits are poor in the tails. So the noise of pi* is
wider than that of pi, by 1 + the root mean square of each point's error when it is left out of the
fit, in units of b_j. Beyond all points, where the chain was not in warm-up, A and l are constant
along rays from the mean, from where these leave the sphere through the farthest point, and pi*
falls along a ray as a Student t does: where pi falls faster, pi* is not too low. Where the noise is
too small for the spline to be close within it, few proposals are accepted, and `tuning` chooses
others.

Reference
---------
Rippa, S. (1999). An algorithm for selecting a good value for the parameter c in radial basis
    function interpolation. Advances in Computational Mathematics 11.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.mechanisms.terms import needs_long, term
from noiseaware.sampler.moves.exploring import ExploringJump, Numbers, accepts, pick, propose_step
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.proposals import DOF
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.target import Target

POINTS = 25
"""Points of a fit for each coordinate of v, plus one coordinate; `python -m benchmarks ablation`
has half and twice as many."""

APART = 0.25
"""Posterior standard deviations by which a point is moved from one of the history; likewise."""

PRODUCTS = 4000.0
"""This many products take as long as a step with a formula of `formula`, about a microsecond."""


class Spline(NamedTuple):
    """Functions of v: linear in z = whiten (v - mean), plus multiples of |z - z_i|^3.

    The rows of the coefficients are those of 1, of the z, and of the points z_i, the columns of
    `points`.
    """

    mean: np.ndarray
    whiten: np.ndarray
    points: np.ndarray
    coefficients: np.ndarray


class Fit(NamedTuple):
    """A fitted formula."""

    spline: Spline
    """A, with l as its last function."""
    reach: float
    """The largest |z|^2 of a point."""
    softer: np.ndarray
    """The factor of 1 / b_j in pi*, (d,)."""


NOTHING = Spline(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
NO_FIT = Fit(NOTHING, -1.0, np.ones(1))
"""No fit yet: v stays where it is."""


def fit_spline(
    x: np.ndarray, values: np.ndarray, mean: np.ndarray, factor: np.ndarray
) -> tuple[Spline, np.ndarray]:
    """Return the spline through `values` (m, c) at points x (m, k), and its errors, (c,).

    With K_ij = |z_i - z_j|^3 and P the rows (1, z_i'), the coefficients solve K a + P b = values,
    P' a = 0. Without point i the spline would be off there by a_i / B_i, B being the diagonal of
    the inverse of [K P; P' 0] (Rippa 1999); the errors are the root mean squares of these. z = L^-1
    (x - mean), L being `factor`.
    """
    whiten = np.linalg.inv(factor)
    z = (x - mean) @ whiten.T
    m, k = z.shape
    system = np.zeros((m + k + 1, m + k + 1))
    system[:m, :m] = ((z[:, None] - z) ** 2).sum(axis=2) ** 1.5
    system[:m, m] = system[m, :m] = 1.0
    system[:m, m + 1 :], system[m + 1 :, :m] = z, z.T
    inverse = np.linalg.inv(system)
    solved = inverse[:, :m] @ values
    off = solved[:m] / np.diag(inverse)[:m, None]
    coefficients = np.vstack([solved[m:], solved[:m]])
    spline = Spline(mean, whiten, np.ascontiguousarray(z.T), coefficients)
    return spline, np.sqrt((off * off).mean(axis=0))


@njit(cache=True, nogil=True)
def evaluate(fit, v, out):
    """Fill `out` with all functions at v, or where its ray leaves the reach; return |z|^2."""
    mean, whiten, points, coefficients = fit.spline
    k, m = points.shape
    copy_vector(coefficients[0], out)
    z, square, apart = np.zeros(k), 0.0, np.zeros(m)
    for i in range(k):
        for j in range(i + 1):
            z[i] += whiten[i, j] * (v[j] - mean[j])
        square += z[i] * z[i]
    if square > fit.reach:
        z *= math.sqrt(fit.reach / square)
    for i in range(k):
        for p in range(m):
            apart[p] += (z[i] - points[i, p]) ** 2
        for j in range(out.shape[0]):
            out[j] += z[i] * coefficients[1 + i, j]
    for p in range(m):
        cube = apart[p] * math.sqrt(apart[p])
        for j in range(out.shape[0]):
            out[j] += cube * coefficients[1 + k + p, j]
    return square


@njit(cache=True, nogil=True)
def log_fitted(fit, noise, v, values):
    """Return log pi* at v; `values`: room for A and l."""
    terms, offset = noise
    beyond = max(evaluate(fit, v, values) / fit.reach, 1.0)
    log_density = values[-1] - 0.5 * (v.shape[0] + DOF) * math.log(beyond)
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    for j in range(offset.shape[0]):
        log_density += term(long, family, parameters, j, values[j] + offset[j])
    return log_density


@njit(cache=True, nogil=True)
def explore_fit(fit, noise, steps, numbers, v, counts):
    """Do all steps, in place in `v`; return log pi* before and after, both 0 without a fit."""
    if fit.reach < 0.0:
        return 0.0, 0.0
    values, proposed = np.empty(noise.offset.shape[0] + 1), np.empty_like(v)
    before = now = log_fitted(fit, noise, v, values)
    for k in range(numbers.uniforms.shape[0]):
        kind = pick(numbers.uniforms[k, 0], steps.shares)
        log_q = propose_step(steps, kind, 0, numbers, k, v, proposed)
        there = log_fitted(fit, noise, proposed, values)
        if accepts(there - now + log_q, counts, kind, 0, numbers.waits[k, 2]):
            copy_vector(proposed, v)
            now = there
    return before, now


class LearnedJump(ExploringJump):
    """The end of a chain run with a learned formula for the total; moves all of theta."""

    learned = (*ExploringJump.learned, "fit")
    block = 0  # the only one; the others have their share, as the formula ends where warm-up did

    def __init__(self, block: np.ndarray, target: Target) -> None:
        super().__init__([block], target)
        assert target.terms is not None
        self.fit, self.exact = NO_FIT, target.terms.parameters
        products = POINTS * (len(block) + 1) * (len(block) + target.d + 1)
        self.more_calls *= max(1.0, products / PRODUCTS)

    def total(self, v: np.ndarray) -> np.ndarray:
        out = np.empty(self.fit.spline.coefficients.shape[1])
        evaluate(self.fit, v, out)
        return out[:-1]

    def condition_on(self, target: Target, row: Row) -> None:
        """Look at the records once, at r."""
        if self.fit.reach >= 0.0:
            offset = target.total_at(self.mean, row.own()) - self.total(self.mean)
            parameters = self.exact.copy()
            parameters[:, 1] *= self.fit.softer
            terms = self.noise.terms._replace(parameters=parameters)
            self.noise = self.noise._replace(terms=terms, offset=offset)

    def learn_formula(self, here: Any, geometry: Geometry) -> None:
        """Fit all functions to looks at the records near points of the history."""
        mean, factor = geometry.mean, np.linalg.cholesky(geometry.covariance)
        recent, k = np.stack(geometry.history[len(geometry.history) // 2 :]), len(mean)
        rows = np.linspace(0, len(recent) - 1, POINTS * (k + 1)).round().astype(int)
        points = recent[rows] + APART * here.rng.standard_normal((len(rows), k)) @ factor.T
        values = np.empty((len(rows), here.target.d + 1))
        for v, row in zip(points, values, strict=True):
            theta, log_jacobian = here.maps.from_vector(v)
            row[:-1] = here.build(theta, here.rng)[1]
            row[-1] = here.target.log_prior_moved(theta) + log_jacobian
        good = np.isfinite(values).all(axis=1)
        self.fit = NO_FIT
        if 2 * good.sum() >= len(points):
            spline, off = fit_spline(points[good], values[good], mean, factor)
            farthest = float((spline.points**2).sum(axis=0).max())
            self.fit = Fit(spline, farthest, self.softer / (1.0 + off[:-1] * self.exact[:, 1]))

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        return explore_fit(self.fit, self.noise, self.steps, numbers, v, self.counts)


def can_learn(target: Target) -> bool:
    """Whether a formula can be learned: theta has the usual coordinates, and n is known."""
    own = target.abilities.coordinates
    return target.terms is not None and target.size is None and own is None
