"""The naive analysis of any model and query: sample as if there was almost no noise.

Where the posterior given T has no closed form, the noise-aware sampler itself can draw from it,
nearly: replace the published noise by one that is too small to matter. Too small to matter means
small against how much T would vary anyway. With sd_j the standard deviation of T_j over databases
of the model, Gaussian noise of standard deviation sd_j / 10 adds (1/10)^2 = 1% to the variance that
T_j has around its expectation, so that intervals are too wide by about half a per cent. (A noise of
exactly 0 would leave the chain nothing to move by.) Where the published noise is smaller than that
already, it stays: there the naive and the noise-aware analysis agree.

sd_j depends on theta. It is taken at draws from a short noise-aware run, the median over them:
sd_j = sqrt(n) times the standard deviation of t_j(x_i) over simulated records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Model, Theta, draw_records, mechanism_abilities
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE, SeparableDensity, log_density
from noiseaware.release import Release
from noiseaware.sampling import sample

if TYPE_CHECKING:
    from xarray import DataTree

SHARE = 0.1
"""Standard deviation of the noise that is left, in units of sd_j."""

SIMULATED = 20
"""Draws of theta at which sd_j is looked at, with 50 to 1,000 records each."""


class LittleNoise:
    """Gaussian noise with a scale of its own for each coordinate; only to be sampled from.

    Parameters
    ----------
    query
        What was asked of the database.
    scales
        Standard deviations, (d,).
    """

    def __init__(self, query: Any, scales: NDArray[np.float64]) -> None:
        self.query, self.scales = query, scales

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density, coordinate by coordinate."""
        parameters = np.zeros((len(self.scales), 4))
        parameters[:, 0] = values
        parameters[:, 1] = 1.0 / self.scales
        return SeparableDensity(np.full(len(self.scales), GAUSSIAN, dtype=np.int64), parameters)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(values, T)."""
        return log_density(self.terms(values), total)


def noise_deviations(release: Release) -> NDArray[np.float64]:
    """Return the standard deviations of the published noise, a few per cent off if discrete."""
    terms = mechanism_abilities(release.mechanism).terms
    assert terms is not None, "plain additive noise is a sum over coordinates"
    density = terms(release.values)
    return np.where(density.family == LAPLACE, np.sqrt(2.0), 1.0) / density.parameters[:, 1]


def draw_with_small_noise(
    model: Model,
    release: Release,
    values: NDArray[np.float64],
    draws: int,
    random_seed: int | None,
) -> Theta:
    """Draw from the posterior that takes `values` for T, up to a noise too small to matter."""
    seeds = np.random.SeedSequence(random_seed).spawn(3)
    pilot_seed, seed = (int(s.generate_state(1, np.uint64)[0]) for s in seeds[:2])
    quiet: dict[str, Any] = {"progressbar": False, "cores": 1}
    pilot = sample(model, release, draws=200, warmup=500, chains=1, random_seed=pilot_seed, **quiet)
    deviations = _deviations(model, release, pilot, np.random.default_rng(seeds[2]))
    scales = np.minimum(SHARE * deviations, noise_deviations(release))
    exact = Release(values, LittleNoise(release.query, scales), release.known_n)
    chains = 4
    result = sample(
        model,
        exact,
        draws=-(-draws // chains),
        warmup=1000,
        chains=chains,
        random_seed=seed,
        **quiet,
    )
    drawn = result["posterior"].to_dataset()
    return {
        p.name: drawn[p.name].values.reshape(-1, *p.shape)[:draws].astype(np.float64)
        for p in model.parameters
    }


def _deviations(
    model: Model, release: Release, pilot: DataTree, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return sd_j, (d,)."""
    n = release.known_n
    m = min(max(n, 50), 1000)
    drawn = pilot["posterior"].to_dataset()
    found = []
    for i in np.linspace(0, drawn.sizes["draw"] - 1, SIMULATED).astype(int):
        theta = {p.name: drawn[p.name].values[0, i] for p in model.parameters}
        index = np.arange(m) * n // m
        t = release.query.statistic(draw_records(model, theta, index, rng))
        spread = np.sqrt(n) * t.std(axis=0)
        size = np.abs(t).max(axis=0)
        one_record = np.where(size > 0.0, size, 1.0)  # for a T_j that does not vary at all
        found.append(np.where(spread > 1e-9 * size, spread, one_record))
    return np.median(found, axis=0)
