"""Unknown n: the posterior of (theta, n) against sums over n, and Geweke's test of the default.

Yes/no records with a noisy count of ones and a noisy count of all: p(n, k | s_dp) is a table of
beta-binomial probabilities. Draws are compared in the mean of n, its tail and the mean of the
probability; a check fails at |z| > 5 with the effective sample size, one in a million.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from scipy.sparse.csgraph import connected_components

import noiseaware as na
from calibration.settings import MODELS
from exact.enumeration import TOLERANCE, Scripted, threshold
from exact.known import SEED
from later import only
from mutants.planting import Edit, planted
from noiseaware import sizes
from noiseaware.basics.adapt import WANTED_ALONE, StepSize
from noiseaware.counts import target as counts
from noiseaware.mechanisms import DiscreteLaplace, Gaussian, Laplace, Several
from noiseaware.models import Bernoulli, LinearRegression, Normal, TwoMeans
from noiseaware.queries import Count, RegressionMoments, Sum
from noiseaware.sampler import size as sampler_size
from noiseaware.sampler.moves import level
from noiseaware.sampler.moves import row as row_module
from noiseaware.sampler.moves import size as size_move
from noiseaware.sampler.moves.row import Row
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

HIGHEST = 5.0
A, B, ONES, ALL, SCALE = 2.0, 1.5, 6.0, 15.0, 2.0

PRIORS = {
    "uniform": sizes.Uniform(3, 40),
    "Poisson": sizes.Poisson(9.0),
    "negative binomial": sizes.NegativeBinomial(9.0, 2.0),
    "near the count": sizes.Near(ALL, SCALE),
    "one's own": sizes.LogPmf(lambda n: -0.4 * n if n != 15 else -math.inf, 1, 30),
}
SAMPLERS = {
    "default": None,
    "of records": (
        na.moves.Interweave(
            na.moves.ParameterUpdate(),
            na.moves.Transport(),
            na.moves.SizeMove(),
            na.moves.BlockSweep(),
        ),
    ),
    "Algorithm 1": (*na.moves.algorithm1(), na.moves.SizeMove()),
    "transport alone": (
        na.moves.ParameterUpdate(),
        na.moves.Transport(steps=1),
        na.moves.RecordSweep(),
    ),
}


def release():
    noise = {"scale": SCALE, "neighbours": "add-remove"}
    parts = [DiscreteLaplace(Count(1), **noise), DiscreteLaplace(Count(None), **noise)]
    return na.Release([ONES, ALL], Several(parts), n_records=None)


def exact(prior):
    """Return E n, P(n < 12), E probability."""
    totals = np.zeros(4)
    for n in range(prior.lower, min(prior.upper, 400) + 1):
        k = np.arange(n + 1)
        weight = stats.betabinom.pmf(k, n, A, B) * np.exp(-np.abs(ONES - k) / SCALE)
        weight *= math.exp(prior.log_pmf(n) - abs(ALL - n) / SCALE)
        totals += [
            weight.sum(),
            n * weight.sum(),
            (n < 12) * weight.sum(),
            weight @ ((A + k) / (A + B + n)),
        ]
    return totals[1:] / totals[0]


def largest_difference(prior, moves=None, draws=1000):
    """Return the largest |z| of the draws against the sums."""
    posterior = na.sample(
        Bernoulli(A, B), release(), size=prior, moves=moves, draws=draws, chains=1,
        random_seed=SEED, progressbar=False,
    )  # fmt: skip
    n = posterior["posterior"]["n_records"].values
    drawn = [n, (n < 12).astype(float), posterior["posterior"]["probability"].values]
    return max(
        abs(x.mean() - true) / (max(x.std(), 1e-9) / math.sqrt(array_stats.ess(x, method="mean")))
        for x, true in zip(drawn, exact(prior), strict=True)
    )


@pytest.mark.parametrize("prior", only(["negative binomial"], PRIORS))
def test_against_sums_over_n(prior):
    assert largest_difference(PRIORS[prior]) < HIGHEST


@pytest.mark.parametrize(
    "sampler",
    only(["Algorithm 1", "transport alone"], ["of records", "Algorithm 1", "transport alone"]),
)
def test_against_sums_over_n_with_parts_of_the_sampler(sampler):
    assert largest_difference(PRIORS["Poisson"], SAMPLERS[sampler]) < HIGHEST


BUGS = {
    "no prior of n when records are added": (
        "Algorithm 1",
        Edit(
            size_move.SizeMove, "step", " + size.log_pmf(n_new) - size.log_pmf(n)", ""
        ),
    ),
    "no release in the ratio": (
        "Algorithm 1",
        Edit(size_move.SizeMove, "step", "log_g_new - log_g + size", "size"),
    ),
    "a total that keeps what was taken away": (
        "Algorithm 1",
        Edit(size_move, "change", "total - target.sum", "total - 0 * target.sum"),
    ),
    "no prior of n in transport": (
        "transport alone",
        Edit(Target, "log_prior_moved", " + self.size.log_pmf(n)", ""),
    ),
    "no Jacobian of n": (
        "transport alone",
        Edit(sampler_size.SizedCoordinates, "from_vector", "log_jacobian + v[-1]", "log_jacobian"),
    ),
    "counts without n!": (
        "default", Edit(counts, "with_orders", "1.0, 1.0, 1.0", "1.0, 0.0, 1.0"),
    ),
    "counts without the prior's constant": (
        "default", Edit(counts, "with_orders", "whole, -1.0, 0.0", "whole, 0.0, 0.0"),
    ),
    "counts without the prior of n": (
        "default", Edit(counts, "tabulate", "size.log_pmf(n) for", "0.0 for"),
    ),
    "innovations used twice": (
        "transport alone",
        Edit(
            row_module.Row,
            "draw",
            "self.innovations.draw(max(lack, len(self.u) // MORE), self.rng)",
            "np.full((lack, 1), 0.999)",
        ),
    ),
}  # fmt: skip


DRAWS = dict.fromkeys(BUGS, 1000) | {"innovations used twice": 8000, "no Jacobian of n": 3000}


@pytest.mark.parametrize(
    "bug",
    only(
        [
            "no prior of n when records are added",
            "no Jacobian of n",
            "counts without n!",
            "counts without the prior's constant",
            "counts without the prior of n",
        ],
        BUGS,
    ),
)
def test_a_planted_bug_is_caught(bug):
    sampler, edit = BUGS[bug]
    with planted(edit):
        assert largest_difference(PRIORS["Poisson"], SAMPLERS[sampler], DRAWS[bug]) > HIGHEST


WITH_COUNTS = {
    "Bernoulli": Bernoulli(A, B),
    "Categorical": na.models.Categorical(3, 0.7),
    "NaiveBayes": na.models.NaiveBayes(2, [2, 2]),
    "ContingencyTable": na.models.ContingencyTable([2, 2]),
    "UnknownSizes": na.models.UnknownSizes(
        na.models.TwoProportions(a=A, b=B), concentration=0.8
    ),
}  # fmt: skip


def log_counts(prior, x):
    """The prior of a table of counts as `CountsPrior` describes it, with what n adds to it."""
    a, n = prior.concentrations, sum(x)
    value = math.lgamma(n + 1) - math.lgamma(prior.whole + n)
    for c, m in zip(a, x, strict=True):
        value += (math.lgamma(c + m) if c > 0 else 0.0) - math.lgamma(m + 1)
    if prior.matrix is not None:
        for row, shift, sign in zip(prior.matrix, prior.shifts, prior.signs, strict=True):
            value += sign * math.lgamma(shift + float(row @ np.array(x)))
    return value


@pytest.mark.parametrize("name", WITH_COUNTS)
def test_the_prior_of_counts_has_the_same_mass_for_every_n(name):
    """sum_x p(x | n) does not depend on n: to 1e-12, and not without one of the constants."""
    prior = WITH_COUNTS[name].counts_prior
    cells = len(prior.concentrations)

    def mass(prior, n):
        tables = itertools.product(range(n + 1), repeat=cells)
        return sum(math.exp(log_counts(prior, x)) for x in tables if sum(x) == n)

    one = mass(prior, 1)
    assert all(math.isclose(mass(prior, n), one, rel_tol=1e-12) for n in (2, 3))
    wrong = prior._replace(whole=prior.whole + 1.0)
    assert not math.isclose(mass(wrong, 3), mass(wrong, 1), rel_tol=1e-3)


# Normal records whose mean is nearly known, so that n and the records move together.

MEAN, MEAN_SD, VARIANCE, OF_SUM, OF_ALL = 2.0, 0.1, 1.0, 1.0, 20.0
NORMAL = Normal(variance=VARIANCE, mean_mean=MEAN, mean_sd=MEAN_SD)
FOLLOWING = {
    "transport": (
        na.moves.ParameterUpdate(), na.moves.Transport(steps=1), na.moves.RecordSweep()
    ),
    "level": (
        na.moves.ParameterUpdate(), na.moves.LevelMove(), na.moves.SizeMove(1),
        na.moves.RecordSweep(),
    ),
}  # fmt: skip


def normal_difference(moves, draws=700):
    """Return the larger |z| of the mean and the spread of n: given n, the noisy sum is normal."""
    prior = sizes.Poisson(60.0)
    parts = [
        Gaussian(Sum(-100.0, 100.0), scale=OF_SUM, neighbours="add-remove"),
        Gaussian(Count(None), scale=OF_ALL, neighbours="add-remove"),
    ]
    seen = na.Release([130.0, 60.0], Several(parts), n_records=None)
    n = np.arange(1, 200)
    spread = np.sqrt((n * MEAN_SD) ** 2 + n * VARIANCE + OF_SUM**2)
    logs = stats.norm.logpdf(130.0, n * MEAN, spread) + stats.norm.logpdf(60.0, n, OF_ALL)
    logs += stats.poisson.logpmf(n, 60.0)
    weights = np.exp(logs - logs.max())
    posterior = na.sample(
        NORMAL, seen, size=prior, moves=moves, draws=draws, chains=2, random_seed=SEED,
        progressbar=False,
    )  # fmt: skip
    x = posterior["posterior"]["n_records"].values
    centre = weights @ n / weights.sum()
    parts = []
    for drawn, exact in ((x, n), ((x - centre) ** 2, (n - centre) ** 2)):
        off = drawn.mean() - weights @ exact / weights.sum()
        error = drawn.std() / math.sqrt(array_stats.ess(drawn, method="mean"))
        parts.append(abs(off) / error)
    return max(parts)


@pytest.mark.full
@pytest.mark.parametrize("sampler", FOLLOWING)
def test_records_and_theta_follow_n(sampler):
    assert normal_difference(FOLLOWING[sampler]) < HIGHEST


FOLLOWING_BUGS = {
    # With the sign changed the chain hardly comes back, and its error is as large as its mistake.
    "half the density of innovations that lean": (
        "transport",
        Edit(row_module, "carry", " + 0.5 * larger * d[j] * d[j]", ""),
    ),
    "no prior of n when theta follows": (
        "level",
        Edit(level.Level, "resize", "return prior.log_pmf(n_new) - prior.log_pmf(n)", "return 0.0"),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("bug", FOLLOWING_BUGS)
def test_a_planted_bug_of_following_is_caught(bug):
    sampler, edit = FOLLOWING_BUGS[bug]
    with planted(edit):
        assert normal_difference(FOLLOWING[sampler], 6000) > HIGHEST


def carried(u, n, goal, lean, span):
    """The row of innovations when n goes to `goal`, the log of its factor, and what was built."""
    rng = np.random.default_rng(1)
    row = Row(u[:n].copy(), NORMAL.innovations, rng, lean, span)
    row.u = u.copy()
    proposed = row.first(goal)
    factor = row.log_factor
    row.accept()
    np.testing.assert_allclose(row.own(), proposed, rtol=1e-12)
    return row.u, factor


def check_carried(n, goal, span):
    rng = np.random.default_rng(2)
    lean, row = np.array([0.7]), rng.standard_normal((9, 1))
    there, factor = carried(row, n, goal, lean, span)
    back, factor_back = carried(there, goal, n, lean, span)
    np.testing.assert_allclose(back, row, rtol=1e-10)
    assert math.isclose(factor, -factor_back, rel_tol=1e-9)
    logs = stats.norm.logpdf(there).sum() - stats.norm.logpdf(row).sum()
    assert math.isclose(factor, logs, rel_tol=1e-9)
    # An affine map: its columns are differences.
    columns = [carried(row + e, n, goal, lean, span)[0] - there for e in np.eye(9)[:, :, None]]
    assert math.isclose(abs(np.linalg.det(np.hstack(columns))), 1.0, rel_tol=1e-9)
    mean = row[:n].mean() + lean[0] * math.log(goal / n)
    assert math.isclose(there[:goal].mean(), mean, rel_tol=1e-9)
    if span >= max(n, goal):  # by way of any other number it is the same database
        for by in (2, 5, span):
            other = carried(carried(row, n, by, lean, span)[0], by, goal, lean, span)[0]
            np.testing.assert_allclose(other[:goal], there[:goal], rtol=1e-10)


CARRIED_BUGS = {
    "fewer rows in the factor": ("carry", "for i in range(larger)", "for i in range(larger - 1)"),
    "a row that is not moved": ("shifted", "row[i, j] + d[j] if i < m else row[i, j]", "row[i, j]"),
    "fewer rows moved": ("shifted", "i < m else", "i < m - 1 else"),
    "no linear term": ("carry", "d[j] * whole + ", ""),
    "the mean of other rows": ("carry", "- there / n_new", "- here / n_new"),
}


@pytest.mark.parametrize("span", [0, 8])
@pytest.mark.parametrize("sizes_", [(4, 7), (7, 4)])
def test_the_row_of_innovations_is_carried_there_and_back(sizes_, span):
    """The same way back, volume 1, the factor that of the densities, to rounding."""
    check_carried(*sizes_, span)


@pytest.mark.parametrize("bug", CARRIED_BUGS)
def test_a_planted_bug_of_the_row_is_caught(bug):
    with planted(Edit(row_module, *CARRIED_BUGS[bug])), pytest.raises(AssertionError):
        check_carried(4, 7, 0)


def with_exact_ones(prior):
    """Sample n, with the number of ones exact and that of all records noisy."""
    all_ = DiscreteLaplace(Count(None), scale=SCALE, neighbours="add-remove")
    parts = Several([na.mechanisms.Exact(Count(1)), all_])
    seen = na.Release([ONES, ALL], parts, n_records=None)
    return na.sample(
        Bernoulli(A, B), seen, size=prior, draws=1000, chains=1, random_seed=SEED,
        progressbar=False,
    )  # fmt: skip


def test_an_exact_count_and_an_unknown_number():
    n = np.arange(int(ONES), 41)
    weights = stats.betabinom.pmf(ONES, n, A, B) * np.exp(-np.abs(ALL - n) / SCALE)
    x = with_exact_ones(sizes.Uniform(1, 40))["posterior"]["n_records"].values
    off = x.mean() - weights @ n / weights.sum()
    assert x.min() >= ONES
    assert abs(off) < HIGHEST * x.std() / math.sqrt(array_stats.ess(x, method="mean"))


def test_a_prior_below_what_exact_numbers_need():
    with pytest.raises(ValueError, match="the number of records or its prior, size"):
        with_exact_ones(sizes.Uniform(1, 5))


# The transition matrix of `SizeMove.step` itself, of all databases of one to four yes/no records.

P, FEW = 0.3, sizes.LogPmf(lambda n: [-0.3, 0.4, -0.9, 0.1][n - 1], 1, 4)
CHANCES = {1: 0.5, 2: 0.3, 3: 0.2}
"""Of k; any would do, as k does not depend on where the chain is."""


def size_matrix():
    """Return the databases, their posterior p(n, x | theta, s_dp) and the matrix of one step.

    All sides, k and proposed records are gone through by a scripted generator; acceptance
    probabilities are found by bisection. Weights are those of the textbook.
    """
    target = Target(Bernoulli(A, B), release(), FEW)
    move, theta = size_move.SizeMove(1), {"probability": np.asarray(P)}
    states = [x for n in range(1, 5) for x in itertools.product((0, 1), repeat=n)]
    number = {x: a for a, x in enumerate(states)}
    logs = [
        FEW.log_pmf(len(x)) + sum(math.log(P if one else 1 - P) for one in x)
        - abs(ONES - sum(x)) / SCALE - abs(ALL - len(x)) / SCALE
        for x in states
    ]  # fmt: skip
    pi = np.exp(np.array(logs) - max(logs))
    matrix = np.zeros((len(states),) * 2)

    def accepts(x, wanted, side, k, uniforms, exponential):
        tuning = {"size": StepSize(1.0, WANTED_ALONE, 0.01, 4.0), "warming": False}
        drawn = [[side], *([uniforms] if uniforms else [])]
        rng = Scripted(random=drawn, standard_exponential=[[k - 0.5], [exponential]])
        state = ChainState(theta, np.array(x), None, rng)
        (share,) = move.step(target, state, tuning)
        assert rng.spent
        assert tuple(state.records) == (wanted if share else x)
        return bool(share)

    for a, x in enumerate(states):
        for (k, chance), side in itertools.product(CHANCES.items(), (0.25, 0.75)):
            ways = [(0.5 * chance, x[:-k], ())]
            if side < 0.5:
                ways = [
                    (0.5 * chance * math.prod(P if one else 1 - P for one in more), (*x, *more),
                     tuple(0.9 if one == HIGH else 0.1 for one in more))
                    for more in itertools.product((0, 1), repeat=k)
                ]  # fmt: skip
            for weight, wanted, uniforms in ways:
                if wanted in number and len(wanted) == len(x) + (k if side < 0.5 else -k):
                    run = functools.partial(accepts, x, wanted, side, k, uniforms)
                    accept = threshold(run)
                    matrix[a, number[wanted]] += weight * accept
                    matrix[a, a] += weight * (1 - accept)
                else:  # no such number of records: nothing is drawn, and it stays
                    assert not accepts(x, x, side, k, (), 64.0)
                    matrix[a, a] += weight
    return pi / pi.sum(), matrix


HIGH = int(Bernoulli(A, B).build_records({"probability": np.asarray(P)}, np.array([[0.9]]))[0])
"""The record of an innovation of 0.9; that of 0.1 is the other."""


def check_size_matrix():
    pi, matrix = size_matrix()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
    # All are reached, but that the first record is the sweeps' to change.
    assert connected_components(matrix > 0, connection="strong")[0] == 2


def test_a_step_of_adding_and_removing_leaves_the_posterior_invariant():
    """|pi P - pi| <= 1e-12, with P from `SizeMove.step` and pi from the textbook."""
    check_size_matrix()


SIZE_BUGS = {
    "no prior of n": ("step", " + size.log_pmf(n_new) - size.log_pmf(n)", ""),
    "no release": ("step", "log_g_new - log_g + size", "size"),
    "a side that is taken more often": ("step", "side < 0.5", "side < 0.2"),
    "a number below the prior's": ("step", "size.lower <= n_new", "size.lower < n_new"),
    "the first are taken away": ("change", "state.records[n_new:]", "state.records[: n - n_new]"),
    "a total that keeps them": ("change", "total - target.sum", "total - 0 * target.sum"),
    "others are left": ("resize", "state.records[:n_new]", "state.records[-n_new:]"),
}


@pytest.mark.parametrize("bug", SIZE_BUGS)
def test_a_planted_bug_of_adding_and_removing_is_caught(bug):
    function, old, new = SIZE_BUGS[bug]
    owner = size_move.SizeMove if function == "step" else size_move
    with planted(Edit(owner, function, old, new)), pytest.raises(AssertionError):
        check_size_matrix()


REGRESSION = LinearRegression(1, noise_variance=1.0, feature_mean=[0.5], feature_covariance=[[1.0]])
CALIBRATED = {
    "normal": (Normal(mean_sd=2.0), Sum(-3.0, 3.0), Laplace),
    "regression": (REGRESSION, RegressionMoments(1, -4.0, 4.0), Gaussian),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CALIBRATED)
def test_geweke_with_the_default_sampler(case):
    model, query, noise = CALIBRATED[case]
    parts = [
        noise(query, scale=3.0, neighbours="add-remove"),
        noise(Count(None), scale=2.0, neighbours="add-remove"),
    ]
    result = na.geweke(
        model, Several(parts), size=sizes.Uniform(3, 12), replicates=200, rounds=4,
        random_seed=SEED, false_alarm=1e-6,
    )  # fmt: skip
    assert result, str(result)


ALIKE = [
    name
    for name, (model, _, n) in MODELS.items()
    if n is not None and not getattr(model, "uses_index", False)
]
"""Models of records that are alike; a table of Poisson counts has its own law of their number."""


@pytest.mark.full
@pytest.mark.parametrize("check", [na.geweke, na.sbc])
@pytest.mark.parametrize("name", ALIKE)
def test_every_model_with_an_unknown_number_of_records(name, check):
    model, query, n = MODELS[name]
    mechanism = Laplace(query, scale=query.sensitivity(1) / 2.0)
    options = {"replicates": 400, "rounds": 6} if check is na.geweke else {"replicates": 100}
    result = check(
        model, mechanism, size=sizes.Uniform(n - 4, n + 4), random_seed=SEED, false_alarm=1e-6,
        **options,
    )  # fmt: skip
    assert result, str(result)


@pytest.mark.full
def test_a_simulator_that_holds_its_innovations():
    class Simulator:
        parameters = (na.Parameter("mean"),)
        innovations = na.Innovations("normal", 1)

        def sample_prior(self, rng):
            return {"mean": rng.normal()}

        def log_prior(self, theta):
            return -0.5 * float(theta["mean"]) ** 2

        def build_records(self, theta, u):
            return theta["mean"] + u[:, 0]

    result = na.geweke(
        Simulator(), Laplace(Sum(-2.0, 2.0), scale=2.0), size=sizes.Poisson(6.0), replicates=200,
        rounds=4, random_seed=SEED, false_alarm=1e-6,
    )  # fmt: skip
    assert result, str(result)


@pytest.mark.parametrize("prior", [*PRIORS])
def test_draws_of_a_prior_follow_its_probabilities(prior):
    prior, rng = PRIORS[prior], np.random.default_rng(SEED)
    numbers = np.arange(prior.lower, min(prior.upper, 400) + 1)
    probabilities = np.exp([prior.log_pmf(int(n)) for n in numbers])
    drawn = np.array([prior.sample(rng) for _ in range(4000)])
    expected = probabilities @ numbers / probabilities.sum()
    variance = probabilities @ (numbers - expected) ** 2 / probabilities.sum()
    assert abs(drawn.mean() - expected) < HIGHEST * math.sqrt(variance / len(drawn))
    assert prior.lower <= drawn.min() <= drawn.max() <= prior.upper


# ------------------------------------------------------------------ what is refused


def sample(**changes):
    arguments = {"model": Bernoulli(), "release": release(), "size": PRIORS["uniform"]} | changes
    model, given = arguments.pop("model"), arguments.pop("release")
    return na.sample(model, given, draws=5, warmup=5, chains=1, progressbar=False, **arguments)


def test_databases_of_several_lengths_are_kept(tmp_path):
    """Of counts and of records: as many records as n says, and of the model's type."""
    for model in (Bernoulli(), Normal()):
        query = Sum(0.0, 1.0)
        seen = na.Release([5.0], Laplace(query, scale=2.0), n_records=None)
        posterior = na.sample(
            model, seen, size=sizes.Uniform(3, 30), draws=40, warmup=40, chains=2, keep_records=8,
            random_seed=SEED, progressbar=False,
        )  # fmt: skip
        na.save(posterior, tmp_path / "kept.nc")
        again = na.load(tmp_path / "kept.nc")
        each = na.imputed(again, as_frame=None)
        numbers = posterior["posterior"]["n_records"].sel(draw=again["latent_records"]["draw"])
        assert [len(one) for one in each] == numbers.values.ravel().astype(int).tolist()
        assert all(one.dtype == model.dtype for one in each)
        assert len(na.imputed(again)) == sum(map(len, each))


KNOWN = na.Release([3.0], Laplace(Count(1), epsilon=1.0), n_records=10)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": None}, "does not say how many records there are: give size"),
        ({"release": KNOWN}, "size must not be given: the release says that there are 10"),
        ({"size": sizes.Uniform}, "size must be a prior"),
        ({"size": 20}, "size must be a prior for the number of records, such as"),
        ({"moves": na.moves.algorithm1()}, "moves must hold one that changes the number"),
        ({"model": TwoMeans([7, 8])}, "is of 15 records, and the release of an unknown number"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(changes, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        sample(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sizes.Uniform(0, 5),
        lambda: sizes.Uniform(5, 4),
        lambda: sizes.Uniform(1, math.inf),
        lambda: sizes.Poisson(0.5),
        lambda: sizes.Poisson(math.nan),
        lambda: sizes.NegativeBinomial(5.0, 0.0),
        lambda: sizes.Near(-1000.0, 2.0),
        lambda: sizes.Near(10.0, -1.0),
        lambda: sizes.LogPmf(lambda n: -math.inf, 1, 5),
        lambda: sizes.LogPmf(lambda n: math.nan, 1, 5),
        lambda: sizes.LogPmf(3, 1, 5),
    ],
)
def test_a_prior_that_cannot_be(make):
    with pytest.raises((ValueError, TypeError), match="must"):
        make()


@pytest.mark.parametrize("prior", ["uniform", "Poisson", "negative binomial", "near the count"])
def test_a_prior_is_written_and_read_back(prior):
    assert sizes.from_dict(PRIORS[prior].to_dict()) == PRIORS[prior]


def test_a_release_without_n_is_written_and_read_back(tmp_path):
    release().to_json(tmp_path / "release.json")
    again = na.Release.from_json(tmp_path / "release.json")
    assert again.n_records is None
    assert "unknown number of records" in repr(again)
    with pytest.raises(ValueError, match="naive"):
        na.baselines.naive(Bernoulli(), again)


def test_a_count_of_every_record():
    count = Count(None)
    assert count.statistic(np.zeros((3, 2))).sum() == 3
    assert (count.sensitivity(1), count.sensitivity(1, "add-remove")) == (0.0, 1.0)
    assert na.queries.from_dict(count.to_dict()) == count
    assert count.names == ("count of records",)
