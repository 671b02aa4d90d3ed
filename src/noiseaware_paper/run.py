"""Everything in one call, which can be stopped and continued."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware import study
from noiseaware.basics.arguments import whole_number
from noiseaware.basics.files import write_whole
from noiseaware.studies import Advance, Lines, Sampler, Study, bar, run_tasks
from noiseaware_paper import contents, figures, imputed, published, tables
from noiseaware_paper.imputed import imputed_task
from noiseaware_paper.limits import limit_task
from noiseaware_paper.page import markdown, page
from noiseaware_paper.run_time import run_time_task
from noiseaware_paper.settings import SIZES, Experiment, Size, experiments

SEED = 20220601
PAGE = "reproduced.html"


def reproduce(
    out: str | Path = "reproduced",
    *,
    replicates: int | None = None,
    size: str = "full",
    cores: int | None = None,
    random_seed: int = SEED,
    progressbar: bool = True,
) -> Path:
    """Rerun the paper's experiments and write figures, tables and a page.

    Parameters
    ----------
    out : path
        A directory for the output and for finished work, from which a stopped run continues.
    replicates : int, optional
        Releases for each epsilon in each study; 100 in a full run, as in the paper.
    size : str
        "full", "quick" (a faithful small version) or "smallest" (for tests).
    cores : int, optional
        Worker processes; None takes all cores.
    random_seed : int
        The same seed gives the same numbers (except times), on any number of cores.
    progressbar : bool
        Show one bar for the whole run, with the time left.

    Returns
    -------
    Path
        The page, `reproduced.html`.
    """
    if size not in SIZES:
        raise ValueError(f"size must be one of {', '.join(SIZES)}; got {size!r}")
    chosen = SIZES[size]
    if replicates is not None:
        chosen = replace(chosen, replicates=whole_number("replicates", replicates))
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    cores = (os.cpu_count() or 1) if cores is None else whole_number("cores", cores)
    began = time.perf_counter()
    with bar("reproducing the paper", _work(chosen), progressbar) as advance:
        results = {
            experiment.name: _run(experiment, chosen, out, cores, random_seed, advance)
            for experiment in experiments()
        }
    written = _write(results, chosen, out)
    took = time.perf_counter() - began
    made = (
        contents.TITLE,
        contents.opening(chosen),
        contents.sections(results, written, chosen, out / "figures"),
        contents.foot(chosen, random_seed, took, cores),
    )
    path = out / PAGE
    for file, text in ((path, page(*made)), (path.with_suffix(".md"), markdown(*made))):
        write_whole(file, functools.partial(Path.write_text, data=text, encoding="utf-8"))
    return path


def _seconds(experiment: Experiment, size: Size) -> dict[str, float]:
    """Return roughly how many seconds each task takes, to estimate the time left."""
    heavy = 1.4 if experiment.name == "naive_bayes" else 1.0

    def chain(sampler: Sampler, each: float = 2.5e-4) -> float:
        return each * heavy * (sampler.warmup + sampler.draws) * sampler.chains

    return {
        "study": chain(size.samplers["algorithm1"], 4e-5) + chain(size.samplers["default"]),
        "limit": chain(size.limit_samplers[experiment.name]),
        "imputed": chain(size.imputed_sampler),
        "run_time": size.run_time_seconds,
    }


def _pieces(size: Size) -> dict[str, tuple[int, ...]]:
    """Return the number of tasks of each kind, along the axes of their keys."""
    return {
        "study": (2, size.replicates, len(published.EPSILONS)),
        "limit": (len(size.limit_epsilons), size.limit_releases),
        "imputed": (size.imputed,),
        "run_time": (len(size.run_time_records), len(size.samplers)),
    }


def _work(size: Size) -> float:
    return sum(
        seconds * math.prod(_pieces(size)[name])
        for experiment in experiments()
        for name, seconds in _seconds(experiment, size).items()
    )


def _run(
    experiment: Experiment, size: Size, out: Path, cores: int, seed: int, advance: Advance
) -> dict[str, Any]:
    folder = out / "checkpoint" / size.name / experiment.name
    seconds = _seconds(experiment, size)

    def advanced(name: str) -> Advance:
        return lambda count: advance(count * seconds[name])

    results: dict[str, Any] = {
        "experiment": experiment,
        **_studies(experiment, size, folder, cores, seed, advanced("study")),
    }
    limit, other = size.limit_samplers[experiment.name], size.imputed_sampler
    tasks: dict[str, tuple[Callable[..., Any], Sampler]] = {
        "limit": (limit_task, limit),
        "imputed": (imputed_task, other),
        "run_time": (run_time_task, other),
    }
    for name, (task, sampler) in tasks.items():
        header = {"task": name, "experiment": experiment.name, "seed": seed}
        results[name] = run_tasks(
            functools.partial(task, experiment, size, seed),
            list(np.ndindex(_pieces(size)[name])),
            Lines(folder / f"{name}.jsonl", {**header, "sampler": repr(sampler)}),
            1 if name == "run_time" else cores,  # times are measured with nothing else running
            advanced(name),
        )
    return results


def _studies(
    experiment: Experiment, size: Size, folder: Path, cores: int, seed: int, advance: Advance
) -> dict[str, Study]:
    """Run the two studies of a model, with the published protocol and the default sampler.

    *Means* (Figures 1a, 1b and 2, and the supplement's acceptance): many releases of one fixed
    database. *Coverage* (Tables 1 and 2): fixed parameters, a new database and release in every
    replicate.
    """
    run = functools.partial(
        study,
        experiment.model,
        experiment.mechanism,
        epsilons=published.EPSILONS,
        true_parameters=experiment.true_parameters,
        replicates=size.replicates,
        interval=published.INTERVAL,
        samplers=size.samplers,
        parameters=[experiment.parameter],
        cores=cores,
        progressbar=advance,
    )
    means = run(records=experiment.database(), random_seed=seed, checkpoint=folder / "means")
    coverage = run(
        n_records=published.N_RECORDS, random_seed=seed + 1, checkpoint=folder / "coverage"
    )
    return {"means": means, "coverage": coverage}


def _write(results: dict[str, Any], size: Size, out: Path) -> dict[str, Any]:
    written: dict[str, Any] = {}
    drawn: dict[str, Any] = {}
    ranks: dict[str, np.ndarray] = {}
    for name, result in results.items():
        experiment, means = result["experiment"], result["means"]
        coverage = tables.coverage_table(experiment, result["coverage"])
        written |= {
            f"{name}_coverage": coverage,
            f"{name}_coverage_chains": tables.replicates_table(experiment, result["coverage"]),
            f"{name}_means_chains": tables.replicates_table(experiment, means),
            f"{name}_acceptance": tables.acceptance_table(means),
            f"{name}_limits": tables.limits_table(result["limit"]),
            f"{name}_run_time": tables.run_time_table(size, result["run_time"]),
            f"{name}_imputed": tables.imputed_table(experiment, size, result["imputed"]),
        }
        drawn |= {
            f"{name}_means": figures.means_figure(experiment, means),
            f"{name}_acceptance": figures.acceptance_figure(means),
            f"{name}_coverage": figures.coverage_figure(experiment, coverage, published.INTERVAL),
        }
        columns = np.array([row["ranks"] for row in result["imputed"].values()]).T
        ranks |= dict(zip(imputed.STATISTICS[name], columns, strict=True))
    titles = {name: result["experiment"].title for name, result in results.items()}
    drawn |= {
        "limits": figures.limits_figure({t: written[f"{n}_limits"] for n, t in titles.items()}),
        "run_time": figures.run_time_figure(
            {t: written[f"{n}_run_time"] for n, t in titles.items()}
        ),
        "imputed": figures.ranks_figure(ranks, size.databases),
    }
    for name, figure in drawn.items():
        figures.write_figure(figure, out / "figures" / name)
    (out / "tables").mkdir(exist_ok=True)
    for name, table in written.items():
        write_whole(out / "tables" / f"{name}.csv", functools.partial(table.to_csv, index=False))
    return written
