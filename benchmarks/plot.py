"""ESS per second against epsilon, one line per sampler, from the results of `peers`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from benchmarks import peers, settings, tables

MISSING = "plot: needs matplotlib, which is not installed: pip install -e '.[bench]'"
LABELS = {
    peers.DEFAULT: "noiseaware, default",
    peers.ALGORITHM1: "noiseaware, algorithm1() (the paper's sampler)",
    peers.NUTS_AHEAD: "NUTS, compiled ahead: sampling only",
    peers.NUTS_RUN: "NUTS, MCMC.run as a user calls it (compiles again)",
}
# Colours safe for colour-blind readers (Okabe and Ito), and markers for print.
LOOKS = {
    peers.DEFAULT: ("#0072B2", "o", "-"),
    peers.ALGORITHM1: ("#D55E00", "s", "-"),
    peers.NUTS_AHEAD: ("#009E73", "^", "-"),
    peers.NUTS_RUN: ("#009E73", "v", "--"),
}
TITLES = {"regression": "Linear regression", "naive-bayes": "Naive Bayes"}


def run(options: Namespace) -> None:
    try:
        import matplotlib
    except ImportError:
        print(MISSING)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = tables.read(options.out / "peers-releases.csv")
    if not rows:
        print(f"plot: nothing to draw in {options.out}; run the section peers first")
        return
    panels = sorted(
        {(row["model"], row["n"]) for row in rows},
        key=lambda panel: (peers.MODELS.index(panel[0]), panel[1]),
    )
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    with pyplot.rc_context({"font.size": 11, "svg.fonttype": "none", "svg.hashsalt": "noiseaware"}):
        figure, grid = pyplot.subplots(
            lines,
            columns,
            figsize=(max(4.6 * columns, 6.4), 3.7 * lines + 1.1),
            sharex=True,
            sharey="row",
            squeeze=False,
            layout="constrained",
        )
        for axes, (model, n) in zip(grid.flat, panels, strict=False):
            _panel(axes, [row for row in rows if (row["model"], row["n"]) == (model, n)])
            axes.set_title(f"{TITLES[model]}, n = {n:,.0f}", fontsize=12)
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        for axes in grid[-1]:
            axes.set_xlabel("privacy loss ε")
        for axes in grid[:, 0]:
            axes.set_ylabel("effective draws per second")
        entries: dict[str, Any] = {}
        for axes in grid.flat[: len(panels)]:
            handles, labels = axes.get_legend_handles_labels()
            entries.update(zip(labels, handles, strict=True))
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=2 if columns == 2 else 1,
            frameon=False,
            fontsize=10,
        )
        for ending in ("png", "svg"):
            path = options.out / f"ess-per-second.{ending}"
            figure.savefig(path, dpi=150, metadata={"Date": None} if ending == "svg" else None)
            print(f"plot: {path}")
        pyplot.close(figure)


def _panel(axes: Any, rows: list[dict[str, Any]]) -> None:
    for sampler, label in LABELS.items():
        own = [row for row in rows if row["sampler"] == sampler]
        if not own:
            continue
        colour, marker, line = LOOKS[sampler]
        epsilons = sorted({row["epsilon"] for row in own})
        rates = [
            [row["bulk per second"] for row in own if row["epsilon"] == epsilon]
            for epsilon in epsilons
        ]
        axes.plot(
            epsilons, [np.median(each) for each in rates], line, color=colour, marker=marker,
            label=label, markersize=6, linewidth=1.8,
        )  # fmt: skip
        # From the lowest to the highest of the releases.
        axes.vlines(
            epsilons, [min(e) for e in rates], [max(e) for e in rates], color=colour, alpha=0.5
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(settings.EPSILONS, [f"{epsilon:g}" for epsilon in settings.EPSILONS])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
