"""The supports of parameters: membership, and unconstrained coordinates.

Each parameter declares a support. Moves and kernels propose in a real vector v, mapped onto the
support by theta(v); a density that changes coordinates needs the Jacobian determinant:

    density of v at v  =  density of theta at theta(v)  *  |d theta / d v|.

| support    | theta(v)                                        | log of the Jacobian             |
|------------|-------------------------------------------------|---------------------------------|
| real       | v                                               | 0                               |
| positive   | exp(v)                                          | v                               |
| unit       | 1 / (1 + exp(-v))                               | log theta + log(1 - theta)      |
| simplex    | softmax(v_1, ..., v_{J-1}, 0)                   | sum_j log theta_j               |
| table      | the same, over all entries in C order           | sum_j log theta_j               |
| covariance | L L', L lower triangular, its diagonal exp(v)   | p log 2 + sum_i (p - i + 2) v_ii |

For a simplex the density is with respect to its first J - 1 entries: d theta_j / d v_k =
theta_j (1[j = k] - theta_k), whose determinant is the product of all J entries (matrix determinant
lemma). For a covariance it is with respect to the lower triangle: |d(L L') / d L| = 2^p prod_i
L_ii^(p - i + 1), and the logarithm of the diagonal gives one more factor L_ii; i counts from 1.

**At the edge of a support** doubles end before the mass of a sparse prior does. Under
Beta(.01, .01) a third of the mass is so close to 1 that it rounds to 1; under Gamma(.001, .001)
half of it is below the smallest double. A draw from there is kept as the last double, which stands
for everything that rounds to it. Records see no difference, so draws of theta given x or from the
prior remain correct. But v is not known there, so a density of v at that point would be wrong.
Therefore a density of v is used only in the set V of those v that theta(v) gives back to at least
six digits; outside V the log Jacobian is minus infinity. A Metropolis or slice step that proposes
nothing outside V, and stays put if it starts outside V, leaves p(theta) invariant: it is the step
for p(theta) restricted to V, and the identity elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.parameters import Parameter

REAL, POSITIVE, UNIT, SIMPLEX, COVARIANCE = range(5)


class Support(NamedTuple):
    """A support; a new one needs a row of `SUPPORTS` and a map below."""

    code: int
    """The code of its map in `constrain` and `unconstrain`."""
    words: str
    """What its values must be, for messages."""
    inside: Callable[[np.ndarray], Any]
    """Whether an array of finite numbers is inside."""
    cut: Callable[[tuple[int, ...]], tuple[int, int, int]]
    """Maps a parameter's shape to its number of rows, their width, and its free coordinates."""


def _whole(shape: tuple[int, ...]) -> tuple[int, int, int]:
    return 1, math.prod(shape), math.prod(shape)


def _rows(shape: tuple[int, ...]) -> tuple[int, int, int]:
    rows = math.prod(shape[:-1])
    return rows, shape[-1], rows * (shape[-1] - 1)


SUPPORTS = {
    "real": Support(REAL, "real", lambda x: True, _whole),
    "positive": Support(POSITIVE, "positive", lambda x: (x > 0).all(), _whole),
    "unit": Support(UNIT, "between 0 and 1", lambda x: ((x >= 0) & (x <= 1)).all(), _whole),
    "simplex": Support(
        SIMPLEX,
        "at least 0 and sum to 1 along the last axis",
        lambda x: (x >= 0).all() and np.allclose(x.sum(axis=-1), 1.0, atol=1e-8),
        _rows,
    ),
    "table": Support(
        SIMPLEX,
        "at least 0 and sum to 1 over all entries",
        lambda x: (x >= 0).all() and abs(x.sum() - 1.0) < 1e-8,
        lambda shape: _rows((math.prod(shape),)),
    ),
    "covariance": Support(
        COVARIANCE,
        "symmetric and positive definite",
        lambda x: np.allclose(x, x.T) and (np.linalg.eigvalsh(x) > 0).all(),
        lambda shape: (1, shape[0], shape[0] * (shape[0] + 1) // 2),
    ),
}

_TINY = 1e-300
"""Smaller probabilities are set to this, so that logarithms stay finite."""

FARTHEST = 660.0
"""Largest |log theta| in V: exp(-660) is about 1e-287, which leaves room for a few factors."""

FARTHEST_LOGIT = 23.0
"""Largest logit(theta) in V: there 1 - theta is 1e-10, of which a double has six digits."""


@njit(cache=True, nogil=True, **UNCOUNTED)
def fill_simplex(v, source, natural, start, width):
    """Fill `width` probabilities from `start` on; return the sum of their logs, -inf off V."""
    top = lowest = 0.0
    for j in range(width - 1):
        top = max(top, v[source + j])
        lowest = min(lowest, v[source + j])
    mass = natural[start + width - 1] = math.exp(-top)
    above = 0.0
    for j in range(width - 1):
        natural[start + j] = math.exp(v[source + j] - top)
        mass += natural[start + j]
        above += v[source + j]
    inverse = 1.0 / mass
    for j in range(width):
        natural[start + j] *= inverse
    log_total = top + math.log(mass)
    return above - width * log_total if lowest - log_total >= -FARTHEST else -math.inf


@njit(cache=True, nogil=True, **UNCOUNTED)
def constrain(layout, v, natural):
    """Fill `natural` with theta(v); return the log of the Jacobian, minus infinity outside V.

    Each row of `layout` is one parameter: code, its start in `natural` and in `v`, its number of
    rows, and their width.
    """
    log_jacobian = 0.0
    for k in range(layout.shape[0]):
        code, to, at = layout[k, 0], layout[k, 1], layout[k, 2]
        rows, width = layout[k, 3], layout[k, 4]
        if code == REAL:
            for i in range(rows * width):
                natural[to + i] = v[at + i]
        elif code == POSITIVE:
            for i in range(rows * width):
                natural[to + i] = math.exp(v[at + i])
                log_jacobian += v[at + i] if abs(v[at + i]) <= FARTHEST else -math.inf
        elif code == UNIT:
            for i in range(rows * width):
                # Stable for large |v|: log theta + log(1 - theta) = -|v| - 2 log(1 + exp(-|v|)).
                soft = math.log1p(math.exp(-abs(v[at + i])))
                natural[to + i] = math.exp(min(v[at + i], 0.0) - soft)
                log_jacobian -= abs(v[at + i]) + 2.0 * soft
                if not -FARTHEST <= v[at + i] <= FARTHEST_LOGIT:
                    log_jacobian = -math.inf
        elif code == SIMPLEX:
            for r in range(rows):
                log_jacobian += fill_simplex(
                    v, at + r * (width - 1), natural, to + r * width, width
                )
        else:
            # L occupies its lower triangle; then L L', from the last row to the first.
            position = at
            for i in range(width):
                row = to + i * width
                for j in range(i):
                    natural[row + j] = v[position]
                    position += 1
                natural[row + i] = math.exp(v[position])
                log_jacobian += math.log(2.0) + (width - i + 1) * v[position]
                position += 1
            for i in range(width - 1, -1, -1):
                for j in range(i, -1, -1):
                    total = 0.0
                    for m in range(j + 1):
                        total += natural[to + i * width + m] * natural[to + j * width + m]
                    natural[to + i * width + j] = natural[to + j * width + i] = total
    return log_jacobian


@njit(cache=True, nogil=True)
def unconstrain(layout, natural, v):
    """Fill `v` so that theta(v) = natural: the inverse of `constrain`."""
    for k in range(layout.shape[0]):
        code, to, at, rows, width = layout[k]
        if code == REAL:
            for i in range(rows * width):
                v[at + i] = natural[to + i]
        elif code == POSITIVE:
            for i in range(rows * width):
                v[at + i] = math.log(max(natural[to + i], _TINY))
        elif code == UNIT:
            for i in range(rows * width):
                p = min(max(natural[to + i], _TINY), 1.0 - 1e-16)
                v[at + i] = math.log(p) - math.log1p(-p)
        elif code == SIMPLEX:
            for r in range(rows):
                start, target = to + r * width, at + r * (width - 1)
                last = math.log(max(natural[start + width - 1], _TINY))
                for j in range(width - 1):
                    v[target + j] = math.log(max(natural[start + j], _TINY)) - last
        else:
            factor = np.zeros((width, width))
            position = at
            for i in range(width):
                for j in range(i + 1):
                    total = natural[to + i * width + j]
                    for m in range(j):
                        total -= factor[i, m] * factor[j, m]
                    if i == j:
                        factor[i, i] = math.sqrt(max(total, _TINY))
                        v[position] = math.log(factor[i, i])
                    else:
                        factor[i, j] = total / factor[j, j]
                        v[position] = factor[i, j]
                    position += 1


class Coordinates:
    """The maps between theta and one real vector v, for a tuple of parameters.

    `size` is the length of v; `natural_size` is that of theta with its parameters concatenated.
    `layout` holds the places of the parameters in both, as for `constrain`.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        layout = []
        self._places: list[tuple[str, Any, tuple[int, ...]]] = []
        at = to = 0
        for parameter in self.parameters:
            support = SUPPORTS[parameter.support]
            rows, width, free = support.cut(parameter.shape)
            layout.append((support.code, to, at, rows, width))
            # A scalar parameter is an array without axes, others are read as a vector.
            place = slice(to, to + parameter.size) if parameter.shape else (to, ...)
            self._places.append((parameter.name, place, parameter.shape))
            to += parameter.size
            at += free
        self.layout = np.array(layout, dtype=np.int64)
        self.natural_size = to
        self.size = at

    def to_vector(self, theta: dict[str, Any]) -> np.ndarray:
        """Return v with theta(v) = theta, (size,)."""
        natural = np.empty(self.natural_size)
        for name, place, shape in self._places:
            natural[place] = theta[name] if len(shape) < 2 else np.reshape(theta[name], -1)
        v = np.empty(self.size)
        self._unconstrain(natural, v)
        return v

    def from_vector(self, v: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
        """Return theta(v), in new arrays, and the log of the Jacobian, -inf outside V."""
        natural = np.empty(self.natural_size)
        log_jacobian = self._constrain(v, natural)
        theta = {
            name: natural[place] if len(shape) < 2 else natural[place].reshape(shape)
            for name, place, shape in self._places
        }
        return theta, log_jacobian

    def _constrain(self, v: np.ndarray, natural: np.ndarray) -> float:
        return constrain(self.layout, v, natural)

    def _unconstrain(self, natural: np.ndarray, v: np.ndarray) -> None:
        unconstrain(self.layout, natural, v)

    def blocks(self, largest: int) -> list[np.ndarray]:
        """Cut v into blocks of coordinates that are proposed together.

        Everything is one block if it has at most `largest` coordinates. Otherwise each parameter
        is a block. One that is still too large is cut along its first axes, or, if it is a table,
        whose entries all depend on one another, anywhere.
        """
        if self.size <= largest:
            return [np.arange(self.size)]
        ends = [*self.layout[1:, 2].tolist(), self.size]
        result = []
        starts = self.layout[:, 2].tolist()
        for parameter, start, end in zip(self.parameters, starts, ends, strict=True):
            if parameter.support == "table":
                result += np.array_split(np.arange(start, end), -(-(end - start) // largest))
                continue
            pieces = 1
            for length in parameter.shape[:-1] if parameter.support != "covariance" else ():
                if (end - start) // pieces <= largest:
                    break
                pieces *= length
            result += np.split(np.arange(start, end), pieces)
        return result


def check_theta(where: str, theta: Any, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return theta if it holds the declared parameters, in their supports; otherwise raise."""
    if not isinstance(theta, dict):
        raise TypeError(f"{where} must return a dict of parameters; got {type(theta).__name__}")
    names = [p.name for p in parameters]
    if set(theta) != set(names):
        raise ValueError(f"{where} must return the parameters {names}; got {list(theta)}")
    for parameter in parameters:
        name, support = parameter.name, SUPPORTS[parameter.support]
        given, shape = theta[name], parameter.shape
        try:
            value = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{where} must return numbers for {name}; got {given!r}") from None
        if value.shape != shape:
            raise ValueError(f"{where} must return {name} with shape {shape}; got {value.shape}")
        if not np.isfinite(value).all():
            raise ValueError(f"{where} returned a value of {name} that is not finite")
        if not support.inside(value):
            raise ValueError(f"{where}: {name} must be {support.words}; got {value}")
    return theta
