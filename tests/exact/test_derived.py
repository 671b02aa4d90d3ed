"""What ready models derive from theta, against formulas at a few thetas, and in a posterior."""

import json
import math

import numpy as np
import pytest
from tests.mutants.planting import Edit, planted

import noiseaware as na
from later import all_but
from noiseaware.baselines import naive
from noiseaware.models import ContingencyTable, Gamma, LinearRegression, TwoProportions
from noiseaware.results.posterior import with_derived

TABLES = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.45, 0.05], [0.2, 0.3]], [[0.7, 0.1], [0.1, 0.1]]])
PAIRS = np.array([[0.2, 0.5], [0.9, 0.3], [0.25, 0.25]])
SHAPES, RATES = np.array([3.0, 0.5, 7.0]), np.array([2.0, 4.0, 0.1])

SLOPES = np.array([[9.0, 1.0, 2.0], [9.0, -1.0, 0.5], [9.0, 0.0, 0.0]])
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])  # b' C b = 8, 1.75 and 0
NOISES = np.array([8.0, 0.25, 3.0])
KNOWN = {"one": [1.0, -1.0, 1.0, -1.0], "two": [3.0, 3.0, 1.0, 1.0]}  # C = I


def explained(model):
    """Return the model with R squared; the method is looked up when called, for planted bugs."""
    return na.models.derived(model, {"r_squared": lambda theta: model.r_squared(theta)})


# model, theta, name, value of each draw
CASES = {
    "gamma": (Gamma(), {"shape": SHAPES, "rate": RATES}, "mean", [1.5, 0.125, 70.0]),
    "gamma, shape known": (Gamma(shape=2.0), {"rate": RATES}, "mean", [1.0, 0.5, 20.0]),
    "gamma, rate known": (Gamma(rate=0.5), {"shape": SHAPES}, "mean", [6.0, 1.0, 14.0]),
    "proportions": (
        TwoProportions([4, 5]),
        {"proportions": PAIRS},
        "log_odds_ratio",
        [math.log(4.0), math.log((3 / 7) / 9), 0.0],
    ),
    "table": (
        ContingencyTable([2, 2]),
        {"cell_probabilities": TABLES},
        "log_odds_ratio",
        [math.log(2 / 3), math.log(13.5), math.log(7.0)],
    ),
    "regression": (
        explained(LinearRegression(2)),
        {
            "coefficients": SLOPES,
            "noise_variance": NOISES,
            "feature_mean": np.zeros((3, 2)),
            "feature_covariance": np.stack([COVARIANCE] * 3),
        },
        "r_squared",
        [0.5, 0.875, 0.0],
    ),
    "regression, nuisances known": (
        explained(LinearRegression(2, noise_variance=2.0, feature_covariance=COVARIANCE)),
        {"coefficients": SLOPES, "feature_mean": np.zeros((3, 2))},
        "r_squared",
        [0.8, 1.75 / 3.75, 0.0],
    ),
    "regression, features known": (
        explained(LinearRegression(features=KNOWN)),
        {"coefficients": SLOPES, "noise_variance": NOISES},
        "r_squared",
        [5.0 / 13.0, 1.25 / 1.5, 0.0],
    ),
}


def largest_error(case):
    """Return the largest relative error, for draws along one axis and along two."""
    model, theta, name, values = CASES[case]
    once = with_derived(model, theta)[name]
    chains = with_derived(model, {key: np.stack([x, x]) for key, x in theta.items()})[name]
    assert chains.shape == (2, 3)
    errors = np.abs(np.stack([once, *chains]) - values) / (1.0 + np.abs(values))
    return errors.max()


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    assert largest_error(case) < 1e-14


@pytest.mark.parametrize(
    ("case", "edit"),
    [
        ("gamma", Edit(Gamma, "derive", "np.divide(", "np.multiply(")),
        ("gamma, shape known", Edit(Gamma, "derive", "else self.shape", "else 1.0")),
        ("gamma, rate known", Edit(Gamma, "derive", "else self.rate", "else 1.0")),
        (
            "proportions",
            Edit(TwoProportions, "derive", "logit(p[..., 1]) - ", "np.log(p[..., 1]) - "),
        ),
        ("table", Edit(ContingencyTable, "derive", "- logs[..., 1, 0]", "+ logs[..., 1, 0]")),
        ("regression", Edit(LinearRegression, "r_squared", "[1:]", "[:-1]")),
        (
            "regression, nuisances known",
            Edit(LinearRegression, "r_squared", "(theta)[1] @ slopes", "(theta)[1] @ slopes**2"),
        ),
        ("regression, features known", Edit(LinearRegression, "r_squared", "np.var", "np.std")),
    ],
)
def test_planted_bugs(case, edit):
    with planted(edit):
        assert largest_error(case) > 1e-3


def test_only_tables_of_two_by_two_have_an_odds_ratio():
    for levels in ([2], [4], [2, 3], [3, 2], [2, 2, 2]):
        model = ContingencyTable(levels)
        theta = {name: x[None] for name, x in model.sample_prior(np.random.default_rng(1)).items()}
        assert len(model.derived) == 0
        assert set(with_derived(model, theta)) == set(theta)


LAPLACE, QUERIES = na.mechanisms.Laplace, na.queries
TABLE_RELEASE = na.Release(
    [9.0, -3.0, 2.0, 11.0], LAPLACE(QUERIES.Margins([2, 2], [[0, 1]]), epsilon=1.0), 20
)
PAIR_RELEASE = na.Release(
    [-1.0, 12.5], LAPLACE(QUERIES.ByGroup(QUERIES.Count(), n_groups=2), epsilon=1.0), 20
)
REGRESSION = LinearRegression(1)
RELEASES = {
    "gamma": (
        Gamma(),
        na.Release([21.0], LAPLACE(QUERIES.Sum(0.0, 5.0), epsilon=1.0), 20),
        ["mean"],
    ),
    "proportions": (
        TwoProportions([8, 12]),
        PAIR_RELEASE,
        ["difference", "log_ratio", "log_odds_ratio"],
    ),
    "table": (ContingencyTable([2, 2]), TABLE_RELEASE, ["log_odds_ratio"]),
    "regression": (
        na.models.derived(REGRESSION, {"r_squared": REGRESSION.r_squared}),
        na.Release(
            [2.2, -0.7, 2.5, 1.4, 3.3],
            LAPLACE(QUERIES.RegressionMoments(1, -6, 6), epsilon=2.0),
            20,
        ),
        ["r_squared"],
    ),
}


@pytest.mark.parametrize("case", all_but(["gamma", "table", "regression"], RELEASES))
def test_in_the_posterior(case, tmp_path):
    model, release, names = RELEASES[case]
    posterior = na.sample(
        model, release, draws=200, warmup=200, chains=2, random_seed=1, progressbar=False
    )
    assert json.loads(posterior.attrs["derived"]) == names
    drawn = posterior["posterior"].to_dataset()
    theta = {p.name: drawn[p.name].values for p in model.parameters}
    for name in names:
        np.testing.assert_array_equal(drawn[name], model.derive(theta)[name])
        assert np.isfinite(drawn[name]).all()
        assert name in posterior["prior"]
        assert name in na.summary(posterior).index
    na.check(posterior)
    na.write_report(posterior, tmp_path / "report.html")
    assert names[-1] in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        (TwoProportions([4, 5]), [0.0, 1.0]),
        (TwoProportions([4, 5]), [0.0, 0.0]),
        (ContingencyTable([2, 2]), [[0.0, 0.5], [0.5, 0.0]]),
        (ContingencyTable([2, 2]), [[0.0, 0.0], [0.5, 0.5]]),
    ],
)
def test_stated_zeros_and_ones_are_finite(model, theta):
    made = with_derived(model, {model.parameters[0].name: np.array([theta])})
    assert all(np.isfinite(x).all() for x in made.values())


def test_naive_draws_that_round_to_one_are_finite():
    drawn = naive(TwoProportions([8, 12], 0.01, 0.01), PAIR_RELEASE, draws=500, random_seed=1)
    assert (drawn["proportions"] == 1.0).any()
    assert np.isfinite(drawn["log_odds_ratio"]).all()
