"""Compiled log densities that are a sum over the coordinates of the release.

For d coordinates,

    log g(s_dp, T) = sum_j phi_j(T_j),

where T is the total of the records' statistics and the released value s_dp[j] determines phi_j.
The sampler scores a proposed record by the few phi_j that change, in compiled loops. A
`SeparableDensity` is therefore two plain arrays: a family code for the formula of each phi_j, and a
row of four parameters.

| code           | phi_j(T_j)                      | parameters row                       |
|----------------|---------------------------------|--------------------------------------|
| `LAPLACE` = 0  | -abs(v - T_j) * inverse         | [v, inverse, unused, unused]         |
| `GAUSSIAN` = 1 | -((v - T_j) * inverse)^2 / 2    | [v, inverse, unused, unused]         |
| 2, 3, 4, 5     | log P(low <= Y_j <= high)       | [low, inverse, high, unused]         |
| 6, 7, 8, 9     | log p(v) / P(low <= Y_j <= high)| [v, inverse, low, high]              |
| `FOLDED` = 10  | log of a sum, see `forced`      | [v, inverse, low, high]              |
| `EXACT` = 11   | 0 if T_j = v, else -inf         | [v, unused, unused, unused]          |
| `LINEAR` = 20  | T_j * factor                    | [unused, factor, unused, unused]     |

v is the released value and inverse is 1 / scale. Continuous and discrete noise share the codes 0
and 1: a discrete Laplace (Gaussian) mass is the Laplace (Gaussian) density at an integer, up to a
constant that the posterior ignores. Codes 2 to 9 are for noisy numbers Y_j = T_j + e_j known only
to lie in an interval (`BETWEEN`, from `after_noise`) or forced into one (`TRUNCATED`, from
`forced`). There the four kinds of noise differ, in the order of `AdditiveNoise.kind`: Laplace,
Gaussian, discrete Laplace, discrete Gaussian.

The formulas of codes 2 to 10 are long: even a call that is never made slows the loops of ordinary
releases by a factor of three (measured). Densities with such a code therefore have the class
`ExtendedDensity`. numba compiles each loop separately for the two classes and omits the long
formulas for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.deprecated import renamed
from noiseaware.mechanisms.intervals import (
    log_discrete_gaussian_between,
    log_discrete_laplace_between,
    log_folded_laplace,
    log_gaussian_between,
    log_laplace_between,
)

LAPLACE = 0
GAUSSIAN = 1
BETWEEN = 2  # and the next three, one for each kind of noise
TRUNCATED = 6  # likewise
FOLDED = 10  # Laplace noise, continuous or discrete (`forced`)
EXACT = 11  # no noise: what the curator held invariant (`Exact`)
LINEAR = 20  # where t_i is a log density itself (`local`), and T their sum
TABLE = 30  # log h(s | x) of a record as numbers, one for each x (`CellLaws`)

N_PARAMETERS = 4  # columns of `SeparableDensity.parameters`


class SeparableDensity(NamedTuple):
    """The functions phi_j of a release, as arrays for compiled code."""

    family: NDArray[np.int64]
    """The code of each coordinate's formula, (d,): `LAPLACE`, `GAUSSIAN` or `LINEAR`."""
    parameters: NDArray[np.float64]
    """The parameters of the formulas, (d, 4), C-contiguous."""


class CellLaws(NamedTuple):
    """The functions log h(s_i | x_i) of each record, as arrays for compiled code."""

    family: NDArray[np.int64]
    """(n,): `LAPLACE`, `GAUSSIAN`, one of the four codes from `BETWEEN` on, or `TABLE`."""
    parameters: NDArray[np.float64]
    """(n, 4): for `TABLE` [the first x, the place of its log h in `table`, the number of x,
    unused]; log h is -inf elsewhere. Otherwise as in `SeparableDensity`; Gaussian with inverse 0
    means that nothing is seen of the record."""
    table: NDArray[np.float64]
    """All tables, concatenated."""


class ExtendedDensity(SeparableDensity):
    """A `SeparableDensity` that may have any code."""

    __slots__ = ()


@njit(cache=True, nogil=True, error_model="numpy")
def log_between(noise, low, high, inverse, total):
    """Log P(low <= T_j + e_j <= high), for the noise 0, 1, 2 or 3 in the order of the codes."""
    if noise == 0:
        return log_laplace_between(low, high, inverse, total)
    if noise == 1:
        return log_gaussian_between(low, high, inverse, total)
    if noise == 2:
        return log_discrete_laplace_between(low, high, inverse, total)
    return log_discrete_gaussian_between(low, high, inverse, total)


@njit(cache=True, nogil=True, error_model="numpy")
def after_noise_term(family, p0, p1, p2, p3, total):
    """Return phi_j(T_j) for the codes `BETWEEN` and `TRUNCATED`."""
    if family < TRUNCATED:
        return log_between(family - BETWEEN, p0, p2, p1, total)
    noise = family - TRUNCATED
    z = (p0 - total) * p1
    log_density = -abs(z) if noise % 2 == 0 else -0.5 * z * z
    return log_density - log_between(noise, p2, p3, p1, total)


@njit(cache=True, nogil=True)
def plain_formula(family, p0, p1, total):
    """Return phi_j(T_j) for the codes with short formulas; NaN for others."""
    if family == LAPLACE:
        return -abs(p0 - total) * p1
    if family == GAUSSIAN:
        z = (p0 - total) * p1
        return -0.5 * z * z
    if family == LINEAR:
        return total * p1
    if family == EXACT:
        return 0.0 if total == p0 else -np.inf
    return np.nan


@njit(cache=True, nogil=True)
def formula(family, p0, p1, p2, p3, total):
    """Return phi_j(T_j) for the code `family` and parameters p0 to p3; `total` is T_j.

    An unknown code gives NaN, so that a mistake is not silent.
    """
    if BETWEEN <= family < TRUNCATED + 4:
        return after_noise_term(family, p0, p1, p2, p3, total)
    if family == FOLDED:
        return log_folded_laplace(p0, p1, p2, p3, total)
    return plain_formula(family, p0, p1, total)


def needs_long(density):
    """Return True if the long formulas are needed, else None: two types, so two compilations.

    Loops call this and unpack the density's arrays before they begin. Inside a loop, numba would
    count references to both arrays every time, which costs more than a formula.
    """
    return True if isinstance(density, ExtendedDensity) else None


@overload(needs_long)
def _compiled_needs_long(density):
    if issubclass(density.instance_class, ExtendedDensity):
        return lambda density: True
    return lambda density: None


def term_at(long, family, p0, p1, p2, p3, total):
    """Return phi_j(T_j) of a coordinate with this code and these parameters."""
    if long is None:
        return plain_formula(family, p0, p1, total)
    return formula(family, p0, p1, p2, p3, total)


# Inlined, like `add_terms`: a call with array arguments takes longer than a formula.
@overload(term_at, inline="always")
def _compiled_term_at(long, family, p0, p1, p2, p3, total):
    if not isinstance(long, types.NoneType):
        return lambda long, family, p0, p1, p2, p3, total: formula(family, p0, p1, p2, p3, total)
    return lambda long, family, p0, p1, p2, p3, total: plain_formula(family, p0, p1, total)


def term(long, family, parameters, j, total):
    """Return phi_j(T_j) of coordinate j, for T_j = `total` and `long` from `needs_long`."""
    p = parameters
    return term_at(long, family[j], p[j, 0], p[j, 1], p[j, 2], p[j, 3], total)


@overload(term, inline="always")
def _compiled_term(long, family, parameters, j, total):
    return term


@njit(cache=True, nogil=True, inline="always")
def add_terms(long, family, parameters, total):
    """Return sum_j phi_j(T_j)."""
    result = 0.0
    for j in range(total.shape[0]):
        result += term(long, family, parameters, j, total[j])
    return result


@njit(cache=True, nogil=True)
def log_g(density, total):
    """Return log g(s_dp, T), up to a constant free of T, for float64 T (d,)."""
    return add_terms(needs_long(density), density.family, density.parameters, total)


def log_density(density: SeparableDensity, total: ArrayLike) -> float:
    """Return `log_g` of this density at T, for Python callers."""
    return float(log_g(density, as_total(total, len(density.family))))


def as_total(total: ArrayLike, d: int) -> NDArray[np.float64]:
    """Return T as compiled code needs it; ValueError unless it has d entries."""
    array = np.ascontiguousarray(total, dtype=np.float64)
    if array.shape != (d,):
        raise ValueError(f"total must have shape ({d},); got {array.shape}")
    return array


def additive_terms(code: int, values: NDArray[np.float64], scale: Any) -> SeparableDensity:
    """Return the density of released values (d,) by one formula, with one scale or one each."""
    parameters = np.zeros((len(values), N_PARAMETERS))
    parameters[:, 0] = values
    parameters[:, 1] = 1.0 / scale
    return SeparableDensity(np.full(len(values), code, dtype=np.int64), parameters)


def joined(parts: Sequence[SeparableDensity]) -> SeparableDensity:
    """Return the density of several releases, with their coordinates concatenated."""
    extended = any(isinstance(part, ExtendedDensity) for part in parts)
    return (ExtendedDensity if extended else SeparableDensity)(
        np.concatenate([part.family for part in parts]),
        np.concatenate([part.parameters for part in parts]),
    )


__getattr__ = renamed(
    "noiseaware.mechanisms.terms",
    {"Terms": ("noiseaware.mechanisms.terms.SeparableDensity", SeparableDensity)},
)
