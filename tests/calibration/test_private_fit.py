"""Geweke's test of a logistic regression from a private fit: a joint mechanism with its own loss.

False alarms: 1e-6 for each of the two checks.
"""

import pytest

import noiseaware as na
from mutants.planting import Edit, planted, same
from noiseaware.models import generalised_regression

FALSE_ALARM = 1e-6


def check(seed, replicates=3000):
    model = na.models.LogisticRegression(1, 1.5, feature_mean=[0.3], feature_covariance=[[1.5]])
    loss = na.mechanisms.losses.LogisticLoss(1, lower=-2.0, upper=2.0)
    return na.geweke(
        model,
        na.mechanisms.ObjectivePerturbation(loss, ridge=1.0, epsilon=4.0),
        n_records=8,
        replicates=replicates,
        rounds=4,
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )


@pytest.mark.full
def test_logistic_regression_from_a_private_fit(seed):
    result = check(seed)
    assert result, str(result)


@pytest.mark.full
def test_a_response_with_the_wrong_sign_is_caught(seed):
    """The kernel and the records then belong to different models."""
    wrong = Edit(
        generalised_regression, "log_response", "value = y * eta - soft", "value = -y * eta - soft"
    )
    names = ("log_posterior", "differentiate", "find_mode")
    names += ("_log_likelihood", "_update_coefficients")
    with planted(wrong, *(same(generalised_regression, name) for name in names)):
        assert not check(seed)
