"""The figures of a run, written as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from noiseaware.baselines import non_private
from noiseaware.basics.files import write_whole
from noiseaware.studies import Study
from noiseaware_paper.settings import Experiment
from noiseaware_paper.tables import METHODS

BLUE, ORANGE, GREY = "#2b6ca3", "#c7662b", "#888888"
COLOURS = {"algorithm1": ORANGE, "default": BLUE, "published": "#333333"}


def _panels(count: int, width: float, height: float, label: str) -> tuple[Figure, np.ndarray]:
    """Return a figure outside pyplot, and its axes in a row."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    axes[0].set_ylabel(label)
    return figure, axes


def _with_legend(figure: Figure, columns: int) -> Figure:
    shown = figure.axes[0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=columns)
    return figure


def _epsilon_axis(axis: Any, epsilons: Sequence[float]) -> None:
    axis.set_xscale("log")
    axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon")


def _cloud(axis: Any, study: Study, values: np.ndarray, words: str, colour: str, shift: float = 0):
    """Draw a point for each replicate, (epsilon, replicate), spread around its epsilon."""
    for i, epsilon in enumerate(study.plan.epsilons):
        place = epsilon * np.exp(shift + np.linspace(-0.12, 0.12, values.shape[1]))
        label = words if i == 0 else None
        axis.plot(place, values[i], ".", markersize=3, alpha=0.6, color=colour, label=label)


def means_figure(experiment: Experiment, study: Study) -> Figure:
    """Draw the posterior means of all releases of one database (Figures 1a and 2)."""
    data = non_private(experiment.model, experiment.database(), draws=4000, random_seed=1)
    lines = data[experiment.parameter].mean(axis=0)
    count = len(experiment.symbols)
    figure, axes = _panels(count, 2.6 * count + 0.6, 3.4, "posterior mean")
    for k, axis in enumerate(axes):
        for method, shift in (("algorithm1", -0.18), ("default", 0.18)):
            means = study["mean"][:, 0, :, study.plan.methods.index(method), k]
            _cloud(axis, study, means, METHODS[method], COLOURS[method], shift)
        axis.axhline(lines[k], color="black", linewidth=1, label="non-private posterior mean")
        # The prior mean is known: 1/I for the class probabilities, 0 for the coefficients.
        centre = 0.0 if experiment.name == "regression" else 1.0 / count
        axis.axhline(centre, color="black", linewidth=1, linestyle="--", label="prior mean")
        axis.set_title(experiment.symbols[k])
        _epsilon_axis(axis, study.plan.epsilons)
    return _with_legend(figure, 4)


def acceptance_figure(study: Study) -> Figure:
    """Draw average and lowest acceptance of all chains against exp(-epsilon) (Figure 1b)."""
    figure, axes = _panels(2, 8.0, 3.6, "acceptance")
    kinds = (
        ("acceptance", "average", BLUE),
        ("lowest_sweep", "lowest share in a sweep", ORANGE),
        ("lowest_probability", "lowest probability", GREY),
    )
    epsilons = study.plan.epsilons
    for axis, method in zip(axes, METHODS, strict=True):
        m = study.plan.methods.index(method)
        for field, words, colour in kinds:
            if field == "lowest_sweep" and method == "default":
                continue  # blocks of records are accepted as a whole
            _cloud(axis, study, study[field][:, 0, :, m], words, colour)
        grid = np.geomspace(epsilons[0], epsilons[-1], 200)
        axis.plot(grid, np.exp(-grid), color="black", linewidth=1, label="exp(-epsilon)")
        axis.set_title(METHODS[method])
        axis.set_ylim(-0.02, 1.02)
        _epsilon_axis(axis, epsilons)
    return _with_legend(figure, 4)


def coverage_figure(experiment: Experiment, table: DataFrame, level: float) -> Figure:
    """Draw published and measured coverage with their binomial errors (Tables 1 and 2)."""
    count = len(experiment.symbols)
    figure, axes = _panels(count, 2.6 * count + 0.6, 3.4, "coverage")
    words = {"published": "published", **METHODS}
    for axis, symbol in zip(axes, experiment.symbols, strict=True):
        part = table[table["parameter"] == symbol]
        for method, shift in (("published", -0.15), ("algorithm1", 0.0), ("default", 0.15)):
            place, mark = part["epsilon"] * np.exp(shift), "s:" if method == "published" else "o-"
            axis.errorbar(
                place, part[method], part[f"{method}_error"], fmt=mark, markersize=4, linewidth=1,
                color=COLOURS[method], label=words[method],
            )  # fmt: skip
        axis.axhline(level, color="black", linewidth=0.8, linestyle="--", label=f"{level:.0%}")
        axis.set_ylim(0.0, 1.05)
        axis.set_title(f"{symbol} = {part['true'].iloc[0]:.3g}")
        _epsilon_axis(axis, sorted(set(part["epsilon"])))
    return _with_legend(figure, 4)


def limits_figure(tables: dict[str, DataFrame]) -> Figure:
    """Draw the distances of the posterior from its two limits."""
    figure, axes = _panels(len(tables), 4.0 * len(tables), 3.4, "Kolmogorov distance")
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        for limit, colour in (("prior", ORANGE), ("clamped-data posterior", BLUE)):
            column = f"distance from the {limit}"
            axis.plot(table["epsilon"], table[column], "o-", color=colour, label=column)
        axis.set(xscale="log", xlabel="epsilon", ylim=(-0.02, 1.02), title=title)
    return _with_legend(figure, 2)


def run_time_figure(tables: dict[str, DataFrame]) -> Figure:
    """Draw the time of an iteration against the number of records."""
    figure, axes = _panels(len(tables), 4.0 * len(tables), 3.4, "seconds an iteration")
    by_words = {words: COLOURS[name] for name, words in METHODS.items()}
    for axis, (title, table) in zip(axes, tables.items(), strict=True):
        for sampler, part in table.groupby("sampler"):
            axis.plot(part["n"], part["seconds"], "o-", color=by_words[str(sampler)], label=sampler)
        ends = np.array([table["n"].min(), table["n"].max()])
        top = table[table["n"] == ends[1]]["seconds"].min()
        axis.plot(ends, top * ends / ends[1], "k:", linewidth=1, label="proportional to n")
        axis.set(xscale="log", yscale="log", xlabel="records", title=title)
    return _with_legend(figure, 3)


def ranks_figure(ranks: dict[str, np.ndarray], databases: int) -> Figure:
    """Draw histograms of the ranks of the true database among the imputed ones."""
    figure, axes = _panels(len(ranks), 3.0 * len(ranks), 2.8, "")
    for axis, (title, values) in zip(axes, ranks.items(), strict=True):
        axis.hist(values, bins=np.arange(databases + 2) - 0.5, color=BLUE)
        axis.axhline(len(values) / (databases + 1), color="black", linewidth=1, linestyle="--")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("rank of the true database")
    return figure


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and SVG, with reproducible bytes."""
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": path.name}):
        svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
        write_whole(svg, lambda part: figure.savefig(part, metadata={"Date": None}))
        write_whole(png, lambda part: figure.savefig(part, dpi=110, metadata={"Software": None}))
