"""Draws and log densities of the conjugate families that the models share.

Kernels are handed the random numbers they use. Two families need more than normals:

*Dirichlet.* A Dirichlet(a_1, ..., a_J) vector consists of J independent gamma variables with shapes
a_j, divided by their sum. The gammas are drawn by the rejection method of Marsaglia and Tsang
(2000), which uses a normal and a uniform per attempt and accepts at least 95% of attempts. The
caller supplies a *pool* of both, slightly larger than the number of gammas. A kernel that exhausts
the pool says so, and the caller repeats the call with the same pool extended. (The draws are then
those from an endless stream, so nothing is biased.) For the 80 probabilities of the paper's naive
Bayes model this is faster than NumPy's ``standard_gamma`` with an array of shapes.

For a shape below 1, gamma(a) = gamma(a + 1) V^(1/a) with V uniform (same paper). V^(1/a) underflows
for small a, so such rows are normalised on the log scale.

*Inverse Wishart.* Sigma ~ InverseWishart(df, S), with density proportional to
|Sigma|^{-(df + p + 1)/2} exp(-tr(S Sigma^{-1})/2), is the inverse of a Wishart(df, S^{-1}) matrix.
By Bartlett's decomposition A A' ~ Wishart(df, I) if A is lower triangular with independent entries,
A_jj^2 ~ chi-square(df - j), j = 0, ..., p - 1, and standard normals below the diagonal. With
S = C C', the matrix C^{-T} A A' C^{-1} is Wishart(df, S^{-1}), and its inverse is
Sigma = B' B with B = A^{-1} C'.

References
----------
Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM Transactions on
    Mathematical Software 26(3).
Bartlett (1933), On the theory of statistical regression, Proceedings of the Royal Society of
    Edinburgh 53.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import cholesky, copy_vector, solve_lower, solve_upper
from noiseaware.contract import Floats

SMALLEST = 2.0**-1022
"""Smallest probability used, so that logarithms stay finite."""

SIMPLEX_TOLERANCE = 1e-8
"""How far the sum of a row of probabilities may be from 1 in `log_dirichlet`."""


@njit(cache=True, nogil=True)
def draw_from_precision(precision, size, vector, normals):
    """Draw from N(Q^{-1} r, Q^{-1}); return False if Q is not positive definite.

    ``precision`` holds Q in its lower triangle and is overwritten by the factor C of Q = C C'.
    ``vector`` holds r and is overwritten by the draw C^{-T} (C^{-1} r + z), with z =
    ``normals[:size]``. The mean is right because C^{-T} C^{-1} r = Q^{-1} r, the covariance because
    C^{-T} C^{-1} = Q^{-1}.
    """
    if not cholesky(precision, size, precision):
        return False
    solve_lower(precision, size, vector)
    for j in range(size):
        vector[j] += normals[j]
    solve_upper(precision, size, vector)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def draw_normal_mean(n, sums, covariance, precisions, centres, normals, start, out):
    """Draw m | Sigma, x into ``out``: x_i ~ N(m, Sigma), m_j ~ N(centres_j, 1 / precisions_j).

    The conditional is N(mu, V) with V^{-1} = n Sigma^{-1} + diag(precisions) and
    V^{-1} mu = Sigma^{-1} sum_i x_i + precisions * centres; ``sums`` holds sum_i x_i. NaN if Sigma
    is not positive definite.
    """
    size = out.shape[0]
    factor = np.empty((size, size))
    if not cholesky(covariance, size, factor):
        out[:] = math.nan
        return
    precision = np.empty((size, size))
    column = np.empty(size)
    for a in range(size):
        # Column a of Sigma^{-1}, by two triangular solves.
        column[:] = 0.0
        column[a] = 1.0
        solve_lower(factor, size, column)
        solve_upper(factor, size, column)
        for b in range(size):
            precision[b, a] = n * column[b]
        precision[a, a] += precisions[a]
    copy_vector(sums, out)
    solve_lower(factor, size, out)
    solve_upper(factor, size, out)
    for a in range(size):
        out[a] += precisions[a] * centres[a]
    if not draw_from_precision(precision, size, out, normals[start:]):
        out[:] = math.nan


@njit(cache=True, nogil=True)
def draw_inverse_wishart(scale, half_chi_squares, normals, start, out):
    """Draw InverseWishart(df, scale) into ``out`` by Bartlett's decomposition.

    ``half_chi_squares[j]`` is a gamma variable of shape (df - j)/2, half a chi-square with df - j
    degrees of freedom; ``normals[start:]`` fills the p(p - 1)/2 places below the diagonal. Returns
    False if ``scale`` is not positive definite.
    """
    size = out.shape[0]
    factor = np.empty((size, size))
    if not cholesky(scale, size, factor):
        return False
    bartlett = np.empty((size, size))
    used = start
    for j in range(size):
        for k in range(j):
            bartlett[j, k] = normals[used]
            used += 1
        bartlett[j, j] = math.sqrt(2.0 * half_chi_squares[j])
    # B = A^{-1} C', one column of C' (row of C) at a time.
    root = np.empty((size, size))
    for column in range(size):
        for j in range(size):
            total = factor[column, j] if j <= column else 0.0
            for k in range(j):
                total -= bartlett[j, k] * root[k, column]
            root[j, column] = total / bartlett[j, j]
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for k in range(size):
                total += root[k, i] * root[k, j]
            out[i, j] = total
            out[j, i] = total
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def draw_gamma(shape, normals, uniforms, used):
    """Draw gamma(shape), shape at least 1; return it and the next position in the pool.

    The position is -1 if the pool is exhausted. With d = shape - 1/3 and v = (1 + z / sqrt(9 d))^3,
    z normal, d v is accepted if log(w) < z^2/2 + d (1 - v + log v), w uniform. The sufficient
    condition w < 1 - 0.0331 z^4 spares the logarithms.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while used < normals.shape[0]:
        z = normals[used]
        w = uniforms[used]
        used += 1
        v = 1.0 + c * z
        if v <= 0.0:
            continue
        v = v * v * v
        square = z * z
        if w < 1.0 - 0.0331 * square * square:
            return d * v, used
        if w <= 0.0 or math.log(w) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return d * v, used
    return 0.0, -1


@njit(cache=True, nogil=True, error_model="numpy")
def draw_dirichlet(shapes, row, n_levels, normals, uniforms, used, boosts, out):
    """Draw Dirichlet(``shapes[row, :n_levels]``) into ``out[row, :n_levels]``.

    Returns the next position in the pool, or -1 if the pool is exhausted. ``boosts``, of the shape
    of ``shapes``, holds the uniforms for shapes below 1; it may be empty if there are none.
    """
    total = 0.0
    if shapes[row, :n_levels].min() >= 1.0:
        for j in range(n_levels):
            gamma, used = draw_gamma(shapes[row, j], normals, uniforms, used)
            if used < 0:
                return -1
            out[row, j] = gamma
            total += gamma
    else:
        highest = -math.inf
        for j in range(n_levels):
            shape = shapes[row, j]
            boost = 0.0
            if shape < 1.0:
                boost = math.log(1.0 - boosts[row, j]) / shape
                shape += 1.0
            gamma, used = draw_gamma(shape, normals, uniforms, used)
            if used < 0:
                return -1
            out[row, j] = math.log(gamma) + boost
            highest = max(highest, out[row, j])
        for j in range(n_levels):
            out[row, j] = math.exp(out[row, j] - highest)
            total += out[row, j]
    inverse = 1.0 / total
    for j in range(n_levels):
        out[row, j] = max(out[row, j] * inverse, SMALLEST)
    return used


@njit(cache=True, nogil=True)
def normalise_rows(out):
    """Divide each row of gammas by its sum, in place, which makes Dirichlet draws."""
    for row in range(out.shape[0]):
        total = 0.0
        for j in range(out.shape[1]):
            total += out[row, j]
        inverse = 1.0 / total
        for j in range(out.shape[1]):
            out[row, j] = max(out[row, j] * inverse, SMALLEST)


def shares_of(logs: Floats) -> Floats:
    """Return exp(logs) divided by its sum along the last axis: Dirichlet draws from log gammas."""
    shares: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.clip(shares, SMALLEST, 1.0 - 2.0**-53, out=shares)


def draw_log_gammas(shapes: Floats, rng: np.random.Generator) -> Floats:
    """Draw log gammas as log(Gamma(a + 1) V^(1/a)): for small a a gamma underflows."""
    logs: Floats = np.log(rng.standard_gamma(shapes + 1.0))
    return logs + np.log1p(-rng.random(shapes.shape)) / shapes


@njit(cache=True, nogil=True)
def log_dirichlet(probabilities, row, n_levels, exponents):
    """Return sum_j (a_j - 1) log p_j of a row; ``exponents`` are a_j - 1; -inf off the simplex."""
    total = 0.0
    result = 0.0
    for j in range(n_levels):
        p = probabilities[row, j]
        if not p >= 0.0:
            return -math.inf
        total += p
        power = exponents[j]
        if power != 0.0:
            if p > 0.0:
                result += power * math.log(p)
            elif power > 0.0:
                return -math.inf
            else:
                result = math.inf
    if abs(total - 1.0) > SIMPLEX_TOLERANCE:
        return -math.inf
    return result


def log_dirichlet_constant(concentrations: Floats) -> float:
    """Return log Gamma(sum a) - sum log Gamma(a), for the density of the first J - 1 entries."""
    return math.lgamma(concentrations.sum()) - sum(math.lgamma(a) for a in concentrations)


def gamma_bound(shape: float, rate: float) -> float:
    """Return a value that Gamma(shape, rate) exceeds with probability below 1e-300.

    Chernoff's bound: P(rate G > shape + t) <= exp(-t + shape log(1 + t / shape)).
    """
    return (shape + 750.0 + 60.0 * math.sqrt(shape)) / rate
