"""The cost of the parts of a transport move, compared with the counts of `tuning.costs`.

The first table has the microseconds of an iteration of algorithm1() and, in units of that, the cost
of starting a transport move, of one more step of each of its proposals, and of preparing a formula:
measured, and counted in calls and passes over the records. A sweep in blocks is shown relative to
one without. The second table compares the cost of each ready model's methods, in calls and plain
passes, with the model's own statement (`Work`).
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, models, tables
from benchmarks.subjects import subject
from noiseaware.parameters import Work
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves
from noiseaware.sampler.moves import BlockSweep, Transport
from noiseaware.sampler.moves.records import COST_OF_ALL, COST_OF_BLOCKS
from noiseaware.sampler.moves.tuning import CALL, costs
from noiseaware.sampler.state import ChainState
from noiseaware.sampler.target import Target

MODELS = ("regression", "unknown", "naive-bayes")
SIZES = (100, 1_000, 10_000)
PLAIN_PASS = 7e-9
"""Seconds per record of a plain pass: building and adding up the records of a regression."""


def run(options: Namespace) -> None:
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
    works = [_work(name) for name in options.examples or models.EXAMPLES]
    tables.show(
        "What the methods of a model do, in calls and plain passes (in brackets: what it says)",
        {"model": "", **dict.fromkeys(Work._fields, "")},
        works,
    )
    tables.write(options.out / "work.csv", works)


def _work(name: str) -> dict[str, Any]:
    """Return the cost of one model's methods, by straight lines through 200 and 2,000 records."""
    times = [_methods(name, n) for n in (200, 2_000)]
    slopes = (times[1] - times[0]) / 1_800
    calls = (times[0][2] - 200 * slopes[2]) / (CALL * PLAIN_PASS)
    found = Work(calls, *slopes / PLAIN_PASS)
    said = models.EXAMPLES[name][0].innovations.work
    return {"model": name} | {
        field: f"{a:.1f} ({b:g})" for field, a, b in zip(Work._fields, found, said, strict=True)
    }


def _methods(name: str, n: int) -> np.ndarray:
    """Return the seconds of update, draw, build and recover; the last two include a total."""
    model, query, given = models.sized(name, n)
    rng = np.random.default_rng(1)
    theta = model.sample_prior(rng)
    theta |= {key: np.asarray(value, dtype=np.float64) for key, value in given.items()}
    release = na.mechanisms.Laplace(query, epsilon=1.0).privatize(
        model.sample_records(theta, n, rng), rng
    )
    target = Target(model, release)
    state = ChainState(theta, *target.propose(theta, n, rng), rng)
    u, count = target.recover(state), max(20_000 // n, 10)
    total = _best(lambda: target.total(state.records), count)
    calls = (
        lambda: model.update_parameters(theta, state.records, rng),
        lambda: target.propose(theta, n, rng),
        lambda: target.build(theta, u),
        lambda: target.recover(state),
    )
    return np.array([_best(call, count) for call in calls]) + total * np.array([0, 0, 1, 1])


def _parts(model: str, n: int) -> list[dict[str, Any]]:
    data = subject(model, n, 1.0, 1)
    target = Target(data.model, data.release)
    moves = default_moves(target)
    schedule = chain.Schedule(200, 1)
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(1)))
    state, _ = chain.advance(target, moves, schedule, state, 200)
    place = [type(move) for move in moves[0].moves].index(Transport)
    transport, learned = moves[0].moves[place], state.tunings[0]["moves"][place]
    proposals = learned["proposals"]
    count = max(20_000 // n, 10)

    def seconds(steps: list[int]) -> float:
        told = {**learned, "steps": steps}
        return _best(lambda: transport.step(target, state, told), count)

    iteration = sum(
        _best(lambda move=move: move.step(target, state, {}), count)
        for move in na.moves.algorithm1()
    )
    counted = costs(n, target.work, proposals)
    rows = [("iteration of algorithm1()", iteration, 1.0)]
    single = _sweep(target, state, 1, count)
    for size, said in ((64, COST_OF_BLOCKS), (n, COST_OF_ALL)):
        # Relative to a sweep with blocks of one record, not to an iteration.
        found = _sweep(target, state, size, count)
        rows.append((f"sweep, k = {size} over 1", iteration * found / single, said))
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
        first = counted.start + (counted.build if counted.holds[k] else 0.0)
        rows.append((f"start of {type(proposal).__name__}", one - each, first))
    return [
        {"model": model, "n": n, "part": part, "microseconds": 1e6 * found,
         "measured": found / iteration, "counted": said}
        for part, found, said in rows
    ]  # fmt: skip


def _sweep(target: Target, state: ChainState, size: int, count: int) -> float:
    """Return the seconds of a sweep in blocks of `size` records."""
    move = BlockSweep(size)
    tuning = move.start(target, state)
    return _best(lambda: move.step(target, state, tuning), count)


def _best(call: Any, count: int, turns: int = 5) -> float:
    """Return the shortest time of a call over several turns, in seconds."""
    found = []
    for _ in range(turns):
        began = time.process_time()
        for _ in range(count):
            call()
        found.append((time.process_time() - began) / count)
    return min(found)
