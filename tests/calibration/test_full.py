"""Geweke's test of every model with every mechanism, and SBC of every model: `make validate`.

Geweke's test is of the default sampler and of Algorithm 1, and where the default moves counts also
of a mix that moves records. It tells whether the posterior is left invariant. SBC begins where
`sample` does and warms up as it does, so it also tells whether the default gets there; the
mechanism matters less for that, and there is one for each model. Many more replicates and rounds
than in the quick file. False alarms: each check has false_alarm = 3e-6, below 1e-3 for the whole
file.
"""

import pytest

import noiseaware as na
from calibration.settings import GEWEKE, MECHANISM_OF, SAMPLERS, check

pytestmark = pytest.mark.full

FALSE_ALARM = 3e-6


def test_the_arithmetic_of_the_docstring():
    assert (len(GEWEKE) + len(MECHANISM_OF)) * FALSE_ALARM < 1e-3


@pytest.mark.parametrize(("model", "mechanism", "sampler"), GEWEKE, ids=map("/".join, GEWEKE))
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


@pytest.mark.parametrize(("model", "mechanism"), MECHANISM_OF.items())
def test_sbc(model, mechanism, seed):
    check(
        na.sbc,
        model,
        mechanism,
        replicates=200,
        ranks=19,
        draws=380,
        warmup=250,
        random_seed=seed,
        false_alarm=FALSE_ALARM,
    )
