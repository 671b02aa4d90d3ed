"""The limits of epsilon.

As epsilon shrinks, the posterior tends to the prior. As it grows, the noise vanishes. According to
the paper's supplement, p(theta | s_dp) then tends to the clamped-data posterior p(theta | x~, y~).
Strictly, it tends to p(theta | s), the posterior given the *sums* s of the clamped data. For naive
Bayes the counts are sufficient and nothing is clamped, so the limit is p(theta | x). For the
regression, the sums of the clamped records carry slightly less information than the clamped records
themselves, if any value is clamped.

Distance is measured by the Kolmogorov distance, the largest difference of the cumulative
distribution functions, averaged over the entries of the parameter: 0 if they are equal, 1 if they
do not overlap. With effective sample size m it is about 0.9 / sqrt(m) even if they are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseaware.baselines import non_private
from noiseaware.studies import run_chains, summarise
from noiseaware_paper import published
from noiseaware_paper.settings import Experiment, Size

DRAWS = 4000  # draws from the two limits

_KEPT: dict[tuple[str, bytes], np.ndarray] = {}


def limit_task(experiment: Experiment, size: Size, random_seed: int, key) -> dict[str, Any]:
    """Sample the posterior of one release of the fixed database and measure the distances."""
    place, _ = key
    seeds = np.random.SeedSequence(random_seed, spawn_key=(2, *key)).spawn(2)
    records = experiment.database()
    rng = np.random.default_rng(seeds[0])
    release = experiment.release(records, size.limit_epsilons[place], rng)
    drawn, _ = run_chains(experiment.model, release, size.limit_samplers[experiment.name], seeds[1])
    draws = drawn[experiment.parameter]
    kept = summarise(draws, published.INTERVAL)
    flat = draws.reshape(-1, draws.shape[-1])
    return {
        "epsilon": size.limit_epsilons[place],
        "mean": kept["mean"].tolist(),
        "sd": kept["sd"].tolist(),
        "ess": float(np.nanmin(kept["ess"])),
        "from_prior": distance(flat, prior_draws(experiment)),
        "from_data": distance(flat, data_draws(experiment, records)),
    }


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the average Kolmogorov distance between the columns of two sets of draws."""
    from scipy.stats import ks_2samp

    pairs = zip(a.T, b.T, strict=True)
    return float(np.mean([ks_2samp(x, y, method="asymp").statistic for x, y in pairs]))


def prior_draws(experiment: Experiment) -> np.ndarray:
    """Draw the reported parameter from the prior."""
    rng, draw = np.random.default_rng(3), experiment.model.sample_prior
    return np.array([draw(rng)[experiment.parameter] for _ in range(DRAWS)])


def data_draws(experiment: Experiment, records: np.ndarray) -> np.ndarray:
    """Draw from the posterior given the clamped records; cached in the process."""
    key = (experiment.name, records.tobytes())
    if key not in _KEPT:
        if experiment.name == "regression":
            found = clamped_posterior(experiment.model, records, published.LOWER, published.UPPER)
        else:
            drawn = non_private(experiment.model, records, draws=DRAWS, random_seed=4)
            found = drawn[experiment.parameter]
        _KEPT[key] = found
    return _KEPT[key]


def clamped_posterior(
    model: Any, records: np.ndarray, lower: float, upper: float, draws: int = DRAWS
) -> np.ndarray:
    """Draw coefficients given records with clamped responses, as in the paper's supplement.

    A Gibbs sampler: a response at a bound is only known to lie beyond it, so it is drawn from its
    normal distribution truncated there; then the coefficients are drawn given the completed
    records. The features must lie inside the bounds.
    """
    from scipy.special import ndtr, ndtri

    assert (np.abs(records[:, :-1]) < upper).all(), "only the response may be clamped"
    rng = np.random.default_rng(5)
    completed = np.array(records)
    low, high = records[:, -1] <= lower, records[:, -1] >= upper
    features = np.column_stack([np.ones(len(records)), records[:, :-1]])
    theta = model.sample_prior(rng)
    kept = np.empty((draws, features.shape[1]))
    sd = np.sqrt(model.noise_variance)
    for i in range(-100, draws):
        for _ in range(3):
            theta = model.update_parameters(theta, completed, rng)
            mean = features @ theta["coefficients"]
            u = rng.random(len(records))
            below = mean + sd * ndtri(u * ndtr((lower - mean) / sd))
            above = mean - sd * ndtri(u * ndtr((mean - upper) / sd))
            completed[low, -1], completed[high, -1] = below[low], above[high]
        if i >= 0:
            kept[i] = theta["coefficients"]
    return kept
