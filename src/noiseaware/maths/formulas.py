"""Approximations of the total of the records at a given theta: fast, and without the records.

The transport move holds the innovations u and evaluates T(F(u; theta)) at many theta. For a linear
regression and its moments an approximate formula costs the same for every n. It never replaces T:
`sampler.moves.formula` explores with the formula, then decides with T itself, so that its error
costs acceptance and never exactness. A model provides it by its method `formula`.

With z = (1, x, y) the scaled record before clamping and w = (1, u), the model's construction is
z = G w, with G a lower triangular matrix that depends on theta only. So sum_i z_i z_i' = G U G'
with U = sum_i w_i w_i', computed once for all theta. `approximate` stops there.

`clamped` adds the effect of clamping to [-1, 1], treating the z_i as normal with the mean and
covariance that these sums give. With a = (-1 - m)/s, b = (1 - m)/s, the normal distribution and
density Phi and phi, and P = Phi(b) - Phi(a), one variable has

    E c(z)   = -Phi(a) + 1 - Phi(b) + m P + s (phi(a) - phi(b))
    E c(z)^2 =  Phi(a) + 1 - Phi(b) + (m^2 + s^2) P + 2 m s (phi(a) - phi(b))
                + s^2 (a phi(a) - b phi(b)),

and two of them, by the first two terms of the series in their covariance k (the derivatives of the
clamp are 1 inside and a spike at each bound),

    Cov(c(z), c(z')) = k P P' + k^2 / 2  (phi(a) - phi(b)) / s  (phi(a') - phi(b')) / s' + ...

Where nothing is clamped this changes nothing.

If all of theta is unknown there are as many totals as parameters, and the formula without clamping
can be solved for theta. With U = C C' and a target sum_i z_i z_i' = D D' (Cholesky factors; there
is no solution if it is not positive definite), G = D C^-1, and theta is read off G row by row. The
volume element of that map: with z_0 = 1, ..., z_{p+1} = y and D_00 fixed, |d(D D') / dD| is
prod_{i >= 1} D_ii^(p+2-i) up to a constant, D_ii = G_ii C_ii, and the rows of G are linear in the
feature means, in the factor L of the feature covariance, in sigma, and, with determinant
prod_k L_kk, in the coefficients. In the coordinates v = (coefficients, log sigma^2, means, L with
the logarithm of its diagonal) this gives

    log |dT / dv| = sum_{i=1}^p (p + 4 - i) log L_ii + log sigma^2 + a constant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import cholesky, copy_vector
from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.contract import Floats
from noiseaware.maths.densities import log_inverse_gamma, log_inverse_wishart_at, log_normal_iid

HALF_ROOT, NORMAL = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


class RegressionPrior(NamedTuple):
    """The hyperparameters of a regression, as its log density uses them."""

    coefficient_sd: float
    noise_shape: float
    noise_scale: float
    mean_sd: float
    covariance_df: float
    covariance_factor: Floats


class RegressionFormula(NamedTuple):
    """The formula of a linear regression on normal features and its clamped moments.

    An entry z of a record counts as (z - centre) scale, (p + 1,) each, clamped to [-1, 1].
    """

    prior: RegressionPrior
    noise_variance: Floats  # (1,); as the two below anything where it is part of theta, unknown
    mean: Floats
    covariance: Floats
    unknown_noise: bool
    unknown_mean: bool
    unknown_covariance: bool
    centre: Floats
    scale: Floats
    n: int

    @property
    def solvable(self) -> bool:
        """Whether `solve` finds theta from the total."""
        all_unknown = self.unknown_noise and self.unknown_mean and self.unknown_covariance
        return all_unknown and self.n > len(self.mean) + 1

    def summarise(self, innovations: Floats) -> Floats:
        """Return sum_i (1, u_i)(1, u_i)', (p + 2, p + 2)."""
        size = innovations.shape[1] + 1
        out = np.empty((size, size))
        sum_products(innovations, out)
        return out

    def totals(self, natural: Floats, summary: Floats) -> tuple[Floats, Floats]:
        """Return the total at theta (parameters concatenated), unclamped and clamped."""
        p = len(self.mean)
        unclamped = np.full((p + 1) * (p + 4) // 2, np.nan)
        total = np.empty_like(unclamped)
        fill_totals(self, natural, summary, unclamped, total)
        return unclamped, total


class RegressionTheta(NamedTuple):
    """Theta of a regression, including its known parts."""

    coefficients: Floats
    noise_variance: Floats
    mean: Floats
    covariance: Floats


class Room(NamedTuple):
    """Work space: G, G U, a Cholesky factor, and clamped moments."""

    loadings: Floats
    products: Floats
    factor: Floats
    moments: Floats


@njit(cache=True, nogil=True)
def make_room(formula):
    """Return the work space of a formula."""
    p = formula.mean.shape[0]
    square = (p + 2, p + 2)
    return Room(np.empty(square), np.empty(square), np.empty(square), np.empty((p + 1, 5)))


@njit(cache=True, nogil=True)
def read_theta(formula, natural):
    """Return theta as views of `natural`, its parameters concatenated."""
    p = formula.mean.shape[0]
    at = p + 1
    noise_variance, mean, covariance = formula.noise_variance, formula.mean, formula.covariance
    if formula.unknown_noise:
        noise_variance = natural[at : at + 1]
        at += 1
    if formula.unknown_mean:
        mean = natural[at : at + p]
        at += p
    if formula.unknown_covariance:
        covariance = natural[at : at + p * p].reshape((p, p))
    return RegressionTheta(natural[: p + 1], noise_variance, mean, covariance)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def sum_products(innovations, out):
    """Fill `out`, (width + 1, width + 1), with sum_i (1, u_i)(1, u_i)'."""
    n, width = innovations.shape
    out[:] = 0.0
    out[0, 0] = n
    for i in range(n):
        for j in range(width):
            out[j + 1, 0] += innovations[i, j]
            for k in range(j + 1):
                out[j + 1, k + 1] += innovations[i, j] * innovations[i, k]
    for j in range(width + 1):
        for k in range(j):
            out[k, j] = out[j, k]


# Inlined, like the functions below: a call counts references to every array in its tuples.
@njit(cache=True, nogil=True, inline="always", **UNCOUNTED)
def log_prior(formula, theta, factor, column):
    """Return log p(theta) up to a constant: normal, inverse gamma, normal, inverse Wishart.

    `factor` is the Cholesky factor of the covariance, `column` work space for p numbers.
    """
    prior = formula.prior
    result = log_normal_iid(theta.coefficients, 0.0, prior.coefficient_sd)
    if formula.unknown_noise:
        variance = theta.noise_variance[0]
        result += log_inverse_gamma(variance, prior.noise_shape, prior.noise_scale)
    if formula.unknown_mean:
        result += log_normal_iid(theta.mean, 0.0, prior.mean_sd)
    if formula.unknown_covariance:
        p, df, scale_factor = theta.mean.shape[0], prior.covariance_df, prior.covariance_factor
        result += log_inverse_wishart_at(factor, p, df, scale_factor, 0.0, column)
    return result


@njit(cache=True, nogil=True, error_model="numpy", inline="always", **UNCOUNTED)
def approximate(formula, summary, theta, room, total):
    """Fill `total`, (d,), with T approximated without clamping; return log p(theta) + constant.

    `summary` is the result of `summarise`. Outside the support, `total` is left unchanged and minus
    infinity returned.
    """
    p = theta.mean.shape[0]
    size, y = p + 2, p + 1
    loadings, products, factor = room.loadings, room.products, room.factor
    noise_variance = theta.noise_variance[0]
    if not 0.0 < noise_variance < math.inf:
        return -math.inf
    for j in range(p):
        for k in range(p):
            factor[j, k] = theta.covariance[j, k]
    if not cholesky(factor, p, factor):
        return -math.inf

    # G: the rows of (1, x, y), scaled, in terms of (1, u).
    for k in range(size):
        loadings[0, k] = 0.0
        loadings[y, k] = 0.0
    loadings[0, 0] = 1.0
    intercept = theta.coefficients[0]
    for j in range(p):
        coefficient = theta.coefficients[j + 1]
        intercept += coefficient * theta.mean[j]
        loadings[j + 1, 0] = (theta.mean[j] - formula.centre[j]) * formula.scale[j]
        for k in range(j + 1):
            loadings[y, k + 1] += coefficient * factor[j, k] * formula.scale[p]
            loadings[j + 1, k + 1] = factor[j, k] * formula.scale[j]
    loadings[y, 0] = (intercept - formula.centre[p]) * formula.scale[p]
    loadings[y, y] = math.sqrt(noise_variance) * formula.scale[p]

    # G U G', U symmetric and G lower triangular.
    for a in range(1, size):
        for b in range(size):
            product = 0.0
            for k in range(a + 1):
                product += loadings[a, k] * summary[k, b]
            products[a, b] = product
    pair = 2 * p + 2
    total[0] = products[y, 0]
    total[p + 1] = _dot(products, y, loadings, y, p + 2)
    for j in range(p):
        total[1 + j] = _dot(products, y, loadings, j + 1, j + 2)
        total[p + 2 + j] = products[j + 1, 0]
        for k in range(j, p):
            total[pair] = _dot(products, k + 1, loadings, j + 1, j + 2)
            pair += 1
    return log_prior(formula, theta, factor, products[0])


@njit(cache=True, nogil=True, inline="always", **UNCOUNTED)
def _dot(a, row_a, b, row_b, length):
    product = 0.0
    for k in range(length):
        product += a[row_a, k] * b[row_b, k]
    return product


@njit(cache=True, nogil=True, error_model="numpy", inline="always", **UNCOUNTED)
def clamped(n, unclamped, moments, total):
    """Fill `total` with the clamped version of the sums from `approximate`.

    `moments` is work space for the clamped moments, (p + 1, 5).
    """
    p = moments.shape[0] - 1
    pair = 2 * p + 2
    for j in range(p + 1):
        # The features, then y: the positions of the sum and the sum of squares.
        at = p + 2 + j if j < p else 0
        at_square = pair if j < p else p + 1
        pair += p - j
        _clamp_one(unclamped[at] / n, unclamped[at_square] / n, moments, j)
        total[at] = n * moments[j, 1]
        total[at_square] = n * moments[j, 2]
    pair = 2 * p + 2
    for j in range(p):
        total[1 + j] = n * _clamp_two(unclamped[1 + j] / n, moments, j, p)
        for k in range(j + 1, p):
            total[pair + k - j] = n * _clamp_two(unclamped[pair + k - j] / n, moments, j, k)
        pair += p - j


@njit(cache=True, nogil=True, error_model="numpy", **UNCOUNTED)
def _clamp_one(mean, square, moments, j):
    """Write mean, E c, E c^2, P and (phi(a) - phi(b)) / s of variable j into `moments`."""
    variance = max(square - mean * mean, 1e-12)
    moments[j, 0], moments[j, 1], moments[j, 2] = mean, mean, square
    moments[j, 3], moments[j, 4] = 1.0, 0.0
    room = 1.0 - abs(mean)
    if room > 0.0 and room * room > 25.0 * variance:
        return  # five standard deviations within the bounds: there is nothing to clamp
    s = math.sqrt(variance)
    a, b = (-1.0 - mean) / s, (1.0 - mean) / s
    below, above = 0.5 * math.erfc(-a * HALF_ROOT), 0.5 * math.erfc(b * HALF_ROOT)
    density_a, density_b = NORMAL * math.exp(-0.5 * a * a), NORMAL * math.exp(-0.5 * b * b)
    inside = max(1.0 - below - above, 0.0)
    spikes = density_a - density_b
    moments[j, 1] = above - below + mean * inside + s * spikes
    moments[j, 2] = (
        above + below + (mean * mean + variance) * inside + 2.0 * mean * s * spikes
        + variance * (a * density_a - b * density_b)
    )  # fmt: skip
    moments[j, 3] = inside
    moments[j, 4] = spikes / s


@njit(cache=True, nogil=True, **UNCOUNTED)
def _clamp_two(product, moments, j, k):
    """Return E c(z) c(z') from E z z' and the `moments` of `_clamp_one`."""
    covariance = product - moments[j, 0] * moments[k, 0]
    return (
        moments[j, 1] * moments[k, 1]
        + covariance * moments[j, 3] * moments[k, 3]
        + 0.5 * covariance * covariance * moments[j, 4] * moments[k, 4]
    )


@njit(cache=True, nogil=True, error_model="numpy")
def fill_totals(formula, natural, summary, unclamped, total):
    """Fill in the results of `RegressionFormula.totals`."""
    room = make_room(formula)
    approximate(formula, summary, read_theta(formula, natural), room, unclamped)
    clamped(summary[0, 0], unclamped, room.moments, total)


@njit(cache=True, nogil=True, **UNCOUNTED)
def log_volume(p, v):
    """Return log |dT / dv| up to a constant, for T by the formula without clamping; see `solve`."""
    at = 2 * p + 1
    result = v[p + 1]
    for i in range(1, p + 1):
        at += i
        result += (p + 4 - i) * v[at]
    return result


@njit(cache=True, nogil=True, error_model="numpy", **UNCOUNTED)
def solve(formula, summary, total, v, room):
    """Fill `v` so that the formula without clamping gives `total`; return whether this is possible.

    As `approximate`, with v as in `noiseaware.maths.coordinates`; all of theta is unknown.
    """
    p = formula.mean.shape[0]
    size, y = p + 2, p + 1
    centre, scale = formula.centre, formula.scale
    rows, lower = room.loadings, room.factor  # D, where the sums are laid out first, and C
    rows[0, 0] = summary[0, 0]
    rows[y, 0] = total[0]
    rows[y, y] = total[p + 1]
    pair = 2 * p + 2
    for j in range(p):
        rows[y, 1 + j] = total[1 + j]
        rows[1 + j, 0] = total[p + 2 + j]
        for k in range(j, p):
            rows[1 + k, 1 + j] = total[pair]
            pair += 1
    for a in range(size):
        copy_vector(summary[a], lower[a])
    if not (cholesky(rows, size, rows) and cholesky(lower, size, lower)):
        return False
    # G C = D, row by row, in place of D.
    for a in range(1, size):
        for k in range(a, -1, -1):
            left = rows[a, k]
            for m in range(k + 1, a + 1):
                left -= rows[a, m] * lower[m, k]
            rows[a, k] = left / lower[k, k]
    # theta: the means and L, then the coefficients from the last, then the intercept.
    intercept = rows[y, 0] / scale[p] + centre[p]
    at = 2 * p + 2
    for j in range(p):
        v[p + 2 + j] = rows[j + 1, 0] / scale[j] + centre[j]
        for k in range(j):
            v[at + k] = rows[j + 1, k + 1] / scale[j]
        v[at + j] = math.log(rows[j + 1, j + 1] / scale[j])
        at += j + 1
    v[p + 1] = 2.0 * math.log(rows[y, y] / scale[p])
    for k in range(p - 1, -1, -1):
        left = rows[y, k + 1] / scale[p]
        for j in range(k + 1, p):
            left -= v[1 + j] * rows[j + 1, k + 1] / scale[j]
        v[1 + k] = left * scale[k] / rows[k + 1, k + 1]
        intercept -= v[1 + k] * v[p + 2 + k]
    v[0] = intercept
    return True
