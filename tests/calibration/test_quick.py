"""Geweke and SBC for every model x mechanism, with Algorithm 1 and with the transport mix.

False alarms. Each check is given false_alarm = 1e-6, which it shares among the quantities that it
compares (Bonferroni), so an exact sampler fails one with probability at most 1e-6. There are 44
settings (3 models with a query of floats x 2 mechanisms and 4 with counts x 4, each with 2
samplers) and 2 checks of each: 88 x 1e-6 = 8.8e-5 for the whole file, below 2e-4. `test_power`
shows what the checks still catch at this rate.
"""

import pytest

import noiseaware as na
from calibration.settings import IDS, SAMPLERS, SETTINGS, make

FALSE_ALARM = 1e-6


def test_the_arithmetic_of_the_docstring():
    assert len(SETTINGS) == 44
    assert 2 * len(SETTINGS) * FALSE_ALARM < 2e-4


@pytest.mark.parametrize(("model", "mechanism", "sampler"), SETTINGS, ids=IDS)
def test_geweke(model, mechanism, sampler, seed):
    made, noise, n_records = make(model, mechanism)
    result = na.geweke(
        made,
        noise,
        n_records=n_records,
        replicates=300,
        rounds=6,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
    assert result, str(result)


@pytest.mark.parametrize(("model", "mechanism", "sampler"), SETTINGS, ids=IDS)
def test_sbc(model, mechanism, sampler, seed):
    made, noise, n_records = make(model, mechanism)
    result = na.sbc(
        made,
        noise,
        n_records=n_records,
        replicates=60,
        ranks=9,
        draws=90,
        warmup=70,
        moves=SAMPLERS[sampler],
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
    assert result, str(result)
