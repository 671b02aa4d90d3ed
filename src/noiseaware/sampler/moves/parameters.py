"""Step 1 of Algorithms 1 and 2: update theta given the imputed database.

Given x, the release says nothing more about theta: p(theta | x, s_dp) = p(theta | x). So any
kernel that leaves p(theta | x) alone, the one that an analyst would use on the confidential
data, leaves p(theta, x | s_dp) alone too (the paper's Assumption 1 and section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class ParameterUpdate:
    """Update theta by a kernel for p(theta | x).

    Parameters
    ----------
    kernel : callable, optional
        `kernel(theta, records, rng) -> theta`. The model's own `update_parameters` if not given.
    """

    reports: tuple[str, ...] = ()

    def __init__(self, kernel: Callable[..., dict[str, Any]] | None = None) -> None:
        self.kernel = kernel

    def __repr__(self) -> str:
        return "ParameterUpdate()" if self.kernel is None else f"ParameterUpdate({self.kernel!r})"

    def check(self, target: Target) -> None:
        """Raise if there is no kernel for p(theta | x)."""
        if self.kernel is None and not target.can_update:
            raise ValueError(
                f"{type(target.model).__name__} has no update_parameters(theta, records, rng), so "
                "ParameterUpdate needs a kernel of its own: ParameterUpdate(kernel)"
            )
        if target.holds_innovations:
            raise ValueError(
                f"{type(target.model).__name__} is only a simulator: its innovations cannot be "
                "recovered from the records, so theta cannot be changed with the records kept"
            )

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Nothing to tune."""
        return {}

    def step(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> tuple[()]:
        """Draw theta by the kernel."""
        kernel = target.model.update_parameters if self.kernel is None else self.kernel
        state.theta = kernel(state.theta, state.records, state.rng)
        return ()

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Nothing to learn."""
