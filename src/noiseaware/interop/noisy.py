"""The density of a noisy number with the true one summed or integrated out, for JAX and PyTensor.

For a distribution f of the true number x and the density h(s | x) of the published s, NumPyro and
PyMC need

    log p(s) = log sum_x f(x) h(s | x),        or the integral for a continuous f,

differentiable in the parameters of f, and weights from which to draw x given s. Both come from
arrays of nodes x and log weights: p(s) is the sum of the weights w. Nodes are placed without
derivatives. Given the nodes, the derivative of log p(s) is sum_x w(x) d log f(x) / p(s), Fisher's
identity.

**Counts.** Outside a range around s, h(s | x) is below exp(-CUT) times its largest value. The range
is cut into blocks of about a standard deviation of Gaussian noise, or four scales of Laplace noise.
The weight w = f h is computed in the middle of each block, and all counts in the `CHOSEN` blocks of
largest weight are summed. Under Gaussian noise and a log-concave f, w falls off from its mode at
least as fast as the noise, and the blocks reach 11 standard deviations to either side: what they
omit is below exp(-60). Blocks are chosen individually, so several modes (zeros, mixtures) are seen
too. An interval (withheld, clamped, rounded) widens the blocks so that the chosen ones cover it
all. For a value clamped at an upper end, P(Y >= high) is 1 - P(Y < high), or summed from the end on
where that is below 1e-9.

**Values.** In a coordinate y in which f is unbounded (the logarithm, for a positive value), the
integral is over panels, each with a Gauss-Legendre rule of `NODES` nodes. Steps of doubling length
find the mode of w. Panels there are as wide as w, and grow with the distance, so nothing is cut
off. They are interleaved with similar panels around the mean of f, and kinks of h are ends of
panels. f must be smooth: features much narrower than its width (a mixture of needles) are missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseaware.contract import mechanism_abilities
from noiseaware.maths.cells import log_h
from noiseaware.mechanisms.terms import BETWEEN, GAUSSIAN, LAPLACE, TABLE, CellLaws

Floats = NDArray[np.float64]

CUT = 600.0  # log h may be below its largest value by so much before a count is left out unseen
CHOSEN = 24  # blocks of counts that are added up
NODES = 16  # nodes in a panel

LADDER = 2.0 ** np.arange(-26.0, 9.0)
"""Step lengths of the search for the mode, in scales of the noise."""

EDGES = np.concatenate([np.arange(5.0), 4.0 * 1.6 ** np.arange(1.0, 23.0)])
"""Ends of the panels on one side of the mode, in its widths."""

FREE = 64  # draws from f itself, where they are needed for a draw of the true number
FAR = 1e30  # stands for infinity where a difference is taken


class Backend(NamedTuple):
    """The functions that differ between JAX with NumPyro and PyTensor with PyMC."""

    xp: Any  # the module of array functions
    constant: Callable[[Any], Any]  # an array of NumPy as one of theirs
    still: Callable[[Any], Any]  # the same value, with a derivative of zero
    erf: Callable[[Any], Any]
    log_ndtr: Callable[[Any], Any]
    log_mass: Callable[[Any], Any]  # of a distribution of counts, the function log f
    coordinate: Callable[[Any], Any]  # of a distribution of values, its `Coordinate`


class Seen(NamedTuple):
    """What each released value says about its record; arrays have the release's shape."""

    family: NDArray[np.int64]
    low: Floats  # the noisy number, or where it is at least; infinite ends are +-`FAR`
    high: Floats  # the same number, or where it is at most
    inverse: Floats  # 1 / scale of the noise
    nothing: NDArray[np.bool_]  # of which nothing is known
    first: NDArray[np.int64]  # the true counts that may matter, from first to last
    last: NDArray[np.int64]
    width: NDArray[np.int64]  # how many of them make a block
    at: NDArray[np.int64]  # without a formula: where in `table` log h of `first` stands
    table: Floats  # log h of `first`, and of the next ones behind it
    constant: Floats  # what makes h a density or a probability


def laws_of(mechanism: Any, values: Any) -> tuple[CellLaws, Floats]:
    """Return the law of each record and its constant; ValueError if the mechanism is not local."""
    able, laws = mechanism_abilities(mechanism), None
    if able.record_laws is not None and able.check_values is not None:
        values = able.check_values(np.asarray(values, dtype=np.float64).reshape(-1))
        laws = able.record_laws(values)
    if laws is None or able.record_constants is None:
        raise ValueError(
            "mechanism must release every record's own number, as LocalGaussian(queries.Value(), "
            f"scale=...) does; got {mechanism!r}"
        )
    return laws, able.record_constants(values)


def read_values(mechanism: Any, values: Any) -> Seen:
    """Return what the released values say about continuous true values."""
    laws, constant = laws_of(mechanism, values)
    if mechanism.discrete:
        raise ValueError(
            f"{type(mechanism).__name__} publishes whole numbers, and the distribution is "
            "continuous; use LocalLaplace or LocalGaussian, or a distribution of counts"
        )
    whole = np.zeros(len(constant), dtype=np.int64)
    return _seen(laws, constant, (whole, whole, whole, whole), np.zeros(1), np.shape(values))


def read_counts(mechanism: Any, values: Any) -> tuple[Seen, Seen | None]:
    """Return what the released values say about true counts, and the complement of open intervals.

    For a record known to be at or above a number, the second says that it is below that number. It
    is None if there are no such records.
    """
    laws, constant = laws_of(mechanism, values)
    family, p, shape = laws.family, laws.parameters, np.shape(values)
    between = (family >= BETWEEN) & (family != TABLE)
    above = between & (p[:, 2] == np.inf)
    seen = _counts(laws, constant, shape)
    if not above.any():
        return seen, None
    other = p.copy()
    other[above, 2], other[above, 0] = p[above, 0] - float(mechanism.discrete), -np.inf
    return seen, _counts(CellLaws(family, other, laws.table), constant, shape)


def _counts(laws: CellLaws, constant: Floats, shape: tuple[int, ...]) -> Seen:
    """Lay out each record's blocks, and tabulate log h where there is no formula."""
    family, p = laws.family, laws.parameters
    known = ~((family == GAUSSIAN) & (p[:, 1] == 0.0))
    table = family == TABLE
    between = (family >= BETWEEN) & ~table
    scale = 1.0 / np.where(known & ~table, p[:, 1], 1.0)
    laplace = (family == LAPLACE) | (family == BETWEEN) | (family == BETWEEN + 2)
    unit = np.where(known & ~table, np.ceil(np.where(laplace, 4.0, 1.0) * scale), 0.0)
    reach = np.where(table, 0.0, np.where(laplace, CUT, np.sqrt(2.0 * CUT)) * scale)
    high = np.where(between, p[:, 2], np.where(table, p[:, 0] + p[:, 2] - 1.0, p[:, 0]))
    low = np.where(between & (p[:, 0] == -np.inf), 0.0, p[:, 0])
    # An open upper end extends to twice the lower one, plus the noise's reach.
    high = np.where(high == np.inf, 2.0 * np.maximum(low, 0.0), high)
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    first = np.where(known, np.maximum(np.ceil(low - reach), 0.0), 0.0)
    last = np.where(known, np.floor(high + reach), 0.0)
    width = np.maximum(unit, np.ceil((high - low + 20.0 * unit + 1.0) / (CHOSEN - 2)))
    where = np.zeros(len(family), dtype=np.int64)
    tables, at = [np.zeros(1)], 1
    rows = np.column_stack([family, p])
    for row in np.unique(rows[between | table], axis=0):
        mine = (rows == row).all(axis=1)
        x = np.arange(first[mine][0], last[mine][0] + 1.0)
        tables.append(np.array([log_h(int(row[0]), row[1:], laws.table, y) for y in x]))
        where[mine], at = at, at + len(x)
    whole = tuple(a.astype(np.int64) for a in (first, last, np.maximum(width, 1.0), where))
    return _seen(laws, constant, whole, np.concatenate(tables), shape)


def _seen(laws: CellLaws, constant: Any, whole: Any, table: Any, shape: Any) -> Seen:
    family, p = laws.family, laws.parameters
    nothing = (family == GAUSSIAN) & (p[:, 1] == 0.0)
    between = (family >= BETWEEN) & (family != TABLE)
    ends = (p[:, 0], np.where(between, p[:, 2], p[:, 0]))
    low, high = (np.clip(end, -FAR, FAR) for end in ends)
    arrays = (family, low, high, np.where(nothing, 1.0, p[:, 1]), nothing, *whole)
    shaped = [array.reshape(shape) for array in arrays]
    return Seen._make([*shaped, table, np.asarray(constant).reshape(shape)])


# ------------------------------------------------------------------ counts


def count_weights(b: Backend, seen: Seen, log_f: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return counts x, and log f(x) h(s | x), both (nodes, ...).

    `log_f` takes counts of this shape and returns -inf, with a derivative of zero, where f has no
    mass.
    """
    xp, first, last, width = b.xp, seen.first, seen.last, seen.width
    fill = (1,) * first.ndim
    blocks = int(((last - first) // width).max(initial=0)) + 1
    start = first + width * np.arange(blocks).reshape(-1, *fill)
    if blocks > CHOSEN:
        middle = np.minimum(start + width // 2, last)
        height = xp.where(start > last, -np.inf, b.still(log_f(b.constant(middle))))
        height = height + seen_at(b, seen, b.constant(middle))
        order = xp.argsort(-height, axis=0)[:CHOSEN]
        start = xp.take_along_axis(b.constant(start), order, axis=0)
    inside = np.arange(int(width.max(initial=1))).reshape(-1, 1, *fill)
    x = start[np.newaxis] + inside
    there = (inside < width) & (x <= last)
    x = xp.where(there, x, first).reshape((-1, *first.shape))
    there = (there & ~seen.nothing).reshape((-1, *first.shape))
    return x, xp.where(there, log_f(x) + seen_at(b, seen, x), -np.inf)


def seen_at(b: Backend, seen: Seen, x: Any) -> Any:
    """Return log h(s | x) for counts x."""
    xp = b.xp
    z = (seen.low - x) * seen.inverse
    formula = xp.where(seen.family == LAPLACE, -xp.abs(z), -0.5 * z * z)
    if len(seen.table) > 1:
        place = xp.clip(seen.at + x - seen.first, 0, len(seen.table) - 1)
        formula = xp.where(seen.family >= BETWEEN, b.constant(seen.table)[place], formula)
    return formula + seen.constant


def log_counts(b: Backend, seen: Seen, beside: Seen | None, log_f: Callable[[Any], Any]) -> Any:
    """Return log p(s) of each record."""
    xp = b.xp
    result = log_total(b, count_weights(b, seen, log_f)[1], seen.nothing)
    if beside is not None:
        above = (seen.high >= FAR) & ~seen.nothing
        below = log_total(b, count_weights(b, beside, log_f)[1], ~above)
        exact = above & (below < np.log1p(-1e-9))
        safe = xp.where(exact, below, -1.0)
        result = xp.where(exact, xp.log(-xp.expm1(safe)), result)
    return result


def log_total(b: Backend, log_weights: Any, nothing: NDArray[np.bool_]) -> Any:
    """Return the log of the summed weights along the first axis; 0 where nothing is known."""
    xp = b.xp
    top = b.still(log_weights.max(axis=0))
    top = xp.where(nothing | (top < -1e300), 0.0, top)
    total = xp.exp(log_weights - top).sum(axis=0)
    return xp.where(nothing, 0.0, top + xp.log(xp.where(nothing, 1.0, total)))


# ------------------------------------------------------------------ values


class Coordinate(NamedTuple):
    """An unbounded coordinate of the true value, and the density in it."""

    to_value: Callable[[Any], Any]  # x(y)
    from_value: Callable[[Any], Any]  # its inverse; `middle` for a value that is impossible
    log_density: Callable[[Any], Any]  # log f(x(y)) |dx / dy|, -inf where it is not a number
    middle: Any  # about where f is, as a y


def log_h_of_values(b: Backend, seen: Seen, x: Any) -> Any:
    """Return log h(s | x) for real x; formulas as in `noiseaware.mechanisms.intervals`."""
    xp = b.xp
    z = (seen.low - x) * seen.inverse
    result = xp.where(seen.family == LAPLACE, -xp.abs(z), -0.5 * z * z)
    if (seen.family < BETWEEN).all():
        return result + seen.constant
    low, high = z, (seen.high - x) * seen.inverse
    low, high = xp.where(low > 0.0, -high, low), xp.where(low > 0.0, -low, high)
    tail = high <= 0.0
    gap, end = xp.where(tail, low - high, -1.0), xp.where(tail, high, -1.0)
    inner_low, inner_high = xp.where(tail, -1.0, low), xp.where(tail, 1.0, high)
    laplace = xp.where(
        tail, end + xp.log(-xp.expm1(gap)), xp.log(-xp.expm1(inner_low) - xp.expm1(-inner_high))
    ) - np.log(2.0)
    ahead = b.log_ndtr(end)
    root = np.sqrt(0.5)
    gaussian = xp.where(
        tail,
        ahead + xp.log(-xp.expm1(b.log_ndtr(end + gap) - ahead)),
        xp.log(0.5 * (b.erf(inner_high * root) - b.erf(inner_low * root))),
    )
    interval = xp.where(seen.family == BETWEEN, laplace, gaussian)
    return xp.where(seen.family >= BETWEEN, interval, result) + seen.constant


def value_weights(b: Backend, seen: Seen, c: Coordinate) -> tuple[Any, Any, Any]:
    """Return the ends of the panels (panels + 1, ...), and y and log weights of their nodes.

    Nodes are (panels, NODES, ...); a weight is f(x) h(s | x) |dx / dy| times the quadrature weight.
    """
    xp = b.xp

    def log_w(y: Any) -> Any:
        x = xp.clip(c.to_value(y), -1e-5 * FAR, 1e-5 * FAR)
        return c.log_density(y) + log_h_of_values(b, seen, x)

    closest = np.where(np.abs(seen.low) < FAR, seen.low, np.where(seen.high < FAR, seen.high, 0.0))
    starts = closest + np.linspace(-36.0, 36.0, 73).reshape(-1, *(1,) * closest.ndim) / seen.inverse
    from_s = c.from_value(starts)
    length = xp.abs(c.from_value(closest + 1.0 / seen.inverse) - c.from_value(closest))
    length = xp.where(length > 0.0, length, 1.0)
    steps = np.concatenate([-LADDER[::-1], [0.0], LADDER]).reshape(-1, *(1,) * closest.ndim)
    top = best(b, log_w, from_s)
    for _ in range(5):
        top = best(b, log_w, top + steps * length)
    edges = around(b, log_w, top, length)
    edges += around(b, log_w, b.still(c.middle + 0.0 * closest), length)
    kinks = [c.from_value(np.where(seen.nothing, 0.0, end)) for end in (seen.low, seen.high)]
    ends = b.still(xp.sort(xp.concatenate([*edges, *(k[np.newaxis] for k in kinks)]), axis=0))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    fill = (1, NODES, *(1,) * closest.ndim)
    half = 0.5 * (ends[1:] - ends[:-1])[:, np.newaxis]
    y = (0.5 * (ends[1:] + ends[:-1]))[:, np.newaxis] + half * nodes.reshape(fill)
    wide = half > 0.0
    log_half = xp.where(wide, xp.log(xp.where(wide, half, 1.0)), -np.inf)
    return ends, y, log_w(y) + log_half + np.log(weights).reshape(fill)


def best(b: Backend, log_w: Callable[[Any], Any], y: Any) -> Any:
    """Return the y of largest weight along the first axis."""
    xp = b.xp
    place = xp.argmax(b.still(log_w(y)), axis=0)[np.newaxis]
    return xp.take_along_axis(b.still(y), place, axis=0)[0]


def around(b: Backend, log_w: Callable[[Any], Any], top: Any, length: Any) -> list[Any]:
    """Return ends of panels around a mode, whose width is where log w has fallen by a half."""
    xp = b.xp
    ladder = LADDER.reshape(-1, *(1,) * top.ndim) * length
    lower = xp.minimum(log_w(top + ladder), log_w(top - ladder))
    fallen = b.still(log_w(top[np.newaxis])) - b.still(lower) >= 0.5
    place = xp.argmax(xp.where(fallen, 1, 0), axis=0)[np.newaxis]
    width = xp.take_along_axis(ladder, place, axis=0)[0]
    edges = EDGES.reshape(-1, *(1,) * top.ndim) * width
    return [top + edges, top - edges[1:]]


def log_values(b: Backend, seen: Seen, c: Coordinate) -> Any:
    """Return log p(s) of each record."""
    log_weights = value_weights(b, seen, c)[2]
    return log_total(b, log_weights.reshape((-1, *seen.low.shape)), seen.nothing)


# ------------------------------------------------------------------ draws of the true number


class Read:
    """The released values of one variable, read once."""

    def __init__(
        self, backend: Callable[[], Backend], discrete: bool, mechanism: Any, values: Any
    ) -> None:
        self.backend, self.discrete, self.shape = backend, discrete, np.shape(values)
        if discrete:
            self.seen, self.beside = read_counts(mechanism, values)
        else:
            self.seen = read_values(mechanism, values)

    def log_prob(self, distribution: Any) -> Any:
        """Return log p(s) of each value."""
        b = self.backend()
        if self.discrete:
            return log_counts(b, self.seen, self.beside, b.log_mass(distribution))
        return log_values(b, self.seen, b.coordinate(distribution))

    def draw(self, distribution: Any, free: Any, uniforms: Any) -> Any:
        """Draw the true number of each value; `free` and `uniforms` as in `draw_counts`."""
        b = self.backend()
        if self.discrete:
            return draw_counts(b, self.seen, b.log_mass(distribution), free, uniforms)
        return draw_values(b, self.seen, b.coordinate(distribution), free, uniforms)


def draw_counts(
    b: Backend, seen: Seen, log_f: Callable[[Any], Any], free: Any, uniforms: Any
) -> Any:
    """Draw the true count of each record given its released value.

    `free` holds `FREE` draws from f for each record, and `uniforms` one more than that. Counts are
    drawn by their weights. If nothing is known of a record, its first free draw is used. If its
    upper end is open, which the weights cannot cover, it is the first free draw accepted with
    probability h(s | x), if there is one.
    """
    xp = b.xp
    x, log_weights = count_weights(b, seen, log_f)
    place = pick(b, log_weights, uniforms[0])[0]
    drawn = xp.take_along_axis(x, place, axis=0)[0]
    above = (seen.high >= FAR) & (seen.family >= BETWEEN) & (seen.family != TABLE)
    if above.any():
        h = seen_at(b, seen, xp.clip(free, seen.first, seen.last))
        kept = xp.where(xp.log(uniforms[1:]) < h, 1, 0)
        found = xp.take_along_axis(free, xp.argmax(kept, axis=0)[np.newaxis], axis=0)[0]
        drawn = xp.where(above & (kept.max(axis=0) > 0), found, drawn)
    return xp.where(seen.nothing, free[0], drawn)


def draw_values(b: Backend, seen: Seen, c: Coordinate, free: Any, uniforms: Any) -> Any:
    """Draw the true value of each record given its released value.

    Draws a panel, then a place t in it. The density in the panel is the polynomial through the
    nodes, sum_k c_k P_k(t) with c_k = (2 k + 1) / 2 sum_j weight_j P_k(t_j), whose integral from -1
    is c_0 (t + 1) + sum_{k > 0} c_k (P_{k+1}(t) - P_{k-1}(t)) / (2 k + 1). A search that divides
    the interval by 16 repeatedly finds where it reaches the rest of u.
    """
    xp = b.xp
    ends, _, log_weights = value_weights(b, seen, c)
    top = log_weights.max(axis=(0, 1))
    sums = xp.exp(log_weights - top).sum(axis=1)
    panel, left = pick(b, xp.log(sums), uniforms[0])
    inside = xp.take_along_axis(log_weights, panel[:, np.newaxis], axis=0)[0]
    weights = xp.exp(inside - inside.max(axis=0))
    at = np.polynomial.legendre.legvander(np.polynomial.legendre.leggauss(NODES)[0], NODES - 1)
    fill = (1,) * seen.low.ndim
    c_k = [
        (k + 0.5) * (weights * b.constant(at[:, k].reshape(-1, *fill))).sum(axis=0)
        for k in range(NODES)
    ]
    wanted = left * weights.sum(axis=0)
    sixteen = np.linspace(0.0, 1.0, 17).reshape(-1, *fill)
    low, width = -1.0 + 0.0 * wanted, 2.0
    for _ in range(12):
        t = low + width * sixteen
        P = [1.0 + 0.0 * t, t]
        for k in range(1, NODES):
            P.append(((2 * k + 1) * t * P[k] - k * P[k - 1]) / (k + 1))
        integral = c_k[0] * (t + 1.0)
        for k in range(1, NODES):
            integral = integral + c_k[k] * (P[k + 1] - P[k - 1]) / (2 * k + 1)
        under = xp.clip(xp.where(integral < wanted, 1, 0).sum(axis=0) - 1, 0, 15)
        width = width / 16.0
        low = low + width * under
    below, ahead = (xp.take_along_axis(ends, panel + d, axis=0)[0] for d in (0, 1))
    y = 0.5 * (below + ahead) + 0.5 * (ahead - below) * low
    return xp.where(seen.nothing, free[0], c.to_value(y))


def pick(b: Backend, log_weights: Any, uniform: Any) -> tuple[Any, Any]:
    """Return the place (1, ...) where the cumulative weights reach u, and the rest of u in it."""
    xp = b.xp
    top = log_weights.max(axis=0)
    weights = xp.exp(log_weights - xp.where(top < -1e300, 0.0, top))
    summed = xp.cumsum(weights, axis=0)
    left = uniform * summed[-1]
    place = xp.argmax(xp.where((summed > left) & (weights > 0.0), 1, 0), axis=0)[np.newaxis]
    chosen = xp.take_along_axis(weights, place, axis=0)[0]
    before = xp.take_along_axis(summed, place, axis=0)[0] - chosen
    return place, xp.clip((left - before) / chosen, 0.0, 1.0)
