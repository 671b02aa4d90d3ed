"""`noiseaware reproduce` in its smallest form, its words, and the numbers of the paper."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from behaviour.browser import DESK, PHONE, assert_page_is_whole, open_browser
from noiseaware.cli import app
from noiseaware_paper import published, reproduce, run, tables, verdicts
from noiseaware_paper.page import Section
from noiseaware_paper.settings import SIZES, experiments

# ------------------------------------------------------------------ the paper's numbers

# As the paper's source has them: rows of Table 1 and Table 2, epsilon first.
TABLE_1 = """
.1&1&1&1&.36&1
.3&.97&1&1&.59&1
1&.94&.99&.97&.83&.98
3&.95&.91&.97&.89&.93
10&.92&.88&.94&.92&.9
"""
TABLE_2 = """
0.1 & .99 & .60 & .99
0.3 & 1 & .66 & .94
1 & 1 & .84 & .80
3 & 1 & .84 & .75
10 & .93 & .87 & .85
"""


@pytest.mark.parametrize(
    ("text", "table"), [(TABLE_1, published.TABLE_1), (TABLE_2, published.TABLE_2)]
)
def test_published_tables(text, table):
    rows = [[float(cell) for cell in line.split("&")] for line in text.split("\n") if line]
    assert tuple(row[0] for row in rows) == published.EPSILONS
    assert tuple(tuple(row[1:]) for row in rows) == table


def test_published_settings():
    numbers = "p_1=.097 & p_2=.148 & p_3=.145 & p_4=.446 & p_5 = .163"
    assert tuple(map(float, re.findall(r"= ?(\.\d+)", numbers))) == published.CLASS_PROBABILITIES
    numbers = "beta_0 = -1.79  & beta_1 = -2.89 & beta_2  = -0.66"
    assert tuple(map(float, re.findall(r"= (-\d\.\d+)", numbers))) == published.COEFFICIENTS
    assert published.FEATURE_MEAN == (0.9, -1.17)
    p = published.FEATURES
    assert p**2 + 3 * p + 3 == published.SENSITIVITY  # Delta in section 5
    assert (published.N_RECORDS, published.N_CLASSES, published.N_FEATURES) == (100, 5, 5)
    assert (published.N_LEVELS, published.CONCENTRATION) == (3, 2.0)
    assert (published.NOISE_VARIANCE, published.COEFFICIENT_SD) == (2.0, 2.0)
    assert (published.LOWER, published.UPPER, published.INTERVAL) == (-10.0, 10.0, 0.9)
    assert (published.ITERATIONS, published.BURN_IN, published.REPLICATES) == (10_000, 5_000, 100)
    assert published.SECONDS_A_CHAIN == {"regression": 330.0, "naive_bayes": 404.0}


def test_the_experiments_are_the_papers():
    naive_bayes, regression = experiments()
    for epsilon in published.EPSILONS:
        assert naive_bayes.mechanism(epsilon).scale == pytest.approx(2 * 5 / epsilon)
        assert naive_bayes.mechanism(epsilon).guarantee.pure_epsilon == pytest.approx(epsilon)
        # the paper's Delta is larger than the sensitivity: more privacy than it says
        assert regression.mechanism(epsilon).scale == pytest.approx(13 / epsilon)
        assert regression.mechanism(epsilon).guarantee.pure_epsilon < epsilon
    assert [p.name for p in regression.model.parameters] == ["coefficients"]
    assert len(naive_bayes.mechanism(1.0).query.names) == 75
    sampler = SIZES["full"].samplers["algorithm1"]
    assert (sampler.warmup, sampler.draws, sampler.chains) == (5000, 5000, 1)


# ------------------------------------------------------------------ a run, as small as can be


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduced")
    words = ["reproduce", "--smallest", "--out", str(out), "--quiet", "--cores", "1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert str(out / "reproduced.html") in result.output
    return out


@pytest.mark.full
def test_everything_is_written(folder):
    names = {path.stem for path in (folder / "figures").iterdir()}
    assert {"limits", "run_time", "imputed", "regression_coverage", "naive_bayes_means"} <= names
    for name in names:
        assert (folder / "figures" / f"{name}.png").read_bytes()[1:4] == b"PNG"
        assert "<svg" in (folder / "figures" / f"{name}.svg").read_text()
    table = pd.read_csv(folder / "tables" / "regression_coverage.csv")
    assert list(table["published"]) == [cell for row in published.TABLE_2 for cell in row]
    assert table[["algorithm1", "default"]].isin([0.0, 0.5, 1.0]).all(axis=None)  # 2 replicates
    chains = pd.read_csv(folder / "tables" / "naive_bayes_means_chains.csv")
    assert len(chains) == 5 * 2 * 2 * 5  # epsilon, replicate, sampler, class
    assert chains["ess"].gt(0).all()


@pytest.mark.full  # it draws every figure again
def test_a_second_run_goes_on_and_does_nothing_twice(folder, monkeypatch):
    before = (folder / "tables" / "regression_coverage_chains.csv").read_text()

    def never(*arguments):
        raise AssertionError("this was done already")

    for task in ("limit_task", "imputed_task", "run_time_task"):
        monkeypatch.setattr(run, task, never)
    monkeypatch.setattr("noiseaware.studies.run.row_of", never)
    reproduce(folder, size="smallest", cores=1, progressbar=False)
    assert (folder / "tables" / "regression_coverage_chains.csv").read_text() == before


@pytest.mark.full
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_opens_in_a_browser(folder, tmp_path, size):
    with open_browser(tmp_path) as driver:
        assert_page_is_whole(driver, folder / "reproduced.html", size)
        text = driver.find_element("tag name", "body").text
    for words in ("What agrees, and what does not", "Table 1", "Table 2", "Figure 1a", "Figure 2"):
        assert words in text
    assert "published .60 .66 .84 .84 .87" in text


@pytest.mark.full
def test_the_page_is_one_file(folder):
    page = (folder / "reproduced.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "nan" not in re.sub(r"base64,[^\"]*", "", page).lower().replace("covariance", "")


@pytest.mark.full
def test_the_same_page_in_markdown(folder):
    page = (folder / "reproduced.md").read_text()
    for path in re.findall(r"\]\((.*?)\)", page):
        assert (folder / path).exists(), path
    assert page.count("\n## ") == 4
    # the first row of Table 2, bold or not
    assert r"| 0.1 | beta\_1 | 0.60 |" in page.replace("**", "")


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="size must be one of full, quick, smallest"):
        reproduce(tmp_path, size="large")
    with pytest.raises(ValueError, match="replicates must be a positive integer"):
        reproduce(tmp_path, replicates=0)


# ------------------------------------------------------------------ the words follow the numbers


def coverage_table(algorithm1, default, ess=20.0):
    rows = []
    for i, epsilon in enumerate(published.EPSILONS):
        for k in range(3):
            rows.append(
                {
                    "epsilon": epsilon,
                    "parameter": f"beta_{k}",
                    "published": published.TABLE_2[i][k],
                    "algorithm1": algorithm1[i][k],
                    "default": default[i][k],
                    "algorithm1_error": 0.04,
                    "default_error": 0.03,
                    "algorithm1_ess": ess,
                    "default_ess": 800.0,
                    "z_published": (algorithm1[i][k] - published.TABLE_2[i][k]) / 0.057,
                    "z_default": (default[i][k] - algorithm1[i][k]) / 0.05,
                }
            )
    return pd.DataFrame(rows)


def test_what_stands_out_is_what_the_words_call_apart():
    """A z of 2.96 is shown as 3.0, but it is not 3 standard errors."""
    table = coverage_table(published.TABLE_2, published.TABLE_2)
    table.loc[0, "z_published"], table.loc[1, "z_published"] = 2.96, -3.01
    section = Section("coverage")
    section.table(tables.shown_coverage(table), "coverage", apart="z from published")
    assert str(section).count('class="apart"') == 1
    assert "<td>3.0</td>" in str(section)
    words = verdicts.coverage_words(experiments()[1], table, SIZES["full"])
    assert "agrees with 14 of the 15" in words[0]


def test_words_when_only_mixing_differs():
    regression = experiments()[1]
    table = coverage_table(published.TABLE_2, np.full((5, 3), 0.92))
    words = " ".join(verdicts.coverage_words(regression, table, SIZES["full"]))
    assert "agrees with 15 of the 15 printed numbers" in words
    assert "for the default sampler (of 400)" in words
    assert "Monte Carlo error of chains that did not mix, not the prior" in words
    assert "beta_1 over epsilon 0.1 0.3 1 3 10: published .60 .66 .84 .84 .87" in verdicts.one_line(
        "beta_1", table
    )


def test_words_when_the_posterior_itself_covers_less():
    regression = experiments()[1]
    table = coverage_table(published.TABLE_2, published.TABLE_2, ess=900.0)
    words = " ".join(verdicts.coverage_words(regression, table, SIZES["full"]))
    assert "what the exact posterior does at this truth" in words
    other = np.array(published.TABLE_2) - 0.3
    words = " ".join(
        verdicts.coverage_words(regression, coverage_table(other, other), SIZES["full"])
    )
    assert "agrees with 0 of the 15" in words
    assert "It does not agree at beta_0 at epsilon 0.1: printed 0.99, here 0.69" in words
