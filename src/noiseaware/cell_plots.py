"""Plots of cells: released against estimated values, the cost of the noise, and rankings.

They are drawn from the table of `estimates`, and work for twenty cells or for thousands. Matplotlib
is imported when the first plot is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.basics.numerals import tick_texts
from noiseaware.plots import COLOURS, TEXT, axes_for, legend_above, plain
from noiseaware.results.estimates import estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import DataTree

__all__ = ["draw_noise_shares", "draw_shrinkage", "draw_top", "plot_estimates"]

NAMED = 40  # cells up to which each has a name and a bar; more are a band
BARS = 20  # cells that are named in the picture of the ranking
LEAST = 0.005  # the least probability that is drawn
SHORT, SMALL = 24, 7  # letters of a name, and their size


def plot_estimates(
    posterior: DataTree, *, top: int = 10, axes: Any = None, ci_prob: float = 0.9
) -> np.ndarray:
    """Plot what the posterior says about each cell, in three panels.

    First, the cells from the smallest to the largest estimate, with intervals and released values.
    Second, the share of each estimate's variance that would remain if the parameters were known,
    which only less noise could reduce. Third, the probability of each cell to be among the `top`
    largest. The third needs imputed databases, `sample(..., keep_records=200)`, because a rank
    depends on all cells together; without them it is left out.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned, for a model whose records are cells.
    top : int
        The number of largest cells in the ranking.
    axes : array of Axes, optional
        Where to draw: three, or two without imputed databases.
    ci_prob : float
        The probability of the intervals; see `estimates`.

    Returns
    -------
    ndarray of Axes
        One for each panel.
    """
    ranked = "latent_records" in posterior.children
    table = estimates(posterior, ci_prob=ci_prob, top=top if ranked else None)
    drawn = axes_for(axes, 2 + ranked, height=3.0)
    draw_shrinkage(drawn[0], table, ci_prob)
    draw_noise_shares(drawn[1], table)
    if ranked:
        draw_top(drawn[2], table, top)
    return drawn


def draw_shrinkage(ax: Axes, table: Any, ci_prob: float) -> None:
    """Draw the cells by their estimates, with intervals and released values."""
    order = np.argsort(table["mean"].to_numpy(), kind="stable")
    mean, low, high, released = (
        table[name].to_numpy(dtype=float)[order] for name in ("mean", "lower", "upper", "released")
    )
    place = np.arange(len(order))
    blue, orange = COLOURS["posterior"], COLOURS["naive"]
    few = len(order) <= NAMED
    if few:
        ax.vlines(place, low, high, color=blue, linewidth=2.5, alpha=0.45)
        ax.plot(place, mean, "o", color=blue, markersize=4, label="estimate")
        ax.set_xticks(place, [_short(table["name"].iloc[i]) for i in order], rotation=90)
    else:
        ax.fill_between(
            place, low, high, step="mid", color=blue, alpha=0.35, linewidth=0,
            label=f"{ci_prob:.0%} interval",
        )  # fmt: skip
        ax.plot(place, mean, color=blue, linewidth=1.2, label="estimate")
        ax.set_xlabel(f"{len(order):,} cells, by their estimate")
    seen = np.isfinite(released)
    hidden = int((~seen).sum())
    more = f" ({hidden:,} were not)" if hidden else ""
    ax.plot(
        place[seen], released[seen], "D" if few else ".", color=orange,
        zorder=3 if len(order) < 500 else 1,
        markersize=3.5 if few else max(2.5, 45.0 / len(order) ** 0.5),
        alpha=0.9 if few else 0.6, rasterized=not few,
        label=f"released{more}", markeredgewidth=0,
    )  # fmt: skip
    _wide_scale(ax, np.concatenate([low, high, released[seen]]))
    plain(ax)
    # Above the legend, which takes the usual place of a title.
    ax.set_title("Released against estimated", fontsize=TEXT, loc="left", pad=26.0)
    ax.set_ylabel("count", fontsize=TEXT)
    ax.set_xlim(-0.02 * len(order) - 0.5, 1.02 * len(order) - 0.5)
    legend_above(ax, ncols=3, markerscale=2.0 if len(order) > 500 else 1.0)
    if few:
        ax.tick_params(axis="x", labelsize=SMALL)


def _wide_scale(ax: Axes, values: np.ndarray) -> None:
    """Fit small and large counts into one plot, with few ticks."""
    high, low = float(values.max()), float(values.min())
    usual = max(1.0, float(np.median(np.abs(values))))
    if high < 20.0 * usual:
        return
    width = max(1.0, usual / 10.0)
    ax.set_yscale("asinh", linear_width=width)
    ticks = [0.0, *(10.0**k for k in range(1, 12) if width <= 10.0**k <= high)]
    if low < -width:
        ticks.insert(0, -(10.0 ** np.floor(np.log10(-low))))
    ax.set_yticks(ticks, [tick_texts([tick])[0] for tick in ticks])
    ax.set_yticks([], minor=True)


def draw_noise_shares(ax: Axes, table: Any) -> None:
    """Draw a histogram of the share of each cell's variance that is due to its own noise."""
    shares = table["noise_share"].to_numpy(dtype=float)
    ax.hist(100.0 * shares, bins=np.linspace(0.0, 100.0, 21).tolist(), color=COLOURS["posterior"])
    ax.set(xlabel="% of the variance; the rest comes from the parameters", ylabel="cells")
    ax.set_xlim(0.0, 100.0)
    plain(ax, "How much of a cell's uncertainty comes from its own noise")


def draw_top(ax: Axes, table: Any, top: int) -> None:
    """Draw the probability of being among the largest, for the likeliest cells."""
    chosen = table[table["top"] >= LEAST]
    chosen = chosen.sort_values(["top", "mean"], ascending=False).head(BARS)
    place = np.arange(len(chosen))[::-1]
    ax.barh(place, chosen["top"], color=COLOURS["posterior"], height=0.7)
    ax.set_yticks(place, [_short(name) for name in chosen["name"]])
    ax.set(xlabel=f"probability of being among the {top} largest", xlim=(0.0, 1.0))
    plain(ax, f"Which cells are the {top} largest")
    ax.tick_params(axis="y", length=0, labelsize=SMALL)


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"
