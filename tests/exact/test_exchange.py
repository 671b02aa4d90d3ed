"""Exact numbers beside joint and local mechanisms: `ExchangeMove` against all databases.

Three or four records of four values with weights 1, 2, 3, 2, whose sum is published; beside it a
K-norm release of their histogram and a randomized response of each record. The plain side adds up
over all databases with the sum. |pi P - pi| <= 1e-12 for the matrices of single decisions; draws
fail at |z| > 5 with the effective sample size, one in a million.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import special
from scipy.sparse.csgraph import connected_components

import noiseaware as na
from exact.enumeration import TOLERANCE, Scripted, threshold
from exact.known import SEED
from mutants.planting import Edit, planted
from noiseaware.mechanisms import Exact, KNorm, Laplace, RandomizedResponse, Several
from noiseaware.models import Categorical
from noiseaware.queries import Count, Histogram, Linear
from noiseaware.sampler import chain
from noiseaware.sampler.default import moves_of_records
from noiseaware.sampler.moves import exchange
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

WEIGHTS, THETA = np.array([1, 2, 3, 2]), np.array([0.1, 0.3, 0.4, 0.2])
SCALE, EPSILON, COUNTS = 1.3, 0.8, [1.4, -0.2, 1.1, 0.9]
PRIOR = np.array([1.5, 1.0, 2.0, 0.5])
SUM = Linear([WEIGHTS.tolist()], ["weight"])


def release(answers, joint=True):
    """The sum, counts (if `joint`) and an answer of each record, nested."""
    parts = [Exact(SUM), RandomizedResponse(4, epsilon=EPSILON)]
    values = [2.0 * len(answers), *answers]
    if joint:
        parts = [KNorm(Histogram(n_levels=4), norm=2, scale=SCALE), Several(parts)]
        values = [*COUNTS, *values]
    return na.Release(values, Several(parts), n_records=len(answers))


def databases(n):
    """All that have the sum."""
    return [x for x in itertools.product(range(4), repeat=n) if WEIGHTS[list(x)].sum() == 2 * n]


def log_g(x, answers, joint=True):
    """As the textbook has it."""
    keep = math.exp(EPSILON) / (math.exp(EPSILON) + 3.0)
    value = sum(
        math.log(keep if a == b else (1 - keep) / 3) for a, b in zip(x, answers, strict=True)
    )
    if joint:
        value -= math.dist(COUNTS, np.bincount(x, minlength=4)) / SCALE
    return value


# ------------------------------------------------------------------ the matrix of one decision

ANSWERS = (1, 3, 0)
CLASSES = {0: [0], 1: [1, 3], 2: [2]}
"""The values that the sum does not tell apart, by the number of their class."""


def ways(x, order, out, into):
    """Return (probability, uniforms, proposed database) of what an element can make of a block."""
    class_of = {v: k for k, values in CLASSES.items() for v in values}
    now = [class_of[x[i]] for i in order]
    goal = into if now == out else out if now == into else None
    if goal is None:
        return [(1.0, [], x)]
    made = []
    for drawn in itertools.product(*(CLASSES[k] for k in goal)):
        chance, uniforms, new = 1.0, {}, list(x)
        for i, k, v in zip(order, goal, drawn, strict=True):
            shares = THETA[CLASSES[k]] / THETA[CLASSES[k]].sum()
            at = CLASSES[k].index(v)
            chance *= shares[at]
            uniforms.setdefault(k, []).append(shares[:at].sum() + 0.5 * shares[at])
            new[i] = v
        made.append((chance, [uniforms[k] for k in sorted(uniforms)], tuple(new)))
    return made


def matrix_of(target, order, element):
    """Return the matrix of one block, by an element or, if that is None, by a swap."""
    states, theta = databases(len(ANSWERS)), {"probabilities": THETA}
    number = {x: a for a, x in enumerate(states)}
    matrix = np.zeros((len(states),) * 2)
    order = np.array(order)
    for a, x in enumerate(states):
        swapped = list(x)
        swapped[order[0]], swapped[order[1]] = x[order[1]], x[order[0]]
        options = [(1.0, [], tuple(swapped))] if element is None else ways(x, order, *element)
        for chance, uniforms, wanted in options:

            def accepts(exponential, x=x, uniforms=uniforms, wanted=wanted):
                rng = Scripted(random=uniforms, standard_exponential=[[exponential]])
                state = ChainState(theta, np.array(x), None, rng)
                if element is None:
                    proposed, correction = state.records[order[::-1]], np.zeros(0)
                else:
                    proposed, correction = exchange.propose(target, state, order, *element)
                exchange.decide(target, state, order, proposed, correction, 2)
                assert rng.spent
                assert tuple(state.records) in (x, wanted)
                return tuple(state.records) == wanted

            accept = threshold(accepts)
            matrix[a, number[wanted]] += chance * accept
            matrix[a, a] += chance * (1.0 - accept)
    return matrix


def check_matrices():
    """Elements and swaps leave pi as it is; with new values within a class they lead everywhere."""
    target = Target(Categorical(4), release(ANSWERS))
    rows, states = target.exact_rows, databases(len(ANSWERS))
    assert {k: np.flatnonzero(rows.classes == k).tolist() for k in range(3)} == CLASSES
    (element,) = rows.elements
    assert sorted(map(sorted, element)) == [[0, 2], [1, 1]]
    logs = np.array([np.log(THETA[list(x)]).sum() + log_g(x, ANSWERS) for x in states])
    pi = np.exp(logs - logs.max())
    pi /= pi.sum()
    reached = np.zeros((len(states),) * 2)
    for order, kind in itertools.product([(0, 1), (2, 1)], [element, None]):
        matrix = matrix_of(target, order, kind)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(pi @ matrix, pi, rtol=0, atol=TOLERANCE)
        reached += matrix
    for (a, x), (b, y) in itertools.permutations(enumerate(states), 2):
        reached[a, b] += rows.classes[list(x)].tolist() == rows.classes[list(y)].tolist()
    assert connected_components(reached > 0, connection="strong")[0] == 1


def test_elements_and_swaps_leave_the_posterior_invariant():
    check_matrices()


BUGS = {
    "no probabilities of classes": ("propose", "np.log(mass[k]) - np.log(", "0.0 * np.log("),
    "those of the classes that are left": ("propose", "np.log(mass[k]) - np.log", "np.log"),
    "one way only": ("propose", "((out, into), (into, out))", "((out, into),)"),
    "values of a class alike": ("propose", "np.cumsum(weights[inside])", "np.cumsum(weights[:2])"),
    "statistics in another order": ("decide", "target.statistic(new, 0)[order]",
                                    "target.statistic(new, 0)[order[::-1]] * 0.5"),
    "what is refused is kept": ("decide", "new[kept] = old[kept]", "pass"),
    "no ratio of g": ("decide", "statistic[order]", "target.statistic(new, 0)[order]"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    function, old, new = BUGS[bug]
    with planted(Edit(exchange, function, old, new)), pytest.raises(AssertionError):
        check_matrices()


# ------------------------------------------------------------------ whole runs


@pytest.mark.full
@pytest.mark.parametrize("joint", [True, False])
def test_the_default_sampler_against_all_databases(joint):
    """Means of theta with it integrated out, and what each record is; the sum in every draw."""
    answers = (1, 3, 0, 2)
    posterior = na.sample(
        Categorical(4, PRIOR), release(answers, joint), draws=2000, chains=2, keep_records=2000,
        random_seed=SEED, progressbar=False,
    )  # fmt: skip
    weight, theta, ones = 0.0, np.zeros(4), np.zeros(4)
    for x in databases(4):
        shape = PRIOR + np.bincount(x, minlength=4)
        own = math.exp(special.gammaln(shape).sum() + log_g(x, answers, joint))
        weight += own
        theta += own * shape / shape.sum()
        ones += own * (np.array(x) == 1)
    records = posterior["latent_records"]["records"].values
    assert (WEIGHTS[records].sum(axis=-1) == 8).all()
    drawn = np.concatenate(
        [posterior["posterior"]["probabilities"].values, (records == 1).astype(float)], axis=-1
    )
    for j, true in enumerate(np.append(theta, ones) / weight):
        x = drawn[..., j]
        error = x.std() / math.sqrt(array_stats.ess(x, method="mean"))
        assert abs(x.mean() - true) < 5.0 * error


def test_the_moves_of_records_alone_hold_the_sum():
    """As in `na.mle`, which has theta held."""
    target = Target(Categorical(4), release(ANSWERS))
    moves = moves_of_records(target)
    state = chain.start(target, moves, np.random.default_rng(SEED))
    begun = state.records.copy()
    state, _ = chain.advance(target, moves, chain.Schedule(5, 5), state, 10)
    assert WEIGHTS[state.records].sum() == WEIGHTS[begun].sum() == 6
    assert (state.records != begun).any()


BESIDE = Several([Exact(SUM), KNorm(Histogram(n_levels=4), scale=1.0)])
ONES = Several([Exact(Count(1)), KNorm(Count(1), scale=1.0)])
REFUSED = {
    "moves without": (
        {"moves": na.moves.algorithm1()}, "moves must hold noiseaware.moves.ExchangeMove"
    ),
    "values that are not listed": (
        {"model": na.models.Poisson(), "release": na.Release([1.0, 1.2], ONES, 3)},
        "lists its record_values",
    ),
    "nothing exact": (
        {"release": na.Release([1.0], KNorm(Count(1), scale=1.0), 3),
         "moves": (*na.moves.algorithm1(), na.moves.ExchangeMove())},
        "needs a release with exact numbers",
    ),
    "an unknown number": (
        {"release": na.Release([6.0, *COUNTS], BESIDE, None),
         "size": na.sizes.Uniform(2, 6)},
        "known number of records",
    ),
    "a sum that cannot be": (
        {"release": na.Release([13.0, *COUNTS], BESIDE, 4)},
        "the exact numbers must be those of a table",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(case):
    changes, words = REFUSED[case]
    arguments = {"model": Categorical(4), "release": release(ANSWERS)} | changes
    with pytest.raises(ValueError, match=words) as caught:
        na.sample(**arguments, draws=5, warmup=5, chains=1, progressbar=False)
    assert "\n" not in str(caught.value)


def test_counts_are_still_used_where_the_noise_is_added_to_totals():
    counted = Several([Exact(SUM), Laplace(Histogram(n_levels=4), scale=1.0)])
    posterior = na.sample(
        Categorical(4), na.Release([8.0, *COUNTS], counted, 4), draws=20, warmup=20, chains=1,
        random_seed=SEED, progressbar=False,
    )  # fmt: skip
    assert "count_moves" in posterior["sample_stats"]
