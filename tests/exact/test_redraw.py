"""All counts of parts drawn at once, against enumerated posteriors.

The posteriors are those of `test_parts`: tables of all possible records by the textbook, added up.
A draw within a box goes from link to link; here each link takes every way that it can, with the
probabilities of the package's own sums, so that the transition matrix P of a draw is exact: over
all boxes, |pi P - pi| <= 1e-12, and with a box of everything every row of P is pi. That the draws
of a link have these probabilities is checked apart.
"""

import functools
import itertools
import math
import os
import pickle
from collections import defaultdict

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.sparse.csgraph import connected_components

import noiseaware as na
from exact.test_counts import laplace
from exact.test_parts import PROBLEMS, SCALE, Problem
from later import only
from mutants.planting import Edit, planted, same
from noiseaware.counts import move as moves
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


def law_of(step, start):
    """Every table to which a step leads from one, with its probability."""
    law, waiting = {}, [()]
    while waiting:
        ways, counts = Ways(waiting.pop()), np.array(start)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redraw, "pick_one", ways.pick_one)
            patch.setattr(redraw, "draw_before", ways.draw_before)
            try:
                step(counts, Numbers(itertools.repeat(0.5)))
            except StopIteration:
                waiting += ways.next
                continue
        law[tuple(counts.tolist())] = ways.probability
    return law


def law_of_box(target, box, stride):
    """Every table that a draw can make, with its probability."""
    return law_of(
        lambda counts, rng: plain(redraw.draw_table)(target.table, counts, stride, box, rng),
        np.zeros(target.n, dtype=np.int64),
    )


def transition_matrix(made, stride, points):
    """P of a draw within a random box with so many points."""
    target, found = made.target, {}
    cells, classes = target.n, len(target.table.node_start) - 2 - target.n
    box = redraw.make_box(cells, classes, points)
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


def step_of_box(target, boxes, counts, rng):
    """Draw within a fixed box, and none that is random."""
    made = (target.density, target.table, target.slopes)
    plain(moves.redraw_all)(*made, counts, (None,) * 5, boxes, rng)


def check_fixed(name, points=2, places=6):
    """A step with a box that is fixed, wherever that is, and whatever is outside of it."""
    made, rng = BOXES[name](), np.random.default_rng([SEED, points])
    target, shares = made.target, []
    links = np.array([target.links(np.array(x)) for x in made.tables])
    for _ in range(places):
        centres = links[rng.choice(len(links), p=made.pi)] + rng.uniform(-1.0, 1.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(parts_module, "MOST_PRODUCTS", points**2 * links.shape[1])
            patch.setattr(parts_module, "WINDOW", 1)
            patch.setattr(moves, "draw_table", plain(redraw.draw_table))
            around = target.place(centres, np.array([points / parts_module.SPREADS]))
            fixed, free = target._make_boxes(around)
            assert (len(fixed.last), len(free.last)) == (points, 1)
            step = functools.partial(step_of_box, target, (fixed, redraw.make_box(0, 0, 0)))
            P = np.zeros((len(made.tables),) * 2)
            for here, x in enumerate(made.tables):
                for y, p in law_of(step, x).items():
                    P[here, made.number[y]] += p
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(made.pi @ P, made.pi, rtol=0, atol=1e-12)
        inside = ((links >= around.starts) & (links < around.starts + points)).all(axis=1)
        assert ((P > 0).sum(axis=1) == np.where(inside, inside.sum(), 1)).all()
        shares.append(inside.mean())
    assert min(shares) < max(shares) > 0.0


def check_whole(name):
    """A draw of everything is one of the posterior, wherever the chain is."""
    made = (PROBLEMS if name in PROBLEMS else BOXES)[name]()
    box, free = made.target.boxes(None)
    assert len(box.last) > len(free.last) == 0
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


@pytest.mark.parametrize(("name", "points"), [*((name, 2) for name in BOXES), ("unknown n", 3)])
def test_a_draw_within_a_fixed_box_leaves_the_posterior_invariant(name, points):
    check_fixed(name, points)


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
    "a draw from outside": (
        check_fixed, "small",
        [Edit(moves, "redraw_all", "if is_inside(table, counts, fixed):", "if True:")],
    ),
    "a window that is longer": (
        check_fixed, "small",
        [Edit(moves, "is_inside", "<= y - starts[c] < points", "<= y - starts[c] <= points")],
    ),
    "a window of m that is shorter": (
        check_fixed, "unknown n",
        [Edit(moves, "is_inside", "0 <= number - starts", "1 <= number - starts")],
    ),
    "a feature that is not looked at": (
        check_fixed, "small", [Edit(moves, "is_inside", "range(n_parts)", "range(1)")],
    ),
    "sizes that are elsewhere": (
        check_fixed, "small",
        [Edit(parts_module.PartsTarget, "_make_boxes", "self._ends[1] - 1]", "0]")],
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
    box = redraw.make_box(2, 0, 5)
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
    law = law_of_box(made.target, made.target.boxes(None)[0], 1)
    flat = made.target.tempered(0.0)
    other = law_of_box(flat, flat.boxes(None)[0], 1)
    assert max(abs(law[x] - p) for x, p in other.items()) > 0.01
    assert made.target.boxes(None) is made.target.boxes(None)


def test_rows_of_several_classes_are_left_to_lines():
    for name in ("margins", "both"):
        for box in PROBLEMS[name]().target.boxes(None):
            assert len(box.last) == 0


def test_with_many_records_boxes_are_random():
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [3, 2]), scale=2.0)
    release = na.Release(np.full(10, 2e7), mechanism, 10**8)
    fixed, free = make_target(na.models.NaiveBayes(2, [3, 2]), release).boxes(None)
    assert len(fixed.last) == 0
    assert len(free.last) == parts_module.WINDOW


def many_records(scale):
    mechanism = na.mechanisms.Gaussian(na.queries.ClassFeatureCounts(3, [2, 4]), scale=scale)
    model, rng = na.models.NaiveBayes(3, [2, 4], concentration=0.3), np.random.default_rng(2)
    records = model.sample_records(model.sample_prior(rng), 20_000, rng)
    return model, mechanism.privatize(records, rng)


def test_a_fixed_box_is_as_wide_as_it_should_be_or_there_is_none():
    target = make_target(*many_records(10.0))
    most, links = target._most_points, target.links(np.full(target.n, 100))
    assert target.place(links, 0.0 * links) is None
    assert target.place(links, 0.0 * links + most / 7.0) is None
    wide = target.place(links, 0.0 * links + most / 9.0)
    assert (wide.points, wide.enough) == (most, False)
    narrow = target.place(links, 0.0 * links + 4.0)
    assert (narrow.points, narrow.enough) == (64, True)
    assert (narrow.starts == np.maximum(0, links - 32)).all()
    assert target.place(links + 7.0, 0.0 * links + 4.0, narrow) is narrow
    assert target.place(links + 9.0, 0.0 * links + 4.0, narrow) is not narrow
    assert target.place(links, 0.0 * links + 5.5, narrow) is not narrow


def test_with_many_records_nearly_all_draws_are_independent():
    """In random boxes alone the bulk ESS of this call was 32, and R-hat 1.09."""
    posterior = na.sample(*many_records(40.0), random_seed=1, cores=1, progressbar=False)
    found = na.summary(posterior)
    assert found["r_hat"].max() < 1.01
    assert found["ess_bulk"].min() > 2000


def test_a_chain_that_is_cut_and_moved_to_another_process_has_the_same_draws():
    """All that it needs of its box is in its state; the sums are made again."""
    model, release = many_records(20.0)
    schedule, ends = na.sampler.chain.Schedule.make(200, 100, 0), []
    for segments in ([300], [150, 90, 60]):
        target = make_target(model, release)
        (move,) = na.sampler.default.default_moves(target)
        state = na.sampler.chain.start(target, [move], np.random.default_rng(SEED))
        for length in segments:
            state, target = pickle.loads(pickle.dumps(state)), make_target(model, release)
            state, _ = na.sampler.chain.advance(target, [move], schedule, state, length)
        assert state.tunings[0]["around"].points > parts_module.WINDOW
        ends.append((state.records, *state.theta.values()))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.full
@pytest.mark.parametrize("scale", [5.0, 30.0])
def test_a_fixed_box_and_random_ones_have_the_posterior_of_all_tables(scale, monkeypatch):
    """Means and squares of theta; each of 44 scores is compared with 6.5 (a false alarm: 4e-9).

    Windows have 400 points at the most, so that the larger noise asks for more than there are.
    """
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(3, [2, 4]), scale=scale)
    model, rng = na.models.NaiveBayes(3, [2, 4], concentration=0.3), np.random.default_rng(3)
    records = model.sample_records(model.sample_prior(rng), 1500, rng)
    release, found = mechanism.privatize(records, rng), []
    for products in (parts_module.MOST_PRODUCTS, 400**2 * 21):
        monkeypatch.setattr(parts_module, "MOST_PRODUCTS", products)
        drawn = na.sample(
            model, release, draws=10_000, chains=2, random_seed=SEED, cores=1, progressbar=False
        )["posterior"]
        names = [parameter.name for parameter in model.parameters]
        values = np.concatenate([drawn[name].values.reshape(2, 10_000, -1) for name in names], -1)
        both = np.concatenate([values, values**2], axis=-1)
        size = [
            float(array_stats.ess(column, method="mean")) for column in np.moveaxis(both, -1, 0)
        ]
        found.append((both.mean((0, 1)), both.std((0, 1)) / np.sqrt(size), min(size)))
    (mean, error, _), (other, other_error, least) = found
    assert least > 5000
    assert np.abs((mean - other) / np.hypot(error, other_error)).max() < 6.5
