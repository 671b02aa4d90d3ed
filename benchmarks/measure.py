"""Shared helpers of the benchmarks: ESS, interleaved timings, memory, new processes.

Times from different moments are not comparable on a shared machine. So competitors take turns in
one process (`interleave`) and are compared by ratios (`ratio`), with the median over the turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


def pin_to_one_core(core: int | None = None) -> int | None:
    """Pin this process, and the threads and processes it starts later, to one core.

    Parameters
    ----------
    core
        Number of the core; by default the last one that this process may use.

    Returns
    -------
    core : int or None
        The core, or None if the platform has no such call.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    if core is None:
        core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


@contextmanager
def one_core() -> Iterator[int | None]:
    """Pin to one core (`pin_to_one_core`) inside the block."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        yield pin_to_one_core()
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)


def smallest_ess(draws: ArrayLike, method: str = "bulk") -> float:
    """Compute the smallest ESS over all scalar parameters.

    A sampler with antithetic draws (NUTS on a nearly normal posterior) can have a bulk ESS above
    its number of draws, with a lower tail ESS.

    Parameters
    ----------
    draws : (chains, draws, ...)
    method
        ``"bulk"``, or ``"tail"`` (the smaller of the ESS of the 5% and the 95% quantile).
    """
    from arviz_stats.base import array_stats

    chains_draws = np.asarray(draws, dtype=np.float64)
    if chains_draws.ndim < 2:
        raise ValueError(f"draws must have axes (chains, draws, ...); got {chains_draws.shape}")
    columns = chains_draws.reshape(*chains_draws.shape[:2], -1)
    prob = (0.05, 0.95) if method == "tail" else None
    return min(
        float(
            array_stats.ess(columns[:, :, j], method=method, prob=prob, chain_axis=0, draw_axis=1)
        )
        for j in range(columns.shape[2])
    )


def largest_rhat(draws: ArrayLike) -> float:
    """Compute the largest rank-normalised split R-hat over all scalar parameters.

    Parameters
    ----------
    draws : (chains, draws, ...)
    """
    from arviz_stats.base import array_stats

    chains_draws = np.asarray(draws, dtype=np.float64)
    columns = chains_draws.reshape(*chains_draws.shape[:2], -1)
    return max(
        float(array_stats.rhat(columns[:, :, j], chain_axis=0, draw_axis=1))
        for j in range(columns.shape[2])
    )


def smallest_ess_per_second(draws: ArrayLike, seconds: float) -> float:
    """Compute the smallest bulk ESS of (chains, draws, ...) per second of sampling.

    ``seconds`` is the sum over the chains, as if run one after the other on one core.
    """
    return smallest_ess(draws) / seconds


class Ratio(NamedTuple):
    """The ratio of two run times, over interleaved repetitions."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        """Return text such as `1.72 (1.65 to 1.90)`."""
        return f"{self.median:.2f} ({self.lowest:.2f} to {self.highest:.2f})"


def interleave(
    runs: Mapping[str, Callable[[], object]],
    repetitions: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, np.ndarray]:
    """Time several runs in turns, after one untimed turn that compiles and warms up.

    The order is reversed at every repetition, so that no run always comes first.

    Parameters
    ----------
    runs
        Functions without arguments, by name.
    repetitions
        Number of timed turns.
    clock
        ``time.process_time`` (CPU seconds) ignores other load on the machine; suitable for
        single-threaded runs that do not wait.

    Returns
    -------
    seconds : dict of (repetitions,)
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be a positive integer; got {repetitions}")
    for run in runs.values():
        run()
    seconds = {name: np.empty(repetitions) for name in runs}
    for repetition in range(repetitions):
        names = list(runs) if repetition % 2 == 0 else list(runs)[::-1]
        for name in names:
            start = clock()
            runs[name]()
            seconds[name][repetition] = clock() - start
    return seconds


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> Ratio:
    """Compare two results of `interleave`, turn by turn.

    Parameters
    ----------
    numerator, denominator : (repetitions,)
        Seconds, divided by the iterations of a run if those differ.
    """
    each = np.asarray(numerator, dtype=np.float64) / np.asarray(denominator, dtype=np.float64)
    return Ratio(float(np.median(each)), float(each.min()), float(each.max()))


class NewProcess(NamedTuple):
    """The cost of code in a new process."""

    setup_seconds: float
    statement_seconds: float
    total_seconds: float  # of the process, with the start of the interpreter
    cpu_seconds: float  # of the process; what its neighbours took is left out
    peak_bytes: int | None  # rise of resident memory during the statement; None off Linux
    value: Any  # of the expression `result`


_CHILD = """
import json, sys, time
def memory():
    try:
        with open("/proc/self/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        return [int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")]
    except (OSError, KeyError):
        return None
job = json.load(sys.stdin)
space = {"__name__": "__main__"}
start = time.perf_counter()
exec(job["setup"], space)
middle = time.perf_counter()
before = memory()
try:
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    reset = True
except OSError:
    reset = False
again = time.perf_counter()
exec(job["statement"], space)
end = time.perf_counter()
after = memory()
peak = None
if before and after:
    peak = max(0, after[1] - (before[0] if reset else before[1]))
value = eval(job["result"], space)
print(json.dumps([middle - start, end - again, peak, value]))
"""


def _children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def in_new_process(
    setup: str,
    statement: str,
    result: str = "None",
    *,
    environment: Mapping[str, str] | None = None,
) -> NewProcess:
    """Run code in a new Python process and measure its time and its peak memory.

    The memory is the peak resident memory during the statement, above that before it (Linux), and
    unlike tracemalloc's it includes allocations by compiled code. So let ``setup`` load the modules
    and make a small call that compiles.

    Parameters
    ----------
    setup, statement
        Python source; the second can use names defined by the first.
    result
        An expression evaluated at the end; its value, which JSON must be able to hold, is returned.
    environment
        Variables to add to the environment.
    """
    job = json.dumps({"setup": setup, "statement": statement, "result": result})
    start, start_cpu = time.perf_counter(), _children_cpu()
    child = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=job,
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    total, cpu = time.perf_counter() - start, _children_cpu() - start_cpu
    if child.returncode != 0:
        raise RuntimeError(f"the code failed in its new process:\n{child.stderr}")
    # The code may print other lines; the answer is the last one.
    setup_s, statement_s, peak, value = json.loads(child.stdout.rstrip().rsplit("\n", 1)[-1])
    return NewProcess(setup_s, statement_s, total, cpu, peak, value)


def peak_memory(setup: str, statement: str) -> int:
    """Measure the increase in resident memory during ``statement``, in bytes (Linux)."""
    peak = in_new_process(setup, statement).peak_bytes
    if peak is None:
        raise RuntimeError("peak memory is read from /proc, which this platform does not have")
    return peak


def import_seconds(module: str = "noiseaware", repetitions: int = 5) -> float:
    """Time ``import module`` in new processes, the best of several (files in the OS cache).

    The time includes everything the module imports, but not the start of the interpreter.
    """
    return min(in_new_process("", f"import {module}").statement_seconds for _ in range(repetitions))


def first_and_second_call(
    setup: str, statement: str, result: str = "None"
) -> tuple[NewProcess, NewProcess]:
    """Run the same code in two new processes, one after the other, with an empty numba cache.

    The first compiles; the second should find everything in the cache. Its overhead is
    ``total_seconds`` (or ``statement_seconds``, without start and imports) minus the seconds of
    sampling, which the code can return through ``result``.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache}
        first = in_new_process(setup, statement, result, environment=environment)
        second = in_new_process(setup, statement, result, environment=environment)
    return first, second
