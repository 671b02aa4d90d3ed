"""The K-norm mechanism: noise that follows the shape of a ball (Hardt and Talwar 2010).

The release is T + e, and the noise has density proportional to exp(-||e||_K / b), for the norm
whose unit ball is K. Moving T by at most Delta_K in that norm moves the log density by at most
Delta_K / b, so that

    epsilon = Delta_K / b,        log g(s_dp, T) = -||s_dp - T||_K / b.

With the l1 ball this is the Laplace mechanism. With the l2 and l-infinity balls the coordinates of
the noise are not independent: the density is joint. `joint.ball_noise` derives how it is drawn.

References
----------
Hardt, M. and Talwar, K. (2010). On the geometry of differential privacy. STOC.
Awan, J. and Slavkovic, A. (2021). Structure and sensitivity in differential privacy: comparing
    K-norm mechanisms. Journal of the American Statistical Association.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware import queries
from noiseaware.mechanisms.additive import check_query
from noiseaware.mechanisms.calibrate import laplace_noise
from noiseaware.mechanisms.guarantee import check_neighbours, with_guarantee
from noiseaware.mechanisms.joint import Joint, ball_noise, k_norm, norm_code
from noiseaware.mechanisms.joint_mechanism import (
    JointMechanism,
    norm_of,
    norm_to_json,
    read_entries,
)
from noiseaware.queries import Neighbours, QueryLike


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

    def __init__(
        self,
        query: QueryLike,
        norm: float = 2,
        epsilon: float | None = None,
        scale: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        check_query(query)
        check_neighbours(neighbours)
        norm_code(norm)
        self.query, self.neighbours = query, neighbours
        self.norm: Any = norm_of(norm)
        self.scale, self.guarantee = laplace_noise(
            query, neighbours, epsilon=epsilon, scale=scale, norm=self.norm
        )

    def joint(self, values: ArrayLike) -> Joint:
        """Return the log density of these released values, for compiled code."""
        return k_norm(self.check_values(values), self.norm, self.scale)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        total = self.query.statistic(records).sum(axis=0)
        return total + ball_noise(len(total), self.norm, self.scale, rng)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON."""
        return self._to_dict(norm=norm_to_json(self.norm), query=self.query.to_dict())

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> KNorm:
        """Read back what `to_dict` wrote."""
        arguments = read_entries(entries, ("norm", "query"))
        arguments["query"] = queries.from_dict(arguments["query"])
        return with_guarantee(cls(**arguments), entries)

    def __repr__(self) -> str:
        return f"KNorm({self.query!r}, norm={self.norm}, scale={self.scale!r})"
