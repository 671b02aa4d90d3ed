"""The other analyses against closed forms that are written down again here.

Draws are compared with the exact distribution by Kolmogorov-Smirnov tests. All p-values of one
check together alarm with probability at most `FALSE_ALARM`; draws of a Gibbs sampler that is
thinned to near independence count as 0.6 times as many.
"""

from __future__ import annotations

import math
import os
import sys

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.baselines import (
    bootstrap,
    bootstraps,
    debiased_bootstrap,
    naive,
    naive_note,
    non_private,
)
from noiseaware.baselines.naive import draw_with_small_noise, records_with
from noiseaware.baselines.non_private import NEARLY_INDEPENDENT
from noiseaware.mechanisms import additive
from noiseaware.queries.moments import MomentsQuery

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220614"))
FALSE_ALARM = 1e-6
DRAWS = 2000


def agree(draws, exact, effective=1.0):
    """Fail if the draws (m, k) are not from the k distributions of scipy."""
    draws = np.reshape(draws, (len(draws), -1))
    assert draws.shape[1] == len(exact)
    far = []
    for j, distribution in enumerate(exact):
        distance = stats.kstest(draws[:, j], distribution.cdf).statistic
        p_value = stats.kstwo.sf(distance, int(effective * len(draws)))
        if p_value < FALSE_ALARM / len(exact):
            far.append((j, float(distance), float(p_value)))
    assert not far, f"index, distance, p-value: {far}"


def released(values, query, n, epsilon=1.0):
    return na.Release(values, na.mechanisms.Laplace(query, epsilon=epsilon), n)


def test_the_old_name_works_and_says_so():
    with pytest.warns(DeprecationWarning, match=r"comparators is now noiseaware\.baselines"):
        assert na.comparators is na.baselines
    sys.modules.pop("noiseaware.comparators", None)
    with pytest.warns(DeprecationWarning, match=r"comparators is now noiseaware\.baselines"):
        from noiseaware.comparators import naive as old
    assert old is naive
    vars(na).pop("comparators")  # what the import above has put there


# ------------------------------------------------------------------ closed forms


@pytest.mark.parametrize(
    ("query", "values", "ones", "zeros"),
    [
        (na.queries.Count(1), [12.4], 12.4, 27.6),
        (na.queries.Count(0), [12.4], 27.6, 12.4),
        (na.queries.Count(1), [-3.0], 0.0, 40.0),
        (na.queries.Count(1), [51.0], 40.0, 0.0),
        (na.queries.Sum(0, 1), [12.4], 12.4, 27.6),
        (na.queries.Histogram(n_levels=2), [-2.0, 17.5], 17.5, 0.0),
    ],
)
def test_bernoulli(query, values, ones, zeros):
    model = na.models.Bernoulli(2.0, 3.0)
    drawn = naive(model, released(values, query, 40), draws=DRAWS, random_seed=SEED)
    agree(drawn["probability"], [stats.beta(2.0 + ones, 3.0 + zeros)])


def test_categorical():
    model = na.models.Categorical(3, concentration=[1.0, 2.0, 3.0])
    release = released([10.5, -4.0, 20.0], na.queries.Histogram(n_levels=3), 30)
    drawn = naive(model, release, draws=DRAWS, random_seed=SEED)["probabilities"]
    shapes = np.array([11.5, 2.0, 23.0])
    agree(drawn, [stats.beta(a, shapes.sum() - a) for a in shapes])


def test_naive_bayes():
    levels = [2, 3]
    model = na.models.NaiveBayes(2, levels, concentration=1.5)
    values = np.array([8.0, 3.0, 5.5, -2.0, 6.0, 9.0, 11.0, 4.0, 8.5, 9.0])
    release = released(values, na.queries.ClassFeatureCounts(2, levels), 30)
    drawn = naive(model, release, draws=DRAWS, random_seed=SEED)
    # class 0: 8 + 3 and 5.5 - 2 + 6; class 1: 9 + 11 and 4 + 8.5 + 9; the means of the two
    agree(drawn["class_probabilities"][:, 0], [stats.beta(1.5 + 10.25, 1.5 + 20.75)])
    agree(drawn["feature_probabilities_1"][:, 1, 0], [stats.beta(1.5 + 9, 1.5 + 11)])
    agree(drawn["feature_probabilities_2"][:, 0, 1], [stats.beta(1.5, 3.0 + 5.5 + 6.0)])


def check_normal():
    model = na.models.Normal(variance=4.0, mean_mean=1.0, mean_sd=0.5)
    precision = 1 / 0.25 + 25 / 4.0
    # A sum of 25 records that are at most 5 is at most 125.
    for value, total in ((60.0, 60.0), (200.0, 125.0)):
        release = released([value], na.queries.Sum(-5, 5), 25)
        drawn = naive(model, release, draws=DRAWS, random_seed=SEED)
        mean = (1.0 / 0.25 + total / 4.0) / precision
        agree(drawn["mean"], [stats.norm(mean, math.sqrt(1 / precision))])


def test_normal():
    check_normal()


@pytest.mark.parametrize(("value", "total"), [(31.5, 31.5), (-4.0, 0.0), (900.0, 400.0)])
def test_rates(value, total):
    release = released([value], na.queries.Sum(0, 20), 20)
    drawn = naive(na.models.Poisson(2.0, 0.5), release, draws=DRAWS, random_seed=SEED)
    agree(drawn["rate"], [stats.gamma(2.0 + total, scale=1 / 20.5)])
    drawn = naive(na.models.Exponential(2.0, 0.5), release, draws=DRAWS, random_seed=SEED)
    agree(drawn["rate"], [stats.gamma(22.0, scale=1 / (0.5 + total))])


def test_two_proportions():
    model = na.models.TwoProportions([30, 20], a=2.0, b=3.0)
    release = released([12.5, 27.0], na.queries.ByGroup(na.queries.Count(), 2), 50)
    drawn = naive(model, release, draws=DRAWS, random_seed=SEED)
    agree(drawn["proportions"], [stats.beta(14.5, 20.5), stats.beta(22.0, 3.0)])
    np.testing.assert_allclose(
        drawn["difference"], drawn["proportions"][:, 1] - drawn["proportions"][:, 0]
    )


def test_multivariate_normal_with_a_known_covariance():
    """Released without noise and without clamping: the conjugate posterior of the mean."""
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    model = na.models.MultivariateNormal(2, covariance=covariance, mean_sd=2.0)
    x = np.random.default_rng(SEED).multivariate_normal([1.0, -2.0], covariance, size=30)
    query = na.queries.Moments(2, [-30, -20], [20, 40])
    release = released(query.statistic(x).sum(axis=0), query, 30)
    drawn = naive(model, release, draws=DRAWS, random_seed=SEED)["mean"]
    precision = np.linalg.inv(covariance)
    variance = np.linalg.inv(30 * precision + np.eye(2) / 4.0)
    mean = variance @ precision @ x.sum(axis=0)
    exact = [stats.norm(m, math.sqrt(v)) for m, v in zip(mean, np.diag(variance), strict=True)]
    agree(drawn, exact, NEARLY_INDEPENDENT)


@pytest.mark.parametrize(
    ("model", "query", "n"),
    [
        (na.models.Poisson(), na.queries.Sum(0, 10), 30),
        (na.models.Exponential(), na.queries.Sum(0, 10), 30),
        (na.models.TwoProportions([30, 20]), na.queries.ByGroup(na.queries.Count(), 2), 50),
        (na.models.MultivariateNormal(2), na.queries.Moments(2, -10, 10), 40),
        (na.models.Categorical(3), na.queries.Histogram(n_levels=3), 40),
        (na.models.NaiveBayes(2, [2, 3]), na.queries.ClassFeatureCounts(2, [2, 3]), 40),
    ],
    ids=lambda part: type(part).__name__,
)
def test_estimates_are_parameters_of_the_model(model, query, n, seed):
    """Also from numbers that are impossible: records can be simulated from them."""
    rng = np.random.default_rng(seed)
    for scale in (1.0, 1000.0):
        release = released(rng.laplace(scale=scale, size=len(query.names)), query, n)
        outcome = bootstrap(model, release, draws=3, random_seed=seed)
        assert set(outcome.estimate) == {p.name for p in model.parameters}
        for parameter in model.parameters:
            assert np.shape(outcome.replicates[parameter.name]) == (3, *parameter.shape)
            assert np.isfinite(outcome.replicates[parameter.name]).all()


def check_regression():
    """Released without noise and without clamping, the posterior is that of section S-5."""
    rng = np.random.default_rng(SEED)
    model = na.models.LinearRegression(
        2, noise_variance=2.0, feature_mean=[0.9, -1.17], feature_covariance=np.eye(2)
    )
    records = model.sample_records({"coefficients": np.array([1.0, -2.0, 0.5])}, 60, rng)
    query = na.queries.RegressionMoments(2, [-30, -20, -50], [20, 30, 40])
    release = released(query.statistic(records).sum(axis=0), query, 60)
    x, y = np.column_stack([np.ones(60), records[:, :2]]), records[:, 2]
    covariance = np.linalg.inv(x.T @ x / 2.0 + np.eye(3) / 4.0)
    mean = covariance @ x.T @ y / 2.0
    exact = [stats.norm(m, math.sqrt(v)) for m, v in zip(mean, np.diag(covariance), strict=True)]
    agree(naive(model, release, draws=DRAWS, random_seed=SEED)["coefficients"], exact)
    agree(non_private(model, records, draws=DRAWS, random_seed=SEED)["coefficients"], exact)


def test_regression():
    check_regression()


def test_regression_with_everything_unknown_has_the_moments_of_the_records():
    rng = np.random.default_rng(SEED)
    model = na.models.LinearRegression(2)
    records = model.sample_records(model.sample_prior(rng), 80, rng)
    query = na.queries.RegressionMoments(2, -100, 100)
    release = released(query.statistic(records).sum(axis=0), query, 80)
    by_numbers = naive(model, release, draws=1000, random_seed=SEED)
    by_records = non_private(model, records, draws=1000, random_seed=SEED + 1)
    assert set(by_numbers) == {p.name for p in model.parameters}
    size = int(NEARLY_INDEPENDENT * 0.85 * 1000)
    for name, drawn in by_numbers.items():
        for a, b in zip(
            drawn.reshape(1000, -1).T, by_records[name].reshape(1000, -1).T, strict=True
        ):
            distance = stats.ks_2samp(a, b).statistic
            assert stats.kstwo.sf(distance, size // 2) > FALSE_ALARM / 10, name


def test_records_with_has_the_moments_that_are_asked_for(seed):
    rng = np.random.default_rng(seed)
    for q, n in ((1, 2), (3, 4), (3, 50), (5, 3)):
        root = rng.standard_normal((q, min(q, n - 1)))
        scatter, mean = root @ root.T, rng.standard_normal(q)
        records = records_with(mean, scatter, n)
        assert records.shape == (n, q)
        np.testing.assert_allclose(records.mean(axis=0), mean, atol=1e-9)
        np.testing.assert_allclose((records - mean).T @ (records - mean), scatter, atol=1e-9)


def test_impossible_moments_are_made_possible(seed):
    rng = np.random.default_rng(seed)
    query = na.queries.RegressionMoments(2, -10, 10)
    model = na.models.LinearRegression(2)
    for _ in range(20):
        values = rng.laplace(scale=200.0, size=9)
        mean, scatter = query.reading(values, 100).values
        assert (np.abs(mean) <= 10.0).all()
        assert np.linalg.eigvalsh(scatter).min() > -1e-6
        drawn = naive(model, released(values, query, 100), draws=20, random_seed=seed)
        assert all(np.isfinite(v).all() for v in drawn.values())
        bootstrap(model, released(values, query, 100), draws=3, random_seed=seed)


# ------------------------------------------------------------------ p(theta | x) by Gibbs


def test_non_private_normal_with_both_unknown():
    """Against the marginal of the mean on a grid."""
    model = na.models.Normal(mean_sd=2.0)
    x = np.random.default_rng(SEED).normal(1.0, 1.5, size=8)
    drawn = non_private(model, x, draws=DRAWS, random_seed=SEED)["mean"]
    mean = np.linspace(-6.0, 8.0, 4001)
    squares = ((x[:, None] - mean) ** 2).sum(axis=0)
    # the variance integrated out: InverseGamma(3, 2) with 8 records
    log_density = -0.5 * (mean / 2.0) ** 2 - (3 + 4) * np.log(2.0 + 0.5 * squares)
    cdf = np.cumsum(np.exp(log_density - log_density.max()))
    cdf /= cdf[-1]
    distance = stats.kstest(drawn, lambda v: np.interp(v, mean, cdf)).statistic
    assert stats.kstwo.sf(distance, int(NEARLY_INDEPENDENT * 0.85 * DRAWS)) > FALSE_ALARM


# ------------------------------------------------------------------ everything else


@pytest.mark.full
def test_small_noise_is_nearly_the_closed_form():
    """On a pair that has one: the same mean, and a width within what is said of it."""
    model = na.models.Normal(variance=4.0, mean_mean=0.0, mean_sd=2.0)
    release = released([60.0], na.queries.Sum(-50, 50), 25)
    drawn = draw_with_small_noise(model, release, release.values, DRAWS, SEED)["mean"]
    precision = 1 / 4.0 + 25 / 4.0
    exact_mean, exact_sd = 60.0 / 4.0 / precision, math.sqrt(1 / precision)
    size = na_ess(drawn)
    limit = stats.norm.isf(FALSE_ALARM / 4) * 1.15
    assert abs(drawn.mean() - exact_mean) < limit * exact_sd / math.sqrt(size)
    # 1% more variance, and twice the error of a variance of `size` normal draws
    assert abs(drawn.var() / exact_sd**2 - 1.01) < 0.01 + limit * math.sqrt(2.0 / size)


def na_ess(draws):
    from arviz_stats.base import array_stats

    squares = (draws - draws.mean()) ** 2
    return min(float(array_stats.ess(v[None], chain_axis=0, draw_axis=1)) for v in (draws, squares))


def test_a_model_without_closed_form_is_sampled():
    model = na.models.Normal()
    release = released([40.0], na.queries.Sum(-10, 10), 20)
    assert "by sampling" in naive_note(model, release)


@pytest.mark.full
def test_the_same_seed_gives_the_same_naive_analysis():
    release = released([40.0], na.queries.Sum(-10, 10), 20)
    one, other = (naive(na.models.Normal(), release, draws=50, random_seed=SEED) for _ in range(2))
    assert {name: v.shape for name, v in one.items()} == {"mean": (50,), "variance": (50,)}
    np.testing.assert_array_equal(one["mean"], other["mean"])


def test_what_cannot_be_taken_as_exact_is_said():
    model = na.models.Bernoulli()
    records = np.array([0, 1, 1, 0])
    mechanism = na.mechanisms.RandomizedResponse(n_levels=2, epsilon=1.0)
    release = mechanism.privatize(records, np.random.default_rng(1))
    assert naive_note(model, release).startswith("There is no naive analysis")
    with pytest.raises(ValueError, match="no naive analysis of a release by RandomizedResponse"):
        naive(model, release)
    with pytest.raises(ValueError, match="not sufficient statistics"):
        bootstrap(na.models.Normal(), released([1.0], na.queries.Sum(0, 1), 5))


# ------------------------------------------------------------------ the bootstrap


def check_bootstrap():
    """A count: the estimates vary by the binomial variance and the noise of the mechanism."""
    n, draws = 400, 4000
    mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.2)
    outcome = bootstrap(
        na.models.Bernoulli(),
        na.Release([120.0], mechanism, n),
        draws=draws,
        random_seed=SEED,
    )
    assert outcome.estimate["probability"] == pytest.approx(0.3)
    estimates = outcome.replicates["probability"]
    binomial, noise = 0.3 * 0.7 / n, 2 * 5.0**2 / n**2
    variance = binomial + noise
    # the fourth central moment of a sum: 3 of the normal part, 6 of Laplace
    fourth = 3 * binomial**2 + 6 * binomial * noise + 24 * 5.0**4 / n**4
    limit = stats.norm.isf(FALSE_ALARM / 4)
    assert abs(estimates.mean() - 0.3) < limit * math.sqrt(variance / draws)
    assert abs(estimates.var() - variance) < limit * math.sqrt((fourth - variance**2) / draws)
    low, high = outcome.interval("probability", 0.9)
    basic_low, basic_high = outcome.interval("probability", 0.9, kind="basic")
    assert low == np.quantile(estimates, 0.05)
    assert (basic_low, basic_high) == pytest.approx((0.6 - high, 0.6 - low))


def test_bootstrap():
    check_bootstrap()


# ------------------------------------------------------------------ the debiased bootstrap

CLAMPED = na.models.Normal(variance=1.0)
CLAMPED_SUM = na.mechanisms.Laplace(na.queries.Sum(0.0, 1.0), epsilon=1.0)


def mean_of_clamped(mean):
    """E of a N(mean, 1) variable clamped to 0 and 1, by quadrature."""
    value, _ = integrate.quad(lambda x: x * stats.norm.pdf(x, mean), 0.0, 1.0)
    return value + stats.norm.sf(1.0, mean)


def check_debiased():
    """The estimate solves n E clamp(x) = s, up to the error of the simulated mean m."""
    n, s, simulations = 100, 84.1, 400
    outcome = debiased_bootstrap(
        CLAMPED, na.Release([s], CLAMPED_SUM, n), draws=2, simulations=simulations,
        random_seed=SEED,
    )  # fmt: skip
    exactly = optimize.brentq(lambda mean: n * mean_of_clamped(mean) - s, -3.0, 5.0)
    slope = n * (mean_of_clamped(exactly + 0.01) - mean_of_clamped(exactly - 0.01)) / 0.02
    # a clamped record varies by at most 1/4, the noise by 2
    error = math.sqrt((n / 4 + 2) / simulations) / slope
    assert abs(float(outcome.estimate["mean"]) - exactly) < stats.norm.isf(FALSE_ALARM / 2) * error


def test_the_debiased_estimate_knows_of_clamping():
    check_debiased()


def held(method, kind, truth=0.9, n=100, releases=60):
    """How many of 90% intervals hold the mean."""
    count = 0
    for seed in range(releases):
        rng = np.random.default_rng([SEED, seed])
        release = CLAMPED_SUM.privatize(rng.normal(truth, 1.0, n), rng)
        low, high = method(CLAMPED, release, draws=100, random_seed=seed).interval(
            "mean", 0.9, kind
        )
        count += bool(low <= truth <= high)
    return count


@pytest.mark.full
def test_coverage_with_clamped_records():
    """At 90% fewer than 42 of 60 have probability 1e-5; those that ignore clamping hold none."""
    debiased, plain = held(debiased_bootstrap, "percentile"), held(bootstrap, "percentile")
    print(f"of 60 intervals {debiased} hold the truth, {plain} of those that ignore clamping")
    assert debiased >= stats.binom.ppf(1e-5, 60, 0.9)
    assert plain < 10


def test_the_debiased_bootstrap_refuses_in_one_line():
    two = released([1.0], na.queries.Sum(0, 1), 5)
    with pytest.raises(ValueError, match="as many released numbers as Normal has parameters, 2"):
        debiased_bootstrap(na.models.Normal(), two)
    with pytest.raises(ValueError, match="simulations must be"):
        debiased_bootstrap(CLAMPED, two, simulations=1)


def test_the_debiased_bootstrap_of_groups_and_of_a_joint_mechanism():
    query = na.queries.ByGroup(na.queries.Count(), 2)
    release = na.Release([12.0, 30.0], na.mechanisms.KNorm(query, epsilon=2.0), 80)
    model = na.models.TwoProportions([30, 50])
    outcome = debiased_bootstrap(model, release, draws=3, simulations=20, random_seed=1)
    assert np.allclose(outcome.estimate["proportions"], [0.4, 0.6], atol=0.1)
    assert outcome.replicates["proportions"].shape == (3, 2)


def test_bootstrap_interval_arguments():
    release = released([3.0], na.queries.Count(), 10)
    outcome = bootstrap(na.models.Bernoulli(), release, draws=5, random_seed=1)
    for arguments, message in (
        (("p",), "name must be one of probability"),
        (("probability", 1.5), "level must be between"),
        (("probability", 0.9, "bca"), "kind must be"),
    ):
        with pytest.raises(ValueError, match=message):
            outcome.interval(*arguments)


# ------------------------------------------------------------------ planted bugs

BUGS = {
    "the scaling is not undone": (
        check_regression,
        Edit(MomentsQuery, "reading", "scatter * np.outer(half_width, half_width)", "scatter"),
    ),
    "the centre is not added back": (
        check_regression,
        Edit(MomentsQuery, "reading", "(centre + half_width *", "(half_width *"),
    ),
    "an impossible sum is kept": (
        check_normal,
        Edit(na.queries.Sum, "reading", "n * upper", "np.inf"),
    ),
    "the simulated records are not clamped": (
        check_debiased,
        Edit(
            bootstraps.Simulator,
            "totals",
            "t = self.release.query.statistic(rows)",
            "t = rows[:, None]",
        ),
    ),
    "the bootstrap adds no noise": (
        check_bootstrap,
        Edit(
            additive.AdditiveNoise,
            "_draw",
            "total + self._noise(len(total), rng)",
            "total",
        ),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name):
    check, edit = BUGS[name]
    with planted(edit), pytest.raises(AssertionError):
        check()
