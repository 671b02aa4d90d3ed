"""A number that is only seen through noise, in the arrays of another language.

For a distribution f of the true number x and the law h(s | x) of what was published of it, NumPyro
and PyMC need

    log p(s) = log sum_x f(x) h(s | x),        or the integral for a continuous f,

as a function of the parameters of f that they can differentiate, and weights from which to draw x
given s. Here both are arrays of nodes x and of log weights: `log p(s)` is the logarithm of the sum
of the weights. Where the nodes are is found without derivatives; given the nodes, the derivative of
the sum is the sum of the derivatives, sum_x w(x) d log f(x) / p(s), which is Fisher's identity.

**Counts.** h(s | x) is below exp(-CUT) times its largest value outside of a range around s, which
is cut into blocks: about a standard deviation of Gaussian noise, four scales of Laplace noise. The
weight w = f h in the middle of each block is looked at, and every count in the `CHOSEN` blocks with
the largest of them is added up. Under Gaussian noise and for a log-concave f, w falls off from its
top at least as fast as the noise does, and the blocks reach 11 standard deviations to either side:
what is left out is below exp(-60). As blocks are chosen one by one, several humps (many zeros, a
mixture) are seen too. An interval (withheld, clamped, rounded) widens the blocks, so that the
chosen ones cover all of it. A value that was cut off at an upper end, P(Y >= high), is 1 - P(Y <
high); where that is below 1e-9 it is added up from the end on.

**Values.** In a coordinate y in which f has no ends (its logarithm, for a positive value), the
integral is over panels, each with Gauss and Legendre's rule of `NODES` nodes. Around the top of w,
which is found by steps of doubled length, panels are as wide as w is there; further out they grow
with the distance, so nothing is cut off. The same ones around the mean of f stand between them, and
places where h has a kink are ends of panels. A density f with features much narrower than its width
(a mixture of needles) is not for this; all smooth ones are.
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
"""Lengths of the steps of the search for the top, in scales of the noise."""

EDGES = np.concatenate([np.arange(5.0), 4.0 * 1.6 ** np.arange(1.0, 23.0)])
"""Ends of the panels on one side of the top, in widths of it."""

FREE = 64  # draws from f itself, where they are needed for a draw of the true number
FAR = 1e30  # stands for infinity where a difference is taken


class Backend(NamedTuple):
    """What is called differently in JAX and in PyTensor, in NumPyro and in PyMC."""

    xp: Any  # the module of array functions
    constant: Callable[[Any], Any]  # an array of NumPy as one of theirs
    still: Callable[[Any], Any]  # the same value, with a derivative of zero
    erf: Callable[[Any], Any]
    log_ndtr: Callable[[Any], Any]
    log_mass: Callable[[Any], Any]  # of a distribution of counts, the function log f
    coordinate: Callable[[Any], Any]  # of a distribution of values, its `Coordinate`


class Seen(NamedTuple):
    """What is known of each record from its released value; all arrays have the release's shape."""

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
    """Return the law of each record, and its constant; an error if the mechanism is not local."""
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
    """Return what the released values say of continuous true values."""
    laws, constant = laws_of(mechanism, values)
    if mechanism.discrete:
        raise ValueError(
            f"{type(mechanism).__name__} publishes whole numbers, and the distribution is "
            "continuous; use LocalLaplace or LocalGaussian, or a distribution of counts"
        )
    whole = np.zeros(len(constant), dtype=np.int64)
    return _seen(laws, constant, (whole, whole, whole, whole), np.zeros(1), np.shape(values))


def read_counts(mechanism: Any, values: Any) -> tuple[Seen, Seen | None]:
    """Return what the released values say of true counts.

    The second is what the records whose upper end is open do *not* say: that they are below it. It
    is None if there are none.
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
    """Lay out the blocks of each record, and write log h as a table where there is no formula."""
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
    # An open upper end: as far as from 0 to the lower one, and the noise's reach.
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
    """Return counts, and log f(x) h(s | x) of them, both (nodes, ...).

    `log_f` takes counts of this shape and gives -inf, with a derivative of zero, where there is no
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
    """Return log h(s | x) of counts."""
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
    """Return the log of the sum of the weights along the first axis; 0 where nothing is known."""
    xp = b.xp
    top = b.still(log_weights.max(axis=0))
    top = xp.where(nothing | (top < -1e300), 0.0, top)
    total = xp.exp(log_weights - top).sum(axis=0)
    return xp.where(nothing, 0.0, top + xp.log(xp.where(nothing, 1.0, total)))


# ------------------------------------------------------------------ values


class Coordinate(NamedTuple):
    """A coordinate without ends of the true value, and the density in it."""

    to_value: Callable[[Any], Any]  # x(y)
    from_value: Callable[[Any], Any]  # its inverse; `middle` for a value that is impossible
    log_density: Callable[[Any], Any]  # log f(x(y)) |dx / dy|, -inf where it is not a number
    middle: Any  # about where f is, as a y


def log_h_of_values(b: Backend, seen: Seen, x: Any) -> Any:
    """Return log h(s | x) of real values, as `noiseaware.mechanisms.intervals` has it."""
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

    The nodes are (panels, NODES, ...); a weight is f(x) h(s | x) |dx / dy| times that of the node.
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
    """Return, of the places along the first axis, that of the largest weight."""
    xp = b.xp
    place = xp.argmax(b.still(log_w(y)), axis=0)[np.newaxis]
    return xp.take_along_axis(b.still(y), place, axis=0)[0]


def around(b: Backend, log_w: Callable[[Any], Any], top: Any, length: Any) -> list[Any]:
    """Return ends of panels around a top: a width is where the log weight has fallen by a half."""
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
        """Draw the true number of each value; `free` and `uniforms` as `draw_counts` has them."""
        b = self.backend()
        if self.discrete:
            return draw_counts(b, self.seen, b.log_mass(distribution), free, uniforms)
        return draw_values(b, self.seen, b.coordinate(distribution), free, uniforms)


def draw_counts(
    b: Backend, seen: Seen, log_f: Callable[[Any], Any], free: Any, uniforms: Any
) -> Any:
    """Draw the true count of each record given its released value.

    `free` are `FREE` draws from f for each record, and `uniforms` one more than that. Counts are
    drawn by their weights. If nothing is known of a record, the first of the free draws is taken.
    If its upper end is open, the first that is kept with probability h(s | x), as long as there is
    one: the weights end somewhere, the free draws do not.
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

    A panel, then a place t in it: there the density is taken as the polynomial through the nodes,
    sum_k c_k P_k(t) with c_k = (2 k + 1) / 2 sum_j weight_j P_k(t_j), whose integral from -1 is c_0
    (t + 1) + sum_{k > 0} c_k (P_{k+1}(t) - P_{k-1}(t)) / (2 k + 1). Where it reaches what is left
    of u is found by looking at 16 places, and 16 between two of them, and so on.
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
    """Return the place (1, ...) where the summed weights reach u, and the rest of u in it."""
    xp = b.xp
    top = log_weights.max(axis=0)
    weights = xp.exp(log_weights - xp.where(top < -1e300, 0.0, top))
    summed = xp.cumsum(weights, axis=0)
    left = uniform * summed[-1]
    place = xp.argmax(xp.where((summed > left) & (weights > 0.0), 1, 0), axis=0)[np.newaxis]
    chosen = xp.take_along_axis(weights, place, axis=0)[0]
    before = xp.take_along_axis(summed, place, axis=0)[0] - chosen
    return place, xp.clip((left - before) / chosen, 0.0, 1.0)
