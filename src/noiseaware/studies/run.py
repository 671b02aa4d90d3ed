"""The call `study`, its arguments and its checkpoint."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware.agreement.fit import check_fit
from noiseaware.basics.arguments import check_memory, seed_number, whole_number
from noiseaware.basics.deprecated import warn
from noiseaware.contract import Model, draw_records, mechanism_abilities, model_abilities
from noiseaware.maths.coordinates import check_theta
from noiseaware.running.checkpoint import LONG, digest, identity, words_of
from noiseaware.running.run import prepare
from noiseaware.studies.replicate import (
    Plan,
    all_keys,
    read_baselines,
    read_samplers,
    row_of,
    simulate,
)
from noiseaware.studies.result import Study
from noiseaware.studies.tasks import Advance, Lines, bar, run_tasks

FORMAT = "noiseaware-study"
VERSION = 1
FILE = "replicates.jsonl"
"""The name of a checkpoint's file."""

SECONDS_PER_UPDATE = 1e-6
"""A rough upper bound on the cost of one record update, to decide whether to start workers."""


def study(
    model: Model,
    mechanism: Any,
    *,
    epsilons: Sequence[float] | None = None,
    n_records: int | Sequence[int] | None = None,
    true_parameters: Mapping[str, Any] | None = None,
    records: Any = None,
    replicates: int = 100,
    interval: float = 0.9,
    samplers: Any = ("default",),
    baselines: Sequence[str] = (),
    parameters: Sequence[str] | None = None,
    random_seed: int | None = None,
    cores: int | None = None,
    progressbar: bool | Advance = True,
    checkpoint: str | Path | None = None,
    comparators: Sequence[str] | None = None,
) -> Study:
    """Simulate many releases and measure how well analyses of them do.

    Parameters
    ----------
    model
        The model that generates the records and that the analysis uses.
    mechanism
        The mechanism that makes the release, or a function of epsilon that returns one.
    epsilons : sequence of float, optional
        The values of epsilon, if `mechanism` is a function.
    n_records : int or sequence of int
        The numbers of records.
    true_parameters : mapping, optional
        The parameters that generate the records. None draws them from the prior in every
        replicate; exact intervals then have their nominal coverage.
    records : array_like, optional
        One confidential database for all replicates, so that only the noise of the release
        varies. Coverage is then known only if `true_parameters` are given too.
    replicates : int
        Simulated releases for each epsilon and number of records.
    interval : float
        The probability of the equal-tailed intervals.
    samplers : sequence of str, or mapping of str to Sampler
        "default", "algorithm1" (the paper's protocol: 10,000 iterations, half of them dropped), or
        samplers of your own by name.
    baselines : sequence of str
        Other analyses of the same releases: "naive", "non-private", "bootstrap",
        "debiased-bootstrap"; see `noiseaware.baselines`.
    parameters : sequence of str, optional
        The parameters to report; None reports all.
    random_seed : int, optional
        The same seed gives the same study, on any number of cores.
    cores : int, optional
        Worker processes; None takes one per core, or only one if the work is short.
    progressbar : bool or callable
        Show a bar with the time left; or a function to call instead, with the number of replicates
        just finished.
    checkpoint : path, optional
        A directory for finished replicates. A stopped study continues from it when called again,
        also with more replicates.
    comparators : sequence of str, optional
        The old name of `baselines`, to be removed in 0.3.

    Returns
    -------
    Study
        With `table` (a row for each epsilon, number of records, method and scalar), `tree` (all
        replicates, as a DataTree) and `rerun` (to rerun one replicate).

    Examples
    --------
    >>> import noiseaware as na
    >>> query = na.queries.Count()
    >>> done = na.study(
    ...     na.models.Bernoulli(),
    ...     lambda epsilon: na.mechanisms.Laplace(query, epsilon=epsilon),
    ...     epsilons=[0.5, 5.0],
    ...     n_records=50,
    ...     replicates=3,
    ...     baselines=["naive"],
    ...     random_seed=1,
    ...     progressbar=False,
    ... )
    >>> list(done.table["method"])
    ['default', 'naive', 'default', 'naive']
    """
    replicates = whole_number("replicates", replicates)
    if comparators is not None:
        warn("comparators= of study", "baselines=")
        baselines = comparators
    if cores is not None:
        cores = whole_number("cores", cores)
    plan = make_plan(
        model,
        mechanism,
        epsilons=epsilons,
        n_records=n_records,
        true_parameters=true_parameters,
        records=records,
        interval=interval,
        samplers=samplers,
        baselines=baselines,
        parameters=parameters,
        random_seed=_seed(random_seed, checkpoint),
    )
    total = replicates * len(plan.epsilons) * len(plan.n_records)
    with bar("replicates", total, progressbar) as advance:
        return run_plan(plan, replicates, cores, advance, checkpoint)


def run_plan(
    plan: Plan,
    replicates: int,
    cores: int | None,
    advance: Advance,
    checkpoint: str | Path | None = None,
) -> Study:
    """Run the replicates of a plan that are not done yet."""
    path = None if checkpoint is None else Path(checkpoint) / FILE
    keys = all_keys(plan, replicates)
    lines = Lines(path, description(plan))
    cores = _cores(plan, len(keys)) if cores is None else cores
    try:
        rows = run_tasks(functools.partial(row_of, plan), keys, lines, cores, advance)
    except KeyboardInterrupt:
        kept = "nothing is kept without a checkpoint"
        if checkpoint is not None:
            kept = f"what is done is in {checkpoint}, and the same call continues from there"
        raise KeyboardInterrupt(
            f"stopped after {len(lines.done)} of {len(keys)} replicates; {kept}"
        ) from None
    return Study(plan, replicates, rows)


def make_plan(
    model: Model,
    mechanism: Any,
    *,
    epsilons: Sequence[float] | None = None,
    n_records: int | Sequence[int] | None = None,
    true_parameters: Mapping[str, Any] | None = None,
    records: Any = None,
    interval: float = 0.9,
    samplers: Any = ("default",),
    baselines: Any = (),
    parameters: Sequence[str] | None = None,
    random_seed: int | None = None,
) -> Plan:
    """Check the arguments of a study, and simulate its first release as a test."""
    number = isinstance(interval, int | float | np.number) and not isinstance(interval, bool)
    if not number or not 0.0 < interval < 1.0:
        raise ValueError(f"interval must be between 0 and 1; got {interval!r}")
    epsilons, mechanisms = _mechanisms(mechanism, epsilons)
    records, sizes = _records(records, n_records)
    known = [p.name for p in model_abilities(model).shown]
    names = tuple(known if parameters is None else parameters)
    for name in names:
        if name not in known:
            raise ValueError(f"parameters must be among {', '.join(known)}; got {name!r}")
    if true_parameters is not None:
        own = tuple(model.parameters)
        true_parameters = check_theta("true_parameters", dict(true_parameters), own)
    chosen, others = read_samplers(samplers), read_baselines(baselines)
    if not chosen and not others:
        raise ValueError("samplers and baselines are both empty: there is nothing to study")
    made = (mechanisms, epsilons, sizes, true_parameters, records)
    seed = int(np.random.SeedSequence(random_seed).entropy)  # type: ignore[arg-type]
    plan = Plan(model, *made, float(interval), chosen, others, names, seed)
    if records is None:
        rng = np.random.default_rng(0)
        one = draw_records(model, model.sample_prior(rng), np.arange(1), rng)
        most = max(sizes, default=0)
        check_memory(f"{most} records", most * (one.nbytes + 8))  # they are numbered
    _, _, release = simulate(plan, (0, 0, 0))
    check_fit(model, release)
    for sampler in chosen.values():
        prepare(model, release, sampler.moves)
    return plan


def _records(records: Any, n_records: int | Sequence[int] | None) -> tuple[Any, tuple[int, ...]]:
    """Return the one database, if given, and the numbers of records."""
    if records is not None:
        if n_records is not None:
            raise ValueError("give records or n_records, not both")
        records = np.ascontiguousarray(records)
        return records, (len(records),)
    if n_records is None:
        raise ValueError("n_records must be given: how many records a release is about")
    sizes: Any = (n_records,) if np.ndim(n_records) == 0 else n_records
    return None, tuple(whole_number("n_records", n) for n in sizes)


def _mechanisms(
    mechanism: Any, epsilons: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    able = mechanism_abilities(mechanism)
    if able.privatize is not None and not isinstance(mechanism, type):
        if epsilons is not None:
            raise ValueError(
                "epsilons need a function of epsilon that returns a mechanism, such as "
                "lambda epsilon: na.mechanisms.Laplace(query, epsilon=epsilon); got a mechanism"
            )
        found = able.change_epsilon
        return (float("nan") if found is None else float(found),), (mechanism,)
    if not callable(mechanism):
        wanted = "a mechanism or a function of epsilon"
        raise TypeError(f"mechanism must be {wanted}; got {mechanism!r}")
    if epsilons is None or np.ndim(epsilons) != 1 or not len(epsilons):
        raise ValueError(f"epsilons must be a list of numbers for the function; got {epsilons!r}")
    values = tuple(float(epsilon) for epsilon in epsilons)
    made = tuple(mechanism(epsilon) for epsilon in values)
    for one in made:
        if mechanism_abilities(one).privatize is None:
            raise TypeError(f"mechanism must return a mechanism; it returned {one!r}")
    return values, made


def description(plan: Plan) -> dict[str, Any]:
    """Return what a checkpoint must match, as JSON. The number of replicates may grow."""
    true, records = plan.true_parameters, plan.records

    def told(thing: Any) -> Any:
        found = identity(thing)
        return found if len(json.dumps(found)) <= LONG else f"{words_of(thing)} {digest(found)}"

    return {
        "format": FORMAT,
        "version": VERSION,
        "model": told(plan.model),
        "mechanisms": [told(mechanism) for mechanism in plan.mechanisms],
        "epsilons": [str(epsilon) for epsilon in plan.epsilons],
        "n_records": list(plan.n_records),
        "true_parameters": true and {k: np.asarray(value).tolist() for k, value in true.items()},
        "records": None if records is None else hashlib.sha256(records.tobytes()).hexdigest(),
        "interval": plan.interval,
        "samplers": {name: words_of(sampler) for name, sampler in plan.samplers.items()},
        "comparators": list(plan.baselines),  # as 0.1.0 called them
        "parameters": list(plan.names),
        "seed": str(plan.entropy),
    }


def _seed(random_seed: int | None, checkpoint: str | Path | None) -> int | None:
    if random_seed is not None or checkpoint is None:
        return seed_number(random_seed)
    try:
        with (Path(checkpoint) / FILE).open(encoding="utf-8") as file:
            return int(json.loads(file.readline())["seed"])
    except (FileNotFoundError, NotADirectoryError, KeyError, TypeError, ValueError):
        return None


def _cores(plan: Plan, replicates: int) -> int:
    """Return the number of worker processes: one if the work takes only seconds."""
    iterations = sum((s.warmup + s.draws) * s.chains for s in plan.samplers.values())
    updates = replicates * iterations * max(100.0, float(np.mean(plan.n_records)))
    return 1 if SECONDS_PER_UPDATE * updates < 10.0 else (os.cpu_count() or 1)
