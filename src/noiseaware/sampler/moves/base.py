"""What the package's moves have in common. Your own moves need not inherit it."""

from __future__ import annotations

from typing import Any

from noiseaware.basics.arguments import whole_number
from noiseaware.sampler.state import ChainState

Tuning = dict[str, Any]
"""What a move learns in warm-up, and its current state."""


class ReadyMove:
    """A move that can always be made and learns nothing, unless its class says otherwise."""

    reports: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check(self, target: Any) -> None:
        """Raise ValueError if the target cannot do this move."""

    def start(self, target: Any, state: ChainState) -> Tuning:
        """Return the initial tuning; may also put the state at a better starting point."""
        return {}

    def step(self, target: Any, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        """Change the state, leaving p(theta, x | s_dp) invariant; return a number per report."""
        raise NotImplementedError

    def learn(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        """Change the tuning after a step of warm-up."""

    def freeze(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        """Freeze what was learned, at the end of warm-up."""


class SteppedMove(ReadyMove):
    """A move that makes `steps` steps in an iteration."""

    def __init__(self, steps: int) -> None:
        self.steps = whole_number("steps", steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"


class TunedMove(SteppedMove):
    """A move of several steps whose size, tuning["size"], a `StepSize`, is tuned in warm-up."""

    def learn(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        tuning["count"] += 1
        tuning["size"].tune(tuning["count"])

    def freeze(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        tuning["warming"] = False
