"""Gamma variables from standard normals, z -> x with P(gamma <= x) = Phi(z), and back.

`Gamma` and `Dirichlet` build their records this way. Normals keep the digits of both tails; a
uniform near 1 would lose those of a large x.

Inverting the incomplete gamma function takes 0.5 to 4 us a number, and a transport move builds
every record several times. But all n records of a column share the shape a, so one function of one
variable, y(z) = log x, is wanted at n points, and it solves a differential equation. With f the
gamma density,

    y' = phi(z) / (x f(x)) = exp(q),     q = log(Gamma(a) / sqrt(2 pi)) - z^2 / 2 - a y + exp(y).

So on a grid of nodes, z = 0, +-h, +-2h, ..., y and its Taylor series follow from the equation,
coefficient by coefficient. Write Y, E, Q and D for the series of y, exp(y), q and y' = exp(q)
around a node; then D_k = (k + 1) Y_{k+1}, and the logarithmic derivatives E' = Y' E and D' = Q' D
give

    k E_k = sum_{j=1..k} D_{j-1} E_{k-j},     k D_k = sum_{j=1..k} j Q_j D_{k-j}.

**From node to node.** The incomplete gamma function is inverted only at the two outermost nodes;
every other node takes its value from its neighbour's series. Errors shrink if the nodes are filled
in the right direction. The solutions of the equation are P(gamma <= x) = Phi(z) + c, one for each
c, and two of them differ by c / (x f(x)) in y, which shrinks where the density x f(x) of y rises,
up to its mode x = a. So the nodes are filled from both ends towards the mode. (In the other
direction an error would grow by exp(z^2 / 2).) An error shrinks by about exp(-|z| h) per node, as
far as the series resolves it: its terms up to the 14th are accurate up to |z| h = 5 or so.

**Accuracy.** The nearest singularities of y, the complex zeros of Phi at 1.9 +- 2.8 i, are at least
2.8 away. With h = 1/4 the terms up to the 14th leave an error of about (1/4 / 2.8)^15 = 2e-16 from
node to node, the size of a rounding error; a z is at most h/2 from its node, so the terms up to the
10th suffice. Small shapes bend y where x comes near 1, and use h = 1/8. Measured against the
inversion (`tests/exact/test_gamma_quantiles.py`), the error is less than 1e-13 for shapes from 0.01
to 1e4 and |z| < 8.

**Back.** The same series is solved by Newton's method between the two nodes that bracket log x. It
starts from the polynomial of degree five that matches z(y) and its derivatives dz/dy = 1 / y' and
d2z/dy2 = -y'' / y'^3 at both nodes, with an error of about (h/2)^6 / 720.

For small shapes, x itself may underflow, but y is still right: there
P(gamma <= x) = x^a / Gamma(a + 1) to all digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import special

from noiseaware.contract import Floats

STEP, FINE_STEP, SMALL_SHAPE = 0.25, 0.125, 0.3
"""Distance h between nodes; the finer one applies to shapes below the small one, and far out."""

ORDER = 14
HALF_ORDER = 10
"""Degrees of the Taylor polynomials from node to node, and up to half of the way."""

ONE_OVER = np.array([0.0, *(1.0 / k for k in range(1, ORDER + 1))])
"""1 / k."""

FAR = 12.0
REACHES = (6.0, FAR, 37.0)
"""Positions of the outermost nodes. The first that no |z| exceeds is used, so a record hardly ever
depends on those built with it (P(|z| > 6) is 2e-9)."""

FARTHEST = REACHES[-1]
"""Normals are clamped here, where Phi(-z) is still a double: P(|z| > 37) is 1e-299."""

MOST_STEPS = 8
"""Maximum number of Newton steps; one or two suffice."""

FEW = 200
"""For fewer records the incomplete gamma function is faster than the series. Measured for one to
four columns, which break even at 120 to 430 records."""

CELLS = 128
"""Length of the lookup table that finds the node near a log x."""

_TINY = 1e-280
_LARGEST_EXPONENT = 709.0
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def _expand(shape, constant, z, y, exp_y, bends, slope):
    """Fill ``y`` (ORDER + 1) with the Taylor coefficients at a node z, given the first, y[0].

    ``constant`` is log(Gamma(a) / sqrt(2 pi)); the remaining arguments are work space for E_k,
    k Q_k and D_k.
    """
    exp_y[0] = math.exp(y[0])
    slope[0] = math.exp(constant - 0.5 * z * z - shape * y[0] + exp_y[0])
    y[1] = slope[0]
    for k in range(1, ORDER):
        one = ONE_OVER[k]
        total = 0.0
        for j in range(k):
            total += slope[j] * exp_y[k - 1 - j]
        exp_y[k] = one * total
        bends[k] = total - shape * slope[k - 1]
        if k == 1:
            bends[k] -= z
        elif k == 2:
            bends[k] -= 1.0
        total = 0.0
        for j in range(1, k + 1):
            total += bends[j] * slope[k - j]
        slope[k] = one * total
        y[k + 1] = slope[k] * ONE_OVER[k + 1]


@njit(cache=True, nogil=True)
def _polynomial(y, d, order):
    """Return the Taylor polynomial with coefficients y at distance d; the order is even."""
    # Even and odd powers apart: two short chains of products are faster than one long one.
    square = d * d
    even, odd = y[order], y[order - 1]
    for k in range(order - 2, 0, -2):
        even = even * square + y[k]
        odd = odd * square + y[k - 1]
    return (even * square + y[0]) + odd * d


@njit(cache=True, nogil=True)
def fill_series(shape, constant, step, ends, series):
    """Fill ``series`` (nodes, ORDER + 1), for nodes h apart, half of them on each side of 0.

    ``ends`` holds y at the first and last node.
    """
    nodes = series.shape[0]
    exp_y, bends, slope = np.empty(ORDER), np.empty(ORDER), np.empty(ORDER)
    last = nodes - 1
    middle = last // 2
    # Downwards while x is above the mode a, then upwards to meet it.
    at = last
    series[at, 0] = ends[1]
    _expand(shape, constant, step * (at - middle), series[at], exp_y, bends, slope)
    while at > 0 and math.exp(series[at, 0]) > shape:
        series[at - 1, 0] = _polynomial(series[at], -step, ORDER)
        at -= 1
        _expand(shape, constant, step * (at - middle), series[at], exp_y, bends, slope)
    for i in range(at):
        series[i, 0] = ends[0] if i == 0 else _polynomial(series[i - 1], step, ORDER)
        _expand(shape, constant, step * (i - middle), series[i], exp_y, bends, slope)


@njit(cache=True, nogil=True)
def _evaluate(series, step, reach, normals, out):
    """Write y(z) into ``out`` for each of ``normals``; the nodes go from -reach to reach."""
    middle = series.shape[0] // 2
    for i in range(normals.shape[0]):
        z = min(max(normals[i], -reach), reach)
        node = math.floor(z / step + 0.5)
        out[i] = _polynomial(series[int(node) + middle], z - step * node, HALF_ORDER)


@njit(cache=True, nogil=True)
def _between(series, step, starts):
    """Fill ``starts`` (nodes - 1, 6): z minus a node as a polynomial in (y - y_0) / (y_1 - y_0)."""
    for low in range(starts.shape[0]):
        here, there = series[low], series[low + 1]
        width = there[0] - here[0]
        # The first derivatives in t, and half of the second.
        slope, end = width / here[1], width / there[1]
        bend, end_bend = -here[2] * slope**2 / here[1], -there[2] * end**2 / there[1]
        # What the cubic to quintic terms must add at t = 1: to value, slope and half bend.
        value, first, second = step - slope - bend, end - slope - 2.0 * bend, end_bend - bend
        row = starts[low]
        row[0], row[1], row[2] = 0.0, slope, bend
        row[3] = 10.0 * value - 4.0 * first + second
        row[4] = -15.0 * value + 7.0 * first - 2.0 * second
        row[5] = 6.0 * value - 3.0 * first + second


@njit(cache=True, nogil=True)
def _invert(series, step, logs, out):
    """Write z with y(z) = log x into ``out`` for each of ``logs``; NaN beyond the nodes."""
    values = series[:, 0].copy()
    last = len(values) - 1
    starts = np.empty((last, 6))
    _between(series, step, starts)
    cells = CELLS / (values[last] - values[0])
    nodes = np.empty(CELLS, dtype=np.int64)  # the last node at or below the start of each cell
    node = 0
    for cell in range(CELLS):
        while node < last - 1 and (values[node + 1] - values[0]) * cells <= cell:
            node += 1
        nodes[cell] = node
    for i in range(logs.shape[0]):
        y = logs[i]
        if not values[0] <= y < values[last]:
            out[i] = math.nan
            continue
        low = nodes[min(int((y - values[0]) * cells), CELLS - 1)]
        while low < last - 1 and values[low + 1] <= y:
            low += 1
        t, start = (y - values[low]) / (values[low + 1] - values[low]), starts[low]
        d = t * (start[1] + t * (start[2] + t * (start[3] + t * (start[4] + t * start[5]))))
        if t > 0.5:
            low, d = low + 1, d - step
        row = series[low]
        for _ in range(MOST_STEPS):
            value, slope = row[HALF_ORDER], 0.0
            for k in range(HALF_ORDER - 1, -1, -1):
                slope = slope * d + value
                value = value * d + row[k]
            change = (y - value) / slope
            d = min(max(d + change, -step), step)
            if abs(change) < 3e-8:  # what is left is about the square of that
                break
        out[i] = step * (low - last // 2) + d


def log_quantiles_at(shape: ArrayLike, nodes: Floats) -> Floats:
    """Return log x with P(gamma(shape) <= x) = Phi(z) for each z, by inversion.

    ``nodes`` is increasing; ``shape`` is a number, or a column ``(k, 1)``.
    """
    lower = int(np.searchsorted(nodes, 1.0, side="right"))
    x = np.empty(np.broadcast_shapes(np.shape(shape), nodes.shape))
    x[..., :lower] = special.gammaincinv(shape, special.ndtr(nodes[:lower]))
    x[..., lower:] = special.gammainccinv(shape, special.ndtr(-nodes[lower:]))
    if x.min() > _TINY:
        return np.log(x)
    below = (special.log_ndtr(nodes) + special.gammaln(np.add(shape, 1.0))) / shape
    return np.where(x > _TINY, np.log(np.maximum(x, _TINY)), below)


@njit(cache=True, nogil=True)
def _columns(shapes, constants, ends, reach, back, given, out):
    """Fill ``out`` with y(z) for the z in ``given``, or if ``back`` with z for the y in it.

    Each column has its own shape; columns whose shape is not a positive number are skipped.
    """
    for j in range(shapes.shape[0]):
        if not 0.0 < shapes[j] < math.inf:
            continue
        step = FINE_STEP if shapes[j] < SMALL_SHAPE or reach > FAR else STEP
        series = np.empty((2 * round(reach / step) + 1, ORDER + 1))
        fill_series(shapes[j], constants[j], step, ends[j], series)
        if back:
            _invert(series, step, given[:, j], out[:, j])
        else:
            _evaluate(series, step, reach, given[:, j], out[:, j])


def _fill(shapes: Floats, reach: float, back: bool, given: Floats) -> Floats:
    usable = np.where((shapes > 0.0) & (shapes < math.inf), shapes, 1.0)
    ends = log_quantiles_at(usable[:, np.newaxis], np.array([-reach, reach]))
    out = np.full(given.shape, math.nan)
    _columns(shapes, special.gammaln(usable) - _HALF_LOG_2PI, ends, reach, back, given, out)
    return out


def log_gamma_quantiles(shapes: Floats, normals: Floats) -> Floats:
    """Return log gammas of normals (n, k), column j of shape `shapes[j]`; NaN if it is not > 0."""
    farthest = float(np.abs(normals).max(initial=0.0))
    if normals.size == 0 or math.isnan(farthest):
        return np.full(normals.shape, math.nan)
    reach = next((reach for reach in REACHES if farthest <= reach), FARTHEST)
    return _fill(shapes, reach, False, normals)


def gamma_scores(shapes: Floats, logs: Floats) -> Floats:
    """Return z with Phi(z) = P(gamma(shapes[j]) <= x), ``(n, k)``, given log x: the inverse."""
    if len(logs) < FEW:
        return _scores_by_tails(np.broadcast_to(shapes, logs.shape), logs)
    scores = _fill(shapes, REACHES[0], True, logs)
    far = np.isnan(scores)
    if far.any():
        scores[far] = _scores_by_tails(np.broadcast_to(shapes, logs.shape)[far], logs[far])
    return scores


def _scores_by_tails(shapes: Floats, logs: Floats) -> Floats:
    """Return the result of `gamma_scores`, each by the incomplete gamma function."""
    values = np.exp(np.minimum(logs, _LARGEST_EXPONENT))
    below = special.gammainc(shapes, values)
    upper = below > 0.999  # up to there, 1 - below has digits enough
    scores = special.ndtri(below)
    scores[upper] = -special.ndtri(special.gammaincc(shapes[upper], values[upper]))
    small = values < _TINY
    if small.any():  # x may be no double any more; P(gamma <= x) = x^a / Gamma(a + 1) there
        a = shapes[small]
        log_below = np.minimum(a * logs[small] - special.gammaln(a + 1.0), 0.0)
        scores[small] = special.ndtri_exp(log_below)
    return np.clip(scores, -FARTHEST, FARTHEST)


def spread_below(logs: Floats, smallest: NDArray[Any], shape: Any, rng: Generator | None) -> None:
    """Replace `logs` of underflowed gammas by draws from below the smallest double.

    Below a small x the density of a gamma is proportional to x^(a - 1), so log x - E / a, with E
    standard exponential, has the distribution of the logarithm given that it is below log x.
    """
    if rng is not None and smallest.any():
        rates = np.broadcast_to(shape, logs.shape)[smallest]
        logs[smallest] -= rng.standard_exponential(len(rates)) / rates
