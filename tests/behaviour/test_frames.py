"""Frames with named columns, pandas and polars, in and out."""

import numpy as np
import pytest

import noiseaware as na


def pandas_frame(content):
    import pandas

    return pandas.DataFrame(content)


def polars_frame(content):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(content)


@pytest.fixture(params=[pandas_frame, polars_frame], ids=["pandas", "polars"])
def frame(request):
    return request.param


MOMENTS = na.queries.RegressionMoments(2, -5, 5)
RECORDS = np.random.default_rng(1).standard_normal((6, 3))


def regression(**more):
    return {"x1": RECORDS[:, 0], "x2": RECORDS[:, 1], "y": RECORDS[:, 2], **more}


def test_columns_are_found_by_name(frame):
    made = regression(name=["a"] * 6)
    shuffled = frame({key: made[key] for key in ("y", "name", "x2", "x1")})
    expected = MOMENTS.statistic(RECORDS)
    np.testing.assert_array_equal(MOMENTS.statistic(shuffled), expected)
    np.testing.assert_allclose(MOMENTS.total(shuffled), expected.sum(axis=0))
    MOMENTS.check_records(shuffled)
    mechanism = na.mechanisms.Laplace(MOMENTS, epsilon=1.0)
    one = mechanism.privatize(shuffled, np.random.default_rng(2))
    other = mechanism.privatize(RECORDS, np.random.default_rng(2))
    np.testing.assert_array_equal(one.values, other.values)
    assert one.n_records == 6


def test_other_names_count_by_their_order(frame):
    table = frame({"age": RECORDS[:, 0], "size": RECORDS[:, 1], "weight": RECORDS[:, 2]})
    np.testing.assert_array_equal(MOMENTS.statistic(table), MOMENTS.statistic(RECORDS))


def test_variables_of_a_table_are_found_by_name(frame):
    query = na.queries.Margins([2, 3], [["sex"], ["sex", "age"]], ["sex", "age"])
    table = frame({"age": [2, 0, 1], "size": [1.5, 1.6, 1.7], "sex": [1, 1, 0]})
    np.testing.assert_array_equal(query.cells(table), query.cells([[1, 2], [1, 0], [0, 1]]))
    query.check_records(table)
    with pytest.raises(ValueError, match="levels of sex"):
        query.check_records(frame({"age": [0], "sex": [2]}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x1": [1.0], "y": [2.0]}, r"columns \['x1', 'x2', 'y'\].*without \['x2'\]"),
        ({"x1": [1.0], "z": [1.0], "y": [2.0]}, r"got \['x1', 'z', 'y'\], without \['x2'\]"),
        ({"a": [1.0], "b": [1.0]}, r"must have the columns \['x1', 'x2', 'y'\], or 3 columns"),
        ({"x1": [1.0], "x2": [None], "y": [2.0]}, "column 'x2' has 1"),
        ({"x1": [1.0], "x2": ["low"], "y": [2.0]}, "column 'x2' has dtype .*CategoricalDtype"),
    ],
)
def test_a_frame_that_does_not_fit(frame, content, message):
    with pytest.raises((ValueError, TypeError), match=message):
        MOMENTS.statistic(frame(content))
    with pytest.raises((ValueError, TypeError), match=message):
        na.mechanisms.Laplace(MOMENTS, 1.0).privatize(frame(content), np.random.default_rng(1))


def test_one_column_is_one_number_a_record(frame):
    table = frame({"answer": [0, 1, 1, 0, 1]})
    assert na.queries.Count().statistic(table).sum() == 3
    assert na.queries.Count().statistic(table["answer"]).sum() == 3
    assert na.queries.Sum(0, 1).statistic(table).sum() == 3
    np.testing.assert_array_equal(
        na.queries.Histogram(n_levels=2).statistic(table).sum(axis=0), [2, 3]
    )
    assert na.Query(lambda x: x, ["sum"], sensitivity=1.0).statistic(table).sum() == 3
    bits = frame({"answer": [True, False, True]})
    assert na.queries.Count().statistic(bits).sum() == 2
    sums = na.queries.Sum([0, 0], [1, 1])
    np.testing.assert_array_equal(sums.statistic(frame({"a": [0, 1], "b": [1, 1]})).sum(0), [1, 2])


def test_declared_levels_become_numbers():
    import pandas

    levels = pandas.CategoricalDtype(["low", "middle", "high"])
    series = pandas.Series(["high", "low", "low"], dtype=levels)
    query = na.queries.Histogram(n_levels=3)
    np.testing.assert_array_equal(query.statistic(series).sum(axis=0), [2, 0, 1])
    counts = na.queries.ClassFeatureCounts(2, [3])
    table = pandas.DataFrame({"feature1": series, "class": [1, 0, 1]})
    np.testing.assert_array_equal(counts.cells(table), counts.cells([[1, 2], [0, 0], [1, 0]]))
    with pytest.raises(TypeError, match="declared levels"):
        query.statistic(pandas.Series(["high", "low"]))
    with pytest.raises(ValueError, match="must be from 0 to 1; got 2"):
        na.queries.Histogram(n_levels=2).check_records(series)


def test_declared_levels_of_polars():
    polars = pytest.importorskip("polars")
    series = polars.Series("s", ["high", "low"], dtype=polars.Enum(["low", "middle", "high"]))
    query = na.queries.Histogram(n_levels=3)
    np.testing.assert_array_equal(query.statistic(series).sum(axis=0), [1, 0, 1])
    # Without declared levels the numbers would depend on which text comes first.
    with pytest.raises(TypeError, match=r"polars\.Enum"):
        query.statistic(polars.Series("s", ["high", "low"], dtype=polars.Categorical))


def test_every_mechanism_takes_a_frame(frame):
    rng = np.random.default_rng(3)
    table = frame({"level": [0, 2, 1, 1]})
    histogram = na.queries.Histogram(n_levels=3)
    for mechanism in (
        na.mechanisms.Gaussian(histogram, mu=1.0),
        na.mechanisms.DiscreteLaplace(histogram, epsilon=1.0),
        na.mechanisms.Exponential(histogram, epsilon=1.0),
        na.mechanisms.RandomizedResponse(3, epsilon=1.0),
        na.mechanisms.Clamped(na.mechanisms.Laplace(histogram, epsilon=1.0), lower=0),
    ):
        assert mechanism.privatize(table, rng).n_records == 4


def draws(model, mechanism, n):
    rng = np.random.default_rng(4)
    release = mechanism.privatize(model.sample_records(model.sample_prior(rng), n, rng), rng)
    return na.sample(
        model, release, draws=20, warmup=20, chains=2, keep_records=3, random_seed=1,
        progressbar=False,
    )  # fmt: skip


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_imputed_databases(library):
    pytest.importorskip(library)
    posterior = draws(na.models.LinearRegression(2), na.mechanisms.Laplace(MOMENTS, 1.0), 5)
    table = na.imputed(posterior, as_frame=library)
    assert type(table).__module__.startswith(library)
    assert list(table.columns) == ["chain", "draw", "record", "x1", "x2", "y"]
    assert len(table) == 2 * 3 * 5
    stored = posterior["latent_records"]["records"]
    array = na.imputed(posterior, as_frame=None)
    assert array.shape == (6, 5, 3)
    np.testing.assert_array_equal(array.reshape(2, 3, 5, 3), stored.values)
    # A row of the table is the record that it says it is.
    row = table.to_dict("records")[-4] if library == "pandas" else table.row(-4, named=True)
    record = stored.sel(chain=row["chain"], draw=row["draw"]).isel(record=row["record"])
    assert [row["x1"], row["x2"], row["y"]] == record.values.tolist()
    # And a frame can go back in, as it came out.
    database = table[["x1", "x2", "y"]][:5]
    np.testing.assert_array_equal(MOMENTS.statistic(database), MOMENTS.statistic(array[0]))


def test_databases_of_scalars_and_none():
    posterior = draws(
        na.models.Bernoulli(), na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 4
    )
    table = na.imputed(posterior)
    assert list(table.columns) == ["chain", "draw", "record", "value"]
    assert set(table["value"]) <= {0, 1}
    del posterior["latent_records"]
    with pytest.raises(ValueError, match="keep_records"):
        na.imputed(posterior)
    with pytest.raises(TypeError, match="must be a posterior"):
        na.imputed([1, 2])
    with pytest.raises(ValueError, match="as_frame must be"):
        na.imputed(posterior, as_frame="excel")
