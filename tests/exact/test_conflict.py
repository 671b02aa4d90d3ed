"""A prior that contradicts its release fails the checks, and one that does not passes them.

`scrutiny.conflict` promises alarms with probability at most 1 / (m + 1) and 2 / (m + 1). Here m is
small, so that the promise can be counted: releases are drawn from the prior, and the number of
alarms is compared with a binomial. Each count fails an exact check with probability 1e-6.
"""

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.cli import app
from noiseaware.mechanisms import Gaussian, KNorm, Laplace, LocalLaplace
from noiseaware.models import Bernoulli, MultivariateNormal, Normal
from noiseaware.queries import Count, Moments, Sum
from noiseaware.sampler.state import Draws
from noiseaware.sampler.target import Target
from noiseaware.scrutiny import conflict

REPLICATES, RARE = 300, 1e-6

SETTINGS = {
    "a count": (Bernoulli(), Laplace(Count(), epsilon=0.2), 20),
    "two moments, heavy tails": (MultivariateNormal(2), Gaussian(Moments(2, -20, 20), mu=0.5), 30),
    "a joint density": (MultivariateNormal(2), KNorm(Moments(2, -5, 5), epsilon=0.5), 30),
    "a value of each record": (Normal(variance=1.0), LocalLaplace(Sum(-9, 9), epsilon=2.0), 10),
}


def release_alarms(setting, seed, monkeypatch, m=9):
    """How many of the releases that a prior made are further out than m others."""
    model, mechanism, n = SETTINGS[setting]
    monkeypatch.setattr(conflict, "RELEASES", m)
    monkeypatch.setattr(conflict, "REFERENCE", 20)
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(REPLICATES):
        records = model.sample_records(model.sample_prior(rng), n, rng)
        target = Target(model, mechanism.privatize(records, rng))
        alarms += bool(conflict.Simulator(target, rng).look_at_release())
    return stats.binomtest(alarms, REPLICATES, 1 / (m + 1)).pvalue


@pytest.mark.parametrize("setting", only(["a count"], SETTINGS))
def test_a_release_of_the_prior_is_as_far_out_as_others(setting, seed, monkeypatch):
    assert release_alarms(setting, seed, monkeypatch) > RARE


def test_releases_without_noise_would_be_seen(seed, monkeypatch):
    edit = Edit(
        conflict.Simulator,
        "release",
        "self.privatize(listed, self.rng).values",
        "self.target.total(records)",
    )
    with planted(edit):
        assert release_alarms("a count", seed, monkeypatch) < RARE


def posterior_alarms(seed, monkeypatch, m=19, n=10, scale=8.0, prior=(1.0, 3.0)):
    """The probability of so many alarms, or more, of exact posteriors."""
    model = Normal(variance=4.0, mean_mean=prior[0], mean_sd=prior[1])
    mechanism = Gaussian(Sum(-1e6, 1e6), scale=scale)
    monkeypatch.setattr(conflict, "PARAMETERS", m)
    rng = np.random.default_rng(seed)
    alarms = 0
    for _ in range(REPLICATES):
        records = model.sample_records(model.sample_prior(rng), n, rng)
        release = mechanism.privatize(records, rng)
        # s_dp / n given the mean is normal, with this variance.
        variance = 4.0 / n + (scale / n) ** 2
        precision = 1 / prior[1] ** 2 + 1 / variance
        middle = (prior[0] / prior[1] ** 2 + release.values[0] / n / variance) / precision
        drawn = Draws({"mean": middle + rng.standard_normal(200) / np.sqrt(precision)}, {}, [])
        simulator = conflict.Simulator(Target(model, release), rng)
        alarms += bool(simulator.look_at_posterior([drawn]))
    return stats.binomtest(alarms, REPLICATES, 2 / (m + 1), alternative="greater").pvalue


def test_a_posterior_lies_in_its_prior(seed, monkeypatch):
    assert posterior_alarms(seed, monkeypatch) > RARE


def test_the_furthest_draw_would_be_too_far(seed, monkeypatch):
    edit = Edit(conflict.Simulator, "look_at_posterior", "float(np.median(", "float(np.max(")
    with planted(edit):
        assert posterior_alarms(seed, monkeypatch) < RARE


# ------------------------------------------------------------------ a prior in the wrong units


def incomes(n):
    return np.exp(10.7 + 0.6 * np.random.default_rng(1).standard_normal(n))


def verdict(model, mechanism, n, **options):
    release = mechanism.privatize(incomes(n), np.random.default_rng(2))
    options = {"draws": 200, "warmup": 200, "random_seed": 1, "progressbar": False} | options
    posterior = na.sample(model, release, **options)
    found = {verdict.name: verdict for verdict in na.check(posterior).verdicts}
    return found["the prior fits the release"]


DOLLARS = {"mean_mean": 5e4, "mean_sd": 5e4, "variance_scale": 2e9}


INCOMES = [
    (Laplace, 100, 0.01),
    (Laplace, 300, 0.2),
    (Laplace, 1000, 1.0),
    (LocalLaplace, 1000, 1.0),
]


@pytest.mark.parametrize(("law", "n", "epsilon"), only(INCOMES[:1], INCOMES))
def test_incomes_under_a_prior_for_small_numbers(law, n, epsilon):
    mechanism = law(Sum(0, 200_000), epsilon=epsilon)
    found = verdict(Normal(), mechanism, n)
    assert not found.passed
    assert "mean_mean = 0.0, mean_sd = 10.0" in found.message
    assert verdict(Normal(**DOLLARS), mechanism, n).passed


@pytest.mark.full
def test_a_variance_that_left_its_prior_is_named():
    assert "variance is " in verdict(Normal(), Laplace(Sum(0, 200_000), epsilon=1.0), 3000).message


def test_a_strong_promise_alone_is_no_contradiction():
    release = na.Release([4e4], Laplace(Count(), epsilon=1e-4), 100)
    posterior = na.sample(Bernoulli(), release, draws=200, random_seed=1, progressbar=False)
    assert json.loads(posterior.attrs["conflict"]) == {"release": "", "posterior": "", "query": ""}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("of a user's")])
def test_what_happens_in_the_check_does_not_cost_the_draws(monkeypatch, error):
    def fail(self):
        raise error

    monkeypatch.setattr(conflict.Simulator, "look_at_release", fail)
    release = na.Release([8.0], Laplace(Count(), epsilon=1.0), 12)
    run = {"random_seed": 1, "progressbar": False, "draws": 200}
    if error is KeyboardInterrupt:
        posterior = na.sample(Bernoulli(), release, **run)
    else:
        with pytest.warns(RuntimeWarning, match="of a user's"):
            posterior = na.sample(Bernoulli(), release, **run)
    assert "conflict" not in posterior.attrs
    assert posterior["posterior"].sizes["draw"] == 200


@pytest.mark.full
def test_the_command_and_the_report_fail_too(tmp_path):
    release = Laplace(Sum(0, 200_000), epsilon=0.1).privatize(
        incomes(300), np.random.default_rng(1)
    )
    release.to_json(tmp_path / "release.json")
    (tmp_path / "model.toml").write_text('type = "Normal"\n')
    files = [str(tmp_path / name) for name in ("release.json", "model.toml", "p.nc", "r.html")]
    options = ["-m", files[1], "-o", files[2], "-r", files[3], "--seed", "1", "--draws", "300"]
    ran = CliRunner().invoke(app, ["fit", files[0], *options, "--json"])
    assert ran.exit_code == 1, ran.output
    checks = json.loads(ran.stdout)["checks"]
    assert "the prior fits the release" in [c["name"] for c in checks if not c["passed"]]
    page = (tmp_path / "r.html").read_text()
    assert "the prior fits the release" in page
    assert "Normal now has mean_mean = 0.0" in page
