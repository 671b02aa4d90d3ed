"""The exponential mechanism over finitely many outputs, and the K-norm mechanism.

**Exponential** (McSherry and Talwar 2007). The curator scores every candidate output k by a utility
summed over the records, and releases one candidate, drawn with

    P(k) = exp(T_k / b) / sum_l exp(T_l / b),            T_k = sum_i u_k(x_i).

T is the vector of all utilities, so the query has one coordinate per candidate. The denominator
depends on the records and therefore belongs to g; without it a sampler has the wrong target. If one
record moves every T_k by at most Delta (l-infinity), numerator and denominator each change by a
factor of at most exp(Delta / b), so

    epsilon = 2 Delta / b.

**K-norm** (Hardt and Talwar 2010). The release is T + e, with noise density proportional to
exp(-||e||_K / b) for the norm with unit ball K. Moving T by at most Delta_K in that norm moves the
log density by at most Delta_K / b, so

    epsilon = Delta_K / b,        log g(s_dp, T) = -||s_dp - T||_K / b.

The l1 ball gives the Laplace mechanism. With the l2 and l-infinity balls the noise coordinates are
dependent, and the density is joint. `joint.ball_noise` draws the noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import positive
from noiseaware.contract import Floats, Neighbours, Query, query_abilities, total_of
from noiseaware.mechanisms import joint
from noiseaware.mechanisms.calibrate import known_sensitivity, laplace_noise, utility_noise
from noiseaware.mechanisms.joint import JointDensity, JointMechanism
from noiseaware.queries import Histogram
from noiseaware.registry import MECHANISMS


class OutputQuery:
    """The question "which output?": one released value, chosen by a query of utilities."""

    names = ("output",)
    integer_valued = False

    def __init__(self, utilities: Any) -> None:
        able = query_abilities(utilities)
        self.utilities = utilities
        self.statistic, self.sensitivity = utilities.statistic, utilities.sensitivity
        self.check_records, self.to_dict = able.check_records, able.to_dict

    def __repr__(self) -> str:
        return f"OutputQuery({self.utilities!r})"


class Exponential(JointMechanism):
    """One of finitely many outputs, chosen by its noisy utility.

    Parameters
    ----------
    query
        The utilities, one coordinate per output; larger is better.
    outputs
        The candidates, distinct numbers; by default 0, 1, ...
    epsilon
        Pure differential privacy to reach: scale = 2 sensitivity / epsilon.
    sensitivity
        The most that one record moves any utility; by default the query's (l-infinity).
    scale
        Alternatively, the scale: P(k) is proportional to exp(utility / scale).
    neighbours
        `"change"` (one record is changed) or `"add-remove"`.

    Examples
    --------
    >>> import noiseaware as na
    >>> votes = na.queries.Histogram(n_levels=3)
    >>> mechanism = Exponential(votes, epsilon=1.0)
    >>> mechanism.scale
    2.0
    >>> round(mechanism.log_density([2.0], [1.0, 1.0, 1.0]), 6)  # log(1/3)
    -1.098612
    """

    needed = ("scale", "outputs", "query")
    optional_arguments = ("sensitivity", "neighbours", "guarantee")
    example_arguments = {"query": Histogram.example(), "epsilon": 1.0}

    def __init__(
        self,
        query: Query,
        outputs: ArrayLike | None = None,
        epsilon: float | None = None,
        sensitivity: float | None = None,
        scale: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._hold_query(query, neighbours)
        self.utilities, self.query = query, OutputQuery(query)
        count = len(query.names)
        self.outputs = _check_outputs(np.arange(count) if outputs is None else outputs, count)
        reason = ""
        if sensitivity is not None:
            sensitivity = positive("sensitivity", sensitivity)
        else:
            sensitivity, reason = known_sensitivity(query, math.inf, neighbours)
        self.sensitivity = sensitivity
        self.scale, self.guarantee = utility_noise(
            sensitivity, reason, neighbours, epsilon=epsilon, scale=scale
        )

    def total_length(self, values: Floats) -> int:
        return len(self.outputs)

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return the utility of every output for each record, (m, K)."""
        return self.utilities.statistic(records)

    def joint(self, values: ArrayLike) -> JointDensity:
        position = np.flatnonzero(self.outputs == self.check_values(values))[0]
        return joint.density(joint.EXPONENTIAL, position, 1.0 / self.scale)

    def check_values(self, values: ArrayLike) -> Floats:
        array, outputs = super().check_values(values), self.outputs
        if not (outputs == array[0]).any():
            shown = ", ".join(f"{output:g}" for output in outputs[:5])
            more = ", ..." if len(outputs) > 5 else ""
            raise ValueError(
                f"values must be one of the {len(outputs)} outputs ({shown}{more}); "
                f"got {array[0]:g}"
            )
        return array

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return 0: log g is the log of a probability."""
        return 0.0

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = self.utilities.statistic(records).sum(axis=0)
        # The Gumbel trick: the argmax of T_k / b plus Gumbel noise is a draw from P.
        chosen = int(np.argmax(total / self.scale + rng.gumbel(size=len(total))))
        return self.outputs[chosen : chosen + 1]


def _check_outputs(outputs: ArrayLike, count: int) -> Floats:
    array = np.array(outputs, dtype=np.float64)
    if array.shape != (count,):
        raise ValueError(
            f"outputs must be {count} numbers, one for each coordinate of the query; "
            f"got shape {array.shape}"
        )
    if not np.isfinite(array).all() or len(np.unique(array)) < count:
        raise ValueError("outputs must be finite numbers, all different")
    return array


class KNorm(JointMechanism):
    """Noise with density proportional to exp(-||e|| / scale) in the l1, l2 or l-infinity norm.

    Parameters
    ----------
    query
        The query whose total is released.
    norm
        1, 2 or inf.
    epsilon
        Pure differential privacy to reach: scale = (sensitivity in the norm) / epsilon.
    scale
        Alternatively, the published scale.
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
    example_arguments = {"query": Histogram.example(), "norm": 2, "epsilon": 0.5}

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
        """Return the constant to add to log g to normalise it in s_dp."""
        return joint.log_ball_constant(len(self.check_values(values)), self.norm, self.scale)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        total = total_of(self.query, records)
        return total + joint.ball_noise(len(total), self.norm, self.scale, rng)[0]


MECHANISMS.add(Exponential, KNorm)
