"""Explore with a formula that warm-up has learned, decide with the records.

`formula` makes a chain of steps for each look at the records, where a model and a query have a
formula for the total. Over the width of a posterior, any total is nearly a quadratic function of
the parameters. So where there is no formula, and the other proposals are not enough, one is
learned, by least squares: of T(F(u; theta)), as a function of theta or of v, whichever is closer,
and of log p(theta), as a function of v. The fit is to points around those of the history, and is
made anew when the geometry is learned, with the u of that time. What another u would add is
corrected by a look at the records at the posterior mean r, as in `formula`.

**The ratio** is the one of `formula`. With A and l what was fitted, and J the Jacobian of theta(v),

    log pi*(v) = l(v) + log J(v) + sum_j log g_j(s_dp, A_j(v) + T_j(r) - A_j(r)),

a chain of Metropolis steps for pi* leads from v to v', and v' is accepted with probability
min(1, pi(v') pi*(v) / (pi(v) pi*(v'))). A chain gets stuck where pi* is too low, and fits are off
in the tails. So the noise of pi* is wider than that of pi, by 1 + the root mean square of what the
fit is off, in units of b_j. pi* is 0 farther out than `REACH` times all points of the fit; a chain
that is there stays where it is. Where the noise is so small that T is not quadratic to within it,
little is accepted, and `tuning` chooses other proposals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import copy_vector
from noiseaware.maths.coordinates import constrain
from noiseaware.mechanisms.terms import needs_long, term
from noiseaware.sampler.moves.formula import FormulaJump, Numbers, _accepts, _place, _propose
from noiseaware.sampler.moves.geometry import Geometry
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.target import Target

STRETCH, APART = 1.5, 0.5
"""The points of a fit are those of the history, so many times as far from the mean, and then moved
by so many posterior standard deviations: a fit has to hold in the tails."""

POINTS = 4
"""Looks at the records for a fit, for each of its coefficients."""

REACH = 1.5
"""pi* is 0 beyond this times the largest distance of a point from the mean."""

COEFFICIENTS = 1000.0
"""So many take as long as a step with a formula of `formula`, about a microsecond."""

RANK = 1e-6
"""Directions in which theta does not vary by this share of the largest have no coefficients: the
probabilities of a simplex add up to 1."""


class Quadratic(NamedTuple):
    """Quadratic functions of z = whiten (x - centre), x being theta or v.

    The rows of the coefficients are those of 1, z_i, and z_i z_l with l <= i.
    """

    centre: np.ndarray
    whiten: np.ndarray
    coefficients: np.ndarray


class Fit(NamedTuple):
    """What was fitted.

    Attributes
    ----------
    total, of_theta
        A, and whether it is a function of theta; otherwise it is one of v.
    prior
        l.
    reach
        The largest |z|^2, z being that of the prior, at which pi* is not 0.
    softer
        What 1 / b_j is multiplied by in pi*, (d,).
    """

    total: Quadratic
    of_theta: bool
    prior: Quadratic
    reach: float
    softer: np.ndarray


NOTHING = Quadratic(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
NO_FIT = Fit(NOTHING, False, NOTHING, -1.0, np.ones(1))
"""Until there is one: pi* is 0 everywhere."""


def number_of_terms(k: int) -> int:
    """Return how many coefficients a quadratic function of k coordinates has."""
    return 1 + k + k * (k + 1) // 2


def powers(z: np.ndarray) -> np.ndarray:
    """Return 1, z_i, and z_i z_l with l <= i, of each row of z, (m, terms)."""
    i, low = np.tril_indices(z.shape[1])
    return np.hstack([np.ones((len(z), 1)), z, z[:, i] * z[:, low]])


def fit_quadratic(x: np.ndarray, values: np.ndarray) -> tuple[Quadratic, np.ndarray]:
    """Fit the columns of `values` (m, c) to points x (m, k); return how far off they are too."""
    centre, sds = x.mean(axis=0), x.std(axis=0)
    sds[sds == 0.0] = 1.0
    _, widths, directions = np.linalg.svd((x - centre) / sds, full_matrices=False)
    kept = widths > RANK * widths[0]
    whiten = directions[kept] / widths[kept, None] / sds * np.sqrt(len(x))
    design = powers((x - centre) @ whiten.T)
    coefficients = np.linalg.lstsq(design, values, rcond=None)[0]
    off = values - design @ coefficients
    free = max(1, len(x) - design.shape[1])
    return Quadratic(centre, whiten, coefficients), np.sqrt((off * off).sum(axis=0) / free)


@njit(cache=True, nogil=True)
def evaluate(quadratic, x, out):
    """Fill `out` with all functions at x; return |z|^2."""
    centre, whiten, coefficients = quadratic
    z = np.empty(whiten.shape[0])
    copy_vector(coefficients[0], out)
    square, row = 0.0, 1 + z.shape[0]
    for i in range(z.shape[0]):
        z[i] = 0.0
        for j in range(x.shape[0]):
            z[i] += whiten[i, j] * (x[j] - centre[j])
        square += z[i] * z[i]
        for j in range(out.shape[0]):
            out[j] += z[i] * coefficients[1 + i, j]
        for low in range(i + 1):
            product = z[i] * z[low]
            for j in range(out.shape[0]):
                out[j] += product * coefficients[row, j]
            row += 1
    return square


@njit(cache=True, nogil=True)
def log_fitted(fit, layout, noise, v, natural, total):
    """Return log pi* at v, minus infinity where it is 0; `natural`, `total`: room for both."""
    terms, _, offset = noise
    log_prior = np.empty(1)
    if not evaluate(fit.prior, v, log_prior) <= fit.reach:
        return -np.inf
    log_density = log_prior[0] + constrain(layout, v, natural)
    evaluate(fit.total, natural if fit.of_theta else v, total)
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    for j in range(total.shape[0]):
        log_density += term(long, family, parameters, j, total[j] + offset[j])
    return log_density


@njit(cache=True, nogil=True)
def explore_fit(fit, layout, natural, noise, steps, numbers, v, counts):
    """Do all steps, in place in `v`; return log pi* before and after, both 0 where v stays."""
    total, proposed = np.empty(noise.offset.shape[0]), np.empty_like(v)
    before = log_fitted(fit, layout, noise, v, natural, total)
    if before == -np.inf:
        return 0.0, 0.0
    now = before
    for k in range(numbers.uniforms.shape[0]):
        kind = _place(numbers.uniforms[k, 0], steps.shares)
        log_q = _propose(steps, kind, 0, numbers, k, v, proposed)
        there = log_fitted(fit, layout, noise, proposed, natural, total)
        if _accepts(there - now + log_q, counts, kind, 0, numbers.waits[k, 2]):
            copy_vector(proposed, v)
            now = there
    return before, now


class LearnedJump(FormulaJump):
    """The end of a chain that was run with a learned formula for the total; all of theta."""

    learned = (*FormulaJump.learned, "fit")
    learns_formula = True

    def __init__(self, block: np.ndarray, target: Target) -> None:
        super().__init__(None, [block], target)
        assert target.terms is not None
        self.fit, self.exact = NO_FIT, target.terms.parameters
        coefficients = number_of_terms(len(block)) * target.d
        self.more_calls *= max(1.0, coefficients / COEFFICIENTS)

    def total(self, v: np.ndarray) -> np.ndarray:
        """Return A(v), (d,)."""
        out = np.empty(self.fit.total.coefficients.shape[1])
        evaluate(self.fit.total, self._natural(v) if self.fit.of_theta else v, out)
        return out

    def condition_on(self, target: Target, row: Row) -> None:
        """Prepare for steps with these u: one look at the records, at r."""
        if self.fit.reach >= 0.0:
            offset = target.total_at(self.mean, row.own()) - self.total(self.mean)
            parameters = self.exact.copy()
            parameters[:, 1] *= self.fit.softer
            terms = self.noise.terms._replace(parameters=parameters)
            self.noise = self.noise._replace(terms=terms, offset=offset)

    def learn_formula(self, here: Any, geometry: Geometry) -> None:
        """Fit all functions to looks at the records near points of the history."""
        points = self._points(geometry, here.rng)
        totals, log_priors = [], []
        for v in points:
            theta, _ = here.maps.from_vector(v)
            totals.append(here.build(theta, here.rng)[1])
            log_priors.append(here.target.log_prior_moved(theta))
        values = np.column_stack([np.stack(totals), log_priors])
        good = np.isfinite(values).all(axis=1)
        self.fit = NO_FIT
        if 2 * good.sum() < len(points):
            return
        points, values = points[good], values[good]
        thetas = np.stack([self._natural(v) for v in points])
        fits = [fit_quadratic(x, values[:, :-1]) for x in (points, thetas)]
        off = [rms * self.exact[:, 1] for _, rms in fits]
        closer = int(off[1] @ off[1] < off[0] @ off[0])
        prior, _ = fit_quadratic(points, values[:, -1:])
        farthest = max(float(evaluate(prior, v, np.empty(1))) for v in points)
        softer = self.softer / (1.0 + off[closer])
        self.fit = Fit(fits[closer][0], closer == 1, prior, REACH**2 * farthest, softer)

    def _points(self, geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
        """Return where the functions are looked at, (m, k)."""
        recent, k = np.stack(geometry.history[len(geometry.history) // 2 :]), len(geometry.mean)
        count = POINTS * number_of_terms(k)
        rows = np.linspace(0, len(recent) - 1, count).round().astype(int)
        factor = np.linalg.cholesky(geometry.covariance)
        moved = APART * rng.standard_normal((count, k)) @ factor.T
        return geometry.mean + STRETCH * (recent[rows] - geometry.mean) + moved

    def explore(self, numbers: Numbers, v: np.ndarray) -> tuple[float, float]:
        """Run the chain, in place in v; return log pi* before and after."""
        return explore_fit(
            self.fit, self.coordinates.layout, self._natural(v), self.noise, self.steps, numbers,
            v, self.counts,
        )  # fmt: skip


def can_learn(target: Target) -> bool:
    """Whether a formula can be learned: theta has the usual coordinates, and n is known."""
    own = target.abilities.coordinates
    return target.terms is not None and target.size is None and own is None
