"""Steps on the counts of a contingency table, against the enumerated posterior.

The plain side lists every table of n records, its weight prod_c Gamma(a_c + n_c) / n_c! times the
Laplace density of its margins, and the corners of every step. Two checks:

* every Metropolis step from every table is accepted exactly when the uniform is below the ratio of
  the two enumerated weights, and then arrives at the table that it should;
* exact draws of (counts, x) go through a whole iteration, and what comes out is compared with the
  enumeration again: the counts, the place of a single record, and theta. Each of these compares m
  p-values with 1e-6 / m: a false-alarm rate of at most 1e-6.
"""

import functools
import itertools
import math
import os

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from noiseaware.sampler.moves import table
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

SEED = int(os.environ.get("NOISEAWARE_TEST_SEED", "20220605"))
FALSE_ALARM = 1e-6
PROBLEMS = {
    "2x2": ((2, 2), [[0], [1]], 3, 0.8),
    "2x2x2": ((2, 2, 2), [[0, 1], [2]], 2, 1.0),
    "3x2": ((3, 2), [[0, 1], [1]], 3, 2.5),
}


class Problem:
    """A release of a few records, and its posterior over all tables in plain Python."""

    def __init__(self, name):
        self.levels, margins, self.n, concentration = PROBLEMS[name]
        n_cells = math.prod(self.levels)
        self.a = concentration * np.linspace(0.7, 1.3, n_cells)
        self.cells = list(np.ndindex(*self.levels))
        query = na.queries.Margins(self.levels, margins)
        values = np.random.default_rng(5).normal(1.0, 1.0, len(query.names))
        scale = 1.3
        release = na.Release(values, na.mechanisms.Laplace(query, scale=scale), self.n)
        self.target = Target(
            na.models.ContingencyTable(self.levels, self.a.reshape(self.levels)), release
        )
        self.tables = [
            counts
            for counts in itertools.product(range(self.n + 1), repeat=n_cells)
            if sum(counts) == self.n
        ]
        self.number = {counts: i for i, counts in enumerate(self.tables)}
        log_weights = []
        for counts in self.tables:
            total = []
            for margin in margins:
                for cell in np.ndindex(*(self.levels[k] for k in margin)):
                    total.append(
                        sum(
                            m
                            for m, c in zip(counts, self.cells, strict=True)
                            if tuple(c[k] for k in margin) == cell
                        )
                    )
            log_weight = -np.abs(values - total).sum() / scale
            for m, a in zip(counts, self.a, strict=True):
                log_weight += math.lgamma(a + m) - math.lgamma(m + 1)
            log_weights.append(log_weight)
        self.log_weights = np.array(log_weights)
        weights = np.exp(self.log_weights - self.log_weights.max())
        self.pi = weights / weights.sum()

    def after(self, counts, first, second, chosen, size):
        """The table after a step, or None if a count would be negative or nothing moves."""
        a, b = self.cells[first], self.cells[second]
        moving = [k for k in range(len(a)) if chosen[k] and a[k] != b[k]]
        if not moving:
            return None
        new = list(counts)
        for taken in itertools.product((False, True), repeat=len(moving)):
            cell = list(a)
            for k, other in zip(moving, taken, strict=True):
                cell[k] = b[k] if other else a[k]
            new[self.cells.index(tuple(cell))] += size * (-1) ** sum(taken)
        return tuple(new) if min(new) >= 0 else None


@functools.cache
def problem(name):
    return Problem(name)


def state_at(made, counts, rng):
    """A state with these counts, in a random order, and theta given them."""
    cells = np.repeat(np.arange(len(counts)), counts)
    records = np.array(made.cells)[rng.permutation(cells)]
    theta = made.target.model.update_parameters({}, records, rng)
    return ChainState(theta, records, None, rng)


def check_steps(name):
    """Every step from every table, just below and just above the ratio of the weights."""
    made = problem(name)
    target = made.target
    start = state_at(made, made.tables[0], np.random.default_rng(1))
    known = table.MarkovBasisMove().start(target, start)["table"]
    n_cells = len(made.cells)
    masks = list(itertools.product((False, True), repeat=len(made.levels)))
    moves = list(itertools.product(range(n_cells), range(n_cells), masks, (-2, -1, 1, 2)))
    seen = 0
    for number, counts in enumerate(made.tables):
        cells = np.repeat(np.arange(n_cells), counts)
        for first, second, chosen, size in moves[number % 5 :: 5]:
            new = made.after(counts, first, second, chosen, size)
            log_ratio = -math.inf
            if new is not None:
                log_ratio = made.log_weights[made.number[new]] - made.log_weights[number]
            for log_uniform, arrives in ((log_ratio - 1e-9, new), (log_ratio + 1e-9, None)):
                now, total = np.array(counts), target.sum(known.cells[cells])
                step = table.Steps(
                    np.array([[first, second]]),
                    np.array([chosen]),
                    np.array([size]),
                    np.array([max(log_uniform, -1e9)]),
                )
                accepted = table.table_steps(target.density, total, now, known, step)
                expected = counts if arrives is None else arrives
                assert accepted == (arrives is not None)
                assert tuple(now) == expected
                filled = np.repeat(np.arange(n_cells), expected)
                np.testing.assert_array_equal(total, target.sum(known.cells[filled]))
                seen += 1
    assert seen > 1000


def iteration_p_values(name, n_draws):
    made = problem(name)
    target, move = made.target, table.MarkovBasisMove()
    rng = np.random.default_rng([SEED, list(PROBLEMS).index(name)])
    tuning = move.start(target, state_at(made, made.tables[0], rng))
    draws = rng.choice(len(made.tables), size=n_draws, p=made.pi)
    found = np.zeros(len(made.tables))
    first = np.zeros(len(made.cells))
    thetas, arrived = [], []
    for start in draws:
        state = state_at(made, made.tables[start], rng)
        move.step(target, state, tuning)
        numbers = [made.cells.index(tuple(record)) for record in state.records.tolist()]
        arrived.append(made.number[tuple(np.bincount(numbers, minlength=len(made.cells)))])
        found[arrived[-1]] += 1
        first[numbers[0]] += 1
        thetas.append(state.theta["cell_probabilities"].ravel())
    counts = np.array(made.tables)
    at_first = made.pi @ counts / made.n
    p_values = [chi_square(found, made.pi * n_draws), chi_square(first, at_first * n_draws)]
    # p given the counts that came out is Dirichlet, so that its margins are beta distributions.
    shapes = made.a + counts[arrived]
    scores = stats.beta.cdf(np.array(thetas), shapes, shapes.sum(axis=1, keepdims=True) - shapes)
    p_values += [stats.kstest(column, "uniform", method="asymp").pvalue for column in scores.T]
    return np.array(p_values)


def chi_square(found, expected):
    """P-value, with the rarest tables taken together so that each class expects 10 or more."""
    order = np.argsort(expected)
    classes = (np.cumsum(expected[order]) // 10).astype(int)
    observed, wanted = np.bincount(classes, found[order]), np.bincount(classes, expected[order])
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    if wanted[-1] < 5 and len(wanted) > 1:
        observed = np.append(observed[:-2], observed[-2:].sum())
        wanted = np.append(wanted[:-2], wanted[-2:].sum())
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    return stats.chi2.sf(statistic, len(wanted) - 1)


def check_iteration(name, n_draws=6000):
    p_values = iteration_p_values(name, n_draws)
    assert p_values.min() > FALSE_ALARM / len(p_values), p_values


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_every_step_is_accepted_by_the_ratio_of_the_posterior(name):
    check_steps(name)


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_an_iteration_leaves_the_posterior_alone(name):
    check_iteration(name)


def test_geweke(seed):
    """The joint distribution itself, by the sampler that a table gets by default."""
    result = na.geweke(
        na.models.ContingencyTable([2, 3], concentration=0.8),
        na.mechanisms.Laplace(na.queries.Margins([2, 3], [[0], [1]]), epsilon=2.0),
        n_records=8,
        replicates=300,
        rounds=6,
        moves=(na.moves.MarkovBasisMove(), na.moves.BlockSweep()),
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
    assert result, str(result)


def test_the_compiled_steps_are_their_python_selves():
    made = problem("2x2x2")
    rng = np.random.default_rng(4)
    start = state_at(made, made.tables[0], rng)
    known = table.MarkovBasisMove().start(made.target, start)["table"]
    steps = table.Steps(
        rng.integers(0, 8, size=(200, 2)),
        rng.random((200, 3)) < 0.6,
        rng.integers(1, 3, size=200) * rng.choice([-1, 1], size=200),
        -rng.standard_exponential(200),
    )
    ends = []
    for kernel in (table.table_steps, table.table_steps.py_func):
        counts = np.array(made.tables[3])
        total = made.target.sum(known.cells[np.repeat(np.arange(8), counts)])
        ends.append((kernel(made.target.density, total, counts, known, steps), total, counts))
    assert ends[0][0] == ends[1][0] > 5
    np.testing.assert_array_equal(ends[0][1], ends[1][1])
    np.testing.assert_array_equal(ends[0][2], ends[1][2])


def test_a_table_gets_these_steps_by_default():
    posterior = na.sample(
        na.models.ContingencyTable([2, 2], variables=["a", "b"]),
        na.Release(
            [6.0, 4.0, 5.0, 5.0],
            na.mechanisms.Laplace(na.queries.Margins([2, 2], [[0], [1]]), epsilon=1.0),
            n_records=10,
        ),
        draws=20,
        warmup=10,
        chains=1,
        random_seed=1,
        progressbar=False,
    )
    assert posterior["posterior"]["cell_probabilities"].dims == ("chain", "draw", "a", "b")
    np.testing.assert_allclose(posterior["posterior"]["cell_probabilities"].sum(["a", "b"]), 1.0)
    assert "table_acceptance" in posterior["sample_stats"]
    assert "acceptance_rate" in posterior["sample_stats"]
