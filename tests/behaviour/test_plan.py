"""`noiseaware plan`: the file, the table, the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import noiseaware as na
from behaviour.looks import overlapping, powers_of_ten
from noiseaware.cli import app
from noiseaware.plan import PlanResult, plan, read_plan

ROOT = Path(__file__).parents[2]
PLAN = """
[plan]
parameter = "probability"
width = 0.3
epsilons = [0.2, 5.0]
n_records = [20]
replicates = 1

[model]
type = "Bernoulli"

[true_parameters]
probability = 0.4

[queries.ones]
type = "Count"

[queries.both]
type = "Histogram"
n_levels = 2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_the_command(file, tmp_path):
    out = tmp_path / "planned"
    words = ["plan", str(file), "--out", str(out), "--quiet", "--cores", "1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "With 20 records: " in result.output
    assert "Without privacy it would be" in result.output
    assert "Naive analysis of 'ones': The noisy numbers taken as exact" in result.output
    assert {p.name for p in out.iterdir()} == {"checkpoint", "plan.csv", "plan.png", "plan.svg"}
    first = (out / "plan.csv").read_text()
    assert first.count("\n") == 1 + 2 * 2 * 3  # query, epsilon, method
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (out / "plan.csv").read_text() == first  # nothing was run again: even times are the same


def test_a_derived_quantity(file):
    """It is planned for like a parameter: its truth, and intervals of its own draws."""
    odds = 'type = "Bernoulli"\nderived = {odds = "probability / (1 - probability)"}'
    text = PLAN.split("[queries.both]")[0].replace('type = "Bernoulli"', odds)
    text = text.replace("epsilons = [0.2, 5.0]", 'epsilons = [5.0]\nbaselines = ["naive"]')
    file.write_text(text.replace('parameter = "probability"', 'parameter = "odds"'))
    table = plan(file, cores=1, progressbar=False).table
    assert set(table["parameter"]) == {"odds"}
    assert table["method"].tolist() == ["noise-aware", "naive"]
    np.testing.assert_allclose(table["true"], 0.4 / 0.6)
    assert (table["width"] > 0.5).all()  # of the share itself, with 20 people, it is below 0.4


@pytest.mark.parametrize(
    "key",
    ["comparators", pytest.param("baselines", marks=pytest.mark.full)],  # the former in 0.1.0
)
def test_only_what_was_asked_for_is_explained(file, key):
    file.write_text(PLAN.replace("replicates = 1", f'replicates = 1\n{key} = ["non-private"]'))
    assert plan(file, cores=1, progressbar=False).notes == {}


def test_answers():
    import pandas as pd

    spec = read_plan(ROOT / "examples" / "plan" / "mean.toml")
    rows = [
        {"query": q, "n_records": n, "epsilon": e, "method": m, "width": w, "coverage": 0.9}
        for q, n, e, m, w in (
            ("wide", 200, 1.0, "noise-aware", 5.0),
            ("wide", 200, 3.0, "noise-aware", 3.5),
            ("tight", 200, 1.0, "noise-aware", 3.9),
            ("tight", 200, 1.0, "non-private", 2.0),
            ("tight", 1000, 3.0, "noise-aware", 6.0),
        )
    ]
    answers = PlanResult(spec, pd.DataFrame(rows).assign(coverage_error=0.03)).answers
    assert answers[0].startswith("With 200 records: epsilon = 1 with 'tight' is the smallest tried")
    assert answers[0].endswith("Without privacy it would be 2.00.")
    assert "Smaller ones were not tried" not in answers[0]
    assert len(answers) == 2
    table = pd.DataFrame(rows).assign(coverage_error=0.03)
    percent = PlanResult(replace(spec, width=400.0, epsilons=(1.0, 3.0)), table).answers
    assert "Smaller ones were not tried." in percent[0]
    assert percent[-1].startswith("The wanted width, 400, is more than that of the prior alone, 6")
    assert "no epsilon and query that was tried gives a mean width of 4" in answers[1]


@pytest.mark.parametrize("size", [1.0, 1e-5, 1e9])
@pytest.mark.parametrize("name", ["mean", "coefficient"])
def test_the_picture_is_whole(name, size):
    import pandas as pd

    spec = read_plan(ROOT / "examples" / "plan" / f"{name}.toml")
    spec = replace(spec, width=None if spec.width is None else size * spec.width)
    rows = [
        {"query": q, "n_records": n, "epsilon": e, "method": m, "width": size * (k + 1) / e}
        for k, q in enumerate(spec.queries)
        for n in spec.n_records
        for e in spec.epsilons
        for m in ("noise-aware", *spec.baselines)
    ]
    table = pd.DataFrame(rows).assign(coverage=0.9, coverage_error=0.03)
    figure = PlanResult(spec, table).figure()
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    for ax in figure.axes:
        assert not ax.get_window_extent().overlaps(box)
    assert powers_of_ten(figure) == []
    assert overlapping(figure) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[plan]", "[plann]", r"unknown table \[plann\]; did you mean 'plan'"),
        ("width = 0.3", "widht = 0.3", "unknown key 'widht' in .plan.; did you mean 'width'"),
        ("width = 0.3", "width = -1", "width must be positive; got -1"),
        ("epsilons = [0.2, 5.0]", "", "epsilons is missing in .plan."),
        ("epsilons = [0.2, 5.0]", "epsilons = [0]", "epsilons must be positive; got 0"),
        ('type = "Bernoulli"', 'type = "Binomial"', "type of a model is 'Binomial'; did you"),
        (
            'type = "Count"',
            'type = "Counts"',
            r"\[queries.ones\]: type of a query is 'Counts'; did you",
        ),
        (
            'type = "Count"',
            'type = "Sum"',
            r"\[queries.ones\]: .* Sum .*lower is missing: Sum needs",
        ),
        ("probability = 0.4", "p = 0.4", r"\[true_parameters\] must hold probability; got p"),
        ('"probability"', '"p"', "parameter must be one of probability; got 'p'"),
        ("[model]", '[mechanism]\ntype = "Cauchy"\n[model]', "type in .mechanism. must be one of"),
        ("[model]", '[mechanism]\ntype = "Gaussian"\n[model]', "delta is missing in .mechanism."),
        ("replicates = 1", "replicates = 0", "replicates must be a positive integer"),
        ("replicates = 1", 'baselines = ["mle"]', "baselines must be among naive"),
        ("replicates = 1", 'interval = "a"', "interval must be between 0 and 1; got 'a'"),
        ("probability = 0.4", 'probability = "x"', "probability in .true_parameters. must be a"),
        ("[plan]", "plan", "is not TOML"),
    ],
)
def test_bad_plans(file, old, new, message):
    assert PLAN.count(old) >= 1
    file.write_text(PLAN.replace(old, new))
    with pytest.raises(ValueError, match=message):
        plan(file, cores=1, progressbar=False)
    said = CliRunner().invoke(app, ["plan", str(file), "--quiet"])
    assert said.exit_code == 3
    assert str(file) in said.stderr


@pytest.mark.parametrize("name", ["mean", "coefficient"])
def test_the_examples_can_be_read(name):
    spec = read_plan(ROOT / "examples" / "plan" / f"{name}.toml")
    for query in spec.queries.values():
        mechanism = spec.mechanism_for(query, 1.0)
        theta = spec.model.sample_prior(np.random.default_rng(1))
        records = spec.model.sample_records(theta, 10, np.random.default_rng(1))
        assert isinstance(mechanism.privatize(records, np.random.default_rng(1)), na.Release)
