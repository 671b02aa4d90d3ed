"""The figures of a run; each is written as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.baselines import non_private
from noiseaware.reproduce.experiments import database
from noiseaware.reproduce.settings import Experiment
from noiseaware.reproduce.tables import METHODS
from noiseaware.studies.result import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

COLOURS = {"algorithm1": "#c7662b", "default": "#2b6ca3", "published": "#333333"}


def _panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """Return a figure that belongs to no window, and its axes, (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, axes


def _epsilon_axis(axis: Any, epsilons: Sequence[float]) -> None:
    axis.set_xscale("log")
    axis.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.set_xlabel("epsilon")


def _spread(epsilon: float, count: int, shift: float) -> np.ndarray:
    """Return places around epsilon, so that points do not cover one another."""
    return epsilon * np.exp(shift + np.linspace(-0.12, 0.12, count))


def means_figure(experiment: Experiment, study: Study) -> Figure:
    """Draw the posterior means of all releases of one database (Figures 1a and 2)."""
    data = non_private(experiment.model, database(experiment), draws=4000, random_seed=1)
    lines = data[experiment.parameter].mean(axis=0)
    columns = len(experiment.symbols)
    figure, axes = _panels(1, columns, 2.6 * columns + 0.6, 3.4)
    for k, axis in enumerate(axes[0]):
        for method, shift in (("algorithm1", -0.18), ("default", 0.18)):
            m = study.plan.methods.index(method)
            for i, epsilon in enumerate(study.plan.epsilons):
                means = study["mean"][i, 0, :, m, k]
                axis.plot(
                    _spread(epsilon, len(means), shift),
                    means,
                    ".",
                    markersize=3,
                    alpha=0.6,
                    color=COLOURS[method],
                    label=METHODS[method] if i == 0 else None,
                )
        axis.axhline(lines[k], color="black", linewidth=1, label="non-private posterior mean")
        # The prior mean is known: 1/I for the class probabilities, 0 for the coefficients.
        centre = 0.0 if experiment.name == "regression" else 1.0 / columns
        axis.axhline(centre, color="black", linewidth=1, linestyle="--", label="prior mean")
        axis.set_title(experiment.symbols[k])
        _epsilon_axis(axis, study.plan.epsilons)
    axes[0, 0].set_ylabel("posterior mean")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def acceptance_figure(study: Study) -> Figure:
    """Draw average and lowest acceptance of all chains against exp(-epsilon) (Figure 1b)."""
    figure, axes = _panels(1, 2, 8.0, 3.6)
    kinds = (
        ("acceptance", "average", "#2b6ca3"),
        ("lowest_sweep", "lowest share in a sweep", "#c7662b"),
        ("lowest_probability", "lowest probability", "#888888"),
    )
    for axis, method in zip(axes[0], METHODS, strict=True):
        m = study.plan.methods.index(method)
        for i, epsilon in enumerate(study.plan.epsilons):
            for field, words, colour in kinds:
                if field == "lowest_sweep" and method == "default":
                    continue  # blocks of records are accepted as one
                values = study[field][i, 0, :, m]
                axis.plot(
                    _spread(epsilon, len(values), 0.0),
                    values,
                    ".",
                    markersize=3,
                    alpha=0.6,
                    color=colour,
                    label=words if i == 0 else None,
                )
        grid = np.geomspace(study.plan.epsilons[0], study.plan.epsilons[-1], 200)
        axis.plot(grid, np.exp(-grid), color="black", linewidth=1, label="exp(-epsilon)")
        axis.set_title(METHODS[method])
        axis.set_ylim(-0.02, 1.02)
        _epsilon_axis(axis, study.plan.epsilons)
    axes[0, 0].set_ylabel("acceptance")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def coverage_figure(experiment: Experiment, table: DataFrame, level: float) -> Figure:
    """Draw published and measured coverage with their binomial errors (Tables 1 and 2)."""
    columns = len(experiment.symbols)
    figure, axes = _panels(1, columns, 2.6 * columns + 0.6, 3.4)
    words = {"published": "published", **METHODS}
    for axis, symbol in zip(axes[0], experiment.symbols, strict=True):
        part = table[table["parameter"] == symbol]
        for method, shift in (("published", -0.15), ("algorithm1", 0.0), ("default", 0.15)):
            axis.errorbar(
                part["epsilon"] * np.exp(shift),
                part[method],
                part[f"{method}_error"],
                fmt="o-" if method != "published" else "s:",
                markersize=4,
                linewidth=1,
                color=COLOURS[method],
                label=words[method],
            )
        axis.axhline(level, color="black", linewidth=0.8, linestyle="--", label=f"{level:.0%}")
        axis.set_ylim(0.0, 1.05)
        axis.set_title(f"{symbol} = {part['true'].iloc[0]:.3g}")
        _epsilon_axis(axis, sorted(set(part["epsilon"])))
    axes[0, 0].set_ylabel("coverage")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def limits_figure(tables: dict[str, DataFrame]) -> Figure:
    """Draw the distances of the posterior from its two limits."""
    figure, axes = _panels(1, len(tables), 4.0 * len(tables), 3.4)
    for axis, (title, table) in zip(axes[0], tables.items(), strict=True):
        for column, colour in (
            ("distance from the prior", "#c7662b"),
            ("distance from the clamped-data posterior", "#2b6ca3"),
        ):
            axis.plot(table["epsilon"], table[column], "o-", color=colour, label=column)
        axis.set_xscale("log")
        axis.set_xlabel("epsilon")
        axis.set_ylim(-0.02, 1.02)
        axis.set_title(title)
    axes[0, 0].set_ylabel("Kolmogorov distance")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def run_time_figure(tables: dict[str, DataFrame]) -> Figure:
    """Draw the time of an iteration against the number of records."""
    figure, axes = _panels(1, len(tables), 4.0 * len(tables), 3.4)
    by_words = {words: COLOURS[name] for name, words in METHODS.items()}
    for axis, (title, table) in zip(axes[0], tables.items(), strict=True):
        for sampler, part in table.groupby("sampler"):
            axis.plot(part["n"], part["seconds"], "o-", color=by_words[str(sampler)], label=sampler)
        ends = np.array([table["n"].min(), table["n"].max()])
        top = table[table["n"] == ends[1]]["seconds"].min()
        axis.plot(ends, top * ends / ends[1], "k:", linewidth=1, label="proportional to n")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("records")
        axis.set_title(title)
    axes[0, 0].set_ylabel("seconds an iteration")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def ranks_figure(ranks: dict[str, np.ndarray], databases: int) -> Figure:
    """Draw histograms of the ranks of the true database among the imputed ones."""
    figure, axes = _panels(1, len(ranks), 3.0 * len(ranks), 2.8)
    for axis, (title, values) in zip(axes[0], ranks.items(), strict=True):
        axis.hist(values, bins=np.arange(databases + 2) - 0.5, color="#2b6ca3")
        axis.axhline(len(values) / (databases + 1), color="black", linewidth=1, linestyle="--")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("rank of the true database")
    return figure


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG and as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=110, metadata={"Software": None})
