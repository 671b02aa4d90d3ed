"""Compiled log densities that are joint: not a sum over coordinates.

A `JointDensity` is a code that picks the formula of log g(s_dp, T) and a vector of its parameters.
One compiled function, `log_joint`, dispatches on the code. (A compiled function that takes another
function as an argument cannot be cached on disk.)

| code                 | log g(s_dp, T)                                       | T                |
|----------------------|------------------------------------------------------|------------------|
| `K_NORM` = 0         | -norm(s_dp - T) / b                                  | (d,)             |
| `EXPONENTIAL` = 1    | T_k / b - log sum_l exp(T_l / b)                     | utilities, (K,)  |
| `GRADIENT_GRID` = 2  | the same, with -norm(gradient at output l) for T_l   | (K q,)           |
| `GRADIENT` = 3       | log noise density at the gradient + log det Hessian  | (q + q(q+1)/2,)  |
| `SEVERAL` = 4        | the sum of the formulas of several parts             | one after another|

Here b is a scale, k the position of the released output, and q the number of entries of an output.
`exponential` and `minimisers` derive the formulas. A mechanism provides its density by a method
`joint(values) -> JointDensity`; a user's mechanism without it is scored by its `log_density` in
Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from noiseaware.basics.deprecated import renamed
from noiseaware.contract import Floats
from noiseaware.mechanisms.ready import ReadyMechanism
from noiseaware.mechanisms.terms import SeparableDensity, as_total, formula

K_NORM = 0
EXPONENTIAL = 1
GRADIENT_GRID = 2
GRADIENT = 3
SEVERAL = 4
COORDINATES = -1  # a part of several that is a sum over its coordinates

L_INFINITY, L1, L2, SQUARED = 0, 1, 2, 3
"""How the noise measures a vector: one of three norms, or half the squared l2 norm (Gaussian)."""

_NORMS = {1: L1, 2: L2, math.inf: L_INFINITY}


class JointDensity(NamedTuple):
    """A joint log density for compiled code: the code of its formula, and the parameters."""

    code: int
    parameters: Floats


@njit(cache=True, nogil=True)
def size_of(kind, vector, begin, end, reference, shift, inverse):
    """Return the size of (vector + reference) * inverse over entries begin to end of `vector`.

    Entry j of `vector` is added to entry j + `shift` of `reference`. `kind` is L_INFINITY, L1, L2
    or SQUARED.
    """
    result = 0.0
    for j in range(begin, end):
        z = abs(vector[j] + reference[j + shift]) * inverse
        if kind == L1:
            result += z
        elif kind == L_INFINITY:
            result = max(result, z)
        else:
            result += z * z
    if kind == L2:
        return math.sqrt(result)
    if kind == SQUARED:
        return 0.5 * result
    return result


@njit(cache=True, nogil=True)
def log_k_norm(parameters, total):
    """Parameters: [norm, 1 / scale, minus the released values (d)]."""
    return -size_of(int(parameters[0]), total, 0, len(total), parameters, 2, parameters[1])


@njit(cache=True, nogil=True)
def log_exponential(parameters, total):
    """Parameters: [position of the output, 1 / scale]."""
    largest = total[0]
    for k in range(1, len(total)):
        largest = max(largest, total[k])
    inverse = parameters[1]
    normaliser = 0.0
    for k in range(len(total)):
        normaliser += math.exp((total[k] - largest) * inverse)
    return (total[int(parameters[0])] - largest) * inverse - math.log(normaliser)


@njit(cache=True, nogil=True)
def log_gradient_grid(parameters, total):
    """Parameters: [position of the output, 1 / scale, norm, q, fixed part of each gradient (K q)].

    `total` holds the summed gradients at the K outputs, concatenated.
    """
    kind, q = int(parameters[2]), int(parameters[3])
    sizes = np.empty(len(total) // q)
    for k in range(len(sizes)):
        sizes[k] = -size_of(kind, total, k * q, (k + 1) * q, parameters, 4, 1.0)
    return log_exponential(parameters, sizes)


@njit(cache=True, nogil=True)
def log_determinant(triangle, q, ridge):
    """Return log det of a symmetric matrix plus `ridge` times the identity.

    `triangle` is the upper triangle row by row, (q (q + 1) / 2,). Uses the Cholesky factor; minus
    infinity if the matrix is not positive definite.
    """
    factor = np.empty((q, q))
    result = 0.0
    position = 0
    for i in range(q):
        for j in range(i, q):  # column i of the lower factor, from row i of the upper triangle
            value = triangle[position]
            position += 1
            if i == j:
                value += ridge
            for k in range(i):
                value -= factor[j, k] * factor[i, k]
            if i == j:
                # Rounding leaves the pivot of a singular matrix slightly above or below zero.
                if not value > 1e-13 * (abs(triangle[position - 1]) + ridge):
                    return -np.inf
                factor[i, i] = math.sqrt(value)
                result += math.log(value)
            else:
                factor[j, i] = value / factor[i, i]
    return result


@njit(cache=True, nogil=True)
def log_gradient(parameters, total):
    """Parameters: [norm, 1 / scale, q, ridge, fixed part of the gradient (q)].

    `total` is the summed gradient (q), then the upper triangle of the summed Hessian.
    """
    q = int(parameters[2])
    log_noise = -size_of(int(parameters[0]), total, 0, q, parameters, 4, parameters[1])
    return log_noise + log_determinant(total[q:], q, parameters[3])


@njit(cache=True, nogil=True)
def log_coordinates(parameters, total):
    """Parameters: [the family of each coordinate (d), then four numbers for each]."""
    p, d, result = parameters, len(total), 0.0
    for j in range(d):
        at = d + 4 * j
        result += formula(int(p[j]), p[at], p[at + 1], p[at + 2], p[at + 3], total[j])
    return result


@njit(cache=True, nogil=True)
def log_part(code, parameters, total):
    """Return log g of any code but `SEVERAL`; NaN for an unknown code."""
    if code == K_NORM:
        return log_k_norm(parameters, total)
    if code == EXPONENTIAL:
        return log_exponential(parameters, total)
    if code == GRADIENT_GRID:
        return log_gradient_grid(parameters, total)
    if code == GRADIENT:
        return log_gradient(parameters, total)
    if code == COORDINATES:
        return log_coordinates(parameters, total)
    return np.nan


@njit(cache=True, nogil=True)
def log_several(parameters, total):
    """Parameters: [number of parts, five numbers for each, then the parameters of each].

    The five: its code, where its part of T begins and ends, where its parameters begin and end.
    """
    p, result = parameters, 0.0
    for k in range(int(parameters[0])):
        at = 1 + 5 * k
        own, part = p[int(p[at + 3]) : int(p[at + 4])], total[int(p[at + 1]) : int(p[at + 2])]
        result += log_part(int(p[at]), own, part)
    return result


@njit(cache=True, nogil=True)
def log_joint(code, parameters, total):
    """Return log g(s_dp, T), up to a constant free of T, of a `JointDensity` at T, float64 (d,).

    An unknown code gives NaN, so that a mistake is not silent.
    """
    if code == SEVERAL:
        return log_several(parameters, total)
    return log_part(code, parameters, total)


def several(
    parts: Sequence[SeparableDensity | JointDensity], lengths: Sequence[int]
) -> JointDensity:
    """Return the sum of the parts' log densities, whose totals have these lengths."""
    flat = [one for part, length in zip(parts, lengths, strict=True) for one in _flat(part, length)]
    rows, begin, at = [], 0, 1 + 5 * len(flat)
    for code, content, length in flat:
        rows.append([code, begin, begin + length, at, at + len(content)])
        begin, at = begin + length, at + len(content)
    contents = [content for _, content, _ in flat]
    return density(SEVERAL, float(len(flat)), np.ravel(rows), *contents)


def _flat(part: SeparableDensity | JointDensity, length: int) -> list[tuple[int, Floats, int]]:
    """Return the codes, parameters and lengths of a part, which may itself be several."""
    if not isinstance(part, JointDensity):
        return [(COORDINATES, np.concatenate([part.family, part.parameters.ravel()]), length)]
    if part.code != SEVERAL:
        return [(part.code, part.parameters, length)]
    numbers = part.parameters
    rows = numbers[1 : 1 + 5 * int(numbers[0])].reshape(-1, 5).astype(np.int64)
    return [(code, numbers[at:to], end - begin) for code, begin, end, at, to in rows.tolist()]


def norm_of(norm: Any) -> float:
    """Return a norm from a user or a file, with "inf" as a number; ValueError if unknown."""
    norm = math.inf if isinstance(norm, str) and norm == "inf" else norm
    if isinstance(norm, bool | str) or not isinstance(norm, int | float) or norm not in _NORMS:
        raise ValueError(f"norm must be 1, 2 or inf; got {norm!r}")
    return norm


def norm_code(norm: Any) -> int:
    """Return the code of the l1, l2 or l-infinity norm; ValueError if unknown."""
    return _NORMS[norm_of(norm)]


def density(code: int, *numbers: ArrayLike) -> JointDensity:
    """Return a `JointDensity` whose parameters are these numbers and vectors, in order."""
    return JointDensity(code, np.hstack(numbers).astype(np.float64))


def ball_noise(d: int, norm: Any, scale: float, rng: np.random.Generator, size: int = 1) -> Floats:
    """Draw noise with density proportional to exp(-norm(e) / scale), (size, d).

    e = r u, with u uniform in the unit ball of the norm and r / scale from Gamma(d + 1). Proof:
    given r, e is uniform in a ball whose volume is proportional to r^d, so its density is

        integral over r > norm(e) of r^(-d) r^d exp(-r / scale) dr, proportional to
        exp(-norm(e) / scale)

    (Hardt and Talwar 2010). A uniform point of the ball is U^(1/d) times a boundary point drawn
    from the cone measure: standard Laplace (Gaussian) numbers divided by their l1 (l2) norm. For
    l-infinity the cube is drawn directly.
    """
    kind = norm_code(norm)
    radius = scale * rng.gamma(d + 1.0, size=(size, 1))
    if kind == L_INFINITY:
        return radius * rng.uniform(-1.0, 1.0, size=(size, d))
    ball = rng.random(size=(size, 1)) ** (1.0 / d)
    if kind == L1:
        direction = rng.laplace(size=(size, d))
        return radius * ball * direction / np.abs(direction).sum(axis=1, keepdims=True)
    direction = rng.standard_normal(size=(size, d))
    return radius * ball * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def log_ball_constant(d: int, norm: Any, scale: float) -> float:
    """Return c such that exp(-norm(e) / scale + c) is the density of noise e in d dimensions.

    The integral of exp(-norm(e) / b) is d! b^d times the volume of the unit ball of the norm
    (integrate by layers, as in `ball_noise`): 2^d / d! for l1, pi^(d/2) / Gamma(d/2 + 1) for l2,
    2^d for l-infinity.
    """
    log_volume = d * math.log(2.0)
    if norm_code(norm) == L1:
        log_volume -= math.lgamma(d + 1.0)
    elif norm_code(norm) == L2:
        log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
    return -(math.lgamma(d + 1.0) + d * math.log(scale) + log_volume)


class JointMechanism(ReadyMechanism):
    """Base class of mechanisms whose log density is one compiled formula of the whole total T."""

    scale: float

    def joint(self, values: ArrayLike) -> JointDensity:
        """Return the log density of these released values for compiled code."""
        raise NotImplementedError

    def total_length(self, values: Floats) -> int:
        """Return the length of T."""
        return len(values)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T) up to a constant free of T, for released values and total (d,)."""
        checked = self.check_values(values)
        total = as_total(total, self.total_length(checked))
        return float(log_joint(*self.joint(checked), total))


__getattr__ = renamed(
    "noiseaware.mechanisms.joint",
    {"Joint": ("noiseaware.mechanisms.joint.JointDensity", JointDensity)},
)
