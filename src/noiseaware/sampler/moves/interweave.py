"""Make several moves in turn, as many times in an iteration as the slowest parameter needs.

Making a list of moves c times leaves the posterior invariant if making it once does. Where an
effective draw costs many iterations, one draw replaces c nearly identical ones. c is chosen at the
end of warm-up from the autocorrelation time that the transport move expects.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import move_abilities
from noiseaware.sampler.moves.base import ReadyMove, Tuning
from noiseaware.sampler.moves.transport import MOST_COST
from noiseaware.sampler.moves.tuning import ENOUGH, one_iteration
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import CHUNK, Target

MOST_CYCLES = 8
"""The most rounds in an iteration."""

LONGEST = 100_000.0
"""An iteration costs at most four of Algorithm 1 (the limit that `python -m benchmarks peers` holds
it to), or four times this many passes over a record, if that is more: some 2 ms, so that the
default call of 2,000 records, of any ready model, takes 20 s at most."""


class Interweave(ReadyMove):
    """Make `moves` one after another, c times in an iteration.

    Parameters
    ----------
    *moves
        The moves, in order.
    cycles : int, optional
        c. None chooses it in warm-up, up to 8; it is 1 without a `Transport` among the moves, which
        it is learned from.
    """

    def __init__(self, *moves: Any, cycles: int | None = None) -> None:
        if not moves:
            raise ValueError("Interweave needs at least one move; got none")
        self.moves = moves
        self.cycles = None if cycles is None else whole_number("cycles", cycles)
        self.reports = tuple(name for move in moves for name in move.reports)
        self.lowest = {name for move in moves for name in move_abilities(move).lowest}

    def __repr__(self) -> str:
        return f"Interweave({', '.join(map(repr, self.moves))})"

    def check(self, target: Target) -> None:
        for move in self.moves:
            move.check(target)

    def find_start(self, target: Target, state: ChainState) -> None:
        """Let every move find a starting point."""
        for find_start in [move_abilities(move).find_start for move in self.moves]:
            if find_start is not None:
                find_start(target, state)

    def start(self, target: Target, state: ChainState) -> Tuning:
        return {
            "cycles": self.cycles or 1,
            "last_reports": [],
            "brief": [],
            "moves": [move.start(target, state) for move in self.moves],
        }

    def step(self, target: Target, state: ChainState, tuning: Tuning) -> tuple[float, ...]:
        """Make all moves c times; report means, or minima for the reports in `lowest`.

        A brief draw may replace them; the last reports of the moves are then repeated.
        """
        self._draw(target, state, tuning, None)
        return tuple(tuning["last_reports"])

    def most(self, target: Target) -> int:
        """Return how many iterations `run` may make: as many as look at some thousand records."""
        return 1 if target.size is not None else max(1, CHUNK // target.n)

    def run(
        self, target: Target, state: ChainState, tuning: Tuning, iterations: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Make several iterations; return theta and the reports, one row each.

        Gives the same as that many calls of `step`, but reuses log g between iterations, since
        nothing else has moved the chain.
        """
        first, log_g = state.iteration, None
        reports = np.empty((iterations, len(self.reports)))
        theta = {
            name: np.empty((iterations, *np.shape(value)))
            for name, value in target.shown(state.theta, state.records).items()
        }
        for k in range(iterations):
            state.iteration = first + k
            log_g = self._draw(target, state, tuning, log_g)
            reports[k] = tuning["last_reports"]
            for name, value in target.shown(state.theta, state.records).items():
                theta[name][k] = value
        state.iteration = first
        return theta, reports

    def _draw(
        self, target: Target, state: ChainState, tuning: Tuning, log_g: float | None
    ) -> float | None:
        """Make an iteration, given log g if it is known; return log g if it is known afterwards."""
        if tuning["last_reports"]:
            for k in tuning["brief"]:
                found = self.moves[k].brief(target, state, tuning["moves"][k], log_g)
                if found is not None:
                    return found
        tuning["last_reports"] = self._step(target, state, tuning)
        return None

    def _step(self, target: Target, state: ChainState, tuning: Tuning) -> list[float]:
        rounds = []
        for _ in range(tuning["cycles"]):
            values: list[float] = []
            for move, own in zip(self.moves, tuning["moves"], strict=True):
                values += move.step(target, state, own)
            rounds.append(values)
        if len(rounds) == 1:
            return rounds[0]
        return [
            min(values) if name in self.lowest else math.fsum(values) / len(rounds)
            for name, values in zip(self.reports, zip(*rounds, strict=True), strict=True)
        ]

    def learn(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        for move, own in zip(self.moves, tuning["moves"], strict=True):
            move.learn(target, state, own)

    def freeze(self, target: Target, state: ChainState, tuning: Tuning) -> None:
        tuning["last_reports"] = []
        able = list(zip(map(move_abilities, self.moves), tuning["moves"], strict=True))
        chooser = next((own for can, own in able if can.chooses), None)
        for can, own in able:
            if chooser is not None and can.options is not None:
                chooser["options"] = can.options(target, state, own)
        for can, own in able:
            if can.freeze is not None:
                can.freeze(target, state, own)
        if chooser is None:
            return
        for can, own in able:
            if can.take is not None:
                can.take(own, chooser["option"])
        if self.cycles is None:
            time, cost = chooser["outlook"]
            rounds = max(1.0, LONGEST / one_iteration(target.n, target.work))
            most = min(MOST_CYCLES, (1.0 + MOST_COST[False]) * rounds / (1.0 + cost))
            tuning["cycles"] = int(max(1, min(math.ceil(time / ENOUGH), most)))
        if tuning["cycles"] == 1:
            tuning["brief"] = [k for k, (can, _) in enumerate(able) if can.brief]
