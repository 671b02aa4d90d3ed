"""Theta given the records, and the records given theta and the release, in turn: a Gibbs sampler.

For a model that draws its own records given what is seen of each column (`update_records`), where
the columns are released one by one. Both steps leave p(theta, x | s_dp) invariant, the second
because the model says so of p(x | theta, s_dp). A column that is published as it is never moves,
which no sampler that proposes records and accepts them could do for real numbers.
"""

from __future__ import annotations

from noiseaware.basics.arguments import whole_number
from noiseaware.sampler.moves.base import Tuning
from noiseaware.sampler.moves.parameters import ParameterUpdate
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target


class ConditionalMove(ParameterUpdate):
    """Update theta given x by the model's kernel, then x given theta, several times.

    Parameters
    ----------
    cycles : int
        How often an iteration does both.
    """

    def __init__(self, cycles: int = 5) -> None:
        super().__init__()
        self.cycles = whole_number("cycles", cycles)

    def __repr__(self) -> str:
        return f"ConditionalMove(cycles={self.cycles})"

    def check(self, target: Target) -> None:
        if target.column_laws is None:
            raise ValueError(
                "ConditionalMove needs a model with update_records, and mechanisms.Attributes of "
                f"its columns; got {target.abilities.name} and {target.mechanism_abilities.name}"
            )
        super().check(target)

    def start(self, target: Target, state: ChainState) -> Tuning:
        """Put in what was published as it is."""
        self._draw(target, state)
        return super().start(target, state)

    @staticmethod
    def _draw(target: Target, state: ChainState) -> None:
        draw = target.abilities.update_records
        assert draw is not None
        state.records = draw(state.theta, state.records, target.column_laws, state.rng)

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        for _ in range(self.cycles):
            super().step(target, state, tuning)
            self._draw(target, state)
        return ()
