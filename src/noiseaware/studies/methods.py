"""What a study runs on a release, and the numbers that it keeps of each.

A *method* is a sampler (`Sampler`, by name) or one of the comparators "naive", "non-private" and
"bootstrap". Every method gives draws of the parameters, and of them one row a scalar is kept: mean,
standard deviation, the ends of the equal-tailed interval, the effective sample size.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.arguments import whole_number
from noiseaware.baselines import bootstrap, naive, non_private
from noiseaware.posterior import with_derived
from noiseaware.sampler import chain
from noiseaware.sampler.moves import algorithm1
from noiseaware.sampler.run import pick_moves
from noiseaware.sampler.target import Target

Array = NDArray[np.float64]

COMPARATOR_DRAWS = 1000
BOOTSTRAP_DRAWS = 400

LABELS = {
    "default": "noise-aware, default sampler",
    "algorithm1": "noise-aware, Algorithm 1 (10,000 iterations, half dropped)",
    "naive": "naive: the noisy numbers taken as exact",
    "non-private": "non-private posterior p(theta | x)",
    "bootstrap": "parametric bootstrap (Ferrando et al. 2022)",
}
"""The names of methods in words."""

PER_PARAMETER = ("mean", "sd", "lower", "upper", "ess")
PER_METHOD = ("acceptance", "lowest_sweep", "lowest_probability", "seconds")
"""What is kept of a method: numbers of each scalar, and numbers of the run."""


@dataclass(frozen=True)
class Sampler:
    """How the noise-aware posterior is sampled in a study.

    Attributes
    ----------
    moves
        As in `noiseaware.sample`; None for the default.
    warmup, draws, chains
        The length and the number of chains; one is enough where every replicate has its own.
    """

    moves: tuple[Any, ...] | None = None
    warmup: int = 1000
    draws: int = 1000
    chains: int = 1

    def __post_init__(self) -> None:
        for name, least in (("warmup", 0), ("draws", 20), ("chains", 1)):
            whole_number(name, getattr(self, name), least)


SAMPLERS = {
    "default": Sampler(),
    "algorithm1": Sampler(tuple(algorithm1()), warmup=5000, draws=5000),
}
COMPARATORS = ("naive", "non-private", "bootstrap")


def read_samplers(samplers: Any) -> dict[str, Sampler]:
    """Return samplers by name, from names, from one name or from a mapping of the user's."""
    if isinstance(samplers, str):
        samplers = (samplers,)
    if isinstance(samplers, Mapping):
        for name, sampler in samplers.items():
            if not isinstance(sampler, Sampler):
                raise TypeError(f"samplers[{name!r}] must be a Sampler; got {sampler!r}")
            if name in COMPARATORS:
                raise ValueError(
                    f"{name!r} is the name of a comparator; call the sampler otherwise"
                )
        return {
            name: replace(s, moves=None if s.moves is None else tuple(s.moves))
            for name, s in samplers.items()
        }
    for name in samplers:
        if name not in SAMPLERS:
            raise ValueError(
                f"samplers must be names out of {', '.join(SAMPLERS)}, or a mapping of names to "
                f"Sampler(...); got {name!r}"
            )
    return {name: SAMPLERS[name] for name in samplers}


def read_comparators(comparators: Any) -> tuple[str, ...]:
    """Return the names of the comparators, checked."""
    names = (comparators,) if isinstance(comparators, str) else tuple(comparators)
    for name in names:
        if name not in COMPARATORS:
            raise ValueError(
                f"comparators must be names out of {', '.join(COMPARATORS)}; got {name!r}"
            )
    return names


def seed_for(entropy: int, key: Sequence[int], method: str) -> np.random.SeedSequence:
    """Return the seed of a method in a replicate; it does not depend on the other methods."""
    return np.random.SeedSequence(entropy, spawn_key=(*key, 1, zlib.crc32(method.encode("utf-8"))))


def run_method(
    name: str,
    samplers: Mapping[str, Sampler],
    model: Any,
    records: Any,
    release: Any,
    names: Sequence[str],
    interval: float,
    seed: np.random.SeedSequence,
) -> dict[str, Any]:
    """Run one method on one release; return what is kept of it (`PER_PARAMETER`, `PER_METHOD`)."""
    began = time.thread_time()
    kept: dict[str, Any] = dict.fromkeys(PER_METHOD, np.nan)
    if name in samplers:
        drawn, reports = run_chains(model, release, samplers[name], seed)
        if "acceptance_rate" in reports:
            kept["acceptance"] = float(reports["acceptance_rate"].mean())
            kept["lowest_sweep"] = float(reports["acceptance_rate"].min())
        if "lowest_log_acceptance" in reports:
            kept["lowest_probability"] = float(np.exp(reports["lowest_log_acceptance"].min()))
        summary = summarise(flatten(drawn, names, 2), interval)
    else:
        number = int(seed.generate_state(1, np.uint64)[0])
        summary = _comparator(name, model, records, release, names, interval, number)
    kept["seconds"] = time.thread_time() - began
    return {**summary, **kept}


def _comparator(name, model, records, release, names, interval, seed) -> dict[str, Array]:
    if name == "bootstrap":
        outcome = bootstrap(model, release, draws=BOOTSTRAP_DRAWS, random_seed=seed)
        again = with_derived(model, outcome.replicates)
        summary = summarise(flatten(again, names, 1)[None], interval, effective=False)
        estimate = with_derived(model, {k: v[None] for k, v in outcome.estimate.items()})
        summary["mean"] = flatten(estimate, names, 1)[0]
        return summary
    if name == "naive":
        drawn = naive(model, release, draws=COMPARATOR_DRAWS, random_seed=seed)
    else:
        drawn = non_private(model, records, draws=COMPARATOR_DRAWS, random_seed=seed)
    return summarise(flatten(drawn, names, 1)[None], interval, effective=False)


def run_chains(
    model: Any, release: Any, sampler: Sampler, seed: np.random.SeedSequence, keep_records: int = 0
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Run chains one after the other in this process, without the trimmings of `sample`.

    Returns
    -------
    drawn, reports
        Draws of each parameter, (chains, draws, *shape), and what the moves report, (chains,
        draws). With `keep_records`, `drawn[""]` holds imputed databases, (chains, kept, n, ...).
    """
    target = Target(model, release)
    moves = pick_moves(sampler.moves, target)
    schedule = chain.Schedule.make(sampler.warmup, sampler.draws, keep_records)
    parts = []
    for child in seed.spawn(sampler.chains):
        state = chain.start(target, moves, np.random.Generator(np.random.SFC64(child)))
        _, draws = chain.advance(target, moves, schedule, state, schedule.iterations)
        if len(draws) < schedule.draws:
            raise KeyboardInterrupt  # `advance` returned early with what it had
        parts.append(draws)
    drawn = {p.name: np.stack([d.theta[p.name] for d in parts]) for p in model.parameters}
    drawn = with_derived(model, drawn)
    if keep_records:
        drawn[""] = np.stack([np.stack(d.databases) for d in parts])
    reports = {name: np.stack([d.reports[name] for d in parts]) for name in parts[0].reports}
    return drawn, reports


def flatten(drawn: Mapping[str, Any], names: Sequence[str], axes: int) -> Array:
    """Join parameters to one last axis, after `axes` leading axes of draws."""
    parts = [np.asarray(drawn[name], dtype=np.float64) for name in names]
    return np.concatenate([p.reshape(*p.shape[:axes], -1) for p in parts], axis=-1)


def summarise(draws: Array, interval: float, effective: bool = True) -> dict[str, Array]:
    """Return `PER_PARAMETER` of draws (chains, draws, k), each (k,)."""
    from arviz_stats.base import array_stats

    flat = draws.reshape(-1, draws.shape[-1])
    tail = 0.5 * (1.0 - interval)
    lower, upper = np.quantile(flat, [tail, 1.0 - tail], axis=0)
    ess = np.full(draws.shape[-1], np.nan)
    for j in range(len(ess) if effective else 0):
        if np.ptp(draws[..., j]) > 0:
            ess[j] = float(array_stats.ess(draws[..., j], chain_axis=0, draw_axis=1))
    return {
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0, ddof=1),
        "lower": lower,
        "upper": upper,
        "ess": ess,
    }
