"""What moves of the package have in common. A move of yours need not inherit it."""

from __future__ import annotations

from typing import Any

from noiseaware.basics.arguments import whole_number
from noiseaware.sampler.state import ChainState

Tuning = dict[str, Any]
"""All that a move learns in warm-up, and where it is."""


class ReadyMove:
    """A move that can always be made and learns nothing, unless its class says otherwise."""

    reports: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check(self, target: Any) -> None:
        """Raise ValueError if the target cannot do this move."""

    def start(self, target: Any, state: ChainState) -> Tuning:
        """Return the tuning at the beginning; the state may be put where a chain begins better."""
        return {}

    def step(self, target: Any, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        """Change the state so that p(theta, x | s_dp) is invariant; return a number per report."""
        raise NotImplementedError

    def learn(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        """Change the tuning after a step of warm-up."""

    def freeze(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        """Keep what was learned: warm-up ends."""


class SteppedMove(ReadyMove):
    """A move of `steps` steps in an iteration."""

    def __init__(self, steps: int) -> None:
        self.steps = whole_number("steps", steps)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"


class TunedMove(SteppedMove):
    """A move of several steps whose size is tuned in warm-up: tuning["size"], a `StepSize`."""

    def learn(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        tuning["count"] += 1
        tuning["size"].tune(tuning["count"])

    def freeze(self, target: Any, state: ChainState, tuning: Tuning) -> None:
        tuning["warming"] = False
