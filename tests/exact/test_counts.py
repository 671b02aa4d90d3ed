"""Chains of counts, against enumerated posteriors.

The plain side lists every table that n records can make, and its weight: the prior of the counts
by the textbook formula of the model (not by the model's own), the number of databases with these
counts, and the density of the noise by the textbook as well. Three checks:

* the transition matrix P of one step, exactly: all first cells, directions, windows and draws, with
  the package's own functions for each, leaves the enumerated posterior pi as it is, |pi P - pi| <=
  1e-12, and reaches every table;
* exact draws of the counts go through a whole iteration of the default sampler, and what comes out
  is compared with the enumeration again: the counts, the place of a record, and theta given them.
  m p-values are compared with 1e-6 / m: a false-alarm rate of at most 1e-6;
* the compiled steps are their Python selves.
"""

import functools
import itertools
import math
import os
from collections import defaultdict

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from scipy.sparse.csgraph import connected_components

import noiseaware as na
from later import all_but, only
from mutants.planting import Edit, planted
from noiseaware.contract import CountsPrior
from noiseaware.counts import lattice
from noiseaware.counts import move as moves
from noiseaware.counts import target as target_module
from noiseaware.counts.following import hold
from noiseaware.counts.target import CountTarget
from noiseaware.sampler.default import make_target
from noiseaware.sampler.state import ChainState

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220605"))
FALSE_ALARM = 1e-6


def dirichlet_multinomial(a):
    """log of p(one database with these counts), by the textbook."""
    return lambda x: (
        sum(math.lgamma(b + m) for b, m in zip(a, x, strict=True)) - math.lgamma(sum(a) + sum(x))
    )


def naive_bayes_prior(levels, a):
    """The same of a table of a class and features, in C order."""
    cells = list(np.ndindex(*levels))

    def log_prior(x):
        classes = [
            sum(m for m, c in zip(x, cells, strict=True) if c[0] == i) for i in range(levels[0])
        ]
        result = dirichlet_multinomial([a] * levels[0])(classes)
        for k in range(1, len(levels)):
            for i in range(levels[0]):
                row = [
                    sum(m for m, c in zip(x, cells, strict=True) if c[0] == i and c[k] == j)
                    for j in range(levels[k])
                ]
                result += dirichlet_multinomial([a] * levels[k])(row)
        return result

    return log_prior


def laplace(values, scale):
    return lambda total: -float((np.abs(values - total) / scale).sum())


def gaussian(values, scale):
    return lambda total: -0.5 * float((((values - total) / scale) ** 2).sum())


def clamped_laplace(values, scale, low, high):
    """Laplace noise clamped to [low, high]: the density inside, the mass outside at the ends."""

    def log_density(total):
        result = 0.0
        for v, t in zip(values, total, strict=True):
            if v <= low:
                result += stats.laplace.logcdf((low - t) / scale)
            elif v >= high:
                result += stats.laplace.logsf((high - t) / scale)
            else:
                result += stats.laplace.logpdf((v - t) / scale)
        return float(result)

    return log_density


def margins_matrix(levels, margins):
    cells = list(np.ndindex(*levels))
    rows = []
    for margin in margins:
        for levels_of in itertools.product(*(range(levels[k]) for k in margin)):
            rows.append([tuple(c[k] for k in margin) == levels_of for c in cells])
    return np.array(rows, dtype=float)


def compositions(cells, n):
    """Every way to put n records into so many cells."""
    if cells == 1:
        return [(n,)]
    return [(m, *rest) for m in range(n + 1) for rest in compositions(cells - 1, n - m)]


class Problem:
    """A release of a few records; all tables with their posterior probabilities."""

    def __init__(
        self, model, mechanism, values, matrix, log_prior, log_noise, groups, shapes, exact=None
    ):
        n = sum(size for _, size in groups)
        if exact is not None:
            levels = np.asarray(model.record_values).max(axis=0) + 1
            shape = None if np.ndim(levels) == 0 else levels.tolist()
            held = na.mechanisms.Exact(na.queries.Linear(exact[0], n_levels=shape))
            mechanism = na.mechanisms.Several([mechanism, held])
            values = np.append(values, exact[1])
        release = na.Release(values, mechanism, n)
        self.target, self.n, self.shapes = CountTarget(model, release), n, shapes
        self.sizes = (n, n)
        self.values = np.asarray(self.target.cell_values)
        parts = [compositions(len(cells), m) for cells, m in groups]
        # Groups are made of cells that follow one another.
        self.tables = [sum(x, ()) for x in itertools.product(*parts)]
        if exact is not None:
            self.tables = [
                x for x in self.tables if np.array_equal(exact[0] @ np.array(x), exact[1])
            ]
        self.number = {x: i for i, x in enumerate(self.tables)}
        logs = [
            log_prior(x) - sum(math.lgamma(m + 1) for m in x) + log_noise(matrix @ np.array(x))
            for x in self.tables
        ]
        weights = np.exp(np.array(logs) - max(logs))
        self.pi = weights / weights.sum()


def _categorical(noise):
    a = [0.4, 1.0, 2.5]
    model = na.models.Categorical(3, concentration=a)
    query, values, matrix = na.queries.Histogram(n_levels=3), np.array([7.0, 3.0, 9.0]), np.eye(3)
    made = {
        "laplace": (na.mechanisms.Laplace(query, scale=1.7), laplace(values, 1.7)),
        "gaussian": (na.mechanisms.Gaussian(query, scale=2.2), gaussian(values, 2.2)),
        "discrete-laplace": (na.mechanisms.DiscreteLaplace(query, scale=1.1), laplace(values, 1.1)),
        "discrete-gaussian": (
            na.mechanisms.DiscreteGaussian(query, scale=1.4),
            gaussian(values, 1.4),
        ),
        "clamped": (
            na.mechanisms.Clamped(na.mechanisms.Laplace(query, scale=1.7), lower=3.0, upper=12.0),
            clamped_laplace(values, 1.7, 3.0, 12.0),
        ),
    }[noise]
    cells = [((0, 1, 2), 18)]
    return Problem(model, made[0], values, matrix, dirichlet_multinomial(a), made[1], cells, a)


def _table(levels, margins, n, concentration):
    a = concentration * np.linspace(0.7, 1.3, math.prod(levels))
    query, matrix = na.queries.Margins(levels, margins), margins_matrix(levels, margins)
    values = np.random.default_rng(5).normal(1.0, 1.0, len(matrix))
    return Problem(
        na.models.ContingencyTable(levels, a.reshape(levels)),
        na.mechanisms.Laplace(query, scale=1.3),
        values,
        matrix,
        dirichlet_multinomial(a),
        laplace(values, 1.3),
        [(tuple(range(len(a))), n)],
        a,
    )


def _bernoulli():
    values, a = np.array([26.4]), [2.5, 0.5]
    return Problem(
        na.models.Bernoulli(a=a[1], b=a[0]),
        na.mechanisms.Laplace(na.queries.Count(), scale=3.0),
        values,
        np.array([[0.0, 1.0]]),
        dirichlet_multinomial(a),
        laplace(values, 3.0),
        [((0, 1), 40)],
        a,
    )


def _dense():
    """A query that is no count: the sum of the records, clamped."""
    a = [0.6, 1.5, 1.0]
    values = np.array([11.3])
    return Problem(
        na.models.Categorical(3, concentration=a),
        na.mechanisms.Gaussian(na.queries.Sum(0.5, 2.0), scale=1.2),
        values,
        np.array([[0.5, 1.0, 2.0]]),
        dirichlet_multinomial(a),
        gaussian(values, 1.2),
        [((0, 1, 2), 9)],
        a,
    )


def _two_proportions(scale=1.5, sizes=(5, 20)):
    values, a, b = np.array([3.2, 9.1]), 1.5, 0.7
    pair = dirichlet_multinomial([b, a])
    return Problem(
        na.models.TwoProportions(sizes, a=a, b=b),
        na.mechanisms.Laplace(na.queries.ByGroup(na.queries.Count(), n_groups=2), scale=scale),
        values,
        np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
        lambda x: pair(x[:2]) + pair(x[2:]),
        laplace(values, scale),
        [((0, 1), sizes[0]), ((2, 3), sizes[1])],
        [b, a, b, a],
    )


def _naive_bayes(levels=(2, 3, 2)):
    cells = list(np.ndindex(*levels))
    query = na.queries.ClassFeatureCounts(levels[0], levels[1:])
    values = np.random.default_rng(6).normal(1.0, 1.0, len(query.names))
    matrix = query.statistic(np.array(cells)).T
    return Problem(
        na.models.NaiveBayes(levels[0], levels[1:], concentration=1.4),
        na.mechanisms.Laplace(query, scale=1.6),
        values,
        matrix,
        naive_bayes_prior(levels, 1.4),
        laplace(values, 1.6),
        [(tuple(range(len(cells))), 2)],
        None,
    )


LAWS = {
    "laplace": (na.mechanisms.Laplace, laplace),
    "gaussian": (na.mechanisms.Gaussian, gaussian),
    "discrete-laplace": (na.mechanisms.DiscreteLaplace, laplace),
    "discrete-gaussian": (na.mechanisms.DiscreteGaussian, gaussian),
}


def _linear(law, levels=2, n=5):
    """A hierarchy of two or three levels, or any matrix (0 levels), a scale for each row."""
    labels = [["all"] * 4, ["a", "a", "b", "b"], [0, 1, 2, 3]][3 - levels :] if levels else ()
    return _sums(law, na.queries.Linear.sums(*labels) if levels else ANY_MATRIX, n)


ANY_MATRIX = na.queries.Linear([[1, -2, 3, 0]])
OVERLAPPING = na.queries.Linear([[1, 1, 0, 0], [1, 0, 1, 0]])
"""Of its pools of two cells the first cell is in two, and the last in none."""


def _sums(law, query, n=5):
    matrix, a = query.matrix.toarray(), [0.7, 1.0, 2.0, 0.4]
    scales = np.linspace(0.8, 2.4, len(matrix))
    values = np.round(np.random.default_rng(8).normal(1.5, 1.5, len(matrix)))
    mechanism, log_noise = LAWS[law]
    return Problem(
        na.models.Categorical(4, concentration=a),
        mechanism(query, scale=scales),
        values,
        matrix,
        dirichlet_multinomial(a),
        log_noise(values, scales),
        [((0, 1, 2, 3), n)],
        a,
    )


def _exact(rows, values, n, levels=None, law="laplace"):
    """A table with a noisy first cell and every other one, and some exact rows."""
    rows = np.asarray(rows)
    k = rows.shape[1]
    a = np.linspace(0.6, 1.8, k)
    shape = None if levels is None else list(levels)
    matrix = np.array([np.arange(k) == 0, np.arange(k) % 2 == 0], dtype=float)
    mechanism, log_noise = LAWS[law]
    noisy, scales = np.array([1.0, 3.0]), np.array([1.5, 2.0])
    model = (
        na.models.Categorical(k, concentration=a)
        if levels is None
        else na.models.ContingencyTable(levels, a.reshape(levels))
    )
    return Problem(
        model,
        mechanism(na.queries.Linear(matrix, n_levels=shape), scale=scales),
        noisy,
        matrix,
        dirichlet_multinomial(a),
        log_noise(noisy, scales),
        [(tuple(range(k)), n)],
        a,
        (rows, np.asarray(values)),
    )


def _margins_exact(levels, margins, table):
    rows = margins_matrix(levels, margins)
    return _exact(rows, rows @ np.asarray(table), int(np.sum(table)), levels)


class Held(na.models.Categorical):
    """The same model, of which only the density is known: theta is held while counts move."""

    counts_prior = update_from_counts = update_parameters = None


def _held(a=(0.8, 1.0, 2.5), n=12):
    query, values = na.queries.Histogram(n_levels=3), np.array([7.0, 3.0, 1.0])
    return Problem(
        Held(3, concentration=a),
        na.mechanisms.Laplace(query, scale=4.0),
        values,
        np.eye(3),
        dirichlet_multinomial(a),
        laplace(values, 4.0),
        [((0, 1, 2), n)],
        a,
    )


EXACT_PROBLEMS = {
    # A hierarchy: the total of a part, and of a part of that.
    **{
        f"exact totals {law}": functools.partial(
            _exact, [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], [4, 3], 6, law=law
        )
        for law in LAWS
    },
    "exact margins 2x3": lambda: _margins_exact((2, 3), [[0], [1]], [2, 0, 1, 1, 2, 1]),
    "exact margins 3x3": lambda: _margins_exact((3, 3), [[0], [1]], [1, 0, 1, 0, 1, 0, 0, 1, 1]),
    "exact margins 2x2x2": lambda: _margins_exact(
        (2, 2, 2), [[0, 1], [1, 2]], [1, 1, 0, 2, 1, 0, 1, 1]
    ),
    "exact margin and nothing of the third": lambda: _margins_exact(
        (2, 2, 2), [[0], [1]], [1, 0, 0, 1, 1, 0, 1, 0]
    ),
    # All two-way margins of a cube: not decomposable, but small.
    "no three-way interaction": lambda: _margins_exact(
        (2, 2, 2), [[0, 1], [1, 2], [0, 2]], [1, 2, 1, 1, 3, 0, 1, 2]
    ),
    # Weights, which no pair or cube can keep.
    "exact weighted sum": lambda: _exact([[0, 1, 2, 3]], [9], 6),
    "exact sum of unequal weights": lambda: _exact([[2, 3, 5]], [30], 9),
}

PROBLEMS = {
    "bernoulli": _bernoulli,
    "2x2": lambda: _table((2, 2), [[0], [1]], 3, 0.8),
    "2x2x2": lambda: _table((2, 2, 2), [[0, 1], [2]], 2, 1.0),
    "3x2": lambda: _table((3, 2), [[0, 1], [1]], 3, 2.5),
    "dense": _dense,
    "two proportions": _two_proportions,
    "2x2 in groups": lambda: _two_proportions(scale=0.6, sizes=(3, 2)),
    "naive bayes": _naive_bayes,
    **{f"hierarchy {law}": functools.partial(_linear, law) for law in LAWS},
    "three levels": lambda: _linear("discrete-gaussian", 3),
    "matrix": lambda: _linear("gaussian", 0),
    "overlapping sums": lambda: _sums("laplace", OVERLAPPING),
    **EXACT_PROBLEMS,
    "small naive bayes": lambda: _naive_bayes((2, 2)),
    **{
        f"categorical {noise}": functools.partial(_categorical, noise)
        for noise in ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian", "clamped")
    },
}


@functools.cache
def problem(name):
    return PROBLEMS[name]()


# ------------------------------------------------------------------ the transition matrix


def directions(made, first):
    """Every direction from a first cell: its probability, its cells and their steps.

    Uniforms in the middle of every interval make the package's own functions go through all.
    """
    table, n_cells = made.target.table, len(made.values)
    pairs = len(table.most_pools)
    kinds, cubes = table.kinds, pairs + len(table.patterns)
    cells, steps, far = (np.empty(16, np.int64) for _ in range(3))
    ways = [(kind, 0, 1, n_cells) for kind in range(pairs, cubes)]
    for kind, slots in enumerate(table.most_pools):
        pools = table.of_cell[slice(*table.of_cell_start[first, kind : kind + 2])]
        for i in range(slots):
            size = np.diff(table.pool_start)[pools[i]] if i < len(pools) else 1
            ways.append((kind, i, slots, max(1, size - 1)))
    for kind, i, slots, many in ways:
        for j in range(many):
            u = np.array([0.0, 0.0, (i + 0.5) / slots, (j + 0.5) / many])
            number = moves.direction(table, first, kind, u, cells, steps, far)
            chance = 1.0 / (kinds * slots * many)
            yield chance, tuple(zip(cells[:number].tolist(), steps[:number].tolist(), strict=True))
    if kinds > cubes:
        n_elements = len(table.element_start) - 1
        for e in range(n_elements):
            which = table.element_set[table.element_start[e] : table.element_start[e + 1]]
            sizes = table.set_start[which + 1] - table.set_start[which]
            for places in np.ndindex(*sizes):
                u = np.append(np.zeros(4), (np.array(places) + 0.5) / sizes)
                u[2] = (e + 0.5) / n_elements
                number = moves.direction(table, first, cubes, u, cells, steps, far)
                chance = 1.0 / (kinds * n_elements * np.prod(sizes))
                line = zip(cells[:number].tolist(), steps[:number].tolist(), strict=True)
                yield chance, tuple(line)


def changed_rows(table, cells, steps):
    """How many rows a direction changes, what it adds to each row, and which they are."""
    rows, n_rows = np.empty(10_000, np.int64), len(table.fixed)
    change, marks = np.full(n_rows, np.nan), np.zeros(n_rows + 1, np.int64)
    return (
        moves.changed_rows(table, cells, steps, len(cells), change, marks, rows),
        change,
        rows,
    )


def window_matrix(made, line, points, level):
    """P of one window with the stride 8^level on a line of tables, by the package's functions."""
    target, table = made.target, made.target.table
    cells, steps = (np.array(part, dtype=np.int64) for part in zip(*line, strict=True))
    touched, change, rows = changed_rows(table, cells, steps)
    assert touched >= 0
    stride, matrix = 8**level, np.zeros((len(points), len(points)))
    window, sums = np.empty(moves.WINDOW), np.empty(len(table.fixed))
    for here, x in enumerate(points):
        counts = np.array(x)
        moves.add_up(table, counts, sums)
        of_line = (cells, steps, len(cells), change, rows, touched)
        lo, hi = moves.bounds(table, counts, sums[table.size_row], of_line)
        for j in range(moves.WINDOW):
            first = moves.window_start(lo, hi, stride, (j + 0.5) / moves.WINDOW)
            data = (target.density, table, target.slopes, counts, sums)
            moves.fill_window(*data, of_line, (lo, hi, first, stride), window)
            p = np.exp(window - window.max())
            p /= p.sum() * moves.WINDOW
            for i in np.flatnonzero(p):
                matrix[here, here + first + i * stride] += p[i]
    return matrix


def check_powers(name):
    """Along a line, log w of a tempered target has g's part times the power."""
    made, line, found = problem(name), ((0, 1), (1, -1)), []
    cells, steps = (np.array(part, dtype=np.int64) for part in zip(*line, strict=True))
    touched, change, rows = changed_rows(made.target.table, cells, steps)
    counts = np.array(made.tables[len(made.tables) // 2])
    of_line = (cells, steps, 2, change, rows, touched)
    lo, hi = moves.bounds(made.target.table, counts, 0.0, of_line)
    assert lo < hi
    sums = np.empty(len(made.target.table.fixed))
    moves.add_up(made.target.table, counts, sums)
    for power in (0.0, 0.4, 1.0):
        target, window = made.target.tempered(power), np.empty(moves.WINDOW)
        data = (target.density, target.table, target.slopes, counts, sums)
        moves.fill_window(*data, of_line, (lo, hi, lo, 1), window)
        found.append(window[: hi - lo + 1] - window[0])
    assert np.ptp(found[2] - found[0]) > 0.1
    np.testing.assert_allclose(found[1] - found[0], 0.4 * (found[2] - found[0]), atol=1e-12)


@pytest.mark.parametrize("name", ["categorical gaussian", "categorical laplace"])
def test_g_is_taken_to_the_power_of_the_target(name):
    check_powers(name)


def line_matrix(made, line, x, cache):
    """All tables on the line through x, and P of the windows from coarse to fine."""
    points = [x]
    for sign in (-1, 1):
        while True:
            point = list(points[0 if sign < 0 else -1])
            for c, step in line:
                point[c] += sign * step
            if min(point) < 0 or not made.sizes[0] <= sum(point) <= made.sizes[1]:
                break
            assert tuple(point) in made.number, f"from {x} to {point}"
            points.insert(0 if sign < 0 else len(points), tuple(point))
    key = (points[0], frozenset(line))
    if key not in cache:
        matrix = np.eye(len(points))
        for level in range(moves.coarsest(len(points)), -1, -1):
            matrix = matrix @ window_matrix(made, line, points, level)
        cache[key] = points, matrix
    return cache[key]


def allowed(made, line):
    cells, steps = (np.array(part, dtype=np.int64) for part in zip(*line, strict=True))
    return changed_rows(made.target.table, cells, steps)[0] >= 0


def transition_matrix(made):
    n_cells, cache = len(made.values), {}
    by_cell = []
    for first in range(n_cells):
        found = defaultdict(float)
        for chance, line in directions(made, first):
            found[line if line and allowed(made, line) else ()] += chance
        by_cell.append(found)
    P = np.zeros((len(made.tables),) * 2)
    for number, x in enumerate(made.tables):
        for first in range(n_cells):
            picked = 0.5 * x[first] / sum(x) + 0.5 / n_cells
            for line, chance in by_cell[first].items():
                if not line:
                    P[number, number] += picked * chance
                    continue
                points, matrix = line_matrix(made, line, x, cache)
                row = matrix[points.index(x)]
                for point, p in zip(points, row, strict=True):
                    P[number, made.number[point]] += picked * chance * p
    return P


def check_invariant(made):
    """One step leaves pi as it is, and leads everywhere."""
    P = transition_matrix(made)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(made.pi @ P, made.pi, rtol=0, atol=1e-12)
    assert connected_components(P > 0, connection="strong")[0] == 1


def check_step(name, fresh=False):
    check_invariant(PROBLEMS[name]() if fresh else problem(name))


LONG = (
    *("no three-way interaction", "naive bayes"),
    *("categorical discrete-laplace", "categorical discrete-gaussian"),
)
"""In `make validate`; the hierarchies have the same laws."""


@pytest.mark.parametrize("name", all_but(LONG, PROBLEMS))
def test_a_step_leaves_the_enumerated_posterior_invariant(name):
    check_step(name)


# ------------------------------------------------------------------ an unknown number of records


class SizedProblem:
    """Two to nine records of three values, their number unknown: all tables, and their posterior.

    The plain side: p(n), the multinomial coefficient, the Dirichlet-multinomial by the textbook.
    """

    def __init__(self, prior, exact):
        a, scale, values = [0.4, 1.0, 2.5], 1.7, np.array([3.2, 1.0, 4.1])
        query = na.queries.Histogram(n_levels=3)
        mechanism = na.mechanisms.Laplace(query, scale=scale, neighbours="add-remove")
        seen = values
        if exact:
            held = na.mechanisms.Exact(na.queries.Linear([[1, 0, 0]]))
            mechanism, seen = na.mechanisms.Several([mechanism, held]), np.append(values, 2)
        release = na.Release(seen, mechanism, None)
        self.target = make_target(na.models.Categorical(3, concentration=a), release, None, prior)
        self.values, self.sizes = np.asarray(self.target.cell_values), (prior.lower, prior.upper)
        self.tables = [
            x
            for x in itertools.product(range(prior.upper + 1), repeat=3)
            if prior.lower <= sum(x) <= prior.upper and (not exact or x[0] == 2)
        ]
        self.number = {x: i for i, x in enumerate(self.tables)}
        log_database, log_noise = dirichlet_multinomial(a), laplace(values, scale)
        logs = [
            prior.log_pmf(sum(x))
            + math.lgamma(sum(x) + 1)
            - sum(math.lgamma(m + 1) for m in x)
            + log_database(x)
            + log_noise(np.array(x))
            for x in self.tables
        ]
        weights = np.exp(np.array(logs) - max(logs))
        self.pi = weights / weights.sum()


SIZED = {
    "flat": lambda: SizedProblem(na.sizes.Uniform(2, 9), exact=False),
    "not flat": lambda: SizedProblem(na.sizes.LogPmf(lambda n: -0.3 * n, 2, 9), exact=False),
    "with an exact number": lambda: SizedProblem(na.sizes.Uniform(2, 9), exact=True),
}


def check_sized(name):
    check_invariant(SIZED[name]())


@pytest.mark.parametrize("name", SIZED)
def test_a_step_leaves_the_posterior_of_an_unknown_number_invariant(name):
    check_sized(name)


SIZED_BUGS = {
    "no n!": ("flat", Edit(target_module, "with_orders", "1.0, 1.0, 1.0", "1.0, 0.0, 1.0")),
    "no constant of the prior": (
        "flat", Edit(target_module, "with_orders", "whole, -1.0, 0.0", "whole, 0.0, 0.0"),
    ),
    "no prior of n": (
        "not flat", Edit(target_module, "tabulate", "size.log_pmf(n) for", "0.0 for"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", SIZED_BUGS)
def test_a_planted_bug_of_an_unknown_number_is_caught(bug):
    name, edit = SIZED_BUGS[bug]
    with planted(edit), pytest.raises(AssertionError):
        check_sized(name)


# ------------------------------------------------------------------ a whole iteration


def iteration_p_values(name, n_draws, move=None):
    made = problem(name)
    target = made.target
    if move is None:
        (move,) = na.sampler.default.default_moves(target)
    rng = np.random.default_rng([SEED, list(PROBLEMS).index(name)])
    theta = target.sample_prior(rng)
    state = ChainState(theta, np.array(made.tables[0]), None, rng)
    tuning = move.start(target, state)
    if "used" in tuning:
        tuning["used"][:] = 0.4  # as after warm-up: not every stride each time
    found, first = np.zeros(len(made.tables)), np.zeros(len(made.values))
    thetas, arrived = [], []
    for start in rng.choice(len(made.tables), size=n_draws, p=made.pi):
        state.records = np.array(made.tables[start])
        if not target.integrated:
            state.theta = {"probabilities": rng.dirichlet(made.shapes + state.records)}
        move.step(target, state, tuning)
        arrived.append(made.number[tuple(state.records)])
        found[arrived[-1]] += 1
        record = target.database(state)[0]
        first[
            np.flatnonzero((made.values == record).reshape(len(made.values), -1).all(axis=1))
        ] += 1
        thetas.append(np.concatenate([np.reshape(v, -1) for v in state.theta.values()]))
    tables = np.array(made.tables)
    sizes = tables[:, target.groups == 0].sum(axis=1, keepdims=True)
    at_first = made.pi @ np.where(target.groups == 0, tables / sizes, 0.0)
    p_values = [chi_square(found, made.pi * n_draws), chi_square(first, at_first * n_draws)]
    if made.shapes is not None:
        # Given the counts that came out, a probability is a beta variable.
        shapes = np.array(made.shapes) + tables[arrived]
        whole = np.stack([shapes[:, target.groups == g].sum(axis=1) for g in target.groups], axis=1)
        scores = np.array(thetas)
        if scores.shape[1] < shapes.shape[1]:  # only the probability of a yes is a parameter
            shapes, whole = shapes[:, 1::2], whole[:, 1::2]
        scores = stats.beta.cdf(scores, shapes, whole - shapes)
        p_values += [stats.kstest(column, "uniform", method="asymp").pvalue for column in scores.T]
    return np.array(p_values)


def chi_square(found, expected):
    """P-value, with the rarest tables taken together so that each class expects 10 or more."""
    order = np.argsort(expected)
    classes = (np.cumsum(expected[order]) // 10).astype(int)
    observed, wanted = np.bincount(classes, found[order]), np.bincount(classes, expected[order])
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    if wanted[-1] < 5 and len(wanted) > 1:
        observed = np.append(observed[:-2], observed[-2:].sum())
        wanted = np.append(wanted[:-2], wanted[-2:].sum())
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    return stats.chi2.sf(statistic, len(wanted) - 1)


def check_iteration(name, n_draws, move=None):
    p_values = iteration_p_values(name, n_draws, move)
    assert p_values.min() > FALSE_ALARM / len(p_values), p_values


ITERATED = (
    "bernoulli",
    "2x2",
    "2x2x2",
    "dense",
    "two proportions",
    "naive bayes",
    "three levels",
    "exact margins 3x3",
    "exact weighted sum",
    "no three-way interaction",
)


@pytest.mark.parametrize("name", only(["bernoulli", "dense", "exact margins 3x3"], ITERATED))
@pytest.mark.parametrize("n_draws", only([3000], [3000, 6000]))
def test_an_iteration_leaves_the_posterior_invariant(name, n_draws):
    check_iteration(name, n_draws)


HELD_PROBLEM = {"theta held": _held}
PROBLEMS |= HELD_PROBLEM  # after the list above: its steps depend on theta


@pytest.mark.parametrize(
    "move", [na.moves.CountTransport(), na.moves.CountMove(), na.moves.ParameterUpdate()], ids=repr
)
@pytest.mark.parametrize("n_draws", only([3000], [3000, 6000]))
def test_each_move_with_theta_held_leaves_the_posterior_invariant(move, n_draws):
    check_iteration("theta held", n_draws, move)


def test_a_model_with_a_density_only_is_sampled_by_counts():
    moves_of = na.sampler.default.default_moves(problem("theta held").target)
    assert [type(move).__name__ for move in moves_of] == [
        *("ParameterUpdate", "CountTransport", "CountMove")
    ]


def test_the_compiled_steps_are_their_python_selves():
    made = problem("2x2x2")
    target, ends = made.target, []
    for kernel in (moves.iterate_counts, moves.iterate_counts.py_func):
        counts = np.array([9, 0, 5, 40, 3, 1, 0, 0])
        seen = moves._nothing_seen(target)
        chances = np.linspace(0.3, 1.0, len(target.table.patterns) + 1)
        drawn = np.empty((3, 8)), np.empty((3, 8), np.int64), np.empty((3, 3))
        kernel(
            target.density,
            target.table,
            target.slopes,
            counts,
            (np.full((moves.LEVELS, moves.LEVELS), 0.7), chances, *seen),
            hold(),
            17,
            target.boxes(None),
            np.random.default_rng(4),
            *drawn,
        )
        ends.append((counts, *seen, *drawn))
    assert ends[0][-1][:, 0].min() > 0.1
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "kept"), [("bernoulli", 3), ("small naive bayes", 0), ("exact margins 2x3", 0)]
)
def test_many_iterations_at_once_are_one_after_another(name, kept):
    target = problem(name).target
    (move,) = na.sampler.default.default_moves(target)
    assert move.most(target) > 1
    schedule = na.sampler.chain.Schedule.make(40, 50, kept)
    ends = []
    for segments in ([90], [1] * 90, [47, 6, 37]):
        state = na.sampler.chain.start(target, [move], np.random.default_rng(SEED))
        parts = []
        for length in segments:
            state, draws = na.sampler.chain.advance(target, [move], schedule, state, length)
            parts.append(draws)
        joined = na.sampler.state.Draws.join(parts)
        ends.append((*joined.theta.values(), *joined.reports.values(), *joined.databases))
    for other in ends[1:]:
        for one, same in zip(ends[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("n_cells", [1, 2, 7, 8, 9])
def test_the_tree_finds_the_cell_of_every_record(n_cells):
    rng = np.random.default_rng(n_cells)
    counts = rng.integers(0, 4, n_cells)
    tree = np.empty(n_cells + 1, dtype=np.int64)
    moves.fill_tree(counts, tree)
    moves.add(tree, 0, 2)
    counts[0] += 2
    found = [moves.find(tree, k) for k in range(counts.sum())]
    assert found == np.repeat(np.arange(n_cells), counts).tolist()


# ------------------------------------------------------------------ exact rows


@pytest.mark.parametrize("name", all_but(["no three-way interaction"], EXACT_PROBLEMS))
def test_a_chain_begins_at_a_table_with_the_exact_numbers(name):
    made = problem(name)
    rng = np.random.default_rng(3)
    assert all(tuple(made.target.find_table(rng)) in made.number for _ in range(5))


def by_brute_force(matrix, reach):
    """The Graver basis of a small matrix: all kernel vectors that are no sum of two like them."""
    cube = np.indices((2 * reach + 1,) * matrix.shape[1]).reshape(matrix.shape[1], -1).T - reach
    kernel = [z for z in cube if z.any() and not (matrix @ z).any()]
    return {
        tuple(z.tolist())
        for z in kernel
        if not any(
            (w != z).any() and (w * z >= 0).all() and (np.abs(w) <= np.abs(z)).all() for w in kernel
        )
    }


@pytest.mark.parametrize(
    "matrix", [[[1, 1, 1, 1], [0, 1, 2, 3]], [[2, 3, 5]], [[1, 1, 0, 0], [0, 1, 1, 0]], [[1, 2, 3]]]
)
def test_the_graver_basis_is_that_of_brute_force(matrix):
    found = lattice.graver_basis(np.array(matrix))
    both = {tuple(z.tolist()) for z in (*found, *-found)}
    assert both == by_brute_force(np.array(matrix), 5)


@pytest.mark.parametrize(
    ("margins", "sides"),
    [
        ([{0}, {1}], 1),
        ([{0, 1}, {1, 2}], 1),
        ([{0, 1}, {1, 2}, {2, 3}], 2),
        ([{0, 1}, {0, 2}, {0, 3}], 2),
        ([{0, 1}, {1, 2}, {0, 2}], None),
        ([{0, 1}, {1, 2}, {2, 3}, {0, 3}], None),
    ],
)
def test_decomposable_margins_are_told_from_others(margins, sides):
    found = lattice.separators([frozenset(s) for s in margins], 4)
    assert (None if found is None else len(found)) == sides
    for one, other in found or ():
        # No margin has variables of both sides, and together with the separator that is all.
        assert not one & other
        assert not any(set(s) & one and set(s) & other for s in margins)


def test_margins_of_a_large_table_need_no_list_of_moves():
    levels = (30, 4, 3)
    rows = margins_matrix(levels, [[0, 1], [1, 2]])
    matrix = lattice.sparse.csc_array(rows)
    found = lattice.connect(matrix, lattice.same_columns(matrix), levels)
    assert found.elements == []
    assert [sorted(map(sorted, pair)) for pair in found.separations] == [[[0], [2]]]
    # Groups of levels, here tracts of ten blocks, are levels too.
    tracts = np.repeat(np.eye(3), 10, axis=1)
    rows = np.vstack([np.kron(tracts, np.ones(12)), np.kron(np.ones(30), np.eye(12))])
    matrix = lattice.sparse.csc_array(rows)
    found = lattice.connect(matrix, lattice.same_columns(matrix), levels)
    assert [sorted(map(sorted, pair)) for pair in found.separations] == [[[0], [1, 2]]]


# ------------------------------------------------------------------ an open number of records


class PoissonCells:
    """A class of a user's: two Poisson counts, whose rates have Gamma(a, b) priors."""

    a, b = np.array([0.7, 2.0]), np.array([0.1, 0.2])
    parameters = (na.Parameter("rates", (2,), "positive"), na.Parameter("counts", (2,)))
    record_values = np.arange(2)
    random_size = True
    counts_prior = CountsPrior(a, slopes=-np.log1p(b))

    def sample_prior(self, rng):
        rates = rng.gamma(self.a) / self.b
        return {"rates": rates, "counts": rng.poisson(rates).astype(float)}

    def sample_records(self, theta, n, rng):
        return rng.choice(2, size=n, p=theta["rates"] / theta["rates"].sum())

    def log_likelihood(self, theta, records):
        return np.log(theta["rates"])[records]

    def update_from_counts(self, theta, counts, rng):
        rates = rng.gamma(self.a + counts) / (self.b + 1.0)
        return {"rates": rates, "counts": counts.astype(float)}

    def update_parameters(self, theta, records, rng):
        return self.update_from_counts(theta, np.bincount(records, minlength=2), rng)


def open_release():
    query = na.queries.Linear.sums(["all"] * 2, ["a", "b"])
    mechanism = na.mechanisms.DiscreteGaussian(query, scale=[2.0, 3.0, 3.0])
    return na.Release([13, 2, 9], mechanism, n_records=None)


def test_an_open_number_of_records_leaves_the_posterior_invariant():
    model, release, most = PoissonCells(), open_release(), 60
    target, rng = make_target(model, release), np.random.default_rng([SEED, 99])
    tables = np.indices((most, most)).reshape(2, -1).T
    # Negative binomial counts, by SciPy, and the density of the noise by the textbook.
    logs = stats.nbinom.logpmf(tables, model.a, model.b / (model.b + 1.0)).sum(axis=1)
    totals = np.column_stack([tables.sum(axis=1), tables])
    logs += stats.norm.logpdf(release.values - totals, scale=[2.0, 3.0, 3.0]).sum(axis=1)
    pi = np.exp(logs - logs.max())
    pi /= pi.sum()
    (move,) = na.sampler.default.default_moves(target)
    state = ChainState(model.sample_prior(rng), tables[0].copy(), None, rng)
    tuning = move.start(target, state)
    found, scores = np.zeros((most, most)), []
    for start in rng.choice(len(tables), size=4000, p=pi):
        state.records = tables[start].copy()
        move.step(target, state, tuning)
        found[tuple(state.records)] += 1
        assert (state.theta["counts"] == state.records).all()
        scores.append(
            stats.gamma.cdf(state.theta["rates"] * (1.0 + model.b), model.a + state.records)
        )
    p_values = [chi_square(found.ravel(), pi * 4000)]
    p_values += [stats.kstest(column, "uniform").pvalue for column in np.transpose(scores)]
    assert min(p_values) > FALSE_ALARM / 3, p_values


def test_an_open_number_of_records_is_sampled_by_the_default():
    drawn = na.sample(
        PoissonCells(),
        open_release(),
        draws=100,
        warmup=50,
        chains=1,
        random_seed=1,
        progressbar=False,
    )
    counts = drawn["posterior"]["counts"].values
    assert (counts >= 0).all()
    assert len(np.unique(counts.sum(axis=-1))) > 3
    with pytest.raises(ValueError, match="n_records must be given"):
        na.sample(PoissonCells(), open_release(), moves=na.moves.algorithm1(), progressbar=False)


def test_a_country_is_sampled_like_a_village():
    n = 10**8
    release = na.Release([0.3 * n], na.mechanisms.Laplace(na.queries.Count(), scale=2.0), n)
    drawn = na.sample(
        na.models.Bernoulli(),
        release,
        draws=200,
        warmup=100,
        chains=2,
        random_seed=1,
        progressbar=False,
    )
    p = drawn["posterior"]["probability"].values
    assert abs(p.mean() - 0.3) < 1e-4


def test_far_from_zero_the_mean_is_generalised_least_squares():
    """Under a flat prior and Gaussian noise, counts that cannot be negative anyway are normal.

    Dirichlet(1) makes every table of n records as likely. The mean of the posterior is then that of
    least squares with the weights 1 / scale^2 and the sum of the counts held at n; four standard
    scores are compared with 5.1: a false-alarm rate of 1.4e-6, and integers add 1e-3 at most.
    """
    query = na.queries.Linear.sums(["all"] * 4, ["a", "a", "b", "b"], range(4))
    A, scales, n = query.matrix.toarray(), np.array([3.0, 4, 4, 6, 6, 6, 6]), 1400
    noise = scales * np.random.default_rng(1).standard_normal(7)
    values = np.round(A @ [500, 300, 200, 400] + noise)
    precision = A.T @ np.diag(scales**-2.0)
    held = np.block([[precision @ A, np.ones((4, 1))], [np.ones((1, 4)), np.zeros((1, 1))]])
    expected = np.linalg.solve(held, np.append(precision @ values, n))[:4]
    release = na.Release(values, na.mechanisms.DiscreteGaussian(query, scale=scales), n)
    target = make_target(na.models.Categorical(4), release)
    (move,) = na.sampler.default.default_moves(target)
    state = na.sampler.chain.start(target, [move], np.random.default_rng(SEED))
    drawn = np.empty((4000, 4))
    for i in range(-300, len(drawn)):
        na.sampler.chain.iterate(target, [move], state)
        if i >= 0:
            drawn[i] = state.records
    sizes = np.array([array_stats.ess(column[None], method="mean") for column in drawn.T])
    error = drawn.std(axis=0) / np.sqrt(sizes)
    assert sizes.min() > 200
    assert np.abs((drawn.mean(axis=0) - expected) / error).max() < 5.1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_unknown_number_of_records_moves_in_every_chain(seed):
    """On its way to the posterior n goes far, so that coarse strides looked best; they stayed so.

    No chain may then stand still: n has a standard deviation of 1.9, and 4,000 draws.
    """
    noise = na.mechanisms.DiscreteLaplace(na.queries.Histogram(n_levels=2), scale=1.0)
    posterior = na.sample(
        *(na.models.Categorical(2), na.Release([44, 81], noise, None)),
        size=na.sizes.Uniform(1, 400), random_seed=seed, cores=1, progressbar=False,
    )  # fmt: skip
    found = na.summary(posterior).loc["n_records"]
    assert found["r_hat"] < 1.01
    assert found["ess_bulk"] > 800
