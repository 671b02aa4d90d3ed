"""One replicate of a study: a function of the study's plan and of its own number.

The numbers of a replicate are (epsilon's place, number of records' place, replicate), and its seeds
are those of the study with these numbers as spawn key. So it can be run alone, in any order, on any
worker, and is the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.contract import Model, draw_records, model_abilities
from noiseaware.posterior import with_derived
from noiseaware.release import Release
from noiseaware.studies.methods import (
    PER_METHOD,
    PER_PARAMETER,
    Sampler,
    flatten,
    run_baseline,
    run_sampler,
    seed_for,
)

Key = tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """What all replicates of a study share."""

    model: Model
    mechanisms: tuple[Any, ...]
    epsilons: tuple[float, ...]
    n_records: tuple[int, ...]
    true_parameters: Mapping[str, Any] | None
    records: Any
    interval: float
    samplers: Mapping[str, Sampler]
    baselines: tuple[str, ...]
    names: tuple[str, ...]
    entropy: int

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of all methods, samplers first."""
        return (*self.samplers, *self.baselines)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the scalars, such as `coefficients[x1]`."""
        known = {p.name: p for p in model_abilities(self.model).shown}
        return tuple(label for name in self.names for label in known[name].labels)


@dataclass(frozen=True)
class Replicate:
    """One replicate, run alone.

    Attributes
    ----------
    true_parameters
        What the records were made with; None if only the records were given.
    records
        The confidential records.
    release
        What was released of them.
    numbers
        For each method the numbers that the study keeps of it.
    """

    true_parameters: Mapping[str, Any] | None
    records: np.ndarray
    release: Release
    numbers: dict[str, dict[str, Any]]


def simulate(plan: Plan, key: Key) -> tuple[Mapping[str, Any] | None, np.ndarray, Release]:
    """Make the parameters, the records and the release of a replicate."""
    rng = np.random.default_rng(np.random.SeedSequence(plan.entropy, spawn_key=(*key, 0)))
    theta = plan.true_parameters
    if plan.records is not None:
        records = plan.records
    else:
        if theta is None:
            theta = plan.model.sample_prior(rng)
        n = plan.n_records[key[1]]
        records = np.ascontiguousarray(draw_records(plan.model, dict(theta), np.arange(n), rng))
    return theta, records, plan.mechanisms[key[0]].privatize(records, rng)


def run_replicate(plan: Plan, key: Key) -> Replicate:
    """Run one replicate."""
    theta, records, release = simulate(plan, key)
    numbers = {
        name: _run_method(plan, name, records, release, seed_for(plan.entropy, key, name))
        for name in plan.methods
    }
    return Replicate(theta, records, release, numbers)


def _run_method(
    plan: Plan, name: str, records: Any, release: Release, seed: np.random.SeedSequence
) -> dict[str, Any]:
    """Run one method; return what is kept of it (`PER_PARAMETER`, `PER_METHOD`)."""
    began = time.thread_time()
    asked = (plan.names, plan.interval)
    if name in plan.samplers:
        kept = run_sampler(plan.samplers[name], plan.model, release, *asked, seed)
    else:
        number = int(seed.generate_state(1, np.uint64)[0])
        kept = run_baseline(name, plan.model, records, release, *asked, number)
    seconds = time.thread_time() - began
    return {**dict.fromkeys(PER_METHOD, np.nan), **kept, "seconds": seconds}


def row_of(plan: Plan, key: Key) -> dict[str, list]:
    """Run one replicate and return what is kept of it as lists of numbers."""
    done = run_replicate(plan, key)
    row: dict[str, list] = {"true": truth(plan, done.true_parameters)}
    for field in (*PER_PARAMETER, *PER_METHOD):
        row[field] = [np.asarray(done.numbers[name][field]).tolist() for name in plan.methods]
    return row


def truth(plan: Plan, theta: Mapping[str, Any] | None) -> list[float]:
    """Return the true scalars, or NaN where they are not known."""
    if theta is None:
        return [float("nan")] * len(plan.labels)
    once = {name: np.asarray(value, dtype=np.float64)[None] for name, value in theta.items()}
    return flatten(with_derived(plan.model, once), plan.names, 1)[0].tolist()


def all_keys(plan: Plan, replicates: int) -> Sequence[Key]:
    """Return the numbers of all replicates, the first one of every setting before the second."""
    return [
        (i, j, r)
        for r in range(replicates)
        for i in range(len(plan.epsilons))
        for j in range(len(plan.n_records))
    ]
