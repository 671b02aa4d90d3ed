"""Coefficients that follow the counts, against densities by SciPy and against simulation.

Two checks. *Each window*: at every draw on a line, for each k in the window, log w(k) is the log of

    N(b(k); mu, 1 / w)  prod_c Poisson(x_c + k d_c; m_c(k))  g(s_dp, T(x + k d)),
    b(k) = b + A [l(x + k d) - l(x)],        log m(k) = D b(k),

up to one constant, with A and D as dense matrices; where it goes, b is b(k), the log means are D b,
and the room is empty again.

*Simulation*: b, x and s_dp from the model itself, a few iterations given that s_dp, and b, x and
s_dp still have the law of the model: b that of the prior, x that of Poisson counts given b, and the
noise its own. Where the number of records is known, b and x are those among many that have it, and
b is compared with others of these. m p-values are compared with 1e-6 / m: a false-alarm rate of at
most 1e-6.
"""

import os
import pickle

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from later import only
from mutants.planting import Edit, planted, same
from noiseaware.counts import following
from noiseaware.counts import move as moves
from noiseaware.counts.target import CountTarget
from noiseaware.sampler.state import ChainState

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220605"))
FALSE_ALARM = 1e-6
SCALE, AROUND = 4.0, 50.0

MODELS = {
    "log-normal": na.models.LogNormalTable(3, log_mean=1.2, log_sd=0.4),
    "log-linear": na.models.LogLinearTable(
        [2, 3], [], intercept_mean=1.0, intercept_sd=0.5, effect_sd=0.3
    ),
    "interaction": na.models.LogLinearTable(
        [2, 2, 2], [[0, 1]], intercept_mean=0.5, intercept_sd=0.4, effect_sd=0.5
    ),
}
QUERIES = {
    "log-normal": na.queries.Linear.sums(["all"] * 3, range(3)),
    "log-linear": na.queries.Margins([2, 3], [[0], [1]]),
    "interaction": na.queries.Margins([2, 2, 2], [[0, 1], [2]]),
}
KNOWN = {"log-normal": 11, "log-linear": 18, "interaction": 14}
SUMS = {name: query.statistic(MODELS[name].record_values).T for name, query in QUERIES.items()}


def make(name, values, n):
    """The target, and how b follows: further than is best, so that its prior matters."""
    release = na.Release(values, na.mechanisms.Gaussian(QUERIES[name], scale=SCALE), n)
    target = CountTarget(MODELS[name], release)
    given = target.abilities.log_linear
    return target, given, following.follow_around(given, AROUND + np.arange(target.n))


def simulate(name, n, rng):
    """b, x with the number of records n if that is known, and what is released of them."""
    given = MODELS[name].log_linear
    while True:
        b = given.centres + rng.standard_normal(len(given.centres)) / np.sqrt(given.precisions)
        x = rng.poisson(np.exp(given.design @ b))
        if n is None or x.sum() == n:
            total = SUMS[name] @ x
            return b, x, total + SCALE * rng.standard_normal(len(total))


# ------------------------------------------------------------------ each window


class Windows:
    """Takes the place of functions of `counts.move`, and looks at what is given to them."""

    def __init__(self, name, target, given, slopes, largest):
        self.dense, self.given, self.slopes = given.design.toarray(), given, slopes
        self.sums, self.values, self.largest = SUMS[name], target.values, largest
        weighted = self.dense.T * (AROUND + 0.5 + np.arange(target.n))
        self.matrix = np.linalg.solve(weighted @ self.dense + np.diag(given.precisions), weighted)
        self.fill, self.pick, self.windows, self.cut = moves.fill_window, moves.pick_one, 0, 0

    def log_density(self, x, b):
        logs = self.dense @ b
        if x.min() < 0 or logs.max() > self.largest:
            return -np.inf
        scale = 1.0 / np.sqrt(self.given.precisions)
        value = stats.norm.logpdf(b, self.given.centres, scale).sum()
        value += stats.norm.logpdf(self.values, self.sums @ x, SCALE).sum()
        return value + stats.poisson.logpmf(x, np.exp(logs)).sum()

    def there(self, k):
        """Where k steps on the present line lead, x and b."""
        x = self.counts.copy()
        x[self.cells] += k * self.steps
        logs = np.log(np.maximum(x, 0) + 0.5) - np.log(self.counts + 0.5)
        return x, self.b + self.matrix @ logs

    def fill_window(self, density, table, slopes, counts, sums, line, where, window):
        self.cells, self.steps = line[0][: line[2]].copy(), line[1][: line[2]].copy()
        self.counts, self.first, self.stride = counts.copy(), *where[2:]
        self.fill(density, table, slopes, counts, sums, line, where, window)

    def pick_one(self, window, uniform):
        points = self.first + self.stride * np.arange(len(window))
        points = points[points <= moves.FURTHEST]
        assert (window[len(points) :] == -np.inf).all()
        expected = np.array([self.log_density(*self.there(k)) for k in points])
        possible = expected > -np.inf
        assert (possible == (window[: len(points)] > -np.inf)).all()
        off = window[: len(points)][possible] - expected[possible]
        assert np.ptp(off) < 1e-9 * np.abs(expected[possible]).max()
        self.windows += 1
        self.cut += sum((self.there(k)[0] >= 0).all() for k in points) - possible.sum()
        chosen = self.pick(window, uniform)
        self.b = self.there(points[chosen])[1]
        return chosen


def check_windows(name, known, largest=np.inf, steps=60):
    rng, n = np.random.default_rng([SEED, 1]), KNOWN[name] if known else None
    b, x, values = simulate(name, n, rng)
    target, given, follows = make(name, values, n)
    slopes = np.ascontiguousarray(given.design @ b)
    largest = min(given.largest, slopes.max() + largest)
    follows = follows._replace(b=b.copy(), chance=1.0, largest=largest)
    looked = Windows(name, target, given, slopes, largest)
    looked.b = b.copy()
    sums, tree = np.empty(len(target.table.fixed)), np.empty(target.n + 1, np.int64)
    moves.add_up(target.table, x, sums)
    moves.fill_tree(x, tree)
    used, seen = np.ones((moves.LEVELS,) * 2), moves._nothing_seen(target)
    chances = moves._chances(target, np.ones(target.table.kinds))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("count_steps", "move_on_line"):
            compiled = getattr(moves, name)
            patch.setattr(moves, name, getattr(compiled, "py_func", compiled))
        patch.setattr(moves, "fill_window", looked.fill_window)
        patch.setattr(moves, "pick_one", looked.pick_one)
        moves.count_steps(
            *(target.density, target.table, slopes, x, sums, tree, (used, chances, *seen)),
            *(follows, steps, moves.make_room(target.table), rng),
        )
    np.testing.assert_allclose(follows.b, looked.b, atol=1e-10)
    np.testing.assert_allclose(slopes, given.design @ looked.b, atol=1e-10)
    for room in (follows.shift, follows.log_shift, follows.ahead):
        assert not room.any()
    return looked


CASES = [(name, known) for name in MODELS for known in (False, True)]


@pytest.mark.parametrize(("name", "known"), CASES)
def test_windows_are_of_the_joint_density_where_b_follows(name, known):
    looked = check_windows(name, known)
    assert looked.windows > 20


def test_no_log_mean_goes_beyond_the_largest():
    assert check_windows("log-linear", False, largest=0.05).cut > 5


# ------------------------------------------------------------------ simulation


def p_values_of(name, known, n_draws, iterations):
    """Of b, of x given b and of the noise, after some iterations given s_dp."""
    rng, n = np.random.default_rng([SEED, 2]), KNOWN[name] if known else None
    move, given, made = na.moves.CountMove(follow=True), MODELS[name].log_linear, []
    for _ in range(n_draws):
        b, x, values = simulate(name, n, rng)
        target, _, follows = make(name, values, n)
        state = ChainState(MODELS[name]._theta(b), x, None, rng)
        tuning = {**move.start(target, state), "following": follows._replace(chance=1.0)}
        for _ in range(iterations):
            move.step(target, state, tuning)
        made.append((target.coordinates.to_vector(state.theta), state.records, values))
    b, x, values = (np.array(part) for part in zip(*made, strict=True))
    means = np.exp(b @ given.design.T.toarray())
    tested = list(((values - x @ SUMS[name].T) / SCALE).T)
    if known:  # each count is binomial, of those that the cells before it have left
        others = np.transpose([simulate(name, n, rng)[0] for _ in range(n_draws)])
        p_values = [stats.ks_2samp(*pair).pvalue for pair in zip(b.T, others, strict=True)]
        left, total = (np.cumsum(each[:, ::-1], axis=1)[:, ::-1] for each in (x, means))
        law = stats.binom(left[:, :-1], (means / total)[:, :-1])
        x = x[:, :-1]
    else:
        p_values, law = [], stats.poisson(means)
        tested += list(((b - given.centres) * np.sqrt(given.precisions)).T)
    places = law.cdf(x - 1) + rng.random(x.shape) * law.pmf(x)
    tested += list(stats.norm.ppf(places).T)
    return p_values + [stats.kstest(column, "norm").pvalue for column in tested]


def check_simulation(name, known, n_draws, iterations=20):
    p_values = p_values_of(name, known, n_draws, iterations)
    assert min(p_values) > FALSE_ALARM / len(p_values), p_values


@pytest.mark.parametrize(("name", "known"), only([("log-linear", False)], CASES))
@pytest.mark.parametrize("n_draws", only([400], [400, 4000]))
def test_b_that_follows_leaves_the_joint_law_invariant(name, known, n_draws):
    check_simulation(name, known, n_draws)


# ------------------------------------------------------------------ planted bugs

PRIOR = "value -= following.precisions[i] * change * (off + 0.5 * change)"
ALONE = "if following.ahead[i] == 0:\n                following.log_shift[i] = change = 0.0"
BUGS = {
    "no prior": Edit(moves, "log_change", PRIOR, "pass"),
    "no half of the change": Edit(moves, "log_change", "off + 0.5 * change", "off"),
    "the whole of the change": Edit(moves, "log_change", "0.5 * change", "change"),
    "a prior around 0": Edit(moves, "log_change", "- following.centres[i]", "- 0.0"),
    "no cells beside the line": Edit(
        moves, "log_change", "x = counts[i]", f"{ALONE}\n            x = counts[i]"
    ),
    "counts of before": Edit(moves, "log_change", "counts[i] + following.ahead[i]", "counts[i]"),
    "no means": Edit(moves, "log_change", "math.exp(slopes[i]) * math.expm1(change)", "0.0"),
    "no counts": Edit(moves, "log_change", "x * change -", "-"),
    "shifts that stay": Edit(moves, "log_change", "following.shift[i] = 0.0", "pass"),
    "shifts of logs that stay": Edit(moves, "log_change", "following.log_shift[i] = 0.0", "pass"),
    "steps that stay": Edit(moves, "log_change", "following.ahead[line[0][j]] = 0", "pass"),
    "b that stays": Edit(moves, "go_along", "following.b[i] += following.shift[i]", "pass"),
    "means that stay": Edit(moves, "go_along", "slopes[i] += following.log_shift[i]", "pass"),
    "shifts that stay with a step": Edit(moves, "go_along", "following.shift[i] = 0.0", "pass"),
    "b the other way": Edit(following, "follow", "shift[following.row[e]] +=",
                            "shift[following.row[e]] -="),
    "means the other way": Edit(following, "follow", "log_row[e]] +=", "log_row[e]] -="),
    "another l": Edit(following, "follow", "/ (counts[c] + 0.5)", "/ (counts[c] + 1.0)"),
}  # fmt: skip
INSIDE = [
    *(same(moves, name) for name in ("iterate_counts", "count_steps", "move_on_line")),
    *(same(moves, name) for name in ("log_change", "go_along")),
]


def bug(name):
    """The edit, with all that it is compiled into as plain Python."""
    edit = BUGS[name]
    return [edit, *(other for other in INSIDE if other.function != edit.function)]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_seen_in_a_window(name):
    with planted(*bug(name)), pytest.raises(AssertionError):
        check_windows("log-linear", False)


@pytest.mark.full
@pytest.mark.parametrize("name", ["no prior", "b the other way"])
def test_a_planted_bug_is_seen_in_simulations(name):
    with planted(*bug(name)), pytest.raises(AssertionError):
        check_simulation("log-linear", False, 300, iterations=4)


def test_a_step_leaves_its_tuning_as_it_is():
    rng = np.random.default_rng([SEED, 3])
    b, x, values = simulate("log-linear", None, rng)
    target, _, follows = make("log-linear", values, None)
    state = ChainState(MODELS["log-linear"]._theta(b), x, None, rng)
    move = na.moves.CountMove(follow=True)
    tuning = {**move.start(target, state), "following": follows, "seen": ()}
    before = pickle.dumps(tuning)
    move.step(target, state, tuning)
    assert pickle.dumps(tuning) == before


def test_no_limit_of_the_log_means_is_seen():
    edit = Edit(moves, "log_change", "slopes[i] + change > following.largest", "False")
    with planted(edit), pytest.raises(AssertionError):
        check_windows("log-linear", False, largest=0.05)
