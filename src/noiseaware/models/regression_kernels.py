"""The loops over records of `LinearRegression`; its module docstring has the mathematics.

A record is (x_0, y), p features and the response, in a row of p + 1 floats. Each kernel takes
``width``, whose *length* is p + 1. For small p it is a tuple: its length is part of its type, so
the compiler knows p and unrolls the loops over a record, which is three times faster. For large p
it is an array, so that not every p is compiled anew.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.linear_algebra import cholesky, copy_vector
from noiseaware.contract import Floats
from noiseaware.maths.densities import LOG_2PI
from noiseaware.models.conjugate import (
    draw_from_precision,
    draw_inverse_wishart,
    draw_normal_mean,
)


class Draw(NamedTuple):
    """Where a new theta is written; an empty array marks a parameter that is known."""

    coefficients: Floats
    noise_variance: Floats
    """One number."""
    mean: Floats
    covariance: Floats


@njit(cache=True, nogil=True)
def build_records(width, coefficients, noise_variance, mean, covariance, innovations, records):
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
def _divisors(width, noise_variance, factor):
    """Return the inverses of the diagonal of L and of sigma."""
    w = len(width)
    inverse = np.empty(w)
    for j in range(w - 1):
        inverse[j] = 1.0 / factor[j, j]
    inverse[w - 1] = 1.0 / math.sqrt(noise_variance)
    return inverse


@njit(cache=True, nogil=True)
def _whiten(width, coefficients, mean, factor, inverse, records, i, out):
    """Write u = (L^{-1} (x_0 - m), (y - (1, x_0) beta) / sigma) of record i into row i of ``out``.

    Or into its only row. Returns the sum of its squares.
    """
    at, p = min(i, out.shape[0] - 1), len(width) - 1
    squares = 0.0
    for j in range(p):
        total = records[i, j] - mean[j]
        for k in range(j):
            total -= factor[j, k] * out[at, k]
        total *= inverse[j]
        out[at, j] = total
        squares += total * total
    total = records[i, p] - coefficients[0]
    for j in range(p):
        total -= coefficients[1 + j] * records[i, j]
    total *= inverse[p]
    out[at, p] = total
    return squares + total * total


@njit(cache=True, nogil=True)
def recover_innovations(
    width, coefficients, noise_variance, mean, covariance, records, innovations
):
    """Write u into ``innovations``; NaN if the covariance is not positive definite."""
    w = len(width)
    factor = np.empty((w, w))
    if not cholesky(covariance, w - 1, factor):
        innovations[:] = math.nan
        return
    inverse = _divisors(width, noise_variance, factor)
    for i in range(records.shape[0]):
        _whiten(width, coefficients, mean, factor, inverse, records, i, innovations)


@njit(cache=True, nogil=True)
def log_likelihood(width, coefficients, noise_variance, mean, covariance, records, out):
    """Write log f(x_i | theta) = log N(x_0; m, Sigma) + log N(y; (1, x_0) beta, sigma^2)."""
    w = len(width)
    factor = np.empty((w, w))
    if not (cholesky(covariance, w - 1, factor) and noise_variance > 0.0):
        out[:] = -math.inf
        return
    constant = -0.5 * (w * LOG_2PI + math.log(noise_variance))
    for j in range(w - 1):
        constant -= math.log(factor[j, j])
    inverse = _divisors(width, noise_variance, factor)
    row = np.empty((1, w))
    for i in range(records.shape[0]):
        squares = _whiten(width, coefficients, mean, factor, inverse, records, i, row)
        out[i] = constant - 0.5 * squares


@njit(cache=True, nogil=True)
def _moments(width, records, gram, cross):
    """Write x'x into the lower triangle of ``gram`` and x'y into ``cross``, x = (1, x_0)."""
    w = len(width)
    p = w - 1
    cross[:] = 0.0
    gram[:] = 0.0
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
    if not draw_from_precision(precision, w, out, normals):
        out[:] = math.nan


@njit(cache=True, nogil=True)
def update_coefficients(width, records, noise_variance, prior_precision, normals, coefficients):
    """Draw beta | sigma^2, x, y into ``coefficients``: one pass over the records."""
    w = len(width)
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(width, records, gram, cross)
    _draw_coefficients(gram, cross, noise_variance, prior_precision, normals, coefficients)


@njit(cache=True, nogil=True)
def _spread(width, records, coefficients, mean, scatter):
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
    width,
    records,
    noise_variance,
    mean,
    covariance,
    coefficient_precision,
    noise_scale,
    features,
    normals,
    gammas,
    out,
):
    """One Gibbs scan of p(theta | x): beta, m, then sigma^2, Sigma; two passes over the records.

    ``features`` are the `Priors` of m and Sigma, ``out`` is a `Draw`. ``normals`` holds p + 1
    numbers for beta, then p for an unknown m, then p (p - 1)/2 for an unknown Sigma; ``gammas``
    one of shape a + n/2 for an unknown sigma^2, then p of shapes (df + n - j)/2 for an unknown
    Sigma.
    """
    w = len(width)
    p = w - 1
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(width, records, gram, cross)
    _draw_coefficients(
        gram, cross, noise_variance, coefficient_precision, normals, out.coefficients
    )
    used = w
    centre = np.empty(p)
    copy_vector(mean, centre)
    if out.mean.shape[0] > 0:
        sums = gram[1:w, 0].copy()
        precisions, centres = features.precisions, features.centres
        draw_normal_mean(gram[0, 0], sums, covariance, precisions, centres, normals, used, out.mean)
        used += p
        copy_vector(out.mean, centre)
    if out.noise_variance.shape[0] == 0 and out.covariance.shape[0] == 0:
        return
    scatter = np.empty((p, p))
    squares = _spread(width, records, out.coefficients, centre, scatter)
    taken = 0
    if out.noise_variance.shape[0] > 0:
        out.noise_variance[0] = (noise_scale + 0.5 * squares) / gammas[0]
        taken = 1
    if out.covariance.shape[0] > 0:
        for a in range(p):
            for b in range(a + 1):
                scatter[a, b] += features.scale[a, b]
        if not draw_inverse_wishart(scatter, gammas[taken:], normals, used, out.covariance):
            out.covariance[:] = math.nan
