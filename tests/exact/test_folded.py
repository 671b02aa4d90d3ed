"""Folded noise: its density by brute force, by simulation and by enumeration; planted bugs."""

import math

import numpy as np
import pytest

import noiseaware as na
from exact.calibrated import check_geweke, check_sbc
from exact.enumeration import Problem, check_algorithm1
from mutants.planting import Edit, planted, same
from noiseaware.mechanisms import forced, terms

RANGES = ((0.0, 7.0), (-2.0, 3.0), (0.0, math.inf), (-math.inf, 5.0))
SCALE = 3.0


def mechanism(lower, upper, discrete=False, scale=SCALE):
    kind = na.mechanisms.DiscreteLaplace if discrete else na.mechanisms.Laplace
    return na.mechanisms.Folded(kind(na.queries.Count(), scale=scale), lower, upper)


def images(value, lower, upper, reach=200):
    """All numbers that fold to `value`, by the definition, each once."""
    if math.isinf(lower) or math.isinf(upper):
        mirror = upper if math.isinf(lower) else lower
        return sorted({value, 2 * mirror - value})
    steps = [2 * k * (upper - lower) for k in range(-reach, reach + 1)]
    return sorted({value + step for step in steps} | {2 * lower - value + step for step in steps})


def plain_log_g(value, lower, upper, total, scale=SCALE):
    return math.log(
        math.fsum(math.exp(-abs(y - total) / scale) for y in images(value, lower, upper))
    )


@pytest.mark.parametrize("ends", RANGES)
def test_the_density_is_the_sum_over_the_images(ends):
    folded_noise = mechanism(*ends)
    for value in (0.0, 1.3, 2.9):
        plain = [plain_log_g(value, *ends, total) for total in np.linspace(-30.0, 30.0, 41)]
        got = [folded_noise.log_density([value], [t]) for t in np.linspace(-30.0, 30.0, 41)]
        difference = np.array(got) - plain
        assert np.ptp(difference) < 1e-12


def test_fold_is_the_repeated_mirror():
    rng = np.random.default_rng(1)
    for lower, upper in RANGES:
        for value in rng.normal(0.0, 12.0, 50):
            expected = value
            while not lower <= expected <= upper:
                expected = 2 * lower - expected if expected < lower else 2 * upper - expected
            assert forced.fold(np.array([value]), lower, upper)[0] == pytest.approx(expected)


ONES = np.array([1, 0, 1, 0])


def repeated(draws):
    """The same count, asked `draws` times: one simulated release has as many draws."""
    return na.Query(
        lambda records: np.repeat(records.reshape(-1, 1) * 1.0, draws, axis=1),
        [f"draw {j}" for j in range(draws)],
        float(draws),
        integer_valued=True,
    )


@pytest.mark.parametrize("ends", [(0, 7), (-0.5, 6.5), (0, 6.5)])
def test_discrete_draws_have_the_mass_of_the_density(ends):
    from scipy.stats import chisquare

    total, draws = 2, 100_000
    noise = na.mechanisms.DiscreteLaplace(repeated(draws), scale=SCALE)
    released = na.mechanisms.Folded(noise, *ends).privatize(ONES, np.random.default_rng(2)).values
    grid = np.arange(math.ceil(ends[0]), math.floor(ends[1]) + 1)
    mass = np.exp([plain_log_g(float(v), *ends, float(total)) for v in grid])
    counts = np.array([(released == v).sum() for v in grid])
    assert counts.sum() == draws
    assert chisquare(counts, draws * mass / mass.sum()).pvalue > 1e-6


def test_continuous_draws_have_the_density():
    from scipy.stats import kstest

    noise = na.mechanisms.Laplace(repeated(100_000), scale=SCALE)
    folded_noise = na.mechanisms.Folded(noise, 0.0, 7.0)
    released = folded_noise.privatize(ONES, np.random.default_rng(3)).values
    folded_noise = mechanism(0.0, 7.0)
    grid = np.linspace(0.0, 7.0, 4001)
    density = np.exp([folded_noise.log_density([v], [2.0]) for v in grid])
    steps = 0.5 * (density[1:] + density[:-1])
    cdf = np.append(0.0, np.cumsum(steps)) / steps.sum()
    assert kstest(released, lambda v: np.interp(v, grid, cdf)).pvalue > 1e-6


def problem(lower, upper, discrete, value):
    release = na.Release([value], mechanism(lower, upper, discrete, scale=1.4), 4)
    return Problem(
        na.models.Bernoulli(),
        release,
        {"probability": np.array(0.3)},
        np.array([1, 0]),
        (0.3, 0.7),
        lambda i, x: (float(x == 1),),
        lambda total: plain_log_g(value, lower, upper, total[0], 1.4),
    )


CASES = ((0.0, 2.5, False, 0.4), (0, 3, True, 3), (1.0, math.inf, False, 1.2), (0.5, 2.5, True, 1))


@pytest.mark.parametrize("case", CASES)
def test_record_updates_leave_the_posterior_invariant(case):
    check_algorithm1(problem(*case))


@pytest.mark.full
@pytest.mark.parametrize("sampler", ["default", "algorithm1"])
def test_geweke(sampler):
    noise = mechanism(0, 4, discrete=True, scale=1.5)
    given = {"n_records": 6, "replicates": 400, "rounds": 10}
    check_geweke(na.models.Bernoulli(), noise, 4, sampler, **given)


@pytest.mark.full
def test_sbc():
    noise = mechanism(0, 4, discrete=True, scale=1.5)
    given = {"n_records": 6, "replicates": 150, "ranks": 19, "draws": 400, "warmup": 400}
    check_sbc(na.models.Bernoulli(), noise, 5, **given)


ALL = "(direct, period - direct, image, period - image)"
BUGS = {
    "the mirror image is left out": (ALL, "(direct, period - direct)"),
    "only the first image is kept": (ALL, "(direct, image)"),
    "T is not folded": ("place = (total - lower) % period", "place = total - lower"),
    "the period is the width": ("period = 2.0 * (upper - lower)", "period = upper - lower"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    edits = [
        Edit(terms, "log_folded_laplace", *BUGS[bug]),
        same(terms, "formula"),
        same(terms, "add_terms"),
        same(terms, "log_g"),
    ]
    with planted(*edits), pytest.raises(AssertionError):
        test_the_density_is_the_sum_over_the_images((0.0, 7.0))


def test_bad_input():
    noise = na.mechanisms.Laplace(na.queries.Count(), scale=1.0)
    with pytest.raises(ValueError, match="lower must be below upper"):
        na.mechanisms.Folded(noise, 3, 3)
    with pytest.raises(TypeError, match="must be a Laplace"):
        na.mechanisms.Folded(na.mechanisms.Gaussian(na.queries.Count(), scale=1.0), 0, 3)
    with pytest.raises(ValueError, match="half of one"):
        mechanism(0.3, 4, discrete=True)
    with pytest.raises(ValueError, match="between 0 and 7"):
        na.Release([7.5], mechanism(0, 7), 5)


def test_a_release_file_holds_it(tmp_path):
    for ends in RANGES:
        release = na.Release([2.0], mechanism(*ends), 5)
        release.to_json(tmp_path / "release.json")
        assert na.Release.from_json(tmp_path / "release.json").to_dict() == release.to_dict()
    entries = mechanism(0, 7).to_dict()
    with pytest.raises(ValueError, match="'mechanism' is missing"):
        na.mechanisms.from_dict({k: v for k, v in entries.items() if k != "mechanism"})
    with pytest.raises(ValueError, match="got 'step'"):
        na.mechanisms.from_dict({**entries, "step": 1})
