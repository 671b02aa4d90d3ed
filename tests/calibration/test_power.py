"""Geweke and SBC fail on planted bugs, at the false-alarm rate of the quick file.

Each mutant stands beside its healthy twin, which passes with the very same settings: what fails
is the bug and not the check. A healthy twin fails with probability 1e-6 at most, and there are 7
of them.
"""

import numpy as np
import pytest

import noiseaware as na
from calibration.settings import QUICK_GEWEKE, QUICK_SBC
from noiseaware.maths.coordinates import Coordinates
from noiseaware.mechanisms import Laplace

COUNT = na.queries.Count()
ALGORITHM1 = na.moves.algorithm1()
TRANSPORT = (na.moves.Transport(steps=2), na.moves.RecordSweep())


class ForgetsThePrior(na.models.Bernoulli):
    """Its kernel for p(theta | x) is right for a flat prior, not for the one it has."""

    def update_parameters(self, theta, records, rng):
        ones = int(records.sum())
        return {"probability": np.array(rng.beta(1.0 + ones, 1.0 + len(records) - ones))}


class ForgetsThePriorDensity(na.models.Normal):
    """The transport move then leaves the prior ratio out."""

    def log_prior(self, theta):
        return 0.0


class WiderNoise(Laplace):
    """The noise that is added has a scale 25% above the one that the density says."""

    def _noise(self, size, rng):
        return 1.25 * super()._noise(size, rng)


def geweke(model, mechanism, moves, seed, n_records=8, **more):
    options = QUICK_GEWEKE | more
    return na.geweke(
        model, mechanism, n_records=n_records, moves=moves, random_seed=seed, **options
    )


def sbc(model, mechanism, moves, seed, n_records=8, **more):
    options = QUICK_SBC | {"replicates": 100} | more
    return na.sbc(model, mechanism, n_records=n_records, moves=moves, random_seed=seed, **options)


@pytest.mark.parametrize("check", [geweke, pytest.param(sbc, marks=pytest.mark.full)])
def test_a_kernel_that_forgets_the_prior(check, seed):
    # The noise is large: a release that says much would outweigh the prior, right or wrong.
    noise = Laplace(COUNT, epsilon=0.2)
    healthy = check(na.models.Bernoulli(40.0, 10.0), noise, ALGORITHM1, seed)
    assert healthy, str(healthy)
    result = check(ForgetsThePrior(40.0, 10.0), noise, ALGORITHM1, seed)
    assert not result, str(result)


def test_a_transport_without_the_prior_ratio(seed):
    # Geweke only: the jumps from the prior, which need no ratio, hide the bug from SBC.
    noise = Laplace(na.queries.Sum(-4.0, 4.0), epsilon=1.0)
    healthy = geweke(na.models.Normal(variance=1.0, mean_sd=1.0), noise, TRANSPORT, seed)
    assert healthy, str(healthy)
    result = geweke(ForgetsThePriorDensity(variance=1.0, mean_sd=1.0), noise, TRANSPORT, seed)
    assert not result, str(result)


@pytest.mark.parametrize(
    ("check", "moves"),
    [
        (geweke, TRANSPORT),
        pytest.param(geweke, None, marks=pytest.mark.full),
        pytest.param(sbc, TRANSPORT, marks=pytest.mark.full),
    ],
    ids=["geweke", "geweke of the default", "sbc"],
)
def test_a_transport_without_the_jacobian(check, moves, seed, monkeypatch):
    # A flat prior on the probability: without the Jacobian it is flat on the logit instead. The
    # jumps from the prior, which need no Jacobian, hide a part of it: hence the replicates, and
    # SBC with them takes too long for the quick suite.
    noise = Laplace(COUNT, epsilon=0.5)
    model = na.models.Bernoulli(1.0, 1.0)
    healthy = check(model, noise, moves, seed, replicates=300)
    assert healthy, str(healthy)
    whole = Coordinates.from_vector
    monkeypatch.setattr(Coordinates, "from_vector", lambda self, v: (whole(self, v)[0], 0.0))
    result = check(model, noise, moves, seed, replicates=300)
    assert not result, str(result)


@pytest.mark.full
def test_noise_of_another_scale(seed):
    # 25% of a scale is little: SBC would need far more replicates, and Geweke needs these.
    model, epsilon = na.models.Bernoulli(), 1.0
    settings = {"n_records": 30, "replicates": 5000, "rounds": 8}
    healthy = geweke(model, Laplace(COUNT, epsilon=epsilon), ALGORITHM1, seed, **settings)
    assert healthy, str(healthy)
    result = geweke(model, WiderNoise(COUNT, epsilon=epsilon), ALGORITHM1, seed, **settings)
    assert not result, str(result)
