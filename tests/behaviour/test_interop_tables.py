"""Files of cells: the 2020 Census's noisy measurements, the Detailed DHC-A, and plain tables."""

import csv
import json
import math

import numpy as np
import pytest

import noiseaware as na
from mutants.planting import Edit, planted

census, tables = na.interop.census, na.interop.tables
VARIABLES = ("hhgq", "votingage", "hispanic", "cenrace")
PLACE = "05000000001"


def row(name, specs, shape, value, variance, sign=None, place=PLACE):
    entered = dict(zip(VARIABLES, specs, strict=True))
    return {
        "geocode": place,
        "query_name": name,
        **entered,
        "query_shape": shape,
        "value": value,
        "variance": variance,
        "sign": sign,
    }


ROWS = [
    row("total_dpq", "****", [1, 1, 1, 1], [51], 4.0),
    row("hhinstlevels_dpq", ["hhinstlevels", *"***"], [3, 1, 1, 1], [48, -2, 6], 9.0),
    row("hhgq_dpq", ["hhgq", *"***"], [8, 1, 1, 1], [44, 1, 0, 3, -1, 2, 0, 0], 16.0),
    row("votingage * hispanic_dpq", ["*", *VARIABLES[1:3], "*"], [1, 2, 2, 1], [9, 4, 30, 8], 25.0),
    row("hispanic_dpq", ["*", "*", "hispanic", "*"], [1, 1, 2, 1], [41, 11], 36.0),
    row("nurse_nva_0_con", ["gqNursingTotal", "nonvoting", "*", "*"], [1, 1, 1, 1], [0], 0.0, "="),
    row("hispanic_dpq", ["*", "*", "hispanic", "*"], [1, 1, 2, 1], [7, 7], 36.0, place="other"),
]  # fmt: skip


def write_csv(path, mark=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, ROWS[0], delimiter=mark)
        out.writeheader()
        out.writerows(ROWS)


def write_lines(path):
    path.write_text("\n".join(json.dumps(each) for each in ROWS), encoding="utf-8")


def write_parquet(path):
    pytest.importorskip("pyarrow", reason="pandas reads Parquet with pyarrow")
    import pandas

    pandas.DataFrame(ROWS).to_parquet(path)


def write_folder(path):
    """As the Bureau publishes them: partitions, of which those without constraints lack `sign`."""
    pytest.importorskip("pyarrow", reason="pandas reads Parquet with pyarrow")
    import pandas

    frame = pandas.DataFrame(ROWS)
    noisy = frame["sign"].isna()
    for kind, part in (
        ("DPQuery", frame[noisy].drop(columns="sign")),
        ("Constraint", frame[~noisy]),
    ):
        folder = path / kind / "State=50"
        folder.mkdir(parents=True)
        part.to_parquet(folder / "part-0.parquet")


FILES = {
    "file.csv": write_csv,
    "piped.csv": lambda path: write_csv(path, "|"),
    "file.jsonl": write_lines,
    "file.parquet": write_parquet,
    "County.parquet": write_folder,
}


@pytest.mark.parametrize("name", FILES)
def test_a_measurement_file_is_read_whatever_it_is_written_in(name, tmp_path):
    FILES[name](tmp_path / name)
    found = census.read(tmp_path / name, geocode=PLACE)
    assert sorted(one.query for one in found) == sorted(one["query_name"] for one in ROWS[:6])
    asked = ["votingage * hispanic", "hispanic_dpq"]
    table, margin = census.read(tmp_path / name, geocode=PLACE, queries=asked)
    assert (table.variables, table.shape, table.variance) == (("votingage", "hispanic"), (2, 2), 25)
    assert table.values.tolist() == [9, 4, 30, 8]
    assert margin.values.tolist() == [41, 11]
    (constraint,) = census.read(tmp_path / name, queries=["nurse_nva_0_con"])
    assert (constraint.sign, constraint.values.tolist()) == ("=", [0])


def test_measurements_are_one_joint_release(tmp_path):
    write_lines(tmp_path / "file.jsonl")
    rows = census.read(tmp_path / "file.jsonl", PLACE, ["votingage * hispanic", "hispanic"])
    release = census.release(rows, n_records=50)
    assert release.names == (
        "votingage * hispanic: votingage=0,hispanic=0",
        "votingage * hispanic: votingage=0,hispanic=1",
        "votingage * hispanic: votingage=1,hispanic=0",
        "votingage * hispanic: votingage=1,hispanic=1",
        "hispanic: hispanic=0",
        "hispanic: hispanic=1",
    )
    people = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [10, 3, 29, 8], axis=0)
    total = release.query.statistic(people).sum(axis=0)
    assert total.tolist() == [10, 3, 29, 8, 39, 11]
    log_g = release.mechanism.log_density(release.values, total)
    assert log_g == pytest.approx(-(1 + 1 + 1 + 0) / (2 * 25.0) - (4 + 0) / (2 * 36.0))
    assert release.mechanism.guarantee.neighbours == "change"
    assert na.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()


def test_exact_rows_are_the_number_of_people_and_exact_margins(tmp_path):
    path = tmp_path / "file.jsonl"
    exact = [
        row("total_con", "****", [1, 1, 1, 1], [50], 0.0, "="),
        row("hispanic_con", ["*", "*", "hispanic", "*"], [1, 1, 2, 1], [39, 11], 0.0, "="),
    ]
    path.write_text("\n".join(json.dumps(each) for each in [ROWS[3], *exact]), encoding="utf-8")
    rows = census.read(path)
    release = census.release(rows)
    assert release.n_records == 50
    people = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [10, 3, 29, 8], axis=0)
    total = release.query.statistic(people).sum(axis=0)
    log_g = release.mechanism.log_density
    assert log_g(release.values, total) == pytest.approx(-3 / (2 * 25.0))
    assert log_g(release.values, total + np.array([0, 0, 0, 0, 1, -1])) == -math.inf
    with pytest.raises(ValueError, match="n_records must be 50, as total_con says"):
        census.release(rows, n_records=51)
    with pytest.raises(ValueError, match="must hold a noisy row"):
        census.release(rows[1])


def test_groups_of_a_variable_and_an_unknown_number_of_people(tmp_path):
    write_lines(tmp_path / "file.jsonl")
    rows = census.read(tmp_path / "file.jsonl", PLACE, ["total", "hhinstlevels"])
    release = census.release(rows)
    assert release.n_records is None
    assert release.query.statistic(np.array([0, 2, 2])).sum(axis=0).tolist() == [3, 1, 0, 2]
    posterior = na.sample(
        na.models.Categorical(3), release, size=na.sizes.Uniform(30, 80), draws=60, warmup=60,
        chains=1, random_seed=1, progressbar=False,
    )  # fmt: skip
    assert 40 < float(posterior["posterior"]["n_records"].mean()) < 62


def test_what_cannot_be_read_of_measurements(tmp_path):
    path = tmp_path / "file.jsonl"
    write_lines(path)
    everything = census.read(path)
    by_name = {one.query: one for one in everything if one.geocode == PLACE}
    both = [by_name["hhgq_dpq"], by_name["hhinstlevels_dpq"]]
    for words, call in {
        "one area": lambda: census.release(everything),
        "one form; got hhgq and hhinstlevels": lambda: census.release(both),
        "one level of hhgq only": lambda: census.release(by_name["nurse_nva_0_con"]),
        "is a bound": lambda: census.release(by_name["hispanic_dpq"]._replace(sign="<=")),
        "at least one row": lambda: census.release([]),
        "queries must be among": lambda: census.read(path, queries=["sex"]),
        "geocode must be in the file": lambda: census.read(path, "nowhere"),
        "variables must be 4 columns": lambda: census.read(path, variables=["hispanic"]),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()
    bad = {**ROWS[4], "value": [1, 2, 3]}
    path.write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(ValueError, match="must hold 2 counts; got 3"):
        census.read(path)
    path.write_text(json.dumps({**ROWS[4], "variance": 0}), encoding="utf-8")
    with pytest.raises(ValueError, match="variance must be above 0"):
        census.read(path)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the column 'geocode'"):
        census.read(path)


HEAD = "GEO_ID,NAME,POPGROUP,POPGROUP_LABEL,T01001_001N\n"
LABELS = 'Geography,Geographic Area Name,"Group code","Population group"," !!Total:"\n'
CELLS = (
    '0500000US50001,"Addison County, Vermont",1114,German,"1,204"\n0500000US50003,B,1114,German,\n'
)


def test_the_detailed_dhc_a(tmp_path):
    table = tmp_path / "DECENNIALDDHCA2020.T01001-Data.csv"
    table.write_text("\ufeff" + HEAD + LABELS + CELLS, encoding="utf-8")
    answer = tmp_path / "ddhca.json"
    answer.write_text(json.dumps([["NAME", "T01001_001N"], ["A", "1204"], ["B", None]]))
    for path in (table, answer):
        release = census.detailed(path, moe=11.0, threshold=22)
        assert release.values[0] == 1204
        assert np.isnan(release.values[1])
        assert release.mechanism.scale == pytest.approx(11.0 / 1.644854, rel=1e-6)
        assert release.mechanism.threshold == 22
        each = census.detailed(path, variance=[4.0, 9.0])
        assert each.mechanism.scale.tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="one of the two"):
        census.detailed(table)


PLAIN = "name,value,{noise},law,threshold\nnorth,140,{a},{law},90\nsouth,,{b},{law},90\n"
LAWS = {
    "laplace": (na.mechanisms.LocalLaplace, "laplace"),
    "Gaussian": (na.mechanisms.LocalGaussian, "gaussian"),
    "geometric": (na.mechanisms.LocalGeometric, "discrete laplace"),
    "discrete_gaussian": (na.mechanisms.LocalDiscreteGaussian, "discrete gaussian"),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_plain_table(law, tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text(PLAIN.format(noise="scale", a=10, b=20, law=law), encoding="utf-8")
    release = tables.release(path)
    kind, _ = LAWS[law]
    expected = kind(na.queries.Value(), scale=[10.0, 20.0], threshold=[90.0, 90.0])
    named = na.Release([140, math.nan], expected, 2, ["north", "south"])
    assert release.to_dict() == named.to_dict()
    assert tables.release(path, name="none of these").names == ("record 0", "record 1")
    assert na.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()


@pytest.mark.parametrize("law", LAWS)
def test_a_standard_deviation_is_turned_into_the_scale(law):
    """The standard deviation of the noise that is read, by summing its law, is what was given."""
    kind, name = LAWS[law]
    for sd in (0.95, 3.0, 40.0):
        table = {"value": [1.0, 2.0], "law": [law, law], "sd": [sd, sd]}
        scale = tables.release(table).mechanism.scale
        squared = {"value": [1.0, 2.0], "law": [name, name], "variance": [sd**2, sd**2]}
        assert tables.release(squared).mechanism.scale == pytest.approx(scale)
        step = 1.0 if kind.discrete else sd / 200
        e = np.arange(-40 * sd // step, 40 * sd // step + 1) * step
        z = np.abs(e) / scale
        mass = np.exp(-0.5 * z**2) if "aussian" in law else np.exp(-z)
        assert math.sqrt((mass * e**2).sum() / mass.sum()) == pytest.approx(sd, rel=1e-4)


def test_what_is_wrong_with_a_table():
    good = {"value": [1, 2], "scale": [3.0, 3.0], "law": ["laplace"] * 2}
    assert tables.release(good).mechanism.scale == 3.0
    for words, change in {
        "law must be": {"law": ["cauchy", "laplace"]},
        "several laws": {"law": ["gaussian", "laplace"]},
        "scale must be above 0; got 0 in row 1": {"scale": [1.0, 0.0]},
        "scale must be numbers": {"scale": ["a", 1]},
        "one of the columns": {"sd": [1.0, 2.0]},
        "so small a standard deviation": {
            "scale": None, "sd": [0.5, 0.5], "law": ["discrete gaussian"] * 2,
        },
    }.items():  # fmt: skip
        table = {key: entry for key, entry in {**good, **change}.items() if entry is not None}
        with pytest.raises(ValueError, match=words):
            tables.release(table)
    with pytest.raises(ValueError, match="must have a column 'value'"):
        tables.release({"scale": [1.0]}, law="laplace")
    with pytest.raises(TypeError, match="table must be a path"):
        tables.release([1, 2])


BUGS = {
    "a variance taken for a scale": (
        Edit(census, "release", "math.sqrt(row.variance)", "row.variance"),
        lambda path: test_measurements_are_one_joint_release(path),
    ),
    "groups of a variable taken for another variable": (
        Edit(census, "_levels", "groups.setdefault(variable, group) != group", "False"),
        lambda path: test_what_cannot_be_read_of_measurements(path),
    ),
    "the margin of error taken for the standard deviation": (
        Edit(census, "detailed", "np.asarray(moe, float) / MOE", "np.asarray(moe, float)"),
        lambda path: test_the_detailed_dhc_a(path),
    ),
    "the standard deviation of Laplace noise taken for its scale": (
        Edit(tables, "scale_of", "sd / math.sqrt(2.0)", "sd"),
        lambda path: test_a_standard_deviation_is_turned_into_the_scale("laplace"),
    ),
    "the discrete Laplace taken for the continuous one": (
        Edit(tables, "scale_of", "1.0 / np.arccosh(1.0 + 1.0 / np.square(sd))", "sd / 2**0.5"),
        lambda path: test_a_standard_deviation_is_turned_into_the_scale("geometric"),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, tmp_path):
    edit, check = BUGS[bug]
    with planted(edit), pytest.raises((AssertionError, pytest.fail.Exception)):
        check(tmp_path)


# ------------------------------------------------------------------ all levels of geography


def county(tmp_path, exact=31):
    """A county of two tracts with two blocks each: totals, and voting age of tracts and blocks."""
    lines = []

    def put(code, name, form, value, **more):
        row = {"geocode": code, "query_name": name, "votingage": form, "hispanic": "*"}
        row |= {
            "query_shape": [1 if form == "*" else 2, 1],
            "value": value,
            "variance": 9.0,
            **more,
        }
        lines.append(json.dumps(row))

    put("36", "total_dpq", "*", [33])
    put("36", "total_con", "*", [exact], sign="=", variance=None)
    for code, people in (
        ("361", 21),
        ("362", 8),
        ("3611", 15),
        ("3612", 4),
        ("3621", -2),
        ("3622", 9),
    ):
        put(code, "votingage_dpq", "votingage", [people // 4, people - people // 4])
    path = tmp_path / "county.jsonl"
    path.write_text("\n".join(lines))
    return census.hierarchy(census.read(path))


def test_all_levels_of_a_county_are_sums_of_one_table(tmp_path):
    place = county(tmp_path)
    assert place.areas == ("3611", "3612", "3621", "3622")
    assert (place.n_levels, place.variables) == ([4, 2], ["area", "votingage"])
    assert place.within("361").tolist() == [0, 1]
    noisy, exact = place.release.mechanism.mechanisms
    x = np.arange(8).reshape(4, 2) ** 2
    blocks = [[x[:2].sum(axis=0)], [x[2:].sum(axis=0)], x]
    expected = np.concatenate([[x.sum()], *(np.ravel(part) for part in blocks)])
    np.testing.assert_array_equal(noisy.query.matrix @ x.ravel(), expected)
    np.testing.assert_array_equal(exact.query.matrix @ x.ravel(), [x.sum()])
    assert set(np.asarray(noisy.scale)) == {3.0}
    assert place.release.values.tolist()[-2:] == [7.0, 31.0]


def test_every_draw_of_a_county_adds_up(tmp_path):
    place = county(tmp_path)
    model = na.models.PoissonTable(place.n_levels, rate=0.2, variables=place.variables)
    drawn = na.sample(model, place.release, draws=50, warmup=50, chains=1, progressbar=False)
    counts = drawn["posterior"]["counts"].values
    assert (counts >= 0).all()
    assert (counts == np.rint(counts)).all()
    assert (counts.sum(axis=(-2, -1)) == 31).all()


def test_a_county_that_cannot_be_is_told(tmp_path):
    model = na.models.PoissonTable([4, 2])
    with pytest.raises(ValueError, match="no nonnegative integers"):
        na.sample(model, county(tmp_path, exact=-1).release, progressbar=False)
    row = census.Measurement("36", "total_dpq", (), (), (), np.array([3.0]), 9.0)
    with pytest.raises(ValueError, match="two areas at least; got 36"):
        census.hierarchy([row])
    with pytest.raises(ValueError, match="at least one row"):
        census.hierarchy([])
