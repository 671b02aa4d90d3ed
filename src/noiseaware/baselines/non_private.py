"""p(theta | x): the posterior given the confidential records.

For studies in which the records are simulated and known. The model's own kernel for p(theta | x) is
iterated: one iteration per draw if the kernel draws exactly; for a Gibbs scan or a random walk, the
thinning is increased fourfold until the kept draws are nearly independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model, model_abilities
from noiseaware.results.posterior import with_derived

WARMUP = 200
"""Iterations of warm-up, times the thinning."""

MOST_THINNING = 256
"""At this thinning the draws are returned even if correlated: more would take too long."""
NEARLY_INDEPENDENT = 0.7
"""The chain is thinned until the effective sample size is this share of the draws."""


def non_private(
    model: Model, records: Any, *, draws: int = 1000, random_seed: int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Draw from p(theta | x), the posterior given the confidential records.

    Parameters
    ----------
    model
        The model of the records; it must have `update_parameters`.
    records : array_like, (n, ...)
        The confidential records.
    draws : int
        The number of draws.
    random_seed : int, optional
        Seed of the draws.

    Returns
    -------
    dict
        Draws of each parameter and derived quantity, (draws, *shape).

    Examples
    --------
    >>> import noiseaware as na
    >>> from noiseaware.baselines import non_private
    >>> drawn = non_private(na.models.Bernoulli(), [0, 1, 1, 0], draws=500, random_seed=1)
    >>> drawn["probability"].shape
    (500,)
    """
    draws = whole_number("draws", draws)
    able = model_abilities(model)
    update = able.update_parameters
    if update is None:
        raise ValueError(
            f"{able.name} has no update_parameters, the kernel for p(theta | x) that "
            "the non-private posterior is drawn with"
        )
    records = np.asarray(records)
    if able.check_records is not None:
        able.check_records(records)
    rng = np.random.default_rng(random_seed)
    theta = model.sample_prior(rng)
    thin = 1
    while True:
        for _ in range(WARMUP * thin):
            theta = update(theta, records, rng)
        drawn = {p.name: np.empty((draws, *p.shape)) for p in model.parameters}
        for i in range(draws):
            for _ in range(thin):
                theta = update(theta, records, rng)
            for name, values in drawn.items():
                values[i] = theta[name]
        if thin >= MOST_THINNING or _smallest_share(drawn) >= NEARLY_INDEPENDENT:
            return with_derived(model, drawn)
        thin *= 4


def _smallest_share(drawn: dict[str, NDArray[np.float64]]) -> float:
    """Return the smallest ratio of effective sample size to draws over all parameters."""
    from arviz_stats.base import array_stats

    shares = [1.0]
    for values in drawn.values():
        flat = values.reshape(len(values), -1)
        moving = flat[:, np.ptp(flat, axis=0) > 0]
        if len(flat) < 20 or moving.shape[1] == 0:  # too few to tell, or a constant
            continue
        # The full ESS is computed only for the scalar with the largest lag-1 autocorrelation.
        centred = moving - moving.mean(axis=0)
        lag = (centred[1:] * centred[:-1]).mean(axis=0) / (centred**2).mean(axis=0)
        worst = moving[None, :, int(np.argmax(lag))]
        shares.append(float(array_stats.ess(worst, chain_axis=0, draw_axis=1)) / len(flat))
    return min(shares)
