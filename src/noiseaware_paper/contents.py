"""The contents of the page: opening, sections and footer."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from noiseaware import __version__
from noiseaware_paper import published, tables, verdicts
from noiseaware_paper.page import Section
from noiseaware_paper.settings import Size

TITLE = "Data augmentation MCMC for private data: the paper's experiments, run again"

NUMBERS = {
    "naive_bayes": ("Figure 1a", "Figure 1b", "Table 1"),
    "regression": ("Figure 2", "Acceptance, supplement", "Table 2"),
}
"""Where the paper reports the means, the acceptance and the coverage of each model."""


def opening(size: Size) -> list[str]:
    """Return the first paragraphs."""
    default = size.samplers["default"]
    option = "" if size.name == "full" else f" --{size.name}"
    return [
        "Ju, Awan, Gong and Rao (2022), Data augmentation MCMC for Bayesian inference from "
        "privatized data, arXiv:2206.00710. Everything on this page was computed by one "
        f"command, noiseaware reproduce{option}; the tables are CSV files beside it.",
        "Algorithm 1 is the paper's sampler with its protocol: one chain of 10,000 iterations "
        "of which 5,000 are dropped. The default sampler of noiseaware draws from the same "
        f"posterior and mixes better ({default.draws:,} draws after {default.warmup:,} "
        "iterations of warm-up here).",
    ]


def foot(size: Size, seed: int, took: float, cores: int) -> str:
    """Return the footer: how the page was made."""
    return (
        f"noiseaware {__version__}, Python {platform.python_version()}, seed {seed}, "
        f"{size.replicates} replicates, size {size.name}; this call took {took:.0f} seconds "
        f"(less than the whole if it continued an earlier one) "
        f"on {cores} core{'s' if cores > 1 else ''}."
    )


def sections(results: Any, written: Any, size: Size, figure: Path) -> list[Section]:
    """Return the sections, from the results and the tables written."""
    return [
        _summary(results, written, size),
        *(_of_model(name, results[name], written, size, figure) for name in results),
        _without_showing(results, written, figure),
    ]


def _of_model(name: str, result: Any, written: Any, size: Size, figure: Path) -> Section:
    means_title, acceptance_title, coverage_title = NUMBERS[name]
    section = Section(result["experiment"].title)
    drawn = f"posterior means of {size.replicates} releases of one database at each epsilon"
    section.figure(figure / f"{name}_means", f"{means_title}: {drawn}, by both samplers")
    section.words(verdicts.means_words(result["means"]))
    drawn = "acceptance of each chain, average and lowest, and the bound"
    section.figure(figure / f"{name}_acceptance", f"{acceptance_title}: {drawn}")
    section.words(
        verdicts.acceptance_words(result["means"]),
        "The paper's lowest acceptance of a chain may be read in two ways, so both are here: "
        "the lowest share of proposals accepted in one sweep through the records, and the "
        "lowest probability of accepting a proposal. The bound is about the latter. The default "
        "sampler may propose many records as one block, accepted or rejected as a whole, so its "
        "lowest share says nothing and is not drawn; its probabilities are those of changing one "
        "record.",
    )
    section.table(written[f"{name}_acceptance"], f"{acceptance_title} in numbers")
    drawn = "coverage of 90% intervals, with binomial standard errors"
    section.figure(figure / f"{name}_coverage", f"{coverage_title}: {drawn}")
    section.table(
        tables.shown_coverage(written[f"{name}_coverage"]),
        f"{coverage_title}, published and measured; bold where Algorithm 1 is 3 standard "
        "errors or more from the printed number",
        apart="z from published",
    )
    return section


def _summary(results: Any, written: Any, size: Size) -> Section:
    section = Section("What agrees, and what does not")
    points = []
    for name, symbol in (("naive_bayes", "p_4"), ("regression", "beta_1")):
        experiment, table = results[name]["experiment"], written[f"{name}_coverage"]
        points.append(f"{experiment.title}, coverage. {verdicts.one_line(symbol, table)}")
        points += verdicts.coverage_words(experiment, table, size)
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


def _without_showing(results: Any, written: Any, figure: Path) -> Section:
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
