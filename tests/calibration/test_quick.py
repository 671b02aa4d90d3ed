"""Geweke's test of a model of each kind, and SBC of one, with the default sampler: `make test`.

In the default sampler a transport step follows each update of theta given x, and a good one hides
a kernel that is wrong; so Geweke's test also runs Algorithm 1, with three models.

False alarms. Each check is given false_alarm = 1e-6, which it shares among the quantities that it
compares (Bonferroni), so an exact sampler fails one with probability at most 1e-6. There are fewer
than 20 checks: below 2e-5 for the whole file. `test_power` shows what the checks still catch at
this rate, and `test_full` has every model with every mechanism.
"""

import pytest

import noiseaware as na
from calibration.settings import (
    MECHANISM_OF,
    MECHANISMS,
    MODELS,
    QUICK_GEWEKE,
    QUICK_IN_SBC,
    QUICK_MODELS,
    QUICK_SBC,
    QUICK_WITH_ALGORITHM1,
    SAMPLERS,
    check,
)


def test_every_model_and_every_mechanism_is_there():
    assert set(MECHANISM_OF) == set(MODELS)
    assert set(MECHANISM_OF.values()) == set(MECHANISMS)
    assert len(QUICK_MODELS) + len(QUICK_WITH_ALGORITHM1) + len(QUICK_IN_SBC) < 20


@pytest.mark.parametrize(
    ("model", "sampler"),
    [(model, "default") for model in QUICK_MODELS]
    + [(model, "algorithm1") for model in QUICK_WITH_ALGORITHM1],
)
def test_geweke(model, sampler, seed):
    moves = SAMPLERS[sampler]
    check(na.geweke, model, MECHANISM_OF[model], moves=moves, random_seed=seed, **QUICK_GEWEKE)


@pytest.mark.parametrize("model", QUICK_IN_SBC)
def test_sbc(model, seed):
    check(na.sbc, model, MECHANISM_OF[model], random_seed=seed, **QUICK_SBC)
