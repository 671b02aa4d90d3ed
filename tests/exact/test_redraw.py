"""All counts of parts drawn at once, against enumerated posteriors.

The posteriors are those of `test_parts`: tables of all possible records by the textbook, added up.
A draw within a box goes from link to link; here each link takes every way that it can, with the
probabilities of the package's own sums, so that the transition matrix P of a draw is exact: over
all boxes, |pi P - pi| <= 1e-12, and with a box of everything every row of P is pi. That the draws
of a link have these probabilities is checked apart.
"""

import itertools
import math
import os
from collections import defaultdict

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import noiseaware as na
from exact.test_counts import laplace
from exact.test_parts import PROBLEMS, SCALE, Problem
from later import only
from mutants.planting import Edit, planted, same
from noiseaware.counts import parts as parts_module
from noiseaware.counts import redraw
from noiseaware.sampler.default import make_target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220621"))


def plain(function):
    return getattr(function, "py_func", function)


class Numbers:
    """A generator that gives these numbers."""

    def __init__(self, numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


def chances(logs):
    p = np.exp(logs - logs.max())
    return p / p.sum()


def link_chances(box, link, b):
    """Of each point of the window before a link to have led to point b."""
    size = len(box.last)
    return chances(box.ahead[link - 1] + box.steps[link][b + size - 1 - np.arange(size)])


class Ways:
    """Choices that are made as they are listed; at the next one, those that there are."""

    def __init__(self, listed):
        self.listed, self.left, self.probability, self.next = listed, list(listed), 1.0, None

    def choose(self, p):
        if not self.left:
            self.next = [(*self.listed, int(a)) for a in np.flatnonzero(p)]
            raise StopIteration
        self.probability *= p[self.left[0]]
        return self.left.pop(0)

    def pick_one(self, logs, _):
        return self.choose(chances(logs))

    def draw_before(self, box, link, b, _):
        return self.choose(link_chances(box, link, b))


def law_of_box(target, box, stride):
    """Every table that a draw can make, with its probability."""
    law, waiting = {}, [()]
    while waiting:
        ways, counts = Ways(waiting.pop()), np.zeros(target.n, dtype=np.int64)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redraw, "pick_one", ways.pick_one)
            patch.setattr(redraw, "draw_before", ways.draw_before)
            rng = Numbers(itertools.repeat(0.5))
            try:
                plain(redraw.draw_table)(target.table, counts, stride, box, rng)
            except StopIteration:
                waiting += ways.next
                continue
        law[tuple(counts.tolist())] = ways.probability
    return law


def transition_matrix(made, stride, points):
    """P of a draw within a random box with so many points."""
    target, found = made.target, {}
    cells, classes = target.n, len(target.table.node_start) - 2 - target.n
    box = redraw.make_box(cells, classes, points, False)
    windows = classes + classes + sum(j - 1 for j in made.levels[1:]) * classes
    P = np.zeros((len(made.tables),) * 2)
    for here, x in enumerate(made.tables):
        for where in itertools.product((np.arange(points) + 0.5) / points, repeat=windows):
            counts = np.array(x)
            n = plain(redraw.place_windows)(target.table, counts, stride, box, Numbers(where))
            key = (*box.starts.tolist(), *box.sizes.tolist())
            if key not in found:
                redraw.add_up_box(target.density, target.table, target.slopes, n, stride, box)
                law = law_of_box(target, box, stride)
                found[key] = [(made.number[y], p) for y, p in law.items()]
            for there, p in found[key]:
                P[here, there] += p / points**windows
    return P


def check_box(name, stride=1, points=2, connected=True):
    made = BOXES[name]()
    P = transition_matrix(made, stride, points)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(made.pi @ P, made.pi, rtol=0, atol=1e-12)
    assert np.diag(P).min() > 0.0
    assert not connected or connected_components(P > 0, connection="strong")[0] == 1


def check_whole(name):
    """A draw of everything is one of the posterior, wherever the chain is."""
    made = (PROBLEMS if name in PROBLEMS else BOXES)[name]()
    box = made.target.box()
    assert box.whole
    law = defaultdict(float, law_of_box(made.target, box, 1))
    found = np.array([law.pop(x) for x in made.tables])
    assert not law
    np.testing.assert_allclose(found, made.pi, rtol=0, atol=1e-12)


def _held():
    """Theta held: f(x | theta) g summed over databases."""
    made = Problem((2, 2, 2), 2)
    theta = made.model.sample_prior(np.random.default_rng(SEED))
    cells = np.array(list(itertools.product(range(2), repeat=3)))
    logs, query = made.model.log_likelihood(theta, cells), made.target.release.query
    log_noise, weights = laplace(made.target.values, SCALE), np.zeros(len(made.tables))
    for x in itertools.product(range(8), repeat=2):
        table = tuple(made.target.hold(cells[list(x)]).tolist())
        total = query.statistic(cells[list(x)]).sum(axis=0)
        weights[made.number[table]] += math.exp(logs[list(x)].sum() + log_noise(total))
    made.pi, made.target = weights / weights.sum(), made.target.given(theta)
    return made


BOXES = {
    "small": lambda: Problem((2, 2, 2), 2),
    "one feature": lambda: Problem((2, 3), 2),
    "unknown n": lambda: Problem((2, 2), 3, size=na.sizes.LogPmf(lambda n: -0.3 * n, 1, 3)),
    "theta held": _held,
}


@pytest.mark.parametrize("name", only(["one feature", "unknown n"], BOXES))
def test_a_draw_within_a_random_box_leaves_the_posterior_invariant(name):
    check_box(name)


@pytest.mark.parametrize(("stride", "points"), only([(2, 2)], [(2, 2), (1, 3)]))
def test_so_it_does_with_other_windows(stride, points):
    check_box("unknown n", stride, points, connected=stride == 1)


SEEN_ONE_BY_ONE = [name for name in PROBLEMS if name not in ("margins", "both")]


@pytest.mark.parametrize("name", [*SEEN_ONE_BY_ONE, "theta held"])
def test_a_draw_of_everything_is_one_of_the_posterior(name):
    check_whole(name)


INSIDE = [
    same(parts_module, "add_up_box"),  # where a box of everything is made
    *(same(redraw, name) for name in ("add_up_class", "carry", "fill_values", "fill_number")),
]


def inside(function, old, new):
    """An edit of what is compiled into others, which run as plain Python too."""
    return [Edit(redraw, function, old, new), *(e for e in INSIDE if e.function != function)]


BUGS = {
    "a window that begins where it is": (
        check_box, "one feature",
        [Edit(redraw, "place_windows", "sizes[i] = y - int(rng.random() * points) * stride",
              "sizes[i] = y + 0 * int(rng.random())")],
    ),
    "a window of m that begins where it is": (
        check_box, "unknown n",
        [Edit(redraw, "place_windows", "= number - int(rng.random() * points) * stride",
              "= number + 0 * int(rng.random())")],
    ),
    "a class without its rows": (
        check_whole, "three classes",
        inside("add_up_class", "n_cells + i, box.sizes[i]", "n_cells + 1 + i, box.sizes[i]"),
    ),
    "a feature left out": (
        check_whole, "two features",
        inside("add_up_class", "range(ends.shape[0] - 1)", "range(1)"),
    ),
    "noise of another power": (
        check_whole, "two features", inside("fill_values", "density.power", "0.5"),
    ),
    "steps one too far": (
        check_whole, "one feature", inside("carry", "steps[b + reach]", "steps[b + reach - 1]"),
    ),
    "no prior of n": (
        check_whole, "unknown n", inside("fill_number", "+= logs[", "+= 0.0 * logs["),
    ),
    "rows of no number": (
        check_whole, "two features",
        [Edit(parts_module, "nodes_of", "if len(cells) == 1:", "if len(cells) == 0:")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    check, name, edits = BUGS[bug]
    with planted(*edits), pytest.raises((AssertionError, KeyError, IndexError)):
        check(name)


# ------------------------------------------------------------------ one link


def random_box(rng, far):
    """Two links, the sums of which may be below the smallest double."""
    box = redraw.make_box(2, 0, 5, False)
    box.ahead[0], box.steps[1] = -far * rng.random(5), -far * rng.random(9)
    box.steps[1, : rng.integers(3)] = -np.inf
    box.lowest[1] = np.flatnonzero(box.steps[1] > -np.inf)[0]
    if far > 700:
        box.ahead[0] = [0.0, *(-far * (1 + rng.random(4)))]  # and what follows 0 is impossible
        box.steps[1, 4:] = -far * (1 + rng.random(5))
    redraw.carry(box, 1)
    return box


def check_link(far):
    rng = np.random.default_rng([SEED, int(far)])
    for _ in range(30):
        box = random_box(rng, far)
        for b in range(5):
            logs = box.ahead[0] + box.steps[1][b + 4 - np.arange(5)]
            expected = np.logaddexp.reduce(logs)
            assert abs(box.ahead[1, b] - expected) <= 1e-12 * max(1.0, abs(expected))
            ends = np.cumsum(link_chances(box, 1, b))
            for uniform in rng.random(20):
                if np.abs(ends - uniform).min() > 1e-9:
                    drawn = redraw.draw_before(box, 1, b, uniform)
                    assert drawn == np.searchsorted(ends, uniform)


@pytest.mark.parametrize("far", [2.0, 300.0, 2000.0])
def test_a_link_is_drawn_by_its_sums(far):
    check_link(far)


LINK_BUGS = {
    "sums that vanish": Edit(redraw, "carry", "if after[b] > VANISHED:", "if after[b] >= 0.0:"),
    "a draw from the other end": Edit(
        redraw, "draw_before", "uniform * total", "(1.0 - uniform) * total"
    ),
    "draws that vanish": Edit(redraw, "draw_before", "total <= VANISHED", "total < 0.0"),
}  # fmt: skip


@pytest.mark.parametrize("bug", LINK_BUGS)
def test_a_planted_bug_of_a_link_is_caught(bug):
    with planted(LINK_BUGS[bug]), pytest.raises((AssertionError, ValueError)):
        check_link(2000.0 if "vanish" in bug else 2.0)


# ------------------------------------------------------------------ which targets


def test_the_sums_of_a_tempered_target_are_its_own():
    made = Problem((2, 2, 2), 2)
    law = law_of_box(made.target, made.target.box(), 1)
    flat = made.target.tempered(0.0)
    other = law_of_box(flat, flat.box(), 1)
    assert max(abs(law[x] - p) for x, p in other.items()) > 0.01
    assert made.target.box() is made.target.box()


def test_rows_of_several_classes_are_left_to_lines():
    for name in ("margins", "both"):
        assert len(PROBLEMS[name]().target.box().last) == 0


def test_with_many_records_boxes_are_random():
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [3, 2]), scale=2.0)
    release = na.Release(np.full(10, 2e7), mechanism, 10**8)
    box = make_target(na.models.NaiveBayes(2, [3, 2]), release).box()
    assert not box.whole
    assert len(box.last) == parts_module.WINDOW
