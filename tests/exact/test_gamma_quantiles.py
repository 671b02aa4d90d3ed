"""Gamma variables from normals, against inversion and against identities.

The series of `gamma_quantiles` are compared with SciPy's inverse incomplete gamma function one z at
a time, with the exponential distribution and the chi-square with one degree of freedom, whose
quantiles have closed forms, and there and back again.
"""

import numpy as np
import pytest
from scipy import special

from mutate_models import mutated_models
from noiseaware.models import gamma_quantiles
from noiseaware.models.gamma_quantiles import FARTHEST, gamma_scores, log_quantiles_at

SHAPES = [0.01, 0.05, 0.29, 0.3, 0.7, 1.0, 2.5, 9.0, 40.0, 300.0, 1e4]
Z = np.linspace(-8.0, 8.0, 1001) + 1e-3


def log_quantiles(shape, z, module=gamma_quantiles):
    return module.log_gamma_quantiles(np.array([shape]), np.asarray(z)[:, None])[:, 0]


def error(shape, module=gamma_quantiles):
    """The largest error of log x, relative where it is large."""
    expected = log_quantiles_at(shape, Z)
    return np.max(np.abs(log_quantiles(shape, Z, module) - expected) / (1.0 + np.abs(expected)))


def error_of_mutant(shape, module):
    """As `error`; infinite where a series breaks down."""
    try:
        with np.errstate(all="ignore"):
            return np.nan_to_num(error(shape, module), nan=np.inf)
    except (OverflowError, ValueError):
        return np.inf


@pytest.mark.parametrize("shape", SHAPES)
def test_the_series_agree_with_the_inversion(shape):
    assert error(shape) < 1e-13
    assert (np.diff(log_quantiles(shape, Z)) > 0).all()


def test_closed_forms():
    # The exponential: -log of the survival function; to |z| = 37, which no inversion reaches.
    z = np.linspace(-36.9, 36.9, 999)
    x = np.exp(log_quantiles(1.0, z))
    np.testing.assert_allclose(x, -special.log_ndtr(-z), rtol=1e-9)
    # Half the square of a normal is a gamma variable of shape 1/2.
    z = np.linspace(0.05, 6.0, 500)
    scores = -special.ndtri(2 * special.ndtr(-z))
    np.testing.assert_allclose(np.exp(log_quantiles(0.5, scores)), z**2 / 2, rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(shape):
    y = log_quantiles(shape, Z)
    # Also where x is below exp(-745) and no double any more.
    back = gamma_scores(np.array([shape]), y[:, None])[:, 0]
    np.testing.assert_allclose(back, Z, atol=1e-10)


def test_columns_have_shapes_of_their_own():
    z = np.random.default_rng(1).standard_normal((50, 3))
    shapes = np.array([0.1, 2.0, 30.0])
    together = gamma_quantiles.log_gamma_quantiles(shapes, z)
    for j, shape in enumerate(shapes):
        expected = log_quantiles_at(shape, np.sort(z[:, j]))
        np.testing.assert_allclose(np.sort(together[:, j]), expected, rtol=1e-11)
    scores = gamma_scores(shapes, together)
    np.testing.assert_allclose(scores, z, atol=1e-11)


def test_extremes_stay_finite():
    z = np.array([-1e9, -np.inf, -50.0, 0.0, 50.0, np.inf])
    for shape in (1e-3, 1.0, 1e3):
        y = log_quantiles(shape, z)
        assert np.isfinite(y).all()
        assert (np.diff(y) >= 0).all() or (y[0] == y[1])
    scores = gamma_scores(np.array([2.0]), np.array([[-1e4], [1e4]]))
    np.testing.assert_array_equal(scores, [[-FARTHEST], [FARTHEST]])


def test_what_is_not_a_shape_makes_nothing():
    z = np.zeros((2, 1))
    for shape in (0.0, -1.0, np.nan, np.inf):
        assert np.isnan(gamma_quantiles.log_gamma_quantiles(np.array([shape]), z)).all()
    assert np.isnan(gamma_quantiles.log_gamma_quantiles(np.ones(1), np.full((2, 1), np.nan))).all()
    assert gamma_quantiles.log_gamma_quantiles(np.ones(1), np.empty((0, 1))).shape == (0, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_does_not_depend_on_the_others(shape):
    together = log_quantiles(shape, Z[np.abs(Z) < 6.0])
    alone = [log_quantiles(shape, [z])[0] for z in Z[np.abs(Z) < 6.0][::100]]
    np.testing.assert_array_equal(together[::100], alone)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bends[k] -= 1.0", "bends[k] -= 0.5"),
        ("bends[k] -= z", "bends[k] += z"),
        ("total - shape * slope[k - 1]", "total - shape * slope[k]"),
        (
            "STEP, FINE_STEP, SMALL_SHAPE = 0.25, 0.125, 0.3",
            "STEP, FINE_STEP, SMALL_SHAPE = 1.0, 1.0, 0.3",
        ),
        ("z - step * node, HALF_ORDER", "step * node - z, HALF_ORDER"),
        ("math.exp(series[at, 0]) > shape", "True"),  # on beyond the mode, where errors grow
        ("series[i - 1], step, ORDER", "series[i - 1], step, 6"),
    ],
)
def test_a_bug_in_the_series_is_caught(old, new):
    with mutated_models("gamma_quantiles.py", old, new) as mutant:
        assert max(error_of_mutant(shape, mutant.gamma_quantiles) for shape in (0.05, 2.5)) > 1e-9


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row = series[low]", "row = series[low - 1]"),
        ("change = (y - value) / slope", "change = 0.5 * (y - value) / slope"),
        ("out[i] = step * (low - last // 2) + d", "out[i] = step * (low - last // 2)"),
    ],
)
def test_a_bug_on_the_way_back_is_caught(old, new):
    assert error_on_the_way_back(gamma_quantiles) < 1e-13
    with mutated_models("gamma_quantiles.py", old, new) as mutant:
        assert error_on_the_way_back(mutant.gamma_quantiles) > 1e-11


def error_on_the_way_back(module):
    z = Z[np.abs(Z) < 4.0]
    logs = log_quantiles_at(2.5, z)[:, None]
    return np.abs(module.gamma_scores(np.array([2.5]), logs)[:, 0] - z).max()


def test_the_way_back_begins_close():
    """One step of Newton's method is enough, where a start is within 3e-8."""
    z = Z[np.abs(Z) < 5.5]
    for shape in (0.05, 0.5, 2.5, 1e3):
        step = gamma_quantiles.FINE_STEP if shape < 0.3 else gamma_quantiles.STEP
        nodes = np.arange(-6.0, 6.0 + step, step)
        series = np.empty((len(nodes), gamma_quantiles.ORDER + 1))
        ends = log_quantiles_at(shape, nodes[[0, -1]])
        constant = special.gammaln(shape) - 0.5 * np.log(2 * np.pi)
        gamma_quantiles.fill_series(shape, constant, step, ends, series)
        starts = np.empty((len(nodes) - 1, 6))
        gamma_quantiles._between(series, step, starts)
        y = log_quantiles_at(shape, z)
        low = np.searchsorted(series[:, 0], y, side="right") - 1
        t = (y - series[low, 0]) / (series[low + 1, 0] - series[low, 0])
        found = nodes[low] + (starts[low] * t[:, None] ** np.arange(6)).sum(axis=1)
        assert np.abs(found - z).max() < 3e-8
