"""Do several moves in turn, as often in an iteration as the slowest parameter needs.

Doing a list of moves c times leaves the posterior alone if doing it once does. An iteration with
autocorrelation r in its slowest coordinate has about r^c when it is done c times, so that c draws
that are nearly copies of one another become one that is worth keeping. The number c is chosen at
the end of warm-up from what the transport move learned, and then frozen.
"""

from __future__ import annotations

import math
from typing import Any

from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

ENOUGH = 4.0
"""Iterations that an effective draw may cost before an iteration is made longer."""

MOST_CYCLES = 3


class Interweave:
    """Do `moves` one after another, c times in an iteration.

    Parameters
    ----------
    *moves
        The moves, in order.
    cycles : int, optional
        c. None chooses between 1 and 3 in warm-up; without a `Transport` among the moves there
        is nothing to learn it from, and it is 1.
    """

    def __init__(self, *moves: Any, cycles: int | None = None) -> None:
        self.moves = moves
        self.cycles = cycles
        self.reports = tuple(name for move in moves for name in move.reports)

    def __repr__(self) -> str:
        return f"Interweave({', '.join(map(repr, self.moves))})"

    def check(self, target: Target) -> None:
        """Raise if one of the moves cannot be done."""
        for move in self.moves:
            move.check(target)

    def start(self, target: Target, state: ChainState) -> dict[str, Any]:
        """Start every move."""
        return {
            "cycles": self.cycles or 1,
            "moves": [move.start(target, state) for move in self.moves],
        }

    def step(
        self, target: Target, state: ChainState, tuning: dict[str, Any]
    ) -> tuple[float, ...]:
        """Do all moves c times; report means, and the lowest of what is a lowest."""
        steps = list(zip(self.moves, tuning["moves"], strict=True))
        cycles = tuning["cycles"]
        first = [x for move, own in steps for x in move.step(target, state, own)]
        if cycles == 1:
            return tuple(first)
        rounds = [first]
        for _ in range(cycles - 1):
            rounds.append([x for move, own in steps for x in move.step(target, state, own)])
        return tuple(
            min(values) if name.startswith("lowest") else math.fsum(values) / cycles
            for name, values in zip(self.reports, zip(*rounds, strict=True), strict=True)
        )

    def learn(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Let every move learn."""
        for move, own in zip(self.moves, tuning["moves"], strict=True):
            move.learn(target, state, own)

    def freeze(self, target: Target, state: ChainState, tuning: dict[str, Any]) -> None:
        """Freeze every move and choose the number of cycles."""
        slowest = 0.0
        for move, own in zip(self.moves, tuning["moves"], strict=True):
            if hasattr(move, "freeze"):
                move.freeze(target, state, own)
            slowest = max(slowest, own.get("autocorrelation", 0.0))
        if self.cycles is None:
            tuning["cycles"] = choose_cycles(slowest)


def choose_cycles(autocorrelation: float) -> int:
    """Return the smallest c for which (1 + r^c) / (1 - r^c) is at most `ENOUGH`, up to the most."""
    for cycles in range(1, MOST_CYCLES):
        r = autocorrelation**cycles
        if 1 + r <= ENOUGH * (1 - r):
            return cycles
    return MOST_CYCLES
