"""The basic costs: Algorithm 1 against fused loops, large n, memory, a new process.

Ratios come from interleaved repetitions in one run on one core, in CPU seconds.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import fused, measure, settings, tables
from benchmarks.subjects import subject
from noiseaware.sampler import chain
from noiseaware.sampler.moves import RecordSweep
from noiseaware.sampler.target import Target

EPSILON = 1.0
RECORD_BYTES = 24  # three floats, of a regression record


def run(options: Namespace) -> None:
    with measure.one_core():
        iterations(options)
        limits(options)


def advance(
    model: str, n: int, moves: Sequence[Any], count: int, epsilon: float = EPSILON, seed: int = 1
) -> Callable[[], object]:
    """Return a function that runs `count` iterations of a started chain, without warm-up."""
    target = Target(*subject(model, n, epsilon, seed)[:2])
    schedule = chain.Schedule(0, 10**9)
    rng = np.random.Generator(np.random.SFC64(seed))
    state = chain.start(target, moves, rng)
    state, _ = chain.advance(target, moves, schedule, state, min(count, 50))
    return lambda: chain.advance(target, moves, schedule, state, count)


def iterations(options: Namespace) -> None:
    """Algorithm 1 against the hand-fused loops, in microseconds per iteration."""
    work = 100_000 if options.quick else 1_000_000
    repetitions = 3 if options.quick else 9
    rows = []
    for model, loop, release, scale in (
        ("regression", fused.regression, settings.regression_release, settings.regression_scale),
        (
            "naive-bayes",
            fused.naive_bayes,
            settings.naive_bayes_release,
            settings.naive_bayes_scale,
        ),
    ):
        for n in (100, 1_000, 10_000):
            count = max(work // n, 10)
            values = release(n, EPSILON, 1)
            seconds = measure.interleave(
                {
                    "ours": advance(model, n, na.moves.algorithm1(), count),
                    "fused": partial(loop, values, n, scale(EPSILON), count, seed=1),
                },
                repetitions,
                time.process_time,
            )
            ratio = measure.ratio(seconds["ours"], seconds["fused"])
            rows.append(
                {
                    "model": model,
                    "n": n,
                    "fused us": float(np.median(seconds["fused"])) / count * 1e6,
                    "algorithm1 us": float(np.median(seconds["ours"])) / count * 1e6,
                    "ratio": ratio.median,
                    "lowest": ratio.lowest,
                    "highest": ratio.highest,
                    "target": "<= 2.5" if n == 100 else "",
                }
            )
    tables.show(
        f"algorithm1() against hand-fused loops: an iteration, epsilon = {EPSILON:g}, "
        f"{repetitions} turns",
        {"model": "", "n": ",.0f", "fused us": ".1f", "algorithm1 us": ".1f", "ratio": ".2f",
         "lowest": ".2f", "highest": ".2f", "target": ""},
        rows,
    )  # fmt: skip
    tables.write(options.out / "foundation-iterations.csv", rows)


def limits(options: Namespace) -> None:
    """Large n, memory, import and the second call in a new process, each with its target."""
    large = 100_000 if options.quick else 1_000_000
    rows = [
        *time_per_record(large, 3 if options.quick else 7),
        *memory(large),
        *new_process(options.quick),
    ]
    tables.show(
        "Large n, memory and a new process",
        {"what": "", "measured": ".3g", "unit": "", "target": ""},
        rows,
    )
    tables.write(options.out / "foundation-limits.csv", rows)


def time_per_record(large: int, repetitions: int) -> list[dict[str, Any]]:
    """Compare the time per record in a large database with that at n = 10,000."""
    small, work = 10_000, 5
    rows = []
    for what, moves in (
        ("a sweep of the records", (RecordSweep(),)),
        ("an iteration of algorithm1()", na.moves.algorithm1()),
    ):
        counts = {small: work * large // small, large: work}
        seconds = measure.interleave(
            {str(n): advance("regression", n, moves, count) for n, count in counts.items()},
            repetitions,
            time.process_time,
        )
        for n, count in counts.items():
            rows.append(
                {
                    "what": f"{what}, n = {n:,}",
                    "measured": float(np.median(seconds[str(n)])) / count / n * 1e9,
                    "unit": "ns a record",
                    "target": "",
                }
            )
        ratio = measure.ratio(seconds[str(large)], seconds[str(small)])  # the same work in both
        rows.append(
            {
                "what": f"{what}, n = {large:,} against {small:,}",
                "measured": ratio.median,
                "unit": f"times ({ratio.lowest:.2f} to {ratio.highest:.2f})",
                "target": "<= 1.5",
            }
        )
    return rows


def memory(n: int) -> list[dict[str, Any]]:
    """Peak memory of one chain of `na.sample`, beyond the records themselves."""
    setup = f"""
import noiseaware as na
from benchmarks.subjects import subject
large = subject("regression", {n}, {EPSILON}, 1)
small = subject("regression", 5_000, {EPSILON}, 1)
def draw(subject, moves):
    na.sample(subject.model, subject.release, draws=5, warmup=5, chains=1, cores=1,
              random_seed=1, progressbar=False, moves=moves)
"""
    rows = []
    for name, moves in (("algorithm1()", "na.moves.algorithm1()"), ("the default", "None")):
        peak = measure.peak_memory(setup + f"draw(small, {moves})\n", f"draw(large, {moves})")
        rows.append(
            {
                "what": f"memory of a chain above its records, {name}, n = {n:,}",
                "measured": peak / n - RECORD_BYTES,
                "unit": "bytes a record",
                "target": "<= 150",
            }
        )
    return rows


def new_process(quick: bool) -> list[dict[str, Any]]:
    """Time the import, and the overhead of the default call in a new process."""
    # The call is made twice: the sampling time of the second, with everything loaded, is taken
    # as that of the first. The rest is overhead: the start of Python, imports, checks, loading
    # the compiled kernels, collecting the result.
    setup = """
import time
import noiseaware as na
from benchmarks.subjects import subject
model, release, _ = subject("regression", 100, 1.0, 1)
def draw():
    return na.sample(model, release, cores=1, random_seed=1, progressbar=False)
"""
    statement = """
draw()
wall, cpu = time.perf_counter(), time.process_time()
again = draw()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
sampling = again.attrs["sampling_time"]
"""
    result = "[sampling, wall, cpu]"
    rows = []
    if quick:
        repetitions = 1
        seconds = [measure.in_new_process(setup, statement, result)]
    else:
        repetitions = 3
        first, second = measure.first_and_second_call(setup, statement, result)
        rows.append(_outside("first call, nothing compiled yet", [first], ""))
        seconds = [second, *(measure.in_new_process(setup, statement, result) for _ in range(2))]
    return [
        {
            "what": "import noiseaware",
            "measured": measure.import_seconds("noiseaware", repetitions),
            "unit": f"s on the clock, best of {repetitions}",
            "target": "< 1.5",
        },
        *rows,
        _outside("second call in a new process", seconds, "< 3"),
    ]


def _outside(what: str, processes: list[measure.NewProcess], target: str) -> dict[str, Any]:
    each, each_cpu = [], []
    for process in processes:
        sampling, wall, cpu = process.value
        each.append(process.total_seconds - wall - sampling)
        each_cpu.append(process.cpu_seconds - cpu - cpu * sampling / wall)
    return {
        "what": f"{what}: outside of sampling",
        "measured": min(each),
        "unit": f"s on the clock, best of {len(each)} (CPU: {min(each_cpu):.2f} s)",
        "target": target,
    }
