"""The loops over records of `LinearRegression`; its module docstring has the mathematics.

A record is (x_0, y), p features and the response, in a row of p + 1 floats. Each kernel takes
``width``, whose *length* is p + 1. For small p it is a tuple: its length is part of its type, so
the compiler knows p and unrolls the loops over a record, which is three times faster. For large p
it is an array, so that not every p is compiled anew.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from noiseaware.models.conjugate import (
    draw_from_precision,
    draw_inverse_wishart,
    draw_normal_mean,
)
from noiseaware.models.linear_algebra import cholesky

LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def build_records(coefficients, noise_variance, mean, covariance, innovations, records, width):
    """Write x_0 = m + L u_{1..p} and y = (1, x_0) beta + sigma u_{p+1} into ``records``.

    Put together, a record is an affine function of its innovations, c + A u, with A lower
    triangular: rows 1..p of (c, A) are (m, L), the last row is
    (beta_0 + beta' m, (beta' L, sigma)). NaN if the covariance is not positive definite.
    """
    w = len(width)
    p = w - 1
    matrix = np.empty((w, w))
    offset = np.empty(w)
    if not (cholesky(covariance, p, matrix) and noise_variance >= 0.0):
        records[:] = math.nan
        return
    offset[p] = coefficients[0]
    for j in range(p):
        offset[j] = mean[j]
        offset[p] += coefficients[1 + j] * mean[j]
    for k in range(p):
        total = 0.0
        for j in range(k, p):
            total += coefficients[1 + j] * matrix[j, k]
        matrix[p, k] = total
    matrix[p, p] = math.sqrt(noise_variance)
    for i in range(innovations.shape[0]):
        for j in range(w):
            total = offset[j]
            for k in range(j + 1):
                total += matrix[j, k] * innovations[i, k]
            records[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def recover_innovations(
    coefficients, noise_variance, mean, covariance, records, innovations, width
):
    """Write u = (L^{-1} (x_0 - m), (y - (1, x_0) beta) / sigma) into ``innovations``.

    NaN if the covariance is not positive definite.
    """
    w = len(width)
    p = w - 1
    factor = np.empty((w, w))
    if not cholesky(covariance, p, factor):
        innovations[:] = math.nan
        return
    inverse = np.empty(w)
    for j in range(p):
        inverse[j] = 1.0 / factor[j, j]
    inverse[p] = 1.0 / math.sqrt(noise_variance)
    for i in range(records.shape[0]):
        for j in range(p):
            total = records[i, j] - mean[j]
            for k in range(j):
                total -= factor[j, k] * innovations[i, k]
            innovations[i, j] = total * inverse[j]
        total = records[i, p] - coefficients[0]
        for j in range(p):
            total -= coefficients[1 + j] * records[i, j]
        innovations[i, p] = total * inverse[p]


@njit(cache=True, nogil=True, error_model="numpy")
def log_likelihood(coefficients, noise_variance, mean, covariance, records, out, width):
    """Write log f(x_i | theta) = log N(x_0; m, Sigma) + log N(y; (1, x_0) beta, sigma^2)."""
    w = len(width)
    p = w - 1
    factor = np.empty((w, w))
    if not (cholesky(covariance, p, factor) and noise_variance > 0.0):
        out[:] = -math.inf
        return
    constant = -0.5 * (w * LOG_2PI + math.log(noise_variance))
    inverse = np.empty(w)
    for j in range(p):
        constant -= math.log(factor[j, j])
        inverse[j] = 1.0 / factor[j, j]
    inverse[p] = 1.0 / math.sqrt(noise_variance)
    row = np.empty(w)
    for i in range(records.shape[0]):
        squares = 0.0
        for j in range(p):
            total = records[i, j] - mean[j]
            for k in range(j):
                total -= factor[j, k] * row[k]
            row[j] = total * inverse[j]
            squares += row[j] * row[j]
        total = records[i, p] - coefficients[0]
        for j in range(p):
            total -= coefficients[1 + j] * records[i, j]
        total *= inverse[p]
        out[i] = constant - 0.5 * (squares + total * total)


@njit(cache=True, nogil=True)
def _moments(records, gram, cross, width):
    """Write x'x into the lower triangle of ``gram`` and x'y into ``cross``, x = (1, x_0)."""
    w = len(width)
    p = w - 1
    for a in range(w):
        cross[a] = 0.0
        for b in range(a + 1):
            gram[a, b] = 0.0
    for i in range(records.shape[0]):
        y = records[i, p]
        cross[0] += y
        for a in range(p):
            x = records[i, a]
            gram[1 + a, 0] += x
            cross[1 + a] += x * y
            for b in range(a + 1):
                gram[1 + a, 1 + b] += x * records[i, b]
    gram[0, 0] = records.shape[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_coefficients(gram, cross, noise_variance, prior_precision, normals, out):
    """Draw beta | sigma^2, x, y from N(mu_n, Sigma_n); overwrites nothing that it is given.

    Sigma_n^{-1} = x'x / sigma^2 + I / tau^2 and Sigma_n^{-1} mu_n = x'y / sigma^2 (the paper's
    section S-5); ``prior_precision`` is 1 / tau^2.
    """
    w = cross.shape[0]
    precision = np.empty((w, w))
    inverse = 1.0 / noise_variance
    for a in range(w):
        out[a] = cross[a] * inverse
        for b in range(a + 1):
            precision[a, b] = gram[a, b] * inverse
        precision[a, a] += prior_precision
    if not draw_from_precision(precision, w, out, normals, 0):
        out[:] = math.nan


@njit(cache=True, nogil=True)
def update_coefficients(records, noise_variance, prior_precision, normals, coefficients, width):
    """Draw beta | sigma^2, x, y into ``coefficients``: one pass over the records."""
    w = len(width)
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(records, gram, cross, width)
    _draw_coefficients(gram, cross, noise_variance, prior_precision, normals, coefficients)


@njit(cache=True, nogil=True)
def _draw_mean(gram, covariance, prior_precision, normals, start, out):
    """Draw m | Sigma, x from N(mu, V); ``prior_precision`` is 1 / s^2.

    V^{-1} = n Sigma^{-1} + I / s^2 and V^{-1} mu = Sigma^{-1} sum_i x_0^i. ``gram`` is x'x with the
    intercept first, so its first column holds n and the sums.
    """
    p = out.shape[0]
    sums = gram[1 : p + 1, 0].copy()
    precisions = np.full(p, prior_precision)
    draw_normal_mean(gram[0, 0], sums, covariance, precisions, np.zeros(p), normals, start, out)


@njit(cache=True, nogil=True)
def _spread(records, coefficients, mean, scatter, width):
    """Write sum (x_0 - m)(x_0 - m)' into ``scatter`` (lower) and return |y - x beta|^2.

    A second pass: taking both from x'x and x'y would lose every digit when the residuals are small
    beside the records.
    """
    w = len(width)
    p = w - 1
    squares = 0.0
    scatter[:] = 0.0
    row = np.empty(w)
    for i in range(records.shape[0]):
        residual = records[i, p] - coefficients[0]
        for a in range(p):
            row[a] = records[i, a] - mean[a]
            residual -= coefficients[1 + a] * records[i, a]
        squares += residual * residual
        for a in range(p):
            for b in range(a + 1):
                scatter[a, b] += row[a] * row[b]
    return squares


@njit(cache=True, nogil=True)
def gibbs_scan(
    records,
    noise_variance,
    mean,
    covariance,
    hyper,
    covariance_scale,
    normals,
    gammas,
    coefficients_out,
    noise_variance_out,
    mean_out,
    covariance_out,
    width,
):
    """One Gibbs scan of p(theta | x): beta, m, then sigma^2, Sigma; two passes over the records.

    ``hyper`` is (1/tau^2, 1/s^2, noise scale). An empty ``noise_variance_out``, ``mean_out`` or
    ``covariance_out`` marks a parameter that is known. ``normals`` holds p + 1 numbers for beta,
    then p for an unknown m, then p (p - 1)/2 for an unknown Sigma; ``gammas`` one of shape
    a + n/2 for an unknown sigma^2, then p of shapes (df + n - j)/2 for an unknown Sigma.
    """
    w = len(width)
    p = w - 1
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(records, gram, cross, width)
    _draw_coefficients(gram, cross, noise_variance, hyper[0], normals, coefficients_out)
    used = w
    centre = np.empty(p)
    centre[:] = mean
    if mean_out.shape[0] > 0:
        _draw_mean(gram, covariance, hyper[1], normals, used, mean_out)
        used += p
        centre[:] = mean_out
    if noise_variance_out.shape[0] == 0 and covariance_out.shape[0] == 0:
        return
    scatter = np.empty((p, p))
    squares = _spread(records, coefficients_out, centre, scatter, width)
    taken = 0
    if noise_variance_out.shape[0] > 0:
        noise_variance_out[0] = (hyper[2] + 0.5 * squares) / gammas[0]
        taken = 1
    if covariance_out.shape[0] > 0:
        for a in range(p):
            for b in range(a + 1):
                scatter[a, b] += covariance_scale[a, b]
        if not draw_inverse_wishart(scatter, gammas[taken:], normals, used, covariance_out):
            covariance_out[:] = math.nan
