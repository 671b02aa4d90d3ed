"""What a study runs on a release, and the numbers that it keeps of each.

A *method* is a sampler (`Sampler`, by name) or one of the baselines "naive", "non-private",
"bootstrap" and "debiased-bootstrap". Every method gives draws of the parameters; what is kept of
each scalar is its mean, its standard deviation, the ends of its equal-tailed interval and its
effective sample size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Model
from noiseaware.release import Release
from noiseaware.results.posterior import with_derived
from noiseaware.running.run import prepare
from noiseaware.sampler import chain
from noiseaware.sampler.moves import algorithm1

Array = NDArray[np.float64]

LABELS = {
    "default": "noise-aware, default sampler",
    "algorithm1": "noise-aware, Algorithm 1 (10,000 iterations, half dropped)",
    "naive": "naive: the noisy numbers taken as exact",
    "non-private": "non-private posterior p(theta | x)",
    "bootstrap": "parametric bootstrap (Ferrando et al. 2022)",
    "debiased-bootstrap": "debiased bootstrap (Wang et al. 2025)",
}
"""The names of methods in words."""

PER_PARAMETER = ("mean", "sd", "lower", "upper", "ess")
PER_METHOD = ("acceptance", "lowest_sweep", "lowest_probability", "seconds")
"""What is kept of a method: numbers for each scalar, and numbers for the run."""


@dataclass(frozen=True)
class Sampler:
    """How the noise-aware posterior is sampled in a study.

    Attributes
    ----------
    moves
        As in `noiseaware.sample`; None for the default.
    warmup, draws, chains
        The length and the number of chains; one is enough, as every replicate has its own.
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


SAMPLERS = {
    "default": Sampler(),
    "algorithm1": Sampler(algorithm1(), warmup=5000, draws=5000),
}
BASELINES = ("naive", "non-private", "bootstrap", "debiased-bootstrap")


def read_samplers(samplers: Any) -> dict[str, Sampler]:
    """Return samplers by name, from names, from one name or from a mapping of the user's."""
    if isinstance(samplers, str):
        samplers = (samplers,)
    if isinstance(samplers, Mapping):
        for name, sampler in samplers.items():
            if not isinstance(sampler, Sampler):
                raise TypeError(f"samplers[{name!r}] must be a Sampler; got {sampler!r}")
            if name in BASELINES:
                raise ValueError(
                    f"{name!r} is the name of a baseline; give the sampler another name"
                )
        return dict(samplers)
    for name in samplers:
        if name not in SAMPLERS:
            raise ValueError(
                f"samplers must be names out of {', '.join(SAMPLERS)}, or a mapping of names to "
                f"Sampler(...); got {name!r}"
            )
    return {name: SAMPLERS[name] for name in samplers}


def read_baselines(baselines: Any) -> tuple[str, ...]:
    """Return the names of the baselines, checked."""
    names = (baselines,) if isinstance(baselines, str) else tuple(baselines)
    for name in names:
        if name not in BASELINES:
            raise ValueError(f"baselines must be names out of {', '.join(BASELINES)}; got {name!r}")
    return names


def run_chains(
    model: Model,
    release: Release,
    sampler: Sampler,
    seed: np.random.SeedSequence,
    keep_records: int = 0,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Run chains one after the other in this process, without the trimmings of `sample`.

    Returns
    -------
    drawn, reports
        Draws of each parameter, (chains, draws, *shape), and what the moves report, (chains,
        draws). With `keep_records`, `drawn[""]` holds imputed databases, (chains, kept, n, ...).
    """
    target, moves = prepare(model, release, sampler.moves)
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


def summarise(draws: Array, interval: float, effective: bool = True) -> dict[str, Any]:
    """Return `PER_PARAMETER` of draws (chains, draws, k), each (k,)."""
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
