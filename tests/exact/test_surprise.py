"""A release of cells that model and noise could not have made fails its check, another does not.

`scrutiny.surprise` promises p-values that are below q with probability at most q, for releases that
prior, model and mechanism made. A draw (theta, x, s) of these three is a release with a draw of its
posterior, so that the promise can be counted without a chain: the p_j of all of them are uniform.
Each test of that fails a right check with probability 1e-6. The last tests go through `sample`.
"""

import json

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.maths.cells import draw_counts, log_masses
from noiseaware.mechanisms import (
    Attributes,
    CellKey,
    Laplace,
    LocalDiscreteGaussian,
    LocalExact,
    LocalGaussian,
    LocalGeometric,
    LocalLaplace,
    RandomizedResponse,
    RandomRounding,
    Several,
    local,
)
from noiseaware.models import Bernoulli, CountRegression, Normal
from noiseaware.queries import Count, Sum, Value
from noiseaware.results import checks
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target
from noiseaware.scrutiny import surprise

RARE, REPLICATES, CELLS = 1e-6, 300, 40
FIT = "the release fits the model"


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


def features():
    return {"z": np.linspace(-1.0, 1.0, CELLS)}


def regression(family="poisson", **more):
    trials = np.arange(CELLS) % 9 + 5 if family == "binomial" else None
    mean = 0.0 if family == "binomial" else 2.5
    return CountRegression(
        features(), family=family, trials=trials, intercept_mean=mean, intercept_sd=1.0, **more
    )


SCALES = np.linspace(1.0, 9.0, CELLS)
NOISES = {
    "laplace": LocalLaplace(Value(), scale=SCALES),
    "gaussian, withheld": LocalGaussian(Value(), scale=4.0, threshold=10.0),
    "geometric, rounded": LocalGeometric(Value(), scale=3.0, step=5, clamp=[0, None]),
    "discrete gaussian, withheld": LocalDiscreteGaussian(Value(), scale=SCALES, threshold=8.0),
    "laplace, clamped": LocalLaplace(Value(), scale=3.0, clamp=[0.0, 40.0]),
    "rounding": RandomRounding(3),
    "cell key": CellKey([[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], lowest=-1),
    "exact": LocalExact(),
}
FAMILIES = ("poisson", "negative-binomial", "binomial")
SETTINGS = {
    f"{family}, {noise}": (regression(family), mechanism)
    for noise, mechanism in NOISES.items()
    for family in FAMILIES
} | {
    "normal": (Normal(variance=1.0), LocalLaplace(Sum(-9, 9), epsilon=2.0)),
    "levels": (Bernoulli(), RandomizedResponse(n_levels=2, truth=0.7)),
}
QUICK = [
    "poisson, laplace",
    "negative-binomial, discrete gaussian, withheld",
    "binomial, geometric, rounded",
    "poisson, rounding",
    "levels",
]


def looked(model, mechanism, rng, stated=None, n=CELLS):
    """Draw theta, x and s, and return what is found of them; the noise may be stated otherwise."""
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, n, rng)
    release = na.Release(mechanism.privatize(records, rng).values, stated or mechanism, n)
    target, seen = Target(model, release), []
    original = surprise.together
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surprise, "together", lambda logs: seen.append(logs) or original(logs))
        found = surprise._look(target, ChainState(theta, records, None, rng), rng)
    return found, np.concatenate(seen) if seen else np.zeros(0)


def uniform_p_values(setting, seed):
    """Return p-values of: all p_j are uniform; the p-values are above q as often as promised."""
    model, mechanism = SETTINGS[setting]
    rng = np.random.default_rng([seed, len(setting)])
    made = [looked(model, mechanism, rng) for _ in range(REPLICATES)]
    each = np.exp(np.concatenate([logs for _, logs in made]))
    small = sum(found.p_value < 0.1 for found, _ in made)
    return (
        stats.kstest(each, "uniform").pvalue,
        stats.binomtest(small, REPLICATES, 0.1, alternative="greater").pvalue,
    )


@pytest.mark.parametrize("setting", only(QUICK, SETTINGS))
def test_a_release_of_the_model_is_no_surprise(setting, seed):
    assert min(uniform_p_values(setting, seed)) > RARE / 2


BUGS = {
    "the mass of a whole number left out": (
        "poisson, laplace",
        Edit(surprise, "log_p", "at + np.log(v)", "at + np.log(v) - 9.0"),
    ),
    "an upper tail that begins one too early": (
        "poisson, rounding",
        Edit(surprise, "count_tails", "gammainc(x + 1.0, rate)", "gammainc(x + 1e-9, rate)"),
    ),
    "the size of a negative binomial forgotten": (
        "negative-binomial, discrete gaussian, withheld",
        Edit(surprise, "count_tails", "betainc(x + 1.0, size,", "betainc(x + 1.0, size + 1.0,"),
    ),
    "trials counted once too often": (
        "binomial, geometric, rounded",
        Edit(surprise, "count_tails", "betainc(size - x + 1.0,", "betainc(size - x + 2.0,"),
    ),
    "discrete noise without its gap": (
        "poisson, laplace of whole numbers",
        Edit(local, "noise_tails", "1.0 if noise >= 2 else 0.0", "0.0"),
    ),
    "a level that is its own lower tail": (
        "levels",
        Edit(RandomizedResponse, "record_tails", "away < 0, ", "away <= 0, "),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_tail_is_seen(bug, seed, monkeypatch):
    whole = LocalGeometric(Value(), scale=1.0)
    monkeypatch.setitem(SETTINGS, "poisson, laplace of whole numbers", (regression(), whole))
    setting, edit = BUGS[bug]
    with planted(edit):
        assert min(uniform_p_values(setting, seed)) < RARE / 2


@pytest.mark.parametrize("family", FAMILIES)
def test_tails_are_those_of_sums(family, rng):
    model = regression(family)
    code, rate, size = model.count_law(model.sample_prior(rng), CELLS)
    x = draw_counts(code, rate, size, rng).astype(float)
    found = np.exp(surprise.count_tails(code, rate, size, x))
    for i in range(CELLS):
        grid = np.arange(20_000.0) if family != "binomial" else np.arange(size[i] + 1.0)
        logs, same = np.empty(len(grid)), np.ones(len(grid))
        log_masses(code, rate[i] * same, size[i] * same, grid, logs)
        mass = np.exp(logs)
        wanted = mass[grid < x[i]].sum(), mass[grid == x[i]].sum(), mass[grid > x[i]].sum()
        np.testing.assert_allclose(found[:, i], wanted, rtol=1e-6, atol=1e-12)


def test_values_of_several_attributes_stand_beside_one_another(rng):
    first, second = LocalGaussian(Value(), scale=2.0), RandomizedResponse(n_levels=2, truth=0.7)
    both = Attributes([first, second, LocalExact()])
    records = np.column_stack([rng.poisson(9, 5), rng.integers(0, 2, 5), rng.poisson(9, 5)])
    values = both.privatize(records, rng).values
    found = both.record_tails(records, values).reshape(3, 5, 3)
    parts = values.reshape(5, 3).T
    np.testing.assert_array_equal(found[..., 0], first.record_tails(records[:, 0], parts[0]))
    np.testing.assert_array_equal(found[..., 1], second.record_tails(records[:, 1], parts[1]))
    assert (found[1, :, 2] == 0.0).all()


def test_noise_that_is_smaller_than_stated_is_seen(rng):
    """200 cells: in 300 simulations the largest p-value was 5e-21."""
    little, stated = LocalLaplace(Value(), scale=0.2), LocalLaplace(Value(), scale=9.0)
    model = CountRegression(intercept_mean=2.5, intercept_sd=1.0)
    found, _ = looked(model, little, rng, stated, n=200)
    assert found.p_value < checks.RECORD_SURPRISE
    assert found.kind == "less"


def test_cells_that_were_not_asked_for_say_nothing(rng):
    model = regression()
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, CELLS, rng)
    release = na.Release(np.full(CELLS, np.nan), LocalLaplace(Value(), scale=1.0), CELLS)
    found = surprise._look(Target(model, release), ChainState(theta, records, None, rng), rng)
    assert "there are none" in found.why


# ------------------------------------------------------------------ through `sample`


def fitted(model, mechanism, records, rng, **options):
    names = [f"Area {i}" for i in range(len(records))]
    values = mechanism.privatize(records, rng).values
    release = na.Release(values, mechanism, len(records), names)
    settings = {"draws": 100, "warmup": 150, "random_seed": 1, "progressbar": False, **options}
    return na.sample(model, release, **settings)


def verdict(posterior):
    (found,) = (v for v in na.check(posterior).verdicts if v.name == FIT)
    return found


def test_of_releases_from_the_model_few_fail(seed):
    """200 releases, one chain each: p-values below 0.05 as often as that, or less; 1e-6."""
    rng, model, mechanism = np.random.default_rng(seed), regression(), NOISES["laplace"]
    small = 0
    for k in range(200):
        records = model.sample_records(model.sample_prior(rng), CELLS, rng)
        posterior = fitted(model, mechanism, records, rng, chains=1, random_seed=k, draws=10)
        found = json.loads(posterior.attrs["surprise"])
        small += found["p_value"] < 0.05
        assert found["p_value"] >= checks.RECORD_SURPRISE  # 200 times 1e-5
    assert stats.binomtest(small, 200, 0.05, alternative="greater").pvalue > RARE


WRONG = {
    "laplace": LocalLaplace(Value(), scale=5.0),
    "gaussian": LocalGaussian(Value(), scale=7.0),
    "geometric, withheld": LocalGeometric(Value(), scale=5.0, threshold=20.0),
    "discrete gaussian, withheld": LocalDiscreteGaussian(Value(), scale=7.0, threshold=20.0),
    "rounding": RandomRounding(3),
}


@pytest.mark.parametrize("noise", only(["laplace", "discrete gaussian, withheld"], WRONG))
def test_counts_that_vary_more_than_poisson_counts_fail(noise, seed):
    """A dispersion of 0.5: in 100 such tables the largest p-value was 7e-28."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(size=50)
    records = rng.poisson(np.exp(2.5 + 3.0 * z) * rng.gamma(2.0, 0.5, size=50))
    found = verdict(fitted(CountRegression({"z": z}), WRONG[noise], records, rng))
    assert not found.passed
    assert "'Area " in found.message
    assert 'try family = "negative-binomial", groups, an exposure or other' in found.message
    model = CountRegression({"z": z}, family="negative-binomial")
    assert verdict(fitted(model, WRONG[noise], records, rng)).passed


def test_an_exposure_that_was_forgotten_fails(seed):
    rng = np.random.default_rng(seed)
    exposure = np.exp(rng.normal(size=50)) * 50.0
    records, noise = rng.poisson(exposure), LocalLaplace(Value(), scale=5.0)
    found = verdict(fitted(CountRegression({"z": rng.normal(size=50)}), noise, records, rng))
    assert not found.passed
    assert "standard deviations of the noise away" in found.message
    assert "an exposure" in found.message
    model = CountRegression({"z": rng.normal(size=50)}, exposure=exposure)
    assert verdict(fitted(model, noise, records, rng)).passed


def test_what_cannot_be_checked_is_said(rng):
    class Own(LocalLaplace):
        record_tails = None

    found = verdict(fitted(regression(), Own(Value(), scale=5.0), rng.poisson(9, CELLS), rng))
    assert found.passed
    assert not found.checked
    assert found.message.startswith("not checked: Own does not say how likely its values are")
    parts = [Laplace(Count(), epsilon=1.0), RandomizedResponse(n_levels=2, truth=0.7)]
    records = rng.integers(0, 2, 20)
    release = Several(parts).privatize(records, rng)
    posterior = na.sample(Bernoulli(), release, draws=50, warmup=50, progressbar=False)
    assert "not checked: there is no test for Several" in str(na.check(posterior))
    assert "--    the release fits" in str(na.check(posterior))


def test_an_error_in_a_class_of_the_users_does_not_cost_the_draws(rng):
    class Own(LocalLaplace):
        def record_tails(self, records, values):
            raise RuntimeError("no tails today")

    found = verdict(fitted(regression(), Own(Value(), scale=5.0), rng.poisson(9, CELLS), rng))
    assert "not checked: it ended with an error" in found.message
    assert "no tails today" in found.message
