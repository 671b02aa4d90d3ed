"""The cost of a checkpoint: ``python -m benchmarks.checkpoint``.

The share of a run spent on packing, writing and waiting for the disk, in wall-clock and processor
time; and the longest time between two writes, which is the most that kill -9 can lose.
"""

from __future__ import annotations

import sys
import tempfile
import time

import noiseaware as na
from noiseaware.running.checkpoint import Checkpoint

RUNS = {1000: {"draws": 500, "warmup": 500}, 10**6: {"draws": 100, "warmup": 100}}


def measure(n: int) -> None:
    query = na.queries.RegressionMoments(2, lower=-5.0, upper=5.0)
    release = na.Release([0.0, 0.0, 0.5, 0.0, 0.0, 0.5, 0.0, 0.0, 0.5], _noise(query, n), n)
    spent = {"wall": 0.0, "cpu": 0.0, "writes": 0, "longest": 0.0, "last": time.perf_counter()}
    note, put = Checkpoint.note, Checkpoint._put

    def timed(self, *given):
        wall, cpu = time.perf_counter(), time.process_time()
        note(self, *given)
        spent["wall"] += time.perf_counter() - wall
        spent["cpu"] += time.process_time() - cpu

    def counted(self, states):
        put(self, states)
        now = time.perf_counter()
        spent["longest"] = max(spent["longest"], now - spent["last"])
        spent["last"], spent["writes"] = now, spent["writes"] + 1

    Checkpoint.note, Checkpoint._put = timed, counted
    try:
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu = time.perf_counter(), time.process_time()
            spent["last"] = wall
            na.sample(
                na.models.LinearRegression(2),
                release,
                chains=1,
                cores=1,
                random_seed=1,
                progressbar=False,
                checkpoint=folder,
                **RUNS[n],
            )
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    finally:
        Checkpoint.note, Checkpoint._put = note, put
    print(
        f"n = {n}: {100 * spent['wall'] / wall:.2f}% of {wall:.1f} s, "
        f"{100 * spent['cpu'] / cpu:.2f}% of {cpu:.1f} s of processor time; "
        f"{spent['writes']} writes, at most {spent['longest']:.1f} s apart",
        flush=True,
    )


def _noise(query: na.queries.RegressionMoments, n: int) -> na.mechanisms.Laplace:
    return na.mechanisms.Laplace(query, scale=n / 50)


if __name__ == "__main__":
    for n in [int(word) for word in sys.argv[1:]] or list(RUNS):
        measure(n)
