"""Move the counts of a table along integer directions, each time to an exact draw on a line.

The state is a table of counts x (`counts.target`). A step picks a direction d and draws k for x + k
d.

**The directions.** *Pairs*: one cell gains what another loses. The second cell comes from a random
pool of the first: cells with the same fixed rows, or those of them that share one more row with it
(the cells of one tract, of one age). Pools of about one size are one kind of direction, and picked
alike from all of their cells. *Cubes*, if the cells are the combinations of variables: put the
variables into m groups, and let a and b be two cells. The 2^m cells that take each group from a or
from b are the corners of a cube. Those that took an even number of groups from b gain k, the others
lose it. A margin changes only if it has a variable of every group, so what is known well stays, and
what is open moves (see Diaconis and Sturmfels 1998 for the theory). Directions that would change a
fixed row are left out. *Elements*, where pairs and cubes do not reach every table (exact rows, see
`counts.lattice`), or where rows with weights leave other directions open: integers z_1, ..., z_m,
each for one cell of a set, drawn at random.

**The choice of a direction** must have the same probability from any x on the line. The first cell
is that of a random record, or any cell. A pair {a, b} is picked from a record with probability

    (x_a + x_b) / n * q(a, b),        q symmetric,

and a cube likewise with the sum of x over its corners; neither sum changes along the line. An
element and its cells are picked with a probability that does not depend on x at all.

**The draw.** On the line the density is w(k), known up to a constant, for k from lo to hi, where
some count reaches 0. Place a window of L points, a stride s apart, at random so that it covers the
present point: k_i = (i - j) s for i = 0, ..., L - 1, with j uniform on 0, ..., L - 1. Draw one of
them with probability proportional to w. A window that covers two points of the line is equally
likely from either, and given the window the draw does not depend on where it started. So

    w(k) P(k, k') = sum over windows of w(k) w(k') / (L sum of w in the window) = w(k') P(k', k):

detailed balance, for any w. If the line has at most L points the window is the line. Windows are
drawn in turn with strides 8^t, ..., 64, 8, 1, where t is the smallest that covers the line. From
anywhere the chain reaches the mass in a number of steps that grows with the logarithm of n. Warm-up
learns which strides move anything, for each t, and which kinds of directions go far; the others are
then used only now and then.

**All at once.** Counts of parts of records are drawn together (`counts.redraw`) rather than on
lines, if no row contains counts of several classes: in random boxes, and in one placed by warm-up.

Then theta is drawn from p(theta | x) if it was integrated out. Where it is a function of gamma
variables (`contract.ModelAbilities.from_gammas`) they are drawn here, so that many iterations are
one call of compiled code. Otherwise theta is held, or follows the counts (`counts.following`), and
another move updates it.

**Random numbers** come from the chain's own generator inside compiled code; numba's are NumPy's,
bit for bit. So a chain is the same however its iterations are split into calls.

**Reports.** `count_moves` is the share of the steps that changed x. For the checks of the release,
`acceptance_rate` and `lowest_log_acceptance` are what Algorithm 1 would see: the ratio of g when
one record gets another value, for a few records.

References
----------
Diaconis and Sturmfels (1998), Algebraic algorithms for sampling from conditional distributions,
Annals of Statistics 26(1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from noiseaware.basics.uncounted import UNCOUNTED
from noiseaware.counts.following import follow_around, go_along, hold, log_change
from noiseaware.counts.gammas import add_up, draw_log_gammas
from noiseaware.counts.redraw import draw_table, is_inside, redraw
from noiseaware.counts.target import LARGEST_CUBE, CountTarget
from noiseaware.counts.weights import WINDOW, add_cell, add_row, pick_one
from noiseaware.mechanisms.terms import GAUSSIAN, needs_long, term
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

LEVELS = 14
"""Strides 8^0, ..., 8^13: a line has less than 2^53 points."""

FURTHEST = 2**40
"""Most steps along a line that no count ends, because the number of records is unknown and has no
prior."""

LOOKS = 4
"""Changes of one record scored in an iteration, for the checks of the release."""

STEPS_PER_CELL, STEPS_PER_PAIR, ENOUGH_STEPS, LEAST_PER_CELL = 4.0, 4.0, 256, 0.5
"""Steps of an iteration: the first times the number of cells less 1 or, in a small table, the
second times the number of pairs, up to the third. This is multiplied by the share of the variance
of theta that is due to the counts, and is at least the last for each cell. `python -m benchmarks
ablation` has half and twice as many."""

SELDOM = 1 / 32
"""The probability, after warm-up, of using a stride other than the one that moved counts furthest,
by the mean of k^2, and the next finer one; and of random boxes where the fixed one is wide
enough. `python -m benchmarks ablation` has others: with 10^6 records it is worth 2.5 times."""

LEAST_SHARE = 0.05
"""A kind of direction gets steps in proportion to its mean of k^2, plus this share of the best:
what did not move in warm-up may do so later (`python -m benchmarks ablation` has other shares).
Pairs, which alone change every margin, get at least half of the steps; for parts of records,
elements do, which alone change the sizes of classes."""

FIRST_WINDOW = 32
"""Iterations of warm-up before observations are first used."""

NUMBERS_OF_A_CALL = 2**15
"""Most numbers, of theta and of counts, that one call of compiled code returns."""

_CHOICE = 4
"""Uniforms of a direction: kind, first cell, pool or element, second cell; then one for each set of
an element."""


@njit(cache=True, nogil=True)
def fill_tree(counts, tree):
    """Fill a tree of sums, (C + 1,), in which `find` and `add` take log C steps (Fenwick 1994)."""
    tree[:] = 0
    for c in range(counts.shape[0]):
        tree[c + 1] += counts[c]
        parent = c + 1 + ((c + 1) & -(c + 1))
        if parent < tree.shape[0]:
            tree[parent] += tree[c + 1]


@njit(cache=True, nogil=True, **UNCOUNTED)
def add(tree, cell, change):
    """Add to the count of a cell."""
    i = cell + 1
    while i < tree.shape[0]:
        tree[i] += change
        i += i & -i


@njit(cache=True, nogil=True, **UNCOUNTED)
def find(tree, number):
    """Return the cell of a record, with the records numbered from 0 in the order of the cells."""
    cell, step = 0, 1
    while 2 * step < tree.shape[0]:
        step *= 2
    while step > 0:
        if cell + step < tree.shape[0] and tree[cell + step] <= number:
            cell += step
            number -= tree[cell]
        step //= 2
    return cell


@njit(cache=True, nogil=True, **UNCOUNTED)
def partner(table, cell, kind, pick, which):
    """Return another cell of a random pool of this one, of this kind, or -1."""
    pool = table.of_cell_start[cell, kind] + int(pick * table.most_pools[kind])
    if pool >= table.of_cell_start[cell, kind + 1]:
        return -1
    begin = table.pool_start[table.of_cell[pool]]
    size = table.pool_start[table.of_cell[pool] + 1] - begin
    if size < 2:
        return -1
    place = table.place[pool] + 1 + int(which * (size - 1))
    return table.pools[begin + place % size]


@njit(cache=True, nogil=True, **UNCOUNTED)
def corners(table, first, second, pattern, cells, steps, far):
    """Fill in the corners of a cube and whether each gains or loses; return how many, 0 if one.

    `far` is room for the distance of the two cells in each group of variables.
    """
    far[:] = 0
    for k in range(table.levels.shape[0]):
        group = table.patterns[pattern, k]
        if group > 0:
            stride, levels = table.strides[k], table.levels[k]
            far[group - 1] += (second // stride % levels - first // stride % levels) * stride
    number = 1
    cells[0], steps[0] = first, 1
    for group in range(LARGEST_CUBE):
        if far[group] != 0:
            for i in range(number):
                cells[number + i] = cells[i] + far[group]
                steps[number + i] = -steps[i]
            number *= 2
    return number if number > 1 else 0


@njit(cache=True, nogil=True, **UNCOUNTED)
def element(table, uniforms, cells, steps):
    """Fill in a random element, with a random cell of each of its sets; return how many."""
    e = int(uniforms[2] * (table.element_start.shape[0] - 1))
    begin = table.element_start[e]
    number = table.element_start[e + 1] - begin
    for i in range(number):
        which = table.element_set[begin + i]
        first = table.set_start[which]
        size = table.set_start[which + 1] - first
        cells[i] = table.sets[first + int(uniforms[_CHOICE + i] * size)]
        steps[i] = table.element_step[begin + i]
    return number


@njit(cache=True, nogil=True, **UNCOUNTED)
def direction(table, first, kind, uniforms, cells, steps, far):
    """Fill in a direction from a first cell; return how many cells it changes, 0 for none.

    The kinds are pairs, one for each kind of pool, then cubes, one for each pattern, then elements.
    """
    pattern = kind - table.most_pools.shape[0]
    if pattern >= table.patterns.shape[0]:
        return element(table, uniforms, cells, steps)
    if pattern >= 0:
        second = int(uniforms[3] * (table.start.shape[0] - 1))
        return corners(table, first, second, pattern, cells, steps, far)
    second = partner(table, first, kind, uniforms[2], uniforms[3])
    if second < 0:
        return 0
    cells[0], steps[0], cells[1], steps[1] = first, 1, second, -1
    return 2


@njit(cache=True, nogil=True, **UNCOUNTED)
def changed_rows(table, cells, steps, number, change, marks, rows):
    """Fill in the rows that a direction changes, and what one step adds to each; return how many.

    -1 if a fixed row would change. `change` (R,) is arbitrary for the other rows. `marks` (R + 1,)
    holds for each row the number of the last call that touched it; its last entry is the current
    call.
    """
    start, row_of, weight, fixed = table.start, table.row, table.weight, table.fixed
    touched = 0
    marks[-1] += 1
    now = marks[-1]
    for i in range(number):
        for e in range(start[cells[i]], start[cells[i] + 1]):
            row = row_of[e]
            if marks[row] != now:
                marks[row] = now
                change[row] = 0.0
                rows[touched] = row
                touched += 1
            change[row] += steps[i] * weight[e]
    kept = 0
    for i in range(touched):
        row = rows[i]
        if change[row] != 0.0:
            if fixed[row]:
                return -1
            rows[kept] = row
            kept += 1
    return kept


@njit(cache=True, nogil=True, **UNCOUNTED)
def fill_window(density, table, slopes, counts, sums, line, where, window):
    """Fill `window` with log w of k = first, first + stride, ...; minus infinity off the line.

    `line` is that of `move_on_line`, and `where` is (lo, hi, first, stride).
    """
    cells, steps, number, change, rows, touched = line
    lo, hi, first, stride = where
    terms = density.terms
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    d, power, signs, shifts = family.shape[0], density.power, table.signs, table.shifts
    begin, end = max(0, -((first - lo) // stride)), min(window.shape[0], (hi - first) // stride + 1)
    window[:] = -math.inf
    window[begin:end] = 0.0
    for j in range(number):
        c, x = cells[j], counts[cells[j]] + (first + begin * stride) * steps[j]
        step = stride * steps[j]
        add_cell(table.concentrations[c], slopes[c] * step, x, step, begin, end, window)
    linear = square = 0.0  # of all Gaussian rows together, whose sum is a parabola
    for j in range(touched):
        row = rows[j]
        total, step = sums[row] + first * change[row], stride * change[row]
        if row < d and family[row] == GAUSSIAN:
            p1 = parameters[row, 1]
            linear -= p1 * p1 * step * (total - parameters[row, 0])
            square -= 0.5 * p1 * p1 * step * step
        else:
            add_row(
                *(long, family, parameters, power, signs, shifts),
                *(row, total, step, begin, end, window),
            )
        if row == table.size_row and table.size_logs.shape[0] > 1:
            for i in range(begin, end):
                window[i] += table.size_logs[int(total + i * step) - table.size_range[0]]
    for i in range(begin, end):
        window[i] += power * i * (linear + i * square)


@njit(cache=True, nogil=True, **UNCOUNTED)
def bounds(table, counts, n, line):
    """Return the smallest and largest k for which no count is negative and n is possible."""
    cells, steps, number, change, rows, touched = line
    lo, hi, more = -FURTHEST, FURTHEST, 0
    for i in range(touched):
        if rows[i] == table.size_row:
            more = int(change[rows[i]])
    if more != 0:
        down, up = int(n) - table.size_range[0], table.size_range[1] - int(n)
        lo, hi = (-(down // more), up // more) if more > 0 else (-(up // -more), down // -more)
    for i in range(number):
        if steps[i] > 0:
            lo = max(lo, -(counts[cells[i]] // steps[i]))
        else:
            hi = min(hi, counts[cells[i]] // -steps[i])
    return lo, hi


@njit(cache=True, nogil=True)
def coarsest(length):
    """Return t, the smallest with L 8^t at least the number of points of a line."""
    level, reach = 0, WINDOW
    while reach < length and level < LEVELS - 1:
        level += 1
        reach *= 8
    return level


@njit(cache=True, nogil=True)
def window_start(lo, hi, stride, uniform):
    """Return the first point of a random window around 0."""
    if hi - lo < WINDOW:
        return lo
    return -int(uniform * WINDOW) * stride


@njit(cache=True, nogil=True, **UNCOUNTED)
def move_on_line(density, table, slopes, counts, sums, line, tuned, following, window, rng):
    """Draw k for one direction, by windows from coarse to fine; return the sum of these draws.

    `line` is (cells, steps, number, change, rows, touched). In `tuned`, `used` (LEVELS, LEVELS) is
    the probability of each stride on a line with coarsest t, and `seen` (2, LEVELS, LEVELS) counts
    the uses of each and adds up k^2.
    """
    cells, steps, number, change, rows, touched = line
    used, _, seen, _, _ = tuned
    n = sums[table.size_row] if table.size_row >= 0 else 0.0
    lo, hi = bounds(table, counts, n, line)
    if lo == hi:
        return 0
    top, far = coarsest(hi - lo + 1), 0
    stride = 1 << 3 * top  # 8^top
    follows = following.chance > 0.0 and rng.random() < following.chance
    for level in range(top, -1, -1):
        # One uniform decides both whether and where the window begins: its digits are independent.
        placed = rng.random() * WINDOW
        if placed - int(placed) < used[top, level]:
            first = window_start(lo, hi, stride, placed / WINDOW)
            where = (lo, hi, first, stride)
            fill_window(density, table, slopes, counts, sums, line, where, window)
            if follows:
                for i in range(window.shape[0]):
                    if window[i] > -math.inf:
                        there = first + i * stride
                        window[i] += log_change(following, slopes, counts, line, there)
            k = first + stride * pick_one(window, rng.random())
            seen[0, top, level] += 1
            if k != 0:
                seen[1, top, level] += float(k) * k
                far += k
                if follows:
                    go_along(following, slopes, counts, line, k)
                for i in range(number):
                    counts[cells[i]] += k * steps[i]
                for i in range(touched):
                    sums[rows[i]] += k * change[rows[i]]
                lo, hi = lo - k, hi - k
        stride //= 8
    return far


@njit(cache=True, nogil=True)
def make_room(table):
    """Return the arrays for `count_steps`, by name."""
    most, widest = max(1 << LARGEST_CUBE, table.most_sets), 0
    for c in range(table.start.shape[0] - 1):
        widest = max(widest, table.start[c + 1] - table.start[c])
    whole = (np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64))
    rows, n_rows = np.empty(widest * most, np.int64), table.fixed.shape[0]
    marks = np.zeros(n_rows + 1, np.int64)
    return (
        np.empty(_CHOICE + table.most_sets),
        *whole,
        rows,
        np.empty(n_rows),
        marks,
        np.empty(LARGEST_CUBE, np.int64),
        np.empty(WINDOW),
    )


@njit(cache=True, nogil=True, **UNCOUNTED)
def count_steps(
    density, table, slopes, counts, sums, tree, tuned, following, number_of_steps, room, rng
):
    """Do the steps on the counts (C,) int64, in place; return how many changed something.

    Parameters
    ----------
    sums, tree
        M x, and the counts as in `fill_tree`; kept up to date.
    tuned
        `used`; `chances`, the cumulative probabilities of the kinds of directions; `seen`; `jumps`
        (2, kinds), which accumulates the number of picks of a kind and the sum of k^2; and what
        `draw_log_gammas` counts.
    room
        What `make_room` returned.
    """
    n_cells, n, changes = counts.shape[0], counts.sum(), 0
    u, cells, steps, before, rows, change, marks, distance, window = room
    _, chances, _, jumps, _ = tuned
    for _ in range(number_of_steps):
        for i in range(u.shape[0]):
            u[i] = rng.random()
        # The first cell: that of a random record, or any.
        if u[1] < 0.5 and n > 0:
            first = find(tree, min(int(2.0 * u[1] * n), n - 1))
        else:
            first = int((2.0 * u[1] - 1.0) * n_cells) if u[1] >= 0.5 else 0
        kind = min(np.searchsorted(chances, u[0], side="right"), chances.shape[0] - 1)
        number = direction(table, first, kind, u, cells, steps, distance)
        if number == 0:
            continue
        touched = changed_rows(table, cells, steps, number, change, marks, rows)
        if touched < 0:
            continue
        for j in range(number):
            before[j] = counts[cells[j]]
        line = (cells, steps, number, change, rows, touched)
        far = move_on_line(
            density, table, slopes, counts, sums, line, tuned, following, window, rng
        )
        jumps[0, kind] += 1.0
        if far != 0:
            changes += 1
            jumps[1, kind] += float(far) * far
            for j in range(number):
                add(tree, cells[j], counts[cells[j]] - before[j])
                n += counts[cells[j]] - before[j]
    return changes


@njit(cache=True, nogil=True, **UNCOUNTED)
def redraw_all(density, table, slopes, counts, tuned, boxes, rng):
    """Draw all counts, within random boxes and a fixed one; return the share that changed."""
    used, _, seen, _, _ = tuned
    fixed, free = boxes
    made, changes = 0, 0
    top = coarsest(counts.sum() // (table.part_ends.shape[0] - 1) + 1)
    for level in range(top if free.last.shape[0] > 0 else -1, -1, -1):
        if rng.random() < used[top, level]:
            far = redraw(density, table, slopes, counts, 1 << 3 * level, free, rng)
            seen[0, top, level] += 1.0
            seen[1, top, level] += far
            made += 1
            changes += far > 0.0
    if fixed.last.shape[0] > 0:
        made += 1
        if is_inside(table, counts, fixed):
            changes += draw_table(table, counts, 1, fixed, rng) > 0.0
    return changes / max(1, made)


@njit(cache=True, nogil=True)
def iterate_counts(
    density, table, slopes, counts, tuned, following, steps, boxes, rng, logs, tables, reports
):
    """Do as many iterations as `reports` (m, 3) has rows, and fill it in.

    `logs` (m, K) and `tables` (m, C) are filled too, unless they have no columns: the gammas of
    theta, and the counts. Only the counts are carried from one iteration to the next. `boxes`, one
    fixed and one placed at random, are for the counts of parts (`counts.redraw`), if they have any
    windows.
    """
    sums, tree = np.empty(table.fixed.shape[0]), np.empty(counts.shape[0] + 1, dtype=np.int64)
    room, at_once = make_room(table), boxes[0].last.shape[0] + boxes[1].last.shape[0] > 0
    for i in range(reports.shape[0]):
        if at_once:
            moved = redraw_all(density, table, slopes, counts, tuned, boxes, rng)
        add_up(table, counts, sums)
        fill_tree(counts, tree)
        if not at_once:
            changes = count_steps(
                density, table, slopes, counts, sums, tree, tuned, following, steps, room, rng
            )
            moved = changes / steps
        reports[i, 0] = moved
        reports[i, 1], reports[i, 2] = look_at_records(density, table, tree, sums, counts, rng)
        if logs.shape[1] > 0:
            d = density.terms.family.shape[0]
            draw_log_gammas(table, counts, sums, d, rng, logs[i], tuned[4])
        for c in range(tables.shape[1]):
            tables[i, c] = counts[c]


@njit(cache=True, nogil=True)
def fill_record(table, counts, cell, rng, cells):
    """Fill in the cells of a random one of the records; return how many."""
    cells[0] = cell
    ends = table.part_ends
    n_parts = ends.shape[0] - 1
    first = cell - cell % ends[n_parts] if n_parts > 0 else 0
    for k in range(n_parts):
        begin, end = first + ends[k], first + ends[k + 1]
        cells[k] = cell
        if not begin <= cell < end:
            left = rng.random() * counts[begin:end].sum()
            cells[k] = begin
            while cells[k] < end - 1 and left >= counts[cells[k]]:
                left -= counts[cells[k]]
                cells[k] += 1
    return max(1, n_parts)


@njit(cache=True, nogil=True)
def look_at_records(density, table, tree, sums, counts, rng):
    """Score changes of single records without making any; return the mean and the lowest.

    The mean is that of min(1, r), r the ratio of g, and the lowest that of log r. A random record
    gets the value of another record or, every other time, any value of its group.
    """
    terms, n = density.terms, counts.sum()
    long, family, parameters = needs_long(terms), terms.family, terms.parameters
    lowest, total, seen = 0.0, 0.0, 0
    n_parts = table.part_ends.shape[0] - 1
    out, into = np.empty(max(1, n_parts), np.int64), np.empty(max(1, n_parts), np.int64)
    for i in range(LOOKS if n > 0 else 0):
        first, uniform = find(tree, min(int(rng.random() * n), n - 1)), rng.random()
        pool = table.of_cell[table.of_cell_start[first, 0]]
        begin, end = table.pool_start[pool], table.pool_start[pool + 1]
        second = table.pools[begin + int(uniform * (end - begin))]
        if n_parts > 0:
            second = int(uniform * counts.shape[0])
        if i % 2 == 0:
            second = find(tree, min(int(uniform * n), n - 1))
            if n_parts == 0 and table.of_cell[table.of_cell_start[second, 0]] != pool:
                continue
        number = fill_record(table, counts, first, rng, out)
        fill_record(table, counts, second, rng, into)
        log_ratio = 0.0
        for cells, step in ((out, -1.0), (into, 1.0)):
            log_ratio += shift_sums(long, family, parameters, table, cells, number, step, sums)
        for cells, step in ((out, 1.0), (into, -1.0)):
            shift_sums(long, family, parameters, table, cells, number, step, sums)
        lowest = min(lowest, log_ratio)
        if i % 2 == 0:
            total += math.exp(min(0.0, log_ratio))
            seen += 1
    return total / seen if seen > 0 else 1.0, lowest


@njit(cache=True, nogil=True)
def shift_sums(long, family, parameters, table, cells, number, step, sums):
    """Add a record to the noisy rows, or remove one; return the change in log g."""
    more = 0.0
    for i in range(number):
        for e in range(table.start[cells[i]], table.start[cells[i] + 1]):
            row = table.row[e]
            if row < family.shape[0]:
                more -= term(long, family, parameters, row, sums[row])
                sums[row] += step * table.weight[e]
                more += term(long, family, parameters, row, sums[row])
    return more


class CountMove:
    """Move the counts of the possible records, each time to an exact draw on a line.

    Parameters
    ----------
    follow : bool
        Whether theta follows the counts, for a model with `log_linear`; otherwise it is held.
    """

    reports = ("count_moves", "acceptance_rate", "lowest_log_acceptance")
    lowest = ("lowest_log_acceptance",)
    on_counts = True
    moves_size = True

    def __init__(self, follow: bool = False) -> None:
        self.follow = follow

    def __repr__(self) -> str:
        return f"CountMove({'follow=True' if self.follow else ''})"

    def check(self, target: Target) -> None:
        """Raise if the state holds records, or theta cannot follow."""
        if not target.on_counts:
            raise ValueError("CountMove needs a state of counts, and this one holds records")
        if self.follow and target.abilities.log_linear is None:
            raise ValueError(
                "CountMove(follow=True) needs a model with log_linear; "
                f"{target.abilities.name} is not that"
            )

    def find_start(self, target: CountTarget, state: ChainState) -> None:
        """Begin at a table with the exact numbers of the release, if it has some."""
        if target.has_exact:
            state.records = target.find_table(state.rng)

    def start(self, target: CountTarget, state: ChainState) -> dict[str, Any]:
        """Begin with all strides, as many pairs as other directions, and no observations."""
        return {
            "used": np.ones((LEVELS, LEVELS)),
            "chances": _chances(target, np.ones(target.table.kinds)),
            "share": 0.5 if self.follow else 1.0,
            "seen": _nothing_seen(target),
            "following": hold(),
            "around": None,
            "links": np.zeros((2, len(target.links(state.records)))),
        }

    def step(
        self, target: CountTarget, state: ChainState, tuning: dict[str, Any]
    ) -> tuple[float, float, float]:
        """Do the steps, draw theta if it was integrated out, and look at a few records."""
        theta, reports = self.run(target, state, tuning, 1)
        update = target.abilities.update_from_counts
        if theta is None and target.integrated and update is not None:
            state.theta = update(state.theta, state.records, state.rng)
        changed, mean, lowest = reports[0]
        return float(changed), float(mean), float(lowest)

    def most(self, target: CountTarget) -> int:
        """Return how many iterations `run` may do at once: 1 if it does not draw everything."""
        if target.n_gammas == 0 or target.size is not None:
            return 1
        return max(1, NUMBERS_OF_A_CALL // (target.n_gammas + target.n))

    def run(
        self, target: CountTarget, state: ChainState, tuning: dict[str, Any], iterations: int
    ) -> tuple[dict[str, np.ndarray] | None, np.ndarray]:
        """Do several iterations; return the draws, one row each, and their reports, (m, 3).

        Gives the same as that many calls of `step`. The draws are theta and, if the model names
        one, the table of counts; None if theta is held or drawn by the model.
        """
        hidden = target.abilities.count_table is None
        logs = np.empty((iterations, target.n_gammas))
        tables = np.empty((iterations, 0 if hidden else target.n), dtype=np.int64)
        reports = np.empty((iterations, 3))
        seen = tuning["seen"] or _nothing_seen(target)
        following = tuning["following"]
        if following.chance > 0.0:
            following = following._replace(b=target.coordinates.to_vector(state.theta))
        iterate_counts(
            target.density,
            target.table,
            target.slopes_at(state.theta),
            state.records,
            (tuning["used"], tuning["chances"], *seen),
            following,
            steps_of(target.n, tuning["share"]),
            target.boxes(tuning["around"]),
            state.rng,
            logs,
            tables,
            reports,
        )
        if following.chance > 0.0:
            state.theta, _ = target.coordinates.from_vector(following.b)
        if not target.n_gammas:
            return None, reports
        theta = target.theta_of(logs)
        state.theta = {name: np.array(values[-1]) for name, values in theta.items()}
        return target.shown(theta, tables), reports

    def learn(self, target: CountTarget, state: ChainState, tuning: dict[str, Any]) -> None:
        """After 32, 64, ... iterations, use the observations so far, and start new ones.

        How far the chain moved on its way to the posterior says nothing about how far it moves
        there.
        """
        count = state.iteration + 1
        if count >= FIRST_WINDOW and count & (count - 1) == 0:
            self._choose(target, tuning, count // 2)
            for counted in tuning["seen"]:
                counted[:] = 0.0
        since = count + 1 - (1 << (count.bit_length() - 1))  # iterations since it began anew
        mean, squares = tuning["links"]
        off = target.links(state.records) - mean
        mean += off / since
        squares[:] = squares + off * off * (1.0 - 1.0 / since) if since > 1 else 0.0

    def freeze(self, target: CountTarget, state: ChainState, tuning: dict[str, Any]) -> None:
        """Choose for the last time, if enough was observed since the last choice."""
        count = state.iteration + 1
        since = count % (1 << (count.bit_length() - 1))
        if count < FIRST_WINDOW or since >= FIRST_WINDOW:
            self._choose(target, tuning, max(1, since))
        if tuning["around"] is not None and tuning["around"].enough:
            tuning["used"] *= SELDOM
        tuning.update(seen=(), links=None)

    def _choose(self, target: CountTarget, tuning: dict[str, Any], since: int) -> None:
        """Keep the strides that move the counts, and favour the directions that move them far.

        Given the counts, the logarithm of a gamma of shape h has a variance of about 1 / h; over
        the draws of h, log h has one of about var(h) / h^2. So the counts make up the share var(h)
        / (var(h) + h) of the variance; for an unknown n, all of it.
        """
        given = target.abilities.log_linear
        if self.follow and given is not None:
            tuning["following"] = follow_around(given, tuning["links"][0])
        mean, squares = tuning["links"]
        tuning["around"] = target.place(mean, np.sqrt(squares / since), tuning["around"])
        seen, jumps, (number, total, squares) = tuning["seen"]
        squares_of = seen[1] / np.maximum(seen[0], 1e-9)
        tuning["used"][:] = 1.0  # all, on lines where nothing moved: the last choice may be why
        for top in np.flatnonzero(squares_of.any(axis=1)):
            best = int(np.argmax(squares_of[top]))
            tuning["used"][top] = SELDOM
            tuning["used"][top, max(0, best - 1) : best + 1] = 1.0
        gains = jumps[1] / np.maximum(jumps[0], 1e-9)
        if gains.max() > 0.0:
            tuning["chances"] = _chances(target, gains + LEAST_SHARE * gains.max())
        if number.any():
            mean = total / number
            varied = np.maximum(squares / number - mean**2, 0.0)
            share = float((varied / (varied + mean)).max()) if target.size is None else 1.0
            tuning["share"] = share


def steps_of(cells: int, share: float) -> int:
    """Return the steps of an iteration, for this share of the variance."""
    others = max(1, cells - 1)
    most = max(STEPS_PER_CELL * others, min(STEPS_PER_PAIR * others * cells / 2, ENOUGH_STEPS))
    return math.ceil(max(LEAST_PER_CELL * others, share * most))


def _chances(target: CountTarget, shares: np.ndarray) -> np.ndarray:
    """Return the cumulative probabilities of the kinds, by these shares.

    Pairs, which alone change every margin, or for parts elements, get half or more.
    """
    pairs, parts = len(target.table.most_pools), len(target.table.part_ends) > 1
    alone, others = (slice(pairs, None), slice(pairs))[:: 1 if parts else -1]
    shares[alone] *= max(1.0, shares[others].sum() / shares[alone].sum())
    return np.asarray(np.cumsum(shares / shares.sum()))


def _nothing_seen(target: CountTarget) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    kinds, gammas = np.zeros((2, target.table.kinds)), np.zeros((3, target.n_gammas))
    return np.zeros((2, LEVELS, LEVELS)), kinds, gammas
