"""Cells: theta with the records summed out, and each record from its exact conditional.

Where records are released one by one (`record_laws` of the mechanism), they are independent given
theta, and for counts

    p(theta | s_dp)  proportional to  p(theta) prod_i sum_x f(x | theta) h(s_i | x)

costs one pass over the cells (`maths.cells`); normal records under Gaussian noise are
integrated out in closed form. The model's own kernel moves theta so that this
is invariant, whatever x is, and then x is drawn from p(x | theta, s_dp). So p(theta, x | s_dp) is
invariant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseaware.sampler import record_sums
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class CellMove:
    """Move theta with the records summed out, and draw every record anew.

    Reports `theta_acceptance`, the share of the proposals of theta that were accepted.
    """

    reports = ("theta_acceptance",)

    def __repr__(self) -> str:
        return "CellMove()"

    def check(self, target: Target) -> None:
        """Raise if the records cannot be summed out."""
        if target.summed_kernel is None:
            able = target.abilities
            raise ValueError(
                "CellMove needs a model with a summed_kernel for the law of the noise, and a "
                f"mechanism that releases every record's own number; got {able.name} and "
                f"{target.mechanism_abilities.name} of {target.query_abilities.name}"
            )

    def find_start(self, target: Target, state: ChainState) -> None:
        """Nothing: `start` begins near the mode."""

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin near the mode."""
        kernel = target.summed_kernel
        point, own = kernel.start(state.rng)
        tuning = {"own": own, "seen": self._nothing(point), "adding": False}
        self._put(target, state, tuning, point)
        state.records = kernel.draw(point, state.rng)
        tuning["sums"] = self._begin(state, point.summed.mean, point.summed.variance)
        return tuning

    @staticmethod
    def _begin(state: ChainState, mean: Any, variance: Any) -> record_sums.RecordSums:
        whole = np.issubdtype(state.records.dtype, np.integer)
        return record_sums.begin(mean, np.sqrt(variance), whole)

    def _put(self, target: Target, state: ChainState, tuning: dict[str, Any], point: Any) -> None:
        tuning["point"], tuning["values"] = point, target.values
        state.theta = target.summed_kernel.theta(point)

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Move theta and x."""
        kernel, point = target.summed_kernel, tuning["point"]
        there = kernel.theta(point)
        seen = np.array_equal(tuning["values"], target.values, equal_nan=True)
        # Another move may have been here, or this be another release.
        if not seen:
            kernel.forget(tuning["own"])
        if not seen or any(not np.array_equal(there[k], state.theta[k]) for k in there):
            point = kernel.point(state.theta)
        point, accepted = kernel.step(point, tuning["own"], state.rng)
        self._put(target, state, tuning, point)
        state.records = kernel.draw(point, state.rng)
        if tuning["adding"]:
            summed = point.summed
            record_sums.add(tuning["sums"], summed.mean, summed.variance, state.records)
        return (accepted,)

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Tune the kernel, and see where the records are."""
        point, own = tuning["point"], tuning["own"]
        target.summed_kernel.learn(point, own)
        mean, variance = point.summed.mean, point.summed.variance
        if state.iteration < 20:  # on the way from the start
            tuning["seen"] = self._nothing(point)
        seen = tuning["seen"]
        seen[0] += 1.0
        seen[1] += mean - seen[4]
        seen[2] += (mean - seen[4]) ** 2
        seen[3] += variance

    @staticmethod
    def _nothing(point: Any) -> list[Any]:
        """Return sums over warm-up: how often, E(x) - centre, its square, Var(x); the centre."""
        return [0.0, *np.zeros((3, len(point.summed.mean))), point.summed.mean]

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Begin to add up what is seen of each record."""
        summed = tuning["point"].summed
        mean, variance = summed.mean, summed.variance
        count, first, second, within, centre = tuning["seen"]
        if count > 0.0:
            mean = centre + first / count
            variance = within / count + np.maximum(second / count - (first / count) ** 2, 0.0)
        tuning["adding"] = True
        tuning["sums"] = self._begin(state, mean, variance)

    @staticmethod
    def record_sums(tuning: dict[str, Any]) -> Any:
        """Return what was added up of each record."""
        return tuning["sums"] if tuning["adding"] else None
