"""Several releases about the same records, of every kind: enumerated, and with planted bugs.

The problems are those of the single mechanisms, put side by side: totals one after another, log
densities added up in plain Python. A sampler's step must leave the enumerated posterior alone.
"""

import dataclasses
import itertools

import numpy as np
import pytest

import noiseaware as na
from exact.enumeration import check_algorithm1, check_sweep
from exact.test_joint_mechanisms import (
    exponential_problem,
    k_norm_problem,
    logistic_problem,
    mean_problem,
    of_levels,
    of_pairs,
    quantile_problem,
)
from exact.test_local import response
from mutants.planting import Edit, planted, same
from noiseaware.mechanisms import (
    Clamped,
    Functional,
    Gaussian,
    KNorm,
    Laplace,
    LocalLaplace,
    LogisticLoss,
    Several,
    joint,
)
from noiseaware.sampler import target as target_module

LEVELS = na.queries.Histogram(n_levels=3)


def ones(x):
    return tuple(float(x == level) for level in range(3))


def laplace():
    values = [1.2, 0.3, 2.1]
    return of_levels(
        Laplace(LEVELS, scale=1.5),
        values,
        ones,
        lambda total: -float(np.abs(np.subtract(values, total)).sum()) / 1.5,
    )


def clamped():
    """A negative number became 0: the probability of that, and a Laplace density."""
    sums, b = na.queries.Sum(0.0, 2.0), 1.5

    def log_g(total):
        return float(np.log(0.5 * np.exp(-total[0] / b)))  # P(T + e <= 0), T >= 0

    return of_levels(Clamped(Laplace(sums, scale=b), 0.0), [0.0], lambda x: (float(x),), log_g)


def together(*problems, nested=False):
    """Return the problem of all releases about the same records."""
    mechanisms = [problem.release.mechanism for problem in problems]
    values = np.concatenate([problem.release.values for problem in problems])
    mechanism = Several(mechanisms)
    if nested:
        mechanism = Several([Several(mechanisms[:2]), *mechanisms[2:]])
    lengths = [len(problem.t(0, problem.values[0])) for problem in problems]
    ends = np.cumsum(lengths)[:-1]

    def t(i, record):
        return tuple(itertools.chain(*(problem.t(i, record) for problem in problems)))

    def log_g(total):
        parts = np.split(np.array(total), ends)
        return sum(
            problem.log_g(part.tolist()) for problem, part in zip(problems, parts, strict=True)
        )

    release = na.Release(values, mechanism, problems[0].n)
    return dataclasses.replace(problems[0], release=release, t=t, log_g=log_g)


def pairs_laplace():
    values = [1.1, 0.4]
    return of_pairs(
        Gaussian(PAIRS, scale=1.2),
        values,
        2,
        lambda record: (float(record[0]), float(record[1])),
        lambda total: -0.5 * float((np.subtract(values, total) ** 2).sum()) / 1.2**2,
    )


PAIRS = na.queries.Sum([0.0, 0.0], [1.0, 1.0])

CASES = {
    "additive and K-norm": lambda: together(laplace(), k_norm_problem(2)),
    "clamped, exponential and additive": lambda: together(
        clamped(), exponential_problem(), laplace()
    ),
    "gradient on a grid, at a point": lambda: together(quantile_problem(), mean_problem()),
    "objective perturbation and additive": lambda: together(logistic_problem(), pairs_laplace()),
    "local and additive": lambda: together(response(), laplace()),
    "local and K-norm": lambda: together(response(), k_norm_problem(1)),
    "nested": lambda: together(k_norm_problem(2), laplace(), exponential_problem(), nested=True),
}


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_of_all_databases(name):
    problem = CASES[name]()
    check_algorithm1(problem)
    if problem.values.ndim == 1:  # a sweep is scripted for records of one entry
        check_sweep(problem)


@pytest.mark.parametrize("name", CASES)
def test_the_plain_density_is_that_of_the_problem(name):
    problem = CASES[name]()
    mechanism, values = problem.release.mechanism, problem.release.values
    totals = [problem.total(database) for database in problem.databases[:5]]
    plain = [mechanism.log_density(values, total) for total in totals]
    exact = [problem.log_g(total) for total in totals]
    assert np.diff(plain) == pytest.approx(np.diff(exact), abs=1e-10)


class Own:
    """A user's mechanism with only a log density in Python."""

    def __init__(self, query):
        self.query = query

    def log_density(self, values, total):
        return -(abs(values[0] - total[0]) ** 1.5)


def test_one_of_yours():
    own = of_levels(
        Own(na.queries.Sum(0.0, 2.0)),
        [2.5],
        lambda x: (float(x),),
        lambda total: -(abs(2.5 - total[0]) ** 1.5),
    )
    problem = together(own, k_norm_problem(2))
    check_algorithm1(problem)
    assert problem.release.mechanism.guarantee.kind == "unknown"


BUGS = {
    "a part is left out": Edit(
        joint, "log_several", "range(int(parameters[0]))", "range(int(parameters[0]) - 1)"
    ),
    "the parts begin one too late": Edit(
        joint, "log_several", "total[int(p[at + 1]) :", "total[int(p[at + 1]) + 1 :"
    ),
    "the coordinates' numbers are those of the first": Edit(
        joint, "log_coordinates", "at = d + 4 * j", "at = d"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_seen(bug):
    callers = [
        edit
        for edit in (
            same(joint, "log_part"),
            same(joint, "log_several"),
            same(joint, "log_joint"),
            same(target_module, "log_density"),
        )
        if edit.function != BUGS[bug].function
    ]
    with planted(BUGS[bug], *callers):
        target_module.log_joint, kept = joint.log_joint, target_module.log_joint
        try:
            problem = CASES["clamped, exponential and additive"]()
            numbers = problem.release.mechanism.joint(problem.release.values)
            totals = [problem.total(database) for database in problem.databases]
            made = [float(joint.log_joint(*numbers, np.array(total))) for total in totals]
            exact = [problem.log_g(total) for total in totals]
            assert not np.allclose(np.diff(made), np.diff(exact), atol=1e-9)
        finally:
            target_module.log_joint = kept


def test_the_guarantees_are_composed():
    loss = LogisticLoss(1, -1.0, 1.0)
    both = Several(
        [
            na.mechanisms.ObjectivePerturbation(loss, ridge=20.0, epsilon=1.0),
            Several([Laplace(LEVELS, epsilon=0.5), KNorm(LEVELS, epsilon=0.25)]),
            LocalLaplace(na.queries.Value(), scale=1.0),
        ]
    )
    assert both.guarantee.kind == "unknown"  # of Value nothing is bounded
    known = Several(both.mechanisms[:2])
    assert known.guarantee.kind == "pure"
    assert known.guarantee.epsilon == pytest.approx(1.75)


def test_files_and_bad_numbers():
    mechanism = Several([KNorm(LEVELS, scale=2.0), LocalLaplace(na.queries.Value(), scale=1.0)])
    release = na.Release([1.0, 2.0, 0.0, 0.1, 0.9], mechanism, 2)
    again = na.Release.from_dict(release.to_dict())
    assert again.values.tolist() == release.values.tolist()
    assert again.mechanism.to_dict() == mechanism.to_dict()
    with pytest.raises(
        ValueError, match="values must be 6, those of all parts about n_records = 3"
    ):
        na.Release([1.0, 2.0, 0.0, 0.1, 0.9], mechanism, 3)
    with pytest.raises(ValueError, match="n_records must be known where a part has a value for"):
        na.Release([1.0, 2.0, 0.0, 0.1, 0.9], mechanism, None)
    with pytest.raises(ValueError, match="values must be 3 numbers and 1 for each record"):
        na.Release([1.0, 2.0], mechanism, 3)


def test_a_functional_part():
    functional = Functional.example()
    rng = np.random.default_rng(1)
    records = rng.uniform(0.0, 1.0, size=(30, functional.query.n_features + 1))
    sums = na.queries.Sum([0.0] * records.shape[1], [1.0] * records.shape[1])
    mechanism = Several([functional, Laplace(sums, scale=2.0)])
    release = mechanism.privatize(records, rng)
    assert np.isfinite(mechanism.log_density(release.values, _total(mechanism, records, release)))


def _total(mechanism, records, release):
    rows = (
        mechanism.query.statistic(records)
        if mechanism.statistic is None
        else mechanism.statistic(records, np.arange(len(records)), release.values)
    )
    return rows.sum(axis=0)


def test_privatize_and_sample():
    """All kinds at once, through the default sampler."""
    rng = np.random.default_rng(2)
    mechanism = Several(
        [
            Laplace(na.queries.Count(), epsilon=1.0),
            KNorm(na.queries.Histogram(n_levels=2), scale=3.0),
            LocalLaplace(na.queries.Value(), scale=2.0),
        ]
    )
    release = mechanism.privatize(rng.integers(0, 2, 20), rng)
    posterior = na.sample(
        na.models.Bernoulli(),
        release,
        draws=200,
        warmup=200,
        chains=2,
        random_seed=1,
        progressbar=False,
    )
    assert np.isfinite(posterior["posterior"]["probability"].values).all()
