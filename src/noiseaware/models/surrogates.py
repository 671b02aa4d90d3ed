"""What the total of the records is, about, for a given theta: fast, and without the records.

The transport move holds the innovations u and asks for T(F(u; theta)) at many theta. For some
models and queries there is a formula that is close, at a cost that does not grow with n. It is not
used in place of T: `sampler.moves.surrogate` explores with it and then decides with T itself, so
that a formula that is off costs acceptance and never exactness.

| code         | model and query                         | T(F(u; theta)) is about           |
|--------------|-----------------------------------------|-----------------------------------|
| `REGRESSION` | `LinearRegression`, `RegressionMoments` | that of clamped normal records    |
| `CELLS`      | `NaiveBayes`, `ClassFeatureCounts`      | its mean given theta              |

`REGRESSION`. With z = (1, x, y) the scaled record without clamping and w = (1, u), the model's
construction is z = G w, G a lower triangular matrix that depends on theta only. So sum_i z_i z_i' =
G U G' with U = sum_i w_i w_i', which is computed once for all theta. `approximate` stops there.

`clamped` goes on to what clamping to [-1, 1] does if the z_i are normal, with the mean and the
covariance that these sums give. With a = (-1 - m)/s, b = (1 - m)/s, the normal distribution and
density Phi and phi, and P = Phi(b) - Phi(a), one variable has

    E c(z)   = -Phi(a) + 1 - Phi(b) + m P + s (phi(a) - phi(b))
    E c(z)^2 =  Phi(a) + 1 - Phi(b) + (m^2 + s^2) P + 2 m s (phi(a) - phi(b))
                + s^2 (a phi(a) - b phi(b)),

and two of them, by the first two terms of the series in their covariance k (the derivatives of the
clamp are 1 inside and a spike at each bound),

    Cov(c(z), c(z')) = k P P' + k^2 / 2  (phi(a) - phi(b)) / s  (phi(a') - phi(b')) / s' + ...

Without clamping this changes nothing.

Where all of theta is unknown there are as many totals as parameters, and the formula without
clamping can be solved for theta. With U = C C' and a wanted sum_i z_i z_i' = D D' (Cholesky
factors; there is no solution if it is not positive definite), G = D C^-1, and theta is read off G
row by row. The volume element of that map: with z_0 = 1, ..., z_{p+1} = y and D_00 fixed, |d(D D')
/ dD| is prod_{i >= 1} D_ii^(p+2-i) up to a constant, D_ii = G_ii C_ii, and G's rows are linear in
the feature means, in the factor L of the feature covariance, in sigma, and, with determinant prod_k
L_kk, in the coefficients. In the coordinates v = (coefficients, log sigma^2, means, L with the
logarithm of its diagonal) that makes

    log |dT / dv| = sum_{i=1}^p (p + 4 - i) log L_ii + log sigma^2 + a constant.

`CELLS`. The mean of a class-feature count is n p_class p_level. It cannot be solved.

Codes and plain arrays, and not functions as arguments, because numba keeps no compiled copy of a
function that takes another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

REGRESSION = 0
CELLS = 1

HALF_ROOT, NORMAL = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


class Surrogate(NamedTuple):
    """The formula of one model and one query.

    Attributes
    ----------
    code
        `REGRESSION` or `CELLS`.
    integers, fixed
        What the formula needs of the model and the query.
    summarise
        u, (n, width), -> what it needs of u, a flat array.
    solvable
        Whether `solve` finds theta from the total.
    """

    code: int
    integers: NDArray[np.int64]
    fixed: NDArray[np.float64]
    summarise: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    solvable: bool = False


@njit(cache=True, nogil=True, error_model="numpy")
def approximate(code, integers, fixed, summary, natural, work, total):
    """Fill `total` with what T is about at theta, and return log p(theta) up to a constant.

    It is T without clamping, where there is any: `clamped` goes on from it.

    Parameters
    ----------
    code, integers, fixed, summary
        As in `Surrogate`; `summary` is what `summarise` gave.
    natural
        theta, all parameters one after another, as `noiseaware.coordinates` lays them out.
    work
        Room for the calculation, `work_size` numbers.
    total
        Overwritten, (d,).
    """
    if code == REGRESSION:
        return _regression(integers, fixed, summary, natural, work, total)
    return _cells(integers, fixed, natural, total)


# ------------------------------------------------------------------ regression


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


def summarise_normals(innovations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sum_i (1, u_i)(1, u_i)' as one row."""
    size = innovations.shape[1] + 1
    out = np.empty((size, size))
    sum_products(innovations, out)
    return out.reshape(-1)


@njit(cache=True, nogil=True)
def log_volume(integers, v):
    """Return log |dT / dv| up to a constant, T by the formula without clamping; see `solve`."""
    p = integers[0]
    at = 2 * p + 1
    result = v[p + 1]
    for i in range(1, p + 1):
        at += i
        result += (p + 4 - i) * v[at]
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def solve(integers, fixed, summary, total, v, work):
    """Fill `v` so that the formula without clamping gives `total`; return whether there is one.

    As `approximate`, with v as in `noiseaware.coordinates`; all of theta is unknown.
    """
    p = integers[0]
    size, y = p + 2, p + 1
    centre, factor, lower = 6, 7 + p, size * size
    # D, where the sums of products are laid out first, and C.
    work[0] = summary[0]
    work[y * size] = total[0]
    work[y * size + y] = total[p + 1]
    pair = 2 * p + 2
    for j in range(p):
        work[y * size + 1 + j] = total[1 + j]
        work[(1 + j) * size] = total[p + 2 + j]
        for k in range(j, p):
            work[(1 + k) * size + 1 + j] = total[pair]
            pair += 1
    for a in range(size * size):
        work[lower + a] = summary[a]
    if not (_factor(work, 0, size) and _factor(work, lower, size)):
        return False
    # G C = D, row by row, in place of D.
    for a in range(1, size):
        for k in range(a, -1, -1):
            left = work[a * size + k]
            for m in range(k + 1, a + 1):
                left -= work[a * size + m] * work[lower + m * size + k]
            work[a * size + k] = left / work[lower + k * size + k]
    # theta: the means and L, then the coefficients from the last, then the intercept.
    intercept = work[y * size] / fixed[factor + p] + fixed[centre + p]
    at = 2 * p + 2
    for j in range(p):
        v[p + 2 + j] = work[(j + 1) * size] / fixed[factor + j] + fixed[centre + j]
        for k in range(j):
            v[at + k] = work[(j + 1) * size + k + 1] / fixed[factor + j]
        v[at + j] = math.log(work[(j + 1) * size + j + 1] / fixed[factor + j])
        at += j + 1
    v[p + 1] = 2.0 * math.log(work[y * size + y] / fixed[factor + p])
    for k in range(p - 1, -1, -1):
        left = work[y * size + k + 1] / fixed[factor + p]
        for j in range(k + 1, p):
            left -= v[1 + j] * work[(j + 1) * size + k + 1] / fixed[factor + j]
        v[1 + k] = left * fixed[factor + k] / work[(k + 1) * size + k + 1]
        intercept -= v[1 + k] * v[p + 2 + k]
    v[0] = intercept
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(work, at, size):
    """Replace the lower triangle of a matrix at `at` by its Cholesky factor, if it has one."""
    for j in range(size):
        for k in range(j + 1):
            left = work[at + j * size + k]
            for i in range(k):
                left -= work[at + j * size + i] * work[at + k * size + i]
            if k < j:
                work[at + j * size + k] = left / work[at + k * size + k]
            elif 0.0 < left < math.inf:
                work[at + j * size + j] = math.sqrt(left)
            else:
                return False
    return True


@njit(cache=True, nogil=True)
def work_size(code, integers):
    """Return how many numbers `approximate`, `clamped` and `solve` need room for."""
    if code == REGRESSION:
        size = integers[0] + 2
        return 3 * size * size
    return 0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _regression(integers, fixed, summary, natural, work, total):
    # Matrices are held row by row in `fixed`, `natural` and `work` and read in place: at this size
    # a slice would cost more than what is done with it.
    p, unknown_noise, unknown_mean, unknown_covariance = integers
    size = p + 2
    centre, factor, mean = 6, 7 + p, 8 + 2 * p
    covariance, scale_factor = mean + p, mean + p + p * p
    half, lower = size * size, 2 * size * size

    # The prior of theta: normal, inverse gamma, normal, inverse Wishart.
    squares = 0.0
    for j in range(p + 1):
        squares += natural[j] * natural[j]
    log_prior = -0.5 * fixed[0] * squares
    at = p + 1
    noise_variance = fixed[5]
    if unknown_noise:
        noise_variance = natural[at]
        at += 1
        if not 0.0 < noise_variance < math.inf:
            return -math.inf
        log_prior -= (fixed[1] + 1.0) * math.log(noise_variance) + fixed[2] / noise_variance
    means = fixed
    if unknown_mean:
        means, mean = natural, at
        squares = 0.0
        for j in range(p):
            squares += natural[at + j] * natural[at + j]
        log_prior -= 0.5 * fixed[3] * squares
        at += p
    covariances = fixed
    if unknown_covariance:
        covariances, covariance = natural, at
    for k in range(p * p):
        work[lower + k] = covariances[covariance + k]
    if not _factor(work, lower, p):
        return -math.inf
    if unknown_covariance:
        # -(df + p + 1)/2 log|Sigma| - |L^-1 C|^2 / 2, as in `conjugate.log_inverse_wishart`.
        determinant = 1.0
        squares = 0.0
        for k in range(p):
            determinant *= work[lower + k * p + k]
            for j in range(k, p):
                left = fixed[scale_factor + j * p + k]
                for i in range(k, j):
                    left -= work[lower + j * p + i] * work[half + i]
                left /= work[lower + j * p + j]
                work[half + j] = left
                squares += left * left
        log_prior -= (fixed[4] + p + 1.0) * math.log(determinant) + 0.5 * squares

    # G: the rows of (1, x, y), scaled, in terms of (1, u).
    y = (p + 1) * size
    for k in range(size):
        work[k] = 0.0
        work[y + k] = 0.0
    work[0] = 1.0
    intercept = natural[0]
    for j in range(p):
        coefficient, row = natural[j + 1], (j + 1) * size
        intercept += coefficient * means[mean + j]
        work[row] = (means[mean + j] - fixed[centre + j]) * fixed[factor + j]
        for k in range(j + 1):
            work[y + k + 1] += coefficient * work[lower + j * p + k] * fixed[factor + p]
            work[row + k + 1] = work[lower + j * p + k] * fixed[factor + j]
    work[y] = (intercept - fixed[centre + p]) * fixed[factor + p]
    work[y + p + 1] = math.sqrt(noise_variance) * fixed[factor + p]

    # G U G', U symmetric and G lower triangular.
    for a in range(1, size):
        for b in range(size):
            product = 0.0
            for k in range(a + 1):
                product += work[a * size + k] * summary[k * size + b]
            work[half + a * size + b] = product
    pair = 2 * p + 2
    total[0] = work[half + y]
    total[p + 1] = _product(work, half + y, y, p + 2)
    for j in range(p):
        row = (j + 1) * size
        total[1 + j] = _product(work, half + y, row, j + 2)
        total[p + 2 + j] = work[half + row]
        for k in range(j, p):
            total[pair] = _product(work, half + (k + 1) * size, row, j + 2)
            pair += 1
    return log_prior


@njit(cache=True, nogil=True, inline="always")
def _product(work, a, b, length):
    """Return the scalar product of two rows of `work`, `length` numbers from a and from b on."""
    product = 0.0
    for k in range(length):
        product += work[a + k] * work[b + k]
    return product


@njit(cache=True, nogil=True, error_model="numpy")
def clamped(code, integers, summary, unclamped, work, total):
    """Fill `total` with what clamping makes of the sums that `approximate` gave.

    Parameters
    ----------
    code, integers, summary, work
        As for `approximate`.
    unclamped
        The sums, (d,).
    total
        Overwritten, (d,).
    """
    if code != REGRESSION:
        total[:] = unclamped
        return
    p, n = integers[0], summary[0]
    pair = 2 * p + 2
    for j in range(p + 1):
        # The features and then y: the sum, the sum of squares, and where both stand.
        at = p + 2 + j if j < p else 0
        at_square = pair if j < p else p + 1
        pair += p - j
        _clamp_one(unclamped[at] / n, unclamped[at_square] / n, work, 5 * j)
        total[at] = n * work[5 * j + 1]
        total[at_square] = n * work[5 * j + 2]
    pair = 2 * p + 2
    for j in range(p):
        total[1 + j] = n * _clamp_two(unclamped[1 + j] / n, work, 5 * j, 5 * p)
        for k in range(j + 1, p):
            total[pair + k - j] = n * _clamp_two(unclamped[pair + k - j] / n, work, 5 * j, 5 * k)
        pair += p - j


@njit(cache=True, nogil=True, error_model="numpy")
def _clamp_one(mean, square, work, at):
    """Put mean, E c, E c^2, P and (phi(a) - phi(b)) / s of one variable into `work`."""
    variance = max(square - mean * mean, 1e-12)
    work[at], work[at + 1], work[at + 2], work[at + 3], work[at + 4] = mean, mean, square, 1.0, 0.0
    room = 1.0 - abs(mean)
    if room > 0.0 and room * room > 25.0 * variance:
        return  # five standard deviations within the bounds: there is nothing to clamp
    s = math.sqrt(variance)
    a, b = (-1.0 - mean) / s, (1.0 - mean) / s
    below, above = 0.5 * math.erfc(-a * HALF_ROOT), 0.5 * math.erfc(b * HALF_ROOT)
    density_a, density_b = NORMAL * math.exp(-0.5 * a * a), NORMAL * math.exp(-0.5 * b * b)
    inside = max(1.0 - below - above, 0.0)
    spikes = density_a - density_b
    work[at + 1] = above - below + mean * inside + s * spikes
    work[at + 2] = (
        above + below + (mean * mean + variance) * inside + 2.0 * mean * s * spikes
        + variance * (a * density_a - b * density_b)
    )  # fmt: skip
    work[at + 3] = inside
    work[at + 4] = spikes / s


@njit(cache=True, nogil=True)
def _clamp_two(product, work, j, k):
    """Return E c(z) c(z') from E z z' and what `_clamp_one` put into `work`."""
    covariance = product - work[j] * work[k]
    return (
        work[j + 1] * work[k + 1]
        + covariance * work[j + 3] * work[k + 3]
        + 0.5 * covariance * covariance * work[j + 4] * work[k + 4]
    )


# ------------------------------------------------------------------ cells


def summarise_nothing(innovations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return nothing: the formula does not look at u."""
    return np.empty(0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _cells(integers, fixed, natural, total):
    n, power = fixed
    d = total.shape[0]
    for cell in range(d):
        total[cell] = n * natural[integers[cell]] * natural[integers[d + cell]]
    # Logarithms are slow: take them of products of eight, which is still far from underflow for
    # probabilities above 1e-37 each; smaller ones have no business here.
    log_prior = 0.0
    product = 1.0
    for j in range(natural.shape[0]):
        if not natural[j] > 1e-37:
            return -math.inf
        product *= natural[j]
        if j % 8 == 7:
            log_prior += math.log(product)
            product = 1.0
    return power * (log_prior + math.log(product))
