"""The posterior given clamped responses, against quadrature on a grid.

The likelihood of a response at a bound is the probability of being beyond it. With one feature
there are two coefficients, so the posterior can be summed over a grid. False alarm below 1e-6.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from mutants.planting import Edit, planted
from noiseaware_paper import limits

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220614"))
FALSE_ALARM = 1e-6


def check_clamped():
    model = na.models.LinearRegression(
        1, noise_variance=2.0, feature_mean=[0.5], feature_covariance=[[1.0]]
    )
    rng = np.random.default_rng(SEED)
    records = model.sample_records({"coefficients": np.array([0.5, 2.0])}, 15, rng)
    lower, upper = -2.0, 2.0
    records[:, 0] = np.clip(records[:, 0], -1.9, 1.9)
    records[0] = [1.5, 6.0]
    records[1] = [-1.5, -6.0]  # at least one at either bound
    records[:, 1] = np.clip(records[:, 1], lower, upper)
    draws = limits.clamped_posterior(model, records, lower, upper, draws=1500)

    a, b = np.linspace(-6, 6, 301)[:, None], np.linspace(-6, 8, 351)[None, :]
    log_posterior = -(a**2 + b**2) / 8.0
    for x, y in records:
        mean = a + b * x
        if y <= lower:
            log_posterior = log_posterior + stats.norm.logcdf((lower - mean) / np.sqrt(2.0))
        elif y >= upper:
            log_posterior = log_posterior + stats.norm.logsf((upper - mean) / np.sqrt(2.0))
        else:
            log_posterior = log_posterior - (y - mean) ** 2 / 4.0
    weights = np.exp(log_posterior - log_posterior.max())
    weights /= weights.sum()
    from arviz_stats.base import array_stats

    for k, (grid, axis) in enumerate(((a.ravel(), 1), (b.ravel(), 0))):
        marginal = weights.sum(axis=axis)
        mean = marginal @ grid
        variance = marginal @ (grid - mean) ** 2
        size = float(array_stats.ess(draws[None, :, k], chain_axis=0, draw_axis=1))
        limit = 1.15 * stats.norm.isf(FALSE_ALARM / 8)
        assert abs(draws[:, k].mean() - mean) < limit * np.sqrt(variance / size)
        # kurtosis near that of a normal; twice its variance is allowed for
        assert abs(draws[:, k].var() / variance - 1) < limit * np.sqrt(4.0 / size)


def test_clamped_posterior():
    check_clamped()


def test_features_at_the_bound_are_refused():
    model = na.models.LinearRegression(1, noise_variance=1.0)
    with pytest.raises(AssertionError, match="only the response"):
        limits.clamped_posterior(model, np.array([[3.0, 0.0]]), -2.0, 2.0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u * ndtr((lower - mean) / sd)", "u"),
        ("completed[low, -1], completed[high, -1] = below[low], above[high]", "pass"),
    ],
)
def test_planted_bugs_are_caught(old, new):
    with planted(Edit(limits, "clamped_posterior", old, new)), pytest.raises(AssertionError):
        check_clamped()


def test_distance():
    rng = np.random.default_rng(SEED)
    a = rng.standard_normal((4000, 2))
    assert limits.distance(a, a) == 0.0
    assert limits.distance(a, a + 100.0) == 1.0
    # two standard normals a shift of 1 apart: 2 Phi(1/2) - 1
    shifted = rng.standard_normal((4000, 2)) + 1.0
    assert limits.distance(a, shifted) == pytest.approx(0.383, abs=0.12)
