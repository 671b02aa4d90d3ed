"""The example moves of records, in examples/moves: `FullConditional`, `CrankNicolson` and `Soma`.

For finite records the posterior is enumerated in plain Python and the transition matrix is read
off the moves' own code, by finding the uniform numbers at which its decisions change: pi P = pi to
1e-12. `CrankNicolson` is compared with the full Metropolis-Hastings ratio and with a posterior
that is known. All three go through Geweke's test, in `make validate`. Each kind of check is shown
to catch a planted bug. Statistical tests have a false-alarm rate of 1e-6 or less and fixed seeds
(NOISEAWARE_TEST_SEED changes them).
"""

import math
import os

import numpy as np
import pytest
from examples.moves import crank_nicolson, full_conditional, soma
from examples.moves.crank_nicolson import CrankNicolson
from examples.moves.full_conditional import FullConditional
from examples.moves.soma import Soma
from scipy import stats

import noiseaware as na
from exact.enumeration import TOLERANCE, Problem, Scripted
from later import only
from noiseaware.basics.adapt import StepSize
from noiseaware.sampler import chain
from noiseaware.sampler.moves.parameters import ParameterUpdate
from noiseaware.sampler.moves.transport import Transport
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20250501"))
FALSE_ALARM = 1e-6


# ------------------------------------------------------------------ tiny finite databases


def laplace(values, scale):
    return lambda total: -sum(abs(s - x) for s, x in zip(values, total, strict=True)) / scale


def gaussian(values, scale):
    return lambda total: (
        -sum((s - x) ** 2 for s, x in zip(values, total, strict=True)) / (2 * scale**2)
    )


def bernoulli(mechanism, values, n, t, log_g):
    release = na.Release(values, mechanism, n)
    theta = {"probability": np.array(0.3)}
    return Problem(na.models.Bernoulli(), release, theta, np.array([0, 1]), (0.7, 0.3), t, log_g)


def count():
    """Cells, of which a zero is in none."""
    mechanism = na.mechanisms.Laplace(na.queries.Count(), scale=0.6)
    return bernoulli(mechanism, [2.7], 3, lambda i, x: (float(x == 1),), laplace([2.7], 0.6))


def dense():
    """A dense statistic of two coordinates."""
    query = na.Query(
        lambda x: np.column_stack([x, 0.7 - 0.5 * x]), ["a", "b"], sensitivity={1: 1.5, 2: 1.2}
    )
    values = [2.2, -0.4]
    mechanism = na.mechanisms.Gaussian(query, scale=0.5)
    return bernoulli(
        mechanism, values, 3, lambda i, x: (float(x), 0.7 - 0.5 * float(x)), gaussian(values, 0.5)
    )


class Twice:
    """A query whose ones are counted twice, by listing one cell two times."""

    names = ("twice",)
    integer_valued = True

    def statistic(self, records):
        return 2.0 * np.asarray(records, dtype=float).reshape(-1, 1)

    def cells(self, records):
        cell = np.asarray(records, dtype=np.int64).reshape(-1, 1) - 1
        return np.concatenate([cell, cell], axis=1)

    def sensitivity(self, norm=1, neighbours="change"):
        return 2.0

    def check_records(self, records):
        pass


def twice():
    mechanism = na.mechanisms.Gaussian(Twice(), scale=1.1)
    return bernoulli(mechanism, [4.3], 3, lambda i, x: (2.0 * x,), gaussian([4.3], 1.1))


class Indexed(na.mechanisms.Laplace):
    """A mechanism in which record i counts 1 + i times."""

    def statistic(self, records, index, values):
        return (np.asarray(records) * (1.0 + index)).reshape(-1, 1)


def indexed():
    mechanism = Indexed(na.queries.Count(), scale=1.3)
    return bernoulli(mechanism, [4.6], 3, lambda i, x: (x * (1.0 + i),), laplace([4.6], 1.3))


def levels():
    """Three levels, each with a cell."""
    values, f = [0.4, 1.9, -0.3], (0.5, 0.2, 0.3)
    mechanism = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), scale=0.8)
    return Problem(
        na.models.Categorical(3),
        na.Release(values, mechanism, 2),
        {"probabilities": np.array(f)},
        np.arange(3),
        f,
        lambda i, x: tuple(float(x == j) for j in range(3)),
        laplace(values, 0.8),
    )


def classes():
    """A class and a feature: records of two entries, in one cell of four."""
    values, by_class, by_feature = [0.2, 1.6, 0.9, -0.5], (0.4, 0.6), ((0.1, 0.9), (0.75, 0.25))
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [2]), scale=0.7)
    return Problem(
        na.models.NaiveBayes(2, [2]),
        na.Release(values, mechanism, 2),
        {
            "class_probabilities": np.array(by_class),
            "feature_probabilities": np.array(by_feature)[:, np.newaxis],
        },
        np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
        tuple(by_class[y] * by_feature[y][x] for y in (0, 1) for x in (0, 1)),
        lambda i, x: tuple(float(2 * x[0] + x[1] == c) for c in range(4)),
        laplace(values, 0.7),
    )


PROBLEMS = [count, dense, twice, levels, classes]


def outcomes(run, size, before=()):
    """Yield (probability, decisions) for every outcome of decisions made with uniform numbers.

    `run(uniforms)` returns `size` integers; the j-th must not decrease in the j-th uniform number
    and must not look at later ones. The numbers at which it changes are found by bisection.
    """
    j = len(before)
    if j == size:
        yield 1.0, run(before)
        return

    def label(u):
        return run((*before, u, *[0.5] * (size - j - 1)))[j]

    last, begin = label(1.0 - 2.0**-53), 0.0
    while begin < 1.0:
        here = label(begin)
        end, inside = 1.0, begin
        while here != last and end - inside > 1e-16 * end:
            middle = 0.5 * (inside + end)
            if middle in (inside, end):
                break
            inside, end = (middle, end) if label(middle) == here else (inside, middle)
        for probability, decided in outcomes(run, size, (*before, 0.5 * (begin + end))):
            yield (end - begin) * probability, decided
        begin = end


def check_matrix(problem, matrix):
    pi = problem.posterior
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
    # The identity matrix would pass too.
    assert np.linalg.matrix_rank(matrix - np.eye(len(pi))) == len(pi) - 1


def positions(problem, records):
    """Which of the problem's values each record is."""
    return tuple(
        int(np.flatnonzero([np.array_equal(record, value) for value in problem.values])[0])
        for record in records
    )


# ------------------------------------------------------------------ the full conditional


def full_conditional_matrix(problem):
    """The transition matrix of `FullConditional.step`, a sweep over all records."""
    target, move = Target(problem.model, problem.release), FullConditional()
    move.check(target)
    matrix = np.zeros((len(problem.databases),) * 2)
    for a, database in enumerate(problem.databases):

        def run(uniforms, database=database):
            state = problem.state(database, Scripted(random=[uniforms]))
            (changed,) = move.step(target, state, move.start(target, state))
            after = positions(problem, state.records)
            assert changed == np.mean(np.array(after) != np.array(database))
            return after

        for probability, after in outcomes(run, problem.n):
            matrix[a, problem.number[after]] += probability
    return matrix


@pytest.mark.parametrize("make", only([count, dense, indexed], [*PROBLEMS, indexed]))
def test_full_conditional_leaves_the_posterior_invariant(make):
    problem = make()
    matrix = full_conditional_matrix(problem)
    check_matrix(problem, matrix)
    if make in (count, dense):
        check_first_record(problem, matrix)


def check_first_record(problem, matrix):
    """From any x, the first record's new value has p(x_1 | x_-1), by enumeration."""
    joint = problem.posterior.reshape(2, -1)
    conditional = joint[1] / joint.sum(axis=0)
    for a, database in enumerate(problem.databases):
        by_first = matrix[a].reshape(2, -1).sum(axis=1)
        rest = problem.number[(0, *database[1:])]
        assert by_first[1] == pytest.approx(conditional[rest], abs=TOLERANCE)


def without_likelihood(monkeypatch):
    """f is left out of the weights."""
    right = full_conditional.draw_cells

    def wrong(density, total, current, log_likelihood, *rest):
        right(density, total, current, np.zeros_like(log_likelihood), *rest)

    monkeypatch.setattr(full_conditional, "draw_cells", wrong)


def with_the_record_counted_twice(monkeypatch):
    """The record's old value stays in the total against which the new one is weighed."""
    right = full_conditional.draw_cells

    def wrong(density, total, current, *rest):
        right(density, total, np.full_like(current, -1), *rest)

    monkeypatch.setattr(full_conditional, "draw_cells", wrong)


@pytest.mark.parametrize("bug", [without_likelihood, with_the_record_counted_twice])
def test_a_wrong_full_conditional_is_caught(monkeypatch, bug):
    bug(monkeypatch)
    problem = count()
    with pytest.raises(AssertionError):
        check_matrix(problem, full_conditional_matrix(problem))


@pytest.mark.parametrize("make", [count, dense, indexed, classes])
def test_full_conditional_in_chunks(monkeypatch, make):
    problem = make()
    target, move = Target(problem.model, problem.release), FullConditional()
    ends = []
    for chunk in (4096, 2):
        monkeypatch.setattr(full_conditional, "CHUNK", chunk)
        state = problem.state(problem.databases[1], np.random.default_rng(SEED))
        tuning = move.start(target, state)
        ends.append([(move.step(target, state, tuning), state.records.copy()) for _ in range(50)])
    for (changed, records), (changed_too, records_too) in zip(*ends, strict=True):
        assert changed == changed_too
        np.testing.assert_array_equal(records, records_too)


def test_full_conditional_never_draws_what_cannot_be():
    """A value of probability 0, and log g so far down that exp underflows."""
    model = na.models.Categorical(3)
    mechanism = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), scale=1e-4)
    release = na.Release([0, 40, 10], mechanism, 50)
    target, move = Target(model, release), FullConditional()
    theta = {"probabilities": np.array([0.0, 0.5, 0.5])}
    state = ChainState(theta, np.repeat([1, 2], 25), None, np.random.default_rng(SEED))
    tuning = move.start(target, state)
    for _ in range(3):
        move.step(target, state, tuning)
    np.testing.assert_array_equal(np.bincount(state.records, minlength=3), [0, 40, 10])


def test_full_conditional_says_what_it_needs():
    move = FullConditional()
    rng = np.random.default_rng(SEED)

    def target(model, query, **change):
        for name, value in change.items():
            setattr(model, name, value)
        records = model.sample_records(model.sample_prior(rng), 5, rng)
        return Target(model, na.mechanisms.Laplace(query, epsilon=1.0).privatize(records, rng))

    with pytest.raises(ValueError, match="Normal has none"):
        move.check(target(na.models.Normal(), na.queries.Sum(0, 1)))
    large = na.models.NaiveBayes(5, [3] * 5)
    assert large.record_values is None
    with pytest.raises(ValueError, match="listed in its record_values; NaiveBayes has none"):
        move.check(target(large, na.queries.ClassFeatureCounts(5, [3] * 5)))
    with pytest.raises(ValueError, match="each possible record once"):
        move.check(target(na.models.Bernoulli(), na.queries.Count(), record_values=[0, 1, 1]))
    with pytest.raises(ValueError, match=r"\(m, \.\.\.\)"):
        move.check(target(na.models.Bernoulli(), na.queries.Count(), record_values=[]))
    wrong = target(na.models.Bernoulli(), na.queries.Count(), record_values=[[0], [1]])
    with pytest.raises(ValueError, match=r"got \(2, 1\)"):
        chain.start(wrong, [move], rng)


@pytest.mark.parametrize(
    "model", [na.models.Bernoulli(), na.models.Categorical(4), na.models.NaiveBayes(3, [2, 4])]
)
def test_record_values_are_all_the_records(model):
    values = model.record_values
    model.check_records(values)
    assert len(np.unique(values.reshape(len(values), -1), axis=0)) == len(values)
    theta = model.sample_prior(np.random.default_rng(SEED))
    assert np.exp(model.log_likelihood(theta, values)).sum() == pytest.approx(1.0, abs=1e-12)


# ------------------------------------------------------------------ one offer for all slots


def soma_matrix(problem, slots, each):
    """The transition matrix of all offers of a step, read off the kernel that makes them."""
    target = Target(problem.model, problem.release)
    offer = soma.offer_cells if target.uses_cells else soma.offer_dense
    n_offers = each * -(-problem.n // slots)
    choices = list(np.ndindex(*[len(problem.values)] * n_offers))
    matrix = np.zeros((len(problem.databases),) * 2)
    for a, database in enumerate(problem.databases):
        records = np.ascontiguousarray(problem.values[list(database)])
        for offered in choices:
            statistic = target.statistic(np.ascontiguousarray(problem.values[list(offered)]), 0)

            def run(uniforms, records=records, statistic=statistic):
                taken = np.empty(len(uniforms), dtype=np.int64)
                current = target.statistic(records, 0)
                total = target.sum(current)
                uniforms = np.array(uniforms)
                offer(target.terms, total, current, statistic, slots, each, uniforms, taken)
                assert np.abs(total - target.sum(current)).max() < TOLERANCE
                return tuple(problem.n if slot < 0 else int(slot) for slot in taken)

            chance = math.prod(problem.f[value] for value in offered)
            for probability, taken in outcomes(run, n_offers):
                after = database
                for slot, value in zip(taken, offered, strict=True):
                    if slot < problem.n:
                        after = problem.changed(after, slot, value)
                matrix[a, problem.number[after]] += chance * probability
    return matrix


@pytest.mark.parametrize("make", PROBLEMS)
def test_soma_leaves_the_posterior_invariant(make):
    problem = make()
    matrix = soma_matrix(problem, problem.n, 1)
    check_matrix(problem, matrix)
    flow = problem.posterior[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("make", only([count], [count, dense]))
@pytest.mark.parametrize(("slots", "each"), only([(2, 1), (1, 1)], [(2, 1), (1, 1), (3, 2)]))
def test_soma_in_groups_leaves_the_posterior_invariant(make, slots, each):
    problem = make()
    check_matrix(problem, soma_matrix(problem, slots, each))


def test_soma_with_one_slot_is_algorithm_1():
    weights, probabilities = np.array([-1.3]), np.empty(1)
    for log_ratio in (-1.3, 0.0, 2.0, -1000.0, 1000.0):
        weights[0] = log_ratio
        soma.slot_probabilities(weights, 1, probabilities)
        assert probabilities[0] == pytest.approx(math.exp(min(0.0, log_ratio)), rel=1e-14)


def without_reverse_normaliser(monkeypatch):
    """The slot is drawn with probability G_k / W, and the change always accepted."""

    def wrong(log_weights, size, probabilities):
        weights = np.exp(log_weights[:size] - log_weights[:size].max())
        probabilities[:size] = weights / weights.sum()

    monkeypatch.setattr(soma, "slot_probabilities", wrong)
    for name in ("offer_cells", "offer_dense"):
        monkeypatch.setattr(soma, name, getattr(soma, name).py_func)


def test_soma_without_the_reverse_normaliser_is_caught(monkeypatch):
    without_reverse_normaliser(monkeypatch)
    problem = count()
    with pytest.raises(AssertionError):
        check_matrix(problem, soma_matrix(problem, problem.n, 1))


def plain_soma(problem, database, offers, uniforms, slots, each):
    """The move in plain Python, from its definition; returns the database and how many took."""
    count = 0
    for o, (value, uniform) in enumerate(zip(offers, uniforms, strict=True)):
        begin = o // each * slots
        group = range(begin, min(begin + slots, problem.n))
        now = math.exp(problem.log_g(problem.total(database)))
        weights = {
            k: math.exp(problem.log_g(problem.total(problem.changed(database, k, value))))
            for k in group
        }
        whole = sum(weights.values())
        for k, weight in weights.items():
            uniform -= weight / whole * min(1.0, whole / (whole - weight + now))
            if uniform < 0:
                database = problem.changed(database, k, value)
                count += 1
                break
    return database, count


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize(("slots", "each"), [(None, 3), (2, 2), (1, 3)])
@pytest.mark.parametrize("chunk", [4096, 2])
def test_soma_step_is_the_plain_one(monkeypatch, make, slots, each, chunk):
    """With the same candidates and uniform numbers, also when the database is cut into chunks."""
    monkeypatch.setattr(soma, "CHUNK", chunk)
    problem = make()
    size = min(slots or chunk, chunk, problem.n)
    n_offers = each * -(-problem.n // size)
    target, move = Target(problem.model, problem.release), Soma(each, slots)
    move.check(target)
    rng = np.random.default_rng(SEED)
    for database in problem.databases:
        offers, uniforms = rng.integers(len(problem.values), size=n_offers), rng.random(n_offers)
        left, numbers = list(offers), list(uniforms)

        class Given:
            def random(self, m, numbers=numbers):
                return np.array([numbers.pop(0) for _ in range(m)])

        def propose(theta, m, rng, left=left):
            return problem.values[[left.pop(0) for _ in range(m)]], None

        monkeypatch.setattr(target, "propose", propose)
        state = problem.state(database, Given())
        reports = move.step(target, state, {})
        after, count = plain_soma(problem, database, offers, uniforms, size, each)
        assert not left
        assert positions(problem, state.records) == after
        assert reports == (count / n_offers,)


def test_soma_says_what_it_needs():
    with pytest.raises(ValueError, match="may depend on the record's index"):
        Soma().check(Target(indexed().model, indexed().release))
    with pytest.raises(ValueError, match="offers must be a positive integer; got 0"):
        Soma(0)
    with pytest.raises(ValueError, match=r"slots must be a positive integer; got 1\.5"):
        Soma(2, 1.5)


# ------------------------------------------------------------------ the crank_nicolson turn


class GivenNormals:
    """A generator whose standard normals and uniform number are known beforehand."""

    def __init__(self, normals, uniform):
        self.normals, self.uniform = normals, uniform

    def standard_normal(self, shape):
        return self.normals.reshape(shape).copy()

    def random(self):
        return self.uniform


def regression():
    model = na.models.LinearRegression(
        1, noise_variance=0.5, feature_mean=[0.3], feature_covariance=[[1.7]]
    )
    theta = {"coefficients": np.array([0.4, -1.1])}
    query = na.Query(
        lambda x: np.column_stack([x[:, 0], x[:, 1], x[:, 0] * x[:, 1]]),
        ["x", "y", "xy"],
        sensitivity={1: 1.0, 2: 1.0},
    )
    mechanism = na.mechanisms.Laplace(query, scale=2.5)
    return model, theta, na.Release([1.5, 0.3, -2.0], mechanism, 6)


def fixed(angle):
    """Return an angle that is not tuned."""
    return StepSize(angle, crank_nicolson.WANTED, angle, angle)


def test_crank_nicolson_ratio_is_the_whole_metropolis_hastings_ratio():
    """p(u') g' q(u | u') / [p(u) g q(u' | u)], with every density written out."""
    model, theta, release = regression()
    target, move = Target(model, release), CrankNicolson()
    move.check(target)
    rng = np.random.default_rng(SEED)
    seen = []
    for angle in (0.05, 0.4, 1.0, math.pi / 2):
        for _ in range(10):
            records = model.sample_records(theta, 6, rng)
            z = rng.standard_normal((6, 2))
            sd = math.sqrt(1.7), math.sqrt(0.5)
            u = np.column_stack(
                [
                    (records[:, 0] - 0.3) / sd[0],
                    (records[:, 1] - 0.4 + 1.1 * records[:, 0]) / sd[1],
                ]
            )
            new = math.cos(angle) * u + math.sin(angle) * z
            x = 0.3 + sd[0] * new[:, 0]
            y = 0.4 - 1.1 * x + sd[1] * new[:, 1]

            def log_g(x, y):
                total = np.array([x.sum(), y.sum(), (x * y).sum()])
                return stats.laplace.logpdf([1.5, 0.3, -2.0], total, 2.5).sum()

            def log_q(b, a, angle=angle):
                return stats.norm.logpdf(b, math.cos(angle) * a, math.sin(angle)).sum()

            log_ratio = (
                stats.norm.logpdf(new).sum()
                + log_g(x, y)
                + log_q(u, new)
                - stats.norm.logpdf(u).sum()
                - log_g(records[:, 0], records[:, 1])
                - log_q(new, u)
            )
            chance = math.exp(min(0.0, log_ratio))
            seen.append(chance)
            for uniform, accept in ((chance * (1 - 1e-9), True), (chance * (1 + 1e-9), False)):
                if uniform >= 1.0:
                    continue
                state = ChainState(theta, records.copy(), None, GivenNormals(z, uniform))
                tuning = {**move.start(target, state), "angle": fixed(angle)}
                assert move.step(target, state, tuning) == (float(accept),)
                assert tuning["angle"].acceptance == [pytest.approx(chance, rel=1e-9)]
                expected = np.column_stack([x, y]) if accept else records
                np.testing.assert_allclose(state.records, expected, rtol=1e-12, atol=1e-12)
    assert min(seen) < 0.5
    assert max(seen) == 1.0


N, VARIANCE, NOISE, MEAN, RELEASED = 3, 1.5, 1.2, 0.4, 5.0


def compare_with_known_posterior(replicates, steps=25):
    """p-values of T and of x_1 after many turns, from records drawn without looking at s_dp.

    With x_i ~ N(m, v) and s = sum x + N(0, c^2), given m and s: T has precision 1/(n v) + 1/c^2
    and mean n m + (s - n m) n v / (n v + c^2); x_1 has mean m + (s - n m) v / (n v + c^2) and
    variance v - v^2 / (n v + c^2).
    """
    model = na.models.Normal(variance=VARIANCE)
    query = na.Query(lambda x: x.reshape(-1, 1), ["sum"], sensitivity={2: 1.0})
    release = na.Release([RELEASED], na.mechanisms.Gaussian(query, scale=NOISE), N)
    target, move = Target(model, release), CrankNicolson()
    theta = {"mean": np.array(MEAN)}
    rng = np.random.default_rng(SEED)
    ended = np.empty((replicates, 2))
    for r in range(replicates):
        state = ChainState(theta, model.sample_records(theta, N, rng), None, rng)
        tuning = {"angle": fixed(0.9), "count": 0, "warming": False}
        for _ in range(steps):
            move.step(target, state, tuning)
        ended[r] = state.records.sum(), state.records[0]
    spread = N * VARIANCE + NOISE**2
    off = RELEASED - N * MEAN
    total = stats.norm(
        N * MEAN + off * N * VARIANCE / spread, (1 / (N * VARIANCE) + NOISE**-2) ** -0.5
    )
    first = stats.norm(MEAN + off * VARIANCE / spread, math.sqrt(VARIANCE - VARIANCE**2 / spread))
    return [
        stats.kstest(column, law.cdf).pvalue
        for column, law in zip(ended.T, (total, first), strict=True)
    ]


@pytest.mark.parametrize("replicates", only([400], [400, 1000]))
def test_crank_nicolson_reaches_a_known_posterior(replicates):
    assert min(compare_with_known_posterior(replicates)) > FALSE_ALARM / 2


def random_walk(monkeypatch):
    """u' = u + s z, accepted by g alone: p(u) does not cancel."""

    def wrong(innovations, normals, cosine, sine):
        normals *= sine
        normals += innovations

    monkeypatch.setattr(crank_nicolson, "turn", wrong)


def test_a_random_walk_on_u_is_caught(monkeypatch):
    random_walk(monkeypatch)
    assert min(compare_with_known_posterior(replicates=400)) < 1e-12


@pytest.mark.parametrize("steps", [1, 3])
def test_crank_nicolson_in_chunks(monkeypatch, steps):
    model, theta, release = regression()
    target, move = Target(model, release), CrankNicolson(steps)
    ends = []
    for chunk in (4096, 4):
        monkeypatch.setattr(crank_nicolson, "CHUNK", chunk)
        rng = np.random.default_rng(SEED)
        state = ChainState(theta, model.sample_records(theta, 6, rng), None, rng)
        tuning = move.start(target, state)
        rates = [move.step(target, state, tuning) for _ in range(30)]
        ends.append((rates, state.records))
    assert ends[0][0] == ends[1][0]
    assert 0 < np.mean(ends[0][0]) < 1
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=0, atol=1e-12)


def test_crank_nicolson_tunes_in_warmup_only():
    model, _, release = regression()
    target = Target(model, na.Release([5.0, -8.0, -20.0], release.mechanism, 200))
    moves = (ParameterUpdate(), CrankNicolson())
    schedule = chain.Schedule(400, 400)
    state = chain.start(target, moves, np.random.default_rng(SEED))
    first = state.tunings[1]["angle"].size
    state, _ = chain.advance(target, moves, schedule, state, 400)
    tuned = state.tunings[1]["angle"].size
    assert tuned < first
    state, draws = chain.advance(target, moves, schedule, state, 400)
    assert state.tunings[1]["angle"].size == tuned
    # Far from 0 and from 1, which is all that tuning is for.
    assert 0.1 < draws.reports["crank_nicolson_acceptance"].mean() < 0.6


def test_crank_nicolson_says_what_it_needs():
    with pytest.raises(ValueError, match="normal innovations; Bernoulli has"):
        CrankNicolson().check(Target(count().model, count().release))
    with pytest.raises(ValueError, match="steps must be a positive integer; got 0"):
        CrankNicolson(0)


# ------------------------------------------------------------------ Geweke


class Simulator:
    """A prior and x = F(u; theta), nothing else: the chain carries u."""

    parameters = (na.Parameter("location"),)
    innovations = na.Innovations("normal", 2)

    def sample_prior(self, rng):
        return {"location": np.array(rng.standard_normal())}

    def log_prior(self, theta):
        return -0.5 * float(theta["location"]) ** 2 - 0.5 * math.log(2 * math.pi)

    def build_records(self, theta, innovations):
        return theta["location"] + innovations[:, 0] * np.exp(0.3 * innovations[:, 1])


SUM = na.mechanisms.Laplace(na.queries.Sum(-2.0, 2.0), epsilon=3.0)
SHARP = na.mechanisms.Laplace(na.queries.Sum(-2.0, 2.0), epsilon=12.0)
NORMAL = na.models.Normal(mean_sd=1.0)
COUNTS = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [2, 3]), epsilon=4.0)
BAYES = na.models.NaiveBayes(2, [2, 3])
LEVELS = na.mechanisms.DiscreteLaplace(na.queries.Histogram(n_levels=3), epsilon=3.0)
MOMENTS = na.mechanisms.Laplace(na.queries.RegressionMoments(1, -4, 4), epsilon=8.0)
GEWEKE = {
    "conditional, cells": (BAYES, COUNTS, (ParameterUpdate(), FullConditional())),
    "conditional, levels": (
        na.models.Categorical(3),
        LEVELS,
        (ParameterUpdate(), FullConditional()),
    ),
    "turn": (NORMAL, SUM, (ParameterUpdate(), CrankNicolson())),
    "turns, regression": (
        na.models.LinearRegression(1, feature_mean=[0.0], feature_covariance=[[1.0]]),
        MOMENTS,
        (ParameterUpdate(), CrankNicolson(2)),
    ),
    "turn, simulator": (Simulator(), SUM, (Transport(), CrankNicolson())),
    "offers, cells": (BAYES, COUNTS, (ParameterUpdate(), Soma(3))),
    "offers, dense": (NORMAL, SHARP, (ParameterUpdate(), Soma(4, 2))),
    "offers, simulator": (Simulator(), SUM, (Transport(), Soma(3))),
}


# SciPy gives up on the exact p-value of some tied samples, says so, and takes the asymptotic one.
pytestmark = pytest.mark.filterwarnings("ignore:ks_2samp:RuntimeWarning")


def run_geweke(name):
    model, mechanism, moves = GEWEKE[name]
    return na.geweke(
        model,
        mechanism,
        n_records=6,
        replicates=600,
        rounds=5,
        moves=moves,
        random_seed=SEED,
        false_alarm=FALSE_ALARM,
    )


@pytest.mark.full
@pytest.mark.parametrize("name", GEWEKE)
def test_geweke(name):
    check = run_geweke(name)
    assert check, check


@pytest.mark.full  # the exact checks above catch them in `make test`
@pytest.mark.parametrize(
    ("bug", "name"),
    [
        (without_likelihood, "conditional, cells"),
        (random_walk, "turn"),
        (without_reverse_normaliser, "offers, dense"),
    ],
)
def test_geweke_catches_planted_bugs(monkeypatch, bug, name):
    bug(monkeypatch)
    assert not run_geweke(name)


@pytest.mark.parametrize("move", [CrankNicolson(2), Soma(3), Soma(2, 4)])
@pytest.mark.parametrize("chunk", [4096, 4])
def test_a_simulators_innovations_go_with_its_records(monkeypatch, move, chunk):
    monkeypatch.setattr(soma, "CHUNK", chunk)
    monkeypatch.setattr(crank_nicolson, "CHUNK", chunk)
    model, rng = Simulator(), np.random.default_rng(SEED)
    target = Target(model, na.Release([3.0], SUM, 10))
    move.check(target)
    state = chain.start(target, [move], rng)
    before = state.records.copy()
    for _ in range(20):
        move.step(target, state, state.tunings[0])
        built = model.build_records(state.theta, state.innovations)
        np.testing.assert_allclose(state.records, built, rtol=0, atol=1e-12)
    assert (state.records != before).mean() > 0.5
