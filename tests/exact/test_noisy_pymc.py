"""`interop.pymc.Noisy` against sums over counts term by term, and closed forms.

Log probabilities must agree to 1e-11 of their size. Draws are compared with exact probabilities by
chi-square tests with a false alarm of 1e-6 each.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import noiseaware as na
from exact import seen
from mutants.planting import Edit, planted
from noiseaware.interop import noisy

with warnings.catch_warnings():  # ArviZ announces its next version
    warnings.simplefilter("ignore")
    pm = pytest.importorskip("pymc", reason="the extra `pymc` is not installed")

from exact.noisy_cases import CASES, VALUE  # takes a second

pytestmark = pytest.mark.filterwarnings("ignore")


def built(case, kind="poisson"):
    mechanism, values, _ = CASES[case]
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 0.5)
        rate = seen.RATES * pm.math.exp(b)
        base = {
            "poisson": lambda: pm.Poisson.dist(rate),
            "negative-binomial": lambda: pm.NegativeBinomial.dist(mu=rate, alpha=0.7),
            "binomial": lambda: pm.Binomial.dist(seen.TRIALS, 0.4),
            "many zeros": lambda: pm.ZeroInflatedPoisson.dist(0.7, rate),
        }[kind]()
        na.interop.pymc.Noisy("y", base, mechanism, observed=values)
    return model


def check_sums(case, kind="poisson"):
    model = built(case, kind)
    exact = logsumexp(seen.log_masses(kind) + CASES[case][2], axis=1)
    found = model.compile_logp(vars=[model["y"]], sum=False)({"b": 0.0})[0]
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)


QUICK = "discrete Gaussian, withheld"


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (QUICK, "poisson"),
        *(pytest.param(c, "poisson", marks=pytest.mark.full) for c in CASES if c != QUICK),
        *(
            pytest.param(QUICK, kind, marks=pytest.mark.full)
            for kind in ("negative-binomial", "binomial", "many zeros")
        ),
    ],
)
def test_counts_are_summed_out(case, kind):
    check_sums(case, kind)


def nested(w, rate):
    """Return distributions that are made of others."""
    both = [pm.Poisson.dist(rate), pm.Poisson.dist(3.0 * rate)]
    return {
        "mixture": pm.Mixture.dist(pm.math.stack([w, 1.0 - w]), both),
        "mixture of an array": pm.Mixture.dist(
            pm.math.stack([w, 1.0 - w]), pm.Poisson.dist(rate * np.array([1.0, 3.0]))
        ),
        "censored": pm.Censored.dist(both[0], lower=0, upper=4),
        "hurdle": pm.HurdlePoisson.dist(w, rate),
    }


@pytest.mark.full
def test_distributions_made_of_others():
    values, k = np.array([3.0, 0.0, 7.0, 2.0, 9.0]), np.arange(200)
    noise = na.mechanisms.LocalGeometric(VALUE, scale=1.5)
    with pm.Model() as model:
        b, w = pm.Normal("b"), pm.Beta("w", 1.0, 1.0)
        for name, base in nested(w, pm.math.exp(b)).items():
            na.interop.pymc.Noisy(name, base, noise, observed=values)
    one, three = (stats.poisson(c * np.exp(0.5)) for c in (1.0, 3.0))
    w = 1.0 / (1.0 + np.exp(-0.3))
    mixed = w * one.pmf(k) + (1.0 - w) * three.pmf(k)
    masses = {
        "mixture": mixed,
        "mixture of an array": mixed,
        "censored": np.where(k < 4, one.pmf(k), (k == 4) * one.sf(3)),
        "hurdle": np.where(k == 0, 1.0 - w, w * one.pmf(k) / one.sf(0)),
    }
    q = np.exp(-1.0 / 1.5)
    h = (1.0 - q) / (1.0 + q) * q ** np.abs(values[:, np.newaxis] - k)
    for name, f in masses.items():
        found = model.compile_logp(vars=[model[name]], sum=False)({"b": 0.5, "w_logodds__": 0.3})
        np.testing.assert_allclose(found[0], np.log(h @ f), rtol=1e-11, err_msg=name)
        assert pm.draw(model[name], draws=2, random_seed=1).shape == (2, 5)


@pytest.mark.full
def test_nuts_and_the_true_counts():
    """The gradient, by Fisher's identity; then a run, and the counts behind it."""
    case = "discrete Gaussian, one missing"
    model = built(case)
    log_w = seen.log_masses("poisson") + CASES[case][2]
    weights = np.exp(log_w - logsumexp(log_w, axis=1, keepdims=True))
    slope = (weights @ seen.X - seen.RATES)[[0, 1, 3, 4]].sum()  # record 2 is missing
    assert model.compile_dlogp()({"b": 0.0})[0] == pytest.approx(slope, rel=1e-9)
    with model:
        idata = pm.sample(
            500, tune=300, chains=2, cores=1, progressbar=False, random_seed=1,
        )  # fmt: skip
        again = pm.sample_posterior_predictive(idata, progressbar=False, random_seed=1)
        idata["posterior"]["b"].values[:] = 0.0
        drawn = na.interop.pymc.true_values(idata, random_seed=1)["y"].values.reshape(-1, 5)
    assert again["posterior_predictive"]["y"].shape == (2, 500, 5)
    expected = 1000 * weights
    for i in range(5):
        counts = np.bincount(drawn[:, i], minlength=len(seen.X)).astype(float)
        large = np.flatnonzero(expected[i] > 8.0)
        bins = np.searchsorted(large, seen.X).clip(0, len(large) - 1)
        pooled = [np.bincount(bins, w, minlength=len(large)) for w in (counts, expected[i])]
        assert stats.chisquare(*pooled).pvalue > 1e-6, i


@pytest.mark.full
def test_values_are_integrated():
    """A normal value under Gaussian noise is normal.

    PyTensor holds a 2.0 of Python in single precision, and PyMC's density has its logarithm.
    """
    noise, values = na.mechanisms.LocalGaussian(VALUE, scale=1.5), np.array([-2.0, 0.3, 9.0])
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        true = pm.Normal.dist(3.0 + b, np.float64(2.0))
        na.interop.pymc.Noisy("y", true, noise, observed=values)
    found = model.compile_logp(vars=[model["y"]], sum=False)({"b": 0.5})[0]
    np.testing.assert_allclose(found, stats.norm.logpdf(values, 3.5, 2.5), rtol=1e-12)


@pytest.mark.parametrize(
    ("base", "observed", "words"),
    [
        (lambda: 3.0, [1.0], "must be one of PyMC"),
        (lambda: pm.MvNormal.dist(np.zeros(2), np.eye(2)), [1.0], "single numbers"),
        (lambda: pm.Poisson.dist(1.0), ["a"], "an array of numbers"),
        (lambda: pm.Normal.dist(), [1.0], "publishes whole numbers"),
    ],
)
def test_bad_input_is_one_clear_line(base, observed, words):
    with pm.Model(), pytest.raises((TypeError, ValueError), match=words) as caught:
        na.interop.pymc.Noisy("y", base(), CASES["as they are"][0], observed=observed)
    assert "\n" not in str(caught.value)


@pytest.mark.full
@pytest.mark.parametrize(
    "edit",
    [
        Edit(noisy, "count_weights", "inside < width", "inside < width - 1"),
        Edit(noisy, "_seen", "np.clip(end, -FAR, FAR) for", "np.clip(np.roll(end, 1), -9, 9) for"),
    ],
    ids=["counts left out", "the value of another record"],
)
def test_the_bug_is_caught(edit):
    with planted(edit), pytest.raises(AssertionError):
        check_sums("discrete Gaussian, one missing")


@pytest.mark.full
def test_the_block_of_the_page_runs():
    page = Path(__file__).parents[2] / "docs" / "noisy.md"
    _, block = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    noise = na.mechanisms.LocalDiscreteGaussian(VALUE, scale=6.0, threshold=15.0)
    released = np.array([22, 31, 19, 28, np.nan, 47, 38, np.nan, 52, 49, 61, 44])
    names = {"na": na, "noise": noise, "released": released}
    exec(compile(block, str(page), "exec"), names)
    assert names["true"]["y"].shape == (2, 300, 12)


def test_there_is_a_variable_to_draw():
    with pm.Model() as model:
        pm.Normal("b", 0.0, 1.0)
    with pytest.raises(ValueError, match="no Noisy variable"):
        na.interop.pymc.true_values({"posterior": None}, model)
