"""The sensitivity of every query against a search for the worst records.

The search knows nothing of the proofs in `docs/sensitivity.md`: it only calls `statistic`.
Where there are finitely many records it is an enumeration; elsewhere it is hill climbing from
many starts. A sensitivity that is too small is exceeded, one that is too large is not reached.
"""

import itertools

import numpy as np
import pytest

from noiseaware import queries

NORMS = (1, 2, np.inf)
NEIGHBOURS = ("change", "add-remove")


def moves(query, records, others, norm, neighbours):
    """How far each record moves the total, when it replaces another one or comes new."""
    difference = query.statistic(records)
    if neighbours == "change":
        difference = difference - query.statistic(others)
    return np.linalg.norm(difference, ord=norm, axis=1)


def largest_by_enumeration(query, records, norm, neighbours):
    """The largest move among all pairs of `records`."""
    first, second = np.indices((len(records), len(records))).reshape(2, -1)
    return moves(query, records[first], records[second], norm, neighbours).max()


def largest_by_climbing(query, lower, upper, norm, neighbours, seed):
    """The largest move that hill climbing finds among records around the box [lower, upper]."""
    rng = np.random.default_rng(seed)
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    # Half of the starts are inside the box, half are corners of it.
    unit = rng.random((2, 192, *lower.shape))
    unit[:, ::2] = np.round(unit[:, ::2])
    best = moves(query, *(lower + (upper - lower) * unit), norm, neighbours)
    for step in np.geomspace(1.0, 1e-5, 400):
        trial = unit + step * rng.standard_normal(unit.shape) * (rng.random(unit.shape) < 0.5)
        np.clip(trial, -0.01, 1.01, out=trial)  # a little outside, where the query clamps
        value = moves(query, *(lower + (upper - lower) * trial), norm, neighbours)
        better = value > best
        unit[:, better], best[better] = trial[:, better], value[better]
    return best.max()


def assert_tight(found, claimed):
    assert found <= claimed * (1 + 1e-12), "the claimed sensitivity is exceeded: not private"
    assert found >= claimed * (1 - 1e-6), "the claimed sensitivity is not attained: too noisy"


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_regression_moments(p, norm, neighbours):
    lower = np.array([-3.0, 0.0, 10.0, -1.0, -7.0])[: p + 1]
    upper = np.array([1.0, 0.5, 14.0, 5.0, -2.0])[: p + 1]
    query = queries.RegressionMoments(p, lower, upper)
    found = largest_by_climbing(query, lower, upper, norm, neighbours, seed=p)
    assert_tight(found, query.sensitivity(norm, neighbours))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_moments(q, norm, neighbours):
    lower, upper = np.array([-3.0, 0.0, 10.0])[:q], np.array([1.0, 0.5, 14.0])[:q]
    query = queries.Moments(q, lower, upper)
    found = largest_by_climbing(query, lower, upper, norm, neighbours, seed=q)
    assert_tight(found, query.sensitivity(norm, neighbours))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_shares(k, squares, norm, neighbours):
    query = queries.Shares(k, squares=squares)
    rng = np.random.default_rng(k)
    drawn = np.concatenate([rng.dirichlet(np.full(k, a), 60) for a in (0.05, 0.3, 1.0)])
    found = largest_by_enumeration(query, np.vstack([drawn, np.eye(k)]), norm, neighbours)
    assert_tight(found, query.sensitivity(norm, neighbours))


@pytest.mark.parametrize("q", range(2, 9))
def test_moments_move_as_far_as_those_of_a_regression(q):
    moments, regression = queries.Moments(q, 0, 1), queries.RegressionMoments(q - 1, 0, 1)
    for norm, neighbours in itertools.product(NORMS, NEIGHBOURS):
        assert moments.sensitivity(norm, neighbours) == regression.sensitivity(norm, neighbours)


@pytest.mark.parametrize("p", range(1, 13))
def test_regression_moments_at_the_records_that_the_proofs_name(p):
    q = p + 1
    query = queries.RegressionMoments(p, lower=-1, upper=1)
    ones = np.ones((1, q))
    worst_for_l1 = np.full((1, q), -1 / (q + 1))
    worst_for_l2 = np.ones((1, q))
    worst_for_l2[0, : (q + 1) // 2] = -1
    found = moves(query, ones, worst_for_l1, 1, "change")[0]
    assert found == pytest.approx(query.sensitivity(1), rel=1e-14)
    found = moves(query, ones, worst_for_l2, 2, "change")[0]
    assert found == pytest.approx(query.sensitivity(2), rel=1e-14)


@pytest.mark.parametrize("p", range(1, 13))
def test_no_pair_of_regression_records_passes_the_bound(p):
    query = queries.RegressionMoments(p, lower=-1, upper=1)
    rng = np.random.default_rng(p)
    corners = rng.integers(-1, 2, (2, 2000, p + 1))  # -1, 0 and 1
    inside = rng.uniform(-1.2, 1.2, (2, 2000, p + 1))
    for norm, neighbours in itertools.product(NORMS, NEIGHBOURS):
        bound = query.sensitivity(norm, neighbours) * (1 + 1e-12)
        assert moves(query, *corners, norm, neighbours).max() <= bound
        assert moves(query, *inside, norm, neighbours).max() <= bound


def test_regression_moments_in_numbers():
    query = queries.RegressionMoments(2, lower=-10, upper=10)
    assert query.sensitivity() == query.sensitivity(1) == 9.375
    assert query.sensitivity(2) == 4.0
    assert query.sensitivity(1, "add-remove") == 9.0
    assert query.sensitivity(2, neighbours="add-remove") == 3.0


@pytest.mark.parametrize("p", range(1, 30))
def test_regression_moments_are_below_the_paper(p):
    q = p + 1
    sensitivity = queries.RegressionMoments(p, lower=0, upper=1).sensitivity(1)
    assert sensitivity == pytest.approx(q * (q + 3) / 2 + q / (2 * (q + 1)), rel=1e-14)
    assert sensitivity < p**2 + 3 * p + 3


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n_levels", [[2], [2, 3], [3, 2, 2]])
def test_class_feature_counts(n_levels, norm, neighbours):
    query = queries.ClassFeatureCounts(3, n_levels)
    records = np.array(list(itertools.product(range(3), *map(range, n_levels))))
    found = largest_by_enumeration(query, records, norm, neighbours)
    assert_tight(found, query.sensitivity(norm, neighbours))


LINEAR = {
    "signs": np.random.default_rng(1).normal(size=(4, 9)),
    "counts": np.random.default_rng(2).integers(0, 3, (5, 12)),
    "a constant row": np.vstack([np.full(7, 3.0), np.random.default_rng(3).normal(size=(2, 7))]),
    "one column": np.array([[2.0], [-1.0]]),
    "equal columns": np.full((2, 4), 1.5),
    "hierarchy": queries.Linear.sums(["c"] * 5, list("aabbb"), range(5)).matrix,
}


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", LINEAR)
def test_linear(name, norm, neighbours):
    query = queries.Linear(LINEAR[name])
    records = np.arange(query.n_cells)
    found = largest_by_enumeration(query, records, norm, neighbours)
    assert_tight(found, query.sensitivity(norm, neighbours))
    weights = np.linspace(0.5, 2.0, len(query.names))
    other = query.weighted(weights)
    np.testing.assert_allclose(other.statistic(records), query.statistic(records) * weights)
    found = largest_by_enumeration(other, records, norm, neighbours)
    assert_tight(found, other.sensitivity(norm, neighbours))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("margins", [[[0]], [[0], [1], [2]], [[0, 1], [1, 2], [0, 1, 2]]])
def test_margins(margins, norm, neighbours):
    query = queries.Margins([2, 3, 2], margins)
    records = np.array(list(itertools.product(range(2), range(3), range(2))))
    found = largest_by_enumeration(query, records, norm, neighbours)
    assert_tight(found, query.sensitivity(norm, neighbours))


def test_class_feature_counts_in_numbers():
    query = queries.ClassFeatureCounts(n_classes=5, n_levels=3, n_features=5)
    assert query.sensitivity() == 10.0
    assert query.sensitivity(2) == np.sqrt(10)
    assert query.sensitivity(1, "add-remove") == 5.0


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("query", "records"),
    [
        (queries.Count(value=2), np.arange(4)),
        (queries.Count(predicate=lambda records: records > 1), np.arange(4)),
        (queries.Histogram(n_levels=2), np.arange(2)),
        (queries.Histogram(n_levels=4), np.arange(4)),
        (queries.Histogram(edges=[0, 1]), np.linspace(-1, 2, 13)),
        (queries.Histogram(edges=[0, 1, 1.5]), np.linspace(-1, 2, 13)),
        (queries.Histogram(edges=[-np.inf, 1, np.inf]), np.linspace(-1, 2, 13)),
        (queries.Sum(-1, 4, integer_valued=True), np.arange(-3, 8)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_queries_of_few_records(query, records, norm, neighbours):
    found = largest_by_enumeration(query, records, norm, neighbours)
    assert_tight(found, query.sensitivity(norm, neighbours))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(-1.0, 4.0), (2.0, 3.0), (-5.0, -2.0), ([0.0, -3.0], [1.0, 2.0]), ([1.0, -4.0, 0.0], 5.0)],
)
def test_sum(lower, upper, norm, neighbours):
    query = queries.Sum(lower, upper)
    lower, upper = np.broadcast_arrays(lower, upper)
    found = largest_by_climbing(query, lower, upper, norm, neighbours, seed=1)
    assert_tight(found, query.sensitivity(norm, neighbours))


def test_the_search_tells_a_wrong_sensitivity_from_the_right_one():
    """A planted bug: one entry of the statistic forgotten, or one counted twice."""
    query = queries.RegressionMoments(2, lower=-10, upper=10)
    found = largest_by_climbing(query, [-10] * 3, [10] * 3, 1, "change", seed=0)
    assert_tight(found, 9.375)
    with pytest.raises(AssertionError, match="not private"):
        assert_tight(found, 9.375 - 1e-3)
    with pytest.raises(AssertionError, match="too noisy"):
        assert_tight(found, 9.375 + 1e-3)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("inner", "rest"),
    [
        (queries.Count(value=3), np.arange(5)),
        (queries.Histogram(n_levels=3), np.arange(3)),
        (queries.Sum(-1, 4, integer_valued=True), np.arange(-3, 8)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_queries_of_groups(inner, rest, norm, neighbours):
    """The group of a record is fixed: a change is one of two records of the same group."""
    groups, rests = (a.ravel() for a in np.meshgrid(np.arange(3), rest, indexing="ij"))
    records = np.column_stack([groups, rests])
    for query in (queries.ByGroup(inner, 3), queries.InGroup(inner, 1)):
        found = max(
            largest_by_enumeration(query, records[groups == g], norm, neighbours) for g in range(3)
        )
        assert_tight(found, query.sensitivity(norm, neighbours))
