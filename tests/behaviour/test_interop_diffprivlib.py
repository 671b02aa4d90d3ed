"""Real diffprivlib mechanisms: their draws against the density that is read from them."""

import math
import warnings

import numpy as np
import pytest

import noiseaware as na
from behaviour.docs_blocks import run_blocks
from mutants.planting import Edit, planted

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    library = pytest.importorskip(
        "diffprivlib.mechanisms", reason="the extra `diffprivlib` is not installed"
    )


def read(*arguments):
    return na.interop.diffprivlib.release(*arguments)


COUNT = na.queries.Count(value=1)
N = 10
RANGE = {"lower": 0, "upper": N}


def made(name, **options):
    options = {"epsilon": 0.4, "sensitivity": 1, "random_state": 5, **options}
    if name.startswith("Gaussian"):
        options.setdefault("delta", 1e-3)
    if name.endswith(("Truncated", "Folded", "BoundedDomain")):
        options = {**RANGE, **options}
    return getattr(library, name)(**options)


NAMES = na.interop.diffprivlib.KNOWN


def values_of(name):
    """One value that the mechanism can release."""
    return 3 if "Geometric" in name or "Discrete" in name else 3.25


@pytest.mark.parametrize("name", NAMES)
def test_the_law_of_the_draws_is_the_one_that_is_read(name):
    """Chi-square of the draws, in cells that are the atoms, the integers or intervals."""
    from scipy.stats import chisquare

    total, draws = 2, 4000 if name == "GaussianDiscrete" else 8000
    mechanism = made(name)
    released = np.array([mechanism.randomise(total) for _ in range(draws)])
    read_one = read(made(name), values_of(name), COUNT, N).mechanism
    discrete = "Geometric" in name or "Discrete" in name
    noise = getattr(read_one, "mechanism", read_one)
    # The noise of the release, on a fine grid, from the mechanism that was read.
    reach = 60.0 * noise.scale
    grid = (
        np.arange(-reach // 1, reach // 1 + 1) if discrete else np.linspace(-reach, reach, 200001)
    )
    z = np.abs(grid) / noise.scale
    mass = np.exp(-0.5 * z**2) if name.startswith("Gaussian") else np.exp(-z)
    noisy, mass = total + grid, mass / mass.sum()
    # What the mechanism that was read says is done after the noise.
    kind = type(read_one).__name__
    if kind == "Clamped":
        noisy = np.clip(noisy, read_one.lower, read_one.upper)
    elif kind == "Truncated":
        mass = np.where((noisy >= read_one.lower) & (noisy <= read_one.upper), mass, 0.0)
        mass /= mass.sum()
    elif kind == "Folded":
        noisy = na.mechanisms.forced.fold(noisy, read_one.lower, read_one.upper)
    edges = np.concatenate([[-np.inf], np.arange(-3, N + 4) - 0.5, [np.inf]])
    if not discrete:  # the ends of the range have cells of their own, for the atoms
        edges = np.unique(np.concatenate([edges, [1e-9, -1e-9, N - 1e-9, N + 1e-9]]))
    expected = draws * np.histogram(noisy, edges, weights=mass)[0]
    counts = np.histogram(released, edges)[0]
    assert counts[expected == 0].sum() == 0
    keep = expected > 5
    if keep.all() or expected[~keep].sum() == 0:
        counts, expected = counts[keep], expected[keep]
    else:
        counts = np.append(counts[keep], counts[~keep].sum())
        expected = np.append(expected[keep], expected[~keep].sum())
    assert chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-5


def hand_written(name):
    laplace = na.mechanisms.Laplace(COUNT, scale=1 / 0.4)
    geometric = na.mechanisms.DiscreteLaplace(COUNT, scale=1 / 0.4)
    known = {
        "Laplace": laplace,
        "LaplaceTruncated": na.mechanisms.Clamped(laplace, lower=0, upper=N),
        "LaplaceFolded": na.mechanisms.Folded(laplace, 0, N),
        "Geometric": geometric,
        "GeometricTruncated": na.mechanisms.Clamped(geometric, lower=0, upper=N),
        "GeometricFolded": na.mechanisms.Folded(geometric, 0, N),
        "Gaussian": na.mechanisms.Gaussian(COUNT, scale=math.sqrt(2 * math.log(1250)) / 0.4),
    }
    return known[name]


@pytest.mark.parametrize(
    "name",
    [
        "Laplace",
        "LaplaceTruncated",
        "LaplaceFolded",
        "Geometric",
        "GeometricTruncated",
        "GeometricFolded",
        "Gaussian",
    ],
)
def test_the_release_is_the_one_written_by_hand(name):
    value = values_of(name)
    expected = na.Release([value], hand_written(name), N)
    assert read(made(name), value, COUNT, N).to_dict() == expected.to_dict()


def test_the_scale_of_the_others():
    # (epsilon, delta) by the analytic calibration is the same number in both libraries.
    analytic = read(made("GaussianAnalytic"), 3.0, COUNT, N).mechanism
    ours = na.mechanisms.Gaussian(COUNT, epsilon=0.4, delta=1e-3)
    assert analytic.scale == pytest.approx(ours.scale, rel=1e-6)
    # A bounded domain needs more noise than epsilon alone would say.
    bounded = made("LaplaceBoundedDomain")
    release = read(bounded, 3.0, COUNT, N)
    assert release.mechanism.mechanism.scale == pytest.approx(1 / bounded.effective_epsilon())
    assert release.mechanism.mechanism.scale > 1 / 0.4
    # delta makes the noise of Laplace smaller.
    relaxed = read(made("Laplace", delta=0.1), 3.0, COUNT, N).mechanism
    assert relaxed.scale == pytest.approx(math.sqrt(made("Laplace", delta=0.1).variance(0) / 2))
    assert relaxed.scale < 1 / 0.4


@pytest.mark.parametrize("name", ["LaplaceBoundedDomain", "GeometricTruncated", "LaplaceFolded"])
def test_the_posterior_is_right(name):
    """Sampled from a real release, against the sum over T, with the law simulated by hand."""
    value = made(name).randomise(1)
    release = read(made(name), value, COUNT, N)
    posterior = na.sample(
        na.models.Bernoulli(),
        release,
        draws=2500,
        warmup=500,
        chains=2,
        cores=1,
        random_seed=1,
        progressbar=False,
    )["posterior"]
    total = np.arange(N + 1.0)
    scale = release.mechanism.mechanism.scale
    if name == "LaplaceBoundedDomain":
        inside = 1 - 0.5 * np.exp(-total / scale) - 0.5 * np.exp(-(N - total) / scale)
        weight = np.exp(-np.abs(value - total) / scale) / inside
    else:
        reach = np.arange(-400, 401) if name == "GeometricTruncated" else None
        if reach is not None:
            hits = np.clip(reach, 0, N) == value
            weight = np.exp(-np.abs(reach[hits, None] - total) / scale).sum(axis=0)
        else:
            k = 2 * N * np.arange(-40, 41)[:, None]
            weight = np.exp(-np.abs(value + k - total) / scale).sum(axis=0)
            weight += np.exp(-np.abs(-value + k - total) / scale).sum(axis=0)
    exact = ((1 + total) / (N + 2)) @ weight / weight.sum()
    assert float(posterior["probability"].mean()) == pytest.approx(exact, abs=0.03)


def test_what_cannot_be_read():
    narrow = made("LaplaceBoundedDomain", upper=5)
    with pytest.raises(ValueError, match="clamps the answer to"):
        read(narrow, 3.0, COUNT, N)
    mine = na.Query(lambda x: x.reshape(-1, 1), ["x"], 1.0)
    with pytest.raises(ValueError, match="whose range of answers is known"):
        read(made("LaplaceBoundedDomain"), 3.0, mine, N)
    staircase = library.Staircase(epsilon=1.0, sensitivity=1, gamma=0.5)
    with pytest.raises(ValueError, match=r"got Staircase.*by hand"):
        read(staircase, 3.0, COUNT, N)
    for wrong in (3.0, library.Laplace):
        with pytest.raises(TypeError, match="must be a mechanism of diffprivlib"):
            read(wrong, 3.0, COUNT, N)
    with pytest.raises(ValueError, match="integers under discrete noise"):
        read(made("Geometric"), 3.5, COUNT, N)


BUGS = {
    "delta is left out": ("_scale", " - math.log1p(-mechanism.delta)", ""),
    "a bounded domain is taken for clamped": (
        "_after_noise",
        "mechanisms.Truncated(noise",
        "mechanisms.Clamped(noise",
    ),
    "folded is taken for clamped": ("_after_noise", "mechanisms.Folded(", "mechanisms.Clamped("),
}


def checks():
    test_the_scale_of_the_others()
    for name in ("LaplaceBoundedDomain", "LaplaceFolded"):
        test_the_law_of_the_draws_is_the_one_that_is_read(name)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    checks()
    with planted(Edit(na.interop.diffprivlib, *BUGS[bug])), pytest.raises(AssertionError):
        checks()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SciPy, about diffprivlib
def test_the_blocks_of_the_docs_run():
    run_blocks("diffprivlib")
