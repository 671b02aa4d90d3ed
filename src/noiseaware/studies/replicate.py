"""One replicate of a study: a function of the study's plan and of its own number.

The numbers of a replicate are (epsilon's place, number of records' place, replicate), and its seeds
are those of the study with these numbers as spawn key. So it can be run alone, in any order, on any
worker, and is the same.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.baselines import bootstrap, debiased_bootstrap, naive, non_private
from noiseaware.contract import Model, draw_records, model_abilities
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived
from noiseaware.studies.methods import (
    PER_METHOD,
    PER_PARAMETER,
    Sampler,
    flatten,
    run_chains,
    summarise,
)

Key = tuple[int, int, int]

BASELINE_DRAWS = 1000
BOOTSTRAP_DRAWS = 400


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
    numbers = {name: _run_method(plan, name, records, release, key) for name in plan.methods}
    return Replicate(theta, records, release, numbers)


def _run_method(plan: Plan, name: str, records: Any, release: Release, key: Key) -> dict[str, Any]:
    """Run one method; return what is kept of it (`PER_PARAMETER`, `PER_METHOD`).

    Its seed does not depend on which other methods there are.
    """
    spawn_key = (*key, 1, zlib.crc32(name.encode("utf-8")))
    seed = np.random.SeedSequence(plan.entropy, spawn_key=spawn_key)
    began = time.thread_time()
    if name in plan.samplers:
        kept = _sampled(plan, plan.samplers[name], release, seed)
    else:
        number = int(seed.generate_state(1, np.uint64)[0])
        kept = _baseline(plan, name, records, release, number)
    seconds = time.thread_time() - began
    return {**dict.fromkeys(PER_METHOD, np.nan), **kept, "seconds": seconds}


def _sampled(plan: Plan, sampler: Sampler, release: Release, seed: Any) -> dict[str, Any]:
    """Sample the noise-aware posterior of a release."""
    drawn, reports = run_chains(plan.model, release, sampler, seed)
    kept = summarise(flatten(drawn, plan.names, 2), plan.interval)
    if "acceptance_rate" in reports:
        kept["acceptance"] = float(reports["acceptance_rate"].mean())
        kept["lowest_sweep"] = float(reports["acceptance_rate"].min())
    if "lowest_log_acceptance" in reports:
        kept["lowest_probability"] = float(np.exp(reports["lowest_log_acceptance"].min()))
    return kept


def _baseline(plan: Plan, name: str, records: Any, release: Release, seed: int) -> dict[str, Any]:
    """Run another analysis of a release."""
    model, names = plan.model, plan.names
    outcome = None
    if name == "bootstrap":
        outcome = bootstrap(model, release, draws=BOOTSTRAP_DRAWS, random_seed=seed)
    elif name == "debiased-bootstrap":
        outcome = debiased_bootstrap(model, release, random_seed=seed)
    if outcome is not None:
        drawn = with_derived(model, outcome.replicates)
    elif name == "naive":
        drawn = naive(model, release, draws=BASELINE_DRAWS, random_seed=seed)
    else:
        drawn = non_private(model, records, draws=BASELINE_DRAWS, random_seed=seed)
    kept = summarise(flatten(drawn, names, 1)[None], plan.interval, effective=False)
    if outcome is not None:
        estimate = with_derived(model, {k: v[None] for k, v in outcome.estimate.items()})
        kept["mean"] = flatten(estimate, names, 1)[0]
    return kept


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
