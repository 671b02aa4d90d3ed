"""The regressions as scikit-learn estimators: its own checks, and the posterior behind them."""

import numpy as np
import pytest

import noiseaware as na

pytest.importorskip("sklearn", minversion="1.6", reason="needs the extra estimators")

from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from behaviour.docs_blocks import DOCS, run_page
from noiseaware import estimators

SHORT = {"draws": 8, "warmup": 8, "chains": 1}
CLOSE = {"epsilon": 50.0, "bounds_X": (-4.0, 4.0), "draws": 200, "chains": 2, "random_state": 1}


@pytest.mark.full
@pytest.mark.parametrize("name", ["LinearRegression", "LogisticRegression"])
def test_scikit_learns_own_checks(name):
    made = check_estimator(getattr(estimators, name)(**SHORT), on_fail=None)
    failed = [(c["check_name"], c["exception"]) for c in made if c["status"] == "failed"]
    assert failed == []
    assert len(made) > 40


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(1).normal(size=(300, 1))


def test_a_line_is_found_and_predicted(features):
    rng = np.random.default_rng(2)
    y = 1.0 + 2.0 * features[:, 0] + rng.normal(size=300)
    made = estimators.LinearRegression(**CLOSE).fit(features, y)
    # Noise of the release and of 300 records: standard errors of at most 0.15.
    assert made.intercept_ == pytest.approx(1.0, abs=0.75)
    assert made.coef_ == pytest.approx([2.0], abs=0.75)
    mean, sd = made.predict([[0.0], [1.0]], return_std=True)
    np.testing.assert_allclose(mean, [made.intercept_, made.intercept_ + made.coef_[0]])
    assert np.all(np.abs(sd - 1.0) < 0.5)
    assert na.summary(made.posterior_).index[0] == "coefficients[intercept]"


def test_the_release_of_fit_can_be_fitted_again(features):
    y = features[:, 0]
    model = na.models.LinearRegression(1, coefficient_sd=1.0)
    made = estimators.LinearRegression(model=model, **SHORT, random_state=1).fit(features, y)
    again = estimators.LinearRegression(**SHORT, random_state=1)
    assert again.fit_release(made.release_, n_features=1).model_.coefficient_sd == 2.0
    again.set_params(model=model).fit_release(made.release_)
    assert again.model_ is model
    assert again.predict(features[:2]).shape == (2,)
    with pytest.raises(ValueError, match="n_features must be given, or a model; got neither"):
        estimators.LinearRegression().fit_release(made.release_)
    with pytest.raises(ValueError, match="model must have n_features = 2, as there are; got 1"):
        again.fit(np.column_stack([features, features]), y)


def test_labels_of_classes_come_back(features):
    y = np.where(features[:, 0] + 0.1 > 0, "yes", "no")
    made = estimators.LogisticRegression(**CLOSE).fit(features, y)
    assert made.classes_.tolist() == ["no", "yes"]
    assert made.predict([[-3.0], [3.0]]).tolist() == ["no", "yes"]
    np.testing.assert_allclose(made.predict_proba(features).sum(axis=1), 1.0)
    again = estimators.LogisticRegression(**SHORT).fit_release(made.release_, n_features=1)
    assert again.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="bounds_y must be None, for y is 0 or 1"):
        estimators.LogisticRegression(bounds_y=(0, 1)).fit(features, y)


def test_counts_are_counts(features):
    y = np.random.default_rng(3).poisson(np.exp(0.5 + 0.3 * features[:, 0]))
    made = estimators.PoissonRegression(**SHORT, random_state=1).fit(features, y)
    assert (made.predict(features) > 0).all()
    with pytest.raises(ValueError, match=r"y must be counts, whole numbers from 0; got 0\.5"):
        made.fit(features, y + 0.5)


def test_it_goes_through_cross_validation(features):
    y = features[:, 0]
    made = estimators.LinearRegression(**SHORT, random_state=1)
    assert cross_val_score(made, features, y, cv=2).shape == (2,)


def test_the_blocks_of_the_docs_run(monkeypatch):
    monkeypatch.chdir(DOCS.parent / "examples")
    run_page("estimators.md")
