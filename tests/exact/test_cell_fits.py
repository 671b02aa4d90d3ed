"""Polynomials in place of sums: log p, mean and variance of cells against the sums themselves.

The checks are deterministic: fixed cells, ranges and points.
"""

import math

import numpy as np
import pytest

from mutants.planting import Edit, planted
from noiseaware.maths import cell_fits, cells
from noiseaware.mechanisms import terms
from noiseaware.running.plain import pack, unpack

INF = math.inf
CODES = {
    "poisson": cells.POISSON,
    "negative-binomial": cells.NEGATIVE_BINOMIAL,
    "binomial": cells.BINOMIAL,
}


def made_laws():
    """Every kind of law, some of them withheld or not seen at all, for 48 cells."""
    rows = []
    for s in (0.0, 3.0, 14.0, 60.0, 250.0, 1200.0):
        rows.append((terms.GAUSSIAN, s - 2.0, 0.2, 0.0))
        rows.append((terms.GAUSSIAN, s + 9.0, 0.05, 0.0))
        rows.append((terms.LAPLACE, s + 0.4, 0.3, 0.0))
        rows.append((terms.GAUSSIAN, 0.0, 0.0, 0.0))
        rows.append((terms.BETWEEN, -INF, 0.2, s))
        rows.append((terms.BETWEEN + 1, s, 0.2, s + 5.0))
        rows.append((terms.BETWEEN + 2, s, 0.2, INF))
        rows.append((terms.TABLE, s, 0.0, 3.0))
    family = np.array([row[0] for row in rows])
    parameters = np.array([[*row[1:], 0.0] for row in rows])
    return terms.CellLaws(family, parameters, np.log([0.2, 0.5, 0.3]))


def case(name, width, seed=1):
    """A function that adds up, the centres, and what has been seen of eta and t."""
    laws, rng = made_laws(), np.random.default_rng(seed)
    n = len(laws.family)
    rates = np.repeat([1.0, 3.0, 14.0, 60.0, 250.0, 1200.0], 8)
    trials = np.full(n, 4000.0)

    def walk(which, eta, t):
        some = cells.CellLaws(laws.family[which], laws.parameters[which], laws.table)
        size = trials[which] if name == "binomial" else np.full(len(eta), math.exp(-t))
        return cells.sum_out(CODES[name], np.exp(eta), size, some)

    centre = np.log(rates / (4000.0 - rates) if name == "binomial" else rates)
    spread = width * rng.uniform(0.5, 1.0, n) / np.sqrt(1.0 + 0.1 * rates)
    return walk, (centre + 0.3 * spread, spread), (-1.2, 0.04)


def check(name, width, share):
    """Inside of its range, which most cells have, a polynomial is the sum."""
    walk, eta, t = case(name, width)
    fits, two = cell_fits.CellFits(), name == "negative-binomial"
    fits.build(walk, eta, t, two)
    everything = np.arange(len(eta[0]))
    assert np.mean(fits.half > 0.0) >= share
    rng = np.random.default_rng(5)
    for k in range(8):
        at = t[0] + two * rng.uniform(-4.9, 4.9) * t[1]
        place = eta[0] + rng.uniform(-4.9, 4.9, len(everything)) * eta[1]
        if k == 0:
            place = eta[0] + 6.0 * eta[1]  # outside
        found, outside = fits.at(place, at)
        exact = walk(everything, place, at)
        inside = np.setdiff1d(everything, outside)
        assert set(outside) == set(np.flatnonzero(~(np.abs(place - fits.centre) < fits.half)))
        assert (len(inside) == 0) == (k == 0)
        sd = np.sqrt(exact.variance)
        np.testing.assert_allclose(found.log_p[inside], exact.log_p[inside], rtol=0, atol=2e-11)
        assert (np.abs(found.mean - exact.mean)[inside] <= 3e-6 * sd[inside] + 1e-9).all()
        assert (
            np.abs(found.variance - exact.variance)[inside] <= 3e-6 * sd[inside] ** 2 + 1e-9
        ).all()
    return fits


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize(
    ("width", "share"), [(0.03, 1.0), (0.3, 0.9), pytest.param(3.0, 0.0, marks=pytest.mark.full)]
)
def test_polynomials_are_the_sums(name, width, share):
    check(name, width, share)


def test_degrees_grow_with_the_range():
    narrow, wide = (check("negative-binomial", width, 0.0).log_p.shape for width in (0.003, 0.3))
    assert narrow[3] < wide[3]


def test_a_dispersion_out_of_range_is_left_to_the_sums():
    walk, eta, t = case("negative-binomial", 0.1)
    fits = cell_fits.CellFits()
    assert fits.at(eta[0], t[0]) is None  # not built
    fits.build(walk, eta, t, True)
    assert fits.at(eta[0], t[0] + 6.0 * t[1]) is None
    assert fits.at(eta[0], t[0] + 4.0 * t[1]) is not None


def test_a_checkpoint_holds_them():
    walk, eta, t = case("negative-binomial", 0.1)
    fits = cell_fits.CellFits()
    fits.build(walk, eta, t, True)
    arrays = {}
    again = unpack(pack(fits, arrays, "fits"), arrays, cell_fits.CellFits())
    for one, other in zip(fits.at(eta[0], -1.1)[0], again.at(eta[0], -1.1)[0], strict=True):
        np.testing.assert_array_equal(one, other)


BUGS = {
    "the series cut too soon": Edit(
        cell_fits, "nodes_needed", ".max(axis=1) + 2", ".max(axis=1) - 2"
    ),
    "cells that need more are not told": Edit(
        cell_fits, "too_short", "~(ends < 1.0)", "ends < 0.0"
    ),
    "a series in the wrong unit": Edit(
        cell_fits.CellFits,
        "at",
        "(t - self.middle) / self.reach",
        "0.9 * (t - self.middle) / self.reach",
    ),
    "a held series of another dispersion": Edit(
        cell_fits.CellFits, "_series", "if held == t:", "if held != t:"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_bug_is_caught(bug):
    with planted(BUGS[bug]), pytest.raises(AssertionError):
        check("negative-binomial", 0.6, 0.0)
