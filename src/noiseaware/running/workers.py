"""Worker processes that die, parents that die, and SIGTERM.

The work of a killed worker is repeated: its chain restarts at the last segment in a new worker and
makes the same draws. A worker whose parent is killed ends too.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

MOST_DEATHS = 5
"""After this many deaths in a row, the reason must be permanent."""

LOOK_EVERY = 1.0
"""Seconds between a worker's checks that its parent is alive."""


def call_all(workers: Parallel, function: Callable[..., Any], calls: Sequence[Any]) -> list[Any]:
    """Return `function(*call)` for all calls, in order; repeated if a worker dies."""
    deaths = 0
    while True:
        try:
            return list(workers(_task(function, *call) for call in calls))
        except worker_deaths() as problem:
            deaths += 1
            say_died(problem, deaths)


def unordered(
    cores: int | None, function: Callable[..., Any], first: Any, keys: Sequence[Any]
) -> Iterator[Any]:
    """Yield `function(first, key)` for all keys as they finish; None: the chosen backend.

    A backend that returns nothing until all calls are done (Ray's) gets as many keys at a time as
    it has workers.
    """
    n_jobs = None if cores is None else min(cores, len(keys))
    calls = (_task(function, first, key) for key in keys)
    if get_active_backend()[0].supports_return_generator:
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls)
        return
    with Parallel(n_jobs=n_jobs, batch_size=1) as workers:
        while some := list(islice(calls, effective_n_jobs(n_jobs))):
            yield from workers(some)


def worker_deaths() -> tuple[type[Exception], ...]:
    """Return the exceptions raised when a worker dies: joblib's own and those of engines in use."""
    deaths: list[type[Exception]] = [BrokenExecutor]
    if "distributed" in sys.modules:
        from distributed import KilledWorker

        deaths.append(KilledWorker)
    if "ray" in sys.modules:
        from ray.exceptions import RayActorError, WorkerCrashedError

        deaths += [RayActorError, WorkerCrashedError]
    return tuple(deaths)


def say_died(problem: Exception, deaths: int) -> None:
    """Warn that a worker died; raise after too many deaths, or if it could not read its task."""
    if isinstance(problem, BrokenExecutor) and not isinstance(problem, TerminatedWorkerError):
        reason = str(problem.__cause__ or problem).strip(' \n"').splitlines()[-1]
        raise _cannot_import(reason) from None
    if deaths >= MOST_DEATHS:
        raise RuntimeError(
            f"{MOST_DEATHS} worker processes died in a row, killed or out of memory: take fewer "
            "with cores=, or a machine with more memory"
        ) from None
    warnings.warn(
        "a worker process died, killed or out of memory; what it was doing is done again in a new "
        "one, with the same result",
        RuntimeWarning,
        stacklevel=3,
    )


def _cannot_import(reason: str) -> TypeError:
    return TypeError(
        "model, release and moves must be of classes that worker processes can import; they "
        f"say: {reason}. Put your class into a module of its own, or take cores=1"
    )


def _task(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a call for a worker.

    A Dask worker that cannot read its message closes the connection, and the run would wait
    forever. So it gets bytes, and decodes them inside the call.
    """
    if type(get_active_backend()[0]).__module__ == "joblib._dask":
        from distributed.protocol.pickle import dumps

        return delayed(unpacked)(os.getpid(), dumps((function, arguments)))
    return delayed(watched)(os.getpid(), function, *arguments)


def unpacked(parent: int, task: bytes) -> Any:
    """Decode a task and call its function, in a worker."""
    from distributed.protocol.pickle import loads

    try:
        function, arguments = loads(task)
    except ImportError as error:
        raise _cannot_import(str(error)) from None
    return watched(parent, function, *arguments)


def watched(parent: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker that ends when its parent does."""
    if os.getppid() == parent:
        _watch(parent)
    return function(*arguments)


@functools.cache
def _watch(parent: int) -> None:
    """Start watching, once per worker, whether the parent is alive."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM act like Ctrl-C inside the block, unless it has another handler."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
