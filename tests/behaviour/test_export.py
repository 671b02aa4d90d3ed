"""Draws as tables and as a posterior database: what is written is what was drawn."""

import csv
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import noiseaware as na
from noiseaware.cli import app

MECHANISM = na.mechanisms.Laplace(na.queries.Histogram(n_levels=3), epsilon=1.0)
RELEASE = na.Release([61.0, 24.5, 14.0], MECHANISM, n_records=100)
MODEL = na.models.Categorical(n_levels=3)


@pytest.fixture(scope="module")
def posterior():
    return na.sample(
        MODEL, RELEASE, draws=30, warmup=20, chains=2, random_seed=1, progressbar=False
    )


def test_a_row_for_each_draw(posterior):
    frame = na.to_frame(posterior)
    expected = posterior["posterior"]["probabilities"].values
    assert list(frame.columns[:2]) == ["chain", "draw"]
    assert list(frame.columns[2:]) == list(na.summary(posterior).index)
    for row in (0, 29, 30, 59):
        chain, draw = frame.loc[row, ["chain", "draw"]].astype(int)
        np.testing.assert_array_equal(frame.iloc[row, 2:].astype(float), expected[chain, draw])


def test_polars_has_the_same(posterior):
    pytest.importorskip("polars")
    made = na.to_frame(posterior, as_frame="polars")
    assert made.columns == list(na.to_frame(posterior).columns)
    np.testing.assert_array_equal(made.to_numpy(), na.to_frame(posterior).to_numpy())


def test_csv_has_all_digits(posterior, tmp_path):
    na.write_draws(posterior, tmp_path / "draws.csv")
    names, *rows = csv.reader((tmp_path / "draws.csv").read_text().splitlines())
    frame = na.to_frame(posterior)
    assert names == list(frame.columns)
    np.testing.assert_array_equal(np.array(rows, dtype=float), frame.to_numpy())


def test_parquet(posterior, tmp_path):
    pytest.importorskip("pyarrow")
    na.write_draws(posterior, tmp_path / "draws.parquet")
    read = pd.read_parquet(tmp_path / "draws.parquet")
    pd.testing.assert_frame_equal(read, na.to_frame(posterior), check_exact=True)


def test_what_cannot_be_written(posterior, tmp_path):
    with pytest.raises(ValueError, match=r"path must end in .csv or .parquet; got .*draws.xlsx"):
        na.write_draws(posterior, tmp_path / "draws.xlsx")
    with pytest.raises(ValueError, match='as_frame must be "pandas" or "polars"; got None'):
        na.to_frame(posterior, as_frame=None)
    with pytest.raises(TypeError, match="posterior must be a posterior"):
        na.to_frame(RELEASE)
    with pytest.raises(ValueError, match="name must be letters, digits"):
        na.to_posteriordb(posterior, tmp_path, "../other")
    own = posterior.copy()
    own.attrs = {**posterior.attrs, "model_json": ""}
    with pytest.raises(ValueError, match="the posterior's model is a class of your own"):
        na.to_posteriordb(own, tmp_path, "own")


def zipped(path):
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == [path.name.removesuffix(".zip")]
        return json.loads(file.read(file.namelist()[0]))


def test_a_posterior_database(posterior, tmp_path):
    made = na.to_posteriordb(posterior, tmp_path, "three-levels")
    about = json.loads(made.read_text())
    assert about["name"] == "three-levels"
    assert about["dimensions"] == {"probabilities": 3}
    data = zipped(tmp_path / "data/data/three-levels.json.zip")
    assert na.Release.from_dict(data).to_dict() == RELEASE.to_dict()
    code = json.loads((tmp_path / "models/info/three-levels.info.json").read_text())
    code = tmp_path / code["model_implementations"]["noiseaware"]["model_code"]
    assert na.models.from_dict(json.loads(code.read_text())).to_dict() == MODEL.to_dict()
    draws = zipped(tmp_path / "reference_posteriors/draws/draws/three-levels.json.zip")
    frame = na.to_frame(posterior)
    assert len(draws) == 2
    for chain, columns in enumerate(draws):
        part = frame[frame["chain"] == chain].drop(columns=["chain", "draw"])
        np.testing.assert_array_equal(pd.DataFrame(columns).to_numpy(), part.to_numpy())
    how = json.loads(
        (tmp_path / "reference_posteriors/draws/info/three-levels.info.json").read_text()
    )
    assert how["inference"]["method_arguments"]["random_seed"] == "1"
    assert set(how["checks_made"]) == set(how["diagnostics"])


def test_the_command(posterior, tmp_path):
    na.save(posterior, tmp_path / "posterior.nc")

    def run(*words):
        words = ["export", tmp_path / "posterior.nc", *words]
        return CliRunner().invoke(app, [str(word) for word in words])

    result = run("--out", tmp_path / "draws.csv")
    assert result.exit_code == 0, result.output
    assert "2 chains of 30 draws" in result.stdout
    assert len(pd.read_csv(tmp_path / "draws.csv")) == 60
    result = run("--out", tmp_path / "base", "--posteriordb", "a")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "base/posteriors/a.json").exists()
    for words in (("--out", tmp_path / "a.xls"), ("--out", tmp_path, "--posteriordb", "a b")):
        result = run(*words)
        assert result.exit_code == 3
        assert result.stderr.count("\n") == 1
