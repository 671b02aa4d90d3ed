"""Cells: theta with the records summed out, and each record from its exact conditional.

Where records are released one by one (`record_laws` of the mechanism), they are independent given
theta. For counts

    p(theta | s_dp)  proportional to  p(theta) prod_i sum_x f(x | theta) h(s_i | x)

costs one pass over the cells (`maths.cells`); normal records under Gaussian noise are integrated
out in closed form. The model's own kernel moves theta with this density invariant, whatever x is.
Then x is drawn from p(x | theta, s_dp), so p(theta, x | s_dp) is invariant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseaware.sampler import record_sums
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

WAY = 20
"""First iterations that do not count in the sums of warm-up: a chain begins far out."""


class CellMove(ReadyMove):
    """Move theta with the records summed out, and redraw every record.

    Reports `theta_acceptance`, the share of proposals of theta accepted.
    """

    reports = ("theta_acceptance",)

    def check(self, target: Target) -> None:
        if target.summed_kernel is None:
            able = target.abilities
            raise ValueError(
                "CellMove needs a model with a summed_kernel for the law of the noise, and a "
                f"mechanism that releases every record's own number; got {able.name} and "
                f"{target.mechanism_abilities.name} of {target.query_abilities.name}"
            )

    def start(self, target: Target, state: ChainState) -> Tuning:
        point, own = target.summed_kernel.start(state.rng)  # near the mode
        tuning = {"own": own, "seen": _nothing(point), "adding": False}
        self._go(target, state, tuning, point)
        tuning["sums"] = _begin(state, point.summed.mean, point.summed.variance)
        return tuning

    @staticmethod
    def _go(target: Target, state: ChainState, tuning: Tuning, point: Any) -> None:
        tuning["point"], tuning["values"] = point, target.values
        state.theta = target.summed_kernel.theta(point)
        state.records = target.summed_kernel.draw(point, state.rng)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float]:
        kernel, point = target.summed_kernel, tuning["point"]
        there = kernel.theta(point)
        seen = np.array_equal(tuning["values"], target.values, equal_nan=True)
        # Another move may have changed theta, or the release may be another one.
        if not seen:
            kernel.forget(tuning["own"])
        if not seen or any(not np.array_equal(there[k], state.theta[k]) for k in there):
            point = kernel.point(state.theta)
        point, accepted = kernel.step(point, tuning["own"], state.rng)
        self._go(target, state, tuning, point)
        if tuning["adding"]:
            summed = point.summed
            record_sums.add(tuning["sums"], summed.mean, summed.variance, state.records)
        return (accepted,)

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        point = tuning["point"]
        target.summed_kernel.learn(point, tuning["own"])
        if state.iteration < WAY:
            tuning["seen"] = _nothing(point)
        seen = tuning["seen"]
        away = point.summed.mean - seen[4]
        for k, more in enumerate((1.0, away, away**2, point.summed.variance)):
            seen[k] += more

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        mean, variance = tuning["point"].summed.mean, tuning["point"].summed.variance
        count, first, second, within, centre = tuning["seen"]
        if count > 0.0:
            mean = centre + first / count
            variance = within / count + np.maximum(second / count - (first / count) ** 2, 0.0)
        tuning.update(adding=True, sums=_begin(state, mean, variance))

    @staticmethod
    def record_sums(tuning: Tuning) -> Any:
        """Return the sums over the draws of each record."""
        return tuning["sums"] if tuning["adding"] else None


def _nothing(point: Any) -> list[Any]:
    """Return empty sums over warm-up: count, E(x) - centre, its square, Var(x); and the centre."""
    return [0.0, *np.zeros((3, len(point.summed.mean))), point.summed.mean]


def _begin(state: ChainState, mean: Any, variance: Any) -> record_sums.RecordSums:
    whole = np.issubdtype(state.records.dtype, np.integer)
    return record_sums.begin(mean, np.sqrt(variance), whole)
