"""Studies: the same for any number of cores, alone or together, stopped or not."""

from __future__ import annotations

import json

import joblib
import numpy as np
import pandas as pd
import pytest

import noiseaware as na
from noiseaware.studies import Sampler, run, tasks
from noiseaware.studies.replicate import row_of
from noiseaware.studies.result import mean_error, table_text

SHORT = {"short": Sampler(warmup=30, draws=40)}


def count(epsilon):
    return na.mechanisms.Laplace(na.queries.Count(), epsilon=epsilon)


def small(**changes):
    arguments = {
        "epsilons": [0.5, 5.0],
        "n_records": [10, 20],
        "replicates": 2,
        "samplers": SHORT,
        "baselines": ["naive", "non-private", "bootstrap"],
        "random_seed": 5,
        "cores": 1,
        "progressbar": False,
    }
    return na.study(na.models.Bernoulli(), count, **(arguments | changes))


def without_time(done):
    return done.table.drop(columns="seconds")


@pytest.fixture(scope="module")
def done():
    return small()


def test_table_and_tree(done, tmp_path):
    table = done.table
    assert len(table) == 2 * 2 * 4  # epsilon, n, method; one parameter
    assert list(table["method"][:4]) == ["short", "naive", "non-private", "bootstrap"]
    assert table["coverage"].between(0, 1).all()
    assert (table["coverage_error"] > 0).all()
    ours = table[table["method"] == "short"]
    assert ours[["ess", "acceptance", "lowest_sweep", "lowest_probability"]].notna().all(axis=None)
    # the theorem of the paper: pure privacy bounds every acceptance probability from below
    assert (ours["lowest_probability"] >= np.exp(-ours["epsilon"]) - 1e-9).all()
    replicates = done.tree["replicates"].to_dataset()
    error = replicates["mean"] - replicates["true"]
    np.testing.assert_allclose(
        error.mean("replicate")
        .transpose("epsilon", "n_records", "method", "parameter")
        .values.ravel(),
        table["bias"],
    )
    done.tree.to_netcdf(tmp_path / "study.nc", engine="h5netcdf")
    assert "Study of 4 settings, 2 replicates each" in repr(done)


@pytest.mark.full
def test_same_for_any_number_of_cores(done):
    assert without_time(small(cores=2)).equals(without_time(done))


@pytest.mark.full
def test_same_inside_a_joblib_block(done):
    with joblib.parallel_config("threading", n_jobs=2):
        assert without_time(small()).equals(without_time(done))


def test_a_method_does_not_change_the_others(done):
    alone = small(baselines=["bootstrap"])
    np.testing.assert_array_equal(alone["mean"][..., 1, :], done["mean"][..., 3, :])
    np.testing.assert_array_equal(alone["mean"][..., 0, :], done["mean"][..., 0, :])


def test_any_replicate_can_be_run_alone(done):
    again = done.rerun(1, epsilon=5.0, n_records=20)
    assert again.release.n_records == len(again.records) == 20
    assert again.release.mechanism.guarantee.pure_epsilon == 5.0
    assert again.true_parameters["probability"] == done["true"][1, 1, 1, 0]
    for m, method in enumerate(done.plan.methods):
        for field in ("mean", "lower", "upper"):
            np.testing.assert_array_equal(again.numbers[method][field], done[field][1, 1, 1, m])
    with pytest.raises(ValueError, match="replicate must be from 0 to 1; got 2"):
        done.rerun(2)
    with pytest.raises(ValueError, match=r"epsilon must be one of 0.5, 5.0; got 3"):
        done.rerun(0, epsilon=3)


def test_a_stopped_study_goes_on(done, tmp_path, monkeypatch):
    calls = []

    def stops(plan, key):
        calls.append(key)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return row_of(plan, key)

    monkeypatch.setattr(run, "row_of", stops)
    with pytest.raises(KeyboardInterrupt, match="stopped after 3 of 8 replicates; what is done is"):
        small(checkpoint=tmp_path)
    file = tmp_path / "replicates.jsonl"
    with file.open("a") as lines:
        lines.write('{"key": [0, 0, 1], "resu')  # as if it was stopped while writing
    assert small(checkpoint=tmp_path).table.notna().any(axis=None)
    assert calls[4:] == calls[3:4] + [k for k in calls[4:] if k != calls[3]]
    assert len(calls) == 4 + 5  # 8 replicates, 3 done before
    assert without_time(small(checkpoint=tmp_path, random_seed=None)).equals(without_time(done))
    assert len(calls) == 9
    longer = small(checkpoint=tmp_path, replicates=3)
    assert len(calls) == 9 + 4
    np.testing.assert_array_equal(longer["mean"][:, :, :2], done["mean"])
    # no pickle: every line is JSON
    assert all(isinstance(json.loads(line), dict) for line in file.read_text().splitlines()[:3])


def test_a_checkpoint_of_another_study_is_refused(tmp_path):
    lines = tasks.Lines(tmp_path / "a.jsonl", {"seed": "1"})
    lines.add((0,), {"x": [float("nan"), float("inf"), 0.1]})
    assert repr(tasks.Lines(tmp_path / "a.jsonl", {"seed": "1"}).done[0,]) == (
        "{'x': [nan, inf, 0.1]}"
    )
    with pytest.raises(ValueError, match=r'its seed is "1", and here it is "2"'):
        tasks.Lines(tmp_path / "a.jsonl", {"seed": "2"})
    (tmp_path / "b.jsonl").write_text("no\n")
    with pytest.raises(ValueError, match="not a file that a study can continue from"):
        tasks.Lines(tmp_path / "b.jsonl", {})
    text = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(text.replace(na.__version__, "0.0.9"))
    with pytest.raises(ValueError, match=r"was written by noiseaware 0\.0\.9, and this is"):
        tasks.Lines(tmp_path / "a.jsonl", {"seed": "1"})


def test_one_number_of_many_makes_another_study(tmp_path):
    """Of long arrays only a few numbers are shown; all of them count."""
    features = np.random.default_rng(1).random((3000, 1))

    def begin():
        model = na.models.LinearRegression(features=features)
        noise = na.mechanisms.Laplace(na.queries.Sum(-5.0, 5.0), epsilon=1.0)
        plan = run.make_plan(model, noise, n_records=3000, samplers=SHORT, random_seed=1)
        tasks.Lines(tmp_path / "a.jsonl", run.description(plan))

    begin()
    begin()
    assert len((tmp_path / "a.jsonl").read_text()) < 3000
    features[1500] += 1e-9
    with pytest.raises(ValueError, match="belongs to another study: its model is"):
        begin()


def test_a_study_of_ones_own_classes_goes_on_in_another_process():
    """What a class shows of itself by default has an address in it, which is another one there."""

    def described():
        class Own(na.models.Bernoulli):
            __repr__ = object.__repr__

        query = na.Query(lambda x: np.asarray(x, float)[:, None], names=["ones"], sensitivity=1.0)
        plan = run.make_plan(
            Own(),
            na.mechanisms.Laplace(query, epsilon=1.0),
            **dict.fromkeys(("epsilons", "true_parameters", "records", "parameters")),
            n_records=10,
            interval=0.9,
            samplers=SHORT,
            baselines=(),
            random_seed=1,
        )
        return plan, run.description(plan)  # the plan is kept, or its addresses were free again

    (one, first), (other, second) = described(), described()
    assert repr(one.model) != repr(other.model)
    assert first == second


def test_the_old_name_of_baselines_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match="comparators= of study is now baselines="):
        old = small(baselines=(), comparators=["naive"], replicates=1)
    assert old.plan.baselines == ("naive",)


def test_the_error_of_a_bias():
    assert np.isnan(mean_error(np.array([0.3])))
    assert mean_error(np.array([1.0, 3.0])) == pytest.approx(1.0)  # sd sqrt(2), over sqrt(2)


def test_one_database_for_all_releases():
    records = np.array([0, 1, 1, 0, 1])
    fixed = small(records=records, n_records=None, epsilons=[1.0], baselines=["non-private"])
    assert fixed.table["coverage"].isna().all()
    assert fixed.plan.n_records == (5,)
    assert len(set(fixed["mean"][0, 0, :, 0, 0])) == 2  # the noise differs
    true = small(
        records=records,
        n_records=None,
        epsilons=[1.0],
        baselines=(),
        true_parameters={"probability": 0.6},
    )
    assert true.table["coverage"].notna().all()


def test_one_mechanism(done):
    one = na.study(
        na.models.Bernoulli(),
        count(2.0),
        n_records=10,
        replicates=1,
        samplers=SHORT,
        random_seed=1,
        progressbar=False,
    )
    assert list(one.table["epsilon"]) == [2.0]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilons": None}, ValueError, "epsilons must be a list of numbers"),
        ({"n_records": None}, ValueError, "n_records must be given"),
        ({"n_records": [10, 0]}, ValueError, "n_records must be a positive integer; got 0"),
        ({"records": np.array([0, 1])}, ValueError, "give records or n_records"),
        ({"replicates": 0}, ValueError, "replicates must be a positive integer; got 0"),
        ({"interval": 90}, ValueError, "interval must be between 0 and 1; got 90"),
        ({"samplers": ["nuts"]}, ValueError, "must be among default, algorithm1"),
        ({"samplers": {"mine": None}}, TypeError, "must be a Sampler"),
        ({"baselines": ["mle"]}, ValueError, "must be among naive, non-private, bootstrap"),
        ({"samplers": (), "baselines": ()}, ValueError, "nothing to study"),
        ({"parameters": ["p"]}, ValueError, "must be among probability; got 'p'"),
        ({"true_parameters": {"p": 0.1}}, ValueError, "probability"),
    ],
)
def test_bad_arguments(changes, error, message):
    with pytest.raises(error, match=message):
        small(**changes)


def test_bad_mechanisms():
    with pytest.raises(TypeError, match="mechanism must be a mechanism or a function"):
        na.study(na.models.Bernoulli(), 1.0, n_records=5)
    with pytest.raises(TypeError, match=r"must return a mechanism; it returned 1\.0"):
        na.study(na.models.Bernoulli(), lambda e: e, epsilons=[1.0], n_records=5)
    with pytest.raises(ValueError, match="epsilons need a function"):
        na.study(na.models.Bernoulli(), count(1.0), epsilons=[1.0], n_records=5)


def test_a_table_has_three_digits_in_any_unit():
    columns = {
        "method": "default",
        "n_records": 1000,
        "epsilon": 0.5,
        "coverage": 0.9,
        "ess": 2634.7,
    }
    rows = [columns | {"width": 4.123e-5}, columns | {"width": 51234.5, "ess": np.nan}]
    lines = table_text(pd.DataFrame(rows)).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["default", "1,000", "0.5", "0.900", "2,635", "4.12e-05"],
        ["default", "1,000", "0.5", "0.900", "-", "51,200"],
    ]
