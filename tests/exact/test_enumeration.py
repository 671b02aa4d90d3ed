"""The record updates on tiny databases, against the posterior by enumeration: pi P = pi.

Nothing here is random: the matrices are exact, and so are the runs of the moves, which get their
"random" numbers from a script.
"""

import math

import numpy as np
import pytest

import noiseaware as na
from exact.enumeration import (
    Problem,
    TableProposal,
    check_algorithm1,
    check_algorithm2,
    check_blocks,
    check_sweep,
)
from later import all_but
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE, SeparableDensity


def laplace(values, scale):
    return lambda total: -sum(abs(s - x) for s, x in zip(values, total, strict=True)) / scale


def gaussian(values, scale):
    return lambda total: (
        -sum((s - x) ** 2 for s, x in zip(values, total, strict=True)) / (2 * scale**2)
    )


# Bernoulli: ones come first, in the order in which the model cuts the unit interval.
BITS = np.array([1, 0])
P = 0.3


def bernoulli(release, t, log_g):
    theta = {"probability": np.array(P)}
    return Problem(na.models.Bernoulli(), release, theta, BITS, (P, 1 - P), t, log_g)


def count():
    """Cells, of which a zero is in none."""
    release = na.Release([2.6], na.mechanisms.Laplace(na.queries.Count(), scale=0.7), 4)
    return bernoulli(release, lambda i, x: (float(x == 1),), laplace([2.6], 0.7))


def dense():
    """A dense statistic of two coordinates, and Gaussian noise."""
    query = na.Query(
        lambda x: np.column_stack([x, 0.7 - 0.5 * x]), ["a", "b"], sensitivity={1: 1.5, 2: 1.2}
    )
    release = na.Release([2.2, -0.4], na.mechanisms.Gaussian(query, scale=0.9), 3)
    return bernoulli(
        release, lambda i, x: (float(x), 0.7 - 0.5 * float(x)), gaussian([2.2, -0.4], 0.9)
    )


class Joint:
    """A user's mechanism: g is not coordinatewise, t depends on the index and on s_dp."""

    def __init__(self):
        self.query = na.Query(lambda x: np.column_stack([x, x]), ["a", "b"], sensitivity=4.0)

    def statistic(self, records, index, values):
        return np.column_stack([records * (1.0 + index), np.cos(values[1] + index) * records])

    def log_density(self, values, total):
        return -2.0 * math.log1p(float(np.sum((values - total) ** 2)) ** 0.75)


def joint():
    values = [3.5, -0.8]

    def t(i, x):
        return x * (1.0 + i), math.cos(values[1] + i) * x

    def log_g(total):
        square = (values[0] - total[0]) ** 2 + (values[1] - total[1]) ** 2
        return -2.0 * math.log1p(square**0.75)

    return bernoulli(na.Release(values, Joint(), 3), t, log_g)


class Indexed(Joint):
    """A user's mechanism with compiled terms, Laplace and Gaussian, and a t with the index."""

    def terms(self, values):
        row = np.array([[values[0], 0.8, 0.0, 0.0], [values[1], 1.3, 0.0, 0.0]])
        return SeparableDensity(np.array([LAPLACE, GAUSSIAN]), row)

    def log_density(self, values, total):
        return -0.8 * abs(values[0] - total[0]) - 0.5 * (1.3 * (values[1] - total[1])) ** 2


def indexed():
    values = [3.5, -0.8]

    def t(i, x):
        return x * (1.0 + i), math.cos(values[1] + i) * x

    def log_g(total):
        return -0.8 * abs(values[0] - total[0]) - 0.5 * (1.3 * (values[1] - total[1])) ** 2

    return bernoulli(na.Release(values, Indexed(), 3), t, log_g)


LEVELS = np.arange(3)
SHARES = (0.2, 0.5, 0.3)


def categorical():
    """Cells, each record in one of three; discrete noise."""
    mechanism = na.mechanisms.DiscreteLaplace(na.queries.Histogram(n_levels=3), scale=1.1)
    return Problem(
        na.models.Categorical(3),
        na.Release([4, -1, 1], mechanism, 3),
        {"probabilities": np.array(SHARES)},
        LEVELS,
        SHARES,
        lambda i, x: tuple(float(x == level) for level in range(3)),
        laplace([4, -1, 1], 1.1),
    )


NOISY_TABLES = (2.3, 0.1, -0.4, 1.8, 0.9, 1.2, 0.3, 3.1)


def naive_bayes(mechanism, log_g, values, n=3):
    """N = 3 records of a class and two features, two levels each: 512 databases."""
    classes = (0.35, 0.65)
    features = (((0.2, 0.8), (0.6, 0.4)), ((0.7, 0.3), (0.55, 0.45)))  # class, feature, level
    records = np.array([(c, a, b) for c in range(2) for a in range(2) for b in range(2)])

    def t(i, x):
        cells = [0.0] * 8
        for k in range(2):
            cells[4 * x[0] + 2 * k + x[1 + k]] += 1.0
        return tuple(cells)

    return Problem(
        na.models.NaiveBayes(2, [2, 2]),
        na.Release(values, mechanism, n),
        {
            "class_probabilities": np.array(classes),
            "feature_probabilities": np.array(features),
        },
        records,
        tuple(classes[c] * features[c][0][a] * features[c][1][b] for c, a, b in records),
        t,
        log_g,
    )


def naive_bayes_cells(n=3):
    """Records with several cells, of which a proposal may keep some."""
    mechanism = na.mechanisms.Laplace(na.queries.ClassFeatureCounts(2, [2, 2]), scale=1.5)
    return naive_bayes(mechanism, laplace(NOISY_TABLES, 1.5), NOISY_TABLES, n)


def naive_bayes_dense():
    """The same statistic without its cells, and discrete Gaussian noise."""
    cells = na.queries.ClassFeatureCounts(2, [2, 2])
    query = na.Query(cells.statistic, cells.names, {1: 4, 2: 2}, integer_valued=True)
    values = [2, 0, -1, 2, 1, 1, 0, 4]
    mechanism = na.mechanisms.DiscreteGaussian(query, scale=1.2)
    return naive_bayes(mechanism, gaussian(values, 1.2), values)


SMALL = (count, dense, joint, indexed, categorical)

# Row a of a table is the distribution of the proposal when the record has value a.
TABLES = np.array(
    [
        [[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.25, 0.35, 0.4]],
        [[0.2, 0.2, 0.6], [0.6, 0.3, 0.1], [0.3, 0.6, 0.1]],
    ]
)
BIT_TABLES = np.array([[[0.2, 0.8], [0.45, 0.55]], [[0.7, 0.3], [0.9, 0.1]]])


def algorithm2_independent():
    """A proposal that looks at its own record only."""
    problem = categorical()
    check_algorithm2(problem, TableProposal(TABLES[:1], problem.values), sequential=False)


def algorithm2_sequential():
    """A proposal that looks at the other records, and a t that depends on the index."""
    problem = joint()
    check_algorithm2(problem, TableProposal(BIT_TABLES, problem.values), sequential=True)


@pytest.mark.parametrize("problem", [*SMALL, naive_bayes_cells, naive_bayes_dense])
def test_record_updates_leave_the_posterior_invariant(problem):
    check_algorithm1(problem())


@pytest.mark.parametrize("problem", [count, dense, joint, indexed, categorical])
def test_the_sweep_is_the_product_of_the_record_updates(problem):
    check_sweep(problem())


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize(
    "problem", all_but([categorical], [count, dense, joint, indexed, categorical])
)
def test_algorithm2_with_a_proposal_of_its_own(problem, sequential):
    problem = problem()
    tables = TABLES if len(problem.values) == 3 else BIT_TABLES
    used = tables if sequential else tables[:1]
    check_algorithm2(problem, TableProposal(used, problem.values), sequential)


@pytest.mark.parametrize(
    ("problem", "size"),
    [
        (count, 2),
        (count, 3),
        (count, 4),
        (dense, 2),
        (indexed, 2),
        (categorical, 2),
        (joint, 2),
        (joint, 3),
    ],
)
def test_blocks_leave_the_posterior_invariant(problem, size):
    check_blocks(problem(), size)


def test_every_kind_of_statistic_is_here():
    """Cells, dense terms and a joint log density each go through a loop of their own."""
    from noiseaware.sampler.target import Target

    targets = [Target(p.model, p.release) for p in (count(), dense(), joint(), indexed())]
    assert [t.uses_cells for t in targets] == [True, False, False, False]
    assert [t.terms is None for t in targets] == [False, False, True, False]
