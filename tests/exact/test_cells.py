"""Counts seen through noise: sums, moments and draws against sums term by term.

Sums and moments must agree to 1e-12 (of the log probability, relative to its size). Draws are
compared with the exact probabilities by chi-square tests, each with a false alarm of 1e-6 (30 of
them).
"""

import math

import numpy as np
import pytest
from scipy import stats

from exact.brute import LONG, log_masses, moments
from later import all_but
from mutants.planting import Edit, planted, same
from noiseaware.maths import cells
from noiseaware.mechanisms import terms

CODES = {
    "poisson": cells.POISSON,
    "negative-binomial": cells.NEGATIVE_BINOMIAL,
    "binomial": cells.BINOMIAL,
}
COUNTS = [
    ("poisson", 0.01, 0.0),
    ("poisson", 3.0, 0.0),
    ("poisson", 900.0, 0.0),
    ("negative-binomial", 2.0, 0.3),
    ("negative-binomial", 300.0, 0.6),
    ("negative-binomial", 40.0, 1.0),
    ("negative-binomial", 2000.0, 8.0),
    ("negative-binomial", 30.0, 1e7),
    ("binomial", 0.001, 20.0),
    ("binomial", 0.7, 50.0),
    ("binomial", 1.5, 4000.0),
]
INF = math.inf


def seen_by(scale):
    """Laws of what is seen: family and the first three parameters."""
    inverse = 1.0 / scale
    for s in (-3.0, 0.0, 6.4, 47.0, 1200.0):
        yield terms.GAUSSIAN, s, inverse, 0.0
        yield terms.LAPLACE, s, inverse, 0.0
        whole = math.floor(s)
        for kind in range(4):
            yield terms.BETWEEN + kind, -INF, inverse, whole
            yield terms.BETWEEN + kind, whole, inverse, whole + 5.0
            yield terms.BETWEEN + kind, whole, inverse, INF


def by_hand(family, p, x):
    """Log h of each count, in extended precision where there is a formula."""
    if family == terms.GAUSSIAN:
        return -(((LONG(p[0]) - x) * LONG(p[1])) ** 2) / 2
    if family == terms.LAPLACE:
        return -abs(LONG(p[0]) - x) * LONG(p[1])
    logs = [terms.log_between(family - terms.BETWEEN, p[0], p[2], p[1], float(y)) for y in x]
    return np.array(logs, dtype=LONG)


def one(name, rate, size, family, p, table=None, offset=0.3):
    """log p, mean and variance of one cell."""
    p = np.array([*p, 0.0])
    table = np.zeros(0) if table is None else table
    return cells.cell(CODES[name], rate, size, family, p, table, offset)


def most(name, rate, size, family, p):
    """A count beyond which there is nothing."""
    if name == "binomial":
        return int(size)
    sd = math.sqrt(rate + (rate * rate / size if name == "negative-binomial" else 0.0))
    edges = [abs(edge) for edge in (p[0], p[2]) if abs(edge) < INF]
    return int(rate + 80 * sd + 100 + max(edges))


def check_sums(name, rate, size, scale, families=None):
    for family, *p in seen_by(scale):
        if families is not None and family not in families:
            continue
        top = most(name, rate, size, family, p)
        x = np.arange(top + 1, dtype=LONG)
        log_w = log_masses(name, rate, size, top) + by_hand(family, p, x)
        expected = [float(value) for value in moments(log_w)]
        found = one(name, rate, size, family, p)
        what = (name, rate, size, family, p)
        assert found[0] == pytest.approx(expected[0], rel=1e-12, abs=1e-12), what
        assert found[1] == pytest.approx(expected[1], rel=1e-11, abs=1e-12), what
        assert found[2] == pytest.approx(expected[2], rel=1e-10, abs=1e-12), what


LONG_SUMS = [  # over tens of thousands of counts; in `make test` with one scale
    (*case, scale)
    for case in COUNTS
    for scale in (0.8, 6.0, 90.0)
    if scale == 90.0 or (scale == 0.8 and case[1] in (300.0, 900.0, 2000.0))
]


@pytest.mark.parametrize(
    ("name", "rate", "size", "scale"),
    all_but(LONG_SUMS, [(*case, scale) for scale in (0.8, 6.0, 90.0) for case in COUNTS]),
)
def test_sums_and_moments(name, rate, size, scale):
    fast = scale < 10.0 and rate < 100.0
    families = None if fast else (terms.GAUSSIAN, terms.LAPLACE, terms.BETWEEN, terms.BETWEEN + 1)
    check_sums(name, rate, size, scale, families)


@pytest.mark.parametrize(
    ("name", "rate", "size", "scale", "s"),
    [
        ("poisson", 1e6, 0.0, 5.0, 1_000_800.0),
        ("poisson", 1e6, 0.0, 1000.0, 1_001_500.0),
        ("poisson", 400.0, 0.0, 40.0, 460.0),
        ("negative-binomial", 1e6, 3.0, 1000.0, 1_200_000.0),
        ("negative-binomial", 1e6, 0.4, 30.0, 800_000.0),
        ("binomial", 0.5, 3e6, 1000.0, 1_001_500.0),
    ],
)
def test_large_counts(name, rate, size, scale, s):
    """A window of counts, from the exact ratios of neighbours; the first one by its formula."""
    p = (s, 1.0 / scale, 0.0)
    log_p, mean, variance = one(name, rate, size, terms.GAUSSIAN, p)
    reach = 45.0 * math.sqrt(variance)
    low, high = max(0, int(mean - reach)), int(mean + reach)
    x = np.arange(low, high + 1, dtype=LONG)
    steps = {
        "poisson": lambda: LONG(rate) / (x[:-1] + 1),
        "negative-binomial": lambda: (x[:-1] + LONG(size)) * (LONG(rate) / (rate + LONG(size)))
        / (x[:-1] + 1),
        "binomial": lambda: (LONG(size) - x[:-1]) * LONG(rate) / (x[:-1] + 1),
    }[name]()  # fmt: skip
    middle = len(x) // 2
    logs = np.concatenate(([LONG(0)], np.cumsum(np.log(steps))))
    logs += LONG(cells.log_mass(CODES[name], rate, size, float(x[middle]))) - logs[middle]
    exact = moments(logs + by_hand(terms.GAUSSIAN, p, x))
    assert log_p == pytest.approx(float(exact[0]), abs=1e-11)
    assert mean == pytest.approx(float(exact[1] + low), rel=1e-13)
    assert variance == pytest.approx(float(exact[2]), rel=1e-9)


@pytest.mark.parametrize(("name", "rate", "size"), COUNTS)
def test_log_masses(name, rate, size):
    top = most(name, rate, size, 0, (0.0, 0.0, 0.0))
    x = np.unique(np.linspace(0, top, 60).astype(int))
    exact = log_masses(name, rate, size, top)[x]
    found = [cells.log_mass(CODES[name], rate, size, float(y)) for y in x]
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-12, atol=1e-12)


def test_a_cell_of_which_nothing_is_seen():
    for name, rate, size in COUNTS:
        log_p, mean, variance = one(name, rate, size, terms.GAUSSIAN, (0.0, 0.0, 0.0))
        assert log_p == pytest.approx(0.0, abs=1e-12)
        exact = cells.mean_and_variance(CODES[name], rate, size)
        assert (mean, variance) == pytest.approx(exact, rel=1e-10)


def test_tables():
    table = np.log([0.2, 0.5, 0.3])
    for name, rate, size in COUNTS:
        logs = log_masses(name, rate, size, 9)
        log_w = np.full(10, -np.inf, dtype=LONG)
        log_w[4:7] = logs[4:7] + table
        expected = [float(value) for value in moments(log_w)]
        found = one(name, rate, size, terms.TABLE, (4.0, 0.0, 3.0), table)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


DRAWN = [
    ("poisson", 3.0, 0.0, terms.GAUSSIAN, (8.0, 0.3, 0.0)),
    ("poisson", 700.0, 0.0, terms.GAUSSIAN, (720.0, 0.04, 0.0)),
    ("negative-binomial", 6.0, 0.4, terms.LAPLACE, (12.3, 0.4, 0.0)),
    ("negative-binomial", 900.0, 20.0, terms.GAUSSIAN, (800.0, 0.05, 0.0)),
    ("binomial", 0.4, 30.0, terms.BETWEEN + 2, (-INF, 0.3, 6.0)),
    ("poisson", 4.0, 0.0, terms.TABLE, (3.0, 0.0, 3.0)),
]


def check_draws(case, stream, n=40_000):
    name, rate, size, family, p = case
    table = np.log([0.2, 0.5, 0.3])
    laws = terms.CellLaws(np.full(n, family), np.tile([*p, 0.0], (n, 1)), table)
    rng = np.random.default_rng([stream, 7])
    law = (CODES[name], np.full(n, rate), np.full(n, size), laws)
    found = cells.draw_out(*law, cells.sum_out(*law), rng)
    top = most(name, rate, size, 0, (0.0, 0.0, 900.0))
    x = np.arange(top + 1, dtype=LONG)
    if family == terms.TABLE:
        log_h = np.full(top + 1, -np.inf)
        log_h[3:6] = table
    else:
        log_h = by_hand(family, p, x)
    log_w = log_masses(name, rate, size, top) + log_h
    weights = np.exp(log_w - log_w.max()).astype(float)
    expected = n * weights / weights.sum()
    counts = np.bincount(found, minlength=top + 1).astype(float)
    large = np.flatnonzero(expected > 8.0)
    bins = np.searchsorted(large, np.arange(top + 1)).clip(0, len(large) - 1)
    pooled = [np.bincount(bins, weights=w, minlength=len(large)) for w in (counts, expected)]
    assert counts.sum() == n
    assert stats.chisquare(*pooled).pvalue > 1e-6


@pytest.mark.parametrize("case", DRAWN, ids=lambda case: f"{case[0]}-{case[3]}")
def test_draws(case):
    check_draws(case, 1)


def shares(draw):
    """The length of all u that give each count, by bisection of the places where it changes."""
    found = {}

    def look(low, high, x, y):
        if x == y and high - low < 2.0**-12:
            found[x] = found.get(x, 0.0) + high - low
        elif high - low < 1e-15:
            for z in (x, y):
                found[z] = found.get(z, 0.0) + 0.5 * (high - low)
        else:
            middle = 0.5 * (low + high)
            z = draw(middle)
            look(low, middle, x, z)
            look(middle, high, z, y)

    look(0.0, 1.0, draw(0.0), draw(1.0 - 2.0**-53))
    return found


SHARED = [
    ("poisson", 3.0, 0.0, terms.GAUSSIAN, (8.0, 0.3, 0.0)),
    ("negative-binomial", 6.0, 2.5, terms.GAUSSIAN, (4.0, 0.3, 0.0)),
    ("negative-binomial", 6.0, 0.4, terms.LAPLACE, (12.3, 0.4, 0.0)),
    ("negative-binomial", 2.0, 0.3, terms.GAUSSIAN, (7.0, 0.8, 0.0)),
    ("binomial", 0.4, 30.0, terms.BETWEEN + 2, (-INF, 0.3, 6.0)),
    ("binomial", 0.7, 12.0, terms.BETWEEN + 1, (3.0, 0.5, INF)),
    ("poisson", 4.0, 0.0, terms.BETWEEN + 3, (2.0, 0.5, 4.0)),
    ("poisson", 4.0, 0.0, terms.GAUSSIAN, (5.4, 200.0, 0.0)),
    ("poisson", 4.0, 0.0, terms.TABLE, (3.0, 0.0, 3.0)),
]


def check_shares(case):
    """The probability of every count under `draw_cell`, to 1e-12."""
    name, rate, size, family, p = case
    code, p, table = CODES[name], np.array([*p, 0.0]), np.log([0.2, 0.5, 0.3])
    log_p, mean, _ = cells.cell(code, rate, size, family, p, table, 0.0)
    found = shares(lambda u: cells.draw_cell(code, rate, size, family, p, table, log_p, mean, u))
    top = 200 if name != "binomial" else int(size)
    x = np.arange(top + 1, dtype=LONG)
    log_h = np.full(top + 1, -np.inf, dtype=LONG)
    if family == terms.TABLE:
        log_h[3:6] = table
    else:
        log_h = by_hand(family, p, x)
    log_w = log_masses(name, rate, size, top) + log_h
    weights = np.exp(log_w - log_w.max())
    exact = (weights / weights.sum()).astype(float)
    drawn = np.zeros(top + 1)
    for y, share in found.items():
        drawn[int(y)] = share
    # Intervals shorter than the grid of 2^-12 that bisection begins with may be missed.
    large = exact > 2.0**-11
    np.testing.assert_allclose(drawn[large], exact[large], rtol=0.0, atol=1e-12)
    assert drawn.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("case", SHARED, ids=lambda case: f"{case[0]}-{case[3]}")
def test_probabilities_of_draws(case):
    check_shares(case)


def test_every_offset_gives_the_same_sum():
    """Every k-th count is enough, wherever one begins."""
    found = [
        one("poisson", 4000.0, 0.0, terms.GAUSSIAN, (4100.0, 0.02, 0.0), offset=u)
        for u in np.linspace(0.0, 0.999, 50)
    ]
    np.testing.assert_allclose(found, found[:1] * 50, rtol=2e-13)


# ------------------------------------------------------------------ planted bugs

WALKED = ("cell", "begin", "walk_counts", "walk_side", "left_above", "left_below")


def python(*names):
    return tuple(same(cells, name) for name in names)


def sums_of(*counts, scale=6.0):
    def check():
        for name, rate, size in counts:
            check_sums(name, rate, size, scale, (terms.GAUSSIAN, terms.LAPLACE))

    return check


BUGS = {
    "the sum ends too soon": (
        sums_of(("poisson", 3.0, 0.0)),
        (Edit(cells, "walk_side", "if weight <= NEGLIGIBLE * total:\n",
              "if weight <= 1e-6 * total:\n"),
         Edit(cells, "left_above", "return weight * ratio / (1.0 - ratio) if", "return 0.0 if"),
         Edit(cells, "left_below", "return weight * ratio / (1.0 - ratio) if", "return 0.0 if"),
         *python("cell", "walk_counts")),
    ),
    "the second hump is not looked for": (
        sums_of(("negative-binomial", 2.0, 0.3), scale=0.8),
        (Edit(cells, "two_humps",
              "return find_top(code, odds, size, family, p, table, max(turn, p[0]))", "return 0.0"),
         Edit(cells, "begin", "peak = math.exp(at_zero - top)", "peak = 0.0"),
         *python("cell")),
    ),
    "ratio of the wrong neighbour": (
        sums_of(("negative-binomial", 40.0, 1.0)),
        (Edit(cells, "decline", "(x - 1.0 + size)", "(x + size)"), *python(*WALKED)),
    ),
    "strides too long": (
        test_every_offset_gives_the_same_sum,
        (Edit(cells, "stride_of", "math.floor(SHARE", "math.floor(3.0 * SHARE"),
         *python("cell", "begin")),
    ),
    "a sum under Gaussian noise ends too soon": (
        lambda: check_sums("poisson", 3.0, 0.0, 6.0, (terms.GAUSSIAN,)),
        (Edit(cells, "gaussian_side", "if weight <= NEGLIGIBLE * total and",
              "if weight <= 1e-6 * total or"),
         *python("cell", "walk_counts")),
    ),
    "the wrong neighbour under Gaussian noise": (
        lambda: check_sums("negative-binomial", 40.0, 1.0, 6.0, (terms.GAUSSIAN,)),
        (Edit(cells, "gaussian_side", "(a + b * (x - 1.0))", "(a + b * x)"),
         *python("cell", "walk_counts")),
    ),
    "the factor of Gaussian noise does not shrink": (
        lambda: check_sums("binomial", 0.7, 50.0, 6.0, (terms.GAUSSIAN,)),
        (Edit(cells, "gaussian_side", "factor *= shrink", "factor *= 1.0"),
         *python("cell", "walk_counts")),
    ),
    "the noise left out": (
        sums_of(("binomial", 0.7, 50.0)),
        (Edit(cells, "walk_side", "ratio *= factor", "ratio *= 1.0"),
         *python("cell", "walk_counts")),
    ),
    "draws: the ratio of the wrong neighbour": (
        lambda: check_shares(SHARED[0]),
        (Edit(cells, "draw_outward", "growth(code, odds, size, up)",
              "growth(code, odds, size, up + 1.0)"),
         *python("draw_cell")),
    ),
    "draws: the start left out": (
        lambda: check_shares(SHARED[2]),
        (Edit(cells, "draw_outward", "uniform * total - 1.0", "uniform * total"),
         *python("draw_cell")),
    ),
    "draws: every stride in place of every count": (
        lambda: check_draws(DRAWN[1], 2, 4000),
        (Edit(cells, "draw_strides", "offset = math.floor(shifted)", "offset = 0.0"),
         *python("draw_cell", "draw_cells")),
    ),
    "a constant of Stirling's formula": (
        lambda: test_large_counts("binomial", 0.5, 3e6, 1000.0, 1_001_500.0),
        (Edit(cells, "log_factorial_step", "d + half", "d + 0.0"),
         *python("cell", "walk_strides", "log_smooth_weight")),
    ),
}  # fmt: skip


SLOW = ("the second hump is not looked for", "strides too long", "draws: the start left out")


@pytest.mark.parametrize("bug", all_but(SLOW, BUGS))
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_plain_python_without_the_bug_passes(bug):
    check, edits = BUGS[bug]
    with planted(*(same(edit.owner, edit.function) for edit in edits)):
        check()
