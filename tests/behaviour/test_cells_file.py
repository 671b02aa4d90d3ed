"""A CSV or Parquet file of cells and a TOML file that names its columns."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app
from noiseaware.documents.cells_file import read_cells, write_cells

TABLE = """area,region,noisy,sd,people,income,limit
a,north,14,2,100,0.1,3
b,north,,2,200,0.4,3
c,south,25,3.5,150,-0.2,4
d,west,9,2,80,1.1,3
"""
MODEL = """
type = "CountRegression"
features = ["income"]
exposure = "people"
groups = ["region"]

[cells]
value = "noisy"
law = "discrete gaussian"
sd = "sd"
threshold = "limit"
name = "area"
"""


@pytest.fixture
def files(tmp_path):
    def make(table=TABLE, model=MODEL, name="cells.csv"):
        (tmp_path / name).write_text(table)
        (tmp_path / "cells.toml").write_text(model)
        return tmp_path / name, tmp_path / "cells.toml"

    return make


def test_columns_become_a_release_and_a_model(files):
    release, described, frame, notes = read_cells(*files())
    np.testing.assert_array_equal(release.values, [14, np.nan, 25, 9])
    assert release.names == ("a", "b", "c", "d")
    assert type(release.mechanism) is na.mechanisms.LocalDiscreteGaussian
    assert release.mechanism.scale.tolist() == [2, 2, 3.5, 2]
    assert release.mechanism.threshold.tolist() == [3, 3, 4, 3]
    model = described.model
    assert list(model.features) == ["income"]
    assert model.exposure.tolist() == [100, 200, 150, 80]
    assert model.factors[0].levels == ["north", "south", "west"]
    assert notes == [
        "2 of the 3 groups of 'region' with one cell: its effect is known from that cell, and from "
        "the spread of the others"
    ]
    assert len(frame) == 4


@pytest.mark.parametrize(
    ("law", "kind"),
    [
        ('law = "laplace"\nscale = 3.0', "LocalLaplace"),
        ('law = "LocalGaussian"\nscale = "sd"\nthreshold = 2', "LocalGaussian"),
        ('law = "kind"\nvariance = 9.0', "LocalGeometric"),
    ],
)
def test_other_laws(files, law, kind):
    lines = TABLE.splitlines()
    table = "\n".join([lines[0] + ",kind", *(line + ",geometric" for line in lines[1:])])
    model = f'type = "CountRegression"\n[cells]\nvalue = "noisy"\n{law}\n'
    release = read_cells(*files(table, model)).release
    assert type(release.mechanism).__name__ == kind


def test_rounded_cells(files):
    model = 'type = "CountRegression"\n[cells]\nvalue = "n"\nlaw = "RandomRounding"\nbase = 3\n'
    release = read_cells(*files("n\n3\n0\n\n6\n", model)).release
    assert release.mechanism.base == 3
    assert len(release.values) == 3  # pandas leaves out an empty line


BAD = [
    (("a,north,14,2", "a,north,14,0"), None, "cells.csv, line 2 .a.: sd must be above 0; got 0"),
    (
        ("c,south,25,3.5", "c,south,25,"),
        None,
        "cells.csv, line 4 .c.: .*; got nan .*sd is column 'sd'",
    ),
    (("d,west,9", "d,west,9.5"), None, "line 5 .d.: .*integers .*; got 9.5 .*column 'noisy'"),
    (("d,west,9", "d,west,2"), None, "line 5 .d.: .* above the threshold or NaN; got 2.0"),
    (
        ("d,west,9", "d,west,many"),
        None,
        "^cells.csv, line 5 .d.: noisy must be a number; got 'many'$",
    ),
    (
        ("150,-0.2", '"12,345",-0.2'),
        None,
        "^cells.csv, line 4 .c.: people must be a number; got '12,345' .remove the thousands",
    ),
    (("d,west,9", "\n\nd,west,many"), None, "^cells.csv, line 7 .d.: noisy must be a number"),
    (("80,1.1", "80,"), None, "line 5 .d.: .* column 'income' has nan$"),
    (("150,-0.2", "0,-0.2"), None, "line 4 .c.: exposure must be positive; got 0.0$"),
    (("b,north,", "b,,"), None, "line 3 .b.: groups must have a label in every row$"),
    (None, ('"income"', '"incme"'), "features names the column 'incme'.*did you mean 'income'"),
    (None, ('value = "noisy"', ""), "value is missing in .cells."),
    (None, ("[cells]", "[other]"), "cells is missing"),
    (None, ('sd = "sd"', 'sdd = "sd"'), "unknown key 'sdd' in .cells.; did you mean 'sd'"),
    (None, ('"discrete gaussian"', '"cauchy"'), "law must be laplace"),
    (None, ('"discrete gaussian"', '"Laplace"'), "cells.toml: law .*; did you mean 'laplace'"),
    (None, ("discrete gaussian", "DiscreteGaussian"), "did you mean 'discrete gaussian'"),
    (
        None,
        ('name = "area"', 'nmae = "area"'),
        "unknown key 'nmae' in .cells.; did you mean 'name'",
    ),
    (None, ('["income"]', '["region"]'), "line 2 .a.: region .* 'north' .a column of labels goes"),
]


@pytest.mark.parametrize(("table", "model", "words"), BAD)
def test_bad_input_is_one_line_that_names_column_and_row(files, table, model, words):
    with pytest.raises(ValueError, match=words) as caught:
        read_cells(
            *files(
                TABLE.replace(*table) if table else TABLE, MODEL.replace(*model) if model else MODEL
            )
        )
    assert "\n" not in str(caught.value)


TABLES = {
    "no rows": (TABLE.splitlines()[0] + "\n", "cells.csv has no rows"),
    "semicolons": (TABLE.replace(",", ";"), "the columns seem to be separated by ;"),
    "tabs": (TABLE.replace(",", "\t"), "the columns seem to be separated by tabs"),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_cannot_be_used(files, table):
    text, words = TABLES[table]
    with pytest.raises(ValueError, match=words):
        read_cells(*files(text))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cells.xlsx", "a table must end in .csv or .parquet"),
        ("cells.txt", "a table must end in .csv or .parquet"),
        ("release.json", "[cells] is for a table; "),
    ],
)
def test_a_file_of_another_kind(files, tmp_path, name, words):
    release = na.Release([3.0], na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0), 9)
    text = json.dumps(release.to_dict()) if name.endswith("json") else TABLE
    cells, model = files(text, name=name)
    out = str(tmp_path / "out.nc")
    result = CliRunner().invoke(app, ["fit", str(cells), "--model", str(model), "--out", out])
    assert result.exit_code == 3
    assert words in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ('law = "laplace"\nscale = 3.0', "; if small numbers were withheld, give threshold"),
        ('law = "RandomRounding"\nbase = 2', None),
        ('law = "laplace"\nscale = 3.0\nthreshold = 2.0', None),
    ],
)
def test_empty_cells_without_a_threshold_are_told(files, law, words):
    model = f'type = "CountRegression"\n[cells]\nvalue = "noisy"\n{law}\n'
    notes = read_cells(*files(TABLE.replace("25", "24").replace(",9,", ",8,"), model)).notes
    said = "1 of 4 cells are empty and taken as not asked for"
    if "threshold" in law:
        assert notes == []
    else:
        assert notes == [said + (words or "")]


def test_a_column_of_labels_is_no_feature():
    for features in (pd.DataFrame({"side": ["N", "S"]}), {"side": ["N", "S"]}):
        with pytest.raises(TypeError, match=r"column 'side'.*'N'.*a column of labels goes into gr"):
            na.models.CountRegression(features)


def test_the_command(files, tmp_path):
    cells, model = files()
    out, better = tmp_path / "posterior.nc", tmp_path / "better.csv"
    arguments = ["fit", str(cells), "--model", str(model), "--out", str(out), "--seed", "1"]
    arguments += ["--draws", "30", "--warmup", "30", "--chains", "2", "--estimates", str(better)]
    arguments += ["--report", str(tmp_path / "report.html")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 1), result.output
    assert "2 of the 3 groups" in result.output
    assert "The release: 4 cells; the privacy promise is not part of the table." in result.output
    table = pd.read_csv(better)
    assert list(table.columns[:7]) == TABLE.splitlines()[0].split(",")
    assert list(table.columns[7:]) == [
        f"estimate_{name}" for name in ("mean", "sd", "lower", "upper", "noise_share")
    ]
    page = (tmp_path / "report.html").read_text()
    assert 'id="cells"' in page
    assert "naive analysis is not computed for tables of cells; compare the column" in page
    assert page.count("No promise can be stated") == 1
    assert "the promise also holds for this page" not in page
    assert "it is not computed for this model" in page
    assert "update_parameters" not in page
    assert "noisy numbers about 4 confidential cells" in page
    assert "What was asked of 4 cells" in page
    assert "probability of being among the 4 largest" in page
    found = na.estimates(na.load(out))
    assert found["name"].tolist() == list("abcd")
    np.testing.assert_allclose(table["estimate_mean"], found["mean"])


def test_pictures():
    from matplotlib.figure import Figure

    n = 60
    mechanism = na.mechanisms.LocalGaussian(na.queries.Value(), scale=3.0, threshold=0.0)
    values = np.where(np.arange(n) % 7 == 0, np.nan, np.exp(np.linspace(1.0, 8.0, n)))
    for m, kept, pictures in ((n, 5, 3), (20, 0, 2)):
        release = na.Release(values[:m], mechanism, m)
        posterior = na.sample(
            na.models.CountRegression(family="negative-binomial"), release, draws=10, warmup=10,
            chains=2, keep_records=kept, random_seed=1, progressbar=False,
        )  # fmt: skip
        axes = Figure().subplots(pictures)
        assert len(na.plot_estimates(posterior, axes=axes, top=5)) == pictures
        assert all(ax.get_title(loc="left") for ax in axes)
        handles = axes[0].get_legend_handles_labels()[1]
        assert handles[-1] == f"released ({np.isnan(values[:m]).sum()} were not)"
        assert (axes[0].get_yscale() == "asinh") == (m == n)


def test_estimates_of_a_frame():
    polars = pytest.importorskip("polars")
    release = na.Release([3.0, 8.0], na.mechanisms.LocalGaussian(na.queries.Value(), scale=2.0), 2)
    posterior = na.sample(
        na.models.CountRegression(), release, draws=10, warmup=10, chains=2, random_seed=1,
        progressbar=False,
    )  # fmt: skip
    for frame in (pd.DataFrame({"sd": [2.0, 2.0]}), polars.DataFrame({"sd": [2.0, 2.0]})):
        made = na.estimates(posterior, frame)
        assert type(made) is type(frame)
        assert list(made.columns)[:2] == ["sd", "estimate_mean"]
    with pytest.raises(ValueError, match=r"frame must have 2 rows, .*; it has 1"):
        na.estimates(posterior, pd.DataFrame({"sd": [2.0]}))
    with pytest.raises(ValueError, match="a column 'estimate_mean' already"):
        na.estimates(posterior, made)


def test_estimates_need_cells(files, tmp_path):
    result = CliRunner().invoke(
        app, ["fit", "release.json", "-m", "m.toml", "-o", str(tmp_path / "p.nc"), "-e", "e.csv"]
    )
    assert result.exit_code == 3
    assert "--estimates needs a table of cells" in result.output


def test_parquet_and_polars(files, tmp_path):
    polars = pytest.importorskip("polars")
    csv, model = files()
    frame = polars.read_csv(csv)
    write_cells(frame, tmp_path / "cells.parquet")
    one, other = read_cells(tmp_path / "cells.parquet", model), read_cells(csv, model)
    assert one.release.to_dict() == other.release.to_dict()
    assert one.described.model.to_dict() == other.described.model.to_dict()
    write_cells(other.frame, tmp_path / "again.parquet")
    assert polars.read_parquet(tmp_path / "again.parquet")["people"].to_list() == [
        100,
        200,
        150,
        80,
    ]
    write_cells(frame, tmp_path / "again.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "again.csv"), other.frame)
