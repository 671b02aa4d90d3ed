"""Gamma variables from standard normals, z -> x with P(gamma <= x) = Phi(z), and back.

`Gamma` and `Dirichlet` build their records with it. Normals rather than uniforms, because they
keep the digits of both tails: a uniform near 1 has lost those of a large x.

Inverting the incomplete gamma function takes 0.5 to 4 us a number, and a transport move builds
every record several times. But all n records of a column have the same shape a, so the function of
one variable y(z) = log x is wanted at n places, and it solves a differential equation. With f the
gamma density,

    y' = phi(z) / (x f(x)) = exp(q),     q = log(Gamma(a) / sqrt(2 pi)) - z^2 / 2 - a y + exp(y).

So at a grid of nodes, z = 0, +-h, +-2h, ..., as far as the z at hand go, y is found by inversion,
and its Taylor series from the equation, coefficient by coefficient: write Y, E, Q and D for the
series of y, exp(y), q and y' = exp(q) around a node; then D_k = (k + 1) Y_{k+1}, and the
logarithmic derivatives E' = Y' E and D' = Q' D give

    k E_k = sum_{j=1..k} j Y_j E_{k-j},     k D_k = sum_{j=1..k} j Q_j D_{k-j}.

A z is at most h/2 away from its node, and the nearest singularities of y, the complex zeros of Phi
at 1.9 +- 2.8 i, are at least 2.8 away, so that with h = 1/2 the terms up to the 14th leave an error
of about (1/4 / 2.8)^15 = 2e-16, the size of a rounding error. Small shapes bring a bend into y,
where x comes near 1, and have h = 1/4. What it comes to is measured against the inversion in
`tests/exact/test_gamma_quantiles.py`: less than 1e-12 for shapes from 0.01 to 1e4 and |z| < 8.

Where x itself is too small for a double (small shapes), y is still right: there
P(gamma <= x) = x^a / Gamma(a + 1) to all digits.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import special

STEP, FINE_STEP, SMALL_SHAPE = 0.5, 0.25, 0.3
"""Distance h of the nodes, and what it is for shapes below the small one."""

ORDER = 14
"""Degree of the Taylor polynomials, even."""

FARTHEST = 37.0
"""The normals are cut off here, where Phi(-z) is still a double: P(|z| > 37) is 1e-299."""

_TINY = 1e-280
_LARGEST_EXPONENT = 709.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def _expand(shape, constant, step, first, values, series):
    """Fill ``series`` (nodes, ORDER + 1) with the Taylor coefficients of y at each node.

    ``values`` holds y at the nodes, the first of which is z = h ``first``; ``constant`` is
    log(Gamma(a) / sqrt(2 pi)).
    """
    order = series.shape[1] - 1
    exp_y = np.empty(order + 1)
    q = np.empty(order + 1)
    slope = np.empty(order + 1)
    for i in range(values.shape[0]):
        z = step * (first + i)
        y = series[i]
        y[0] = values[i]
        exp_y[0] = math.exp(y[0])
        q[0] = constant - 0.5 * z * z - shape * y[0] + exp_y[0]
        slope[0] = math.exp(q[0])
        y[1] = slope[0]
        for k in range(1, order):
            total = 0.0
            for j in range(1, k + 1):
                total += j * y[j] * exp_y[k - j]
            exp_y[k] = total / k
            q[k] = exp_y[k] - shape * y[k]
            if k == 1:
                q[k] -= z
            elif k == 2:
                q[k] -= 0.5
            total = 0.0
            for j in range(1, k + 1):
                total += j * q[j] * slope[k - j]
            slope[k] = total / k
            y[k + 1] = slope[k] / (k + 1)


@njit(cache=True, nogil=True)
def _evaluate(normals, column, step, first, series, out):
    """Write y(z) into a column of ``out`` for the z in the same column of ``normals``."""
    order = series.shape[1] - 1
    for i in range(normals.shape[0]):
        z = min(max(normals[i, column], -FARTHEST), FARTHEST)
        node = math.floor(z / step + 0.5)
        d = z - step * node
        row = int(node) - first
        # Even and odd powers apart: two short chains of products are quicker than a long one.
        square = d * d
        even, odd = series[row, order], series[row, order - 1]
        for k in range(order - 2, 0, -2):
            even = even * square + series[row, k]
            odd = odd * square + series[row, k - 1]
        out[i, column] = (even * square + series[row, 0]) + odd * d


@njit(cache=True, nogil=True)
def _fill(shapes, constants, step, first, values, normals, out):
    """Write y(z) into ``out`` for all columns; a column whose shape is no shape is NaN."""
    series = np.empty((values.shape[1], ORDER + 1))
    for j in range(shapes.shape[0]):
        if 0.0 < shapes[j] < math.inf:
            _expand(shapes[j], constants[j], step, first, values[j], series)
            _evaluate(normals, j, step, first, series, out)
        else:
            out[:, j] = math.nan


def log_quantiles_at(shape: ArrayLike, nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log x with P(gamma(shape) <= x) = Phi(z) for each z, by inversion.

    ``nodes`` is in increasing order; ``shape`` is a number, or a column ``(k, 1)`` of them.
    """
    lower = int(np.searchsorted(nodes, 1.0, side="right"))
    x = np.empty(np.broadcast_shapes(np.shape(shape), nodes.shape))
    x[..., :lower] = special.gammaincinv(shape, special.ndtr(nodes[:lower]))
    x[..., lower:] = special.gammainccinv(shape, special.ndtr(-nodes[lower:]))
    if x.min() > _TINY:
        return np.log(x)
    below = (special.log_ndtr(nodes) + special.gammaln(np.add(shape, 1.0))) / shape
    return np.where(x > _TINY, np.log(np.maximum(x, _TINY)), below)


def log_gamma_quantiles(
    shapes: NDArray[np.float64], normals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the logarithms of gamma variables, ``(n, k)``, column j of shape ``shapes[j]``.

    ``normals`` is ``(n, k)``. A column whose shape is not a positive number is NaN.
    """
    out = np.empty(normals.shape)
    if out.size == 0:
        return out
    lowest, highest = max(normals.min(), -FARTHEST), min(normals.max(), FARTHEST)
    if not lowest <= highest:  # NaN among the normals
        out[:] = math.nan
        return out
    usable = np.where((shapes > 0.0) & (shapes < math.inf), shapes, 1.0)
    step = FINE_STEP if usable.min() < SMALL_SHAPE else STEP
    first, last = (math.floor(z / step + 0.5) for z in (lowest, highest))
    values = log_quantiles_at(usable[:, np.newaxis], step * np.arange(first, last + 1))
    constants = special.gammaln(usable) - _HALF_LOG_2PI
    _fill(shapes, constants, step, first, values, normals, out)
    return out


def gamma_scores(shapes: NDArray[np.float64], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return z with Phi(z) = P(gamma(shapes[j]) <= x), the inverse of `log_gamma_quantiles`.

    ``logs`` holds log x, ``(n, k)``; the result has the same shape.
    """
    values = np.exp(np.minimum(logs, _LARGEST_EXPONENT))
    below = special.gammainc(shapes, values)
    upper = below > 0.999  # up to there, 1 - below has digits enough
    scores = special.ndtri(below)
    scores[upper] = -special.ndtri(
        special.gammaincc(np.broadcast_to(shapes, values.shape)[upper], values[upper])
    )
    small = values < _TINY
    if small.any():  # x may be no double any more; P(gamma <= x) = x^a / Gamma(a + 1) there
        a = np.broadcast_to(shapes, values.shape)[small]
        log_below = np.minimum(a * logs[small] - special.gammaln(a + 1.0), 0.0)
        scores[small] = special.ndtri_exp(log_below)
    return np.clip(scores, -FARTHEST, FARTHEST)


def spread_below(
    logs: NDArray[np.float64], smallest: NDArray[np.bool_], shape: ArrayLike, rng: Generator | None
) -> None:
    """Move `logs`, where a gamma was too small for a double, to where below it may have been.

    Below a small x the density of a gamma is proportional to x^(a - 1), so that log x - E / a, with
    E standard exponential, has its distribution given that it is below x.
    """
    if rng is not None and smallest.any():
        rates = np.broadcast_to(shape, logs.shape)[smallest]
        logs[smallest] -= rng.standard_exponential(len(rates)) / rates
