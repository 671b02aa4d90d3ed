"""Slice sampling on p(theta | x) (Neal 2003).

To update v along a direction d, draw a level y = log p(v | x) - E with E standard exponential. The
new point is drawn from the slice {t : log p(v + t d | x) > y}, which contains t = 0:

* **stepping out.** An interval of width w is placed at random around 0. Its ends move outwards by w
  until both are below the level, or until `MOST_STEPS` steps are used up; these are split between
  the two sides at random, in advance;
* **shrinkage.** t is drawn uniformly from the interval. If it is in the slice it is accepted;
  otherwise it becomes the end of the interval on its side of 0, and t is drawn again.

The interval is as likely to be made from the new point as from the old one, which leaves the
density invariant (Neal's section 4). It is the density of v, Jacobian included (`density.py`).
Nothing is rejected, and a wrong width costs calls, not exactness.

The directions are the columns of K^-T, where K K' is the learned precision of v given x
(`density.py`). In the coordinates K'v the posterior is about spherical, so one pass over all
directions gives an almost independent draw. Directions and widths change in warm-up only.

Reference
---------
Neal, R. M. (2003). Slice sampling. Annals of Statistics 31(3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.kernels.density import DensityKernel, State, Target, log_density

WIDTH = 3.0
"""w, in standard deviations: about the mean width of a slice of a normal density."""

MOST_STEPS = 64
"""Steps outwards on both sides together, enough to cross a posterior far wider than expected."""


class Slice(DensityKernel):
    """Slice sampling on p(theta | x), along one direction after another.

    It needs a model with `log_prior(theta)` and `log_likelihood(theta, records)`.

    Parameters
    ----------
    steps : int
        How often an iteration goes through all directions.

    Examples
    --------
    >>> import noiseaware as na
    >>> na.moves.ParameterUpdate(na.kernels.Slice())
    ParameterUpdate(Slice(steps=1))
    """

    reports: tuple[str, ...] = ()

    def __init__(self, steps: int = 1) -> None:
        super().__init__(steps)

    def _take(self, tuning: dict[str, Any]) -> None:
        """Set the directions: the columns of K^-T as rows, K K' the precision."""
        tuning["directions"] = np.linalg.inv(np.linalg.cholesky(tuning["precision"].matrix))

    def step(self, target: Target, state: State, tuning: dict[str, Any]) -> tuple[()]:
        """Go through all directions `steps` times."""
        rng, records = state.rng, state.records
        v = target.coordinates.to_vector(state.theta)
        now, theta = log_density(target, v, records)
        for _ in range(self.steps):
            for direction in tuning["directions"]:
                v, now, theta = _update(target, v, now, theta, records, direction, rng)
        state.theta = theta
        return ()


def _update(target: Target, v, now, theta, records, direction, rng):
    """Draw a new point along one direction; return it, its log density and its theta."""
    level = now - rng.standard_exponential()
    if not level > -math.inf:  # the model gives where the chain is no density: leave it there
        return v, now, theta
    left = -WIDTH * rng.random()
    right = left + WIDTH
    to_left = int(MOST_STEPS * rng.random())
    to_right = MOST_STEPS - 1 - to_left
    while to_left > 0 and log_density(target, v + left * direction, records)[0] > level:
        left -= WIDTH
        to_left -= 1
    while to_right > 0 and log_density(target, v + right * direction, records)[0] > level:
        right += WIDTH
        to_right -= 1
    while right - left > 1e-12 * WIDTH:
        t = left + rng.random() * (right - left)
        point = v + t * direction
        value, made = log_density(target, point, records)
        if value > level:
            return point, value, made
        if t < 0.0:
            left = t
        else:
            right = t
    return v, now, theta  # a slice narrower than the spacing of floats
