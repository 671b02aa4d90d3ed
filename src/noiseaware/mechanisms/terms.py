"""The compiled form of a mechanism whose noise is added coordinate by coordinate.

Such a mechanism has a log density that is a sum over the d coordinates of the release,

    log g(s_dp, T) = sum_j phi_j(T_j),

where T is the total of the records' statistics and phi_j is fixed by the released value
s_dp[j]. The sampler scores a proposed record by the few phi_j that it changes, so phi_j has
to be cheap and has to run inside compiled loops. A `Terms` is therefore two plain arrays: a
family code that picks the formula of phi_j, and a row of four parameters that fills it in.

| code           | phi_j(T_j)                      | parameters row                       |
|----------------|---------------------------------|--------------------------------------|
| `LAPLACE` = 0  | -abs(v - T_j) * inverse         | [v, inverse, unused, unused]         |
| `GAUSSIAN` = 1 | -((v - T_j) * inverse)^2 / 2    | [v, inverse, unused, unused]         |

v is the released value and inverse is 1 / scale. Continuous and discrete noise share a code:
a discrete Laplace (Gaussian) mass is the Laplace (Gaussian) density at an integer, up to a
constant, and the posterior does not see constants. The unused columns are room for families
that need more numbers (the ends of a clamp, a threshold, a rounding step).

Example
-------
>>> import numpy as np
>>> family = np.array([LAPLACE, GAUSSIAN])
>>> parameters = np.array([[3.0, 0.5, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0]])
>>> float(log_g(family, parameters, np.array([5.0, 2.0])))
-3.0
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

LAPLACE = 0
GAUSSIAN = 1

N_PARAMETERS = 4
"""Columns of `Terms.parameters`."""


class Terms(NamedTuple):
    """The functions phi_j of a release, as arrays that compiled code can read.

    Attributes
    ----------
    family
        The code of each coordinate's formula, int64 (d,).
    parameters
        The numbers that the formulas use, float64 (d, 4), C-contiguous.
    """

    family: NDArray[np.int64]
    parameters: NDArray[np.float64]


@njit(cache=True, nogil=True)
def term(family, p0, p1, p2, p3, total):
    """Return phi_j(T_j), one coordinate's part of log g, up to a constant free of T.

    Parameters
    ----------
    family
        The code of the formula.
    p0, p1, p2, p3
        The coordinate's row of `Terms.parameters`.
    total
        T_j, the total of the records' statistics in this coordinate.

    Returns
    -------
    float
        phi_j(T_j); NaN for a code that does not exist, so that a mistake is not silent.
    """
    if family == LAPLACE:
        return -abs(p0 - total) * p1
    if family == GAUSSIAN:
        z = (p0 - total) * p1
        return -0.5 * z * z
    return np.nan


@njit(cache=True, nogil=True)
def log_g(family, parameters, total):
    """Return log g(s_dp, T) = sum_j phi_j(T_j), up to a constant free of T.

    Parameters
    ----------
    family, parameters
        The two arrays of a `Terms`, (d,) and (d, 4).
    total
        T, float64 (d,).

    Returns
    -------
    float
    """
    result = 0.0
    for j in range(total.shape[0]):
        result += term(
            family[j],
            parameters[j, 0],
            parameters[j, 1],
            parameters[j, 2],
            parameters[j, 3],
            total[j],
        )
    return result


def additive_terms(code: int, values: NDArray[np.float64], scale: float) -> Terms:
    """Return the `Terms` of one kind of additive noise with one scale.

    Parameters
    ----------
    code
        `LAPLACE` or `GAUSSIAN`.
    values
        The released values, (d,).
    scale
        The scale of the noise.
    """
    parameters = np.zeros((len(values), N_PARAMETERS))
    parameters[:, 0] = values
    parameters[:, 1] = 1.0 / scale
    return Terms(np.full(len(values), code, dtype=np.int64), parameters)
