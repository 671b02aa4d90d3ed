"""Sampled posteriors against closed forms and quadrature.

Every test has a false-alarm rate of at most 1e-5 (`exact.known` says how it is divided) and a
fixed seed, which the environment variable NOISEAWARE_TEST_SEED changes. The bugs that they are
shown to catch are in `tests/mutants`. `make test` runs every model with Algorithm 1 and with the
default moves, and every noise once; `make validate` runs every model and noise with all the moves.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import noiseaware as na
from exact.known import BetaMixture, Gauss, Table, assert_draws_agree, sampled
from later import all_but, only


def algorithm1():
    return na.moves.algorithm1()


def transported():
    """Steps of every proposal, whatever warm-up would choose: with few records, perhaps none."""
    return (na.moves.ParameterUpdate(), na.moves.Transport(steps=1), na.moves.RecordSweep())


def default():
    return None


MOVES = (algorithm1, transported, default)
each_of_the_moves = pytest.mark.parametrize("moves", all_but([transported], MOVES))
NOISES = ("Laplace", "Gaussian", "DiscreteLaplace", "DiscreteGaussian")


def log_noise(kind, error, scale):
    """Log density of the noise, up to a constant."""
    if kind.endswith("Laplace"):
        return -np.abs(error) / scale
    return -((error / scale) ** 2) / 2


# ------------------------------------------------------------------ Bernoulli


def check_bernoulli(moves, kind="Laplace", *, n=12, value=10, a=2.0, b=3.5):
    """A mixture over the count k: BetaBinomial(k) g(s - k) Beta(a + k, b + n - k)."""
    scale = 1.3
    mechanism = getattr(na.mechanisms, kind)(na.queries.Count(), scale=scale)
    k = np.arange(n + 1)
    log_weights = stats.betabinom.logpmf(k, n, a, b) + log_noise(kind, value - k, scale)
    exact = BetaMixture(np.exp(log_weights - log_weights.max()), a + k, b + n - k)
    tree = sampled(na.models.Bernoulli(a, b), na.Release([value], mechanism, n), moves(), stream=1)
    posterior = tree["posterior"]
    assert_draws_agree({"probability": exact}, lambda name: posterior[name].values)


@pytest.mark.parametrize(
    ("kind", "moves"),
    only(
        [
            ("Laplace", algorithm1),
            ("Gaussian", transported),
            ("DiscreteLaplace", default),
            ("DiscreteGaussian", algorithm1),
        ],
        itertools.product(NOISES, MOVES),
    ),
)
def test_bernoulli_is_a_beta_mixture(kind, moves):
    check_bernoulli(moves, kind)


# ------------------------------------------------------------------ Normal


def check_normal_mean(moves):
    """Known variance, Gaussian noise, bounds too wide to matter: everything is normal."""
    n, variance, scale, prior_mean, prior_sd = 8, 1.5, 3.0, 1.0, 2.0
    value = 14.0
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(-200, 200), scale=scale)
    model = na.models.Normal(variance=variance, mean_mean=prior_mean, mean_sd=prior_sd)
    noise = n * variance + scale**2  # of the released value, given the mean
    precision = prior_sd**-2 + n**2 / noise
    exact = Gauss((prior_mean * prior_sd**-2 + n * value / noise) / precision, 1 / precision)
    tree = sampled(model, na.Release([value], mechanism, n), moves(), stream=2)
    assert_draws_agree({"mean": exact}, lambda name: tree["posterior"][name].values)


@pytest.mark.parametrize("moves", only([algorithm1], MOVES))
def test_normal_mean_is_normal(moves):
    check_normal_mean(moves)


def check_clamped_mean(moves):
    """Bounds that cut the records: two clamped records by quadrature, theta on a grid."""
    lower, upper, sd, scale, prior_sd, value = -0.5, 1.0, 1.2, 0.5, 1.5, 2.3
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = 0.5 * (upper + lower) + 0.5 * (upper - lower) * nodes
    values = np.concatenate([x, [lower, upper]])
    errors = log_noise("Gaussian", value - values[:, None] - values, scale)
    mu = np.linspace(-12, 12, 2401)
    inside = 0.5 * (upper - lower) * weights * stats.norm.pdf(x, mu[:, None], sd)
    mass = np.column_stack([inside, stats.norm.cdf(lower, mu, sd), stats.norm.sf(upper, mu, sd)])
    log_density = np.log(np.einsum("ki,ij,kj->k", mass, np.exp(errors), mass, optimize=True))
    exact = Table(mu, log_density - 0.5 * (mu / prior_sd) ** 2)
    model = na.models.Normal(variance=sd**2, mean_sd=prior_sd)
    mechanism = na.mechanisms.Gaussian(na.queries.Sum(lower, upper), scale=scale)
    tree = sampled(model, na.Release([value], mechanism, 2), moves(), stream=3)
    assert_draws_agree({"mean": exact}, lambda name: tree["posterior"][name].values)


@each_of_the_moves
def test_normal_mean_with_records_that_are_clamped(moves):
    check_clamped_mean(moves)


def check_variance(moves):
    """Known mean 0, unknown variance v, a release of the sum of squares: T = v chi-square(n)."""
    n, scale, value, shape, rate = 4, 2.0, 9.0, 8.0, 12.0
    query = na.Query(lambda x: x**2, ["sum of squares"], sensitivity={1: 100.0, 2: 100.0})
    q = np.linspace(0, 60, 3001)[1:]
    chi2 = stats.chi2.pdf(q, n)
    v = np.linspace(0, 40, 4001)[1:]
    likelihood = np.array(
        [chi2 @ np.exp(log_noise("Gaussian", value - each * q, scale)) for each in v]
    )
    # The steps of T, 0.02 v, are small against the scale of the noise, so that the sum is as good
    # as the integral. The prior's shape keeps the tail light enough for a fourth moment.
    exact = Table(v, np.log(likelihood + 1e-300) - (shape + 1) * np.log(v) - rate / v)
    model = na.models.Normal(mean=0.0, variance_shape=shape, variance_scale=rate)
    release = na.Release([value], na.mechanisms.Gaussian(query, scale=scale), n)
    tree = sampled(model, release, moves(), stream=4)
    assert_draws_agree({"variance": exact}, lambda name: tree["posterior"][name].values)


@each_of_the_moves
def test_normal_variance_by_quadrature(moves):
    check_variance(moves)


# ------------------------------------------------------------------ Categorical, naive Bayes


def log_dirichlet_multinomial(counts, concentration):
    """Log probability of one sequence of levels with these counts, probabilities integrated out."""
    counts = np.asarray(counts, dtype=float)
    a = np.broadcast_to(concentration, counts.shape)
    return float(
        special.gammaln(a.sum())
        - special.gammaln(a.sum() + counts.sum())
        + (special.gammaln(a + counts) - special.gammaln(a)).sum()
    )


def check_categorical(moves, kind="Laplace"):
    """A mixture over the counts, each margin a beta."""
    n, concentration, values, scale = 6, np.array([0.7, 1.5, 2.0]), np.array([4, -1, 3]), 1.2
    counts = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)])
    log_weights = np.array(
        [
            special.gammaln(n + 1)
            - special.gammaln(c + 1).sum()
            + log_dirichlet_multinomial(c, concentration)
            + log_noise(kind, values - c, scale).sum()
            for c in counts
        ]
    )
    weights = np.exp(log_weights - log_weights.max())
    a = concentration + counts
    exact = {str(j): BetaMixture(weights, a[:, j], a.sum(1) - a[:, j]) for j in range(3)}
    mechanism = getattr(na.mechanisms, kind)(na.queries.Histogram(n_levels=3), scale=scale)
    model = na.models.Categorical(3, concentration)
    tree = sampled(model, na.Release(values, mechanism, n), moves(), stream=5)
    draws = tree["posterior"]["probabilities"].values
    assert_draws_agree(exact, lambda name: draws[..., int(name)])


@each_of_the_moves
def test_categorical_is_a_dirichlet_mixture(moves):
    check_categorical(moves)


@functools.cache
def naive_bayes_posterior(values, scale, n=3, concentration=2.0):
    """Collapse the Dirichlets, enumerate the databases: 512 of them."""
    rows = list(itertools.product(range(2), repeat=3))
    log_weights, classes, features = [], [], []
    for database in itertools.product(rows, repeat=n):
        n_class = [0, 0]
        table = np.zeros((2, 2, 2))
        for c, *levels in database:
            n_class[c] += 1
            for k, level in enumerate(levels):
                table[c, k, level] += 1
        log_weights.append(
            log_dirichlet_multinomial(n_class, concentration)
            + sum(
                log_dirichlet_multinomial(table[c, k], concentration)
                for c in range(2)
                for k in range(2)
            )
            + log_noise("Laplace", np.array(values) - table.ravel(), scale).sum()
        )
        classes.append(n_class)
        features.append(table)
    weights = np.exp(np.array(log_weights) - max(log_weights))
    classes, features = np.array(classes) + concentration, np.array(features) + concentration
    exact = {"class": BetaMixture(weights, classes[:, 0], classes[:, 1])}
    for c, k in itertools.product(range(2), repeat=2):
        exact[f"{c}{k}"] = BetaMixture(weights, features[:, c, k, 0], features[:, c, k, 1])
    return exact


def check_naive_bayes(moves):
    values, scale = (5.2, -0.4, 0.3, 2.6, 1.1, -2.0, 0.2, 0.5), 0.8
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [2, 2]), scale=scale)
    release = na.Release(values, mechanism, 3)
    tree = sampled(na.models.NaiveBayes(2, [2, 2]), release, moves(), stream=6)
    classes = tree["posterior"]["class_probabilities"].values
    features = tree["posterior"]["feature_probabilities"].values

    def draws(name):
        if name == "class":
            return classes[..., 0]
        return features[:, :, int(name[0]), int(name[1]), 0]

    assert_draws_agree(naive_bayes_posterior(values, scale), draws)


@each_of_the_moves
def test_naive_bayes_by_enumeration(moves):
    check_naive_bayes(moves)


# ------------------------------------------------------------------ chains, acceptance


def check_chains_are_independent():
    """No two chains share a draw, and they are not correlated.

    With m independent draws a correlation is about normal with variance 1 / m. The false-alarm
    rate is 1e-5 over the six pairs; neighbouring draws are dependent, so every tenth is used.
    """
    mechanism = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    release = na.Release([4.0], mechanism, 10)
    tree = sampled(na.models.Bernoulli(), release, algorithm1(), draws=3000, stream=7)
    draws = tree["posterior"]["probability"].values
    limit = stats.norm.isf(1e-5 / 12) / math.sqrt(draws.shape[1] / 10)
    for i, j in itertools.combinations(range(len(draws)), 2):
        assert not np.isin(draws[i], draws[j]).any(), f"chains {i} and {j} share draws"
        assert abs(np.corrcoef(draws[i, ::10], draws[j, ::10])[0, 1]) < limit


def test_chains_are_independent():
    check_chains_are_independent()


def check_acceptance_bound():
    """The check of exp(-epsilon) passes on a release whose query attains its sensitivity.

    The tables are noisy far beyond the database, so that the worst pair of records, all K cells of
    one class against all K of the other, is met.
    """
    query = na.queries.ClassFeatureCounts(2, [2, 2])
    mechanism = na.mechanisms.Laplace(query, scale=4.0)
    release = na.Release([9, 9, 9, 9, -9, -9, -9, -9], mechanism, 5)
    tree = sampled(na.models.NaiveBayes(2, [2, 2]), release, algorithm1(), draws=300, stream=8)
    verdicts = {v.name: v for v in na.check(tree).verdicts}
    verdict = verdicts["acceptance against exp(-epsilon)"]
    assert verdict.passed, verdict.message
    lowest = float(tree["sample_stats"]["lowest_log_acceptance"].min())
    assert lowest == pytest.approx(-1.0, rel=1e-12), "epsilon = 2K / scale is attained"


def test_acceptance_bound_is_kept_and_attained():
    check_acceptance_bound()
