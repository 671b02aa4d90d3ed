"""The parts of the variance, against answers that do not come from the sampler."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

import noiseaware as na
from behaviour.examples import Coin, Simulator, small_release
from later import only
from noiseaware.report.parts import variance_parts

QUICK = {"draws": 2000, "warmup": 500, "random_seed": 1, "progressbar": False}


def bernoulli_parts(n, value, epsilon):
    """Var(p | s) and E[Var(p | x) | s], by summing over the number of ones."""
    k = np.arange(n + 1)
    # p is uniform, so every number of ones is as likely as any other before the release.
    weight = np.exp(-epsilon * np.abs(value - k))
    weight /= weight.sum()
    given = stats.beta(1 + k, 1 + n - k)
    within = np.sum(weight * given.var())
    mean = np.sum(weight * given.mean())
    return within + np.sum(weight * (given.mean() - mean) ** 2), within


@pytest.fixture(scope="module")
def coins():
    """A function from epsilon to n, the released value and the posterior, drawn once."""

    @cache
    def draw(epsilon):
        n, value = 40, 14.3
        release = small_release(n, value, epsilon)
        return n, value, na.sample(na.models.Bernoulli(), release, keep_records=25, **QUICK)

    return draw


@pytest.mark.parametrize("epsilon", only([1.0], [0.1, 1.0]))
@pytest.mark.parametrize("model", [None, Coin()], ids=["ready", "own"])
def test_a_coin_by_enumeration(model, epsilon, coins):
    n, value, posterior = coins(epsilon)
    # The coin of one's own is the same model in other words.
    parts = variance_parts(posterior, model)["probability"]
    total, within = bernoulli_parts(n, value, epsilon)
    # The means over 100 databases and 8,000 draws: 5 standard errors are below these.
    assert parts.sampling == pytest.approx(within, rel=0.15)
    assert parts.total == pytest.approx(total, rel=0.15)
    assert parts.noise == pytest.approx(total - within, abs=0.2 * total)
    assert parts.sampling + parts.noise == pytest.approx(parts.total)
    assert parts.prior == pytest.approx(1 / 12, rel=0.15)
    assert not parts.slow


class Lazy:
    """A coin whose kernel stays where it is most of the time: exact, and slow."""

    def __init__(self, stay):
        self.coin, self.stay = na.models.Bernoulli(), stay
        self.parameters = self.coin.parameters

    def __getattr__(self, name):
        return getattr(self.coin, name)

    def update_parameters(self, theta, records, rng):
        if rng.random() < self.stay:
            return {name: np.array(value) for name, value in theta.items()}
        return self.coin.update_parameters(theta, records, rng)


def test_a_slow_kernel_gives_the_same_or_says_so(coins):
    n, value, posterior = coins(1.0)
    _, within = bernoulli_parts(n, value, 1.0)
    slow = variance_parts(posterior, Lazy(0.9))["probability"]
    # Steps next to one another would give a tenth of it.
    assert slow.sampling == pytest.approx(within, rel=0.25)
    assert not slow.slow
    stuck = variance_parts(posterior, Lazy(0.99))["probability"]
    assert stuck.slow


def test_what_is_missing_is_said():
    release = small_release()
    short = {**QUICK, "draws": 10, "warmup": 5}
    with pytest.raises(ValueError, match=r"no imputed databases were kept.*keep_records=25"):
        variance_parts(na.sample(na.models.Bernoulli(), release, **short))
    own = na.sample(Coin(), release, keep_records=2, **short)
    with pytest.raises(ValueError, match="pass it as model="):
        variance_parts(own)
    simulated = na.sample(Simulator(), release, keep_records=2, **short)
    with pytest.raises(ValueError, match="Simulator has no update_parameters"):
        variance_parts(simulated, Simulator())
