"""The sweep that moves the innovations of each record a little.

Exact draws of (theta, x, s_dp) that go through it are exact draws still: the innovations of the
records have their own distribution, and the release differs from the total by the stated noise.
The default call, with the sweep in use, is compared with a quadrature.
"""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware.parameters import Innovations, Parameter
from noiseaware.sampler.moves import BlockSweep, records
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

N, RUNS, SWEEPS = 6, 300, 4


class Simulator:
    """Nothing but a prior and a simulator, so that the chain carries u."""

    parameters = (Parameter("level"),)
    innovations = Innovations("normal", 2)

    def sample_prior(self, rng):
        return {"level": np.array(rng.standard_normal())}

    def log_prior(self, theta):
        return -0.5 * float(theta["level"]) ** 2

    def build_records(self, theta, innovations):
        return theta["level"] + innovations[:, 0] * np.exp(0.3 * innovations[:, 1])


SETTINGS = {
    "clamped": (
        na.models.LinearRegression(1),
        na.queries.RegressionMoments(1, -1.0, 1.0),
        0.2,
        stats.norm,
    ),
    "cells": (
        na.models.NaiveBayes(2, (3, 2), 1.0),
        na.queries.ClassFeatureCounts(2, (3, 2)),
        0.7,
        stats.uniform,
    ),
    "simulator": (Simulator(), na.queries.Sum(-1.0, 1.0), 0.3, stats.norm),
}


def check(name, runs=RUNS):
    model, query, scale, law = SETTINGS[name]
    mechanism = na.mechanisms.Laplace(query, scale=scale)
    rng = np.random.default_rng(21)
    innovations, noise, changed = [], [], 0
    for _ in range(runs):
        theta = model.sample_prior(rng)
        u = model.innovations.draw(N, rng)
        made = model.build_records(theta, u)
        values = query.statistic(made).sum(axis=0) + scale * rng.laplace(size=len(query.names))
        target = Target(model, na.Release(values, mechanism, N))
        held = u if target.abilities.holds_innovations else None
        state = ChainState(theta, made.copy(), held, rng)
        for _ in range(SWEEPS):
            records.sweep(target, state, records.step_innovations(target, state), 1, 4)
        BlockSweep()._step_innovations(target, state)
        assert (state.innovations is None) == (held is None)
        if held is not None:
            np.testing.assert_array_equal(model.build_records(theta, held), state.records)
            assert len(np.unique(held)) == held.size  # none is that of another record
        changed += np.any(state.records != made)
        innovations.append(target.recover(state).ravel())
        noise.append((values - query.statistic(state.records).sum(axis=0)) / scale)
    assert changed > 0.2 * runs
    # Each fails an exact sweep with probability 1e-6.
    assert stats.kstest(np.concatenate(innovations), law.cdf).pvalue > 1e-6
    assert stats.kstest(np.concatenate(noise), stats.laplace.cdf).pvalue > 1e-6


@pytest.mark.parametrize("name", SETTINGS)
def test_exact_draws_stay_exact(name):
    check(name)


BUGS = {
    "innovations that shrink": (
        "made = near(innovations.kind, u[begin:end], rng)",
        "made = 0.8 * near(innovations.kind, u[begin:end], rng)",
        "clamped",
    ),
    "the entry that is kept depends on where it is": (
        "one[:, None] &",
        "(u[begin:end] > 0.5) &",
        "clamped",
    ),
    "too much is accepted": (
        "made, _NO_CORRECTION",
        "made, np.full(end - begin, 2.0)",
        "clamped",
    ),
    "the innovations do not go with the records": (
        "made, _NO_CORRECTION",
        "u[begin:end], _NO_CORRECTION",
        "simulator",
    ),
    "the innovations of the first records for all": (
        "np.where(kept, u[begin:end], made)",
        "np.where(kept, u[:m], made)",
        "simulator",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_caught(name):
    old, new, setting = BUGS[name]
    with planted(Edit(records, "step_innovations", old, new)), pytest.raises(AssertionError):
        check(setting, runs=2 * RUNS)


HELD_BUGS = {
    "innovations that were held are kept": (
        "= counts, sweeps, held",
        "= counts, sweeps, state.innovations",
        "clamped",
    ),
    "innovations that stay behind": ("= target.recover(state)", "= 1.0 * held", "simulator"),
}


@pytest.mark.parametrize("name", HELD_BUGS)
def test_a_bug_in_what_is_held_is_caught(name):
    old, new, setting = HELD_BUGS[name]
    with planted(Edit(BlockSweep, "_step_innovations", old, new)), pytest.raises(AssertionError):
        check(setting)


def check_near(kind, law):
    """What is moved keeps its distribution, and (u, u') has that of (u', u)."""
    rng = np.random.default_rng(22)
    u = law.rvs(size=(100_000, 2), random_state=rng)
    moved = records.near(kind, u, rng)
    assert stats.kstest(moved[:, 0], law.cdf).pvalue > 1e-6
    assert abs(stats.spearmanr(*moved.T).statistic) < 5 / np.sqrt(len(u))  # 1 in 1.7 million
    skew = (u**2 * moved - u * moved**2).sum(axis=1)
    assert abs(skew.mean()) < 5 * skew.std() / np.sqrt(len(u))  # 1 in 1.7 million
    assert np.median(np.abs(moved - u)) < 0.3


KINDS = {"normal": stats.norm, "uniform": stats.uniform}
NEAR_BUGS = {
    "normal": ("np.sqrt(1.0 - s * s) * u", "u"),
    "uniform": ("% 1.0", "% 1.02"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_innovations_that_are_moved_keep_their_distribution(kind):
    check_near(kind, KINDS[kind])
    with planted(Edit(records, "near", *NEAR_BUGS[kind])), pytest.raises(AssertionError):
        check_near(kind, KINDS[kind])


def exactly(values, scale, low, high):
    """The means of the coefficients given a noisy record (x, y), x ~ N(0, 1), y given x likewise.

    With coefficients N(0, 4) the response is N(0, 4 (1 + x^2) + 1), and their mean given (x, y) is
    4 (1, x) y / (4 (1 + x^2) + 1).
    """
    x, y = np.meshgrid(np.linspace(-6, 6, 801), np.linspace(-40, 40, 4001), indexing="ij")
    variance = 4 * (1 + x**2) + 1
    a, b = np.clip(x, low, high) / high, np.clip(y, low, high) / high
    total = (b, a * b, b**2, a, a**2)
    log_g = -sum(abs(s - t) for s, t in zip(values, total, strict=True)) / scale
    weight = np.exp(log_g + stats.norm.logpdf(x) + stats.norm.logpdf(y, 0, np.sqrt(variance)))
    weight /= weight.sum()
    return np.array([np.sum(weight * 4 * y / variance), np.sum(weight * 4 * x * y / variance)])


@pytest.mark.full
def test_the_default_with_a_clamped_response(monkeypatch):
    used = []
    renew = BlockSweep._step_innovations
    monkeypatch.setattr(
        BlockSweep, "_step_innovations", lambda *args: used.append(1) or renew(*args)
    )
    query = na.queries.RegressionMoments(1, -2.0, 2.0)
    values, scale = [0.98, 0.45, 0.99, 0.47, 0.2], 0.05
    release = na.Release(values, na.mechanisms.Laplace(query, scale=scale), 1)
    model = na.models.LinearRegression(
        1, noise_variance=1.0, feature_mean=[0.0], feature_covariance=[[1.0]]
    )
    posterior = na.sample(model, release, random_seed=5, cores=1, progressbar=False)
    assert used
    draws = posterior["posterior"]["coefficients"].values
    for k, mean in enumerate(exactly(values, scale, -2.0, 2.0)):
        one = draws[:, :, k]
        error = one.std() / np.sqrt(array_stats.ess(one, method="mean"))
        assert abs(one.mean() - mean) < 5 * error
