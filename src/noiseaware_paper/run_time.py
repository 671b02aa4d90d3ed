"""The time per iteration against the number of records, which should be linear."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware_paper.settings import Experiment, Size

EPSILON = 1.0
MOST_ITERATIONS = 2000


def run_time_task(experiment: Experiment, size: Size, random_seed: int, key) -> dict[str, Any]:
    """Return the processor time per iteration in seconds, for a sampler and number of records.

    The first iterations, which may compile, and the warm-up are excluded.
    """
    n_place, method = key
    n = size.run_time_records[n_place]
    rng = np.random.default_rng(np.random.SeedSequence(random_seed, spawn_key=(4, *key)))
    release = experiment.release(experiment.records(n, rng), EPSILON, rng)
    samplers = list(size.samplers.values())
    target, moves = prepare(experiment.model, release, samplers[method].moves)
    schedule = chain.Schedule(5, MOST_ITERATIONS)
    state = chain.start(target, moves, rng)
    state, _ = chain.advance(target, moves, schedule, state, 6)
    began, done, block = time.process_time(), 0, 1
    while done < MOST_ITERATIONS - 6 and time.process_time() - began < size.run_time_seconds:
        block = min(2 * block, 100, MOST_ITERATIONS - 6 - done)
        state, _ = chain.advance(target, moves, schedule, state, block)
        done += block
    return {"n": n, "seconds": (time.process_time() - began) / done, "iterations": done}


def slope(n: np.ndarray, seconds: np.ndarray) -> float:
    """Return the exponent of n, fitted to the largest sizes; 1 is linear."""
    large = n >= max(n.max() / 100, 1000) if n.max() > 1000 else n > 0
    if large.sum() < 2:
        large = n > 0
    return float(np.polyfit(np.log(n[large]), np.log(seconds[large]), 1)[0])
