"""`interop.numpyro.Noisy` against sums over counts term by term, quadrature, and exact posteriors.

Log probabilities must agree to 1e-11 of their size, for every law and every base. Draws are
compared with exact probabilities by chi-square tests with a false alarm of 1e-6 each.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp

import noiseaware as na
from exact import seen
from mutants.planting import Edit, planted
from noiseaware.interop import noisy

REASON = "the extra `jax` is not installed"
jax = pytest.importorskip("jax", reason=REASON)
numpyro = pytest.importorskip("numpyro", reason=REASON)

import numpyro.distributions as dist  # noqa: E402

from exact.noisy_cases import CASES, VALUE  # noqa: E402  (takes a second)

Noisy = na.interop.numpyro.Noisy
NAN = math.nan


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def base_of(kind):
    if kind == "poisson":
        return dist.Poisson(seen.RATES)
    if kind == "negative-binomial":
        return dist.NegativeBinomialLogits(0.7, np.log(seen.RATES / 0.7))
    if kind == "binomial":
        return dist.Binomial(seen.TRIALS, 0.4)
    return dist.ZeroInflatedPoisson(0.3, rate=seen.RATES)


def check_sums(case, kind):
    mechanism, values, log_h = CASES[case]
    exact = logsumexp(seen.log_masses(kind) + log_h, axis=1)
    found = np.asarray(
        jax.jit(lambda: Noisy(base_of(kind), mechanism).log_prob(np.array(values)))()
    )
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_counts_are_summed_out(case):
    check_sums(case, "poisson")


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["negative-binomial", "binomial", "many zeros"])
def test_counts_of_other_kinds_are_summed_out(case, kind):
    check_sums(case, kind)


def check_gradient():
    mechanism, values, log_h = CASES["Gaussian, clamped at both ends"]

    def log_p(t):
        return Noisy(dist.Poisson(seen.RATES * jax.numpy.exp(t)), mechanism).log_prob(
            np.array(values)
        )

    found = np.asarray(jax.jit(jax.jacfwd(log_p))(0.0))
    # Fisher's identity: d log p / dt = E(x | s) - rate.
    log_w = seen.log_masses("poisson") + log_h
    weights = np.exp(log_w - logsumexp(log_w, axis=1, keepdims=True))
    np.testing.assert_allclose(found, weights @ seen.X - seen.RATES, rtol=1e-9, atol=1e-9)
    backward = jax.jit(jax.grad(lambda t: log_p(t).sum()))(0.0)
    assert float(backward) == pytest.approx(found.sum(), rel=1e-9)


def test_the_gradient():
    check_gradient()


def test_parameters_far_from_the_values():
    """Sums are as exact where the chain never is: the model is at 400, the value at 10."""
    noise = na.mechanisms.LocalGaussian(VALUE, scale=12.0)
    found = float(Noisy(dist.Poisson(400.0), noise).log_prob(np.array(10.0)))
    logs = stats.poisson.logpmf(seen.X, 400.0) + stats.norm.logpdf(10.0 - seen.X, scale=12.0)
    assert found == pytest.approx(logsumexp(logs), rel=1e-12)


SMOOTH = {
    "normal": (lambda: dist.Normal(3.0, 2.0), stats.norm(3.0, 2.0)),
    "narrow": (lambda: dist.Normal(0.0, 1e-3), stats.norm(0.0, 1e-3)),
    "log-normal": (lambda: dist.LogNormal(0.0, 1.0), stats.lognorm(1.0)),
    "gamma": (lambda: dist.Gamma(0.8, 1.0), stats.gamma(0.8)),
    "uniform": (lambda: dist.Uniform(-1.0, 2.0), stats.uniform(-1.0, 3.0)),
    "t": (lambda: dist.StudentT(3.0, 0.0, 1.0), stats.t(3.0)),
}
NOISES = {
    "gaussian": (na.mechanisms.LocalGaussian(VALUE, scale=1.5), stats.norm(scale=1.5).pdf, None),
    "laplace": (na.mechanisms.LocalLaplace(VALUE, scale=0.5), stats.laplace(scale=0.5).pdf, None),
    "clamped": (
        na.mechanisms.LocalGaussian(VALUE, scale=1.5, clamp=(-2.0, 6.0)),
        stats.norm(scale=1.5).pdf,
        stats.norm(scale=1.5).cdf,
    ),
}


def check_integrals(base, noise):
    make, f = SMOOTH[base]
    mechanism, density, cdf = NOISES[noise]
    values = np.array([-2.0, 0.3, 6.0, NAN])
    found = np.asarray(jax.jit(lambda: Noisy(make(), mechanism).log_prob(values))())
    assert found[3] == 0.0
    low, high = max(f.ppf(0.0), -1e6), min(f.ppf(1.0), 1e6)
    cuts = {low, high, -2.0, 0.3, 6.0, -0.01, 0.01, 0.0, 2.0, low + 1e-10, low + 1e-5}
    cuts |= {sign * 10.0**k for k in range(1, 6) for sign in (-1, 1)}
    cuts = [cut for cut in sorted(cuts) if low <= cut <= high]
    for s, log_p in zip(values[:3], found[:3], strict=True):

        def seen_as(x, s=s):
            if cdf is not None and s != 0.3:
                return cdf(-2.0 - x) if s == -2.0 else cdf(x - 6.0)
            return density(s - x)

        whole = sum(
            integrate.quad(lambda x: f.pdf(x) * seen_as(x), a, b, epsabs=0.0, epsrel=1e-11)[0]
            for a, b in itertools.pairwise(cuts)
        )
        assert log_p == pytest.approx(math.log(whole), abs=1e-9), (base, noise, s)


QUICK = (("log-normal", "clamped"),)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize(
    ("base", "noise"),
    [
        pytest.param(b, n, marks=[] if (b, n) in QUICK else pytest.mark.full)
        for b in SMOOTH
        for n in NOISES
    ],
)
def test_values_are_integrated(base, noise):
    check_integrals(base, noise)


# ------------------------------------------------------------------ in a model


def model(mechanism, values):
    b = numpyro.sample("b", dist.Normal(0.0, 0.5))
    with numpyro.plate("cells", 5):
        rate = seen.RATES * jax.numpy.exp(b)
        numpyro.sample("y", Noisy(dist.Poisson(rate), mechanism), obs=np.array(values))


def exact_posterior(log_h):
    grid = np.linspace(-1.5, 1.5, 301)
    logs = np.empty(len(grid))
    for j, b in enumerate(grid):
        f = np.array([stats.poisson.logpmf(seen.X, rate * math.exp(b)) for rate in seen.RATES])
        logs[j] = logsumexp(f + log_h, axis=1).sum() - 0.5 * (b / 0.5) ** 2
    weights = np.exp(logs - logs.max())
    return grid, weights / weights.sum()


def check_nuts(case="discrete Gaussian, withheld"):
    mechanism, values, log_h = CASES[case]
    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=300, num_samples=2000, progress_bar=False
    )
    mcmc.run(jax.random.key(2), mechanism, values)
    draws = np.asarray(mcmc.get_samples()["b"])
    grid, weights = exact_posterior(log_h)
    mean = weights @ grid
    sd = math.sqrt(weights @ (grid - mean) ** 2)
    # 2,000 draws of NUTS are worth at least 500; 5 standard errors.
    assert abs(draws.mean() - mean) < 5.0 * sd / math.sqrt(500)
    assert abs(draws.std() / sd - 1.0) < 5.0 / math.sqrt(2 * 500)


def test_nuts_finds_the_exact_posterior():
    check_nuts()


def check_true_values(case, stream):
    mechanism, values, log_h = CASES[case]
    m = 4000
    samples = {"b": np.zeros(m)}
    drawn = na.interop.numpyro.true_values(model, samples, mechanism, values, random_seed=stream)
    log_w = seen.log_masses("poisson") + log_h
    expected = m * np.exp(log_w - logsumexp(log_w, axis=1, keepdims=True))
    for i in range(5):
        counts = np.bincount(drawn["y"][:, i], minlength=len(seen.X)).astype(float)
        large = np.flatnonzero(expected[i] > 8.0)
        bins = np.searchsorted(large, seen.X).clip(0, len(large) - 1)
        pooled = [np.bincount(bins, w, minlength=len(large)) for w in (counts, expected[i])]
        assert len(large) == 1 or stats.chisquare(*pooled).pvalue > 1e-6, i


@pytest.mark.parametrize(
    "case",
    [
        "discrete Gaussian, one missing",
        pytest.param("Gaussian, clamped at both ends", marks=pytest.mark.full),
        pytest.param("random rounding", marks=pytest.mark.full),
    ],
)
def test_true_counts_are_drawn(case):
    check_true_values(case, 3)


@pytest.mark.full
def test_true_values_are_drawn():
    """A normal value under Gaussian noise: the normal posterior."""
    noise = na.mechanisms.LocalGaussian(VALUE, scale=2.0)

    def one():
        numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("y", Noisy(dist.LogNormal(0.3, 0.8), noise), obs=np.array([4.0, -1.0]))

    drawn = na.interop.numpyro.true_values(one, {"m": np.zeros(3000)}, random_seed=1)["y"]
    x = np.linspace(1e-4, 40.0, 200_001)
    for i, s in enumerate((4.0, -1.0)):
        f = stats.lognorm(0.8, scale=math.exp(0.3)).pdf(x) * stats.norm.pdf(s - x, scale=2.0)
        cdf = np.cumsum(f) / f.sum()
        result = stats.kstest(drawn[:, i], lambda t, cdf=cdf: np.interp(t, x, cdf))
        assert result.pvalue > 1e-6


def test_prior_predictive():
    """Draws of the distribution itself go through the mechanism."""
    noise = na.mechanisms.LocalDiscreteGaussian(VALUE, scale=3.0, threshold=10.0)
    drawn = np.asarray(
        Noisy(dist.Poisson(np.full(5, 12.0)), noise).sample(jax.random.key(1), (400,))
    )
    assert drawn.shape == (400, 5)
    exact = logsumexp(stats.poisson.logpmf(seen.X, 12.0) + seen.by_hand(
        "discrete-gaussian", 3.0, -math.inf, 10.0
    ))  # fmt: skip
    share, p = np.isnan(drawn).mean(), math.exp(exact)
    assert abs(share - p) < 5.0 * math.sqrt(p * (1 - p) / 2000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Noisy(3.0, CASES["as they are"][0]), "must be one of NumPyro; got 3.0"),
        (
            lambda: Noisy(dist.Normal(0, 1), CASES["as they are"][0]).log_prob(np.array([1.0])),
            "publishes whole numbers",
        ),
        (
            lambda: Noisy(dist.Poisson(1.0), na.mechanisms.Laplace(na.queries.Count(1), 1.0))
            .log_prob(np.array([1.0])),
            "every record's own number",
        ),
        (
            lambda: jax.jit(Noisy(dist.Poisson(1.0), CASES["as they are"][0]).log_prob)(1.0),
            "needs the released values themselves",
        ),
        (lambda: Noisy(dist.Poisson(1.0), CASES["random rounding"][0]).log_prob(np.array([4.0])),
         "RandomRounding can publish; got 4.0"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_the_blocks_of_the_page_run():
    page = Path(__file__).parents[2] / "docs" / "noisy.md"
    blocks = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2  # the other one is for PyMC
    exec(compile(blocks[0], str(page), "exec"), {})


# ------------------------------------------------------------------ planted bugs


BUGS = {
    "the sum is cut too short": (
        lambda: check_sums("discrete Gaussian, one missing", "poisson"),
        (Edit(noisy, "count_weights", "axis=0)[:CHOSEN]", "axis=0)[:3]"),),
    ),
    "the scale of the wrong record": (
        lambda: check_sums("discrete Gaussian, one missing", "poisson"),
        (Edit(noisy, "_seen", "np.where(nothing, 1.0, p[:, 1])",
              "np.roll(np.where(nothing, 1.0, p[:, 1]), 1)"),),
    ),
    "withheld scored as missing": (
        lambda: check_sums("discrete Gaussian, withheld", "poisson"),
        (Edit(noisy, "_seen", "nothing = (family == GAUSSIAN) & (p[:, 1] == 0.0)",
              "nothing = p[:, 0] == -np.inf"),),
    ),
    "an open end that ends": (
        lambda: check_sums("Gaussian, clamped at both ends", "poisson"),
        (Edit(noisy, "read_counts", "other[above, 2], other[above, 0] = p[above, 0]",
              "other[above, 2], other[above, 0] = 0.9 * p[above, 0]"),),
    ),
    "the Jacobian left out": (
        lambda: check_integrals("log-normal", "clamped"),
        (Edit(na.interop.numpyro_noisy, "_coordinate",
              " + to_value.log_abs_det_jacobian(safe, x)", ""),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()
