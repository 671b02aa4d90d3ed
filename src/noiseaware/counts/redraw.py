"""Draw all counts of parts at once, each within a fixed or random window.

Given the sizes n_i of the classes, the features of a class are independent (`counts.parts`). All
that is known about the table concerns numbers that are sums of few others. If every row of the
table is a row of one of these numbers (`nodes_of`), the density of the counts is

    prod_c h_c(x_c)  prod_i h_i(n_i)  h(n),

for the cells c = (i, k, j), the classes i and all records. A draw from it is a walk along partial
sums

    y_c = x_(i, k, 1) + ... + x_c,        m_i = n_1 + ... + n_i,

where the last y of every feature of class i is n_i, and the last m is n. It takes a forward pass of
sums over all that came before, and a backward pass of one draw after another (Baum et al. 1970).
With n records that is n^2 products for each cell. The sums do not depend on the state. With few
records they are made once, and every table is an independent draw. With many the walk is confined
to windows, L points for each of the numbers y_c, n_i, m_i. The tables with every number in its
window are a box, and one of them is drawn with probability proportional to its density w.

**A fixed box** B does not depend on the state, so its sums are also made once. If the present table
x is in B, draw one of B; otherwise x stays. For x' in B

    sum over x of w(x) P(x, x') = sum over x in B of w(x) w(x') / (sum of w in B) = w(x'),

and outside nothing changes: w is invariant. Warm-up places B around the tables that it has seen,
several standard deviations wide, so that afterwards nearly all draws are independent; then B stays
fixed. It covers the posterior but not all tables: other moves lead into and out of it.

**A random box.** For every number y_c, n_i, m_i place a window of L points, a stride s apart, at
random so that it covers the present value v: the points v + (i - j) s, i = 0, ..., L - 1, with
independent j uniform on 0, ..., L - 1. Then draw from this box, which contains the present table.
Let a box cover two tables x and x'. The j of each window differ between x and x', but are equally
likely, so the box is as likely to be placed from x as from x'. With q(B) for that probability,

    w(x) P(x, x') = sum over boxes of q(B) w(x) w(x') / (sum of w in the box) = w(x') P(x', x):

detailed balance, for any w and s. Any two tables that differ by one record share a box of stride 1,
so these boxes reach every table. The last y of the features of class i are all n_i, and share its
window. n has a window as m_I; if n is known, all its other values are impossible.

Strides are 8^t, ..., 64, 8, 1 in turn; warm-up finds those that move the counts far, as on lines
(`counts.move`). Whether a stride is used is decided without looking at the table: random boxes only
for tables outside of B would lead into it and never out.

**The sums.** With A_c(y) the sum of w over everything before that leads to y_c = y,

    A_c(y) = sum over y' of A_(c-1)(y') h_c(y - y'),      y, y' in their windows:

y - y' takes 2 L - 1 values, so a cell costs that many evaluations of h and L^2 products, whatever
n. At the end of class i the A of its features are multiplied together and by h_i; the result is the
h_c of the walk along m. Logarithms are stored, because far from the mass the numbers are below the
smallest double. Sums are of products scaled to at most 1; where these vanish, the same sum is made
in logarithms.

**Draws go backwards**: n from A_I(n) h(n), then m_(I-1) from A_(I-1)(m) h_I(n - m), and so on.
Given every n_i, the y of its features are drawn in the same way.

References
----------
Baum, Petrie, Soules and Weiss (1970), A maximization technique occurring in the statistical
analysis of probabilistic functions of Markov chains, Annals of Mathematical Statistics 41(1).
Neal (2003), Markov chain sampling for non-linear state space models using embedded hidden Markov
models, Technical Report 0304, University of Toronto: sums over a random grid around the state.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.counts.weights import add_cell, add_row, pick_one
from noiseaware.mechanisms.terms import needs_long

VANISHED = 1e-280
"""Below this a sum of products may have lost digits, as the smallest doubles have fewer."""

SMALLEST = -50.0
"""Logarithm of what changes no digit of a sum containing 1, however often it is added: exp(-50) is
a millionth of the last digit."""


class Around(NamedTuple):
    """Where a fixed box is.

    Attributes
    ----------
    points : int
        L, of each window.
    starts : (C + I,)
        Where the windows of the links begin.
    enough : bool
        Whether they are as long as required.
    """

    points: int
    starts: np.ndarray
    enough: bool


class Box(NamedTuple):
    """A box of tables: its windows, and the sums of the densities in it.

    The links are the y of the cells, then the m of the classes. Without points, a box has no
    tables.

    Attributes
    ----------
    starts, sizes
        Where the window of each link begins, (C + I,), and that of each n_i, (I,).
    ahead, steps : (C + I, L), (C + I, 2 L - 1)
        log A of each link, and log h of what is added to the link before.
    scaled_ahead, scaled_steps
        Their exponentials, divided by the largest.
    lowest : (C + I,)
        The first possible step.
    last : (L,)
        The log of all, for each n of the last window.
    room : (L,)
        Room for one window.
    """

    starts: np.ndarray
    sizes: np.ndarray
    ahead: np.ndarray
    steps: np.ndarray
    scaled_ahead: np.ndarray
    scaled_steps: np.ndarray
    lowest: np.ndarray
    last: np.ndarray
    room: np.ndarray


def make_box(cells: int, classes: int, points: int) -> Box:
    """Return room for a box, with all windows starting at 0."""
    links, wide = cells + classes, (cells + classes, max(0, 2 * points - 1))
    return Box(
        starts=np.zeros(links, np.int64),
        sizes=np.zeros(classes, np.int64),
        ahead=np.empty((links, points)),
        steps=np.empty(wide),
        scaled_ahead=np.empty((links, points)),
        scaled_steps=np.empty(wide),
        lowest=np.empty(links, np.int64),
        last=np.empty(points),
        room=np.empty(points),
    )


@njit(cache=True, nogil=True, **UNCOUNTED)
def fill_values(density, table, slopes, node, first, stride, out):
    """Fill in log h of first, first + stride, ..., up to a constant; return where these are >= 0.

    Nodes are the cells, then the classes, then the number of records.
    """
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    power, signs, shifts = density.power, table.signs, table.shifts
    end = out.shape[0]
    begin = min(max(0, -(first // stride)), end)
    out[:begin] = -math.inf
    out[begin:] = 0.0
    if node < slopes.shape[0]:
        x, a, slope = first + begin * stride, table.concentrations[node], slopes[node] * stride
        add_cell(a, slope, x, stride, begin, end, out)
    for e in range(table.node_start[node], table.node_start[node + 1]):
        row, weight = table.node_row[e], table.node_weight[e]
        total, step = weight * first, weight * stride
        add_row(
            *(long, family, parameters, power, signs, shifts),
            *(row, total, step, begin, end, out),
        )
    return begin


@njit(cache=True, nogil=True, **UNCOUNTED)
def fill_number(density, table, slopes, n, first, stride, out):
    """Fill in log h of numbers of records; minus infinity for all but a known n."""
    node = table.node_start.shape[0] - 2
    fill_values(density, table, slopes, node, first, stride, out)
    known, logs = table.size_row < 0, table.size_logs
    low, high = (n, n) if known else (table.size_range[0], table.size_range[1])
    for i in range(out.shape[0]):
        number = first + i * stride
        if number < low or number > high:
            out[i] = -math.inf
        elif not known and logs.shape[0] > 1:
            out[i] += logs[number - low]


@njit(cache=True, nogil=True, **UNCOUNTED)
def scale(logs, scaled):
    """Fill in exp of logarithms, divided by the largest; return the logarithm of that."""
    highest = -math.inf
    for i in range(logs.shape[0]):
        highest = max(highest, logs[i])
    for i in range(logs.shape[0]):
        scaled[i] = math.exp(logs[i] - highest) if logs[i] > -math.inf else 0.0
    return highest


@njit(cache=True, nogil=True, **UNCOUNTED)
def carry(box, link):
    """Fill in A of a link: log sum_a exp(before[a] + steps[b - a + L - 1]), before = A of link - 1.

    Steps below `lowest` are impossible, so b is at least this lowest + a - L + 1.
    """
    after, scaled, steps = box.ahead[link], box.scaled_ahead[link - 1], box.scaled_steps[link]
    size = after.shape[0]
    both = scale(box.ahead[link - 1], scaled) + scale(box.steps[link], steps)
    after[:] = 0.0
    for a in range(size):
        p, reach = scaled[a], size - 1 - a
        for b in range(max(0, box.lowest[link] - reach), size if p > 0.0 else 0):
            after[b] += p * steps[b + reach]
    for b in range(size):
        if after[b] > VANISHED:
            after[b] = math.log(after[b]) + both
        else:
            after[b] = log_sum(box.ahead[link - 1], box.steps[link], box.lowest[link], b)


@njit(cache=True, nogil=True, **UNCOUNTED)
def log_sum(before, steps, lowest, b):
    """Return one entry of `carry`, in logarithms, without terms too small to change it."""
    size, highest, total = before.shape[0], -math.inf, 0.0
    end = min(size, b + size - lowest)
    for a in range(end):
        highest = max(highest, before[a] + steps[b - a + size - 1])
    for a in range(end if highest > -math.inf else 0):
        less = before[a] + steps[b - a + size - 1] - highest
        if less > SMALLEST:
            total += math.exp(less)
    return highest + math.log(max(1.0, total))


@njit(cache=True, nogil=True, **UNCOUNTED)
def place_windows(table, counts, stride, box, rng):
    """Fill in where random windows begin; return the number of records."""
    ends, starts, sizes, number = table.part_ends, box.starts, box.sizes, 0
    n_parts, n_cells, points = ends.shape[0] - 1, counts.shape[0], 1.0 * box.last.shape[0]
    for i in range(sizes.shape[0]):
        base, y = i * ends[n_parts], 0
        for c in range(base, base + ends[1]):
            y += counts[c]
        number += y
        sizes[i] = y - int(rng.random() * points) * stride
        starts[n_cells + i] = number - int(rng.random() * points) * stride
        for k in range(n_parts):
            y = 0
            for c in range(base + ends[k], base + ends[k + 1] - 1):
                y += counts[c]
                starts[c] = y - int(rng.random() * points) * stride
            starts[base + ends[k + 1] - 1] = sizes[i]
    return number


@njit(cache=True, nogil=True, **UNCOUNTED)
def is_inside(table, counts, box):
    """Return whether all numbers of a table are in their windows, of stride 1."""
    ends, starts, number = table.part_ends, box.starts, 0
    n_parts, n_cells, points = ends.shape[0] - 1, counts.shape[0], box.last.shape[0]
    for i in range(box.sizes.shape[0]):
        for k in range(n_parts):
            y = 0
            for c in range(i * ends[n_parts] + ends[k], i * ends[n_parts] + ends[k + 1]):
                y += counts[c]
                if not 0 <= y - starts[c] < points:
                    return False
        number += y
        if not 0 <= number - starts[n_cells + i] < points:
            return False
    return True


@njit(cache=True, nogil=True, **UNCOUNTED)
def add_up_class(density, table, slopes, i, stride, box):
    """Fill in A of the cells of class i, and `room` with the log of the whole class for its n_i."""
    ends, n_cells, starts, of_class = table.part_ends, slopes.shape[0], box.starts, box.room
    base, points = i * ends[-1], of_class.shape[0]
    fill_values(density, table, slopes, n_cells + i, box.sizes[i], stride, of_class)
    for k in range(ends.shape[0] - 1):
        begin, end = base + ends[k], base + ends[k + 1]
        fill_values(density, table, slopes, begin, starts[begin], stride, box.ahead[begin])
        for c in range(begin + 1, end):
            first = starts[c] - starts[c - 1] - (points - 1) * stride
            box.lowest[c] = fill_values(density, table, slopes, c, first, stride, box.steps[c])
            carry(box, c)
        for b in range(points):
            of_class[b] += box.ahead[end - 1, b]


@njit(cache=True, nogil=True, **UNCOUNTED)
def add_up_box(density, table, slopes, n, stride, box):
    """Fill in all sums of a box with placed windows; n is the number of records, if known."""
    starts, sizes, points, n_cells = box.starts, box.sizes, box.last.shape[0], slopes.shape[0]
    for i in range(sizes.shape[0]):
        link, before = n_cells + i, starts[n_cells + i - 1] if i > 0 else 0
        add_up_class(density, table, slopes, i, stride, box)
        shift = (starts[link] - before - sizes[i]) // stride - (points - 1)
        for b in range(2 * points - 1):
            inside = 0 <= b + shift < points
            box.steps[link, b] = box.room[b + shift] if inside else -math.inf
        box.lowest[link] = max(0, -shift)
        if i > 0:
            carry(box, link)
        for b in range(points if i == 0 else 0):
            box.ahead[link, b] = box.steps[link, b + points - 1]
    fill_number(density, table, slopes, n, starts[-1], stride, box.last)
    for b in range(points):
        box.last[b] += box.ahead[-1, b]


@njit(cache=True, nogil=True, **UNCOUNTED)
def draw_before(box, link, b, uniform):
    """Draw which point of the previous window led to point b of this one."""
    before, steps = box.scaled_ahead[link - 1], box.scaled_steps[link]
    size = before.shape[0]
    end, total = min(size, b + size - box.lowest[link]), 0.0
    for a in range(end):
        total += before[a] * steps[b - a + size - 1]
    if total <= VANISHED:
        for a in range(size):
            box.room[a] = box.ahead[link - 1, a] + box.steps[link, b - a + size - 1]
        return pick_one(box.room, uniform)
    left, chosen = uniform * total, -1
    for a in range(end):
        p = before[a] * steps[b - a + size - 1]
        if p > 0.0:
            chosen = a
            left -= p
            if left < 0.0:
                break
    return chosen


@njit(cache=True, nogil=True, **UNCOUNTED)
def draw_table(table, counts, stride, box, rng):
    """Draw a table of the box, in place, from the last link to the first; return sum (change)^2."""
    ends, n_cells, starts, squares = table.part_ends, counts.shape[0], box.starts, 0.0
    for b in range(box.room.shape[0]):
        box.room[b] = box.last[b]
    b = pick_one(box.room, rng.random())
    for i in range(box.sizes.shape[0] - 1, -1, -1):
        link = n_cells + i
        size = starts[link] + b * stride
        if i > 0:
            b = draw_before(box, link, b, rng.random())
            size -= starts[link - 1] + b * stride
        for k in range(ends.shape[0] - 1):
            begin = i * ends[-1] + ends[k]
            y, here = size, (size - box.sizes[i]) // stride
            for c in range(i * ends[-1] + ends[k + 1] - 1, begin - 1, -1):
                x = y
                if c > begin:
                    here = draw_before(box, c, here, rng.random())
                    y = starts[c - 1] + here * stride
                    x -= y
                squares += float(x - counts[c]) ** 2
                counts[c] = x
    return squares


@njit(cache=True, nogil=True, **UNCOUNTED)
def redraw(density, table, slopes, counts, stride, box, rng):
    """Draw all counts (C,) within a random box, in place; return the sum of squared changes."""
    n = place_windows(table, counts, stride, box, rng)
    add_up_box(density, table, slopes, n, stride, box)
    return draw_table(table, counts, stride, box, rng)
