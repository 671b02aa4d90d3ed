"""Log densities of the priors that models share."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from noiseaware.basics.linear_algebra import cholesky, solve_lower

LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def softplus(x):
    """Return log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True, nogil=True)
def log_normal_iid(values, centre, sd):
    """Return the sum of log N(v; centre, sd^2) over ``values``."""
    total = 0.0
    for j in range(values.shape[0]):
        z = (values[j] - centre) / sd
        total += z * z
    return -0.5 * total - values.shape[0] * (math.log(sd) + 0.5 * math.log(2.0 * math.pi))


def log_normal(value: float, mean: float, sd: float) -> float:
    """Return log N(value; mean, sd^2)."""
    z = (value - mean) / sd
    return -(0.5 * (z * z + LOG_2PI) + math.log(sd))


def log_gamma(value: float, shape: float, rate: float) -> float:
    """Return log Gamma(value; shape, rate), density prop. to v^(shape-1) exp(-rate v)."""
    if not 0.0 < value < math.inf:
        return -math.inf
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + (shape - 1.0) * math.log(value) - rate * value


@njit(cache=True, nogil=True)
def log_inverse_gamma(value, shape, scale):
    """Return log InverseGamma(value; shape, scale), density prop. to v^(-shape-1) exp(-scale/v)."""
    if not 0.0 < value < math.inf:
        return -math.inf
    constant = shape * math.log(scale) - math.lgamma(shape)
    return constant - (shape + 1.0) * math.log(value) - scale / value


@njit(cache=True, nogil=True)
def log_inverse_wishart(covariance, df, scale_factor, constant):
    """Return log InverseWishart(covariance; df, S), S = C C' with ``scale_factor`` = C.

    log density = constant - (df + p + 1)/2 log|Sigma| - |L^{-1} C|^2 / 2 with Sigma = L L', over
    the lower triangle of Sigma; -inf if Sigma is not positive definite.
    """
    size = covariance.shape[0]
    factor = np.empty((size, size))
    if not cholesky(covariance, size, factor):
        return -math.inf
    return log_inverse_wishart_at(factor, size, df, scale_factor, constant, np.empty(size))


@njit(cache=True, nogil=True, inline="always")
def log_inverse_wishart_at(factor, size, df, scale_factor, constant, column):
    """Return `log_inverse_wishart` for Sigma = L L', ``factor`` = L; ``column`` is work space."""
    half_log_determinant = 0.0
    for j in range(size):
        half_log_determinant += math.log(factor[j, j])
    trace = 0.0
    for k in range(size):
        for j in range(size):
            column[j] = scale_factor[j, k] if k <= j else 0.0
        solve_lower(factor, size, column)
        for j in range(size):
            trace += column[j] * column[j]
    return constant - (df + size + 1.0) * half_log_determinant - 0.5 * trace


def log_inverse_wishart_constant(df: float, scale_factor: NDArray[np.floating]) -> float:
    """Return df/2 log|S| - df p/2 log 2 - log Gamma_p(df/2), S = C C'."""
    size = len(scale_factor)
    lgammas = sum(math.lgamma(0.5 * (df - j)) for j in range(size))
    log_multivariate_gamma = 0.25 * size * (size - 1) * math.log(math.pi) + lgammas
    return float(
        df * np.log(np.diag(scale_factor)).sum()
        - 0.5 * df * size * math.log(2.0)
        - log_multivariate_gamma
    )
