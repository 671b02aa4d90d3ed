"""`CountRegression` with cells that are released one by one, on the default sampler.

Posteriors are computed by quadrature over theta and sums term by term over every count, with none
of the package's formulas. False alarms: 1e-5 for each comparison of draws (`exact.known`, 9 of
them), 1e-6 for each Geweke and SBC run.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import noiseaware as na
from exact.known import Gauss, Table, assert_draws_agree, sampled
from later import only
from mutants.planting import Edit, planted
from noiseaware.mechanisms import (
    CellKey,
    LocalDiscreteGaussian,
    LocalExact,
    LocalGaussian,
    LocalGeometric,
    LocalLaplace,
    RandomRounding,
    after_noise,
)
from noiseaware.models.summed_regression import SummedRegression
from noiseaware.sampler.target import Target

VALUE = na.queries.Value()
X = np.arange(400)
NAN = math.nan


# ------------------------------------------------------------------ laws, by hand


def seen_gaussian(s, x, scale, threshold=None):
    """Discrete Gaussian noise; a NaN is withheld, or nothing."""
    noise = np.arange(-300, 301)
    mass = np.exp(-0.5 * (noise / scale) ** 2)
    mass /= mass.sum()
    if math.isnan(s) and threshold is None:
        return np.ones(len(x))
    if math.isnan(s):
        return np.array([mass[noise + y <= threshold].sum() for y in x])
    return np.array([mass[noise == s - y].sum() if abs(s - y) <= 300 else 0.0 for y in x])


def seen_laplace(s, x, scale):
    return np.ones(len(x)) if math.isnan(s) else np.exp(-np.abs(s - x) / scale)


def masses(family, rate, size):
    if family == "poisson":
        return stats.poisson.pmf(X, rate)
    if family == "binomial":
        return stats.binom.pmf(X, size, rate / (1 + rate))
    return stats.nbinom.pmf(X, size, size / (size + rate))


# ------------------------------------------------------------------ posteriors by quadrature

SCALES = np.array([2.0, 6.0, 1.0, 3.0, 9.0])
RELEASED = np.array([7.0, 14.0, NAN, 3.0, NAN])
EXPOSURE = np.array([1.0, 2.0, 1.5, 0.5, 3.0])
THRESHOLD = np.array([2.0, 5.0, 4.0, 1.0, 6.0])
PRIOR = {"intercept_mean": 1.0, "intercept_sd": 1.5}
GRID = np.linspace(-3.0, 4.0, 1401)


def poisson_case(threshold=None):
    mechanism = LocalDiscreteGaussian(VALUE, scale=SCALES, threshold=threshold)
    model = na.models.CountRegression(exposure=EXPOSURE, **PRIOR)
    release = na.Release(RELEASED, mechanism, 5)
    limits = [None] * 5 if threshold is None else threshold
    laws = [
        seen_gaussian(*entry[:1], X, *entry[1:])
        for entry in zip(RELEASED, SCALES, limits, strict=True)
    ]
    rates = np.exp(GRID)[:, np.newaxis]
    joint = [masses("poisson", EXPOSURE[i] * rates, 0) * laws[i] for i in range(5)]
    return model, release, np.stack(joint, axis=1)


def check_poisson(threshold, stream, draws=1500):
    """In four chains of so many draws, which are worth at least as many as are in one."""
    model, release, joint = poisson_case(threshold)
    log_p = np.log(joint.sum(axis=2)).sum(axis=1) - 0.5 * ((GRID - 1.0) / 1.5) ** 2
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    tree = sampled(model, release, None, draws=draws, stream=stream)
    found = tree["posterior"]["coefficients"].values[..., 0]
    assert_draws_agree({"intercept": Table(GRID, np.log(weights))}, lambda _: found)
    given = joint / joint.sum(axis=2, keepdims=True)
    means = np.einsum("j,jix,x->i", weights, given, X)
    squares = np.einsum("j,jix,x->i", weights, given, X.astype(float) ** 2)
    sds = np.sqrt(squares - means**2)
    found = na.estimates(tree)
    assert (np.abs(found["mean"] - means) < 6.0 * sds / math.sqrt(draws)).all()
    np.testing.assert_allclose(found["sd"], sds, rtol=4.0 / math.sqrt(draws))
    cdf = np.cumsum(np.einsum("j,jix->ix", weights, given), axis=1)
    for i in range(5):
        low, high = (int(found[name][i]) for name in ("lower", "upper"))
        slack = 6.0 * math.sqrt(0.05 * 0.95 / draws)
        assert cdf[i, low] > 0.05 - slack
        assert low == 0 or cdf[i, low - 1] < 0.05 + slack
        assert cdf[i, high] > 0.95 - slack
        assert cdf[i, high - 1] < 0.95 + slack


@pytest.mark.parametrize("draws", only([600], [600, 1500]))
@pytest.mark.parametrize("threshold", [None, THRESHOLD], ids=["not-asked", "withheld"])
def test_an_intercept_and_every_cell(threshold, draws):
    check_poisson(threshold, 51, draws)


@pytest.mark.full
def test_negative_binomial():
    check_negative_binomial()


def check_negative_binomial():
    """Two dimensions: the intercept, and the dispersion."""
    values, scale = np.array([4.0, 0.5, 21.3, 9.0, 2.2, 30.1]), 3.0
    model = na.models.CountRegression(family="negative-binomial", dispersion_mean=0.8, **PRIOR)
    release = na.Release(values, LocalLaplace(VALUE, scale=scale), 6)
    b = np.linspace(-1.0, 5.0, 121)
    t = np.linspace(-8.0, 3.0, 89)
    laws = np.array([seen_laplace(s, X, scale) for s in values])
    log_p = np.empty((len(b), len(t)))
    for j, k in itertools.product(range(len(b)), range(len(t))):
        f = masses("negative-binomial", math.exp(b[j]), math.exp(-t[k]))
        prior = -0.5 * ((b[j] - 1.0) / 1.5) ** 2 - math.exp(t[k]) / 0.8 + t[k]
        log_p[j, k] = np.log(laws @ f).sum() + prior
    weights = np.exp(log_p - log_p.max())
    tree = sampled(model, release, None, draws=2500, stream=52)["posterior"]
    exact = {
        "intercept": Table(b, np.log(weights.sum(axis=1))),
        "log": Table(t, np.log(weights.sum(axis=0))),
    }
    draws = {
        "intercept": tree["coefficients"].values[..., 0],
        "log": np.log(tree["dispersion"].values),
    }
    assert_draws_agree(exact, lambda name: draws[name])


def test_binomial_with_random_rounding():
    values, trials = np.array([3.0, 6.0, 0.0, 9.0]), np.array([5.0, 20.0, 4.0, 11.0])
    model = na.models.CountRegression(
        {"z": [0.0, 1.0, -1.0, 0.5]}, family="binomial", trials=trials, coefficient_sd=1.0, **PRIOR
    )
    release = na.Release(values, RandomRounding(3), 4)
    a, b = np.linspace(-6.0, 7.0, 261), np.linspace(-4.5, 4.5, 241)
    log_p = -0.5 * ((a[:, None] - 1.0) / 1.5) ** 2 - 0.5 * b**2
    x = np.arange(25)
    for s, N, z in zip(values, trials, (0.0, 1.0, -1.0, 0.5), strict=True):
        h = np.clip(1.0 - np.abs(x - s) / 3.0, 0.0, None)
        p = 1.0 / (1.0 + np.exp(-(a[:, None] + b * z)))
        f = special.comb(N, x) * p[..., None] ** x * (1.0 - p[..., None]) ** np.maximum(N - x, 0)
        log_p = log_p + np.log((f * h).sum(axis=-1))
    weights = np.exp(log_p - log_p.max())
    tree = sampled(model, release, None, stream=53)["posterior"]["coefficients"].values
    exact = {0: Table(a, np.log(weights.sum(axis=1))), 1: Table(b, np.log(weights.sum(axis=0)))}
    assert_draws_agree(exact, lambda k: tree[..., k])


@pytest.mark.full
def test_exact_cells_are_a_poisson_regression():
    """With exact counts the Gamma posterior of the rate, prior and all, on a grid."""
    values = np.array([2.0, 5.0, 3.0])
    model = na.models.CountRegression(**PRIOR)
    log_p = values.sum() * GRID - 3 * np.exp(GRID) - 0.5 * ((GRID - 1.0) / 1.5) ** 2
    tree = sampled(model, na.Release(values, LocalExact(), 3), None, stream=54)
    draws = tree["posterior"]["coefficients"].values[..., 0]
    assert_draws_agree({0: Table(GRID, log_p)}, lambda _: draws)
    np.testing.assert_allclose(na.estimates(tree)["mean"], values, rtol=1e-12)


def check_groups(stream):
    """Against a million draws from the prior, each with its exact likelihood as weight."""
    values, scale = np.array([20.0, 25.0, 3.0, 2.0]), 2.0
    model = na.models.CountRegression(groups=list("aabb"), spread_scale=0.7, **PRIOR)
    release = na.Release(values, LocalDiscreteGaussian(VALUE, scale=scale), 4)
    laws = [seen_gaussian(s, X, scale) for s in values]
    rates = np.linspace(-12.0, 6.0, 2001)
    logs = np.array([np.log([masses("poisson", math.exp(a), 0) @ h for a in rates]) for h in laws])
    rng = np.random.default_rng(5)
    m = 1_000_000
    b, spread = rng.normal(1.0, 1.5, m), np.abs(rng.normal(0.0, 0.7, m))
    u = rng.normal(size=(2, m)) * spread
    log_p = sum(np.interp(b + u[i // 2], rates, logs[i]) for i in range(4))
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    tree = sampled(model, release, None, draws=1500, stream=stream)["posterior"]
    intercept, effect = (tree[name].values[..., 0] for name in ("coefficients", "effects_group"))
    found = {
        "effect": (u[0], effect),
        "log rate": (b + u[0], intercept + effect),  # what the cells see of both
        "spread": (spread, tree["spread"].values[..., 0]),
    }
    for name, (drawn, draws) in found.items():
        mean = weights @ drawn
        error = math.sqrt(weights**2 @ (drawn - mean) ** 2)
        # 6,000 draws are worth at least 1,000.
        error = math.hypot(error, draws.std() / math.sqrt(1000))
        assert abs(draws.mean() - mean) < 5.0 * error, name


@pytest.mark.full
def test_groups():
    check_groups(63)


def check_without_data(stream):
    """Nothing is published: the posterior is the prior."""
    model = na.models.CountRegression(groups=list("aabbcd"), spread_scale=0.7, **PRIOR)
    release = na.Release([NAN] * 6, LocalDiscreteGaussian(VALUE, scale=2.0), 6)
    tree = sampled(model, release, None, draws=1500, stream=stream)["posterior"]
    grid = np.linspace(0.0005, 5.0, 5000)
    exact = {"spread": Table(grid, -0.5 * (grid / 0.7) ** 2), "intercept": Gauss(1.0, 1.5**2)}
    draws = {
        "spread": tree["spread"].values[..., 0],
        "intercept": tree["coefficients"].values[..., 0],
    }
    assert_draws_agree(exact, lambda name: draws[name])


@pytest.mark.full
def test_without_data():
    check_without_data(61)


# ------------------------------------------------------------------ Geweke and SBC

NARROW = {"intercept_mean": 1.5, "intercept_sd": 0.7, "coefficient_sd": 0.5, "spread_scale": 0.6}
Z = {"z": [0.3, -1.0, 0.8, 0.1, -0.4, 1.2, -0.7, 0.5]}
GROUPS = list("aabbbccd")
LAWS = {
    "laplace": LocalLaplace(VALUE, scale=np.linspace(1.0, 3.0, 8), threshold=1.0),
    "gaussian": LocalGaussian(VALUE, scale=2.0, clamp=(0.0, None)),
    "geometric": LocalGeometric(VALUE, scale=1.5, step=4.0),
    "discrete-gaussian": LocalDiscreteGaussian(VALUE, scale=2.5, threshold=2.0),
    "rounding": RandomRounding(3),
    "cell-key": CellKey([[0.8, 0.2, 0.0], [0.5, 0.3, 0.2], [0.1, 0.5, 0.4]], lowest=0),
}
MODELS = {
    "poisson": na.models.CountRegression(Z, [1, 2, 1, 1, 3, 1, 0.5, 1], GROUPS, **NARROW),
    "negative-binomial": na.models.CountRegression(
        Z, None, GROUPS, family="negative-binomial", spread_df=4.0, dispersion_mean=0.5, **NARROW
    ),
    "binomial": na.models.CountRegression(
        Z, None, {"one": GROUPS, "two": list("xyxyxyxy")}, family="binomial", trials=[9] * 8,
        **NARROW,
    ),
}  # fmt: skip


def check_geweke(model, law, seed=1, replicates=400, rounds=4):
    result = na.geweke(
        MODELS[model],
        LAWS[law],
        n_records=8,
        replicates=replicates,
        rounds=rounds,
        random_seed=seed,
        false_alarm=1e-6,
    )
    assert result, str(result)


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("model", MODELS)
def test_geweke(model, law, seed):
    check_geweke(model, law, seed)


def test_geweke_in_few_replicates(seed):
    check_geweke("poisson", "laplace", seed, replicates=150, rounds=3)


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("model", MODELS)
def test_sbc(model, law, seed):
    result = na.sbc(
        MODELS[model], LAWS[law], n_records=8, replicates=60, ranks=9, draws=90, warmup=100,
        random_seed=seed, false_alarm=1e-6,
    )  # fmt: skip
    assert result, str(result)


# ------------------------------------------------------------------ derivatives


@pytest.mark.parametrize("family", MODELS)
def test_score_and_information_are_derivatives(family):
    model = MODELS[family]
    rng = np.random.default_rng(3)
    theta = model.sample_prior(rng)
    release = LAWS["gaussian"].privatize(model.sample_records(theta, 8, rng), rng)
    kernel = Target(model, release).summed_kernel
    h = 1e-4

    def at(shift):
        moved = {**theta, "coefficients": theta["coefficients"] + [shift, 0.0]}
        return kernel.point(moved)

    below, here, above = at(-h), at(0.0), at(h)
    slope = (above.summed.log_p - below.summed.log_p) / (2 * h)
    bend = -(above.summed.log_p - 2 * here.summed.log_p + below.summed.log_p) / h**2
    np.testing.assert_allclose(here.score, slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(here.information, np.maximum(bend, 0.0), rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ bad input


def regression(**given):
    return lambda: na.models.CountRegression(**given)


def fitted(model, release):
    return lambda: na.sample(model, release, draws=5, warmup=5, chains=1, progressbar=False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LocalLaplace(VALUE, scale=[1.0, 0.0]), "scale must be a positive .* record 1"),
        (lambda: LocalLaplace(VALUE, scale=[1.0, NAN]), "scale must be .*; got nan for record 1"),
        (lambda: na.Release([1.0], LocalGaussian(VALUE, scale=[1.0, 2.0]), 1), "as many as scale"),
        (
            lambda: na.Release([1.0, 9.0], LocalGaussian(VALUE, scale=1.0, threshold=5.0), 2),
            "above the threshold or NaN; got 1.0 for record 0",
        ),
        (
            lambda: na.Release([1.5], LocalDiscreteGaussian(VALUE, scale=1.0), 1),
            "integers under LocalDiscreteGaussian; got 1.5 for record 0",
        ),
        (lambda: na.Release([4.0], RandomRounding(3), 1), "RandomRounding can publish; got 4.0"),
        (lambda: CellKey([[0.5, 0.5]], lowest=-1), "no negative count; row 0 has 0.5 for -1"),
        (lambda: CellKey([[0.5, 0.4]], lowest=0), "sum to 1; got .* in row 0"),
        (regression(features={"a": [1.0, NAN]}), "column 'a' has nan in row 1"),
        (regression(features={"a": [2.0, 2.0]}), "column 'a' is 2.0 in every row"),
        (regression(features={"a": [1, 2]}, exposure=[1.0]), "column 'a' has 2, exposure 1"),
        (regression(exposure=[1.0, 0.0]), "exposure must be positive; got 0.0 in row 1"),
        (regression(groups=["a", None]), "groups must have a label in every row; row 1"),
        (regression(family="gamma"), "family must be one of"),
        (regression(family="binomial"), "trials is missing"),
        (regression(family="binomial", trials=[1.5]), "positive whole numbers; got 1.5 in row 0"),
        (
            fitted(
                na.models.CountRegression(family="binomial", trials=[3, 4]),
                na.Release([1.0, 5.0], LocalExact(), 2),
            ),
            "record 1 is not",
        ),
        (
            fitted(
                na.models.CountRegression({"a": [1, 2, 3]}),
                na.Release([1.0, 5.0], LocalGaussian(VALUE, scale=1.0), 2),
            ),
            "is of 3 records, and the release of 2",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ frames and files


def test_frames_and_files(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(
        {"noisy": [3.0, NAN, 8.0], "sd": [1.0, 2.0, 3.0], "z": [0.1, 0.5, 0.9],
         "people": [10, 20, 30], "state": ["a", "b", "a"]}, index=["x", "y", "z"],
    )  # fmt: skip
    mechanism = LocalDiscreteGaussian(VALUE, scale=frame["sd"])
    release = na.Release(frame["noisy"], mechanism, len(frame))
    model = na.models.CountRegression(frame[["z"]], frame["people"], frame["state"])
    tree = na.sample(
        model, release, draws=20, warmup=20, chains=2, progressbar=False, random_seed=1,
        keep_records=5,
    )  # fmt: skip
    assert tree["posterior"]["effects_state"]["state"].values.tolist() == ["a", "b"]
    na.save(tree, tmp_path / "posterior.nc")
    again = na.load(tmp_path / "posterior.nc")
    pd.testing.assert_frame_equal(na.estimates(again, top=1), na.estimates(tree, top=1))
    assert na.estimates(tree, top=1)["top"].sum() == pytest.approx(1.0)
    release.to_json(tmp_path / "release.json")
    same = na.sample(
        na.models.from_dict(model.to_dict()), na.Release.from_json(tmp_path / "release.json"),
        draws=20, warmup=20, chains=2, progressbar=False, random_seed=1,
    )  # fmt: skip
    for name in tree["posterior"].data_vars:
        np.testing.assert_array_equal(same["posterior"][name], tree["posterior"][name])


# ------------------------------------------------------------------ planted bugs


def geweke_of(model, law):
    return lambda: check_geweke(model, law)


NO_JUMP = Edit(SummedRegression, "step", "if self.jumps and", "if False and")
"""A jump, which is right, would hide what is wrong with the steps beside it."""

BUGS = {
    "the scale of the wrong record": (
        lambda: check_poisson(None, 55),
        (Edit(LocalGaussian.__mro__[1], "_rows", "self._each(self.scale, index)",
              "np.roll(self._each(self.scale, index), 1)"),),
    ),
    "a withheld cell scored as missing": (
        lambda: check_poisson(THRESHOLD, 56, draws=600),
        (Edit(after_noise, "thresholded_from", "np.where(withheld, -np.inf,",
              "np.where(withheld, np.nan,"),),
    ),
    "exposure left out": (
        lambda: check_poisson(None, 57),
        (Edit(SummedRegression, "at", "eta = self.offset +", "eta = 0.0 * self.offset +"),),
    ),
    "the way back of the coefficients": (
        lambda: check_poisson(None, 58),
        (Edit(SummedRegression, "_move_coefficients",
              "0.5 * (forward @ forward - backward @ backward) / b", "0.0"), NO_JUMP),
    ),
    "a walk that does not see the cells": (
        lambda: check_poisson(None, 58),
        (Edit(SummedRegression, "_walk", "self._height(there) - self._height(point)", "0.0"),
         NO_JUMP),
    ),
    "effects that walk without their prior": (
        lambda: check_groups(64),
        (Edit(SummedRegression, "_walk_effects", "* scale\n", "* 0.0\n"),),
    ),
    "the effects do not see their cells": (
        lambda: check_groups(64),
        (Edit(SummedRegression, "_move_effects", "there.summed.log_p - point.summed.log_p",
              "there.summed.log_p - there.summed.log_p"),
         Edit(SummedRegression, "_group_slopes", "codes, point.score, size",
              "codes, 0.0 * point.score, size")),
    ),
    "the Jacobian of the spread": (
        lambda: check_without_data(62),
        (Edit(SummedRegression, "_slice_spread", "(1.0 - size) * t", "(0.0 - size) * t"),),
    ),
    "a jump without its density": (
        check_negative_binomial,
        (Edit(SummedRegression, "_jump", "log_ratio = 0.5 *", "log_ratio = 0.0 *"),),
    ),
    "a jump without the posterior": (
        lambda: check_poisson(None, 58),
        (Edit(SummedRegression, "_jump", "self._log_posterior(place) - self._log_posterior(point)",
              "0.0"),),
    ),
    "a dispersion without its prior": (
        check_negative_binomial,
        (Edit(SummedRegression, "_log_posterior", "- point.dispersion /", "- 0.0 /"),),
    ),
    "a dispersion without its Jacobian": (
        check_negative_binomial,
        (Edit(SummedRegression, "_log_posterior", "math.log(point.dispersion) -", "-"),),
    ),
    "the polynomials of another release": (
        geweke_of("poisson", "laplace"),
        (Edit(SummedRegression, "forget", 'tuning["fits"] = CellFits()', "pass"),),
    ),
    "the intercept shifted alone": (
        geweke_of("poisson", "laplace"),
        (Edit(SummedRegression, "_shift", "point.effects[k] - d", "point.effects[k]"),),
    ),
}  # fmt: skip


QUICK_BUGS = ("a withheld cell scored as missing",)


@pytest.mark.parametrize("bug", only(QUICK_BUGS, BUGS))
def test_the_bug_is_caught(bug):
    check, edits = BUGS[bug]
    with planted(*edits), pytest.raises(AssertionError):
        check()


def test_groups_with_one_cell_are_allowed_and_said():
    model = na.models.CountRegression(groups={"state": ["a", "b", "b", "c"]})
    assert repr(model).endswith("4 cells, 2 of the 3 groups of 'state' with one cell)")
