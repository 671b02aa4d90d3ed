"""Numbers at the edges: right, or refused with the reason. `edges` has the answers."""

import pytest

from edges.edges import TRIED, outcome

REFUSED = {
    "records of size 1e200, whose squares overflow": "variance must be",
    "records of size 1e-310, denormal": "variance must be positive",
    "a clamp of width 1e-310, denormal": "floats are 4.9e-324 apart",
    "a clamp of width 0": "lower must be below upper",
    "a histogram with two equal edges": "edges must be increasing",
    "a count, noise of scale 1e-320, denormal": "the scale a number whose inverse is one",
    "10^13 records": "n_records must be at most 1000000000000",
    "a released count above 2^53": "values must be at most 2^53",
    "a released sum of 1e17, noise of scale 5": "floats are 16 apart",
    "noise of scale 1e-14 on the sum of 50 records": "apart, with noise of scale 1e-14",
    "noise of scale 0": "scale must be a positive number",
    "a released value that is infinite": "values must",
    "one level": "n_levels must be an integer of at least 2",
    "identical known features": "features must vary",
}
QUICK = ["a total above 2^53 (1,000 records of size 1e14)"]


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name):
    found = outcome(name)
    assert found.startswith("refused: ")
    assert REFUSED[name] in found


@pytest.mark.parametrize("name", QUICK)
def test_the_posterior_is_right(name, seed):
    """A false alarm: 6e-7 for the mean, and for the variance."""
    assert outcome(name, seed, draws=800).startswith("right")


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in TRIED if name not in REFUSED])
def test_the_posterior_is_right_in_many_draws(name, seed):
    assert outcome(name, seed).startswith("right")
