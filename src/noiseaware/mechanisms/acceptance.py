"""Bounds on the acceptance rate that follow from the privacy promise alone.

Under pure epsilon-DP every acceptance probability is at least exp(-epsilon) (the paper's
Proposition 3.1). Weaker promises leave the log ratio of g unbounded, so no such floor exists. Two
numbers take its place, both for a change of one record:

- `likely_acceptance`: the acceptance probability is above this level with high probability;
- `mean_acceptance`: a lower bound on the mean acceptance probability.

Both average over the noise of the release. They do not hold for each release, so falling below
them proves nothing. `docs/acceptance.md` derives them and explains what the averages mean for
imputed databases.

With Z = log g(s, T) - log g(s, T*) for s drawn by the mechanism at T, the acceptance probability is
min(1, exp(-Z)), and

- mu-GDP: P(Z >= c) <= a for c = log(a / Phi(Phi^-1(a) - mu)), with Phi the normal distribution
  function (for additive Gaussian noise also for the smaller c = mu^2/2 - mu Phi^-1(a));
- rho-zCDP: P(Z >= rho + 2 sqrt(rho log(1/a))) <= a (Bun and Steinke 2016);
- (epsilon, delta)-DP: P(Z > c) <= delta / (1 - exp(epsilon - c)), for c > epsilon;
- the mean of min(1, exp(-Z)) is 1 minus the total variation distance of the two laws.

Example
-------
>>> promise = Guarantee("GDP", mu=0.5, rho=0.125)
>>> round(likely_acceptance(promise, miss=0.001), 3), round(mean_acceptance(promise), 3)
(0.165, 0.803)
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtri

from noiseaware.mechanisms.calibrate import probability
from noiseaware.mechanisms.guarantee import Guarantee, gaussian_delta

MISS = 1e-3
"""How often a sweep may fall below the level shown in a posterior's checks."""


def likely_acceptance(guarantee: Guarantee, miss: float) -> float | None:
    """Return a level that the acceptance probability falls below with probability at most `miss`.

    The probability is over the noise of the release, for a record changed independently of the
    release. Under pure epsilon-DP the level is exp(-epsilon), which is never missed. Return None
    if the promise implies nothing at this `miss`, a number between 0 and 1: it is unknown, or
    (epsilon, delta)-DP with delta >= `miss`.
    """
    miss = probability("miss", miss)
    changed = guarantee.for_change()
    losses = []  # each a c with P(Z >= c) <= miss
    if changed.pure_epsilon is not None:
        losses.append(changed.pure_epsilon)
    if changed.mu is not None:
        losses.append(math.log(miss) - float(log_ndtr(ndtri(miss) - changed.mu)))
    if changed.rho is not None:
        losses.append(changed.rho + 2.0 * math.sqrt(-changed.rho * math.log(miss)))
    epsilon, delta = _approximate(changed)
    if delta < miss:
        losses.append(epsilon - math.log1p(-delta / miss))
    return math.exp(-min(losses)) if losses else None


def mean_acceptance(guarantee: Guarantee) -> float | None:
    """Return a lower bound on the mean acceptance probability, or None if unknown.

    The mean is over the noise of the release, for a record changed independently of it.
    """
    changed = guarantee.for_change()
    distances = []
    if changed.pure_epsilon is not None:
        distances.append(math.tanh(changed.pure_epsilon / 2.0))
    if changed.mu is not None:
        distances.append(gaussian_delta(0.0, changed.mu))
    if changed.rho is not None:
        # Pinsker's inequality, or Bretagnolle and Huber's where it is tighter.
        distances.append(min(math.sqrt(changed.rho / 2.0), math.sqrt(-math.expm1(-changed.rho))))
    if changed.kind == "approximate":
        epsilon, delta = _approximate(changed)
        distances.append(delta + (1.0 - delta) * math.tanh(epsilon / 2.0))
    return 1.0 - min(distances) if distances else None


def _approximate(guarantee: Guarantee) -> tuple[float, float]:
    """Return the epsilon and delta of an (epsilon, delta) promise; delta is 1 for other kinds."""
    if guarantee.kind != "approximate":
        return math.inf, 1.0
    assert guarantee.epsilon is not None
    assert guarantee.delta is not None
    return guarantee.epsilon, guarantee.delta
