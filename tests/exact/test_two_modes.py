"""Releases that leave a sign open: the posterior has two modes, which the chain has to cross.

Records are N(m, 1) and only their noisy sum of squares is released. T is then noncentral chi-square
with n degrees of freedom and noncentrality n m^2, so that p(m | s_dp), and P(m < 0 | s_dp) with it,
is a sum over a fine grid of m and T. The draws of the default sampler are compared in P(m < 0); a
check fails at |z| > 5 with the effective sample size of the sign, one exact sampler in 2 million.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import noiseaware as na
from exact.known import SEED
from mutants.planting import Edit, planted, same
from noiseaware.mechanisms import Laplace
from noiseaware.models import LinearRegression, MultivariateNormal, Normal
from noiseaware.queries import Moments, RegressionMoments, Sum
from noiseaware.sampler.moves import mirror, proposals
from noiseaware.sampler.target import Target
from noiseaware.scrutiny import scouts

HIGHEST = 5.0


class SumOfSquares:
    """The sum of all squares, or of all products of two columns, without clamping."""

    def __init__(self, pairs=((0, 0),)) -> None:
        self.pairs = pairs
        self.names = tuple(f"x{j} x{k}" for j, k in pairs)

    def statistic(self, records):
        x = np.asarray(records).reshape(len(records), -1)
        return np.column_stack([x[:, j] * x[:, k] for j, k in self.pairs])

    def sensitivity(self, norm, neighbours="change"):
        return np.inf


def probability_of_a_negative_mean(n, prior, released, scale):
    m = np.linspace(prior[0] - 8 * prior[1], prior[0] + 8 * prior[1], 1601)
    totals = released + scale * np.linspace(-20.0, 20.0, 201)
    totals = totals[totals > 0.0]
    weights = np.exp(-np.abs(totals - released) / scale)
    likelihood = stats.ncx2.pdf(totals, n, np.maximum(n * m * m, 1e-9)[:, np.newaxis]) @ weights
    posterior = likelihood * stats.norm.pdf(m, *prior)
    return posterior[m < 0].sum() / posterior.sum()


def release_of(query, values, scale, n):
    return na.Release(np.array(values), Laplace(query, scale=scale), n_records=n)


def difference(n, prior, released, scale=2.0, query=None, exactly=None, **options):
    """z of the share of draws with a negative mean."""
    model = Normal(variance=1.0, mean_mean=prior[0], mean_sd=prior[1])
    release = release_of(query or SumOfSquares(), [released], scale, n)
    options = {"random_seed": SEED, "progressbar": False, "cores": 1, **options}
    negative = na.sample(model, release, **options).posterior["mean"].values < 0
    if exactly is None:
        exactly = probability_of_a_negative_mean(n, prior, released, scale)
    effective = array_stats.ess(negative.astype(float), method="mean") if negative.std() else 1.0
    return abs(negative.mean() - exactly) / np.sqrt(exactly * (1 - exactly) / effective)


SETTINGS = {
    "a mode of .12": (100, (3.0, 3.0), 1005.0),
    "a flat prior": (100, (3.0, 10.0), 1005.0),
    "more records": (300, (2.0, 3.0), 1505.0),
    "one record": (1, (1.0, 2.0), 7.0),
    "hardly any noise": (100, (3.0, 3.0), 1005.0, 1e-3),
}


def test_the_sign_of_a_mean_in_few_draws():
    assert difference(*SETTINGS["a mode of .12"], draws=300, warmup=300) < HIGHEST


@pytest.mark.full
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_sign_of_a_mean(setting):
    assert difference(*SETTINGS[setting]) < HIGHEST


@pytest.mark.full
def test_no_prior_in_the_ratio():
    ratio = "target.log_prior(theta) + log_jacobian - log_prior"
    edit = Edit(mirror.MirrorMove, "step", ratio, "0.0")
    with planted(edit):
        assert difference(*SETTINGS["a mode of .12"]) > HIGHEST


def by_all_signs(**options):
    """A noisy sum, which sees every mirror image, sampled with all of them proposed."""
    n, prior, released, scale = 20, (1.0, 2.0), 4.0, 12.0
    m = np.linspace(-15.0, 17.0, 4001)
    totals = released + scale * np.linspace(-25.0, 25.0, 4001)
    weights = np.exp(-np.abs(totals - released) / scale)
    likelihood = stats.norm.pdf(totals, n * m[:, np.newaxis], np.sqrt(n)) @ weights
    posterior = likelihood * stats.norm.pdf(m, *prior)
    exactly = posterior[m < 0].sum() / posterior.sum()
    moves = (na.moves.ParameterUpdate(), na.moves.MirrorMove(), na.moves.RecordSweep())
    return difference(
        n, prior, released, scale, Sum(-1e9, 1e9), exactly, moves=moves, draws=2000, **options
    )


@pytest.fixture
def all_signs(monkeypatch):
    signs = [(np.array([a]), np.array([b])) for a in (1.0, -1.0) for b in (1.0, -1.0)][1:]
    monkeypatch.setattr(mirror, "mirror_images", lambda target: signs)


@pytest.mark.full
def test_images_that_the_release_sees(all_signs):
    assert by_all_signs() < HIGHEST


@pytest.mark.full
def test_no_release_in_the_ratio(all_signs):
    bug = "        log_ratio += target.log_g(total)"
    with planted(Edit(mirror.MirrorMove, "step", bug, "        0.0 * target.log_g(total)")):
        assert by_all_signs() > HIGHEST


def images(model, query):
    d = len(query.names)
    return mirror.mirror_images(Target(model, release_of(query, np.zeros(d), 1.0, 50)))


def test_images_are_found_where_there_are_some():
    assert len(images(Normal(variance=1.0), SumOfSquares())) == 1
    assert len(images(Normal(), SumOfSquares())) == 1
    two = MultivariateNormal(2)
    assert len(images(two, SumOfSquares(((0, 0), (0, 1), (1, 1))))) == 1
    assert len(images(two, SumOfSquares(((0, 0), (1, 1))))) == 3
    assert images(two, Moments(2, -5, 5)) == []
    assert images(LinearRegression(1), RegressionMoments(1, -5, 5)) == []


def test_it_is_part_of_the_default_only_where_it_has_something_to_do():
    for query, there in ((SumOfSquares(), True), (Sum(-5, 5), False)):
        release = release_of(query, [30.0], 5.0, 10)
        posterior = na.sample(Normal(), release, draws=4, warmup=4, chains=2, progressbar=False)
        assert ("mirror_acceptance" in posterior.sample_stats) is there


def test_a_release_without_an_image_is_refused():
    release = release_of(Sum(-5, 5), [3.0], 5.0, 10)
    with pytest.raises(ValueError, match="MirrorMove needs a model with normal innovations, and"):
        na.sample(Normal(), release, moves=(na.moves.ParameterUpdate(), na.moves.MirrorMove()))


def without_mirrors(seed):
    """Four chains that cannot change sides, on a release that leaves the sign of the mean open."""
    model = Normal(variance=1.0, mean_mean=3.0, mean_sd=3.0)
    moves = (na.moves.ParameterUpdate(), na.moves.RecordSweep())
    release = release_of(SumOfSquares(), [1005.0], 2.0, 100)
    return na.sample(
        model, release, moves=moves, random_seed=seed, draws=400, warmup=100, progressbar=False
    )


def test_a_mode_that_no_chain_visits_is_found():
    """With a sixth of the prior's draws on the other side, 24 runs miss it once in 70."""
    for seed in range(30):
        posterior = without_mirrors(seed)
        if (posterior.posterior["mean"].values > 0).all():
            break
    verdict = next(v for v in na.check(posterior).verdicts if v.name == "no other mode")
    assert not verdict.passed
    assert "runs from the prior stayed in a region that the chains have missed" in verdict.message
    assert "mean = -" in verdict.message


def test_scouts_do_not_change_the_draws_and_join_one_mode(monkeypatch):
    release = release_of(Sum(-5, 5), [30.0], 5.0, 20)
    options = {"random_seed": 2, "draws": 200, "warmup": 100, "progressbar": False}
    posterior = na.sample(Normal(), release, **options)
    found = json.loads(posterior.attrs["scouts"])
    assert found["joined"] >= found["runs"] - 4
    assert found["elsewhere"] == 0
    monkeypatch.setattr(scouts, "RUNS", 1)
    again = na.sample(Normal(), release, **options)
    assert json.loads(again.attrs["scouts"])["runs"] == 1
    assert again.posterior.equals(posterior.posterior)


def test_too_few_draws_are_not_compared_with():
    release = release_of(Sum(-5, 5), [30.0], 5.0, 20)
    posterior = na.sample(Normal(), release, draws=20, warmup=20, progressbar=False)
    assert "scouts" not in posterior.attrs
    assert "no other mode" not in [v.name for v in na.check(posterior).verdicts]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyboardInterrupt(), marks=pytest.mark.full),
        ValueError("a mistake of the model's"),
    ],
)
def test_what_happens_to_scouts_does_not_cost_the_draws(monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(scouts, "follow", fail)
    release = release_of(Sum(-5, 5), [30.0], 5.0, 20)
    options = {"random_seed": 2, "draws": 200, "warmup": 100, "progressbar": False}
    if isinstance(error, ValueError):
        with pytest.warns(RuntimeWarning, match="without harm to the draws: a mistake"):
            posterior = na.sample(Normal(), release, **options)
    else:
        posterior = na.sample(Normal(), release, **options)
    assert posterior.posterior.sizes["draw"] == 200
    assert json.loads(posterior.attrs["scouts"])["runs"] == 0


def test_scouts_take_no_more_than_their_share(monkeypatch):
    monkeypatch.setattr(scouts, "follow", lambda *arguments: scouts.Ended(0.0, "", True, 60))
    release = release_of(Sum(-5, 5), [30.0], 5.0, 20)
    posterior = na.sample(Normal(), release, draws=200, warmup=100, progressbar=False)
    assert json.loads(posterior.attrs["scouts"])["runs"] == 2  # of 1,200 iterations, 120


# ------------------------------------------------------------------ every record clamped


def chance_of_a_mean_beyond(n, released, scale, bound=5.0, beyond=8.0):
    """P(m > beyond | s_dp) for records N(m, v) clamped to [-bound, bound], priors of `TwoMeans`.

    The total is taken to be normal, with the mean and the variance of a sum of clamped numbers:
    with 80 records, of which g sees no more than the noise leaves, no error that counts here.
    """
    m, log_v = np.linspace(-40.0, 60.0, 2001)[:, np.newaxis], np.linspace(-4.0, 6.0, 201)
    s = np.exp(0.5 * log_v)
    a, b = (-bound - m) / s, (bound - m) / s
    low, high, inside = stats.norm.cdf(a), stats.norm.sf(b), stats.norm.cdf(b) - stats.norm.cdf(a)
    mean = m * inside + s * (stats.norm.pdf(a) - stats.norm.pdf(b)) + bound * (high - low)
    edges = (m - bound) * stats.norm.pdf(a) - (m + bound) * stats.norm.pdf(b)
    square = (m * m + s * s) * inside + s * edges + bound**2 * (low + high)
    sd = np.sqrt(n * np.maximum(square - mean**2, 1e-12)) / scale
    off = (n * mean - released) / scale
    # E exp(-|Z|) of a normal Z with mean `off`: one term for each sign of Z.
    terms = (sd**2 / 2 - k * off + stats.norm.logcdf(k * off / sd - sd) for k in (1, -1))
    log_g = np.logaddexp(*terms)
    log_prior = stats.norm.logpdf(m, 0, 10) + stats.invgamma.logpdf(s * s, 3, scale=2) + log_v
    weights = np.exp(log_g + log_prior - (log_g + log_prior).max())
    return weights[m[:, 0] > beyond].sum() / weights.sum()


def difference_beyond(released=200.0, n=80, scale=33.0, **options):
    """z of the share of draws in which the second mean is so large that everything is clamped."""
    query = na.queries.ByGroup(Sum(-5.0, 5.0), 2)
    release = release_of(query, [-8.0, released], scale, 120 + n)
    options = {"random_seed": SEED, "progressbar": False, "cores": 1, **options}
    means = na.sample(na.models.TwoMeans([120, n]), release, **options).posterior["means"].values
    beyond = means[..., 1] > 8.0
    exactly = chance_of_a_mean_beyond(n, released, scale)
    assert 0.01 < exactly < 0.2
    effective = array_stats.ess(beyond.astype(float), method="mean") if beyond.std() else 1000.0
    return abs(beyond.mean() - exactly) / np.sqrt(exactly * (1 - exactly) / effective)


def test_a_mean_that_clamps_every_record():
    assert difference_beyond(draws=500, warmup=300) < HIGHEST


@pytest.mark.full
@pytest.mark.parametrize("released", [200.0, 220.0, 250.0])
def test_a_mean_that_clamps_every_record_in_many_draws(released):
    assert difference_beyond(released, draws=4000) < HIGHEST


@pytest.mark.full
def test_a_mixture_whose_laws_have_no_heights():
    edit = Edit(proposals, "log_student", "log_height -= math.log(factor[a, a])", "pass")
    with planted(edit, *(same(proposals, name) for name in ("log_mixture", "mixed_jump"))):
        assert difference_beyond(220.0, draws=4000) > HIGHEST
