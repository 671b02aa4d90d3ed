"""How often a proposal is accepted, from the promise of privacy alone.

Under pure epsilon-DP every acceptance probability is at least exp(-epsilon) (the paper's
Proposition 3.1). Under weaker promises no such floor exists: the log ratio of g is unbounded. What
remains true is said here in two numbers, both about a record that is changed:

- `likely_acceptance(guarantee, miss)`: a level that the acceptance probability stays above, except
  with probability `miss`;
- `mean_acceptance(guarantee)`: a level that the mean acceptance probability stays above.

Both are averages over the noise of the release, not theorems about each release, so falling below
them proves nothing. `docs/acceptance.md` has the derivations, and says what the averages mean for
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
>>> from noiseaware.mechanisms import Guarantee
>>> round(likely_acceptance(Guarantee("GDP", mu=0.5, rho=0.125), miss=0.001), 3)
0.165
>>> round(mean_acceptance(Guarantee("GDP", mu=0.5, rho=0.125)), 3)
0.803
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtri

from noiseaware.mechanisms.calibrate import probability
from noiseaware.mechanisms.curves import gaussian_delta
from noiseaware.mechanisms.guarantee import Guarantee

__all__ = ["MISS", "likely_acceptance", "mean_acceptance"]

MISS = 1e-3
"""How often a sweep may fall below the level that a posterior's checks show."""


def likely_acceptance(guarantee: Guarantee, miss: float) -> float | None:
    """Return a level that an acceptance probability is below with probability at most `miss`.

    The probability is over the noise of the release, for a record that is changed without a look
    at the release. Under pure epsilon-DP the level is exp(-epsilon), which is never missed.

    Parameters
    ----------
    guarantee
        What the mechanism promises.
    miss
        Between 0 and 1.

    Returns
    -------
    float or None
        None if the promise says nothing at this `miss`: it is unknown, or it is (epsilon,
        delta)-DP with a delta that is not below `miss`.
    """
    miss = probability("miss", miss)
    bounds = (
        guarantee.change_epsilon,
        _gaussian_loss(guarantee, miss),
        _concentrated_loss(guarantee, miss),
        _approximate_loss(guarantee, miss),
    )
    losses = [bound for bound in bounds if bound is not None]
    return math.exp(-min(losses)) if losses else None


def mean_acceptance(guarantee: Guarantee) -> float | None:
    """Return a level that the mean acceptance probability is not below, or None if unknown.

    The mean is over the noise of the release, for a record that is changed without a look at it.
    """
    steps = _steps(guarantee)
    distances = []
    if guarantee.change_epsilon is not None:
        distances.append(math.tanh(guarantee.change_epsilon / 2.0))
    if guarantee.mu is not None:
        distances.append(gaussian_delta(0.0, steps * guarantee.mu))
    if guarantee.rho is not None:
        # Pinsker's inequality, and that of Bretagnolle and Huber where it says more.
        rho = steps**2 * guarantee.rho
        distances.append(min(math.sqrt(rho / 2.0), math.sqrt(-math.expm1(-rho))))
    if guarantee.kind == "approximate":
        epsilon, delta = _changed_approximate(guarantee)
        distances.append(min(1.0, delta + (1.0 - delta) * math.tanh(epsilon / 2.0)))
    return 1.0 - min(distances) if distances else None


def _steps(guarantee: Guarantee) -> int:
    """To change a record is one step, or to remove one and to add one."""
    return 1 if guarantee.neighbours == "change" else 2


def _gaussian_loss(guarantee: Guarantee, miss: float) -> float | None:
    """Return c with P(Z >= c) <= miss under mu-GDP."""
    if guarantee.mu is None:
        return None
    mu = _steps(guarantee) * guarantee.mu
    return math.log(miss) - float(log_ndtr(ndtri(miss) - mu))


def _concentrated_loss(guarantee: Guarantee, miss: float) -> float | None:
    """Return c with P(Z >= c) <= miss under rho-zCDP."""
    if guarantee.rho is None:
        return None
    rho = _steps(guarantee) ** 2 * guarantee.rho
    return rho + 2.0 * math.sqrt(-rho * math.log(miss))


def _approximate_loss(guarantee: Guarantee, miss: float) -> float | None:
    """Return c with P(Z > c) <= miss under (epsilon, delta)-DP; None if delta >= miss."""
    if guarantee.kind != "approximate":
        return None
    epsilon, delta = _changed_approximate(guarantee)
    return epsilon - math.log1p(-delta / miss) if delta < miss else None


def _changed_approximate(guarantee: Guarantee) -> tuple[float, float]:
    """Return epsilon and delta for a record that is changed."""
    assert guarantee.epsilon is not None
    assert guarantee.delta is not None
    if _steps(guarantee) == 1:
        return guarantee.epsilon, guarantee.delta
    return 2.0 * guarantee.epsilon, (1.0 + math.exp(guarantee.epsilon)) * guarantee.delta
