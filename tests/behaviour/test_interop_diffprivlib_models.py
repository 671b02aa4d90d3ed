"""diffprivlib's tools and models: what the real library returns against the law that is read."""

import importlib
import math
import warnings

import numpy as np
import pytest
from scipy.stats import chisquare, gamma, kstest

import noiseaware as na
from exact.known import BetaMixture, assert_draws_agree, sampled
from mutants.planting import Edit, planted

tools, reader = na.interop.diffprivlib.tools, na.interop.diffprivlib_models
N = 40
X = np.linspace(-1.5, 3.5, N)  # some are outside of the bounds
BOUNDS = (-1.0, 3.0)


@pytest.fixture(scope="module")
def library():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("diffprivlib", reason="diffprivlib is not installed")
        for name in ("tools", "models"):
            importlib.import_module(f"diffprivlib.{name}")
    return found


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def uniforms(released, mechanism, total, rng):
    """Each released number as its probability under what was read; atoms are spread out."""
    noise = mechanism.mechanism
    z = (np.asarray(released) - total) / noise.scale
    if noise.discrete:
        p = math.exp(-1.0 / noise.scale)

        def cdf(k):
            k = np.asarray(k) - total
            return np.where(k < 0, p ** np.abs(k) / (1 + p), 1 - p ** (np.abs(k) + 1) / (1 + p))

        low, high = cdf(np.asarray(released) - 1), cdf(released)
    else:
        low = high = np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))
    low = np.where(released <= mechanism.lower, 0.0, low)
    high = np.where(released >= mechanism.upper, 1.0, high)
    return low + (high - low) * rng.uniform(size=len(low))


CALLS = {
    "mean": (lambda t, seed: t.mean(X, 0.5, BOUNDS, random_state=seed),
             lambda r: tools.mean(r, bounds=BOUNDS, n_records=N, epsilon=0.5)),
    "sum": (lambda t, seed: t.sum(X, 0.5, BOUNDS, random_state=seed),
            lambda r: tools.sum(r, bounds=BOUNDS, n_records=N, epsilon=0.5)),
    "whole sum": (lambda t, seed: t.sum(np.rint(X), 0.5, (-1, 3), dtype=int, random_state=seed),
                  lambda r: tools.sum(r, bounds=(-1, 3), n_records=N, epsilon=0.5, dtype=int)),
    "count": (lambda t, seed: t.count_nonzero(X > 3.0, 0.2, random_state=seed),
              lambda r: tools.count_nonzero(r, query=na.queries.Count(predicate=lambda x: x > 3),
                                            n_records=N, epsilon=0.2)),
    "bins": (lambda t, seed: t.histogram(X, 0.3, bins=2, range=(0.0, 1.0), random_state=seed)[0][0],
             None),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_law_of_a_tool(name, library):
    call, read = CALLS[name]
    drawn = np.array([call(library.tools, seed) for seed in range(1500)], dtype=np.float64)
    if name == "bins":
        release = tools.histogram((np.array([drawn[0], 3]), [0.0, 0.5, 1.0]), n_records=N,
                                  epsilon=0.3)  # fmt: skip
    else:
        release = read(drawn[0])
    records = np.rint(X) if name == "whole sum" else X
    total = release.query.statistic(records).sum(axis=0)[0]
    if name == "mean":
        drawn = N * drawn
    assert release.values[0] == pytest.approx(drawn[0])
    u = uniforms(np.round(drawn, 9), release.mechanism, total, np.random.default_rng(1))
    assert kstest(u, "uniform").pvalue > 1e-5
    assert release.mechanism.guarantee.epsilon == pytest.approx(
        {"mean": 0.5, "sum": 0.5, "whole sum": 0.5, "count": 0.2, "bins": 0.6}[name]
    )


def test_columns_share_epsilon(library):
    table = np.column_stack((X, X**2))
    bounds = (np.array([-1.0, 0.0]), np.array([3.0, 9.0]))
    drawn = np.array([library.tools.mean(table, 1.0, bounds, axis=0, random_state=seed)
                      for seed in range(600)])  # fmt: skip
    release = tools.mean(drawn[0], bounds=bounds, n_records=N, axis=0)
    total = release.query.statistic(table).sum(axis=0)
    for j, part in enumerate(release.mechanism.mechanisms):
        u = uniforms(N * drawn[:, j], part, total[j], np.random.default_rng(j))
        assert kstest(u, "uniform").pvalue > 1e-5
    assert release.mechanism.guarantee.epsilon == pytest.approx(1.0)


def test_the_law_of_a_variance(library):
    drawn = np.array([library.tools.var(X, 0.5, BOUNDS, random_state=s) for s in range(2000)])
    made = library.mechanisms.LaplaceBoundedDomain(
        epsilon=0.5, sensitivity=(4.0 / N) ** 2 * (N - 1), lower=0, upper=4.0
    )
    made.effective_epsilon()
    release = tools.var(drawn[0], bounds=BOUNDS, n_records=N, epsilon=0.5)
    assert release.mechanism.scale == pytest.approx(made._scale, rel=1e-6)
    total = release.query.statistic(X).sum(axis=0)
    edges = np.linspace(0.0, 4.0, 13)
    grid = np.linspace(0.0, 4.0, 24001)
    normaliser = release.mechanism.log_normaliser(None)
    density = np.exp([release.mechanism.log_density([s], total) + normaliser for s in grid])
    cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2) * (4.0 / 24000)])
    assert cdf[-1] == pytest.approx(1.0, abs=1e-6)
    expected = 2000 * np.diff(np.interp(edges, grid, cdf))
    counts = np.histogram(drawn, edges)[0]
    assert chisquare(counts, expected * 2000 / expected.sum()).pvalue > 1e-5


def test_a_posterior_from_a_noisy_variance():
    """With two records from {0, 1}: four databases, whose posterior is a sum."""
    release = tools.var(0.2, bounds=(0.0, 1.0), n_records=2, epsilon=2.0)
    k = np.arange(3)  # ones, each number as likely under a uniform prior
    log_g = [release.mechanism.log_density([0.2], [ones, ones]) for ones in k]
    exact = BetaMixture(np.exp(log_g), k + 1, 3 - k)
    drawn = sampled(na.models.Bernoulli(), release, None)["posterior"]
    assert_draws_agree({"probability": exact}, lambda name: drawn[name].values)


def test_what_a_tool_cannot_read():
    good = {"bounds": (0.0, 1.0), "n_records": 9}
    for words, call in {
        "axis must be None": lambda: tools.mean([0.5, 0.5], **good),
        "density=True": lambda: tools.histogram([1, 2], n_records=9, density=True),
        "range is needed": lambda: tools.histogram([1, 2], n_records=9, bins=2),
        "chooses the edges": lambda: tools.histogram([1], n_records=9, bins="auto", range=(0, 1)),
        "from 0 to 0.25": lambda: tools.var(0.3, **good),
        "epsilon must be": lambda: tools.mean(0.5, epsilon=0.0, **good),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(AttributeError, match=r"no diffprivlib.tools.std, because .* square root"):
        _ = tools.std


def fitted(estimator, *data):
    return quiet(estimator.fit, *data)


def rows(rng, n=60):
    features = rng.normal(size=(n, 2)) * [1.0, 2.0]  # some rows are longer than data_norm
    score = 0.3 + features @ [1.0, -0.5]
    return features, (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int)


def implied_noise(library, fits, **options):
    """The noise that each of some fits implies, and the mechanism that was read."""
    features, y = rows(np.random.default_rng(3))
    records = np.column_stack((features, y))
    found = []
    for seed in range(fits):
        model = library.models.LogisticRegression(
            data_norm=1.5, tol=1e-8, max_iter=5000, random_state=seed, **options
        )
        release = na.interop.diffprivlib.fitted(fitted(model, features, y), len(y))
        made, s = release.mechanism, release.values
        found.append(-(made.loss.gradient(records, s).sum(axis=0) + made.ridge * s))
    return np.array(found), made


def check_noise(library, fits, **options):
    """Its length is gamma, its direction uniform."""
    noise, made = implied_noise(library, fits, **options)
    lengths = np.linalg.norm(noise, axis=1)
    q = noise.shape[1]
    assert kstest(lengths, gamma(q, scale=made.scale).cdf).pvalue > 1e-5
    first = noise[:, 0] / lengths
    angle = np.arccos(np.clip(first, -1, 1)) / np.pi if q == 2 else (1 + first) / 2
    assert kstest(angle, "uniform").pvalue > 1e-5
    return made


SETTINGS = {
    "first branch": {"epsilon": 6.0, "C": 1.0, "fit_intercept": True},
    "second branch": {"epsilon": 0.5, "C": 1.0, "fit_intercept": True},
    "no intercept": {"epsilon": 1.0, "C": 0.05, "fit_intercept": False},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_noise_of_a_logistic_regression(library, setting):
    made = check_noise(library, 60, **SETTINGS[setting])
    assert made.guarantee.kind == ("pure" if setting == "no intercept" else "unknown")
    if setting == "no intercept":
        assert made.guarantee.epsilon <= 1.0


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_noise_of_many_logistic_regressions(library, setting):
    check_noise(library, 400, **SETTINGS[setting])


@pytest.mark.full
def test_the_length_of_a_row_without_its_intercept_is_caught(library):
    edit = Edit(reader, "_logistic", "** 2 + intercept)", "** 2)")
    with planted(edit), pytest.raises(AssertionError):
        check_noise(library, 400, **SETTINGS["first branch"])


def test_with_hardly_any_noise_the_gradient_is_zero(library):
    """What is minimised, with an intercept that has no ridge."""
    noise, made = implied_noise(library, 3, epsilon=1e4, C=1.0, fit_intercept=True)
    assert np.abs(noise).max() < 30 * made.scale < 0.02


def test_the_loss_is_that_of_shortened_rows():
    loss = na.mechanisms.RowNormLogisticLoss(2, norm=1.5, intercept=True, free_intercept=0.01)
    rng = np.random.default_rng(2)
    features, y = rows(rng, 7)
    records = np.column_stack((features, y))
    short = features * np.minimum(1, 1.5 / np.linalg.norm(features, axis=1))[:, None]
    x = np.column_stack((np.ones(7), short))

    def value(s):
        return np.log1p(np.exp(x @ s)) - y * (x @ s) - 0.005 * s[0] ** 2

    s, step = np.array([0.3, -0.7, 1.1]), 1e-5
    shifted = [(value(s + step * e) - value(s - step * e)) / (2 * step) for e in np.eye(3)]
    assert np.allclose(loss.gradient(records, s), np.array(shifted).T, atol=1e-8)
    slopes = [
        (loss.gradient(records, s + step * e) - loss.gradient(records, s - step * e)) / (2 * step)
        for e in np.eye(3)
    ]
    assert np.allclose(loss.hessian(records, s), np.moveaxis(slopes, 0, 1), atol=1e-8)
    made = na.mechanisms.ObjectivePerturbation(loss, ridge=1.0, scale=2.0)
    release = na.Release(s, made, 7)
    assert na.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()
    plain = na.mechanisms.RowNormLogisticLoss(2, norm=1.5)
    far = np.array([[30.0, 40.0, 0.0], [-30.0, -40.0, 0.0]])
    moved = plain.gradient(far, np.array([100.0, 100.0]))
    assert np.linalg.norm(moved, axis=1).max() == pytest.approx(1.5)
    assert plain.sensitivity(2, neighbours="add-remove") == 1.5
    for words, call in {
        "norm must be": lambda: na.mechanisms.RowNormLogisticLoss(2, norm=0.0),
        "free_intercept must be": lambda: na.mechanisms.RowNormLogisticLoss(2, 1.0, True, -1.0),
        "the response": lambda: plain.check_records(np.full((1, 3), 0.5)),
        "shape": lambda: plain.check_records(np.zeros((1, 2))),
        "is in norm 2": lambda: plain.sensitivity(1),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()


def test_the_noise_of_a_linear_regression(library):
    """Each coefficient of the objective has the law that is read, folded where it says so."""
    rng = np.random.default_rng(5)
    features = rng.uniform(-3, 3, size=(50, 2))  # outside of the bounds, and not clipped
    y = features @ [0.5, -0.2] + rng.normal(size=50)
    records = np.column_stack((features, y))
    drawn = []
    for seed in range(500):
        model = library.models.LinearRegression(
            epsilon=3.0, bounds_X=([-1.0, -2.0], [2.0, 1.0]), bounds_y=(-1.0, 4.0),
            fit_intercept=False, random_state=seed,
        )  # fmt: skip
        release = na.interop.diffprivlib.fitted(fitted(model, features, y), 50)
        drawn.append(release.values)
    total = release.query.statistic(records).sum(axis=0)
    for j, part in enumerate(release.mechanism.mechanisms):
        values = np.array(drawn)[:, j]
        scale = part.scale if type(part).__name__ == "Laplace" else part.mechanism.scale

        def cdf(x, t=total[j], b=scale):
            z = (np.asarray(x) - t) / b
            return np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))

        folded = type(part).__name__ == "Folded"
        u = cdf(values) - cdf(-values) if folded else cdf(values)
        assert kstest(u, "uniform").pvalue > 1e-5, release.names[j]
    assert release.names[:2] == ("y^2", "x1*y")
    assert "Query(function=product, names=('y^2',)" in repr(release)


def test_what_cannot_be_read_of_a_model(library):
    models = library.models
    rng = np.random.default_rng(1)
    features, y = rows(rng)
    with_intercept = fitted(models.LinearRegression(bounds_X=(-1, 1), bounds_y=(0, 1)), features, y)
    loose = fitted(models.LogisticRegression(data_norm=1.0, tol=0.5), features, y)
    for words, estimator in {
        "with an intercept": with_intercept,
        "not small beside noise": loose,
        "GaussianNB, which is not read": fitted(models.GaussianNB(bounds=(-1, 1)), features, y),
        "must be fitted": quiet(models.LogisticRegression, data_norm=1.0),
        "must have 2 classes": fitted(models.LogisticRegression(data_norm=1.0, tol=1e-6,
                                      max_iter=900), features, rng.integers(0, 3, 60)),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=words):
            na.interop.diffprivlib.fitted(estimator, 60)
    with pytest.raises(TypeError, match="must be a fitted model"):
        na.interop.diffprivlib.fitted(3.0, 60)


def test_a_sensitivity_that_contradicts_the_query_is_refused(library):
    read, made = na.interop.diffprivlib.release, library.mechanisms.Laplace
    wrong = made(epsilon=1.0, sensitivity=1.0)
    with pytest.raises(ValueError, match=r"sensitivity of the mechanism, 1; that of Sum.* is 60"):
        read(wrong, 100.0, na.queries.Sum(0, 60), 9)
    with pytest.raises(ValueError, match=r"mechanism, 60; that of Count.* is 1:"):
        read(made(epsilon=1.0, sensitivity=60.0), 5.0, na.queries.Count(1), 9)
    for sensitivity in (50.0, 60.0):  # one record changed, or one more
        read(made(epsilon=1.0, sensitivity=sensitivity), 100.0, na.queries.Sum(10, 60), 9)
    mine = na.Query(lambda x: x.reshape(-1, 1), ["x"], 1.0)
    read(wrong, 1.0, mine, 9)


BUGS = {
    "the mean has the noise of the sum over n": (
        Edit(tools, "mean", "n * np.asarray(result", "np.asarray(result"), "mean"),
    "columns do not share epsilon": (
        Edit(tools, "_sums", "share = len(values) / ", "share = 1.0 / "), "columns"),
    "the normaliser of the variance is forgotten": (
        Edit(tools.NoisyVariance, "log_density", " - math.log(inside)", ""), "var"),
    "the intercept is penalised": (
        Edit(reader, "_logistic", "alpha / n if intercept else 0.0", "0.0"), "logistic"),
    "the scale of a linear regression without its share": (
        Edit(reader, "_linear", "scale=share * sensitivity", "scale=sensitivity"), "linear"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, library):
    edit, what = BUGS[bug]
    check = {
        "mean": lambda: test_the_law_of_a_tool("mean", library),
        "columns": lambda: test_columns_share_epsilon(library),
        "var": lambda: test_the_law_of_a_variance(library),
        "logistic": lambda: test_with_hardly_any_noise_the_gradient_is_zero(library),
        "linear": lambda: test_the_noise_of_a_linear_regression(library),
    }[what]
    with planted(edit), pytest.raises((AssertionError, ValueError)):
        check()
