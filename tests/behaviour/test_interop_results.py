"""Wikimedia's files, and frames in the form of PipelineDP's and SmartNoise's results."""

import gzip
import math
from collections import namedtuple
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import laplace, norm

import noiseaware as na
from mutants.planting import Edit, planted

wikimedia, pipeline_dp, smartnoise = (
    na.interop.wikimedia, na.interop.pipeline_dp, na.interop.smartnoise,
)  # fmt: skip

FILES = {
    # As they are published, without a header; a title may hold a quote, and an item be missing.
    "2023-10-01.tsv": "Iceland\tIS\ten.wikipedia\t7\tTidal_power\tQ1\t214\n"
    'Iceland\tIS\ten.wikipedia\t8\t"Moss\t\t95\n'
    "Iceland\tIS\tis.wikipedia\t9\tTidal_power\tQ1\t999\n"
    "Norway\tNO\ten.wikipedia\t7\tTidal_power\tQ1\t555\n",
    "2016-01-01.tsv": 'Iceland\tIS\ten.wikipedia\t\tTidal_power\t4000\n'
    'Iceland\tIS\ten.wikipedia\t\t"Moss\t3700\n',
    "2022-3-1.csv": "country,project,page_id,page_title,item_id,private_count\n"
    "Iceland,en.wikipedia,7,Tidal power,Q1,800\n",
    "2023-2-7.csv": "country,project,page_id,page_title,gbc\n"
    "Iceland,en.wikipedia,7,Tidal power,91\n",
}  # fmt: skip
EXPECTED = {
    "2023-10-01.tsv": ([214, 95, math.nan], "LocalDiscreteGaussian", math.sqrt(10 / 0.03), 90),
    "2016-01-01.tsv": ([4000, 3700, math.nan], "LocalGeometric", 300, 3500),
    "2022-3-1.csv": ([800, math.nan, math.nan], "LocalGeometric", 30, 450),
    "2023-2-7.csv": ([91, math.nan, math.nan], "LocalDiscreteGaussian", math.sqrt(10 / 0.03), 90),
}
PAGES = ["Tidal power", '"Moss', "Coffee"]


@pytest.mark.parametrize("name", FILES)
def test_a_daily_file(name, tmp_path):
    values, kind, scale, threshold = EXPECTED[name]
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(FILES[name].encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        release = wikimedia.release(path, "Iceland", PAGES)
        assert np.array_equal(release.values, values, equal_nan=True)
        assert type(release.mechanism).__name__ == kind
        assert release.mechanism.scale == pytest.approx(scale)
        assert release.mechanism.threshold == threshold
    if name.endswith("tsv"):
        by_code = wikimedia.release(tmp_path / name, "IS", PAGES)
        assert by_code.to_dict() == release.to_dict()


def test_the_noise_of_a_day():
    noise = wikimedia.noise_of
    every = [date(2015, 7, 1) + timedelta(days=k) for k in range(2900)]
    changes = [day for before, day in pairwise(every) if noise(before) != noise(day)]
    assert changes[:2] == [date(2017, 2, 9), date(2023, 2, 6)]
    assert noise("2023-11-13") == wikimedia.HISTORICAL  # made anew
    assert noise("2023-11-14").threshold == 90
    assert noise("2024-2-15", tier="lower") == wikimedia.CURRENT
    assert noise("2024-2-15", tier="medium", scale=90.0).threshold == 550
    for words, call in {
        "2015-7-1 or later": lambda: noise("2015-6-30"),
        "tier is needed": lambda: noise("2024-2-15"),
        "tier must be one of": lambda: noise("2024-2-15", tier="none"),
        "scale is needed": lambda: noise("2024-2-15", tier="higher"),
        "United States": lambda: noise("2023-3-1", "US"),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()


def test_what_is_wrong_with_a_daily_file(tmp_path):
    path = tmp_path / "views.tsv"
    path.write_text(FILES["2023-10-01.tsv"], encoding="utf-8")
    with pytest.raises(ValueError, match="day is needed"):
        wikimedia.release(path, "Iceland", PAGES)
    with pytest.raises(ValueError, match="country and project must be in the file"):
        wikimedia.release(path, "Iceland", PAGES, day="2023-10-1", project="de.wikipedia")
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the columns country"):
        wikimedia.release(path, "Iceland", PAGES, day="2023-10-1")


Metrics = namedtuple("Metrics", ["count", "count_noise_stddev"])


def test_pipeline_dp():
    pairs = [("a", Metrics(10.25, 3.0)), ("b", Metrics(-0.5, 3.0))]
    release = pipeline_dp.release(pairs)
    assert release.mechanism.scale == pytest.approx(3.0 / math.sqrt(2.0))
    assert release.values.tolist() == [10.25, -0.5]
    frame = {"sum": [4.5, 2.0], "sum_noise_stddev": [3.0, 3.0]}
    assert type(pipeline_dp.release(frame, "sum", "gaussian").mechanism).__name__ == "LocalGaussian"
    whole = pipeline_dp.release({"count": [4, 2], "count_noise_stddev": [3.0, 3.0]})
    assert whole.mechanism.step == 1.0
    with pytest.raises(ValueError, match="output_noise_stddev=True"):
        pipeline_dp.release({"count": [4.0]})
    with pytest.raises(ValueError, match="metric must be in every result"):
        pipeline_dp.release(pairs, "sum")


def test_smartnoise():
    rows = [["region", "income"], ["a", 101.5], ["b", None]]
    for law, tail in (("laplace", laplace), ("gaussian", norm)):
        release = smartnoise.release(rows, "income", 12.0, 0.05, law, threshold=20.0)
        assert 2 * tail.sf(12.0, scale=release.mechanism.scale) == pytest.approx(0.05)
        assert np.isnan(release.values[1])
        assert release.mechanism.threshold.tolist() == [20.0, 20.0]
    clamped = smartnoise.release({"n": [0.0, 4.5]}, "n", 3.0, clamped=True)
    assert clamped.mechanism.clamp == (0.0, math.inf)
    assert smartnoise.release({"n": [3, 4]}, "n", 3.0, law="geometric").values.tolist() == [3, 4]
    with pytest.raises(ValueError, match="cuts counts to whole numbers"):
        smartnoise.release({"n": [3, 4]}, "n", 3.0)
    with pytest.raises(ValueError, match="column must be one of n"):
        smartnoise.release({"n": [3, 4]}, "m", 3.0)


BUGS = {
    "rho is taken for the variance": (
        Edit(wikimedia, "noise_of", "float(scale or CURRENT.scale)", "10.0"),
        lambda path: test_a_daily_file("2023-10-01.tsv", path)),
    "a missing page has no views": (
        Edit(wikimedia, "release", "_title(page), np.nan)", "_title(page), 0.0)"),
        lambda path: test_a_daily_file("2023-10-01.tsv", path)),
    "the accuracy is one-sided": (
        Edit(smartnoise, "release", "ndtri(rest / 2.0)", "ndtri(rest)"),
        lambda path: test_smartnoise()),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, tmp_path):
    edit, check = BUGS[bug]
    with planted(edit), pytest.raises((AssertionError, ValueError)):
        check(tmp_path)
