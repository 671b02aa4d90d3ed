"""The quick file with many more replicates and longer chains: `make validate`.

False alarms: 2 checks of each setting with false_alarm = 3e-6 each, below 1e-3 for the whole file
while there are fewer than 160 settings. SBC runs the
default sampler here, tuning included, where the quick file runs the mix with a fixed number of
steps.
"""

import pytest

import noiseaware as na
from calibration.settings import IDS, SAMPLERS, SETTINGS, check

pytestmark = pytest.mark.full

FALSE_ALARM = 3e-6


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
        draws=380 if sampler == "mix" else 760,  # Algorithm 1 needs the longer chain
        warmup=250,
        moves=SAMPLERS[sampler] if sampler == "algorithm1" else None,
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
