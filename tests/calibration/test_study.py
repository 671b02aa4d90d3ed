"""A study with a known answer: the mean of normal records, from a sum with Gaussian noise.

x_i ~ N(mu, v) with mu ~ N(0, s^2), and what is released is S + e with e ~ N(0, c^2) (the bounds of
the sum are so wide that they never matter). Then, exactly:

* mu | s_dp is normal, with precision 1/s^2 + n^2 / (n v + c^2), and the coverage of its intervals,
  averaged over the prior, is the nominal level;
* the naive posterior is normal too: variance w = 1/(1/s^2 + n/v), mean w (S + e) / v. Its error is
  mu - w (n mu + sqrt(n v) z + e) / v, a normal variable with a variance that can be written down,
  and so can its coverage, which is too low;
* the non-private one is the case c = 0.

Coverages are compared with these numbers by exact binomial tests; each false alarm below 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.studies import Sampler, replicate
from noiseaware.studies.result import Study

FALSE_ALARM = 1e-6
N, V, S, C, LEVEL = 12, 4.0, 1.5, 14.0, 0.9
MODEL = na.models.Normal(variance=V, mean_sd=S)
MECHANISM = na.mechanisms.Gaussian(na.queries.Sum(-1e4, 1e4), scale=C)


def coverage_of_naive(noise):
    w = 1 / (1 / S**2 + N / V)
    # the error mu - w (n mu + ...)/v: mu has the factor 1 - w n / v
    variance = (1 - w * N / V) ** 2 * S**2 + (w / V) ** 2 * (N * V + noise**2)
    half_width = stats.norm.isf((1 - LEVEL) / 2) * math.sqrt(w)
    return 1 - 2 * stats.norm.sf(half_width / math.sqrt(variance))


def assert_coverage(done, method, exact):
    hits = int(done.covered[0, 0, :, done.plan.methods.index(method), 0].sum())
    p_value = stats.binomtest(hits, done.replicates, exact).pvalue
    assert p_value > FALSE_ALARM / 4, f"{method}: {hits} of {done.replicates}, expected {exact:.3f}"


def check_baselines(seed):
    done = na.study(
        MODEL,
        MECHANISM,
        n_records=N,
        replicates=300,
        samplers=(),
        baselines=["naive", "non-private"],
        random_seed=seed,
        cores=1,
        progressbar=False,
    )
    assert coverage_of_naive(0.0) == pytest.approx(LEVEL)
    assert coverage_of_naive(C) < 0.75
    assert_coverage(done, "naive", coverage_of_naive(C))
    assert_coverage(done, "non-private", LEVEL)


def check_sampler(seed, replicates):
    done = na.study(
        MODEL,
        MECHANISM,
        n_records=N,
        replicates=replicates,
        samplers={"default": Sampler(warmup=200, draws=500)},
        random_seed=seed,
        cores=1,
        progressbar=False,
    )
    assert_coverage(done, "default", LEVEL)
    # and every replicate's posterior is the closed form
    variance = 1 / (1 / S**2 + N**2 / (N * V + C**2))
    releases = [replicate.simulate(done.plan, (0, 0, r))[2].values[0] for r in range(replicates)]
    exact = variance * np.array(releases) * N / (N * V + C**2)
    errors = (done["mean"][0, 0, :, 0, 0] - exact) / np.sqrt(variance / done["ess"][0, 0, :, 0, 0])
    assert np.abs(errors).max() < 1.2 * stats.norm.isf(FALSE_ALARM / (4 * replicates))
    ratio = done["sd"][0, 0, :, 0, 0].mean() / math.sqrt(variance)
    # Some 400 effective draws in each: a standard error of 0.012 with 10, of 0.006 with 40.
    assert abs(ratio - 1) < max(0.03, 5 * 0.038 / math.sqrt(replicates))


def test_coverage_of_baselines_is_what_it_must_be(seed):
    check_baselines(seed)


def test_coverage_under_the_prior_is_the_nominal_level(seed):
    check_sampler(seed, replicates=10)


@pytest.mark.full
def test_coverage_under_the_prior_is_the_nominal_level_in_full(seed):
    check_sampler(seed, replicates=1000)


def only_the_upper_end(study):
    return study["true"][..., None, :] <= study["upper"]


BUGS = {
    "every replicate has the same data": ("spawn_key=(*key, 0)", "spawn_key=(0, 0, 0)"),
    "the release has no noise": (
        "plan.mechanisms[key[0]].privatize(records, rng)",
        "Release([records.sum()], plan.mechanisms[key[0]], len(records))",
    ),
}


@pytest.mark.parametrize("name", only(["every replicate has the same data"], BUGS))
def test_planted_bugs_are_caught(name, seed):
    with planted(Edit(replicate, "simulate", *BUGS[name])), pytest.raises(AssertionError):
        check_baselines(seed)


@pytest.mark.full
def test_half_an_interval_is_caught(seed, monkeypatch):
    monkeypatch.setattr(Study, "covered", property(only_the_upper_end))
    with pytest.raises(AssertionError):
        check_baselines(seed)
