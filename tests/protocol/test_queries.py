"""Every query through one contract: shapes, names, checks, files, and compiled code.

The statistics are compared with formulas in plain NumPy that share no code with the package.
"""

import json
import pickle

import numpy as np
import pytest

from noiseaware import contract, queries
from noiseaware.contract import query_abilities
from noiseaware.queries.counts import bin_cells, count_statistic, level_cells
from noiseaware.queries.moments import BLOCK, clamped_moments, clamped_totals
from noiseaware.queries.tables import class_feature_cells, margin_cells
from noiseaware.registry import QUERIES

RNG = np.random.default_rng(20220600710)
N = 40
FLOATS = RNG.normal(size=N) * 3
LEVELS = RNG.integers(0, 4, N)
CLASSES = np.column_stack([RNG.integers(0, levels, N) for levels in (3, 2, 4)])
PARTS = RNG.dirichlet([1.0, 2.0, 0.5], N)
REGRESSION = RNG.normal(size=(N, 4)) * 6


def moments_by_formula(records, lower, upper):
    """Section 5 of the paper, as it is written there: clamp, scale, take the products."""
    scaled = 2 * (np.clip(records, lower, upper) - lower) / (np.subtract(upper, lower)) - 1
    y = scaled[:, -1]
    x = np.column_stack([np.ones(len(y)), scaled[:, :-1]])
    upper_triangle = [
        x[:, j] * x[:, k] for j in range(x.shape[1]) for k in range(j, x.shape[1]) if k > 0
    ]
    return np.column_stack([x * y[:, None], y**2, *upper_triangle])


def products_by_formula(records, lower, upper):
    """Every entry, then every product of two, of the clamped and scaled records."""
    scaled = 2 * (np.clip(records, lower, upper) - lower) / (np.subtract(upper, lower)) - 1
    width = records.shape[1]
    products = [scaled[:, j] * scaled[:, k] for j in range(width) for k in range(j, width)]
    return np.column_stack([scaled, *products])


def tables_by_formula(records, n_classes, n_levels):
    rows = np.zeros((len(records), n_classes * sum(n_levels)))
    for row, (label, *levels) in zip(rows, records, strict=True):
        for k, level in enumerate(levels):
            row[label * sum(n_levels) + sum(n_levels[:k]) + level] = 1
    return rows


def margins_by_formula(records, n_levels, margins):
    columns = []
    for margin in margins:
        for cell in np.ndindex(*(n_levels[k] for k in margin)):
            columns.append((records[:, list(margin)] == cell).all(axis=1))
    return np.column_stack(columns)


def bins_by_formula(records, edges):
    return np.array([np.histogram(record, edges)[0] for record in records])


def by_group_by_formula(groups, rows, n_groups):
    """One block of columns a group, by an outer product with the group's indicator."""
    return np.einsum("ig,id->igd", np.eye(n_groups)[groups], rows).reshape(len(rows), -1)


def squares(records):
    return np.column_stack([records, records**2])


LOWER, UPPER = [-10, -5, 0, -3], [10, 5, 8, 4]
EDGES = [-2.0, 0.0, 0.5, 3.0]
CASES = {
    "regression moments": (
        queries.RegressionMoments(3, LOWER, UPPER),
        REGRESSION,
        moments_by_formula(REGRESSION, LOWER, UPPER),
    ),
    "moments": (
        queries.Moments(4, LOWER, UPPER),
        REGRESSION,
        products_by_formula(REGRESSION, LOWER, UPPER),
    ),
    "shares": (queries.Shares(3), PARTS, PARTS * 1.0),
    "shares and squares": (
        queries.Shares(3, squares=True),
        PARTS,
        np.column_stack([PARTS, PARTS**2]),
    ),
    "moments of one column": (
        queries.Moments(1, -2.0, 3.0),
        FLOATS[:, None],
        products_by_formula(FLOATS[:, None], [-2.0], [3.0]),
    ),
    "moments of plain numbers": (
        queries.Moments(1, -2.0, 3.0),
        FLOATS,
        products_by_formula(FLOATS[:, None], [-2.0], [3.0]),
    ),
    "class-feature counts": (
        queries.ClassFeatureCounts(3, [2, 4]),
        CLASSES,
        tables_by_formula(CLASSES, 3, [2, 4]),
    ),
    "margins": (
        queries.Margins([3, 2, 4], [[1], [2, 0], ["a", "b", "c"]], ["a", "b", "c"]),
        CLASSES,
        margins_by_formula(CLASSES, [3, 2, 4], [[1], [2, 0], [0, 1, 2]]),
    ),
    "count": (queries.Count(value=2), LEVELS, np.equal(LEVELS, 2)[:, None]),
    "count by predicate": (
        queries.Count(predicate=lambda records: records[:, 0] > 1, name="over 1"),
        REGRESSION,
        (REGRESSION[:, 0] > 1)[:, None],
    ),
    "sum": (queries.Sum(-1, 2.5), FLOATS, np.clip(FLOATS, -1, 2.5)[:, None]),
    "sum of integers": (
        queries.Sum(1, 3, integer_valued=True),
        LEVELS,
        np.clip(LEVELS, 1, 3)[:, None],
    ),
    "sum of vectors": (
        queries.Sum(LOWER, UPPER),
        REGRESSION,
        np.clip(REGRESSION, LOWER, UPPER),
    ),
    "histogram of bins": (
        queries.Histogram(edges=EDGES),
        FLOATS,
        bins_by_formula(FLOATS, EDGES),
    ),
    "histogram of levels": (queries.Histogram(n_levels=4), LEVELS, np.eye(4)[LEVELS]),
    "count by group": (
        queries.ByGroup(queries.Count(value=2), 3, ["a", "b", "c"]),
        CLASSES[:, [0, 2]],
        by_group_by_formula(CLASSES[:, 0], np.equal(CLASSES[:, 2], 2)[:, None], 3),
    ),
    "histogram by group": (
        queries.ByGroup(queries.Histogram(edges=EDGES), 3),
        np.column_stack([CLASSES[:, 0], FLOATS]),
        by_group_by_formula(CLASSES[:, 0], bins_by_formula(FLOATS, EDGES), 3),
    ),
    "sums by group": (
        queries.ByGroup(queries.Sum([-1, 0], [1, 2]), 3),
        np.column_stack([CLASSES[:, 0], REGRESSION[:, :2]]),
        by_group_by_formula(CLASSES[:, 0], np.clip(REGRESSION[:, :2], [-1, 0], [1, 2]), 3),
    ),
    "sum in a group": (
        queries.InGroup(queries.Sum(-1, 2.5), 2),
        np.column_stack([CLASSES[:, 0], FLOATS]),
        np.where(CLASSES[:, 0] == 2, np.clip(FLOATS, -1, 2.5), 0.0)[:, None],
    ),
    "levels in a group": (
        queries.InGroup(queries.Histogram(n_levels=4), 0),
        CLASSES[:, [0, 2]],
        np.where(CLASSES[:, :1] == 0, np.eye(4)[CLASSES[:, 2]], 0.0),
    ),
    "linear": (
        queries.Linear([[1, 0, 2.5, 0], [0, -1, 0, 3]], ["a", "b"]),
        LEVELS,
        np.array([[1, 0], [0, -1], [2.5, 0], [0, 3]])[LEVELS],
    ),
    "linear counts of columns": (
        queries.Linear(np.arange(72).reshape(3, 24) % 7 % 2, n_levels=[3, 2, 4]),
        CLASSES,
        (np.arange(72).reshape(3, 24) % 7 % 2).T[CLASSES @ [8, 4, 1]],
    ),
    "hierarchy": (
        queries.Linear.sums(["all"] * 4, ["a", "a", None, "b"], range(4)),
        LEVELS,
        np.column_stack(
            [np.ones(N), np.eye(4)[LEVELS] @ [[1, 0], [1, 0], [0, 0], [0, 1]], np.eye(4)[LEVELS]]
        ),
    ),
    "sum in a column": (
        queries.InColumn(queries.Sum(-1, 2.5), 1),
        np.column_stack([CLASSES[:, 0], FLOATS]),
        np.clip(FLOATS, -1, 2.5)[:, None],
    ),
    "levels in a column": (
        queries.InColumn(queries.Histogram(n_levels=4, labels=list("abcd")), 1),
        CLASSES[:, [0, 2]],
        np.eye(4)[CLASSES[:, 2]],
    ),
    "function": (
        queries.Query(squares, ["x", "x^2"], {1: 3.0, 2: 2.0}),
        FLOATS,
        np.stack([FLOATS, FLOATS * FLOATS], axis=1),
    ),
}
every_query = pytest.mark.parametrize(("query", "records", "expected"), CASES.values(), ids=CASES)


@every_query
def test_statistic_is_the_formula(query, records, expected):
    statistic = query.statistic(records)
    assert statistic.shape == (len(records), len(query.names))
    assert statistic.dtype == np.float64
    assert statistic.flags.c_contiguous
    np.testing.assert_allclose(statistic, expected, rtol=1e-13, atol=1e-13)


@every_query
def test_statistic_takes_any_layout_and_leaves_the_records_alone(query, records, expected):
    before = records.copy()
    statistic = query.statistic(records)
    np.testing.assert_array_equal(query.statistic(np.asfortranarray(records)), statistic)
    np.testing.assert_array_equal(query.statistic(records[::2]), statistic[::2])
    np.testing.assert_array_equal(query.statistic(records[:0]), statistic[:0])
    np.testing.assert_array_equal(records, before)
    assert not np.shares_memory(statistic, records)


@pytest.mark.parametrize(
    "case",
    [
        *("class-feature counts", "margins", "count", "count by predicate"),
        *("histogram of bins", "histogram of levels", "linear counts of columns", "hierarchy"),
        *("count by group", "histogram by group", "levels in a group"),
    ],
)
def test_cells_are_the_places_of_the_ones(case):
    query, records, expected = CASES[case]
    cells = query.cells(records)
    assert cells.dtype == np.int64
    assert cells.shape[0] == len(records)
    assert not np.shares_memory(cells, records)
    rows = np.zeros((len(records), len(query.names)))
    for row, row_cells in zip(rows, cells, strict=True):
        for cell in row_cells:
            assert -1 <= cell < len(query.names)
            if cell >= 0:
                row[cell] += 1
    np.testing.assert_array_equal(rows, expected)
    assert query.cells(records[:0]).shape == (0, cells.shape[1])


@every_query
def test_names_and_integers(query, records, expected):
    assert isinstance(query.names, tuple)
    assert all(isinstance(name, str) and name for name in query.names)
    assert len(set(query.names)) == len(query.names)
    if query.integer_valued:
        np.testing.assert_array_equal(query.statistic(records) % 1, 0)


@every_query
def test_records_of_the_query_pass_its_check(query, records, expected):
    assert query.check_records(records) is None
    assert query.check_records(records[:0]) is None


@every_query
def test_fields_cannot_be_changed(query, records, expected):
    for name in vars(query):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(query, name, None)


@every_query
def test_file_form_gives_the_query_back(query, records, expected):
    if isinstance(query, queries.Query) or getattr(query, "predicate", None) is not None:
        with pytest.raises(ValueError, match="cannot be written to a file"):
            query.to_dict()
        return
    text = json.dumps(query.to_dict(), allow_nan=False)
    again = queries.from_dict(json.loads(text))
    assert again == query
    assert hash(again) == hash(query)
    assert again.names == query.names
    np.testing.assert_array_equal(again.statistic(records), query.statistic(records))


@every_query
def test_sensitivity_refuses_what_it_does_not_know(query, records, expected):
    assert isinstance(query.sensitivity(), float)
    assert query.sensitivity() == query.sensitivity(1) == query.sensitivity(norm=1.0)
    assert query.sensitivity(2) <= query.sensitivity(1)
    with pytest.raises(ValueError, match="norm must be 1, 2 or inf; got 3"):
        query.sensitivity(3)
    with pytest.raises(ValueError, match='neighbours must be "change" or "add-remove"; got'):
        query.sensitivity(1, "remove")


@pytest.mark.parametrize(
    "case", ["regression moments", "class-feature counts", "sum", "function", "hierarchy"]
)
def test_queries_go_to_worker_processes(case):
    query, records, _ = CASES[case]
    again = pickle.loads(pickle.dumps(query))
    np.testing.assert_array_equal(again.statistic(records), query.statistic(records))


# Names


def test_names_read_well():
    assert queries.RegressionMoments(1, -1, 1).names == ("y", "x1*y", "y^2", "x1", "x1^2")
    assert queries.RegressionMoments(2, -1, 1).names == (
        *("y", "x1*y", "x2*y", "y^2"),
        *("x1", "x2", "x1^2", "x1*x2", "x2^2"),
    )
    assert queries.ClassFeatureCounts(2, [2, 3]).names == (
        *("class=0,feature1=0", "class=0,feature1=1"),
        *("class=0,feature2=0", "class=0,feature2=1", "class=0,feature2=2"),
        *("class=1,feature1=0", "class=1,feature1=1"),
        *("class=1,feature2=0", "class=1,feature2=1", "class=1,feature2=2"),
    )
    assert queries.Count().names == ("count of 1",)
    assert queries.Count(np.int64(3)).names == ("count of 3",)
    assert queries.Count(predicate=np.isnan).names == ("count of isnan",)
    assert queries.Sum(0, 1).names == ("sum",)
    assert queries.Moments(2, -1, 1).names == ("x1", "x2", "x1^2", "x1*x2", "x2^2")
    assert queries.Sum(0, [1, 2]).names == ("sum of x1", "sum of x2")
    assert queries.Histogram(n_levels=2).names == ("level=0", "level=1")
    assert queries.Histogram(edges=[-np.inf, 0.1, 1e6]).names == ("[-inf, 0.1)", "[0.1, 1e+06]")
    close = queries.Histogram(edges=[1, 1 + 1e-7, 1 + 2e-7]).names
    assert close == ("[1, 1.0000001)", "[1.0000001, 1.0000002]")


def test_names_of_moments_fit_their_formulas():
    """Each name, read as a formula of the clamped record, gives its own column."""
    query = queries.RegressionMoments(3, lower=-1, upper=1)
    records = RNG.uniform(-1, 1, (5, 4))
    values = {"x1": records[:, 0], "x2": records[:, 1], "x3": records[:, 2], "y": records[:, 3]}
    for name, column in zip(query.names, query.statistic(records).T, strict=True):
        np.testing.assert_allclose(eval(name.replace("^", "**"), {}, values), column)


def test_one_number_of_levels_for_all_features():
    query = queries.ClassFeatureCounts(5, 3, n_features=4)
    assert query == queries.ClassFeatureCounts(5, [3, 3, 3, 3])
    assert query.n_features == 4
    # With equal levels, the cells are an array (class, feature, level) in C order.
    records = np.array([[2, 0, 1, 2, 1]])
    table = query.statistic(records).reshape(5, 4, 3)
    assert table[2, [0, 1, 2, 3], [0, 1, 2, 1]].tolist() == [1, 1, 1, 1]
    assert table.sum() == 4


# Clamping, edges and ranges


def test_moments_stay_in_the_unit_box_however_large_the_records():
    bounds = ([1e-3, -1e9, 0.1], [1.1e-3, 1e9, 0.7])
    query = queries.RegressionMoments(2, *bounds)
    records = np.vstack([*bounds, *(RNG.normal(size=(500, 3)) * 10.0 ** RNG.integers(-9, 300))])
    assert np.abs(query.statistic(records)).max() == 1.0


def test_not_a_number_is_not_clamped_away():
    statistic = queries.RegressionMoments(1, -1, 1).statistic([[0.5, np.nan]])
    np.testing.assert_array_equal(np.isnan(statistic), [[True, True, True, False, False]])
    assert np.isnan(queries.Sum(-1, 1).statistic([np.nan])).all()


def test_histogram_edges_belong_to_the_bins_of_numpy():
    query = queries.Histogram(edges=EDGES)
    records = np.array([*EDGES, -2.1, 3.1, -np.inf, np.inf])
    assert query.cells(records).ravel().tolist() == [0, 1, 2, 2, -1, -1, -1, -1]
    assert query.cells([np.nan]).tolist() == [[-1]]
    everything = queries.Histogram(edges=[-np.inf, 0, np.inf])
    assert everything.cells([-np.inf, -1.0, 0.0, np.inf]).ravel().tolist() == [0, 0, 1, 1]
    assert queries.from_dict(json.loads(json.dumps(everything.to_dict()))) == everything


@pytest.mark.parametrize("bad", [-1, 3, 2**62, -(2**63), 2**63 - 1])
def test_values_out_of_range_never_become_cells(bad):
    query = queries.ClassFeatureCounts(3, [3, 3])
    for column in range(3):
        records = np.zeros((5, 3), dtype=np.int64)
        records[3, column] = bad
        for method in (query.cells, query.total):
            with pytest.raises(ValueError, match=f"got {bad} in record 3"):
                method(records)
    with pytest.raises(ValueError, match=f"records must be from 0 to 2; got {bad} in record 1"):
        queries.Histogram(n_levels=3).cells([0, bad])


# Compiled code and its readable reference


@pytest.mark.parametrize("n", [0, 1, 7, BLOCK, BLOCK + 1])
def test_moments_kernels(n):
    rng = np.random.default_rng(n)
    records = rng.normal(size=(n, 3)) * 10
    centre, scale = np.array([0.0, 1.0, -2.0]), np.array([0.1, 0.2, 0.05])
    places = rng.permutation(9)
    compiled, reference = np.full((2, n, 9), np.nan)
    clamped_moments(records, centre, scale, places, compiled)
    clamped_moments.py_func(records, centre, scale, places, reference)
    np.testing.assert_array_equal(compiled, reference)
    assert np.isfinite(compiled).all()
    total = np.zeros(9)
    clamped_totals(records, centre, scale, places, total)
    np.testing.assert_allclose(total, reference.sum(axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        "regression moments",
        "moments",
        "moments of one column",
        "shares",
        "shares and squares",
        "class-feature counts",
    ],
)
def test_the_total_is_the_sum_of_the_statistics(case):
    query, records, expected = CASES[case]
    np.testing.assert_allclose(query.total(records), expected.sum(axis=0), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="records must have shape"):
        query.total(records[:, :, np.newaxis])


@pytest.mark.parametrize("case", CASES)
def test_the_total_of_any_query_needs_no_row_for_every_record(case, monkeypatch):
    query, records, expected = CASES[case]
    whole = contract.total_of(query, np.asarray(records))
    np.testing.assert_allclose(whole, expected.sum(axis=0), rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(contract, "_MOST_NUMBERS", 3 * len(query.names))
    pieces = contract.total_of(query, np.asarray(records))
    np.testing.assert_allclose(pieces, whole, rtol=1e-12, atol=1e-12)


def test_class_feature_kernel():
    first_cell = np.array([0, 2, 6])
    compiled, reference = np.full((2, N, 2), -9)
    assert class_feature_cells(CLASSES, 3, first_cell, compiled)
    assert class_feature_cells.py_func(CLASSES, 3, first_cell, reference)
    np.testing.assert_array_equal(compiled, reference)
    for kernel in (class_feature_cells, class_feature_cells.py_func):
        assert not kernel(CLASSES, 2, first_cell, compiled)
        assert not kernel(CLASSES, 3, np.array([0, 2, 5]), compiled)
        assert not kernel(CLASSES, 3, np.array([0, 1, 6]), compiled)
        assert not kernel(CLASSES - 1, 3, first_cell, compiled)


def test_margin_kernel():
    levels, strides = np.array([3, 2, 4]), np.array([[0, 1, 0], [1, 0, 3]])
    first = np.array([0, 2])
    compiled, reference = np.full((2, N, 2), -9)
    assert margin_cells(CLASSES, levels, first, strides, compiled)
    assert margin_cells.py_func(CLASSES, levels, first, strides, reference)
    np.testing.assert_array_equal(compiled, reference)
    for kernel in (margin_cells, margin_cells.py_func):
        assert not kernel(CLASSES, np.array([2, 2, 4]), first, strides, compiled)
        assert not kernel(CLASSES - 1, levels, first, strides, compiled)


def test_margins_by_name_and_by_number():
    query = queries.Margins([2, 3], [["age"], ["sex", "age"]], ["sex", "age"])
    assert query == queries.Margins([2, 3], [[1], [0, 1]], ["sex", "age"])
    assert query.names[:4] == ("age=0", "age=1", "age=2", "sex=0,age=0")
    assert queries.Margins([2, 3], [[1]]).names[0] == "variable2=0"
    # A margin is a table in C order.
    table = query.statistic([[1, 2]])[0, 3:].reshape(2, 3)
    assert table[1, 2] == table.sum() == 1


def test_histogram_kernels():
    compiled, reference = np.full((2, N, 1), -9)
    edges = np.array(EDGES)
    bin_cells(FLOATS, edges, compiled)
    bin_cells.py_func(FLOATS, edges, reference)
    np.testing.assert_array_equal(compiled, reference)
    for kernel in (level_cells, level_cells.py_func):
        cells = np.full((N, 1), -9)
        assert kernel(LEVELS, 4, cells)
        np.testing.assert_array_equal(cells[:, 0], LEVELS)
        assert not kernel(LEVELS, 3, cells)
        assert not kernel(LEVELS - 1, 4, cells)


def test_count_kernel():
    cells = np.array([[0, 3], [-1, 1], [2, 2]])
    expected = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 2, 0]]
    np.testing.assert_array_equal(count_statistic(cells, 4), expected)
    np.testing.assert_array_equal(count_statistic.py_func(cells, 4), expected)


# Errors: the argument, what it got, what is right


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, -1, 1), "n_features must be a positive integer; got 0"),
        ((1.5, -1, 1), "n_features must be a positive integer; got 1.5"),
        ((True, -1, 1), "n_features must be a positive integer; got True"),
        ((2, 10, -10), r"lower must be below upper; got lower=10.0, upper=-10.0"),
        ((2, 1, 1), r"lower must be below upper; got lower=1.0, upper=1.0"),
        ((1, [0, 3], [1, 2]), "lower=3.0, upper=2.0 for entry 1 of a record"),
        ((2, np.nan, 1), "lower must be finite; got nan"),
        ((2, 0, np.inf), "upper must be finite; got inf"),
        ((2, "a", 1), "lower must be a number or a list of numbers; got 'a'"),
        ((2, [], 1), "lower must be a number or a list of numbers"),
        ((2, [[0]], 1), "lower must be a number or a list of numbers"),
        ((2, [0, 0], 1), "lower must be a number or 3 numbers .2 features, then the response.; "),
        ((2, 0, [1, 1]), "upper must be a number or 3 numbers"),
        ((2, [0, 0], [1, 1, 1]), "the same length; got 2 and 3"),
        ((1, 0, 1e-310), "too small to divide by"),
        ((1, -1.5e308, 1.5e308), "upper - lower must be finite"),
    ],
)
def test_bad_regression_moments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        queries.RegressionMoments(*arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: queries.ClassFeatureCounts(1, [2]),
            "n_classes must be an integer of at least 2; got 1",
        ),
        (
            lambda: queries.ClassFeatureCounts(2, [2, 1]),
            "n_levels of feature 2 must be an integer of at least 2",
        ),
        (
            lambda: queries.ClassFeatureCounts(2, [2.0]),
            "feature 1 must be an integer of at least 2; got 2.0",
        ),
        (lambda: queries.ClassFeatureCounts(2, []), "at least one feature; got an empty list"),
        (lambda: queries.ClassFeatureCounts(2, 3), "or come with n_features; got n_levels=3"),
        (
            lambda: queries.ClassFeatureCounts(2, 3, 0),
            "n_features must be a positive integer; got 0",
        ),
        (
            lambda: queries.ClassFeatureCounts(2, 1, 4),
            "n_levels must be an integer of at least 2; got 1",
        ),
        (lambda: queries.ClassFeatureCounts(2, [3, 3], 3), "n_features must be 2, as in n_levels"),
        (lambda: queries.Margins(3, [[0]]), "n_levels must list the number of levels of each"),
        (lambda: queries.Margins([2, 1], [[0]]), r"n_levels\[1\] must be an integer of at least 2"),
        (lambda: queries.Margins([2, 2], []), "margins must list at least one margin"),
        (lambda: queries.Margins([2, 2], [0, 1]), "each of margins must list its variables"),
        (lambda: queries.Margins([2, 2], "ab"), "margins must list at least one margin"),
        (lambda: queries.Margins([2, 2], [[]]), "must list different variables, at least one"),
        (lambda: queries.Margins([2, 2], [[0, 0]]), "must list different variables"),
        (lambda: queries.Margins([2, 2], [[0, 1], [1, 0]]), "margins must be different sets"),
        (lambda: queries.Margins([2, 2], [[2]]), "variables from 0 to 1; got 2"),
        (lambda: queries.Margins([2, 2], [["sex"]]), "margins name 'sex', which is not among"),
        (lambda: queries.Margins([2, 2], [[0]], ["a"]), "variables must be 2 different names"),
        (lambda: queries.Count(np.nan), "value must be a finite number; got nan"),
        (lambda: queries.Count("yes"), "value must be a finite number; got 'yes'"),
        (lambda: queries.Count(predicate=3), "predicate must be a function; got 3"),
        (lambda: queries.Count(name=""), "name must be a text that is not empty"),
        (lambda: queries.Shares(1), "n_parts must be an integer of at least 2; got 1"),
        (lambda: queries.Shares(2, squares="yes"), "squares must be True or False; got 'yes'"),
        (lambda: queries.Moments(0, -1, 1), "n_columns must be a positive integer; got 0"),
        (lambda: queries.Moments(2, [0, 0, 0], 1), "lower must be a number or 2 numbers, one for"),
        (lambda: queries.Moments(2, 0, 0), "lower must be below upper"),
        (lambda: queries.Moments(2, 0, 1e-310), "too small to divide by"),
        (lambda: queries.Sum(1, 0), "lower must be below upper; got lower=1.0, upper=0.0"),
        (lambda: queries.Sum(0, np.nan), "upper must be finite; got nan"),
        (lambda: queries.Sum(0.5, 2, integer_valued=True), r"lower must be whole .* got \[0.5\]"),
        (lambda: queries.Histogram(), "give edges or n_levels, one of the two"),
        (lambda: queries.Histogram(edges=[0, 1], n_levels=2), "one of the two"),
        (lambda: queries.Histogram(n_levels=1), "n_levels must be an integer of at least 2; got 1"),
        (lambda: queries.Histogram(edges=[0]), "edges must be at least 2 numbers; got 1"),
        (lambda: queries.Histogram(edges=[0, 2, 1]), "increasing; got 2.0 before 1.0"),
        (lambda: queries.Histogram(edges=[0, np.nan]), "increasing; got 0.0 before nan"),
        (lambda: queries.Histogram(edges=3), "edges must be a list of numbers; got 3"),
        (lambda: queries.ByGroup(3, 2), r"query must be a query, such as .*Count\(\); got 3"),
        (lambda: queries.ByGroup(queries.Count(), 0), "n_groups must be a positive integer; got 0"),
        (
            lambda: queries.ByGroup(queries.Count(), 2, ["a", "a"]),
            r"labels must be 2 different texts; got \['a', 'a'\]",
        ),
        (lambda: queries.ByGroup(queries.Count(), 2, "ab"), "labels must be a list of texts"),
        (lambda: queries.InColumn(queries.Count(), -1), "column must be zero or a positive"),
        (lambda: queries.Histogram(n_levels=2, labels=["a"]), "labels must be 2 different texts"),
        (lambda: queries.Margins([2, 2], [[0]], labels=["ab"]), "names of 2 variables"),
        (lambda: queries.InGroup(queries.Count(), -1), "group must be zero or a positive integer"),
        (lambda: queries.Query(3, ["a"], 1), "function must be a function of the records; got 3"),
        (lambda: queries.Query(squares, "ab", 1), "names must be a list of names; got the text"),
        (lambda: queries.Query(squares, [], 1), "names must be texts, at least one"),
        (lambda: queries.Query(squares, ["a", "a"], 1), "names must be different"),
        (lambda: queries.Query(squares, ["a"], 0), "must be positive and finite; got 0"),
        (lambda: queries.Query(squares, ["a"], np.nan), "must be positive and finite; got nan"),
        (lambda: queries.Query(squares, ["a"], "b"), "sensitivity must be a number; got 'b'"),
        (lambda: queries.Query(squares, ["a"], {}), "at least one norm"),
        (lambda: queries.Query(squares, ["a"], {3: 1.0}), "norm must be 1, 2 or inf; got 3"),
        (lambda: queries.Query(squares, ["a"], 1, neighbours="x"), "neighbours must be"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("case", "records", "message"),
    [
        ("regression moments", np.zeros((5, 3)), r"shape \(n, 4\): 3 feature.* got shape \(5, 3\)"),
        ("regression moments", np.zeros(5), r"shape \(n, 4\)"),
        ("class-feature counts", np.zeros((5, 2), int), r"\(n, 3\): the class, then 2 feature"),
        ("class-feature counts", np.zeros((5, 3)), "records must be integers; got dtype float64"),
        ("margins", np.zeros((5, 2), int), r"\(n, 3\), one column for each variable; got shape"),
        ("margins", np.zeros((5, 3)), "records must be integers; got dtype float64"),
        ("count", np.zeros((5, 2)), r"shape \(n,\); got shape \(5, 2\)"),
        ("shares", np.zeros((5, 2)), r"shape \(n, 3\); got shape \(5, 2\)"),
        ("shares", np.zeros(3), r"shape \(n, 3\); got shape \(3,\)"),
        ("moments", np.zeros((5, 3)), r"shape \(n, 4\); got shape \(5, 3\)"),
        ("moments of one column", np.zeros((5, 2)), r"shape \(n, 1\); got shape \(5, 2\)"),
        ("sum", np.zeros((5, 2)), r"shape \(n,\); got shape \(5, 2\)"),
        ("sum of vectors", np.zeros((5, 2)), r"shape \(n, 4\); got shape \(5, 2\)"),
        ("sum of vectors", np.zeros(4), r"shape \(n, 4\); got shape \(4,\)"),
        ("histogram of bins", np.zeros((5, 2)), r"shape \(n,\); got shape \(5, 2\)"),
        ("histogram of levels", np.zeros((5, 2), int), r"shape \(n,\); got shape \(5, 2\)"),
        ("histogram of levels", np.zeros(5), "records must be integers; got dtype float64"),
        ("count by group", np.zeros(5, int), r"shape \(n, 2\) or \(n, 1 \+ w\), the group first"),
        ("sum in a group", np.zeros((5, 1)), r"the group first; got shape \(5, 1\)"),
        ("sums by group", np.zeros((5, 2)), r"shape \(n, 2\); got shape \(5,\)"),
        ("count by group", np.array([[0, 1], [3, 1]]), "from 0 to 2; got 3 in record 1"),
        ("histogram by group", np.array([[-1.0, 1.0]]), "from 0 to 2; got -1.0 in record 0"),
    ],
)
def test_records_of_another_shape_or_kind(case, records, message):
    query = CASES[case][0]
    with pytest.raises(ValueError, match=message):
        query.check_records(records)
    with pytest.raises(ValueError, match=message):
        query.statistic(records)


@pytest.mark.parametrize(
    ("case", "records", "message"),
    [
        ("regression moments", [[0, 0, 0, 0], [0, np.nan, 0, 0]], "finite; got nan in record 1"),
        ("regression moments", [[0, 0, 0, np.inf]], "finite; got inf in record 0"),
        ("regression moments", [["a", "b", "c", "d"]], "must be real numbers; got dtype <U1"),
        ("class-feature counts", [[0, 0, 0], [3, 0, 0]], "classes must be from 0 to 2; got 3"),
        ("class-feature counts", [[0, 0, 4]], "levels of feature 2 must be from 0 to 3; got 4"),
        ("class-feature counts", [[0, -1, 0]], "levels of feature 1 must be from 0 to 1; got -1"),
        ("margins", [[0, 0, 0], [3, 0, 0]], "levels of a must be from 0 to 2; got 3 in record 1"),
        ("count", ["a"], "must be real numbers; got dtype <U1"),
        ("shares", [[0.5, 0.5, 0.0], [0.5, 0.6, 0.1]], r"sum to 1; got .* in record 1"),
        ("shares", [[0.5, 0.6, -0.1]], r"at least 0 .* in record 0"),
        ("shares", [[0.5, np.nan, 0.1]], "finite; got nan in record 0"),
        ("moments", [[0, 0, 0, np.inf]], "finite; got inf in record 0"),
        ("sum", [0.0, np.nan], "finite; got nan in record 1"),
        ("sum of integers", [1.0, 2.5], "whole numbers; got 2.5 in record 1"),
        ("histogram of bins", [0.0, np.nan], "must not be NaN; got NaN in record 1"),
        ("histogram of bins", ["a"], "must be real numbers"),
        ("histogram of levels", [0, 4], "must be from 0 to 3; got 4 in record 1"),
    ],
)
def test_records_with_bad_values(case, records, message):
    with pytest.raises(ValueError, match=message):
        CASES[case][0].check_records(records)


# A user's own function


def test_a_single_column_may_come_back_flat():
    query = queries.Query(np.tanh, ["tanh"], 2)
    assert query.statistic(np.zeros(3)).shape == (3, 1)
    assert query.sensitivity(1) == 2.0


def test_what_a_function_returns_is_checked():
    def wrong(records):
        return answer

    query = queries.Query(wrong, ["a", "b"], 1.0)
    answer = np.zeros((3, 3))
    message = r"function wrong must return shape \(3, 2\) for 3 records and 2 name.*got.*\(3, 3\)"
    with pytest.raises(ValueError, match=message):
        query.statistic(np.zeros(3))
    answer = np.array([[0, 0], [0, np.nan], [0, 0]])
    with pytest.raises(ValueError, match=r"wrong must return finite .* nan for record 1, 'b'"):
        query.statistic(np.zeros(3))
    answer = np.array([[0, -np.inf], [0, np.inf], [0, 0]])
    with pytest.raises(ValueError, match="wrong must return finite numbers; got -inf"):
        query.statistic(np.zeros(3))
    answer = [["a", "b"]] * 3
    with pytest.raises(ValueError, match="wrong must return real numbers; got dtype <U1"):
        query.check_records(np.zeros(3))
    answer = np.array([[0, 1.5], [0, 0], [0, 0]])
    query = queries.Query(wrong, ["a", "b"], 1.0, integer_valued=True)
    with pytest.raises(ValueError, match=r"wrong must return whole .*got 1.5 for record 0"):
        query.check_records(np.zeros(3))


def test_a_predicate_must_return_booleans():
    query = queries.Count(predicate=np.square)
    with pytest.raises(ValueError, match=r"predicate square must return 3 booleans.*\(3,\) of fl"):
        query.statistic(np.zeros(3))
    query = queries.Count(predicate=np.isnan)
    with pytest.raises(ValueError, match=r"isnan must return 3 booleans.* got shape \(3, 2\)"):
        query.check_records(np.zeros((3, 2)))


def test_a_sensitivity_that_was_not_given():
    query = queries.Query(squares, ["a", "b"], 3.0)
    with pytest.raises(ValueError, match=r"for norm 1 only, and norm 2 is needed: pass .*{2: "):
        query.sensitivity(2)
    with pytest.raises(ValueError, match=r'for neighbours="change"; got .*="add-remove"'):
        query.sensitivity(1, "add-remove")
    query = queries.Query(squares, ["a", "b"], {1: 3, 2: 2.5}, neighbours="add-remove")
    assert query.sensitivity(2, "add-remove") == 2.5


# Files


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"n_features": 2}, 'must be described by a "type" and arguments'),
        (["Count"], 'must be described by a "type" and arguments'),
        ({"type": "Median"}, "must be one of ByGroup, .*Histogram.*; got 'Median'"),
        ({"type": ["Count"]}, r"must be one of .*; got \['Count'\]"),
        ({"type": "Sum", "lower": 0}, "the arguments of the query Sum are not right: .*upper"),
        (
            {"type": "Count", "values": 1},
            "the arguments of the query Count are not right: .*values",
        ),
        ({"type": "Sum", "lower": 1, "upper": 0}, "lower must be below upper"),
    ],
)
def test_descriptions_that_are_not_a_query(description, message):
    with pytest.raises(ValueError, match=message):
        queries.from_dict(description)


def test_only_a_query_of_counts_has_cells_by_group():
    for group in (queries.ByGroup, queries.InGroup):
        for ability in ("cells", "possible"):
            assert callable(getattr(group(queries.Count(), 1), ability))
            assert getattr(group(queries.Sum(0, 1), 1), ability) is None


def test_groups_are_whole_numbers():
    query = queries.ByGroup(queries.Sum(0, 1), 2)
    with pytest.raises(ValueError, match=r"from 0 to 1; got 0.5 in record 0"):
        query.check_records(np.array([[0.5, 1.0]]))
    with pytest.raises(ValueError, match=r"must be whole numbers from 0; got -1.0 in record 0"):
        queries.InGroup(queries.Sum(0, 1), 1).check_records(np.array([[-1.0, 1.0]]))


# What a class says of itself


@pytest.mark.parametrize("name", QUERIES.names)
def test_the_example_goes_to_a_file_and_back(name):
    example = QUERIES[name].example()
    assert type(example) is QUERIES[name]
    assert QUERIES.read(json.loads(json.dumps(example.to_dict()))) == example
    assert repr(example).startswith(f"{name}(")


def test_words():
    assert queries.Count(2).words() == ["How many records have the value 2."]
    over = queries.Count(predicate=np.isnan, name="missing")
    assert over.words() == ["How many records: missing."]
    assert queries.InGroup(queries.Count(2), 1).words() == [
        "Of the records of group 1 only.",
        "How many records have the value 2.",
    ]
    asked, clamped = queries.Sum([-1, 0], 2).words()
    assert asked == "The sum of the records."
    assert "below (\N{MINUS SIGN}1, 0), column by column, count as that" in clamped
    assert "above 2 as 2." in clamped
    both = queries.StackedQuery([queries.Count(), queries.Shares(2)], ["a", "b"])
    assert both.words() == [
        "(a) How many records have the value 1.",
        "(b) The sums of the shares and, if asked, of their squares.",
    ]


@pytest.mark.parametrize(
    ("query", "totals", "possible"),
    [
        (queries.Count(), [-3.0], [0.0]),
        (queries.Histogram(n_levels=3), [-3.0, 4.0, 11.0], [0.0, 4.0, 10.0]),
        (queries.ByGroup(queries.Count(), 2), [-1.0, 12.0], [0.0, 10.0]),
        (queries.Sum(-1, 2), [25.0], [20.0]),
        (queries.Sum([-1, 0], 2), [-25.0, -25.0], [-10.0, 0.0]),
        (queries.Moments(1, -2, 2), [-11.0, 12.0], [-10.0, 10.0]),
        (queries.StackedQuery([queries.Count()] * 2, "ab"), [-1.0, 3.0], [0.0, 3.0]),
    ],
)
def test_the_nearest_possible_totals_of_ten_records(query, totals, possible):
    np.testing.assert_array_equal(query.possible(np.array(totals), 10), possible)


def test_a_stack_has_only_what_all_queries_have():
    counts, sums = queries.Count(), queries.Moments(1, -1, 1)
    for pair, cells, total in (
        ([counts, counts], True, False),
        ([sums, sums], False, True),
        ([counts, sums], False, False),
    ):
        able = query_abilities(queries.StackedQuery(pair, ["a", "b"]))
        assert (able.cells is not None, able.total is not None) == (cells, total)
        assert (able.possible is not None) == cells


# Linear queries


def test_a_linear_query_adds_up_what_its_statistic_says():
    query, records, expected = CASES["linear"]
    np.testing.assert_allclose(query.total(records), expected.sum(axis=0), rtol=1e-14)
    assert query.integer_valued is False
    assert query.cells is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2, 3],), r"matrix must be numbers of shape \(d, C\)"),
        (([["a", "b"]],), "matrix must be numbers of shape"),
        (([[1, 2], [3]],), "matrix must be numbers of shape"),
        (([[1.0, np.inf]],), "matrix must hold finite numbers; got inf"),
        ((np.zeros((0, 3)),), r"a row and a column at least; got shape \(0, 3\)"),
        (({"shape": [1, 2], "rows": [0], "columns": [5], "entries": [1.0]},), "matrix must be"),
        (({"shape": [1, 2], "rows": [0]},), "matrix must be numbers of shape"),
        (([[1, 0]], ["a", "b"]), "names must be 1 texts, one for each row of matrix; got 2 names"),
        (([[1, 0], [0, 1]], ["a", "a"]), "names must be different; got 'a' more than once"),
        (([[1, 0]], ["a"], [3]), "a column for each of the 3 cells .* got 2 columns"),
        (([[1, 0]], ["a"], [2.0]), r"n_levels\[0\] must be a positive integer; got 2.0"),
    ],
)
def test_a_linear_query_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        queries.Linear(*arguments)


def test_labels_of_a_hierarchy_are_for_every_cell():
    with pytest.raises(ValueError, match=r"a label for each cell; got \[3, 2\]"):
        queries.Linear.sums(["a", "a", "b"], ["c", "d"])
    with pytest.raises(ValueError, match="names must be different; got 'a' more than once"):
        queries.Linear.sums(["a", "b"], ["a", "a"])
