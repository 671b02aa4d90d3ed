"""The K-norm mechanism: noise that follows the shape of a ball (Hardt and Talwar 2010).

The release is T + e, and the noise has density proportional to exp(-||e||_K / b), for the norm
whose unit ball is K. Moving T by at most Delta_K in that norm moves the log density by at most
Delta_K / b, so that

    epsilon = Delta_K / b,        log g(s_dp, T) = -||s_dp - T||_K / b.

With the l1 ball this is the Laplace mechanism. With the l2 and l-infinity balls the coordinates of
the noise are not independent: the density is joint. `joint.ball_noise` derives how it is drawn.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Neighbours, Query, total_of
from noiseaware.mechanisms import joint
from noiseaware.mechanisms.calibrate import laplace_noise
from noiseaware.mechanisms.joint import JointDensity, JointMechanism
from noiseaware.queries import Histogram
from noiseaware.registry import MECHANISMS


class KNorm(JointMechanism):
    """Noise with density proportional to exp(-||e|| / scale) in the l1, l2 or l-infinity norm.

    Parameters
    ----------
    query
        What was asked of the database.
    norm
        1, 2 or inf.
    epsilon
        The pure differential privacy to reach: scale = (sensitivity in the norm) / epsilon.
    scale
        Or the scale itself, as published beside a release.
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> import noiseaware as na
    >>> query = na.queries.Histogram(n_levels=3)
    >>> KNorm(query, norm=2, epsilon=0.5).scale  # doctest: +ELLIPSIS
    2.828...
    """

    needed = ("scale", "norm", "query")
    noisy_totals = True
    example_arguments: ClassVar[dict[str, Any]] = {
        "query": Histogram.example(),
        "norm": 2,
        "epsilon": 0.5,
    }

    def __init__(
        self,
        query: Query,
        norm: float = 2,
        epsilon: float | None = None,
        scale: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._hold_query(query, neighbours)
        self.norm = joint.norm_of(norm)
        self.scale, self.guarantee = laplace_noise(
            query, neighbours, epsilon=epsilon, scale=scale, norm=self.norm
        )

    def joint(self, values: ArrayLike) -> JointDensity:
        values = self.check_values(values)
        return joint.density(joint.K_NORM, joint.norm_code(self.norm), 1.0 / self.scale, -values)

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return what log g lacks to be normalised in s_dp."""
        return joint.log_ball_constant(len(self.check_values(values)), self.norm, self.scale)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = total_of(self.query, records)
        return total + joint.ball_noise(len(total), self.norm, self.scale, rng)[0]


MECHANISMS.add(KNorm)
