"""What the parts of a transport move cost, next to what `tuning.costs` counts.

An iteration of algorithm1() in microseconds, and, in such iterations, the start of a transport
move, one more step of each of its proposals, and preparing a formula: as measured, and as counted
in calls and passes over the records.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, tables
from benchmarks.subjects import subject
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.moves import Transport
from noiseaware.sampler.moves.tuning import costs
from noiseaware.sampler.target import Target

MODELS = ("regression", "unknown", "naive-bayes")
SIZES = (100, 1_000, 10_000)


def run(options: Namespace) -> None:
    """Measure, print and write the cost of each part."""
    rows: list[dict[str, Any]] = []
    with measure.one_core():
        for model in options.models or MODELS:
            for n in options.sizes or (SIZES[:1] if options.quick else SIZES):
                rows += _parts(model, n)
    tables.show(
        "Parts of a transport move, in iterations of algorithm1()",
        {"model": "", "n": ",.0f", "part": "", "microseconds": ",.1f", "measured": ".2f",
         "counted": ".2f"},
        rows,
    )  # fmt: skip
    tables.write(options.out / "steps.csv", rows)


def _parts(model: str, n: int) -> list[dict[str, Any]]:
    data = subject(model, n, 1.0, 1)
    target = Target(data.model, data.release)
    moves = default_moves(target)
    schedule = chain.Schedule(200, 1)
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(1)))
    state, _ = chain.advance(target, moves, schedule, state, 200)
    place = [type(move) for move in moves[0].moves].index(Transport)
    transport, tuning = moves[0].moves[place], state.tunings[0]["moves"][place]
    proposals = tuning["proposals"]
    count = max(20_000 // n, 10)

    def seconds(steps: list[int]) -> float:
        told = {**tuning, "steps": steps}
        return _best(lambda: transport.step(target, state, told), count)

    iteration = sum(
        _best(lambda move=move: move.step(target, state, {}), count)
        for move in na.moves.algorithm1()
    )
    counted = costs(n, proposals)
    rows = [("iteration of algorithm1()", iteration, 1.0)]
    seen: set[type] = set()
    for k, proposal in enumerate(proposals):
        if type(proposal) in seen:
            continue
        seen.add(type(proposal))
        steps = [0] * len(proposals)
        steps[k] = 1
        one = seconds(steps)
        steps[k] = 4
        each = (seconds(steps) - one) / 3
        rows.append((type(proposal).__name__, each, float(counted.each[k])))
        first = counted.start + (counted.hold if counted.holds[k] else 0.0)
        rows.append((f"start of {type(proposal).__name__}", one - each, first))
    return [
        {"model": model, "n": n, "part": part, "microseconds": 1e6 * found,
         "measured": found / iteration, "counted": said}
        for part, found, said in rows
    ]  # fmt: skip


def _best(call: Any, count: int, turns: int = 5) -> float:
    """Return the shortest time of a call over some turns, in seconds."""
    found = []
    for _ in range(turns):
        began = time.process_time()
        for _ in range(count):
            call()
        found.append((time.process_time() - began) / count)
    return min(found)
