"""The contribution of each part of the transport move: effective draws per second without it.

One part at a time is switched off or changed in the default call: 2 chains, 500 warm-up, 500 draws.
The measure is the smallest bulk ESS over the parameters per CPU second, relative to the whole
sampler on the same release, which takes a turn every few parts. The settings are the three models
of ``mixing`` at epsilon 0.1, 1 and 10, and the examples of ``models`` at epsilon 1. A part plays no
role if the draws equal those of the whole sampler with the same seed. A ratio has a standard error
of 20 to 30%, so the table shows the geometric mean, over the settings in which the part plays a
role, and the lowest ratio.

Every run is written to ``ablation-runs.csv`` when done, and the table uses all lines written by the
same code, so a run can be stopped, and continued with more releases.
"""

from __future__ import annotations

import math
import time
import warnings
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest import mock

import numpy as np

import noiseaware as na
from benchmarks import measure, models, tables
from benchmarks.subjects import MODELS, code, subject
from noiseaware.counts import move
from noiseaware.maths.formulas import RegressionFormula
from noiseaware.parameters import PLAIN_WORK
from noiseaware.sampler import default
from noiseaware.sampler.moves import (
    CountTransport,
    count_transport,
    exploring,
    geometry,
    interweave,
    learned,
    level,
    proposals,
    records,
    scale,
    transport,
    tuning,
)
from noiseaware.sampler.target import Target

WHOLE = "whole"
SIZES = (100, 1_000, 10_000)
EPSILONS = (0.1, 1.0, 10.0)
TURN = 5
"""Number of parts between two turns of the whole sampler."""

Patches = list[Any]


def changed(owner: Any, **values: Any) -> Callable[[], Patches]:
    """Return a part that replaces attributes of a module or a class."""
    return lambda: [mock.patch.object(owner, name, value) for name, value in values.items()]


def without(match: Callable[[Any], bool]) -> Callable[[], Patches]:
    """Return a part that drops the matching proposals."""

    def patches() -> Patches:
        make = transport.make_proposals

        def fewer(*given: Any) -> list[Any]:
            return [proposal for proposal in make(*given) if not match(proposal)]

        return [mock.patch.object(transport, "make_proposals", fewer)]

    return patches


def no_spread() -> Patches:
    """Give all steps of a random walk the tuned size."""
    prepare = exploring.ExploringJump.prepare

    def even(self: Any, steps: int, rng: Any) -> Any:
        uniforms, normals, waits = prepare(self, steps, rng)
        normals[..., -1] = 0.0
        return uniforms, normals, waits

    return [
        mock.patch.object(proposals, "SPREAD", 0.0),
        mock.patch.object(exploring.ExploringJump, "prepare", even),
    ]


def _walk_free(move: Any, rng: Any, size: float) -> tuple[Any, float]:
    """Return a step of the level move's free directions, never a jump."""
    k = move.frame.free.shape[1]
    return min(size, 1.0) * 2.4 / math.sqrt(max(k, 1)) * rng.standard_normal(k), 0.0


def no_near() -> Patches:
    """Draw innovations independently each time."""

    def afresh(kind: str, u: Any, rng: Any) -> Any:
        return rng.standard_normal(u.shape) if kind == "normal" else rng.random(u.shape)

    return [mock.patch.object(records, "near", afresh)]


def enough(factor: float) -> Callable[[], Patches]:
    """Return a part that changes when iterations are made longer."""
    value = factor * tuning.ENOUGH
    return lambda: [mock.patch.object(owner, "ENOUGH", value) for owner in (interweave, tuning)]


def no_images() -> Patches:
    """Make no antithetic iterations."""
    choose = transport.Transport._choose_brief

    def without_images(self: Any, target: Any, tuning: Any) -> None:
        tuning["images"].clear()
        choose(self, target, tuning)

    return [mock.patch.object(transport.Transport, "_choose_brief", without_images)]


def every(number: int) -> Callable[[], Patches]:
    """Return a part that changes how often all moves are made between independent draws."""
    return lambda: [mock.patch.object(owner, "EVERY", number) for owner in (transport, tuning)]


EVERYWHERE: dict[str, Callable[[], Patches]] = {
    "level move": changed(default, can_follow=lambda target: False),
    "jump of the level move": changed(
        level.Level, step_free=lambda self, rng, size: _walk_free(self, rng, size)
    ),
    "steps of innovations": changed(records.BlockSweep, _most_are_refused=lambda *_: False),
    "steps that are short": no_near,
    "blocks of records": changed(
        records.BlockSweep, freeze=lambda self, target, state, tuning: tuning.update(size=1)
    ),
    "search for a start": changed(transport.Transport, find_start=lambda *_: None),
    "prior jump": without(lambda p: not p.needs_v),
    "walk given u": without(lambda p: isinstance(p, proposals.Walk) and p.given_u),
    "walk": without(lambda p: isinstance(p, proposals.Walk) and not p.given_u),
    "jump": without(lambda p: isinstance(p, proposals.Jump)),
    "jumps to where the prior is": changed(proposals, PRIOR_SHARE=1e-9),
    "jumps of one parameter": changed(proposals, PART_SHARE=0.0),
    "learned formula": without(lambda p: isinstance(p, learned.LearnedJump)),
    "POINTS 12": changed(learned, POINTS=12),
    "POINTS 50": changed(learned, POINTS=50),
    "APART 0.05": changed(learned, APART=0.05),
    "APART 1": changed(learned, APART=1.0),
    "DIFFERENCE 0.1": changed(geometry, DIFFERENCE=0.1),
    "DIFFERENCE 1": changed(geometry, DIFFERENCE=1.0),
    "spread of walks": no_spread,
    "shares of walks and prior": changed(tuning, _share=lambda *_: None),
    "rounds of Interweave": changed(interweave, MOST_CYCLES=1),
    "more rounds with many records": changed(interweave, LONGEST=1.0),
    "what warm-up shows of slowness": changed(transport, slowness=lambda history, expected: 1.0),
    "antithetic draws": no_images,
    "draws afresh": changed(transport, fresh_proposals=lambda *_: []),
    "EVERY 4": every(4),
    "EVERY 64": every(64),
    "mirror images": changed(default, mirror_images=lambda target: []),
    "scaling": changed(scale.ScaleMove, step=lambda *_: (math.nan,), learn=lambda *_: None),
    "moves of groups": changed(Target, _find_levels=lambda self: None),
    "ENOUGH half": enough(0.5),
    "ENOUGH twice": enough(2.0),
    "MOST_COST half": changed(transport, MOST_COST={True: 4.5, False: 1.5}),
    "MOST_COST twice": changed(transport, MOST_COST={True: 18.0, False: 6.0}),
    "FIRST_WINDOW 128": changed(transport, FIRST_WINDOW=128),
    "LARGEST_BLOCK 6": changed(transport, LARGEST_BLOCK=6),
    "CALL 500": changed(tuning, CALL=500.0),
    "CALL 4500": changed(tuning, CALL=4500.0),
    "what models say of their work": changed(Target, work=PLAIN_WORK),
}
WITH_FORMULA: dict[str, Callable[[], Patches]] = {
    "formula": changed(Target, formula=lambda self: None),
    "softer noise": changed(exploring.ExploringJump, softer=1.0),
    "STEPS 32": changed(exploring, STEPS=32),
    "STEPS 128": changed(exploring, STEPS=128),
}
SOLVABLE: dict[str, Callable[[], Patches]] = {
    "walk in the total": changed(RegressionFormula, solvable=False),
}
CARRIED: dict[str, Callable[[], Patches]] = {
    "BLOCKS 1": changed(count_transport, BLOCKS=1),
    "BLOCKS 4": changed(count_transport, BLOCKS=4),
    "transport of counts": changed(
        CountTransport, step=lambda *_: (math.nan,), learn=lambda *_: None
    ),
    "ROUNDS 2": changed(count_transport, ROUNDS=2),
    "ROUNDS 8": changed(count_transport, ROUNDS=8),
}


COUNTED: dict[str, Callable[[], Patches]] = {
    "SELDOM 1/8": changed(move, SELDOM=1 / 8),
    "SELDOM 1": changed(move, SELDOM=1.0),
    "LEAST_SHARE 0": changed(move, LEAST_SHARE=0.0),
    "LEAST_SHARE 0.5": changed(move, LEAST_SHARE=0.5),
    "half the steps of counts": changed(
        move, STEPS_PER_CELL=2.0, STEPS_PER_PAIR=2.0, LEAST_PER_CELL=0.25
    ),
    "twice the steps of counts": changed(
        move, STEPS_PER_CELL=8.0, STEPS_PER_PAIR=8.0, LEAST_PER_CELL=1.0
    ),
}


def learns(target: Target) -> bool:
    return target.formula() is None and learned.can_learn(target)


NEEDS: dict[str, Callable[[Target], Any]] = {
    **dict.fromkeys(("learned formula", "POINTS 12", "POINTS 50", "APART 0.05", "APART 1"), learns),
    "level move": level.can_follow,
    "jump of the level move": level.can_follow,
    "mirror images": default.mirror_images,
    "scaling": lambda target: target.abilities.scale_records is not None,
    "moves of groups": lambda target: target.levels is not None,
    "what models say of their work": lambda target: target.work != PLAIN_WORK,
}
"""The property of the target that a part needs to play a role."""


def parts_of(name: str) -> dict[str, Callable[[], Patches]]:
    """Return the parts that play a role for a model."""
    model, release, _ = release_of(name, 100, 1.0, 1)
    target = default.make_target(model, release)
    if target.on_counts:
        return COUNTED if target.integrated else COUNTED | CARRIED
    parts = {
        part: patches
        for part, patches in EVERYWHERE.items()
        if part not in NEEDS or NEEDS[part](target)
    }
    if target.formula() is not None:
        parts |= WITH_FORMULA
    if name == "unknown":
        parts |= SOLVABLE
    return parts


def release_of(name: str, n: int, epsilon: float, seed: int) -> tuple[Any, Any, str | None]:
    """Return a model, a release of it, and the parameter of interest, or None for all."""
    if name in MODELS:
        return subject(name, n, epsilon, seed)
    model, query, theta = models.sized(name, n)
    rng = np.random.default_rng([seed, round(10 * epsilon)])
    values = {key: np.asarray(value, dtype=np.float64) for key, value in theta.items()}
    records = model.sample_records(values, n, rng)
    return model, na.mechanisms.Laplace(query, epsilon=epsilon).privatize(records, rng), None


def run(options: Namespace) -> None:
    now = code()
    path = options.out / "ablation-runs.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    columns = ("model", "n", "epsilon", "seed", "part")
    done = {tuple(row[column] for column in columns) for row in _rows(path, now)}
    settings = [(name, epsilon) for epsilon in options.epsilons or EPSILONS for name in MODELS]
    settings += [(name, 1.0) for name in models.EXAMPLES if name not in models.IN_MIXING]
    for n in options.sizes or (SIZES[:1] if options.quick else SIZES):
        for seed in range(1, (options.releases or 1) + 1):
            for name, epsilon in settings[:3] if options.quick else settings:
                if options.models and name not in options.models:
                    continue
                parts = {
                    part: patches
                    for part, patches in parts_of(name).items()
                    if part in (options.parts or (part,))
                    and (name, n, epsilon, seed, part) not in done
                }
                if parts:
                    _take_turns(path, now, name, n, epsilon, seed, parts)
    show(options, _rows(path, now))


def _rows(path: Path, now: str) -> list[dict[str, Any]]:
    return [row for row in tables.read(path) if row["code"] == now]


def _take_turns(
    path: Path,
    now: str,
    name: str,
    n: int,
    epsilon: float,
    seed: int,
    parts: dict[str, Callable[[], Patches]],
) -> None:
    """Measure the whole sampler and some parts on one release; write each run."""
    model, release, interest = release_of(name, n, epsilon, seed)
    _sample(model, release, seed, warmup=40, draws=2)  # compiles
    turns: list[tuple[str, Callable[[], Patches]]] = []
    for k, part in enumerate(parts.items()):
        turns += [(WHOLE, list)] if k % TURN == 0 else []
        turns.append(part)
    for turn, (part, patches) in enumerate(turns):
        with ExitStack() as stack:
            for patch in patches():
                stack.enter_context(patch)
            began = time.process_time()
            posterior = _sample(model, release, seed + (100 * turn if part == WHOLE else 0))
            seconds = time.process_time() - began
        found = posterior["posterior"]
        names = [interest] if interest else list(found.data_vars)
        ess = min(measure.smallest_ess(found[name].to_numpy()) for name in names)
        row = {"model": name, "n": n, "epsilon": epsilon, "seed": seed, "part": part}
        tables.append(path, {"code": now, **row, "ess": ess, "cpu": seconds})


def _sample(model: Any, release: Any, seed: int, warmup: int = 500, draws: int = 500) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return na.sample(
            model,
            release,
            chains=2,
            warmup=warmup,
            draws=draws,
            cores=1,
            random_seed=seed,
            progressbar=False,
        )


def show(options: Namespace, runs: list[dict[str, Any]]) -> None:
    rates: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    plays: dict[Any, set[str]] = defaultdict(set)
    first: dict[Any, float] = {}
    for row in runs:
        setting = f"{row['model']}, n = {row['n']:,.0f}, epsilon = {row['epsilon']:g}"
        rates[setting][row["part"]].append(row["ess"] / row["cpu"])
        # The first turn of the whole sampler has the parts' seed and is the first on file.
        if row["ess"] != first.setdefault((setting, row["seed"]), row["ess"]):
            plays[setting].add(row["part"])
    table = []
    for part in dict.fromkeys(row["part"] for row in runs if row["part"] != WHOLE):
        ratios = {
            setting: median(parts[part]) / median(parts[WHOLE])
            for setting, parts in rates.items()
            if part in plays[setting]
        }
        lowest = min(ratios, key=ratios.__getitem__, default="")
        table.append(
            {
                "without": part,
                "settings": sum(part in parts for parts in rates.values()),
                "plays a role": len(ratios),
                "mean": math.exp(fmean(map(math.log, ratios.values()))) if ratios else math.nan,
                "lowest": ratios.get(lowest, math.nan),
                "where": lowest,
            }
        )
    tables.show(
        "Effective draws per second without a part, as a ratio to the whole sampler",
        {"without": "", "settings": "d", "plays a role": "d", "mean": ".2f", "lowest": ".2f",
         "where": ""},
        table,
    )  # fmt: skip
    tables.write(options.out / "ablation.csv", table)
