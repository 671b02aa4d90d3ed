"""All of it in one call, which goes on where it was stopped."""

from __future__ import annotations

import functools
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware.arguments import whole_number
from noiseaware.reproduce import figures, imputed, published, tables, verdicts
from noiseaware.reproduce.experiments import coverage_plan, means_plan
from noiseaware.reproduce.imputed import imputed_task
from noiseaware.reproduce.limits import limit_task
from noiseaware.reproduce.page import Section, markdown, page
from noiseaware.reproduce.run_time import run_time_task
from noiseaware.reproduce.settings import SIZES, Experiment, Size, experiments
from noiseaware.studies.progress import bar
from noiseaware.studies.result import Study
from noiseaware.studies.run import run_plan
from noiseaware.studies.tasks import Lines, run_tasks

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
    """Run the paper's experiments again and write figures, tables and a page.

    Parameters
    ----------
    out : path
        A directory. What is done is kept in it, so that a run that was stopped goes on.
    replicates : int, optional
        Releases for each epsilon in each study; 100 in a full run, as in the paper.
    size : str
        "full", "quick" (a faithful small version) or "smallest" (for tests).
    cores : int, optional
        Worker processes; all of the machine's if None.
    random_seed : int
        Same seed, same numbers (but for times), for any number of cores.
    progressbar : bool
        Show a bar over the whole, with the time left.

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
    with bar("reproducing the paper", _work(chosen), progressbar) as on_done:
        results = {
            experiment.name: _run(experiment, chosen, out, cores, random_seed, on_done)
            for experiment in experiments()
        }
    written = _write(results, chosen, out)
    took = time.perf_counter() - began
    content = _content(results, written, chosen, out, took, random_seed, cores)
    path = out / PAGE
    path.write_text(page(*content), encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(*content), encoding="utf-8")
    return path


# What is run, with about how many seconds each piece takes (for the time left only)


def _seconds(experiment: Experiment, size: Size) -> dict[str, float]:
    heavy = 1.4 if experiment.name == "naive_bayes" else 1.0

    def chain(sampler: Any, each: float) -> float:
        return each * (sampler.warmup + sampler.draws) * sampler.chains

    default = 2.5e-4 * heavy
    both = chain(size.samplers["algorithm1"], 4e-5 * heavy) + chain(
        size.samplers["default"], default
    )
    return {
        "study": both,
        "limit": chain(size.limit_samplers[experiment.name], default),
        "imputed": chain(size.imputed_sampler, default),
        "run_time": size.run_time_seconds,
    }


def _pieces(size: Size) -> dict[str, int]:
    return {
        "study": 2 * size.replicates * len(published.EPSILONS),
        "limit": len(size.limit_epsilons) * size.limit_releases,
        "imputed": size.imputed,
        "run_time": len(size.run_time_records) * len(size.samplers),
    }


def _work(size: Size) -> float:
    pieces = _pieces(size)
    return sum(
        seconds * pieces[name]
        for experiment in experiments()
        for name, seconds in _seconds(experiment, size).items()
    )


def _run(
    experiment: Experiment,
    size: Size,
    out: Path,
    cores: int,
    seed: int,
    on_done: Callable[[float], None],
) -> dict[str, Any]:
    """Run everything about one model; return studies and rows by name."""
    folder = out / "checkpoint" / size.name / experiment.name
    seconds = _seconds(experiment, size)

    def moved(name: str) -> Callable[[float], None]:
        return lambda count: on_done(count * seconds[name])

    results: dict[str, Any] = {"experiment": experiment}
    for name, make in (("means", means_plan), ("coverage", coverage_plan)):
        results[name] = run_plan(
            make(experiment, size, seed),
            size.replicates,
            cores=cores,
            on_done=moved("study"),
            checkpoint=folder / name,
        )
    tasks: dict[str, tuple[Any, list[tuple[int, ...]], int]] = {
        "limit": (
            limit_task,
            [(i, r) for i in range(len(size.limit_epsilons)) for r in range(size.limit_releases)],
            cores,
        ),
        "imputed": (imputed_task, [(r,) for r in range(size.imputed)], cores),
        # Times are measured alone.
        "run_time": (
            run_time_task,
            [(i, m) for i in range(len(size.run_time_records)) for m in range(len(size.samplers))],
            1,
        ),
    }
    for name, (task, keys, workers) in tasks.items():
        limit = size.limit_samplers[experiment.name]
        sampler = limit if name == "limit" else size.imputed_sampler
        header = {
            "task": name,
            "experiment": experiment.name,
            "seed": seed,
            "sampler": repr(sampler),
        }
        results[name] = run_tasks(
            functools.partial(task, experiment, size, seed),
            keys,
            Lines(folder / f"{name}.jsonl", header),
            workers,
            moved(name),
        )
    return results


# What is written


def _write(results: dict[str, Any], size: Size, out: Path) -> dict[str, Any]:
    """Write figures and tables; return the tables by name."""
    written: dict[str, Any] = {}
    ranks: dict[str, np.ndarray] = {}
    for name, result in results.items():
        experiment: Experiment = result["experiment"]
        means: Study = result["means"]
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
        drawn = {
            "means": figures.means_figure(experiment, means),
            "acceptance": figures.acceptance_figure(means),
            "coverage": figures.coverage_figure(experiment, coverage, published.INTERVAL),
        }
        for kind, figure in drawn.items():
            figures.write_figure(figure, out / "figures" / f"{name}_{kind}")
        columns = np.array([row["ranks"] for row in result["imputed"].values()]).T
        for words, column in zip(imputed.STATISTICS[name], columns, strict=True):
            ranks[words] = column
    titles = {name: result["experiment"].title for name, result in results.items()}
    both = {
        "limits": figures.limits_figure({t: written[f"{n}_limits"] for n, t in titles.items()}),
        "run_time": figures.run_time_figure(
            {t: written[f"{n}_run_time"] for n, t in titles.items()}
        ),
        "imputed": figures.ranks_figure(ranks, size.databases),
    }
    for kind, figure in both.items():
        figures.write_figure(figure, out / "figures" / kind)
    (out / "tables").mkdir(exist_ok=True)
    for name, table in written.items():
        table.to_csv(out / "tables" / f"{name}.csv", index=False)
    return written


def _content(
    results: dict[str, Any],
    written: dict[str, Any],
    size: Size,
    out: Path,
    took: float,
    seed: int,
    cores: int,
) -> tuple[str, list[str], list[Section], str]:
    """Return title, opening words, sections and last words of the page."""
    import noiseaware

    default = size.samplers["default"]

    figure = out / "figures"
    sections = [_summary(results, written, size)]
    numbers = {
        "naive_bayes": ("Figure 1a", "Figure 1b", "Table 1"),
        "regression": ("Figure 2", "Acceptance, supplement", "Table 2"),
    }
    for name, result in results.items():
        experiment: Experiment = result["experiment"]
        means_title, acceptance_title, coverage_title = numbers[name]
        section = Section(experiment.title)
        section.figure(
            figure / f"{name}_means",
            f"{means_title}: posterior means of {size.replicates} releases of one database at each "
            "epsilon, by both samplers",
        )
        section.words(verdicts.means_words(experiment, result["means"]))
        section.figure(
            figure / f"{name}_acceptance",
            f"{acceptance_title}: acceptance of each chain, average and lowest, and the bound",
        )
        section.words(
            verdicts.acceptance_words(result["means"]),
            "The paper's lowest acceptance of a chain may be read in two ways, so both are here: "
            "the lowest share of proposals accepted in one sweep through the records, and the "
            "lowest probability with which a proposal was to be accepted. The bound is about the "
            "latter. The default sampler may propose many records as one block, all of them "
            "accepted or none, so that its lowest share says nothing and is not drawn; its "
            "probabilities are those of changing one record.",
        )
        section.table(written[f"{name}_acceptance"], f"{acceptance_title} in numbers")
        section.figure(
            figure / f"{name}_coverage",
            f"{coverage_title}: coverage of 90% intervals, with binomial standard errors",
        )
        section.table(
            tables.shown_coverage(written[f"{name}_coverage"]),
            f"{coverage_title}, published and measured; bold where Algorithm 1 is 3 standard "
            "errors or more from the printed number",
            apart="z from published",
        )
        sections.append(section)
    sections.append(_without_showing(results, written, figure))
    return (
        "Data augmentation MCMC for private data: the paper's experiments, run again",
        [
            "Ju, Awan, Gong and Rao (2022), Data augmentation MCMC for Bayesian inference from "
            "privatized data, arXiv:2206.00710. Everything on this page was computed by one "
            "command, noiseaware reproduce"
            + ("" if size.name == "full" else f" --{size.name}")
            + "; the tables are CSV files beside it.",
            "Algorithm 1 is the paper's sampler with its protocol: one chain of 10,000 iterations "
            "of which 5,000 are dropped. The default sampler of noiseaware draws from the same "
            f"posterior and mixes better ({default.draws:,} draws after {default.warmup:,} "
            "iterations of warm-up here).",
        ],
        sections,
        f"noiseaware {noiseaware.__version__}, Python {platform.python_version()}, seed {seed}, "
        f"{size.replicates} replicates, size {size.name}; this call took {took:.0f} seconds "
        f"(less than the whole if it went on from an earlier one) "
        f"on {cores} core{'s' if cores > 1 else ''}.",
    )


def _summary(results, written, size: Size) -> Section:
    section = Section("What agrees, and what does not")
    points = []
    for name, symbol in (("naive_bayes", "p_4"), ("regression", "beta_1")):
        points.append(
            f"{results[name]['experiment'].title}, coverage. "
            + verdicts.one_line(symbol, written[f"{name}_coverage"])
        )
        points += verdicts.coverage_words(
            results[name]["experiment"], written[f"{name}_coverage"], size
        )
    points += [
        f"{result['experiment'].title}, acceptance. {verdicts.acceptance_words(result['means'])}"
        for result in results.values()
    ]
    seconds = [
        f"{results[name]['coverage']['seconds'][..., m].mean():.2g} seconds "
        f"({published.SECONDS_A_CHAIN[name]:.0f} in the paper) for {words}"
        for name, words in (("regression", "the regression"), ("naive_bayes", "naive Bayes"))
        for m in [results[name]["coverage"].plan.methods.index("algorithm1")]
    ]
    points.append(f"A chain of Algorithm 1 took {' and '.join(seconds)}, of processor time.")
    section.listed(points)
    return section


def _without_showing(results, written, figure: Path) -> Section:
    section = Section("What the paper says without showing it")
    names = {name: result["experiment"].title for name, result in results.items()}
    section.words(
        "As epsilon shrinks the posterior tends to the prior; as it grows, to the posterior given "
        "the clamped data. (Exactly: given the sums of the clamped data, which say a little less "
        "than the clamped records where clamping bites.)"
    )
    section.figure(
        figure / "limits", "Kolmogorov distance of the posterior from the prior and the data limit"
    )
    section.listed([verdicts.limit_words(t, written[f"{n}_limits"]) for n, t in names.items()])
    section.words("The run-time is linear in the number of records.")
    section.figure(figure / "run_time", "Processor time of one iteration against n")
    section.listed(
        [verdicts.slope_words(t, tables.slopes(written[f"{n}_run_time"])) for n, t in names.items()]
    )
    section.words(
        "The imputed databases have the right predictive distribution: with parameters from the "
        "prior, the true database is exchangeable with the imputed ones, so its rank is uniform."
    )
    section.figure(figure / "imputed", "Ranks of the true database among imputed ones")
    section.listed([verdicts.imputed_words(t, written[f"{n}_imputed"]) for n, t in names.items()])
    return section
