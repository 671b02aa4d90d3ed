"""Chains that count the parts of records, against enumerated posteriors.

The plain side lists the tables of all possible records, as `test_counts` does, with the prior and
the noise by the textbook, and adds up those that have the same counts of class, feature and level:
how many databases have these it does not know from a formula. Then, as there: P of one step,
exactly; exact draws through a whole iteration, with a false-alarm rate of at most 1e-6; and planted
bugs.
"""

import math
import os
from itertools import product

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from exact.test_counts import (
    FALSE_ALARM,
    check_invariant,
    chi_square,
    compositions,
    laplace,
    naive_bayes_prior,
    transition_matrix,
)
from later import only
from mutants.planting import Edit, planted, same
from noiseaware.counts import move as moves
from noiseaware.counts import parts as parts_module
from noiseaware.counts import target as target_module
from noiseaware.counts.parts import PartsTarget
from noiseaware.models import naive_bayes
from noiseaware.queries.tables import Margins
from noiseaware.sampler.default import default_moves, make_target
from noiseaware.sampler.state import ChainState

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220611"))
A, SCALE = 1.4, 1.6


def asked(levels, how):
    """A mechanism for a query that sees a class and one feature at a time."""
    counts = na.queries.ClassFeatureCounts(levels[0], levels[1:])
    features = range(1, len(levels))
    margins = na.queries.Margins(levels, [[k, 0] for k in features] + [[0], [1]])
    if how == "counts":
        return na.mechanisms.Laplace(counts, scale=SCALE)
    if how == "margins":
        return na.mechanisms.Laplace(margins, scale=SCALE)
    return na.mechanisms.Several([asked(levels, "counts"), asked(levels, "margins")])


class Problem:
    """A release of n records, or of some number up to n: all tables of parts, and their weights."""

    def __init__(self, levels, n, how="counts", size=None):
        self.levels, mechanism = levels, asked(levels, how)
        d = len(mechanism.query.names)
        values = np.random.default_rng(6).normal(1.0, 1.0, d)
        release = na.Release(values, mechanism, n if size is None else None)
        self.model = na.models.NaiveBayes(levels[0], levels[1:], concentration=A)
        self.target = make_target(self.model, release, None, size)
        assert isinstance(self.target, PartsTarget)
        cells = np.array(list(np.ndindex(*levels)))
        matrix = mechanism.query.statistic(cells).T
        into = na.queries.ClassFeatureCounts(levels[0], levels[1:]).statistic(cells).T.astype(int)
        log_prior, log_noise = naive_bayes_prior(levels, A), laplace(values, SCALE)
        logs = {}
        for m in [n] if size is None else range(size.lower, n + 1):
            log_size = 0.0 if size is None else size.log_pmf(m)
            for x in compositions(len(cells), m):
                weight = log_size + math.lgamma(m + 1) - sum(math.lgamma(c + 1) for c in x)
                weight += log_prior(x) + log_noise(matrix @ np.array(x))
                logs.setdefault(tuple((into @ np.array(x)).tolist()), []).append(weight)
        self.tables = list(logs)
        self.number = {x: i for i, x in enumerate(self.tables)}
        weights = np.array([np.exp(same).sum() for same in logs.values()])
        self.pi = weights / weights.sum()
        self.values = np.arange(self.target.n)  # only their number counts
        parts = len(levels) - 1
        self.sizes = (parts * (n if size is None else size.lower), parts * n)


PROBLEMS = {
    "two features": lambda: Problem((2, 2, 3), 2),
    "three classes": lambda: Problem((3, 2, 2), 2),
    "one feature": lambda: Problem((2, 3), 4),
    "margins": lambda: Problem((2, 2, 2), 3, "margins"),
    "both": lambda: Problem((2, 2, 2), 2, "both"),
    "unknown n": lambda: Problem((2, 2, 2), 3, size=na.sizes.LogPmf(lambda n: -0.3 * n, 1, 3)),
}


def check_step(name):
    check_invariant(PROBLEMS[name]())


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_step_leaves_the_enumerated_posterior_invariant(name):
    check_step(name)


BAYES, TARGET = naive_bayes.NaiveBayes, parts_module.PartsTarget
BUGS = {
    "orders of the parts": ("two features", TARGET, "_find_cells", "n_parts - 1.0", "0.0"),
    "prior of the classes": ("three classes", BAYES, "parts", "[a], [1.0]", "[a], [0.0]"),
    "constants of the features": ("two features", BAYES, "parts", "-float(times)", "0.0"),
    "sum of the concentrations": ("one feature", BAYES, "parts", "count * a", "a"),
    "classes never change": ("two features", TARGET, "_elements", "combinations(starts, 2)", "[]"),
    "class seen by all": ("margins", Margins, "part_columns", "by == k", "by == k or by == 1"),
    "no n!": ("unknown n", target_module, "with_orders", "1.0, 1.0, 1.0", "1.0, 0.0, 1.0"),
    "whole of the prior": ("unknown n", BAYES, "parts", "=self.n_classes * a", "=a"),
    "records of a step": ("unknown n", moves, "bounds", "= int(change", "= 2 * int(change"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_a_step_is_caught(bug):
    name, *edit = BUGS[bug]
    with planted(Edit(*edit)), pytest.raises((AssertionError, IndexError)):
        check_step(name)


# ------------------------------------------------------------------ a whole iteration


def class_shapes(x, levels):
    return A + np.array(x).reshape(levels[0], -1)[:, : levels[1]].sum(axis=1)


def p_values(name, n_draws):
    """Exact draws through an iteration: tables, a record, and theta given the tables."""
    made = PROBLEMS[name]()
    target, levels, rng = made.target, made.levels, np.random.default_rng([SEED, len(name)])
    (move,) = default_moves(target)
    state = ChainState(made.model.sample_prior(rng), np.array(made.tables[0]), None, rng)
    tuning = move.start(target, state)
    found, records, scores = np.zeros(len(made.tables)), [], []
    for start in rng.choice(len(made.tables), size=n_draws, p=made.pi):
        state.records = np.array(made.tables[start])
        move.step(target, state, tuning)
        found[made.number[tuple(state.records)]] += 1
        records.append(target.database(state))
        np.testing.assert_array_equal(target.hold(records[-1]), state.records)
        shapes = class_shapes(state.records, levels)
        of_class = stats.beta.cdf(state.theta["class_probabilities"], shapes, shapes.sum() - shapes)
        cells = A + state.records.reshape(levels[0], -1)
        ends = np.cumsum(levels[1:])
        sums = [c.sum(axis=1) for c in np.split(cells, ends[:-1], axis=1)]
        whole = np.repeat(sums, levels[1:], axis=0)
        p = np.concatenate([feature_rows(state.theta, k) for k in range(len(ends))], axis=1)
        of_level = stats.beta.cdf(p, cells, whole.T - cells)
        scores.append(np.append(of_class, of_level))
    result = [chi_square(found, made.pi * n_draws)]
    result += [stats.kstest(column, "uniform").pvalue for column in np.array(scores).T]
    return np.array(result), made, records


def feature_rows(theta, k):
    """p^k_{i-} for all classes i."""
    if "feature_probabilities" in theta:
        return theta["feature_probabilities"][:, k]
    return theta[f"feature_probabilities_{k + 1}"]


def check_iteration(name, n_draws):
    found, _, _ = p_values(name, n_draws)
    assert found.min() > FALSE_ALARM / len(found), found


@pytest.mark.parametrize("name", only(["two features"], ["two features", "margins", "both"]))
def test_an_iteration_leaves_the_posterior_invariant(name):
    check_iteration(name, 3000)


ITERATION_BUGS = {
    "gammas of other cells": Edit(BAYES, "_from_part_gammas", "[logs[:, -self", "[logs[:, self"),
    "features the wrong way": Edit(TARGET, "hold", "records[:, 1:]", "records[:, :0:-1]"),
}


@pytest.mark.parametrize("bug", ITERATION_BUGS)
def test_a_planted_bug_of_an_iteration_is_caught(bug):
    with planted(ITERATION_BUGS[bug]), pytest.raises((AssertionError, IndexError)):
        check_iteration("two features", 1500)


# ------------------------------------------------------------------ records and counts


def test_counts_of_theta_and_records_agree():
    """log f by cells is that by records, and drawn counts have their means."""
    made, rng = Problem((3, 2, 4), 2), np.random.default_rng(SEED)
    theta = made.model.sample_prior(rng)
    records = made.model.sample_records(theta, 50, rng)
    counts = made.target.hold(records)
    np.testing.assert_allclose(
        counts @ made.target.log_values(theta), made.model.log_likelihood(theta, records).sum()
    )
    release = na.Release(made.target.values, made.target.release.mechanism, 400)
    target = make_target(made.model, release)
    drawn = np.array([target.propose(theta, 400, rng)[0] for _ in range(2000)])
    sums = drawn.reshape(2000, 3, -1)
    assert (sums[:, :, :2].sum(axis=2) == sums[:, :, 2:].sum(axis=2)).all()
    p = np.exp(target.log_values(theta)).reshape(3, -1)
    p[:, 2:] *= p[:, :2].sum(axis=1, keepdims=True)
    z = (drawn.mean(axis=0) - 400 * p.reshape(-1)) / (drawn.std(axis=0) / math.sqrt(2000))
    assert np.abs(z).max() < 5.5  # 18 numbers: less than once in a million


def test_imputed_records_are_in_random_order():
    """Given the counts, features of a class are matched at random."""
    made, rng = Problem((2, 2, 2), 2), np.random.default_rng(SEED)
    counts = np.array([2, 1, 1, 2, 0, 1, 1, 0])  # one database of class 0 in three has (0, 0)
    pairs = [made.target.expand(counts, rng) for _ in range(3000)]
    firsts = np.array([records[0, 0] for records in pairs])
    assert abs(firsts.mean() - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 3000)
    both = np.array([(records == 0).all(axis=1).any() for records in pairs])
    # Feature 1 of the three records has two 0s, feature 2 one: it meets a 0 with probability 2/3.
    assert abs(both.mean() - 2 / 3) < 5 * math.sqrt(2 / 9 / 3000)


def test_theta_held_is_the_enumerated_conditional():
    """P of a step with theta held, against f(x | theta) g summed over databases."""
    made = Problem((2, 2, 2), 2)
    theta = made.model.sample_prior(np.random.default_rng(SEED))
    cells = np.array(list(product(range(2), repeat=3)))
    logs, matrix = made.model.log_likelihood(theta, cells), made.target.release.query
    log_noise, weights = laplace(made.target.values, SCALE), np.zeros(len(made.tables))
    for x in product(range(8), repeat=2):
        table = tuple(made.target.hold(cells[list(x)]).tolist())
        total = matrix.statistic(cells[list(x)]).sum(axis=0)
        weights[made.number[table]] += math.exp(logs[list(x)].sum() + log_noise(total))
    made.pi, made.target = weights / weights.sum(), made.target.given(theta)
    P = transition_matrix(made)
    np.testing.assert_allclose(made.pi @ P, made.pi, rtol=0, atol=1e-12)


def test_what_sees_more_than_parts_is_not_counted_by_them():
    model, rng = na.models.NaiveBayes(2, [3, 3]), np.random.default_rng(1)
    records = model.sample_records(model.sample_prior(rng), 20, rng)
    margins = na.queries.Margins([2, 3, 3], [[1, 2]])
    for query in (margins, na.queries.Linear(np.eye(18), n_levels=[2, 3, 3])):
        release = na.mechanisms.Laplace(query, scale=1.0).privatize(records, rng)
        assert not isinstance(make_target(model, release), PartsTarget)
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [3, 3]), scale=1.0)
    release = mechanism.privatize(records, rng)
    with pytest.raises(ValueError, match="parts of records"):
        na.sample(model, release, moves=[na.moves.CountTransport()])


def check_looks():
    """The lowest ratio of one changed record comes to the bound exp(-epsilon), and not below it."""
    model, rng = na.models.NaiveBayes(2, 2, n_features=3), np.random.default_rng(SEED)
    records = model.sample_records(model.sample_prior(rng), 60, rng)
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [2, 2, 2]), epsilon=1.0)
    target = make_target(model, mechanism.privatize(records, rng))
    counts = target.hold(records)
    tree, sums = np.empty(len(counts) + 1, np.int64), np.empty(len(target.table.fixed))
    moves.fill_tree(counts, tree)
    moves.add_up(target.table, counts, sums)
    looks = [
        moves.look_at_records(target.density, target.table, tree, sums, counts, rng)[1]
        for _ in range(300)
    ]
    assert -1.0 - 1e-9 < min(looks) < -0.9


def test_what_one_record_can_do_is_seen():
    check_looks()
    bugs = (
        Edit(moves, "fill_record", "return max(1, n_parts)", "return 1"),
        same(moves, "look_at_records"),
    )
    with planted(*bugs), pytest.raises(AssertionError):
        check_looks()
