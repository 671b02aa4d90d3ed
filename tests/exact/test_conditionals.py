"""`update_parameters` against answers that do not come from it.

Three kinds of answer:

* closed forms: where p(theta | x) is a known distribution, its draws are compared with it
  (Kolmogorov-Smirnov on coordinates that should be independent, or on marginals);
* quadrature: where p(theta | x) has two coordinates and no closed form, it is tabulated from
  SciPy's densities; exact draws from the table go through one scan, and what comes out is compared
  with the table again, in both margins and in the mean product;
* the joint test (Geweke 2004, in independent replicates): theta ~ p(theta), x ~ f(x | theta),
  theta' ~ the scan from theta given x. If the scan leaves p(theta | x) invariant then (theta', x)
  has the same joint distribution as (theta, x). So theta' follows the prior, and the innovations
  u' = F^{-1}(x; theta') are independent draws of their fixed distribution, whatever theta' is.

Each test looks at m p-values and fails if one is below 1e-6 / m: a false-alarm rate of at most 1e-6
a test. Seeds are fixed (NOISEAWARE_TEST_SEED changes them). Every kind of test is shown to catch
bugs planted in the source. `make test` has fewer draws, and one bug of each case that plain Python
is quick with; `make validate` has all, and also passes the same copy of the source without a bug.

Geweke (2004), Getting it right: joint distribution tests of posterior simulators, JASA 99(467).
"""

import functools
import math
import os

import numpy as np
import pytest
from scipy import special, stats

from later import first_of_each, only
from mutate_models import mutated_models
from noiseaware import models

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220604"))
FALSE_ALARM = 1e-6


def ks(values, cdf):
    return stats.kstest(values, cdf, method="asymp").pvalue


def mean_zero(values):
    """Two-sided p-value that the rows of ``values`` have mean 0, by their own standard error."""
    values = np.asarray(values)
    error = values.std(axis=0) / math.sqrt(len(values))
    return 2 * stats.norm.sf(np.abs(values.mean(axis=0)) / error)


def assert_agrees(p_values):
    p_values = np.ravel(p_values)
    assert p_values.min() > FALSE_ALARM / len(p_values), np.sort(p_values)[:3]


def assert_caught(p_values):
    p_values = np.ravel(p_values)
    assert p_values.min() < FALSE_ALARM / len(p_values), np.sort(p_values)[:3]


# ------------------------------------------------------------------ closed forms


def draws_of(model, theta, records, n_draws, rng, name):
    return np.array([model.update_parameters(theta, records, rng)[name] for _ in range(n_draws)])


def bernoulli_p_values(package, rng, n_draws):
    model = package.Bernoulli(2.0, 0.7)
    records = np.array([1, 0, 0, 1, 0, 0, 0])
    draws = draws_of(model, {"probability": 0.5}, records, n_draws, rng, "probability")
    return [ks(draws, stats.beta(2.0 + 2, 0.7 + 5).cdf)]


def dirichlet_p_values(draws, shapes):
    """Marginals are Beta(a_j, A - a_j); products have mean a_i a_j / (A (A + 1)), i not j."""
    total = shapes.sum()
    p_values = [ks(draws[:, j], stats.beta(a, total - a).cdf) for j, a in enumerate(shapes)]
    for i in range(len(shapes)):
        for j in range(i):
            expected = shapes[i] * shapes[j] / (total * (total + 1))
            p_values.append(mean_zero(draws[:, i] * draws[:, j] - expected))
    return p_values


def categorical_p_values(package, rng, n_draws, pool_size=None):
    concentration = np.array([0.3, 1.0, 2.5, 0.8])
    model = package.Categorical(4, concentration)
    if pool_size is not None:
        model._pool_size = pool_size
    records = np.array([2, 2, 3, 2, 1])
    theta = {"probabilities": np.full(4, 0.25)}
    draws = draws_of(model, theta, records, n_draws, rng, "probabilities")
    return dirichlet_p_values(draws, concentration + np.array([0, 1, 3, 1]))


def naive_bayes_p_values(package, rng, n_draws):
    model = package.NaiveBayes(3, [2, 2], concentration=0.9)
    records = np.array([[0, 0, 1], [2, 1, 1], [2, 1, 0], [2, 1, 1], [0, 0, 0]])
    theta = model.sample_prior(rng)
    draws = [model.update_parameters(theta, records, rng) for _ in range(n_draws)]
    classes = np.array([draw["class_probabilities"] for draw in draws])
    features = np.array([draw["feature_probabilities"] for draw in draws])
    p_values = dirichlet_p_values(classes, 0.9 + np.array([2, 0, 3]))
    counts = np.zeros((3, 2, 2))
    for y, *levels in records:
        for k, level in enumerate(levels):
            counts[y, k, level] += 1
    for y in range(3):
        for k in range(2):
            shapes = 0.9 + counts[y, k]
            p_values.append(ks(features[:, y, k, 0], stats.beta(*shapes).cdf))
    # Different vectors are independent of each other.
    firsts = np.column_stack([classes[:, 0], features[..., 0].reshape(n_draws, -1)])
    centred = firsts - firsts.mean(axis=0)
    for i in range(centred.shape[1]):
        p_values += [mean_zero(centred[:, i] * centred[:, j]) for j in range(i)]
    return p_values


def regression_p_values(package, rng, n_draws):
    """Known variance: beta | x, y is N(mu_n, Sigma_n) with the paper's S-5 formulas."""
    sigma2, tau = 2.0, 1.5
    model = package.LinearRegression(2, tau, sigma2, [0.9, -1.17], np.eye(2))
    records = np.random.default_rng(5).normal([0.9, -1.17, 2.0], [1.0, 1.0, 3.0], size=(6, 3))
    x = np.column_stack([np.ones(6), records[:, :2]])
    precision = x.T @ x / sigma2 + np.eye(3) / tau**2
    mean = np.linalg.solve(precision, x.T @ records[:, 2] / sigma2)
    draws = draws_of(model, {"coefficients": np.zeros(3)}, records, n_draws, rng, "coefficients")
    # L' (beta - mu_n) is standard normal if L L' is the precision.
    white = (draws - mean) @ np.linalg.cholesky(precision)
    p_values = [ks(column, stats.norm.cdf) for column in white.T]
    return p_values + [mean_zero(white[:, i] * white[:, j]) for i in range(3) for j in range(i)]


def normal_mean_p_values(package, rng, n_draws):
    model = package.Normal(variance=2.0, mean_mean=1.0, mean_sd=1.5)
    records = np.array([3.0, 4.5, -1.0])
    draws = draws_of(model, {"mean": 0.0}, records, n_draws, rng, "mean")
    precision = 1 / 1.5**2 + 3 / 2.0
    centre = (1.0 / 1.5**2 + records.sum() / 2.0) / precision
    return [ks(draws, stats.norm(centre, precision**-0.5).cdf)]


def normal_variance_p_values(package, rng, n_draws):
    model = package.Normal(mean=1.0, variance_shape=2.5, variance_scale=1.2)
    records = np.array([3.0, 0.5, -1.0])
    draws = draws_of(model, {"variance": 1.0}, records, n_draws, rng, "variance")
    posterior = stats.invgamma(2.5 + 1.5, scale=1.2 + 0.5 * ((records - 1.0) ** 2).sum())
    return [ks(draws, posterior.cdf)]


class Table:
    """A density of two coordinates on a grid that covers it, constant within each cell."""

    def __init__(self, first, second, log_density):
        weights = np.exp(log_density - log_density.max())
        self.axes, self.weights = (first, second), weights / weights.sum()
        self.steps = [axis[1] - axis[0] for axis in self.axes]
        self.margins = [self.weights.sum(axis=1), self.weights.sum(axis=0)]

    def draw(self, n, rng):
        cells = rng.choice(self.weights.size, size=n, p=self.weights.ravel())
        at = np.unravel_index(cells, self.weights.shape)
        return [
            axis[i] + step * (rng.random(n) - 0.5)
            for axis, i, step in zip(self.axes, at, self.steps, strict=True)
        ]

    def p_values(self, found):
        """Both margins, and two mixed moments."""
        p_values, centred = [], []
        for values, axis, step, margin in zip(
            found, self.axes, self.steps, self.margins, strict=True
        ):
            edges = np.append(axis - step / 2, axis[-1] + step / 2)
            cdf = np.append(0.0, np.cumsum(margin))
            p_values.append(ks(values, lambda t, e=edges, c=cdf: np.interp(t, e, c)))
            centred.append((values - margin @ axis, axis - margin @ axis))
        (a, first), (b, second) = centred
        # A location depends on its scale in the second moment only.
        return [
            *p_values,
            mean_zero(a * b - first @ self.weights @ second),
            mean_zero(a * a * b - first**2 @ self.weights @ second),
        ]


def through_one_scan(table, update, rng, n_draws, correlation=0.8):
    """P-values of exact draws of the table after one scan, `update(first, second)`.

    The scan must move as well: standing still would leave everything invariant. ``correlation``
    bounds that of each coordinate with what it was.
    """
    start = table.draw(n_draws, rng)
    found = np.array([update(a, b) for a, b in zip(*start, strict=True)], dtype=float).T
    for before, after in zip(start, found, strict=True):
        assert np.mean(before != after) > 0.5
        assert np.corrcoef(before, after)[0, 1] < correlation
    return table.p_values(found)


NORMAL = {"mean_mean": 0.5, "mean_sd": 2.0, "variance_shape": 2.5, "variance_scale": 1.5}
NORMAL_RECORDS = np.array([2.0, 3.5, -0.5, 1.0])


@functools.cache
def normal_table():
    """p(mu, log v | x)."""
    mu, w = np.linspace(-7.0, 9.0, 801), np.linspace(-3.5, 6.0, 801)
    variance = np.exp(w)
    table = stats.norm.logpdf(mu, 0.5, 2.0)[:, None] + w
    table = table + stats.invgamma.logpdf(variance, 2.5, scale=1.5)
    for x in NORMAL_RECORDS:
        table = table + stats.norm.logpdf(x, mu[:, None], np.sqrt(variance))
    return Table(mu, w, table)


def normal_quadrature_p_values(package, rng, n_draws):
    model = package.Normal(**NORMAL)

    def update(mu, w):
        theta = {"mean": mu, "variance": math.exp(w)}
        new = model.update_parameters(theta, NORMAL_RECORDS, rng)
        return new["mean"], math.log(new["variance"])

    return through_one_scan(normal_table(), update, rng, n_draws)


SHARES = np.array([[0.3, 0.7], [0.5, 0.5], [0.2, 0.8]])


@functools.cache
def shares_table():
    """p(logit m, log A | x) of two shares."""
    v, w = np.linspace(-7.0, 6.0, 600), np.linspace(-4.5, 5.0, 600)
    m, precision = special.expit(v)[:, None], np.exp(w)
    table = stats.beta.logpdf(m, 2.0, 0.8) + np.log(m) + np.log1p(-m)
    table = table + stats.gamma.logpdf(precision, 1.5, scale=1 / 0.2) + w
    for x in SHARES[:, 0]:
        table = table + stats.beta.logpdf(x, precision * m, precision * (1 - m))
    return Table(v, w, table)


def shares_p_values(package, rng, n_draws):
    model = package.Dirichlet(
        2, mean_concentration=[2.0, 0.8], precision_shape=1.5, precision_rate=0.2
    )

    def update(v, w):
        p = special.expit(v)
        theta = {"mean": np.array([p, 1 - p]), "precision": np.array(math.exp(w))}
        new = model.update_parameters(theta, SHARES, rng)
        return special.logit(new["mean"][0]), math.log(new["precision"])

    return through_one_scan(shares_table(), update, rng, n_draws)


def vector_mean_p_values(package, rng, n_draws):
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    prior_mean, prior_sd = np.array([1.0, -2.0]), np.array([1.5, 0.8])
    model = package.MultivariateNormal(
        2, covariance=covariance, mean_mean=prior_mean, mean_sd=prior_sd
    )
    records = np.array([[3.0, 0.5], [4.5, -1.0], [0.0, 0.2]])
    precision = 3 * np.linalg.inv(covariance) + np.diag(prior_sd**-2.0)
    pull = np.linalg.solve(covariance, records.sum(axis=0)) + prior_mean / prior_sd**2
    draws = draws_of(model, {"mean": np.zeros(2)}, records, n_draws, rng, "mean")
    white = (draws - np.linalg.solve(precision, pull)) @ np.linalg.cholesky(precision)
    p_values = [ks(column, stats.norm.cdf) for column in white.T]
    return [*p_values, mean_zero(white[:, 0] * white[:, 1])]


def vector_covariance_p_values(package, rng, n_draws):
    """C' Sigma^{-1} C with C C' = S + scatter is Wishart(df + n, I): Bartlett's entries."""
    mean, scale = np.array([1.0, -0.5]), np.array([[2.0, 0.8], [0.8, 1.0]])
    model = package.MultivariateNormal(2, mean=mean, covariance_df=3.5, covariance_scale=scale)
    records = np.array([[3.0, 0.5], [4.5, -1.0], [0.0, 0.2]])
    draws = draws_of(model, {"covariance": np.eye(2)}, records, n_draws, rng, "covariance")
    root = np.linalg.cholesky(scale + (records - mean).T @ (records - mean))
    factor = np.linalg.cholesky(root.T @ np.linalg.inv(draws) @ root)
    return [
        ks(factor[:, 0, 0] ** 2, stats.chi2(6.5).cdf),
        ks(factor[:, 1, 1] ** 2, stats.chi2(5.5).cdf),
        ks(factor[:, 1, 0], stats.norm.cdf),
        mean_zero((factor[:, 0, 0] ** 2 - 6.5) * factor[:, 1, 0]),
    ]


def exponential_p_values(package, rng, n_draws):
    model = package.Exponential(2.5, 1.5)
    records = np.array([0.3, 2.0, 0.9])
    draws = draws_of(model, {"rate": 1.0}, records, n_draws, rng, "rate")
    return [ks(draws, stats.gamma(2.5 + 3, scale=1 / (1.5 + records.sum())).cdf)]


def gamma_rate_p_values(package, rng, n_draws):
    model = package.Gamma(shape=1.7, rate_shape=2.5, rate_rate=1.5)
    records = np.array([0.3, 2.0, 0.9])
    draws = draws_of(model, {"rate": 1.0}, records, n_draws, rng, "rate")
    return [ks(draws, stats.gamma(2.5 + 3 * 1.7, scale=1 / (1.5 + records.sum())).cdf)]


def gamma_shape_p_values(package, rng, n_draws):
    """The rate known: exact draws of p(k | x), by quadrature in log k, through one step."""
    model = package.Gamma(rate=0.8, shape_shape=2.0, shape_rate=0.7)
    records = np.array([0.3, 2.0, 0.9, 4.0])

    def log_density(v):
        shape = np.exp(v)
        likelihood = stats.gamma.logpdf(records[:, None], shape, scale=1 / 0.8).sum(axis=0)
        return likelihood + stats.gamma.logpdf(shape, 2.0, scale=1 / 0.7) + v

    grid = np.linspace(math.log(1e-4), math.log(50.0), 20001)
    values = log_density(grid)
    weights = np.exp(values - values.max())
    cdf = np.append(0.0, np.cumsum(0.5 * (weights[1:] + weights[:-1])))
    cdf /= cdf[-1]
    start = np.interp(rng.random(n_draws), cdf, grid)
    out = [
        float(model.update_parameters({"shape": np.exp(v)}, records, rng)["shape"]) for v in start
    ]
    moved = np.log(out)
    # The step must move as well: standing still would leave everything invariant.
    assert np.corrcoef(start, moved)[0, 1] < 0.6
    return [ks(moved, lambda t: np.interp(t, grid, cdf))]


GAMMA_RECORDS = np.array([0.3, 2.0, 0.9, 4.0])


@functools.cache
def gamma_table():
    """p(log k, log r | x), without the algebra that integrates r out."""
    v, w = np.linspace(math.log(1e-3), math.log(60), 700), np.linspace(-9.0, 5.0, 700)
    shape, rate = np.exp(v)[:, None], np.exp(w)
    table = stats.gamma.logpdf(shape, 2.0, scale=1 / 0.7) + v[:, None]
    table = table + stats.gamma.logpdf(rate, 2.5, scale=1 / 1.5) + w
    for x in GAMMA_RECORDS:
        table = table + stats.gamma.logpdf(x, shape, scale=1 / rate)
    return Table(v, w, table)


def gamma_p_values(package, rng, n_draws):
    model = package.Gamma(shape_shape=2.0, shape_rate=0.7, rate_shape=2.5, rate_rate=1.5)

    def update(v, w):
        theta = {"shape": math.exp(v), "rate": math.exp(w)}
        new = model.update_parameters(theta, GAMMA_RECORDS, rng)
        return math.log(new["shape"]), math.log(new["rate"])

    return through_one_scan(gamma_table(), update, rng, n_draws)


def poisson_p_values(package, rng, n_draws):
    model = package.Poisson(1.5, 2.5)
    records = np.array([3, 0, 7, 1])
    draws = draws_of(model, {"rate": 1.0}, records, n_draws, rng, "rate")
    return [ks(draws, stats.gamma(1.5 + 11, scale=1 / (2.5 + 4)).cdf)]


OVERDISPERSED = np.array([0, 4, 9, 1, 1])


@functools.cache
def negative_binomial_table():
    """p(log m, log d | x)."""
    log_m, log_d = np.linspace(-3, 5, 601), np.linspace(-9, 4, 651)
    m, d = np.exp(log_m)[:, None], np.exp(log_d)[None, :]
    table = stats.gamma.logpdf(m, 2.0, scale=1 / 0.3) + log_m[:, None]
    table = table + stats.gamma.logpdf(d, 1.5, scale=1 / 1.2) + log_d
    for x in OVERDISPERSED:
        table = table + stats.nbinom.logpmf(x, 1 / d, 1 / (1 + d * m))
    return Table(log_m, log_d, table)


def negative_binomial_p_values(package, rng, n_draws):
    model = package.NegativeBinomial(
        mean_shape=2.0, mean_rate=0.3, dispersion_shape=1.5, dispersion_rate=1.2
    )

    def update(v, w):
        theta = {"mean": math.exp(v), "dispersion": math.exp(w)}
        new = model.update_parameters(theta, OVERDISPERSED, rng)
        return math.log(new["mean"]), math.log(new["dispersion"])

    return through_one_scan(negative_binomial_table(), update, rng, n_draws)


RESPONSES = np.array([[0.5, 1], [-1.0, 0], [2.0, 1], [0.3, 0], [-0.7, 1]])


@functools.cache
def response_table(kind):
    """p(beta | x) of the intercept and the slope; the counts are three times the zeros and ones."""
    axes = np.linspace(-6.5, 5.5, 501), np.linspace(-6.0, 7.0, 501)
    first, second = np.meshgrid(*axes, indexing="ij")
    table = -0.5 * (first**2 + second**2) / 1.5**2
    for x, y in RESPONSES:
        eta = first + second * x
        if kind == "logistic":
            table += y * eta - np.logaddexp(0.0, eta)
        else:
            table += stats.poisson.logpmf(3 * y, np.minimum(np.exp(eta), 4.0))
    return Table(*axes, table)


def response_p_values(model, records, kind, rng, n_draws):
    def update(*beta):
        return model.update_parameters({"coefficients": beta}, records, rng)["coefficients"]

    return through_one_scan(response_table(kind), update, rng, n_draws, correlation=1.0)


def logistic_p_values(package, rng, n_draws):
    model = package.LogisticRegression(1, 1.5, 0.0, 1.0)
    return response_p_values(model, RESPONSES, "logistic", rng, n_draws)


def poisson_regression_p_values(package, rng, n_draws):
    model = package.PoissonRegression(1, 1.5, 0.0, 1.0, largest_rate=4.0)
    return response_p_values(model, RESPONSES * [1, 3], "poisson", rng, n_draws)


def table_p_values(package, rng, n_draws):
    concentration = np.array([[0.6, 1.0], [2.5, 0.8]])
    model = package.ContingencyTable([2, 2], concentration)
    records = np.array([[1, 0], [1, 0], [1, 1], [0, 1]])
    theta = {"cell_probabilities": np.full((2, 2), 0.25)}
    draws = draws_of(model, theta, records, n_draws, rng, "cell_probabilities")
    return dirichlet_p_values(
        draws.reshape(n_draws, -1), concentration.ravel() + np.array([0, 1, 2, 1])
    )


def naive_bayes_prior_p_values(package, rng, n_draws):
    model = package.NaiveBayes(3, [3, 3], concentration=2.0)
    draws = [model.sample_prior(rng) for _ in range(n_draws)]
    classes = np.array([draw["class_probabilities"] for draw in draws])
    features = np.array([draw["feature_probabilities"] for draw in draws])
    p_values = dirichlet_p_values(classes, np.full(3, 2.0))
    for y in range(3):
        for k in range(2):
            p_values += dirichlet_p_values(features[:, y, k], np.full(3, 2.0))
    return p_values


CLOSED_FORMS = {
    "bernoulli": bernoulli_p_values,
    "categorical": categorical_p_values,
    "naive Bayes": naive_bayes_p_values,
    "naive Bayes prior": naive_bayes_prior_p_values,
    "regression": regression_p_values,
    "normal mean": normal_mean_p_values,
    "normal variance": normal_variance_p_values,
    "normal by quadrature": normal_quadrature_p_values,
    "shares": shares_p_values,
    "vector mean": vector_mean_p_values,
    "vector covariance": vector_covariance_p_values,
    "exponential": exponential_p_values,
    "gamma rate": gamma_rate_p_values,
    "gamma shape": gamma_shape_p_values,
    "gamma": gamma_p_values,
    "table": table_p_values,
    "poisson": poisson_p_values,
    "negative binomial by quadrature": negative_binomial_p_values,
    "logistic by quadrature": logistic_p_values,
    "Poisson regression by quadrature": poisson_regression_p_values,
}


@pytest.mark.parametrize("n_draws", only([3000], [3000, 20000]))
@pytest.mark.parametrize("case", list(CLOSED_FORMS))
def test_update_draws_from_the_known_posterior(case, n_draws):
    rng = np.random.default_rng([SEED, 1, list(CLOSED_FORMS).index(case)])
    assert_agrees(CLOSED_FORMS[case](models, rng, n_draws))


@pytest.mark.parametrize("pool_size", [1, 4, 5])
def test_a_gamma_pool_that_runs_out_does_not_bias(pool_size):
    rng = np.random.default_rng([SEED, 2, pool_size])
    assert_agrees(categorical_p_values(models, rng, 10000, pool_size))


CLOSED_FORM_BUGS = [
    ("bernoulli", "bernoulli.py", "self.b + len(records) - ones", "self.b + len(records)"),
    ("categorical", "conjugate.py", "d = shape - 1.0 / 3.0", "d = shape"),
    ("categorical", "conjugate.py", "math.log(1.0 - boosts[row, j]) / shape", "0.0"),
    ("categorical", "conjugate.py", "v = v * v * v", "v = v * v"),
    ("categorical", "discrete.py", "shapes[0, y] += 1.0", "shapes[0, 0] += 1.0"),
    (
        "naive Bayes",
        "discrete.py",
        "shapes[row + k, x] += 1.0",
        "shapes[1 + y + k, x] += 1.0",
    ),
    (
        "naive Bayes",
        "discrete.py",
        "shapes[0, y] += 1.0",
        "shapes[0, y] += 2.0",
    ),
    (
        "naive Bayes prior",
        "naive_bayes.py",
        "features = rng.standard_gamma(self.concentration,",
        "features = rng.standard_gamma(self.concentration + 2.0,",
    ),
    (
        "naive Bayes prior",
        "conjugate.py",
        "inverse = 1.0 / total\n        for",
        "inverse = 0.9 / total\n        for",
    ),
    (
        "naive Bayes",
        "discrete.py",
        "uniforms, used, boosts",
        "uniforms, 0, boosts",
    ),
    (
        "regression",
        "conjugate.py",
        "        vector[j] += normals[j]\n    solve_upper(precision, size, vector)",
        "        vector[j] += normals[j]\n    solve_lower(precision, size, vector)",
    ),
    ("regression", "regression.py", "self.coefficient_sd**-2", "self.coefficient_sd**-4"),
    ("regression", "linear_regression.py", "cross[0] += y", "cross[0] += 0.5 * y"),
    ("normal mean", "normal.py", "records.shape[0] / variance", "records.shape[0]"),
    ("normal mean", "normal.py", "z / math.sqrt(precision)", "z / precision"),
    ("normal variance", "normal.py", "0.5 * squares)", "squares)"),
    (
        "normal by quadrature",
        "normal.py",
        "squares = _sum_squares(records, mean)",
        "squares = _sum_squares(records, float(theta['mean']))",
    ),
    (
        "normal by quadrature",
        "normal.py",
        "rng, 0.5 * len(",
        "rng, len(",
    ),
    (
        "shares",
        "dirichlet.py",
        "c = a - all_concentration",
        "c = a",
    ),
    (
        "shares",
        "dirichlet.py",
        "(concentration[j] - smallest[j], sums[j] - b,",
        "(concentration[j] - 1.0, sums[j] - b,",
    ),
    ("shares", "dirichlet.py", "(a - smallest.sum(), slope", "(a - 1.0, slope"),
    ("shares", "dirichlet.py", "if other != j:", "if True:"),
    (
        "shares",
        "dirichlet.py",
        "sums[j] += math.log(max(records[i, j], SMALLEST))",
        "sums[j] += records[i, j] - 1.0",
    ),
    ("vector mean", "conjugate.py", "out[a] += precisions[a] * centres[a]", "out[a] += centres[a]"),
    ("vector mean", "normal_vectors.py", "n = float(records.shape[0])", "n = 1.0"),
    ("vector covariance", "normal_vectors.py", "half = 0.5 * n_records", "half = n_records"),
    (
        "vector covariance",
        "normal_vectors.py",
        "row[a] = records[i, a] - centre[a]",
        "row[a] = records[i, a]",
    ),
    (
        "exponential",
        "ready.py",
        "standard_gamma(a + more_a)",
        "standard_gamma(1.0 + more_a)",
    ),
    ("gamma rate", "durations.py", "len(records) * shape, total", "len(records), total"),
    ("gamma shape", "durations.py", "n * math.log(self.rate)\n", "math.log(self.rate)\n"),
    ("gamma shape", "slice_sampling.py", "total = a * v + b * s", "total = (a - 1.0) * v + b * s"),
    ("gamma", "durations.py", "slope -= n * math.log(self.rate_rate + total)", "slope -= 0.0"),
    (
        "gamma",
        "durations.py",
        "self.rate_shape, float(n), 1.0, float(n)",
        "0.0, float(n), 1.0, float(n)",
    ),
    ("gamma", "slice_sampling.py", "math.log(1.0 - uniforms[used])", "0.5 * math.log(0.5)"),
    (
        "gamma",
        "slice_sampling.py",
        "low -= width\n    while log_density(high, *rest) > height:",
        "break\n    while log_density(high, *rest) > height:",
    ),
    ("table", "discrete.py", "cell * levels[k] + records", "cell + records"),
    ("poisson", "counts.py", "rng, self._total(records),", "rng, 0.0,"),
    ("poisson", "ready.py", "/ (b + more_b), SMALL", "/ (1.0 + more_b), SMALL"),
    (
        "negative binomial by quadrature",
        "counts.py",
        "table[values].astype(np.float64)",
        "np.ones(len(values))",
    ),
    (
        "negative binomial by quadrature",
        "counts.py",
        "- given.mean_rate * mean",
        "- mean",
    ),
    (
        "negative binomial by quadrature",
        "counts.py",
        "given.dispersion_shape * log_dispersion",
        "(given.dispersion_shape - 1.0) * log_dispersion",
    ),
    (
        "negative binomial by quadrature",
        "slice_sampling.py",
        "    height = now + math.log(1.0 - uniforms[used])\n",
        "    height = now - 0.5\n",
    ),
    (
        "negative binomial by quadrature",
        "slice_sampling.py",
        "low + uniforms[used] * (high - low)",
        "low + uniforms[used] ** 2 * (high - low)",
    ),
    (
        "logistic by quadrature",
        "generalised_regression.py",
        "        + log_proposal(coefficients, mode, factor)\n"
        "        - log_proposal(proposed, mode, factor)\n",
        "",
    ),
    (
        "logistic by quadrature",
        "generalised_regression.py",
        "    return value - math.log(product)\n\n\n@njit(cache=True, nogil=True)\ndef diff",
        "    return value\n\n\n@njit(cache=True, nogil=True)\ndef diff",
    ),
    (
        "logistic by quadrature",
        "generalised_regression.py",
        "    copy_vector(coefficients, out)\n",
        "    copy_vector(coefficients, out)\n    mode[:] = coefficients\n",
    ),
    (
        "Poisson regression by quadrature",
        "generalised_regression.py",
        "            *self._response,\n            self._coefficients",
        "            self._response[0],\n            10.0,\n            self._coefficients",
    ),
    (
        "Poisson regression by quadrature",
        "generalised_regression.py",
        "radius = math.sqrt(0.5 * DOF / half_chi_square)",
        "radius = 1.5 * math.sqrt(0.5 * DOF / half_chi_square)",
    ),
]


# Slow in plain Python; "negative binomial by quadrature" and "gamma shape" are of their kind.
SLOW = ("gamma", "logistic by quadrature", "Poisson regression by quadrature")


@pytest.mark.parametrize(
    ("case", "file", "old", "new"), first_of_each(lambda bug: bug[0], CLOSED_FORM_BUGS, SLOW)
)
def test_a_bug_in_an_update_is_caught(case, file, old, new):
    rng = np.random.default_rng([SEED, 3])
    with mutated_models(file, old, new) as mutant:
        assert_caught(CLOSED_FORMS[case](mutant, rng, 3000))


# ------------------------------------------------------------------ the joint test

JOINT = {
    "noise variance": (
        "LinearRegression",
        {
            "n_features": 1,
            "feature_mean": 1.5,
            "feature_covariance": 2.0,
            "noise_variance_shape": 2.0,
        },
    ),
    "feature mean": (
        "LinearRegression",
        {"n_features": 2, "noise_variance": 1.0, "feature_covariance": [[1.0, 0.6], [0.6, 2.0]]},
    ),
    "feature covariance": (
        "LinearRegression",
        {
            "n_features": 2,
            "noise_variance": 1.0,
            "feature_mean": [0.9, -1.2],
            "feature_covariance_df": 3.0,
            "feature_covariance_scale": [[2.0, 0.8], [0.8, 1.0]],
        },
    ),
    "everything": (
        "LinearRegression",
        {"n_features": 2, "feature_covariance_df": 3.0, "feature_mean_sd": 3.0},
    ),
    "logistic": ("LogisticRegression", {"n_features": 2, "feature_covariance_df": 3.0}),
    "Poisson regression": (
        "PoissonRegression",
        {"n_features": 1, "largest_rate": 30.0, "feature_mean_sd": 1.0},
    ),
    "naive Bayes": ("NaiveBayes", {"n_classes": 2, "n_levels": [2, 3], "concentration": 0.6}),
    "bernoulli": ("Bernoulli", {"a": 0.6, "b": 1.4}),
    "normal": ("Normal", {"mean_sd": 3.0, "variance_shape": 1.5}),
    "categorical": ("Categorical", {"n_levels": 3}),
    "shares": (
        "Dirichlet",
        {"n_parts": 3, "mean_concentration": [2.0, 1.0, 0.7], "precision_rate": 0.3},
    ),
    "vector": (
        "MultivariateNormal",
        {"n_columns": 2, "mean_mean": 1.0, "mean_sd": [3.0, 1.0], "covariance_df": 3.0},
    ),
    "exponential": ("Exponential", {}),
    "gamma": ("Gamma", {"rate_shape": 3.0}),
    "poisson": ("Poisson", {"rate_shape": 0.8, "rate_rate": 0.2}),
    "negative binomial": (
        "NegativeBinomial",
        {"mean_shape": 1.2, "mean_rate": 0.05, "dispersion_shape": 0.9},
    ),
}


def covariance_scores(covariances, df, scale):
    """C' Sigma^{-1} C is Wishart(df, I), so its Cholesky factor has Bartlett's entries."""
    root = np.linalg.cholesky(scale)
    factor = np.linalg.cholesky(root.T @ np.linalg.inv(covariances) @ root)
    scores = []
    for j in range(len(scale)):
        scores.append(stats.chi2.cdf(factor[:, j, j] ** 2, df - j))
        scores.append(stats.norm.cdf(factor[:, j, :j]))
    return scores


def prior_scores(model, theta):
    """Return columns that are uniform on (0, 1) if the rows of theta are draws from the prior.

    ``theta`` holds R draws, stacked along the first axis; the result is ``(R, m)``.
    """
    kind = type(model).__name__
    scores = []
    if kind == "Bernoulli":
        scores.append(stats.beta.cdf(theta["probability"], model.a, model.b))
    elif kind == "Normal":
        scores.append(stats.norm.cdf(theta["mean"], model.mean_mean, model.mean_sd))
        gamma = model.variance_scale / theta["variance"]
        scores.append(stats.gamma.sf(gamma, model.variance_shape))
    elif kind == "Dirichlet":
        c = model.mean_concentration
        scores.append(stats.beta.cdf(theta["mean"], c, c.sum() - c))
        gamma = theta["precision"] * model.precision_rate
        scores.append(stats.gamma.cdf(gamma, model.precision_shape))
    elif kind == "MultivariateNormal":
        scores.append(stats.norm.cdf((theta["mean"] - model.mean_mean) / model.mean_sd))
        df, scale = model.covariance_df, model.covariance_scale
        scores += covariance_scores(theta["covariance"], df, scale)
    elif kind in ("Exponential", "Gamma", "Poisson", "NegativeBinomial"):
        for name, value in theta.items():
            rate = getattr(model, f"{name}_rate")
            scores.append(stats.gamma.cdf(value * rate, getattr(model, f"{name}_shape")))
    elif kind.endswith("Regression"):
        scores.append(stats.norm.cdf(theta["coefficients"] / model.coefficient_sd))
        if "noise_variance" in theta:
            gamma = model.noise_variance_scale / theta["noise_variance"]
            scores.append(stats.gamma.sf(gamma, model.noise_variance_shape))
        if "feature_mean" in theta:
            scores.append(stats.norm.cdf(theta["feature_mean"] / model.feature_mean_sd))
        if "feature_covariance" in theta:
            df, scale = model.feature_covariance_df, model.feature_covariance_scale
            scores += covariance_scores(theta["feature_covariance"], df, scale)
    else:
        a = model.concentration
        for value in theta.values():
            levels = value.shape[-1]
            scores.append(stats.beta.cdf(value[..., :-1], a, a * (levels - 1)))
    return np.concatenate([score.reshape(len(score), -1) for score in scores if score.size], axis=1)


def joint_p_values(model, rng, n_replicates, n_records=2, update=None):
    """Return p-values of theta' against the prior, and of u' against iid innovations.

    Of the n innovations in a column of u' (made normal if they are uniform), sqrt(n) times the mean
    is standard normal and the sum of squares is chi-square(n): one value of each a replicate. Of
    two columns, the sum of products has mean 0. Few records leave the blocks of a scan most
    dependent on each other, and so show best a block that is drawn given a stale value.
    """
    update = model.update_parameters if update is None else update
    thetas, innovations = [], []
    for _ in range(n_replicates):
        theta = model.sample_prior(rng)
        records = model.sample_records(theta, n_records, rng)
        new = update(theta, records, rng)
        thetas.append(new)
        innovations.append(model.recover_innovations(new, records, rng))
    scores = prior_scores(model, {k: np.array([t[k] for t in thetas]) for k in thetas[0]})
    u = np.array(innovations)
    if model.innovations.kind == "uniform":
        u = stats.norm.ppf(np.clip(u, 1e-16, None))
    p_values = [ks(column, stats.uniform.cdf) for column in scores.T]
    for a in range(u.shape[2]):
        column = u[:, :, a]
        p_values.append(ks(column.ravel(), stats.norm.cdf))
        p_values.append(ks(column.mean(axis=1) * math.sqrt(n_records), stats.norm.cdf))
        p_values.append(ks((column**2).sum(axis=1), stats.chi2(n_records).cdf))
        p_values += [mean_zero((column * u[:, :, b]).sum(axis=1)) for b in range(a)]
    return p_values


def make_joint(case, package=models):
    kind, arguments = JOINT[case]
    return getattr(package, kind)(**arguments)


@pytest.mark.parametrize("n_replicates", only([2000], [2000, 4000]))
@pytest.mark.parametrize("case", list(JOINT))
def test_update_leaves_the_joint_distribution_invariant(case, n_replicates):
    rng = np.random.default_rng([SEED, 4, list(JOINT).index(case)])
    assert_agrees(joint_p_values(make_joint(case), rng, n_replicates))


@pytest.mark.full
def test_several_scans_leave_the_joint_distribution_invariant():
    """Errors of a scan that are small after one step grow with more of them."""
    model = make_joint("everything")

    def update(theta, records, rng):
        for _ in range(10):
            theta = model.update_parameters(theta, records, rng)
        return theta

    rng = np.random.default_rng([SEED, 5])
    assert_agrees(joint_p_values(model, rng, 2000, update=update))


KERNELS, VECTORS, RESPONSE = (
    "linear_regression.py",
    "normal_vectors.py",
    "generalised_regression.py",
)
JOINT_BUGS = {
    "residuals not halved": ("noise variance", KERNELS, "+ 0.5 * squares", "+ squares"),
    "n left out of the gammas": ("noise variance", VECTORS, "shape + half", "shape"),
    "noise scale left out": (
        "noise variance",
        KERNELS,
        "noise_scale + 0.5 * squares",
        "0.5 * squares",
    ),
    "residuals of centred features": (
        "noise variance",
        KERNELS,
        "residual -= coefficients[1 + a] * records[i, a]",
        "residual -= coefficients[1 + a] * row[a]",
    ),
    "noise of the prior": (
        "noise variance",
        KERNELS,
        "gram, cross, noise_variance, coefficient_precision",
        "gram, cross, 1.0, coefficient_precision",
    ),
    "n left out of the mean": (
        "feature mean",
        "conjugate.py",
        "precision[b, a] = n * column[b]",
        "precision[b, a] = column[b]",
    ),
    "covariance not inverted": (
        "feature mean",
        "conjugate.py",
        "n * column[b]",
        "n * covariance[b, a]",
    ),
    "normals used twice": (
        "feature mean",
        KERNELS,
        "precisions, centres, normals, used, out.mean",
        "precisions, centres, normals, 0, out.mean",
    ),
    "prior scale left out": (
        "feature covariance",
        KERNELS,
        "scatter[a, b] += features.scale[a, b]",
        "scatter[a, b] += 1e-6 * features.scale[a, a] * (a == b)",
    ),
    "chi-squares not doubled": (
        "feature covariance",
        "conjugate.py",
        "math.sqrt(2.0 * half_chi_squares[j])",
        "math.sqrt(half_chi_squares[j])",
    ),
    "degrees of freedom reversed": (
        "feature covariance",
        VECTORS,
        "[0.5 * (self.df - j) for j in range(p)]",
        "[0.5 * (self.df - j) for j in range(p)][::-1]",
    ),
    "Bartlett's factor transposed": (
        "feature covariance",
        "conjugate.py",
        "total = factor[column, j] if j <= column else 0.0",
        "total = factor[j, column] if column <= j else 0.0",
    ),
    "off-diagonal normals left out": (
        "feature covariance",
        "conjugate.py",
        "bartlett[j, k] = normals[used]",
        "bartlett[j, k] = 0.0",
    ),
    "scatter around the old mean": (
        "everything",
        KERNELS,
        "        copy_vector(out.mean, centre)\n",
        "",
    ),
    "the prior of other coefficients": (
        "logistic",
        "regression.py",
        "self.coefficient_sd**-2",
        "self.coefficient_sd**-4",
    ),
    "a rate for its logarithm": (
        "Poisson regression",
        RESPONSE,
        "y * eta - rate",
        "y * rate - rate",
    ),
    "features scattered around the old mean": (
        "logistic",
        VECTORS,
        "centre = mean_out",
        "centre = mean",
    ),
    "no degrees of freedom from the records": (
        "Poisson regression",
        "generalised_regression.py",
        "draw_gammas(features.gamma_shapes, len(records), rng)",
        "draw_gammas(features.gamma_shapes, 0, rng)",
    ),
    "a cell of the wrong class": (
        "naive Bayes",
        "discrete.py",
        "shapes[row + k, x] += 1.0",
        "shapes[1 + (1 - y) * levels.shape[0] + k, x] += 1.0",
    ),
    "ones for zeros": (
        "bernoulli",
        "bernoulli.py",
        "self._draw(self.a + ones,",
        "self._draw(self.a + len(records) - ones,",
    ),
    "n left out of the shape": (
        "normal",
        "normal.py",
        "rng, 0.5 * len(records)",
        "rng, 0.0",
    ),
    "scatter around the old vector": (
        "vector",
        VECTORS,
        "centre = mean_out",
        "centre = mean",
    ),
    "sum left out of the rate": (
        "exponential",
        "durations.py",
        "len(records), records.sum()",
        "len(records)",
    ),
    "rate of the old shape": (
        "gamma",
        "durations.py",
        "len(records) * shape, total",
        "len(records) * float(theta['shape']), total",
    ),
    "interval not stepped out": (
        "gamma",
        "slice_sampling.py",
        "    while log_density(high, *rest) > height:",
        "    while False:",
    ),
    "n left out of the rate": (
        "poisson",
        "counts.py",
        "self._total(records), len(records)",
        "self._total(records)",
    ),
    "one level for all": (
        "categorical",
        "discrete.py",
        "shapes[0, y] += 1.0",
        "shapes[0, 0] += 1.0",
    ),
}


SLOW_SCANS = ("gamma", "logistic", "Poisson regression", "naive Bayes", "poisson")


@pytest.mark.parametrize(
    "bug", first_of_each(lambda bug: JOINT_BUGS[bug][0], JOINT_BUGS, SLOW_SCANS)
)
def test_a_bug_in_a_scan_is_caught(bug):
    case, file, old, new = JOINT_BUGS[bug]
    rng = np.random.default_rng([SEED, 6])
    with mutated_models(file, old, new) as mutant:
        assert_caught(joint_p_values(make_joint(case, mutant), rng, 2000))


@pytest.mark.full
@pytest.mark.parametrize("case", sorted({bug[0] for bug in JOINT_BUGS.values()}))
def test_the_copy_without_a_bug_passes(case):
    rng = np.random.default_rng([SEED, 6])
    with mutated_models() as control:
        assert_agrees(joint_p_values(make_joint(case, control), rng, 2000))
