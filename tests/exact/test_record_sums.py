"""Quantiles and moments that are added up along chains, against the kept draws themselves.

Deterministic: fixed seeds, and errors that the module states.
"""

import numpy as np
import pytest

from mutants.planting import Edit, planted, same
from noiseaware.sampler import record_sums

PROBABILITIES = np.array(record_sums.PROBABILITIES)


def added(draws, sd, whole, shift=0.0):
    """Sums of one chain, (draws, n), that began around a somewhat wrong mean."""
    sums = record_sums.begin(draws.mean(axis=0) + shift * sd, sd, whole)
    for x in draws:
        record_sums.add(sums, x + 0.25, np.full(len(x), 2.0), x)
    return sums


def made(means, sds, whole, chains=3, m=1500):
    """Draws of skewed records, some of them far from where warm-up had been, (chains, m, n)."""
    rng = np.random.default_rng(4)
    normal = rng.normal(size=(chains, m, len(means)))
    draws = means + sds * (normal + 0.15 * (normal**2 - 1.0))
    draws[0, :3] += 30.0 * sds
    return np.maximum(np.round(draws), 0.0).astype(np.int64) if whole else draws


def check(sds, whole, allowed):
    """Every quantile within `allowed` standard deviations of that of the draws."""
    sds = np.array(sds)
    means = 40.0 * sds
    draws = made(means, sds, whole)
    sums = [added(part, sds, whole, 0.3 * c) for c, part in enumerate(draws)]
    found = record_sums.together(sums)
    flat = draws.reshape(-1, len(means))
    exact = np.quantile(flat, PROBABILITIES, axis=0, method="inverted_cdf").T
    gap = np.abs(found["quantile"] - exact) / sds[:, np.newaxis]
    assert gap.max() <= allowed
    np.testing.assert_allclose(found["mean"], flat.mean(axis=0) + 0.25, rtol=1e-12)
    np.testing.assert_allclose(found["sd"], np.sqrt(flat.var(axis=0) + 2.0), rtol=1e-10)
    np.testing.assert_allclose(found["noise_share"], 2.0 / found["sd"] ** 2, rtol=1e-10)


CASES = {
    "a bin is one count": ([0.4, 1.0, 2.5, 6.4], True, 0.0),
    "several counts a bin": ([7.0, 30.0, 4000.0], True, 0.05),
    "not whole": ([0.01, 1.0, 50.0], False, 0.05),
}


@pytest.mark.parametrize("case", CASES)
def test_quantiles_are_those_of_the_draws(case):
    check(*CASES[case])


def test_a_record_that_never_changes():
    for whole in (True, False):
        x = np.array([3.0, 0.0, 12.0])
        sums = added(np.tile(x, (50, 1)), np.zeros(3), whole)
        np.testing.assert_allclose(
            record_sums.together([sums])["quantile"], np.tile(x, (13, 1)).T, atol=1e-9
        )


@pytest.mark.parametrize(
    ("case", "edit"),
    [
        ("a bin is one count", Edit(record_sums, "share_up_to", "(x + sums.step - first)",
                                    "(x - first)")),
        ("several counts a bin", Edit(record_sums, "share_up_to", "part * sums", "1.0 * sums")),
        ("not whole", Edit(record_sums, "share_up_to", "below[k] + part", "below[k + 1] + part")),
    ],
)  # fmt: skip
def test_the_bug_is_caught(case, edit):
    with planted(edit, same(record_sums, "find_quantiles")), pytest.raises(AssertionError):
        check(*CASES[case])
