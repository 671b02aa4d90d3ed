"""The evidence: every log density normalised, and log p(s_dp) against sums and closed forms.

A statistical comparison is in units of the stated error, and fails a right one with probability
below 1e-6. That the error is right is counted over many runs in the full suite.
"""

import importlib
import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, special, stats

import noiseaware as na
from later import only
from mutants.planting import Edit, planted
from noiseaware.mechanisms import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Folded,
    Functional,
    Gaussian,
    KNorm,
    KNormGradient,
    Laplace,
    LocalGaussian,
    LocalLaplace,
    ObjectivePerturbation,
    RandomizedResponse,
    Rounded,
    Several,
    Thresholded,
    Truncated,
    losses,
)
from noiseaware.mechanisms.ready import log_normaliser
from noiseaware.models import Bernoulli, Categorical, NaiveBayes, Normal
from noiseaware.queries import ClassFeatureCounts, Count, Histogram, Sum
from noiseaware.registry import MECHANISMS
from noiseaware.sampler.target import Target

module = importlib.import_module("noiseaware.evidence")  # the function has its name

SIX_SIGMA = 5.5
SEED = 20220614


# ------------------------------------------------------------------ normalised densities


def log_density(mechanism, value, records):
    """log p(s_dp = value) of these records, normalised."""
    values = np.atleast_1d(np.asarray(value, dtype=float))
    own = mechanism.statistic if hasattr(mechanism, "statistic") else None
    index = np.arange(len(records))
    t = mechanism.query.statistic(records) if own is None else own(records, index, values)
    total = np.asarray(t, dtype=float).sum(axis=0)
    return mechanism.log_density(values, total) + log_normaliser(mechanism, values)


ONES = np.array([1, 1, 0, 1])
NUMBERS = np.array([0.4, -0.2, 0.9])
CONTINUOUS = {
    "Laplace": (Laplace(Count(), scale=1.3), ONES),
    "Gaussian": (Gaussian(Count(), scale=1.3), ONES),
    "KNorm": (KNorm(Count(), scale=1.3), ONES),
    "Truncated": (Truncated(Laplace(Count(), scale=1.3), 0.0, 4.0), ONES),
    "Truncated Gaussian": (Truncated(Gaussian(Count(), scale=1.3), 0.0, 4.0), ONES),
    "Folded": (Folded(Laplace(Count(), scale=1.3), 0.0, 4.0), ONES),
    "KNormGradient": (KNormGradient(losses.MeanLoss(-1.0, 1.0), scale=2.0), NUMBERS),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_density_integrates_to_one(name):
    mechanism, records = CONTINUOUS[name]
    ends = (0.0, 4.0) if name.startswith(("Truncated", "Folded")) else (-30.0, 30.0)
    points = np.linspace(*ends, 2_001)
    heights = [math.exp(log_density(mechanism, s, records)) for s in points]
    assert integrate.simpson(heights, x=points) == pytest.approx(1.0, abs=1e-3)


def test_two_dimensions_integrate_to_one():
    grid = np.linspace(-24.0, 24.0, 121)
    for norm in (1, 2, math.inf):
        mechanism = KNorm(Histogram(n_levels=2), scale=2.0, norm=norm)
        total = np.array([1.0, 2.0])
        constant = log_normaliser(mechanism, total)
        heights = [
            [math.exp(mechanism.log_density([a, b], total) + constant) for b in grid] for a in grid
        ]
        volume = integrate.simpson(integrate.simpson(heights, x=grid), x=grid)
        assert volume == pytest.approx(1.0, abs=5e-3)


def test_objective_perturbation_integrates_to_one():
    rng = np.random.default_rng(1)
    records = np.column_stack([rng.uniform(-1, 1, 6), rng.integers(0, 2, 6)])
    loss = losses.LogisticLoss(1, lower=-1.0, upper=1.0)
    for gaussian in (False, True):
        mechanism = ObjectivePerturbation(loss, ridge=1.0, scale=0.8, gaussian=gaussian)
        q = len(loss.names)
        grid = np.linspace(-10.0, 10.0, 81)
        if q == 1:
            mass = integrate.simpson(
                [math.exp(log_density(mechanism, s, records)) for s in grid], x=grid
            )
        else:
            heights = [
                [math.exp(log_density(mechanism, s, records)) for s in itertools.product([a], grid)]
                for a in grid
            ]
            mass = integrate.simpson(integrate.simpson(heights, x=grid), x=grid)
        assert mass == pytest.approx(1.0, abs=2e-2)


DISCRETE = {
    "DiscreteLaplace": DiscreteLaplace(Count(), scale=1.3),
    "DiscreteGaussian": DiscreteGaussian(Count(), scale=1.3),
    "little noise": DiscreteGaussian(Count(), scale=0.3),
    "clamped": Clamped(DiscreteLaplace(Count(), scale=1.3), 0, 4),
    "truncated": Truncated(DiscreteGaussian(Count(), scale=1.3), 0, 4),
    "folded": Folded(DiscreteLaplace(Count(), scale=1.3), 0, 4),
    "rounded": Rounded(Laplace(Count(), scale=1.3), 1.0),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_masses_add_up_to_one(name):
    values = range(5) if name in ("clamped", "truncated", "folded") else range(-80, 81)
    mass = sum(math.exp(log_density(DISCRETE[name], s, ONES)) for s in values)
    assert mass == pytest.approx(1.0, abs=1e-9)


def test_a_density_with_atoms():
    """Clamped: two masses and a density between; withheld: a mass below, a density above."""
    mechanism = Clamped(Laplace(Count(), scale=1.3), 0.0, 4.0)
    inside = np.linspace(1e-9, 4.0 - 1e-9, 2_001)
    mass = integrate.simpson([math.exp(log_density(mechanism, s, ONES)) for s in inside], x=inside)
    mass += sum(math.exp(log_density(mechanism, s, ONES)) for s in (0.0, 4.0))
    assert mass == pytest.approx(1.0, abs=1e-3)
    mechanism = Thresholded(Gaussian(Count(), scale=1.3), 2.0)
    above = np.linspace(2.0 + 1e-9, 40.0, 2_001)
    mass = integrate.simpson([math.exp(log_density(mechanism, s, ONES)) for s in above], x=above)
    assert mass + math.exp(log_density(mechanism, np.nan, ONES)) == pytest.approx(1.0, abs=1e-3)


def test_one_value_for_each_record():
    records = np.array([0.5, -0.5])
    density = log_density(LocalGaussian(Sum(-1, 1), scale=2.0), [1.0, 0.0], records)
    assert density == pytest.approx(stats.norm.logpdf([0.5, 0.5], scale=2.0).sum())
    density = log_density(LocalLaplace(Sum(-1, 1), scale=2.0), [1.0, 0.0], records)
    assert density == pytest.approx(2 * stats.laplace.logpdf(0.5, scale=2.0))
    response = RandomizedResponse(n_levels=3, truth=0.6)
    masses = [math.exp(log_density(response, s, np.array([1]))) for s in range(3)]
    assert sum(masses) == pytest.approx(1.0)


def test_several_parts_add_up():
    parts = [Laplace(Count(), scale=2.0), Gaussian(Count(), scale=3.0)]
    both = log_density(Several(parts), [1.0, 2.0], ONES)
    assert both == pytest.approx(
        log_density(parts[0], 1.0, ONES) + log_density(parts[1], 2.0, ONES)
    )


def test_every_ready_mechanism_says_what_its_density_lacks():
    lacks = {name for name in MECHANISMS.names if not hasattr(MECHANISMS[name], "log_normaliser")}
    assert lacks == set()


# ------------------------------------------------------------------ the evidence


def bernoulli(mechanism, s, n, a=1.0, b=1.0):
    totals = np.arange(n + 1)
    log_g = [mechanism.log_density([s], [t]) for t in totals.astype(float)]
    log_prior = stats.betabinom.logpmf(totals, n, a, b)
    return special.logsumexp(log_prior + log_g) + log_normaliser(mechanism, [s])


def dirichlet_multinomial(counts, concentrations):
    counts, a = np.asarray(counts, float), np.asarray(concentrations, float)
    n = counts.sum()
    ways = special.gammaln(n + 1) - special.gammaln(counts + 1).sum()
    ratio = special.gammaln(a.sum()) - special.gammaln(n + a.sum())
    return ways + ratio + (special.gammaln(counts + a) - special.gammaln(a)).sum()


def categorical(mechanism, values, n, concentration=1.0):
    k = len(values)
    terms = [
        dirichlet_multinomial(counts, np.full(k, concentration))
        + mechanism.log_density(values, np.array(counts, float))
        for counts in itertools.product(range(n + 1), repeat=k)
        if sum(counts) == n
    ]
    return special.logsumexp(terms) + log_normaliser(mechanism, values)


def naive_bayes(mechanism, values, n):
    """Two classes, a feature with two levels: n_ij of class i and level j, flat priors."""
    terms = []
    for cells in itertools.product(range(n + 1), repeat=4):
        if sum(cells) != n:
            continue
        table = np.array(cells).reshape(2, 2)
        log_p = dirichlet_multinomial(table.sum(axis=1), [1.0, 1.0])
        log_p += sum(dirichlet_multinomial(row, [1.0, 1.0]) for row in table)
        records = np.array([(i, j) for i in range(2) for j in range(2) for _ in range(table[i, j])])
        total = mechanism.query.statistic(records).sum(axis=0)
        terms.append(log_p + mechanism.log_density(values, total))
    return special.logsumexp(terms) + log_normaliser(mechanism, values)


def compare(model, release, exactly, error, **options):
    found = na.evidence(model, release, random_seed=SEED, error=error, **options)
    assert found.error < 1.5 * error
    return abs(found.log_evidence - exactly) / found.error


LAWS = {
    "laplace": Laplace(Count(), epsilon=1.0),
    "gaussian": Gaussian(Count(), scale=1.5),
    "discrete laplace": DiscreteLaplace(Count(), epsilon=0.5),
    "discrete gaussian": DiscreteGaussian(Count(), scale=2.0),
    "clamped": Clamped(Laplace(Count(), epsilon=1.0), 0, 12),
    "k-norm": KNorm(Count(), epsilon=1.0),
}


def of_bernoulli(law):
    return Bernoulli(), na.Release([9.0], LAWS[law], 12), bernoulli(LAWS[law], 9.0, 12)


def of_categorical(law):
    mechanism = law(Histogram(n_levels=3), scale=1.5)
    release = na.Release([6.0, 1.0, 4.0], mechanism, 10)
    return Categorical(3), release, categorical(mechanism, release.values, 10)


def of_normal():
    model, n, scale = Normal(variance=4.0, mean_mean=1.0, mean_sd=3.0), 10, 5.0
    release = na.Release([31.0], Gaussian(Sum(-1e6, 1e6), scale=scale), n)
    variance = n**2 * 9.0 + n * 4.0 + scale**2
    return model, release, stats.norm.logpdf(31.0, n * 1.0, math.sqrt(variance))


def of_naive_bayes():
    mechanism = Laplace(ClassFeatureCounts(2, [2]), scale=1.0)
    release = na.Release([3.0, 0.5, 1.0, 2.0], mechanism, 6)
    return NaiveBayes(2, [2], concentration=1.0), release, naive_bayes(mechanism, release.values, 6)


CLOSED = {
    **{f"Bernoulli, {law}": partial(of_bernoulli, law) for law in LAWS},
    **{
        f"Categorical, {law.__name__}": partial(of_categorical, law)
        for law in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian, KNorm)
    },
    "Normal": of_normal,
    "NaiveBayes": of_naive_bayes,
}


@pytest.mark.parametrize(("case", "error"), [("Bernoulli, laplace", 0.03), ("Normal", 0.06)])
def test_it_is_the_closed_form_up_to_the_error(case, error):
    assert compare(*CLOSED[case](), error) < SIX_SIGMA


@pytest.mark.full
@pytest.mark.parametrize("case", CLOSED)
def test_it_is_within_a_twentieth_of_the_closed_form(case):
    """At most 0.0111 is stated: 0.05 is 4.5 errors, which a right one passes all but 1e-5."""
    model, release, exactly = CLOSED[case]()
    found = na.evidence(model, release, random_seed=SEED, error=0.008)
    assert found.error <= 0.0111
    assert abs(found.log_evidence - exactly) < 0.05


@pytest.mark.full
def test_two_models_are_ranked_as_the_sums_rank_them():
    mechanism = Laplace(Count(), epsilon=1.0)
    for s in (2.0, 5.5, 9.0):
        release = na.Release([s], mechanism, 12)
        models = {(1.0, 1.0): None, (30.0, 30.0): None, (2.0, 8.0): None}
        for a, b in models:
            models[a, b] = na.evidence(Bernoulli(a, b), release, random_seed=SEED).log_evidence
        exactly = {key: bernoulli(mechanism, s, 12, *key) for key in models}
        assert sorted(models, key=models.get) == sorted(exactly, key=exactly.get)


@pytest.mark.full
def test_the_error_covers_the_truth():
    """Within two errors as often as a normal variable, 95.4%: a right one fails once in 1e5."""
    far = []
    for case in ("Bernoulli, gaussian", "Bernoulli, laplace", "Categorical, Laplace"):
        model, release, exactly = CLOSED[case]()
        runs = [na.evidence(model, release, random_seed=k, error=0.05) for k in range(100)]
        far.append([abs(e.log_evidence - exactly) / e.error for e in runs])
        print(f"{case}: {np.sum(np.less(far[-1], 2.0))} of 100 within two errors")
    least = stats.binom.ppf(1e-5, np.size(far), math.erf(math.sqrt(2.0)))
    assert np.less(far, 2.0).sum() >= least
    assert np.less(far, 1.0).sum() < least  # errors half as large would be seen


DENSE = Gaussian(Sum(0, 1), scale=0.7)
TRANSPORT = (na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.RecordSweep())
PLANTED = {
    "counts": (LAWS["laplace"], None, "tempered", "._replace(power=power)", ""),
    "transport": (LAWS["laplace"], TRANSPORT, "log_g", "self.power * log_g(", "log_g("),
    "cells": (LAWS["laplace"], na.moves.algorithm1(), "tempered", "._replace(power=power)", ""),
    "dense": (DENSE, na.moves.algorithm1(), "tempered", "._replace(power=power)", ""),
}


@pytest.mark.parametrize("where", only(["counts"], PLANTED))
def test_a_power_that_is_left_out_is_seen(where):
    mechanism, moves, function, old, new = PLANTED[where]
    release, exactly = na.Release([9.0], mechanism, 12), bernoulli(mechanism, 9.0, 12)
    assert compare(Bernoulli(), release, exactly, 0.01, moves=moves) < SIX_SIGMA
    with planted(Edit(Target, function, old, new)):
        assert compare(Bernoulli(), release, exactly, 0.01, moves=moves) > SIX_SIGMA


def test_bridges_of_the_wrong_shares_are_seen():
    rng = np.random.default_rng(SEED)
    low, high = rng.normal(0.0, 1.0, 40_000), rng.normal(1.0, 1.0, 10_000)

    def estimate():
        # log(p'/p) of two normal laws with means 0 and 1 is x - 1/2; its constant is 0.
        return module.bridge((low - 0.5).reshape(4, -1), (high - 0.5).reshape(4, -1))[0]

    assert abs(estimate()) < 0.05
    wrong = "float(above - below) + math.log(share / (1.0 - share))"
    edit = Edit(module, "bridge", "float(above - below)", wrong)
    with planted(edit):
        assert abs(estimate()) > 0.05


def test_draws_that_cannot_make_the_release_count_for_nothing():
    """Half of the draws of b have g = 0, of a prior that is wide: c is log 1/2 more than without.

    `difference` in floating-point numbers, not logarithms, was the logarithm of 0.
    """
    rng = np.random.default_rng(SEED)
    low, high = rng.normal(0.0, 1.0, 20_000) - 0.5, rng.normal(1.0, 1.0, 20_000) - 0.5
    for far in (-1e4, -1e200, -np.inf):
        both = np.concatenate([low, np.full(20_000, far)])
        assert abs(module.bridge(both, high)[0] - math.log(0.5)) < 0.05


# ------------------------------------------------------------------ bad input


class Flat(Bernoulli):
    """A prior that is flat in the logit, and so improper."""

    def log_prior(self, theta):
        p = float(theta["probability"])
        return -math.log(p) - math.log1p(-p)


def test_exact_numbers_are_refused():
    parts = [LAWS["laplace"], na.mechanisms.Exact(Count(None))]
    with pytest.raises(ValueError, match="needs noise on every number; the release has exact"):
        na.evidence(Bernoulli(), na.Release([9.0, 12.0], Several(parts), 12))


def test_an_improper_prior_is_refused():
    release = na.Release([9.0], LAWS["laplace"], 12)
    with pytest.raises(ValueError, match="needs a proper prior; the log_prior of Flat is flat"):
        na.evidence(Flat(), release)


class Plain:
    """A mechanism that does not say what its density lacks."""

    query = Count()

    def log_density(self, values, total):
        return -abs(float(values[0] - total[0]))


def test_a_mechanism_without_a_normaliser_is_refused():
    release = na.Release([9.0], Plain(), 12)
    with pytest.raises(TypeError, match=r"log_normaliser\(values\).*Plain has none"):
        na.evidence(Bernoulli(), release)


@pytest.mark.parametrize(("option", "value"), [("error", 0.0), ("random_seed", -1)])
def test_options(option, value):
    release = na.Release([9.0], LAWS["laplace"], 12)
    with pytest.raises(ValueError, match=f"{option} must be"):
        na.evidence(Bernoulli(), release, **{option: value})


def test_exponential_and_functional_are_normalised():
    assert log_normaliser(Exponential.example(), [1.0]) == 0.0
    assert isinstance(Functional.example(), Laplace)


def test_an_unknown_number_of_records():
    sizes = na.sizes.Uniform(5, 12)
    release = na.Release([4.0], LAWS["laplace"], n_records=None)
    exactly = special.logsumexp([bernoulli(LAWS["laplace"], 4.0, n) for n in range(5, 13)])
    found = na.evidence(Bernoulli(), release, size=sizes, random_seed=SEED, error=0.05)
    assert abs(found.log_evidence - exactly + math.log(8)) < SIX_SIGMA * found.error
