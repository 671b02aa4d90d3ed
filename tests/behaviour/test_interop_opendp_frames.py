"""OpenDP's Polars API: what is read from the summary and the frame, against the real library."""

import math
import warnings

import numpy as np
import pytest

import noiseaware as na
from behaviour.docs_blocks import run_blocks
from mutants.planting import Edit, planted

LEN = {
    "column": ["len"],
    "aggregate": ["Frame Length"],
    "distribution": ["Integer Laplace"],
    "scale": [2.0],
}
frames = na.interop.opendp_frames


def read(*arguments, **options):
    return na.interop.opendp.frame(*arguments, **options)


def summary(*lines):
    names = ("column", "aggregate", "distribution", "scale", "threshold")
    return dict(zip(names, zip(*lines, strict=True), strict=True))


@pytest.fixture(scope="module")
def dp():
    library = pytest.importorskip("opendp.prelude", reason="the extra `opendp` is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    from opendp.mod import _EXPECTED_POLARS_VERSION

    if pl.__version__ != _EXPECTED_POLARS_VERSION:
        pytest.skip(f"this OpenDP works with polars {_EXPECTED_POLARS_VERSION} only")
    library.enable_features("contrib")
    return library


N = 600
BINS = ["(-inf, 20]", "(20, 40]", "(40, 60]", "(60, inf]"]


@pytest.fixture(scope="module")
def made(dp):
    """Real queries and what they released, by name."""
    import polars as pl

    rng = np.random.default_rng(1)
    data = pl.LazyFrame(
        {
            "person": np.arange(N) // 2,
            "region": rng.choice(["a", "b", "c"], N),
            "sex": rng.choice([1, 2], N),
            "age": rng.integers(0, 90, N),
            "income": rng.gamma(2.0, 20.0, N),
            "job": rng.choice(["x", None], N),
        }
    )
    margin = dp.polars.Margin

    def context(loss, margins, unit=None):
        return dp.Context.compositor(
            data=data,
            privacy_unit=unit or dp.unit_of(contributions=1),
            privacy_loss=loss,
            split_evenly_over=1,
            margins=margins,
        ).query()

    pure, rho = dp.loss_of(epsilon=1.0), dp.loss_of(rho=0.5)
    whole = margin(by=[], max_length=N)
    regions = margin(by=["region"], max_length=N, max_groups=3, invariant="keys")
    age = pl.col("age").fill_null(0).dp.sum((0, 60))
    income = pl.col("income").fill_null(0.0).fill_nan(0.0)
    keys = pl.LazyFrame({"region": ["a", "b", "c"] * 2, "sex": [1, 1, 1, 2, 2, 2]})
    known = margin(by=[], max_length=N, invariant="lengths")
    bins = pl.LazyFrame({"age": BINS}, schema={"age": pl.Categorical})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of OpenDP: signed= has no default for long
        questions = {
            "length": context(pure, [whole]).select(dp.len()),
            "signed": context(pure, [whole]).select(dp.len(signed=True)),
            "filtered": context(pure, [whole]).filter(pl.col("age") > 40).select(dp.len()),
            "sums": context(pure, [whole]).select(
                dp.len(), age, income.dp.sum((0.0, 100.0)).alias("pay")
            ),
            "mean": context(pure, [whole]).select(income.dp.mean((0.0, 100.0))),
            "known mean": context(pure, [known], dp.unit_of(changes=1)).select(
                income.dp.mean((0.0, 100.0))
            ),
            "groups": context(rho, [regions]).group_by("region").agg(
                dp.len(), income.dp.sum((0.0, 100.0)).alias("pay")
            ),
            "lengths": context(pure, [regions]).group_by("region").agg(dp.len()),
            "keys": context(pure, [whole]).group_by("region", "sex").agg(dp.len(signed=True))
            .with_keys(keys),
            "threshold": context(dp.loss_of(epsilon=1.0, delta=1e-6), [whole])
            .group_by("age").agg(dp.len()),
            "counts": context(pure, [whole]).select(pl.col("job").dp.count()),
            "unique": context(pure, [whole]).select(pl.col("job").dp.n_unique()),
            "median": context(pure, [whole]).select(
                pl.col("age").fill_null(0).dp.median(list(range(0, 90, 10)))
            ),
            "column": context(pure, [whole]).select(pl.col("age").fill_null(0).dp.len()),
            "sum": context(pure, [whole]).select(age),
            "nulls": context(pure, [whole]).select(pl.col("job").dp.null_count()),
            "quantile": context(pure, [whole]).select(
                pl.col("age").fill_null(0).dp.quantile(0.25, list(range(0, 90, 10)))
            ),
            "bins": context(pure, [whole])
            .with_columns(pl.col("age").fill_null(0).cut([20, 40, 60]))
            .group_by("age").agg(dp.len()).with_keys(bins),
            "truncated": context(pure, [whole], dp.unit_of(contributions=1, identifier="person"))
            .truncate_per_group(1).select(dp.len(), age),
            "gaussian": context(rho, [whole]).select(
                pl.col("age").fill_null(0).clip(0, 60).sum().dp.gaussian()
            ),
            "noise": context(pure, [whole]).select(
                pl.len().dp.noise(), pl.col("age").fill_null(0).clip(0, 60).sum().dp.laplace()
            ),
        }  # fmt: skip
        # What `summarize` and `release` do, with one search for the scale instead of two.
        found = {name: question.resolve() for name, question in questions.items()}
        return {
            name: (dp.summarize_polars_measurement(one), one(data).collect())
            for name, one in found.items()
        }


def test_lengths_of_the_whole_frame(made):
    for name, unsigned in (("length", True), ("signed", False), ("filtered", True)):
        release = read(*made[name])
        noise = na.mechanisms.DiscreteLaplace(
            na.queries.Count(value=None), scale=1.0, neighbours="add-remove"
        )
        mechanism = na.mechanisms.Clamped(noise, lower=0.0) if unsigned else noise
        assert release.mechanism.to_dict() == mechanism.to_dict()
        assert release.values[0] == made[name][1]["len"][0]
        assert release.n_records is None
        assert release.mechanism.guarantee.epsilon == pytest.approx(1.0)


def test_sums_and_a_length_are_one_joint_release(made):
    release = read(*made["sums"], bounds={"age": (0, 60), "pay": (0.0, 100.0)})
    assert release.names == ("len: count of records", "age: sum", "pay: sum")
    scales = [part.mechanism.scale if k == 0 else part.scale
              for k, part in enumerate(release.mechanism.mechanisms)]  # fmt: skip
    assert scales == pytest.approx([3.0, 180.0, 300.0])
    records = np.array([[70.0, 50.0], [10.0, 250.0]])
    assert release.query.statistic(records).sum(axis=0).tolist() == [2, 70, 150]
    assert release.mechanism.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(ValueError, match="bounds is needed for the sum of 'pay'"):
        read(*made["sums"], bounds={"age": (0, 60)})
    again = read(*made["noise"], bounds={"age": (0, 60)})
    assert again.query.statistic(np.array([70.0, 10.0])).sum(axis=0).tolist() == [2, 70]


def test_groups(made):
    release = read(*made["lengths"])
    assert release.names == ("region=a", "region=b", "region=c")
    table = made["lengths"][1].sort("region")
    assert release.values.tolist() == table["len"].to_list()
    both = read(*made["groups"], bounds={"pay": (0.0, 100.0)}, n_records=N)
    assert both.names[0] == "len: region=a: count of records"
    assert both.names[-1] == "pay: region=c: sum"
    records = np.array([[0, 20.0], [2, 170.0], [2, 1.0]])
    assert both.query.statistic(records).sum(axis=0).tolist() == [1, 0, 2, 20, 0, 101]
    assert type(both.mechanism.mechanisms[1]).__name__ == "Gaussian"
    assert both.mechanism.guarantee.rho == pytest.approx(0.5, rel=1e-4)


def test_several_keys_and_several_queries(made):
    release = read(*made["keys"])
    assert release.names[:3] == ("region=a,sex=1", "region=a,sex=2", "region=b,sex=1")
    table = made["keys"][1].sort("region", "sex")
    assert release.values.tolist() == table["len"].to_list()
    names = ("keys", "lengths", "signed")
    joint = read([made[k][0] for k in names], [made[k][1] for k in names])
    assert joint.query.statistic(np.array([[1, 0], [1, 1]])).sum(axis=0).tolist() == [
        0, 0, 1, 1, 0, 0, 0, 2, 0, 2,
    ]  # fmt: skip
    assert joint.names[6] == "2, len: region=a"


def test_a_group_that_is_not_above_the_threshold_is_withheld(made):
    says, table = made["threshold"]
    with pytest.raises(ValueError, match=r"keys is needed, with all levels of 'age'"):
        read(says, table)
    release = read(says, table, keys={"age": range(90)})
    limit = float(says["threshold"][0])
    assert np.isnan(release.values).sum() == 90 - len(table)
    total = np.nan_to_num(release.values, nan=5.0)
    more = total.copy()
    gone = int(np.flatnonzero(np.isnan(release.values))[0])
    more[gone] = 9.0
    k = np.arange(-300, 301)
    mass = np.exp(-np.abs(k) / release.mechanism.mechanism.mechanism.scale)
    ratio = mass[k + 9 <= limit].sum() / mass[k + 5 <= limit].sum()
    log_g = release.mechanism.log_density
    assert log_g(release.values, more) - log_g(release.values, total) == pytest.approx(
        math.log(ratio)
    )


@pytest.mark.full
def test_the_law_of_the_real_library(dp):
    """Of 3,000 groups of 8 with a threshold of 8 or so: above it, by the law that is read."""
    import polars as pl
    from scipy.stats import chisquare

    data = pl.LazyFrame({"g": np.repeat(np.arange(3000), 30)})
    question = (
        dp.Context.compositor(
            data=data,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=0.5, delta=1e-7),
            split_evenly_over=1,
        )
        .query()
        .group_by("g")
        .agg(dp.len(signed=True))
    )
    says, table = question.summarize(), question.release().collect()
    limit, scale = float(says["threshold"][0]), float(says["scale"][0])
    k = np.arange(-200, 400)
    mass = np.exp(-np.abs(k - 30) / scale)
    mass /= mass.sum()
    values = table["len"].to_numpy()
    assert values.min() > limit
    places = [(k > limit) & (k <= limit + 1), (k > limit + 1) & (k <= limit + 3),
              (k > limit + 3) & (k <= limit + 6), k > limit + 6, k <= limit]  # fmt: skip
    counts = [np.isin(values, k[place]).sum() for place in places[:-1]]
    counts.append(3000 - len(values))
    assert chisquare(counts, [3000 * mass[place].sum() for place in places]).pvalue > 1e-5


def test_a_mean_over_a_known_number(made, dp):
    says, table = made["known mean"]
    release = read(says, table, bounds={"income": (0.0, 100.0)}, n_records=N, neighbours="change")
    assert release.values[0] == pytest.approx(N * table["income"][0])
    assert release.mechanism.scale == pytest.approx(100.0)
    assert release.mechanism.guarantee.epsilon == pytest.approx(1.0)
    # The noise of the mean is that of the sum over n: 0.17, with a true mean near 38.
    assert 36 < table["income"][0] < 42


ESSENTIALS = {
    "length": ("count of records",),
    "column": ("count of records",),
    "filtered": ("count of records",),
    "sum": ("sum",),
    "noise": ("len: count of records", "age: sum"),
    "gaussian": ("sum",),
    "truncated": ("len: count of records", "age: sum"),
    "bins": tuple(f"age={name}" for name in BINS),
    "lengths": tuple(f"region={name}" for name in "abc"),
    "keys": tuple(f"region={region},sex={sex}" for region in "abc" for sex in (1, 2)),
    "mean": "ratio of two noisy numbers, of which neither is released; ask for the sum and for the",
    "median": "0.5-Quantile with ExponentialMin noise, which is not additive",
    "quantile": "0.25-Quantile with ExponentialMin noise, which is not additive",
    "unique": "N Unique: the number of different values is not a sum over records",
    "counts": "Count: say what it counts, queries=",
    "nulls": "Null Count: say what it counts, queries=",
}
"""What OpenDP's pages on tabular data ask of a frame, aggregate by aggregate: the names that it is
read with, or why it is not read."""


@pytest.mark.parametrize("name", ESSENTIALS)
def test_every_aggregate_is_read_or_refused_with_the_reason(made, name):
    says, table = made[name]
    options = {"bounds": {"age": (0, 60), "income": (0.0, 100.0)}}
    expected = ESSENTIALS[name]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            read(says, table, **options)
        return
    release = read(says, table, **options)
    assert release.names == expected
    totals = [column for column in table.columns if column not in ("region", "sex")]
    totals = [column for column in totals if table[column].dtype.is_numeric()]
    assert sum(release.values) == sum(table[column].sum() for column in totals)
    assert "differential privacy" in str(release.mechanism.guarantee)


def test_what_cannot_be_read(made):
    for name, words in {
        "mean": "ratio of two noisy numbers",
        "median": "ExponentialMin noise, which is not additive",
        "unique": "number of different values is not a sum over records",
        "counts": "say what it counts",
    }.items():
        with pytest.raises(ValueError, match=words) as caught:
            read(*made[name], bounds={"income": (0.0, 100.0)})
        assert "by hand" not in str(caught.value)
    with pytest.raises(ValueError, match="'len' was released without noise"):
        read(LEN | {"scale": [0.0]}, {"region": ["a"], "len": [12]}, signed=True)
    with pytest.raises(ValueError, match="n_records is needed"):
        read(*made["known mean"], bounds={"income": (0.0, 100.0)})
    given = read(*made["counts"], queries={"job": na.queries.Count(value=1)})
    assert given.names == ("count of 1",)


def test_plain_tables_without_types():
    """Of a CSV or a mapping: neither library is needed."""
    released = {"region": ["b", "a"], "len": [31, 12]}
    assert read(LEN, released, signed=True).values.tolist() == [12, 31]
    clamped = read(LEN, released, signed=False).mechanism
    assert type(clamped).__name__ == "Clamped"
    with pytest.raises(ValueError, match="signed is needed"):
        read(LEN, released)
    for words, arguments in {
        "must have a column 'scale'": ({"column": [], "aggregate": [], "distribution": []}, {}),
        "must have the column 'len'": (LEN, {"region": ["a"]}),
        "must be 2 frames; got 1": ([LEN, LEN], [released]),
    }.items():
        with pytest.raises(ValueError, match=words):
            read(*arguments, signed=True)
    with pytest.raises(ValueError, match="keys must hold all levels of 'region'; b is not"):
        read(LEN, released, signed=True, keys={"region": ["a"]})
    with pytest.raises(ValueError, match="keys must be columns"):
        read(LEN, released, signed=True, keys={"town": ["a"]})
    numbers = read(LEN, {"year": [10, 9, 11], "len": [1, 2, 3]}, signed=True)
    assert numbers.names == ("year=9", "year=10", "year=11")


def test_csv_files(tmp_path):
    """Everything in them is a text."""
    says, table = tmp_path / "s.csv", tmp_path / "f.csv"
    says.write_text(
        "column,aggregate,distribution,scale,threshold\n"
        "len,Frame Length,Integer Laplace,2.0,20\nhours,Sum,Float Laplace,50.5,\n"
    )
    table.write_text("region,len,hours\nb,31,402.5\na,25,99.0\n")
    options = {"bounds": {"hours": (0, 80)}, "signed": False, "keys": {"region": "abc"}}
    release = read(str(says), table, **options)
    assert release.values[:3] == pytest.approx([25, 31, np.nan], nan_ok=True)
    assert "withheld" in repr(release)
    length, *sums = release.mechanism.mechanisms
    assert (length.threshold, length.mechanism.mechanism.scale) == (20.0, 2.0)
    assert {part.scale for part in sums} == {50.5}
    with pytest.raises(ValueError, match=r"for the sum of 'hours': .*; got 'hour'"):
        read(says, table, **options | {"bounds": {"hour": (0, 80)}})
    says.write_text("column,aggregate,distribution,scale\nlen,Frame Length,Integer Laplace,two\n")
    with pytest.raises(ValueError, match="scale must be numbers: could not convert"):
        read(says, table, **options)


def test_a_frame_that_is_not_collected():
    class OnceFrame:
        def collect(self): ...

    with pytest.raises(TypeError, match=r"call .collect\(\) on this OnceFrame"):
        read(LEN, OnceFrame(), signed=True)


def test_the_other_columns_of_a_withheld_group_say_nothing():
    says = summary(
        ("len", "Frame Length", "Integer Laplace", 2.0, 20),
        ("pay", "Sum", "Float Laplace", 50.0, None),
    )
    released = {"region": ["c", "a"], "len": [31, 25], "pay": [300.0, 100.0]}
    release = read(
        says, released, signed=True, keys={"region": ["a", "b", "c"]}, bounds={"pay": (0, 9)}
    )
    assert release.names == (
        "len: region=a: count of records",
        "len: region=b: count of records",
        "len: region=c: count of records",
        "pay, region=a: sum",
        "pay, region=c: sum",
    )
    assert release.values[[0, 2, 3, 4]].tolist() == [25, 31, 100, 300]
    records = np.array([[0, 4.0], [1, 5.0], [2, 20.0]])
    assert release.query.statistic(records).sum(axis=0).tolist() == [1, 1, 1, 4, 9]
    assert na.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()


def test_a_posterior_of_a_share_with_n_unknown():
    """Two groups and a uniform prior of n, against the sum over all pairs of counts."""
    release = read(LEN, {"sex": [0, 1], "len": [7, 3]}, signed=False)
    posterior = na.sample(
        na.models.Categorical(2), release, size=na.sizes.Uniform(1, 25), draws=2000, warmup=500,
        chains=2, cores=1, random_seed=1, progressbar=False,
    )["posterior"]  # fmt: skip
    n = np.arange(1, 26)[:, None]
    k = np.arange(26)[None]
    weight = np.where(k <= n, np.exp(-np.abs(7 - k) / 2.0 - np.abs(3 - (n - k)) / 2.0) / (n + 1), 0)
    exact = (weight * (k + 1) / (n + 2)).sum() / weight.sum()
    assert float(posterior["probabilities"][..., 0].mean()) == pytest.approx(exact, abs=0.02)
    assert float(posterior["n_records"].mean()) == pytest.approx(
        (weight * n).sum() / weight.sum(), abs=0.35
    )


BUGS = {
    "an unsigned count is not clamped": (
        Edit(frames, "_mechanism", "if column.unsigned:", "if False:"),
        test_plain_tables_without_types,
    ),
    "rows in the order of the frame": (
        Edit(frames, "_by_group", "column.rows.get(group, np.nan) for group in groups",
             "number for number in column.rows.values()"),
        test_plain_tables_without_types,
    ),
    "a withheld sum is a group of its own": (
        Edit(frames, "_by_group", "if not np.isnan(number)", "if True"),
        test_the_other_columns_of_a_withheld_group_say_nothing,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    edit, check = BUGS[bug]
    with planted(edit), pytest.raises((AssertionError, ValueError)):
        check()


def test_a_mean_that_is_read_as_a_sum_is_caught(made, dp):
    edit = Edit(frames, "_read_line", 'float(whole_number("n_records", n))', "1.0")
    with planted(edit), pytest.raises(AssertionError):
        test_a_mean_over_a_known_number(made, dp)


def test_the_blocks_of_the_docs_run(dp):
    run_blocks("polars")


def test_a_frame_in_which_no_group_is_above_the_threshold():
    says = {
        "column": ["len"],
        "aggregate": ["Frame Length"],
        "distribution": ["Integer Laplace"],
        "scale": [2.0],
        "threshold": [20],
    }
    nothing = {"region": [], "len": []}
    with pytest.raises(ValueError, match=r"keys is needed, with all levels of 'region'"):
        read(says, nothing, signed=True)
    release = read(says, nothing, signed=True, keys={"region": ["a", "b"]})
    assert np.isnan(release.values).tolist() == [True, True]
