"""Every model with every mechanism, by the default sampler, by Algorithm 1 and by a mix of moves.

The mix has a fixed number of transport steps and single records, where the default chooses. Many
more replicates and longer chains than in the quick file: `make validate`. False alarms: 2 checks of
each setting with false_alarm = 3e-6 each, below 1e-3 for the whole file.
"""

import pytest

import noiseaware as na
from calibration.settings import IDS, SAMPLERS, SETTINGS, check

pytestmark = pytest.mark.full

FALSE_ALARM = 3e-6


def test_the_arithmetic_of_the_docstring():
    assert 2 * len(SETTINGS) * FALSE_ALARM < 1e-3


@pytest.mark.parametrize(("model", "mechanism", "sampler"), SETTINGS, ids=IDS)
def test_geweke(model, mechanism, sampler, seed):
    check(
        na.geweke,
        model,
        mechanism,
        replicates=2000,
        rounds=12,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )


@pytest.mark.parametrize(("model", "mechanism", "sampler"), SETTINGS, ids=IDS)
def test_sbc(model, mechanism, sampler, seed):
    check(
        na.sbc,
        model,
        mechanism,
        replicates=200,
        ranks=19,
        draws=760 if sampler == "algorithm1" else 380,  # it needs the longer chain
        warmup=250,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
