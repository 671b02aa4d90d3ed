"""Counts from uniforms: intervals and far tails against SciPy, and exact round trips."""

import math

import numpy as np
import pytest
from scipy import stats

from mutate_models import mutated_models
from noiseaware import models
from protocol.model_cases import Stuck

COUNT_GRID = [
    (mean, size)
    for mean in (1e-3, 0.3, 7.0, 250.0, 1e5)
    for size in (math.inf, 1e8, 1e3, 5.0, 0.5, 0.02)
]


def count_model(package, mean, size):
    """The model of counts with this mean and size, and its theta."""
    if size == math.inf:
        return package.Poisson(rate_rate=1e-4), {"rate": mean}
    return package.NegativeBinomial(mean_rate=1e-4), {"mean": mean, "dispersion": 1.0 / size}


def count_failures(package, mean, size):
    """Count the records and uniforms with which the round trip fails or u leaves [0, 1)."""
    model, theta = count_model(package, mean, size)
    sd = math.sqrt(mean + mean * mean / size)
    near = np.maximum(0, mean + sd * np.linspace(-12, 40, 27)).astype(np.int64)
    records = np.concatenate([np.arange(12), near, [10**5, 10**6, 2**52 - 1]])
    failures = 0
    for value in (0.0, 2.0**-53, 0.3, 0.9999, 1.0 - 2.0**-53):
        u = model.recover_innovations(theta, records, Stuck(value))
        failures += int(((u < 0) | (u >= 1)).sum())
        failures += int((model.build_records(theta, u) != records).sum())
    return failures


@pytest.mark.parametrize(("mean", "size"), COUNT_GRID)
def test_round_trip_of_counts_is_exact_also_for_impossible_ones(mean, size):
    assert count_failures(models, mean, size) == 0


def interval_error(package, mean, size):
    """Largest error of the intervals' lengths and ends against SciPy's distribution."""
    model, theta = count_model(package, mean, size)
    law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
    records = np.unique(law.ppf(np.linspace(0.0005, 0.9995, 60)).astype(np.int64))
    low = model.recover_innovations(theta, records, Stuck(0.0))[:, 0]
    high = model.recover_innovations(theta, records, Stuck(1.0 - 2.0**-53))[:, 0]
    error = np.abs(low - law.sf(records)).max()
    return max(error, np.abs(high - low - law.pmf(records)).max())


# SciPy's own negative binomial is off by 1e-9 where the size is 1e8.
@pytest.mark.parametrize(("mean", "size"), COUNT_GRID)
def test_the_intervals_of_counts_are_those_of_scipy(mean, size):
    assert interval_error(models, mean, size) < 1e-8


def far_tail_error(package):
    """Largest relative error of the ends of intervals far out, in and behind the table."""
    errors = []
    for mean, size, records in (
        (3.0, math.inf, [20, 40, 120]),
        (3.0, 0.7, [20, 200, 2000]),
        (1000.0, 0.5, [9000, 20000, 200000]),
    ):
        model, theta = count_model(package, mean, size)
        law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
        low = model.recover_innovations(theta, np.array(records), Stuck(0.0))[:, 0]
        errors.append(np.abs(low / law.sf(records) - 1.0).max())
    return max(errors)


def test_far_tails_of_counts_keep_their_digits():
    assert far_tail_error(models) < 1e-9


def test_a_proposal_far_out_is_impossible_and_takes_no_time():
    u = np.linspace(0.01, 0.99, 50)[:, None]
    for far in (1e5, 1e30, math.inf):
        assert models.Poisson().log_prior({"rate": far}) == -math.inf
        assert models.Poisson().build_records({"rate": far}, u).min() > 1000
        for theta in ({"mean": far, "dispersion": 1.0}, {"mean": 1.0, "dispersion": far}):
            assert models.NegativeBinomial().log_prior(theta) == -math.inf
            assert models.NegativeBinomial().build_records(theta, u).max() < 2**52


def test_a_uniform_of_0_is_no_endless_count():
    for mean, size in COUNT_GRID:
        model, theta = count_model(models, mean, size)
        law = stats.poisson(mean) if size == math.inf else stats.nbinom(size, size / (size + mean))
        assert law.sf(model.build_records(theta, [[0.0]])[0] - 1) > 2.0**-55


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            if edges[middle] <= u:", "            if edges[middle] < u:"),
        ("(LARGEST_COUNT + 1.0 - x) * _DENORMAL", "0.0"),
        ("highest = 1.0 - (x + 1.0) * SPACING", "highest = 1.0"),
        ("if edge(middle, mean, size) <= u:", "if edge(middle, mean, size) < u:"),
    ],
)
def test_a_bug_in_the_round_trip_of_counts_is_caught(old, new):
    with mutated_models("count_cdf.py", old, new) as mutant:
        assert any(count_failures(mutant, *case) for case in COUNT_GRID[:20])


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        ("math.lgamma(x + size) - math.lgamma(size)", "math.lgamma(x + size)", (7.0, 5.0)),
        ("x * (math.log(size + x) - 1.0)", "x * math.log(size + x)", (7.0, 1e8)),
        ("- mean - math.lgamma(x + 1.0)", "- mean - math.lgamma(x + 2.0)", (7.0, math.inf)),
        ("k * (b - k) * z", "k * (b + k) * z", (250.0, 0.02)),
        ("above += mass", "above += 0.99 * mass", (7.0, 0.5)),
    ],
)
def test_a_bug_in_the_tails_of_counts_is_caught(old, new, case):
    with mutated_models("count_cdf.py", old, new) as mutant:
        assert interval_error(mutant, *case) > 1e-8


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("j = x + 2.0", "j = x + 1.0"),
        ("d = 1.0 + coefficient * d", "d = 1.0 - coefficient * d"),
    ],
)
def test_a_bug_in_the_far_tails_of_counts_is_caught(old, new):
    with mutated_models("count_cdf.py", old, new) as mutant:
        assert far_tail_error(mutant) > 1e-3
