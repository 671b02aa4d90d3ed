"""Tables of Poisson counts, against sums and quadrature; chains of counts beside chains of records.

A table of two log-normal cells and its posterior are summed over all counts up to 60 and over a
grid of log means, by SciPy's densities. Exact draws of both go through each move of the default,
and what comes out is compared with the sums again. m p-values are compared with 1e-6 / m: a
false-alarm rate of at most 1e-6.
"""

import functools
import itertools
import math
import os
import tracemalloc

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import special, stats

import noiseaware as na
from exact.test_counts import chi_square
from later import all_but, only
from mutants.planting import Edit, planted, same
from noiseaware.counts import following, weights
from noiseaware.models import count_tables
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves, make_target
from noiseaware.sampler.moves import count_transport as transport
from noiseaware.sampler.state import ChainState

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220605"))
FALSE_ALARM = 1e-6

MOST, GRID = 60, np.linspace(-5.0, 7.0, 2001)
MU, SD, SCALES, VALUES = 1.5, 0.9, np.array([1.5, 3.0, 3.0]), np.array([13.0, 2.0, 9.0])


def log_normal_problem(n_records=None):
    query = na.queries.Linear.sums(["all"] * 2, ["a", "b"])
    release = na.Release(VALUES, na.mechanisms.Gaussian(query, scale=SCALES), n_records)
    return make_target(na.models.LogNormalTable(2, MU, SD), release)


@functools.cache
def exact_posterior():
    """All tables, their probabilities, and the CDF of a log mean given each count."""
    joint = stats.norm.logpdf(GRID, MU, SD) + stats.poisson.logpmf(
        np.arange(MOST)[:, None], np.exp(GRID)
    )
    given = np.cumsum(np.exp(joint - joint.max(axis=1, keepdims=True)), axis=1)
    tables = np.indices((MOST, MOST)).reshape(2, -1).T
    logs = special.logsumexp(joint, axis=1)[tables].sum(axis=1)
    totals = np.column_stack([tables.sum(axis=1), tables])
    logs += stats.norm.logpdf(VALUES, totals, SCALES).sum(axis=1)
    return tables, np.exp(logs - special.logsumexp(logs)), given / given[:, -1:]


def p_values_of(move, n_draws, n_records=None):
    """Exact draws, one step each, and how well counts and log means given them fit."""
    tables, pi, given = exact_posterior()
    if n_records is not None:
        inside = tables.sum(axis=1) == n_records
        tables, pi = tables[inside], pi[inside] / pi[inside].sum()
    target, rng = log_normal_problem(n_records), np.random.default_rng([SEED, 5])
    state = ChainState({"log_means": np.zeros(2)}, tables[0].copy(), None, rng)
    tuning, found, scores = move.start(target, state), np.zeros((MOST, MOST)), []
    if move == MOVES[3]:  # theta follows from when warm-up has seen counts
        mean = np.array([4.0, 8.0])
        tuning["following"] = following.follow_around(target.abilities.log_linear, mean)
    for start in rng.choice(len(tables), size=n_draws, p=pi):
        state.records = tables[start].copy()
        draws = [np.interp(rng.random(), given[x], GRID) for x in tables[start]]
        state.theta = {"log_means": np.array(draws)}
        move.step(target, state, tuning)
        if state.records.max() < MOST:
            found[tuple(state.records)] += 1
            pairs = zip(state.theta["log_means"], state.records, strict=True)
            scores.append([np.interp(b, GRID, given[x]) for b, x in pairs])
    expected = np.zeros((MOST, MOST))
    expected[tuple(tables.T)] = pi * n_draws
    assert found.sum() == found[expected > 0].sum()
    p_values = [chi_square(found[expected > 0], expected[expected > 0])]
    return p_values + [stats.kstest(column, "uniform").pvalue for column in np.transpose(scores)]


MOVES = (
    na.moves.ParameterUpdate(),
    na.moves.CountTransport(),
    na.moves.CountMove(),
    na.moves.CountMove(follow=True),
)


@pytest.mark.parametrize("move", all_but(MOVES[1:2], MOVES), ids=repr)
def test_each_move_leaves_the_posterior_of_a_log_normal_table_invariant(move):
    assert min(p_values_of(move, 3000)) > FALSE_ALARM / 3


@pytest.mark.parametrize("move", [MOVES[0], *MOVES[2:]], ids=repr)
def test_the_total_may_be_known(move):
    assert min(p_values_of(move, 2000, n_records=12)) > FALSE_ALARM / 3


BUGS = {
    "a count without its prior": (
        MOVES[0],
        Edit(count_tables, "log_target", "t * total - 0.5 * precision", "t * total - 0.0"),
        same(count_tables, "scan"),
        same(count_tables, "slice_step"),
    ),
    "means that do not follow": (
        MOVES[1],
        Edit(transport, "carry_points", "new[c] / old[c]", "1.0"),
    ),
    "points that are not added": (
        MOVES[1],
        Edit(transport, "carry_points", "counts[c] + rng.poisson(new[c] - old[c])", "counts[c]"),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_in_the_moves_of_log_normal_tables_is_caught(name):
    move, *edits = BUGS[name]
    with planted(*edits):
        assert min(p_values_of(move, 1500)) < FALSE_ALARM / 3


def test_effects_add_up_to_nothing_and_have_their_own_directions():
    model = na.models.LogLinearTable([3, 2, 4], [[0, 1], [0, 2]], variables=["a", "b", "c"])
    design = model._design.toarray()
    gram = design.T @ design
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    assert design.shape == (24, 1 + (2 + 1 + 3) + 2 * 1 + 2 * 3)
    np.testing.assert_allclose(design[:, 1:].sum(axis=0), 0.0, atol=1e-12)
    whole = na.models.LogLinearTable([3, 2, 4], [[0, 1, 2]])
    assert whole._design.shape == (24, 24)
    theta = {"coefficients": np.random.default_rng(1).normal(size=24)}
    np.testing.assert_allclose(
        whole.derive({"coefficients": theta["coefficients"][None]})["means"].ravel(),
        np.exp(whole.log_likelihood(theta, whole.record_values)),
    )


def test_the_prior_of_gamma_means_is_normalised():
    model = na.models.PoissonTable(2, shape=[1.5, 3.0], rate=[0.5, 2.0])
    theta = {"means": np.array([2.2, 0.7])}
    expected = stats.gamma.logpdf(theta["means"], [1.5, 3.0], scale=[2.0, 0.5]).sum()
    assert math.isclose(model.log_prior(theta), expected, rel_tol=1e-12)
    x = np.arange(200)
    prior = model.counts_prior
    for c, (a, b) in enumerate([(1.5, 0.5), (3.0, 2.0)]):
        logs = special.gammaln(prior.concentrations[c] + x) - special.gammaln(x + 1.0)
        logs += prior.slopes[c] * x
        made = np.exp(logs - special.logsumexp(logs))
        np.testing.assert_allclose(made, stats.nbinom.pmf(x, a, b / (b + 1.0)), atol=1e-12)


@pytest.mark.parametrize(("a", "x"), [(0.0, 3), (0.3, 0), (2.5, 1000), (1.7, 10**9)])
def test_a_change_of_a_count_is_a_difference_of_log_gammas(a, x):
    for step in (*range(-min(x, 40), 41), 4096):
        expected = weights.cell_weight(a, x + step) - weights.cell_weight(a, x)
        size = abs(weights.cell_weight(a, float(x))) if a == 0.0 else math.lgamma(x + 10.0)
        assert abs(weights.cell_change(a, x, step) - expected) <= 1e-14 * size + 1e-12


# ------------------------------------------------------------------ counts beside records


def _grouped(kind, sizes):
    query = na.queries.ByGroup(na.queries.Count(), n_groups=len(sizes))
    values = [0.4 * size + 1.0 for size in sizes]
    return kind(sizes), na.Release(values, na.mechanisms.Laplace(query, scale=3.0), sum(sizes))


def finite_models():
    laplace, queries, models = na.mechanisms.Laplace, na.queries, na.models
    table = queries.Margins([2, 3], [[0], [1]])
    bayes = queries.ClassFeatureCounts(2, [2])
    return {
        "Bernoulli": (models.Bernoulli(), na.Release([31.5], laplace(queries.Count(), 8.0), 60)),
        "Categorical": (
            models.Categorical(3),
            na.Release([20, -3, 31], laplace(queries.Histogram(n_levels=3), 6.0), 50),
        ),
        "ContingencyTable": (
            models.ContingencyTable([2, 3]),
            na.Release([20, 31, 12, 14, 22], laplace(table, 5.0), 50),
        ),
        "NaiveBayes": (
            models.NaiveBayes(2, [2]),
            na.Release([12, 8, 5, 17], laplace(bayes, 4.0), 40),
        ),
        "TwoProportions": _grouped(models.TwoProportions, [20, 30]),
        "StratifiedProportions": _grouped(models.StratifiedProportions, [10, 15, 25]),
    }


def draws_of(model, release, moves_of, draws):
    target = make_target(model, release, moves_of)
    picked = moves_of or default_moves(target)
    state = chain.start(target, picked, np.random.default_rng([SEED, target.on_counts]))
    _, made = chain.advance(target, picked, chain.Schedule(500, draws), state, 500 + draws)
    values = np.concatenate([v.reshape(draws, -1) for v in made.theta.values()], axis=1)
    return target, np.column_stack([values, values**2])


@pytest.mark.parametrize("name", only(["Categorical"], finite_models()))
@pytest.mark.parametrize("n_draws", only([1000], [1000, 3000]))
def test_counts_and_records_have_the_same_posterior(name, n_draws):
    """First and second moments; each score is compared with 6 (2e-9, at most 20 of them)."""
    model, release = finite_models()[name]
    records = (
        na.moves.Interweave(
            na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.BlockSweep()
        ),
    )
    found = []
    for moves_of, on_counts in ((None, True), (records, False)):
        target, values = draws_of(model, release, moves_of, n_draws)
        assert target.on_counts == on_counts
        size = [float(array_stats.ess(column[None], method="mean")) for column in values.T]
        found.append((values.mean(axis=0), values.std(axis=0) / np.sqrt(size), min(size)))
    (mean, error, least), (other, other_error, other_least) = found
    assert min(least, other_least) > n_draws / 30
    assert np.abs((mean - other) / np.hypot(error, other_error)).max() < 6.0


def peak_memory(n):
    release = na.Release([0.3 * n], na.mechanisms.Laplace(na.queries.Count(), scale=2.0), n)
    tracemalloc.start()
    draws_of(na.models.Bernoulli(), release, None, 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_number_of_records():
    """A byte for each hundred records would be a megabyte; the chain itself has a tenth of it."""
    peak_memory(10**8)  # what Python and numba keep of a first call is not the chain's
    assert peak_memory(10**8) < peak_memory(10**3) + 10**6


# ------------------------------------------------------------------ bad input


def _sampled(model, mechanism, values, n, size=None):
    release = na.Release(values, mechanism, n)
    return na.sample(model, release, size=size, draws=10, progressbar=False)


def _exact(rows, values, n=10):
    noisy = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), scale=1.0)
    both = na.mechanisms.Several([noisy, na.mechanisms.Exact(na.queries.Linear(rows))])
    return _sampled(na.models.Categorical(3), both, [3, 3, 4, *values], n)


BAD = {
    "a matrix that is too narrow": (
        lambda: _sampled(
            na.models.Categorical(4),
            na.mechanisms.Laplace(na.queries.Linear([[1, 1, 0]]), scale=1.0),
            [3],
            10,
        ),
        "4",
    ),
    "an exact number that is no integer": (lambda: _exact([[1, 1, 0]], [3.5]), "must be integers"),
    "an exact number below 0": (lambda: _exact([[1, 1, 0]], [-1]), "no nonnegative integers"),
    "exact numbers that contradict": (
        lambda: _exact([[1, 0, 0], [1, 1, 0]], [5, 3]),
        "no nonnegative integers",
    ),
    "more in a part than there are records": (
        lambda: _exact([[1, 1, 0]], [11]),
        "no nonnegative integers",
    ),
    "exact rows that are not integers": (lambda: _exact([[0.5, 1, 0]], [3]), "integers"),
    "exact values of another shape": (lambda: _exact([[1, 1, 0]], [3, 4]), "5|4"),
    "too many cells": (lambda: na.models.PoissonTable([5000, 5000]), "25,000,000"),
    "too many coefficients": (
        lambda: na.models.LogLinearTable([100, 100, 100], [[0, 1, 2]]),
        "1,000,000 coefficients of 1,000,000 cells",
    ),
    "n that is negative": (lambda: _exact([[1, 1, 0]], [3], n=-3), "positive integer"),
    "n that is no integer": (lambda: _exact([[1, 1, 0]], [3], n=9.5), "positive integer"),
    "an interaction with a variable that is not there": (
        lambda: na.models.LogLinearTable([2, 2], [["sex", "age"]]),
        "interactions must be sets",
    ),
    "an interaction of one": (lambda: na.models.LogLinearTable([2, 2], [[0]]), "two or more"),
    "a rate of 0": (lambda: na.models.PoissonTable(3, rate=0.0), "rate must be positive"),
    "one level": (lambda: na.models.PoissonTable([3, 1]), "n_levels"),
    "a prior for a number that the model is about": (
        lambda: _sampled(
            na.models.PoissonTable(3),
            na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), scale=1.0),
            [3, 3, 4],
            None,
            na.sizes.Uniform(1, 20),
        ),
        "size must not be given: PoissonTable is about the number of records",
    ),
    "an unknown number with noise that is not added to counts": (
        lambda: _sampled(
            na.models.PoissonTable(3),
            na.mechanisms.KNorm(na.queries.Histogram(n_levels=3), scale=1.0),
            [3, 3, 4],
            None,
        ),
        "n_records must be given: without it PoissonTable needs noise that is added",
    ),
    "effects of no variables": (lambda: na.models.LogLinearTable(6), "list the levels"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line(name):
    make, words = BAD[name]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert not list(itertools.filterfalse(str.isprintable, str(caught.value)))
