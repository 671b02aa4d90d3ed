"""The level move: exact draws of (theta, x, s_dp) that go through it are exact draws still."""

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.basics.adapt import StepSize
from noiseaware.sampler import chain
from noiseaware.sampler.moves import BlockSweep, geometry, level
from noiseaware.sampler.moves.geometry import differences, moments
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

N, STEPS, RUNS = 10, 6, 400


class Squares:
    """A total with two solutions for the mean: the sum of the squares, clamped."""

    names = ("sum", "squares")

    def sensitivity(self, norm=1, neighbours="change"):
        return 10.0

    def statistic(self, records):
        return np.column_stack((np.clip(records, -2.0, 2.0), np.minimum(records**2, 6.0)))


SETTINGS = {
    "one of two directions is held": (na.queries.Sum(-0.7, 0.7), 0.1, 1.5),
    "both are": (Squares(), 0.3, 0.7),
    "both are, and all is redrawn": (Squares(), 1.0, 3.0),
    "all is redrawn, the noise is tiny": (na.queries.Sum(-2.0, 2.0), 1e-3, 3.0),
}


MODEL = na.models.Normal(mean_sd=1.0, variance_shape=4.0, variance_scale=4.0)


def quantities(theta, records):
    return float(theta["mean"]), float(theta["variance"]), np.sum(np.abs(records) < 0.7)


def through(query, scale, size, steps=STEPS, runs=RUNS):
    """Exact draws, sent through the move, and what share of its steps was accepted.

    Of each the mean, the variance, how many records are not clamped, which is about what the
    determinant is, and how far the release is off, in units of the noise.
    """
    mechanism = na.mechanisms.Laplace(query, scale=scale)
    rng = np.random.default_rng(11)
    # What is held is fixed beforehand, from the prior; jumps lead to somewhat larger theta.
    target = Target(MODEL, na.Release(np.zeros(len(query.names)), mechanism, N))
    prior = [target.coordinates.to_vector(MODEL.sample_prior(rng)) for _ in range(400)]
    mean, covariance = moments(np.stack(prior))
    mean = mean + 0.7 * np.sqrt(np.diag(covariance))
    u = np.random.default_rng(1).standard_normal((N, 1))
    jacobian = differences(lambda v: target.total_at(v, u), np.zeros(2), 0.1 * np.eye(2)) / 0.1
    frame = level.Frame.of(jacobian, target.terms.parameters[:, 1], mean, covariance)
    tuning = {"frame": frame, "size": StepSize(size, 0.3, 1e-4, 10.0), "period": 1}
    tuning |= {"history": None, "gains": None}
    move, ended, accepted = level.LevelMove(), [], 0.0
    for _ in range(runs):
        theta = MODEL.sample_prior(rng)
        records = MODEL.sample_records(theta, N, rng)
        values = query.statistic(records).sum(axis=0)
        release = na.Release(values + scale * rng.laplace(size=len(values)), mechanism, N)
        state, target = ChainState(theta, records, None, rng), Target(MODEL, release)
        for _ in range(steps):
            accepted += move.step(target, state, tuning)[0]
        off = (release.values - query.statistic(state.records).sum(axis=0)) / scale
        ended.append((*quantities(state.theta, state.records), off[0]))
    return np.array(ended), accepted / runs / steps


def check(query, scale, size, **lengths):
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ended, accepted = through(query, scale, size, **lengths)
    assert accepted > 0.05
    # Each fails an exact move with probability 1e-6; ties only make that less.
    assert stats.kstest(ended[:, 0], stats.norm(0, 1).cdf).pvalue > 1e-6
    assert stats.kstest(ended[:, 1], stats.invgamma(4.0, scale=4.0).cdf).pvalue > 1e-6
    assert stats.kstest(ended[:, 3], stats.laplace.cdf).pvalue > 1e-6
    rng = np.random.default_rng(12)
    thetas = [MODEL.sample_prior(rng) for _ in range(4000)]
    inside = [quantities(theta, MODEL.sample_records(theta, N, rng))[2] for theta in thetas]
    assert stats.ks_2samp(ended[:, 2], inside).pvalue > 1e-6


@pytest.mark.parametrize("name", only(["one of two directions is held"], SETTINGS))
def test_exact_draws_stay_exact(name):
    check(*SETTINGS[name])


BUGS = {
    "the determinant left out": (
        "+ np.linalg.slogdet(slopes)[1]",
        "+ np.linalg.slogdet(self.slopes_new)[1]",
    ),
    "the prior left out": (
        "log_jacobian - self.log_prior",
        "log_jacobian - target.log_prior(self.theta)",
    ),
    "the Jacobian left out": (
        "target.log_prior(self.theta) + log_jacobian",
        "target.log_prior(self.theta)",
    ),
    "the density of a jump left out": ("log_ratio = log_a", "log_ratio = 0.0"),
    "the noise counted twice": ("if drawn:", "if False:"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_caught(name):
    with planted(Edit(level.Level, "propose", *BUGS[name])), pytest.raises(AssertionError):
        check(*SETTINGS["one of two directions is held"], runs=800, steps=20)


def refused_by_the_solver():
    """How many of 200 levels are not reached, where floats are 1e-3 noises apart."""
    rng, query = np.random.default_rng(5), na.queries.Sum(-10.0, 10.0)
    model = na.models.Normal(variance=1.0)
    release = na.Release([0.7], na.mechanisms.Gaussian(query, scale=1e-13), 1)
    target = Target(model, release)
    frame = level.Frame.of(np.eye(1), target.terms.parameters[:, 1], np.zeros(1), np.eye(1))
    missed = 0
    for _ in range(200):
        v, u = rng.standard_normal(1), rng.standard_normal((1, 1))
        slopes = frame.slopes(target.total_at, v, u)
        wanted = (0.7 + 1e-13 * rng.standard_normal(1)) * frame.units
        missed += frame.solve(target.total_at, v, u, slopes, wanted) is None
    return missed


def test_a_level_between_two_floats_is_reached():
    """Were it refused, it would be more often for large parameters, where floats are coarser."""
    assert refused_by_the_solver() == 0


@pytest.mark.parametrize(
    "bug",
    [
        Edit(
            level.Frame,
            "solve",
            "if scale != 0.0:",
            "if scale == 0.0:\n                return None\n            else:",
        ),
        Edit(geometry.Approach, "ends", "off < COARSE", "off < EXACT"),
    ],
    ids=["a step that changes nothing", "nothing but a close solution"],
)
def test_a_solver_that_asks_for_more_than_floats_have_is_caught(bug):
    with planted(bug):
        assert refused_by_the_solver() > 20


def test_a_model_of_counts_cannot_follow():
    mechanism = na.mechanisms.Laplace(na.queries.Count(), scale=1.0)
    target = Target(na.models.Bernoulli(), na.Release([3.0], mechanism, 10))
    with pytest.raises(ValueError, match="records are no integers"):
        level.LevelMove().check(target)


def period(scale):
    """How often the move is made for a regression with clamped responses, after a warm-up."""
    query = na.queries.RegressionMoments(1, -2.0, 2.0)
    model = na.models.LinearRegression(1)
    rng = np.random.default_rng(7)
    theta = {"coefficients": [0.5, 1.0], "noise_variance": 2.0}
    theta |= {"feature_mean": [0.3], "feature_covariance": [[1.0]]}
    theta = {name: np.array(value) for name, value in theta.items()}
    records = model.sample_records(theta, 40, rng)
    target = Target(model, na.mechanisms.Laplace(query, scale=scale).privatize(records, rng))
    moves = na.moves.ParameterUpdate(), na.moves.Transport(), level.LevelMove(), BlockSweep()
    together = (na.moves.Interweave(*moves),)
    state = chain.start(target, together, rng)
    state, _ = chain.advance(target, together, chain.Schedule(500, 1), state, 500)
    return state.tunings[0]["moves"][2]["period"]


def test_the_move_is_made_as_often_as_records_need_it():
    """Noise of 0.001 lets no record change otherwise, while theta jumps about."""
    assert period(0.001) <= 4


SHARE = 'min(1.0, max(0, renewed - tuning["renewed"]) / len(state.records))'


@pytest.mark.parametrize(
    "edit",
    [
        Edit(level, "_and_records", "math.sqrt(2.0 * renewed)", "0.0"),
        Edit(level.LevelMove, "step", SHARE, "1.0"),
    ],
    ids=["records are no coordinate", "others are thought to renew all"],
)
def test_a_rate_that_forgets_the_records_is_caught(edit):
    with planted(edit), pytest.raises(AssertionError):
        test_the_move_is_made_as_often_as_records_need_it()


def check_places():
    """What is free of v changes by a' - a and nothing else, whatever follows the total and n."""
    rng = np.random.default_rng(3)
    d, k = 3, 4
    root = rng.standard_normal((k + 1, k + 1))
    frame = level.Frame.of(
        rng.standard_normal((d, k)), np.full(d, 9.0), rng.standard_normal(k + 1), root @ root.T
    )
    assert len(frame.rows) == d
    assert frame.spread > 0.0
    v, y, step = rng.standard_normal(k), rng.standard_normal(d), rng.standard_normal(k - d)
    there = v + frame.free @ step + frame.with_size * np.log(70 / 50) + frame.follow @ y
    np.testing.assert_allclose(frame.place(there, 70), frame.place(v, 50) + step, rtol=1e-9)


def test_what_is_free_does_not_change_with_the_total_and_n():
    check_places()
    with planted(Edit(level.Frame, "place", " - with_n)", ")")), pytest.raises(AssertionError):
        check_places()


def check_way_back(monkeypatch):
    """A proposal from which the way back ends elsewhere is refused."""
    query, scale, _ = SETTINGS["both are"]
    rng = np.random.default_rng(5)
    records = MODEL.sample_records(theta := MODEL.sample_prior(rng), N, rng)
    release = na.mechanisms.Laplace(query, scale=scale).privatize(records, rng)
    target = Target(MODEL, release)
    prior = [target.coordinates.to_vector(MODEL.sample_prior(rng)) for _ in range(400)]
    u, v = target.recover(state := ChainState(theta, records, None, rng)), prior[0]
    jacobian = differences(lambda w: target.total_at(w, u), v, 0.1 * np.eye(2)) / 0.1
    frame = level.Frame.of(jacobian, target.terms.parameters[:, 1], *moments(np.stack(prior)))
    solve, calls = level.Frame.solve, []

    def elsewhere(self, *arguments):
        calls.append(solve(self, *arguments))
        return calls[-1] if len(calls) % 2 or calls[-1] is None else calls[-1] + 0.1

    tuning = {"frame": frame, "size": StepSize(0.3, 0.3), "period": 1}
    tuning |= {"history": None, "gains": None}
    assert any(level.LevelMove().step(target, state, tuning)[0] for _ in range(20))
    monkeypatch.setattr(level.Frame, "solve", elsewhere)
    for _ in range(40):
        calls.clear()
        assert not level.LevelMove().step(target, state, tuning)[0]
    monkeypatch.undo()


def test_a_proposal_without_a_way_back_is_refused(monkeypatch):
    check_way_back(monkeypatch)
    edit = Edit(level.Level, "leads_back", "np.allclose(", "None is not np.allclose(")
    with planted(edit), pytest.raises(AssertionError):
        check_way_back(monkeypatch)


SUMS = na.queries.ByGroup(na.queries.Sum(-0.7, 0.7), 2)
GROUPS = na.models.UnknownSizes(
    na.models.TwoMeans(mean_sd=1.0, variance_shape=4.0, variance_scale=4.0), concentration=2.0
)
RELEASES = {
    "the split is free": na.mechanisms.Laplace(SUMS, scale=0.5),
    "the split is counted": na.mechanisms.Several(
        [
            na.mechanisms.Laplace(na.queries.ByGroup(na.queries.Count(None), 2), scale=0.3),
            na.mechanisms.Laplace(SUMS, scale=0.5),
        ]
    ),
}


def group_frame(mechanism, n=N):
    """A target of groups of unknown sizes, and a frame for it from the prior."""
    rng = np.random.default_rng(2)
    release = mechanism.privatize(GROUPS.sample_records(GROUPS.sample_prior(rng), n, rng), rng)
    target = Target(GROUPS, release)
    prior = [target.coordinates.to_vector(GROUPS.sample_prior(rng)) for _ in range(400)]
    mean, covariance = moments(np.stack(prior))
    u = GROUPS.innovations.draw(n, rng)
    steps = 0.5 * np.eye(5)
    jacobian = differences(lambda v: target.total_at(v, u), mean, steps) / 0.5
    units = target.terms.parameters[:, 1]
    return target, level.Frame.of(jacobian, units, mean, covariance, target.smooth)


def check_what_follows_a_total():
    """No group changes along M, and rows that M cannot change are held by leaving v as it is."""
    for name, mechanism in RELEASES.items():
        target, frame = group_frame(mechanism, 100)
        assert target.smooth.theta.tolist() == [True] * 4 + [False]
        assert target.smooth.u.tolist() == [True, False, False]
        counted = name == "the split is counted"
        assert frame.free.shape == (5, 2 if counted else 3)
        assert frame.renewed.tolist() == ([True, False, False] if counted else [True])
        u, v = GROUPS.innovations.draw(100, np.random.default_rng(3)), np.zeros(5)
        there = v + frame.follow @ [3.0, -3.0]
        first, second = (target.build(target.coordinates.from_vector(w)[0], u) for w in (v, there))
        np.testing.assert_array_equal(first[:, 0], second[:, 0])
        step = np.ones(frame.free.shape[1])
        moved = v + frame.free @ step + frame.follow @ [3.0, -3.0]
        np.testing.assert_allclose(frame.place(moved, 1) - frame.place(v, 1), step, atol=1e-9)


def test_no_group_changes_along_what_follows():
    check_what_follows_a_total()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jacobian * smooth.theta", "jacobian * 1.0"),
        ("smooth.u if p > r", "smooth.u if p < r"),
        ("factor @ basis[:, p:]", "factor @ basis[:, r:]"),
    ],
    ids=["theta follows by jumps", "groups are drawn afresh", "a known direction is free"],
)
def test_a_frame_that_forgets_the_jumps_is_caught(old, new):
    edit = Edit(level.Frame, "of", old, new)
    with planted(edit), pytest.raises((AssertionError, ValueError)):
        check_what_follows_a_total()


def of_groups(theta, records):
    """A mean, a variance, a share, and how many records of a group are not clamped."""
    inside = np.sum((np.abs(records[:, 1]) < 0.7) & (records[:, 0] == 0))
    return theta["means"][0], theta["variances"][1], theta["shares"][0], inside


def check_groups(name, runs=RUNS, steps=STEPS):
    """Exact draws of groups of unknown sizes stay exact draws."""
    mechanism, rng = RELEASES[name], np.random.default_rng(13)
    _, frame = group_frame(mechanism)
    tuning = {"frame": frame, "size": StepSize(0.7, 0.3, 1e-4, 10.0), "period": 1}
    tuning |= {"history": None, "gains": None}
    move, ended, accepted = level.LevelMove(), [], 0.0
    for _ in range(runs):
        theta = GROUPS.sample_prior(rng)
        records = GROUPS.sample_records(theta, N, rng)
        state = ChainState(theta, records, None, rng)
        target = Target(GROUPS, mechanism.privatize(records, rng))
        for _ in range(steps):
            accepted += move.step(target, state, tuning)[0]
        ended.append(of_groups(state.theta, state.records))
    assert accepted > 0.05 * runs * steps
    ended = np.array(ended)
    # Each fails an exact move with probability 1e-6.
    assert stats.kstest(ended[:, 0], stats.norm(0, 1).cdf).pvalue > 1e-6
    assert stats.kstest(ended[:, 1], stats.invgamma(4.0, scale=4.0).cdf).pvalue > 1e-6
    assert stats.kstest(ended[:, 2], stats.beta(2.0, 2.0).cdf).pvalue > 1e-6
    thetas = [GROUPS.sample_prior(rng) for _ in range(4000)]
    inside = [of_groups(theta, GROUPS.sample_records(theta, N, rng))[3] for theta in thetas]
    assert stats.ks_2samp(ended[:, 3], inside).pvalue > 1e-6


@pytest.mark.parametrize("name", only(["the split is free"], RELEASES))
def test_exact_draws_of_groups_stay_exact(name):
    with np.errstate(all="ignore"):
        check_groups(name)
