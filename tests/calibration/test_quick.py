"""Geweke and SBC for every model x mechanism, with Algorithm 1 and with the transport mix.

False alarms. Each check is given false_alarm = 1e-6, which it shares among the quantities that it
compares (Bonferroni), so an exact sampler fails one with probability at most 1e-6. There are at
most 2 checks of each setting, and fewer than 100 settings: below 2e-4 for the whole file.
`test_power` shows what the checks still catch at this rate.
"""

import pytest

import noiseaware as na
from calibration.settings import QUICK_IDS, QUICK_SBC_IDS, QUICK_SETTINGS, SAMPLERS, check

FALSE_ALARM = 1e-6


def test_the_arithmetic_of_the_docstring():
    assert 2 * len(QUICK_SETTINGS) * FALSE_ALARM < 2e-4


@pytest.mark.parametrize(("model", "mechanism", "sampler"), QUICK_SETTINGS, ids=QUICK_IDS)
def test_geweke(model, mechanism, sampler, seed):
    check(
        na.geweke,
        model,
        mechanism,
        replicates=300,
        rounds=6,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )


@pytest.mark.parametrize("name", QUICK_SBC_IDS)
def test_sbc(name, seed):
    model, mechanism, sampler = name.split("/")
    check(
        na.sbc,
        model,
        mechanism,
        replicates=60,
        ranks=9,
        draws=90,
        warmup=70,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
