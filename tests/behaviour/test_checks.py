"""The checks after a run: each says ok when all is well, and fails when it is not."""

import math

import arviz_base
import numpy as np
import pytest

import noiseaware as na
from behaviour.examples import small_release
from later import all_but
from mutants.planting import Edit, planted
from noiseaware.results import checks


def tree(values, **attrs):
    """A posterior of one parameter, values (chain, draw)."""
    made = arviz_base.from_dict(
        {"posterior": {"theta": values}, "sample_stats": {}}, check_conventions=False
    )
    made.attrs = {"complete": 1, "draws": np.shape(values)[1], **attrs}
    return made


def verdicts(posterior):
    return {verdict.name.split(" (")[0]: verdict for verdict in na.check(posterior).verdicts}


def walk(rng, chains=4, draws=1000, memory=0.0):
    """Autoregressive chains with a standard normal law."""
    noise = rng.standard_normal((chains, draws)) * math.sqrt(1 - memory**2)
    noise[:, 0] /= math.sqrt(1 - memory**2)
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0]
    for k in range(1, draws):
        values[:, k] = memory * values[:, k - 1] + noise[:, k]
    return values


def test_a_good_run(seed):
    result = na.check(na.sample(na.models.Bernoulli(), small_release(), progressbar=False,
                                random_seed=seed, draws=2000))  # fmt: skip
    assert result, str(result)
    assert len(result.verdicts) == 6
    assert str(result).count("ok  ") == 6
    assert "exp(-epsilon)" in str(result)


def test_independent_draws_are_good(seed):
    found = verdicts(tree(walk(np.random.default_rng(seed), draws=2000)))
    assert found["chains agree"].passed
    assert found["effective draws"].passed
    assert "for theta" in found["chains agree"].message


def test_chains_in_different_places():
    values = walk(np.random.default_rng(1))
    values[0] += 1.0
    verdict = verdicts(tree(values))["chains agree"]
    assert not verdict.passed
    assert "for theta is above 1.01: the chains have not yet found the same" in verdict.message


def two_classes(rng):
    """Shares and features of two classes, which two of the chains call the other way round."""
    share = rng.beta(300, 200, (4, 1000))
    shares = np.stack([share, 1.0 - share], axis=-1)
    features = np.stack([rng.beta(80, 20, (4, 1000, 3)), rng.beta(20, 80, (4, 1000, 3))], axis=2)
    for chain in (1, 3):
        shares[chain], features[chain] = shares[chain, :, ::-1], features[chain, :, ::-1]
    return {"shares": shares, "features": features, "level": rng.standard_normal((4, 1000))}


def classes_tree(values):
    dims = {"shares": ["class"], "features": ["class", "feature"]}
    made = arviz_base.from_dict(
        {"posterior": values, "sample_stats": {}}, dims=dims, check_conventions=False
    )
    made.attrs = {"complete": 1, "draws": 1000}
    return made


def test_labels_are_told_from_chains_that_disagree():
    values = two_classes(np.random.default_rng(1))
    verdict = verdicts(classes_tree(values))["chains agree"]
    assert not verdict.passed
    assert "labels, which the release does not tell apart" in verdict.message
    assert "one class from another" in verdict.message
    values["features"][2, :, 0, 1] += 0.1  # and now a chain is elsewhere, too
    assert "have not yet found" in verdicts(classes_tree(values))["chains agree"].message


ORDERED = "plain.isel({axis: key.argsort(key.get_axis_num(axis))})"


@pytest.mark.parametrize(
    "edit",
    [
        Edit(checks, "_labels", ORDERED, "plain"),
        Edit(checks, "_labels", "_largest(rhat(ordered))[0]", "1.0"),
    ],
    ids=["nothing is put in order", "every disagreement is one of labels"],
)
def test_a_wrong_word_about_labels_is_caught(edit):
    with planted(edit), pytest.raises(AssertionError):
        test_labels_are_told_from_chains_that_disagree()


def test_chains_with_a_long_memory():
    found = verdicts(tree(walk(np.random.default_rng(1), memory=0.95)))
    assert not found["effective draws"].passed
    assert "need at least 400" in found["effective draws"].message


@pytest.mark.parametrize("which", ["all chains", "one chain"])
def test_chains_that_do_not_move(which):
    values = walk(np.random.default_rng(1))
    if which == "all chains":
        values[:] = values[:, :1]
    else:
        values[2] = values[2, 0]
    verdict = verdicts(tree(values))["chains agree"]
    assert not verdict.passed
    assert "theta did not move at all in at least one chain" in verdict.message


def test_a_count_that_is_nearly_known_may_stay_where_it_is_in_one_chain():
    values = np.zeros((4, 1000))
    values[1, 3] = values[2, 5] = values[2, 700] = values[3, 9] = 1.0
    assert verdicts(tree(values))["chains agree"].passed


@pytest.mark.parametrize("where", [0.0, 3.0])
def test_a_count_that_moves_in_all_chains_but_one_does_not_agree(where):
    values = np.random.default_rng(1).poisson(3.0, size=(4, 1000)).astype(float)
    values[2] = where
    assert not verdicts(tree(values))["chains agree"].passed


def test_a_count_that_moves_in_no_chain_does_not_agree():
    values = np.zeros((4, 1000))
    values[1] = 1.0
    assert "did not move" in verdicts(tree(values))["chains agree"].message


def test_a_parameter_that_is_constant_by_construction_is_no_failure(seed):
    values = walk(np.random.default_rng(seed), draws=2000)
    made = arviz_base.from_dict(
        {"posterior": {"theta": values, "one": np.ones_like(values)}, "sample_stats": {}}
    )
    assert na.check(made), str(na.check(made))


def test_one_chain_cannot_be_compared():
    verdict = verdicts(tree(walk(np.random.default_rng(1), chains=1)))["chains agree"]
    assert not verdict.passed
    assert "run at least two" in verdict.message


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_very_few_draws(draws):
    found = verdicts(tree(walk(np.random.default_rng(1), draws=draws)))
    assert not any(verdict.passed for verdict in found.values())
    assert "fewer than 4 draws" in found["effective draws"].message


@pytest.mark.parametrize("draws", [1, 3, 4, 5])
def test_a_very_short_run_can_be_checked(draws, capfd):
    na.sample(na.models.Bernoulli(), small_release(), draws=draws, warmup=20, chains=2)
    assert "check failed" in capfd.readouterr().err


# ------------------------------------------------------------------ the bound exp(-epsilon)


def acceptance(mechanism, value=40.0, model=None):
    release = na.Release([value], mechanism, n_records=60)
    posterior = na.sample(
        model or na.models.Normal(mean_sd=2.0),
        release,
        draws=200,
        warmup=100,
        chains=2,
        random_seed=1,
        progressbar=False,
        moves=na.moves.algorithm1(),
    )
    return posterior, verdicts(posterior).get("acceptance against exp(-epsilon)")


def clamped(records):
    return np.clip(records, -1.0, 1.0)


def unclamped(records):
    return records


def test_the_bound_holds_when_what_is_stated_is_true():
    query = na.Query(clamped, ["sum"], sensitivity=2.0)
    posterior, verdict = acceptance(na.mechanisms.Laplace(query, epsilon=0.5))
    assert verdict.passed, verdict.message
    assert posterior.attrs["change_epsilon"] == 0.5
    assert float(posterior["sample_stats"]["lowest_log_acceptance"].min()) >= -0.5 - 1e-9


@pytest.mark.parametrize(
    ("function", "sensitivity"), [(clamped, 0.5), (unclamped, 2.0)], ids=["understated", "no clamp"]
)
def test_a_sensitivity_that_is_not_true_is_seen(function, sensitivity):
    query = na.Query(function, ["sum"], sensitivity=sensitivity)
    posterior, verdict = acceptance(na.mechanisms.Laplace(query, epsilon=0.5))
    assert not verdict.passed
    assert not na.check(posterior)
    assert "below exp(-epsilon) = 0.6065 and cannot happen" in verdict.message
    assert (
        "query, clamping, sensitivity, scale and epsilon contradict one another" in verdict.message
    )


def test_a_scale_that_does_not_give_the_stated_epsilon_is_seen():
    """A mechanism of the user's own that promises more than its scale gives."""
    mechanism = na.mechanisms.Laplace(na.queries.Sum(-1.0, 1.0), scale=1.0)
    mechanism.guarantee = na.mechanisms.Guarantee("pure", epsilon=0.5)
    _, verdict = acceptance(mechanism)
    assert not verdict.passed


def test_a_scale_alone_is_held_to_the_epsilon_that_it_gives():
    posterior, verdict = acceptance(na.mechanisms.Laplace(na.queries.Sum(-1.0, 1.0), scale=4.0))
    assert posterior.attrs["change_epsilon"] == 0.5
    assert verdict.passed


def test_under_add_remove_a_changed_record_is_two_steps():
    """A changed record is one removed and one added, so the bound is exp(-2 epsilon)."""
    query = na.queries.Sum(-1.0, 1.0)
    mechanism = na.mechanisms.Laplace(query, epsilon=0.5, neighbours="add-remove")
    posterior, verdict = acceptance(mechanism)
    assert posterior.attrs["change_epsilon"] == 1.0
    assert float(posterior["sample_stats"]["lowest_log_acceptance"].min()) < -0.5
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("model", [None, na.models.Normal(mean_sd=20.0)], ids=["near", "far"])
def test_the_bound_is_for_pure_promises_only(model):
    _, verdict = acceptance(na.mechanisms.Gaussian(na.queries.Sum(-1.0, 1.0), mu=0.5), model=model)
    assert verdict is None


def test_the_bound_holds_for_the_default_sampler():
    query = na.queries.RegressionMoments(2, -3.0, 3.0)
    release = na.Release(np.zeros(9), na.mechanisms.Laplace(query, epsilon=0.3), 40)
    posterior = na.sample(
        na.models.LinearRegression(2), release, draws=200, warmup=200, chains=2, progressbar=False
    )
    assert verdicts(posterior)["acceptance against exp(-epsilon)"].passed


def understated_release():
    """Noise for a quarter of the real sensitivity: a record's ratio can be exp(-4 epsilon)."""
    query = na.Query(lambda x: np.clip(x, -2, 2)[:, None], names=["sum"], sensitivity=1.0)
    return na.Release([10.0], na.mechanisms.Laplace(query, epsilon=0.5), n_records=400)


def test_blocks_do_not_hide_a_sensitivity_that_is_not_true(seed, monkeypatch):
    settings = {
        "moves": (na.moves.ParameterUpdate(), na.moves.BlockSweep(size=400)),
        "draws": 200,
        "warmup": 500,
        "random_seed": seed,
        "progressbar": False,
    }
    model = na.models.Normal(variance=4.0)
    name = "acceptance against exp(-epsilon)"
    assert not verdicts(na.sample(model, understated_release(), **settings))[name].passed
    # Without the single records that are scored beside the blocks, it would be hidden.
    monkeypatch.setattr(na.moves.BlockSweep, "_lowest_of_one", lambda *_: 0.0)
    assert verdicts(na.sample(model, understated_release(), **settings))[name].passed


@pytest.mark.parametrize(
    ("released", "fits"), all_but([(-50.0, False)], [(37.2, True), (190.2, False), (-50.0, False)])
)
def test_a_release_that_no_database_could_make_is_seen(released, fits, seed):
    mechanism = na.mechanisms.Laplace(na.queries.Count(value=1), epsilon=0.5)
    release = na.Release([released], mechanism, n_records=100)
    posterior = na.sample(
        na.models.Bernoulli(), release, draws=300, warmup=200, random_seed=seed, progressbar=False
    )
    assert verdicts(posterior)["the release fits the model"].passed is fits
    if released == 370.2:
        message = verdicts(posterior)["the prior fits the release"].message
        assert message.endswith("or check the query's bounds or n_records")


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_draw_that_is_no_number(wrong):
    values = walk(np.random.default_rng(1))
    values[2, 7] = wrong
    verdict = verdicts(tree(values))["chains agree"]
    assert not verdict.passed
    assert "theta has draws that are not finite numbers" in verdict.message
