"""One replicate of a study: the methods that analyse a release, and the numbers kept.

A *method* is a sampler (`Sampler`, by name) or one of the baselines "naive", "non-private",
"bootstrap" and "debiased-bootstrap". It gives draws of the parameters, from which the study keeps,
for each scalar, the mean, the standard deviation, the ends of the equal-tailed interval and the
effective sample size.

The seeds of a replicate are spawned from the study's seed with its key (index of epsilon, index of
the number of records, replicate). So its result does not depend on the order or the worker.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.baselines import bootstrap, debiased_bootstrap, naive, non_private
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats, Model, draw_records, model_abilities
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived
from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware.sampler.moves import algorithm1

LABELS = {
    "default": "noise-aware, default sampler",
    "algorithm1": "noise-aware, Algorithm 1 (10,000 iterations, half dropped)",
    "naive": "naive: the noisy numbers taken as exact",
    "non-private": "non-private posterior p(theta | x)",
    "bootstrap": "parametric bootstrap (Ferrando et al. 2022)",
    "debiased-bootstrap": "debiased bootstrap (Wang et al. 2025)",
}
"""The methods in words."""

PER_PARAMETER = ("mean", "sd", "lower", "upper", "ess")
PER_METHOD = ("acceptance", "lowest_sweep", "lowest_probability", "seconds")
"""The numbers kept for a method: for each scalar, and for the run."""


@dataclass(frozen=True)
class Sampler:
    """How the noise-aware posterior is sampled in a study.

    Attributes
    ----------
    moves
        As in `noiseaware.sample`; None for the default.
    warmup, draws, chains
        The length and number of chains; one is enough, because every replicate has its own.
    """

    moves: Sequence[Any] | None = None
    warmup: int = 1000
    draws: int = 1000
    chains: int = 1

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("draws", 20), ("chains", 1)):
            whole_number(name, getattr(self, name), least)
        if self.moves is not None:
            object.__setattr__(self, "moves", tuple(self.moves))


SAMPLERS = {"default": Sampler(), "algorithm1": Sampler(algorithm1(), warmup=5000, draws=5000)}
BASELINES = ("naive", "non-private", "bootstrap", "debiased-bootstrap")


def read_samplers(samplers: Any) -> dict[str, Sampler]:
    """Return samplers by name, from one name, several names or the user's mapping."""
    if isinstance(samplers, str):
        samplers = (samplers,)
    if isinstance(samplers, Mapping):
        for name, sampler in samplers.items():
            if not isinstance(sampler, Sampler):
                raise TypeError(f"samplers[{name!r}] must be a Sampler; got {sampler!r}")
            if name in BASELINES:
                why = "is the name of a baseline; give the sampler another name"
                raise ValueError(f"{name!r} {why}")
        return dict(samplers)
    for name in samplers:
        if name not in SAMPLERS:
            raise ValueError(
                f"samplers must be among {', '.join(SAMPLERS)}, or a mapping of names to "
                f"Sampler(...); got {name!r}"
            )
    return {name: SAMPLERS[name] for name in samplers}


def read_baselines(baselines: Any) -> tuple[str, ...]:
    """Check the names of the baselines and return them as a tuple."""
    names = (baselines,) if isinstance(baselines, str) else tuple(baselines)
    for name in names:
        if name not in BASELINES:
            raise ValueError(f"baselines must be among {', '.join(BASELINES)}; got {name!r}")
    return names


def run_chains(
    model: Model,
    release: Release,
    sampler: Sampler,
    seed: np.random.SeedSequence,
    keep_records: int = 0,
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Run chains one after the other in this process, without the extras of `sample`.

    Returns draws of each parameter, (chains, draws, *shape), and the moves' reports, (chains,
    draws). With `keep_records`, the draws of "" are imputed databases, (chains, kept, n, ...).
    """
    target, moves = prepare(model, release, sampler.moves)
    schedule = chain.Schedule.make(sampler.warmup, sampler.draws, keep_records)
    parts = []
    for rng in chain.generators(seed, sampler.chains):
        state = chain.start(target, moves, rng)
        parts.append(chain.run_through(target, moves, schedule, state)[1])
    drawn = {p.name: np.stack([d.theta[p.name] for d in parts]) for p in model.parameters}
    drawn = with_derived(model, drawn)
    if keep_records:
        drawn[""] = np.stack([np.stack(d.databases) for d in parts])
    reports = {name: np.stack([d.reports[name] for d in parts]) for name in parts[0].reports}
    return drawn, reports


def flatten(drawn: Mapping[str, Any], names: Sequence[str], axes: int) -> Floats:
    """Join parameters along one last axis, after `axes` leading axes of draws."""
    parts = [np.asarray(drawn[name], dtype=np.float64) for name in names]
    return np.concatenate([p.reshape(*p.shape[:axes], -1) for p in parts], axis=-1)


def summarise(draws: Floats, interval: float, effective: bool = True) -> dict[str, Any]:
    """Return the numbers of `PER_PARAMETER`, each (k,), for draws (chains, draws, k)."""
    from arviz_stats.base import array_stats

    flat = draws.reshape(-1, draws.shape[-1])
    tail = 0.5 * (1.0 - interval)
    lower, upper = np.quantile(flat, [tail, 1.0 - tail], axis=0)
    ess = np.full(draws.shape[-1], np.nan)
    for j in range(len(ess) if effective else 0):
        if np.ptp(draws[..., j]) > 0:
            ess[j] = float(array_stats.ess(draws[..., j], chain_axis=0, draw_axis=1))
    found = (flat.mean(axis=0), flat.std(axis=0, ddof=1), lower, upper, ess)
    return dict(zip(PER_PARAMETER, found, strict=True))


Key = tuple[int, int, int]

BASELINE_DRAWS, BOOTSTRAP_DRAWS = 1000, 400
"""Enough for the ends of an interval; each bootstrap draw is a simulated release."""


@dataclass(frozen=True)
class Plan:
    """The settings that all replicates of a study share."""

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
        The parameters that generated the records; None if only the records were given.
    records
        The confidential records.
    release
        The release made from them.
    numbers
        For each method, the numbers that the study keeps.
    """

    true_parameters: Mapping[str, Any] | None
    records: np.ndarray
    release: Release
    numbers: dict[str, dict[str, Any]]


def simulate(plan: Plan, key: Key) -> tuple[Mapping[str, Any] | None, np.ndarray, Release]:
    """Simulate the parameters, records and release of a replicate."""
    rng = np.random.default_rng(np.random.SeedSequence(plan.entropy, spawn_key=(*key, 0)))
    theta, records = plan.true_parameters, plan.records
    if records is None:
        theta = plan.model.sample_prior(rng) if theta is None else theta
        n = plan.n_records[key[1]]
        records = np.ascontiguousarray(draw_records(plan.model, dict(theta), np.arange(n), rng))
    return theta, records, plan.mechanisms[key[0]].privatize(records, rng)


def run_replicate(plan: Plan, key: Key) -> Replicate:
    """Run one replicate."""
    theta, records, release = simulate(plan, key)
    numbers = {name: _run_method(plan, name, records, release, key) for name in plan.methods}
    return Replicate(theta, records, release, numbers)


def _run_method(plan: Plan, name: str, records: Any, release: Release, key: Key) -> dict[str, Any]:
    """Run one method and return its numbers (`PER_PARAMETER`, `PER_METHOD`).

    Its seed does not depend on the other methods.
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
    drawn, reports = run_chains(plan.model, release, sampler, seed)
    kept = summarise(flatten(drawn, plan.names, 2), plan.interval)
    if "acceptance_rate" in reports:
        kept["acceptance"] = float(reports["acceptance_rate"].mean())
        kept["lowest_sweep"] = float(reports["acceptance_rate"].min())
    if "lowest_log_acceptance" in reports:
        kept["lowest_probability"] = float(np.exp(reports["lowest_log_acceptance"].min()))
    return kept


def _baseline(plan: Plan, name: str, records: Any, release: Release, seed: int) -> dict[str, Any]:
    model, names = plan.model, plan.names
    if name in ("naive", "non-private"):
        run, data = (naive, release) if name == "naive" else (non_private, records)
        drawn = run(model, data, draws=BASELINE_DRAWS, random_seed=seed)
        return summarise(flatten(drawn, names, 1)[None], plan.interval, effective=False)
    if name == "bootstrap":
        outcome = bootstrap(model, release, draws=BOOTSTRAP_DRAWS, random_seed=seed)
    else:
        outcome = debiased_bootstrap(model, release, random_seed=seed)
    drawn = with_derived(model, outcome.replicates)
    kept = summarise(flatten(drawn, names, 1)[None], plan.interval, effective=False)
    return {**kept, "mean": _scalars(plan, outcome.estimate)}


def row_of(plan: Plan, key: Key) -> dict[str, list]:
    """Run one replicate and return its numbers as lists."""
    done = run_replicate(plan, key)
    theta, unknown = done.true_parameters, [float("nan")] * len(plan.labels)
    row: dict[str, list] = {"true": unknown if theta is None else _scalars(plan, theta).tolist()}
    for field in (*PER_PARAMETER, *PER_METHOD):
        row[field] = [np.asarray(done.numbers[name][field]).tolist() for name in plan.methods]
    return row


def _scalars(plan: Plan, theta: Mapping[str, Any]) -> Floats:
    """Return the scalars of one theta that the study reports."""
    once = {name: np.asarray(value, dtype=np.float64)[None] for name, value in theta.items()}
    return flatten(with_derived(plan.model, once), plan.names, 1)[0]


def all_keys(plan: Plan, replicates: int) -> Sequence[Key]:
    """Return the keys of all replicates; the first replicate of every setting comes first."""
    counts = (replicates, len(plan.epsilons), len(plan.n_records))
    return [(i, j, r) for r, i, j in np.ndindex(counts)]
