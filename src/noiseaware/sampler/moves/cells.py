"""Cells: theta with the records summed out, and each record from its exact conditional.

For a model whose records are counts with a known law given theta (`count_law`), released one by one
(`record_laws` of the mechanism), the records are independent given theta, and

    p(theta | s_dp)  proportional to  p(theta) prod_i sum_x f(x | theta) h(s_i | x)

costs one pass over the cells (`maths.cells`). The model's own kernel moves theta so that this
is invariant, and with every value of theta it visits comes a draw of x from p(x | theta, s_dp). A
proposal (theta', x') is accepted by the ratio of p(theta | s_dp) alone: with x' drawn from its
conditional, the joint density over the density of the proposal is p(theta', x' | s) / p(x' |
theta', s) = p(theta' | s). So p(theta, x | s_dp) is invariant.
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
                "CellMove needs a model with count_law and summed_kernel, and a mechanism that "
                f"releases every record's own number; got {able.name} and "
                f"{target.mechanism_abilities.name} of {target.query_abilities.name}"
            )

    def find_start(self, target: Target, state: ChainState) -> None:
        """Nothing: `start` begins near the mode."""

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Begin near the mode."""
        kernel = target.summed_kernel
        point, own = kernel.start(state.rng)
        tuning = {"own": own, "seen": self._nothing(point), "adding": False}
        tuning["sums"] = record_sums.begin(point.summed.mean, np.sqrt(point.summed.variance))
        self._put(target, state, tuning, point)
        return tuning

    def _put(self, target: Target, state: ChainState, tuning: dict[str, Any], point: Any) -> None:
        tuning["point"], tuning["values"] = point, target.values
        state.theta = target.summed_kernel.theta(point)
        state.records = point.summed.records

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[float]:
        """Move theta and x."""
        kernel, point = target.summed_kernel, tuning["point"]
        there = kernel.theta(point)
        seen = np.array_equal(tuning["values"], target.values, equal_nan=True)
        # Another move may have been here, or this be another release.
        if not seen or any(not np.array_equal(there[k], state.theta[k]) for k in there):
            point = kernel.point(state.theta, state.rng)
        point, accepted = kernel.step(point, tuning["own"], state.rng)
        self._put(target, state, tuning, point)
        if tuning["adding"]:
            summed = point.summed
            record_sums.add(tuning["sums"], summed.mean, summed.variance, summed.records)
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
        return [0.0, *np.zeros((3, len(point.eta))), point.summed.mean]

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Begin to add up what is seen of each record."""
        summed = tuning["point"].summed
        mean, variance = summed.mean, summed.variance
        count, first, second, within, centre = tuning["seen"]
        if count > 0.0:
            mean = centre + first / count
            variance = within / count + np.maximum(second / count - (first / count) ** 2, 0.0)
        tuning["adding"] = True
        tuning["sums"] = record_sums.begin(mean, np.sqrt(variance))

    @staticmethod
    def record_sums(tuning: dict[str, Any]) -> Any:
        """Return what was added up of each record."""
        return tuning["sums"] if tuning["adding"] else None
