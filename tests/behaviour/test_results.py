"""What `sample` returns: groups, labels, statistics of the run; and what it shows meanwhile."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import noiseaware as na
from behaviour.examples import Coin, regression, small_release

QUICK = {"draws": 25, "warmup": 15, "chains": 2, "random_seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def posterior():
    return na.sample(*regression(), keep_records=4, **QUICK)


def test_the_groups_and_their_labels(posterior):
    assert list(posterior.children) == [
        "posterior", "sample_stats", "observed_data", "constant_data", "prior",
        "latent_records",
    ]  # fmt: skip
    coefficients = posterior["posterior"]["coefficients"]
    assert coefficients.dims == ("chain", "draw", "coefficient")
    assert coefficients.shape == (2, 25, 3)
    assert list(coefficients["coefficient"].values) == ["intercept", "x1", "x2"]
    assert posterior["posterior"]["feature_covariance"].dims[2:] == ("feature", "feature_bis")
    _, release = regression()
    observed = posterior["observed_data"]["release"]
    np.testing.assert_array_equal(observed.values, release.values)
    assert tuple(observed["released"].values) == release.names
    assert int(posterior["constant_data"]["n_records"]) == 15


def test_the_summary_reads_well(posterior):
    table = na.summary(posterior)
    assert list(table.index) == [
        "coefficients[intercept]",
        "coefficients[x1]",
        "coefficients[x2]",
        "noise_variance",
        "feature_mean[x1]",
        "feature_mean[x2]",
        "feature_covariance[x1, x1]",
        "feature_covariance[x1, x2]",
        "feature_covariance[x2, x1]",
        "feature_covariance[x2, x2]",
    ]
    for column in ("mean", "sd", "ess_bulk", "ess_tail", "r_hat"):
        assert column in table.columns
    assert list(na.summary(posterior, var_names=["noise_variance"]).index) == ["noise_variance"]


def test_the_summary_of_naive_bayes_reads_well():
    model = na.models.NaiveBayes(2, [2, 2])
    query = na.queries.ClassFeatureCounts(2, [2, 2])
    release = na.Release(np.full(8, 5.0), na.mechanisms.Laplace(query, epsilon=1.0), 20)
    table = na.summary(na.sample(model, release, **QUICK))
    assert list(table.index[:4]) == [
        "class_probabilities[0]",
        "class_probabilities[1]",
        "feature_probabilities[0, feature1, 0]",
        "feature_probabilities[0, feature1, 1]",
    ]
    assert len(table) == 2 + 8


def test_the_summary_of_counts_that_exact_numbers_fix_gives_no_warning():
    rows = na.mechanisms.Exact(na.queries.Margins([2, 2], [[0]]))
    columns = na.mechanisms.Laplace(na.queries.Margins([2, 2], [[1]]), scale=2.0)
    release = na.Release([0, 4, 2.0, 2.0], na.mechanisms.Several([rows, columns]), None)
    table = na.summary(na.sample(na.models.PoissonTable([2, 2], 1.0, 0.5), release, **QUICK))
    assert table.loc["counts[0, 0]", "mean"] == 0
    assert np.isnan(table.loc["counts[0, 0]", "r_hat"])


def test_statistics_of_the_run(posterior):
    stats = posterior["sample_stats"]
    assert stats["acceptance_rate"].dims == ("chain", "draw")
    assert ((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1)).all()
    assert (stats["lowest_log_acceptance"] <= 0).all()
    assert stats["record_acceptance"].dims == ("chain", "record")
    assert stats["record_acceptance"].shape == (2, 15)


@pytest.mark.parametrize(
    "moves",
    [na.moves.algorithm1(), [na.moves.Interweave(*na.moves.algorithm1(), cycles=3)]],
    ids=["once", "three times"],
)
def test_the_two_means_of_acceptance_agree(moves):
    posterior = na.sample(*regression(), moves=moves, **QUICK)
    stats = posterior["sample_stats"]
    np.testing.assert_allclose(
        stats["acceptance_rate"].mean("draw"), stats["record_acceptance"].mean("record")
    )


def test_kept_databases(posterior):
    records = posterior["latent_records"]["records"]
    assert records.dims == ("chain", "draw", "record", "column")
    assert records.shape == (2, 4, 15, 3)
    assert records.dtype == np.float64
    # The label of a database is the number of the draw it belongs to.
    np.testing.assert_array_equal(records["draw"], [5, 11, 18, 24])
    flat = na.sample(na.models.Bernoulli(), small_release(), keep_records=3, **QUICK)
    records = flat["latent_records"]["records"]
    assert records.dims == ("chain", "draw", "record")
    assert records.shape == (2, 3, 12)
    assert records.dtype == np.int64
    assert set(np.unique(records)) <= {0, 1}


def test_no_databases_are_kept_unless_asked_for():
    posterior = na.sample(na.models.Bernoulli(), small_release(), **QUICK)
    assert "latent_records" not in posterior.children


def test_all_databases_can_be_kept():
    posterior = na.sample(na.models.Bernoulli(), small_release(), keep_records=25, **QUICK)
    np.testing.assert_array_equal(posterior["latent_records"]["draw"], np.arange(25))


def test_a_model_of_ones_own_gets_plain_labels():
    posterior = na.sample(Coin(), small_release(), **QUICK)
    assert list(na.summary(posterior).index) == ["probability"]
    assert posterior.attrs["model_json"] == ""


@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.full)])
def test_progress_on_the_terminal(cores, capfd):
    na.sample(
        na.models.Bernoulli(), small_release(), cores=cores, **(QUICK | {"progressbar": True})
    )
    out, err = capfd.readouterr()
    assert out == ""
    for text in ("chain 0", "chain 1", "40/40", "accepts", "check failed", "effective draws"):
        assert text in err, text


def test_progress_says_so_when_all_is_well(capfd):
    na.sample(na.models.Bernoulli(), small_release(), random_seed=2)
    _, err = capfd.readouterr()
    assert "checks passed" in err
    assert "check failed" not in err


def test_no_progress(capfd):
    na.sample(na.models.Bernoulli(), small_release(), **QUICK)
    assert capfd.readouterr() == ("", "")


def test_a_summary_shows_its_interval_however_narrow_the_screen():
    draws = np.random.default_rng(1).normal(size=(2, 500))
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {
                    "income_of_the_households_of_a_town": (
                        ("chain", "draw"),
                        51234.5 + 900 * draws,
                    ),
                    "rate": (("chain", "draw"), 4e-5 + 3e-6 * draws),
                    "difference": (("chain", "draw"), 0.1 * (draws - draws.mean())),
                }
            )
        }
    )
    frame = na.summary(tree)
    with pd.option_context("display.width", 40, "display.max_columns", 3):
        shown = repr(frame)
    assert "..." not in shown
    assert "eti90_lb" in shown
    assert re.search(r" 51,\d\d\d ", shown)
    assert re.search(r"rate +\d\.\d+e-05 ", shown)
    assert re.search(r"difference +0\.0000 ", shown)  # no minus zero
    low, high = np.quantile(51234.5 + 900 * draws, [0.05, 0.95])
    assert float(frame.iloc[0]["eti90_lb"]) == pytest.approx(low, rel=1e-3)
    assert float(frame.iloc[0]["eti90_ub"]) == pytest.approx(high, rel=1e-3)
    assert pickle.loads(pickle.dumps(frame)).equals(pd.DataFrame(frame))
    assert type(frame.loc[:, ["mean"]]) is pd.DataFrame
    assert "eti50_lb" in na.summary(tree, ci_prob=0.5)
    assert "<table" in frame._repr_html_()
