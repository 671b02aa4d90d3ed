"""What the transport move learns in warm-up about the posterior of v, from its own history."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

DIFFERENCE = 0.5
"""Width of the differences that estimate dT/dv, in standard deviations of v given u; `python -m
benchmarks ablation` has others."""

EXACT = 1e-7
"""How close a solution comes, in units of the noise, unless rounding prevents it."""

COARSE = 0.05
"""The largest error that rounding may leave: a release with coarser numbers is refused."""

FINE, PATIENCE = 1e-10, 4
"""Where nothing is `EXACT`, only rounding is left after `PATIENCE` steps in a row below the share
`FINE` of v."""


class Geometry:
    """Mean and covariance of v given s_dp, from the later half of its history; and given u.

    With u held, the release sees theta only through the total T(F(u; theta)), which is nearly
    linear in v over the width of the noise. With J = dT/dv and noise of scale b_j in coordinate j,
    the precision of v given u and s_dp is about J' diag(1/b^2) J plus that of the prior: small in
    the directions that the release leaves free, large in those that it pins down. Its inverse,
    `covariance_given_u`, is known after one estimate of J, before the chain mixes. `pull` (size, d)
    is how v moves, with u held, to change coordinate j of the total by b_j: the Gauss-Newton step,
    covariance_given_u J' diag(1/b).
    """

    learned = ("history", "mean", "covariance", "covariance_given_u", "pull")

    def __init__(self, prior: np.ndarray) -> None:
        self.history: list[np.ndarray] = []
        self.mean, self.covariance = moments(prior)
        self.covariance_given_u = self.covariance
        self.pull = np.zeros((0, 0))
        self._prior_precision = np.linalg.inv(self.covariance)

    def learn(self) -> None:
        """Take mean and covariance from the later half of the history."""
        self.mean, self.covariance = moments(np.stack(self.history[len(self.history) // 2 :]))

    def estimate_jacobian(
        self,
        total_at: Callable[[np.ndarray], np.ndarray],
        inverse_scales: np.ndarray,
        v: np.ndarray,
    ) -> None:
        """Estimate dT/dv at v by differences of v -> T, and from 1 / b_j what depends on it."""
        widths = DIFFERENCE * np.sqrt(np.diag(self.covariance_given_u))
        jacobian = differences(total_at, v, np.diag(widths)) / widths
        weighted = jacobian * inverse_scales[:, None]
        precision = weighted.T @ weighted + self._prior_precision
        self.pull = np.zeros((len(v), len(inverse_scales)))
        if np.isfinite(precision).all():
            self.covariance_given_u = np.linalg.inv(0.5 * (precision + precision.T))
            self.pull = self.covariance_given_u @ weighted.T


def differences(
    total_at: Callable[[np.ndarray], np.ndarray], v: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """Return central differences of the total at v, a column for each column of `directions`."""
    return np.stack([0.5 * (total_at(v + e) - total_at(v - e)) for e in directions.T], axis=1)


class Approach:
    """How close a solver has come, and whether it is done.

    Where the noise is so small that neighbouring floats are far apart in its units, no solution is
    `EXACT` except by chance. That chance depends on the spacing of floats at theta, so a move that
    insisted on it would favour small parameters.
    """

    def __init__(self) -> None:
        self.closest, self.tries = math.inf, 0

    def ends(self, off: float, step: np.ndarray, v: np.ndarray) -> bool:
        """Whether `off`, in units of the noise, is small, or as small as it gets.

        `step` is the next step of v that the solver would make.
        """
        stuck = off >= self.closest and np.abs(step).max() <= FINE * np.abs(v).max()
        self.tries = self.tries + 1 if stuck else 0
        self.closest = min(self.closest, off)
        return off < EXACT or (off < COARSE and self.tries >= PATIENCE)


def moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of draws of v (m, size), shrunk to the diagonal."""
    m, k = draws.shape
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    variances = np.maximum(np.diag(covariance), 1e-12)
    weight = m / (m + 5.0 + k)
    covariance = weight * covariance + (1 - weight) * np.diag(variances)
    covariance[np.diag_indices(k)] += 1e-10 * variances
    return draws.mean(axis=0), covariance
