"""The Poisson response of `generalised_regression` against SciPy's distribution function."""

import numpy as np
import pytest
from scipy import stats

from mutants.planting import Edit, planted
from noiseaware.models import generalised_regression

RATES = (0.01, 0.5, 3.0, 8.0, 40.0, 600.0)


def check():
    """Y is k for E between -log P(y >= k) and -log P(y >= k + 1), in both tails."""
    for rate in RATES:
        counts = np.arange(stats.poisson.isf(1.0 - 1e-9, rate), stats.poisson.isf(1e-14, rate) + 2)
        edges = -stats.poisson.logsf(counts - 1, rate)
        for k, low, high in zip(counts, edges, edges[1:], strict=False):
            for energy in low + (high - low) * np.array([1e-3, 0.5, 1.0 - 1e-3]):
                assert generalised_regression.poisson_count(rate, energy) == k


def test_counts_are_those_of_the_distribution_function():
    check()


BUGS = {
    "as many as are compared with at once": ("if k < FIRST:", "if k <= FIRST:"),
    "one edge too few": ("range(1, FIRST + 1)", "range(1, FIRST)"),
    "the wrong side": ("k += total <= below", "k += total < below + 0.01"),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_caught(name):
    edit = Edit(generalised_regression, "poisson_count", *BUGS[name])
    with planted(edit), pytest.raises(AssertionError):
        check()
