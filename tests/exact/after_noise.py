"""Releases that were changed after the noise, on tiny databases, with the same in plain Python.

The plain side knows the published number only as a function of the noisy one: it adds up, or
integrates, over every noisy number that gives what was published.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import integrate, stats

import noiseaware as na
from exact.enumeration import Problem
from noiseaware.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Rounded,
    Several,
    Thresholded,
    Truncated,
)

NOISES = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "discrete laplace": DiscreteLaplace,
    "discrete gaussian": DiscreteGaussian,
}
DISCRETE = ("discrete laplace", "discrete gaussian")
SCALE = 1.3
WITHHELD = float("nan")


# ------------------------------------------------------------------ the noise, in plain Python


@functools.cache
def discrete_masses(noise: str, scale: float) -> dict[int, float]:
    power = 1 if noise == "discrete laplace" else 2
    weights = {
        e: math.exp(-(abs(e) ** power) / (scale if power == 1 else 2 * scale**2))
        for e in range(-150, 151)
    }
    whole = math.fsum(weights.values())
    return {e: weight / whole for e, weight in weights.items()}


def density(noise: str, scale: float, e: float) -> float:
    law = stats.laplace if noise == "laplace" else stats.norm
    return float(law.pdf(e, scale=scale))


def mass(noise: str, scale: float, total: float, low: float, high: float) -> float:
    """P(low <= T + e <= high), for continuous noise by quadrature."""
    start = max(low, total - 60 * scale)
    end = min(high, total + 60 * scale)
    if start >= end:
        return 0.0
    inner = [x for x in (total, total - 5 * scale, total + 5 * scale) if start < x < end]
    return integrate.quad(
        lambda y: density(noise, scale, y - total),
        start,
        end,
        points=inner or None,
        epsabs=0.0,
        epsrel=1e-13,
        limit=200,
    )[0]


def half_even(y: int, step: int) -> int:
    below = y // step
    rest = y - below * step
    if 2 * rest == step:
        return (below if below % 2 == 0 else below + 1) * step
    return (below if 2 * rest < step else below + 1) * step


# ------------------------------------------------------------------ the steps, in plain Python

# name -> (the mechanism from its noise, what is published of an integer y, for continuous noise
# the noisy numbers that give v: a point or (low, high)).


def clamp(y):
    return min(max(y, 0), 4)


def clamped_interval(v):
    return (-math.inf, 0.0) if v == 0 else (4.0, math.inf) if v == 4 else v


def threshold(y):
    return y if y > 1 else WITHHELD


def threshold_interval(v):
    return (-math.inf, 1.0) if math.isnan(v) else v


def rounded(y):
    return half_even(y, 2)


def rounded_interval(v):
    return (v - 1.0, v + 1.0)


def all_three(y):
    """Rounded to 2, withheld unless above 1, and clamped to at most 4."""
    y = half_even(y, 2)
    return min(y, 4) if y > 1 else WITHHELD


def all_three_interval(v):
    if math.isnan(v):
        return (-math.inf, 1.0)  # rounded to 0 or less
    return (3.0, math.inf) if v == 4 else (v - 1.0, v + 1.0)


STEPS = {
    "clamped": (lambda m: Clamped(m, lower=0, upper=4), clamp, clamped_interval),
    "thresholded": (lambda m: Thresholded(m, threshold=1), threshold, threshold_interval),
    "rounded": (lambda m: Rounded(m, step=2), rounded, rounded_interval),
    "rounded, thresholded, clamped": (
        lambda m: Clamped(Thresholded(Rounded(m, step=2), threshold=1), upper=4),
        all_three,
        all_three_interval,
    ),
}
TRUNCATED = (-1.0, 4.0)
EVERY_STEP = (*STEPS, "truncated")


def make(step: str, noise: str, query, scale: float = SCALE):
    """The mechanism."""
    inner = NOISES[noise](query, scale=scale)
    return Truncated(inner, *TRUNCATED) if step == "truncated" else STEPS[step][0](inner)


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@functools.cache
def probability(step: str, noise: str, v: float, total: float, scale: float = SCALE) -> float:
    """The probability, or the density, of publishing v when the total is T."""
    if noise in DISCRETE:
        masses = discrete_masses(noise, scale)
        if step == "truncated":
            low, high = TRUNCATED
            whole = math.fsum(p for e, p in masses.items() if low <= total + e <= high)
            return masses[int(v - total)] / whole
        published = STEPS[step][1]
        return math.fsum(p for e, p in masses.items() if same(published(int(total) + e), v))
    if step == "truncated":
        return density(noise, scale, v - total) / mass(noise, scale, total, *TRUNCATED)
    known = STEPS[step][2](v)
    if isinstance(known, tuple):
        return mass(noise, scale, total, *known)
    return density(noise, scale, known - total)


# ------------------------------------------------------------------ problems

BITS, P = np.array([1, 0]), 0.3
LEVELS, SHARES = np.arange(3), (0.2, 0.5, 0.3)
# Values of three cells that each step can publish, for discrete and for continuous noise.
VALUES = {
    "clamped": ((0, 4, 2), (0.0, 4.0, 2.3)),
    "thresholded": ((3, WITHHELD, 2), (1.4, WITHHELD, 2.3)),
    "rounded": ((2, 0, -4), (2.0, 0.0, -4.0)),
    "rounded, thresholded, clamped": ((2, WITHHELD, 4), (2.0, WITHHELD, 4.0)),
    "truncated": ((-1, 4, 2), (-0.7, 3.9, 2.3)),
}


def values_of(step: str, noise: str) -> tuple[float, ...]:
    return tuple(float(v) for v in VALUES[step][noise not in DISCRETE])


def log_product(step: str, noise: str, values, scale: float = SCALE):
    return lambda total: math.fsum(
        math.log(probability(step, noise, v, t, scale)) for v, t in zip(values, total, strict=True)
    )


def cells(step: str, noise: str) -> Problem:
    """Three levels, counted: statistics are cells."""
    values = values_of(step, noise)
    mechanism = make(step, noise, na.queries.Histogram(n_levels=3))
    return Problem(
        na.models.Categorical(3),
        na.Release(values, mechanism, 3),
        {"probabilities": np.array(SHARES)},
        LEVELS,
        SHARES,
        lambda i, x: tuple(float(x == level) for level in range(3)),
        log_product(step, noise, values),
    )


def bernoulli(release, t, log_g) -> Problem:
    theta = {"probability": np.array(P)}
    return Problem(na.models.Bernoulli(), release, theta, BITS, (P, 1 - P), t, log_g)


def dense(step: str, noise: str) -> Problem:
    """Two coordinates of a dense statistic; integers for discrete noise."""
    query = na.Query(
        lambda x: np.column_stack([x, 2.0 - x]),
        ["a", "b"],
        sensitivity={1: 2.0, 2: math.sqrt(2.0)},
        integer_valued=True,
    )
    values = values_of(step, noise)[:2]
    return bernoulli(
        na.Release(values, make(step, noise, query), 3),
        lambda i, x: (float(x), 2.0 - float(x)),
        log_product(step, noise, values),
    )


def several_cells() -> Problem:
    """The same histogram twice: rounded with one noise, thresholded with another."""
    query = na.queries.Histogram(n_levels=3)
    first = make("rounded", "discrete laplace", query, 0.9)
    second = make("thresholded", "gaussian", query, 1.7)
    one, two = values_of("rounded", "discrete laplace"), values_of("thresholded", "gaussian")
    log_one = log_product("rounded", "discrete laplace", one, 0.9)
    log_two = log_product("thresholded", "gaussian", two, 1.7)
    return Problem(
        na.models.Categorical(3),
        na.Release([*one, *two], Several([first, second]), 3),
        {"probabilities": np.array(SHARES)},
        LEVELS,
        SHARES,
        lambda i, x: tuple(float(x == level) for level in range(3)) * 2,
        lambda total: log_one(total[:3]) + log_two(total[3:]),
    )


def several_dense() -> Problem:
    """A count without a step, a clamped sum, and a count of the others."""
    first = Laplace(na.queries.Count(), scale=0.8)
    second = Clamped(Gaussian(na.queries.Sum(0.0, 1.0), scale=1.1), lower=1.0)
    third = DiscreteLaplace(na.queries.Count(value=0), scale=1.4)

    def log_g(total):
        clamped = math.log(mass("gaussian", 1.1, total[1], -math.inf, 1.0))
        return -abs(2.2 - total[0]) / 0.8 + clamped - abs(3 - total[2]) / 1.4

    return bernoulli(
        na.Release([2.2, 1.0, 3.0], Several([first, second, third], ["a", "b", "c"]), 3),
        lambda i, x: (float(x), float(x), 1.0 - float(x)),
        log_g,
    )
