"""Smallest ESS per second on one core: the default, algorithm1() and NumPyro's NUTS.

All samplers run on the same releases in one process, pinned to one core; the default and
algorithm1() take turns of a quarter of each chain. Times are CPU seconds of the sampling phase,
without warm-up. NUTS is shown in two ways, see `nuts`. Figures are medians over the releases;
ratios are computed per release, then the median taken.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import noiseaware as na
from benchmarks import measure, nuts, settings, tables
from benchmarks.subjects import Subject, code, subject
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves, make_target

DEFAULT = "noiseaware, default"
ALGORITHM1 = "noiseaware, algorithm1()"
NUTS_AHEAD = "NUTS, compiled ahead: sampling only"
NUTS_RUN = "NUTS, MCMC.run as a user calls it (second call in the process, compiles again)"
SIZES = (100, 1_000)
MODELS = ("regression", "naive-bayes")


TURNS = 4
"""Number of parts of a noiseaware chain, which take turns with the other sampler."""


class Length(NamedTuple):
    """The length of a sampler's run, enough to estimate its ESS."""

    warmup: int
    draws: int
    chains: int


LENGTHS = {
    # algorithm1() needs long chains: its ESS per draw is very small.
    ALGORITHM1: Length(2_000, 20_000, 4),
    DEFAULT: Length(1_000, 8_000, 4),
    NUTS_AHEAD: Length(1_000, 1_000, 2),
    NUTS_RUN: Length(1_000, 1_000, 2),
}
QUICK = {
    ALGORITHM1: Length(500, 5_000, 4),
    DEFAULT: Length(1_000, 1_000, 4),
    NUTS_AHEAD: Length(150, 150, 2),
    NUTS_RUN: Length(150, 150, 2),
}


def chosen_models(options: Namespace) -> list[str]:
    return [model for model in MODELS if model in (options.models or MODELS)]


def run(options: Namespace) -> None:
    with measure.one_core():  # before JAX makes its threads
        effective_draws(options)
        iteration_cost(options)


def effective_draws(options: Namespace) -> None:
    releases = options.releases or (1 if options.quick else 3)
    sizes = options.sizes or ((100,) if options.quick else SIZES)
    epsilons = options.epsilons or ((0.1, 1.0, 10.0) if options.quick else settings.EPSILONS)
    with_nuts = nuts.available()
    if not with_nuts:
        print(f"peers: without NUTS. {nuts.MISSING}")
    path, now = options.out / "peers-releases.csv", code()
    for model in chosen_models(options):
        for n in sizes:
            for epsilon in epsilons:
                cell = _cell(model, n, epsilon, releases, with_nuts, options.quick)
                # Replace results on file for this setting, or from other code.
                others = [
                    row
                    for row in tables.read(path)
                    if row["code"] == now
                    and (row["model"], row["n"], row["epsilon"]) != (model, n, epsilon)
                ]
                tables.write(path, [*others, *({"code": now, **row} for row in cell)])
    show(options)


def _cell(
    model: str, n: int, epsilon: float, releases: int, with_nuts: bool, quick: bool
) -> list[dict[str, Any]]:
    """Run the samplers in turns on some releases of one setting."""
    lengths = QUICK if quick else LENGTHS
    rows = []
    for seed in range(1, releases + 1):
        data = subject(model, n, epsilon, seed)
        runs = _ours(data, lengths, seed)
        for sampler in (NUTS_AHEAD, NUTS_RUN) if with_nuts and model == "regression" else ():
            runs[sampler] = _nuts(data, sampler, n, epsilon, lengths[sampler], seed)
        for sampler, (draws, seconds) in runs.items():
            bulk, tail = measure.smallest_ess(draws), measure.smallest_ess(draws, "tail")
            rows.append(
                {
                    "model": model,
                    "n": n,
                    "epsilon": epsilon,
                    "release": seed,
                    "sampler": sampler,
                    "draws": draws.shape[0] * draws.shape[1],
                    "seconds": seconds,
                    "bulk": bulk,
                    "tail": tail,
                    "bulk per second": bulk / seconds,
                    "tail per second": tail / seconds,
                    "rhat": measure.largest_rhat(draws),
                }
            )
            print(
                f"  {model:<12} n = {n:>5,}  epsilon = {epsilon:<4g} release {seed}  "
                f"{bulk / seconds:10,.1f} bulk {tail / seconds:10,.1f} tail ESS a second  "
                f"(R-hat {rows[-1]['rhat']:.3f})  {sampler}",
                flush=True,
            )
    return rows


def _ours(
    data: Subject, lengths: dict[str, Length], seed: int
) -> dict[str, tuple[np.ndarray, float]]:
    """Run noiseaware's samplers in turns, and time the draws after warm-up."""
    moves = {sampler: _sampler(data, sampler) for sampler in (DEFAULT, ALGORITHM1)}
    out: dict[str, list[np.ndarray]] = {sampler: [] for sampler in moves}
    seconds = dict.fromkeys(moves, 0.0)
    for chain_seed in np.random.SeedSequence(seed).spawn(lengths[DEFAULT].chains):
        schedules, states = {}, {}
        for sampler, (target, own) in moves.items():
            length = lengths[sampler]
            schedules[sampler] = chain.Schedule(length.warmup, length.draws)
            state = chain.start(target, own, np.random.Generator(np.random.SFC64(chain_seed)))
            states[sampler], _ = chain.advance(
                target, own, schedules[sampler], state, length.warmup
            )
        kept: dict[str, list[np.ndarray]] = {sampler: [] for sampler in moves}
        for _ in range(TURNS):
            for sampler, (target, own) in moves.items():
                draws = lengths[sampler].draws // TURNS
                start = time.process_time()
                states[sampler], made = chain.advance(
                    target, own, schedules[sampler], states[sampler], draws
                )
                seconds[sampler] += time.process_time() - start
                kept[sampler].append(made.theta[data.interest])
        for sampler in moves:
            out[sampler].append(np.concatenate(kept[sampler]))
    return {sampler: (np.stack(out[sampler]), seconds[sampler]) for sampler in moves}


def _nuts(
    data: Subject, sampler: str, n: int, epsilon: float, length: Length, seed: int
) -> tuple[np.ndarray, float]:
    sample = nuts.regression if sampler == NUTS_AHEAD else nuts.regression_by_run
    result = sample(
        data.release.values, n, settings.regression_scale(epsilon), **length._asdict(), seed=seed
    )
    return result.coefficients, result.seconds


def target_nuts(model: str, kind: str) -> str:
    return {"bulk": ">= 2", "tail": ">= 5"}[kind] if model == "regression" else ""


def target_algorithm1(model: str, epsilon: float) -> str:
    if model == "regression":
        return ">= 30" if epsilon <= 1 else ">= 5"
    return ">= 3" if epsilon <= 0.3 else ">= 0.8"


def show(options: Namespace) -> None:
    now = code()
    on_file = [row for row in tables.read(options.out / "peers-releases.csv") if row["code"] == now]
    cells = sorted(
        {(row["model"], row["n"], row["epsilon"]) for row in on_file},
        key=lambda cell: (MODELS.index(cell[0]), *cell[1:]),
    )
    rows = []
    for kind in ("bulk", "tail"):
        for model, n, epsilon in cells:
            rate: dict[str, dict[int, float]] = {}
            for row in on_file:
                if (row["model"], row["n"], row["epsilon"]) == (model, n, epsilon):
                    rates = rate.setdefault(row["sampler"], {})
                    rates[row["release"]] = row[f"{kind} per second"]
            rows.append(
                {
                    "ESS": kind,
                    "model": model,
                    "n": n,
                    "epsilon": epsilon,
                    "releases": len(rate[DEFAULT]),
                    "default": _median(rate, DEFAULT),
                    "algorithm1": _median(rate, ALGORITHM1),
                    "NUTS ahead": _median(rate, NUTS_AHEAD),
                    "NUTS run": _median(rate, NUTS_RUN),
                    "default/NUTS ahead": _median_ratio(rate, NUTS_AHEAD),
                    "default/NUTS run": _median_ratio(rate, NUTS_RUN),
                    "target NUTS": target_nuts(model, kind),
                    "default/algorithm1": _median_ratio(rate, ALGORITHM1),
                    "target algorithm1": target_algorithm1(model, epsilon),
                }
            )
    tables.write(options.out / "peers.csv", rows)
    for kind in ("bulk", "tail"):
        tables.show(
            f"Smallest {kind} ESS per CPU second on one core, sampling only\n"
            f"  NUTS ahead = {NUTS_AHEAD}\n  NUTS run   = {NUTS_RUN}",
            {"model": "", "n": ",.0f", "epsilon": "g", "releases": "d", "default": ",.1f",
             "algorithm1": ",.1f", "NUTS ahead": ",.1f", "NUTS run": ",.1f",
             "default/NUTS ahead": ",.1f", "default/NUTS run": ",.1f", "target NUTS": "",
             "default/algorithm1": ",.1f", "target algorithm1": ""},
            [row for row in rows if row["ESS"] == kind],
        )  # fmt: skip


def _median(rate: dict[str, dict[int, float]], sampler: str) -> float | None:
    return float(np.median(list(rate[sampler].values()))) if sampler in rate else None


def _median_ratio(rate: dict[str, dict[int, float]], other: str) -> float | None:
    if other not in rate:
        return None
    return float(np.median([rate[DEFAULT][seed] / rate[other][seed] for seed in rate[other]]))


def iteration_cost(options: Namespace) -> None:
    """Compare the time of a default iteration, after warm-up, with one of algorithm1()."""
    sizes = (1_000,) if options.quick else (1_000, 10_000)
    epsilons = options.epsilons or ((1.0,) if options.quick else settings.EPSILONS)
    repetitions = 3 if options.quick else 7
    rows = []
    for model in chosen_models(options):
        for n in sizes:
            for epsilon in epsilons:
                count = max(200_000 // n, 10)
                data = subject(model, n, epsilon, 1)
                seconds = measure.interleave(
                    {sampler: _warm(data, sampler, count) for sampler in (DEFAULT, ALGORITHM1)},
                    repetitions,
                    time.process_time,
                )
                ratio = measure.ratio(seconds[DEFAULT], seconds[ALGORITHM1])
                rows.append(
                    {
                        "model": model,
                        "n": n,
                        "epsilon": epsilon,
                        "default us": float(np.median(seconds[DEFAULT])) / count * 1e6,
                        "algorithm1 us": float(np.median(seconds[ALGORITHM1])) / count * 1e6,
                        "default ns a record": float(np.median(seconds[DEFAULT])) / count / n * 1e9,
                        "ratio": ratio.median,
                        "lowest": ratio.lowest,
                        "highest": ratio.highest,
                        "target": "<= 4",
                    }
                )
    tables.show(
        f"An iteration of the default (warmed up, one chain) against algorithm1(), "
        f"{repetitions} turns",
        {"model": "", "n": ",.0f", "epsilon": "g", "default us": ",.0f", "algorithm1 us": ",.0f",
         "default ns a record": ",.0f", "ratio": ".2f", "lowest": ".2f", "highest": ".2f",
         "target": ""},
        rows,
    )  # fmt: skip
    tables.write(options.out / "peers-iteration.csv", rows)


def _sampler(data: Subject, sampler: str) -> tuple[Any, Any]:
    """Return a sampler's target (on records or counts) and its moves."""
    moves = None if sampler == DEFAULT else na.moves.algorithm1()
    target = make_target(data.model, data.release, moves)
    return target, moves or default_moves(target)


def _warm(data: Subject, sampler: str, count: int) -> Callable[[], object]:
    """Warm up a chain; return a function that runs `count` more iterations."""
    target, moves = _sampler(data, sampler)
    # Long enough for what the default learns; algorithm1() learns nothing.
    warmup = 1_000 if sampler == DEFAULT else 50
    schedule = chain.Schedule(warmup, 10**9)
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(1)))
    state, _ = chain.advance(target, moves, schedule, state, warmup)
    return lambda: chain.advance(target, moves, schedule, state, count)
