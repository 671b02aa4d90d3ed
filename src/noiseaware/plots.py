"""Matplotlib plots of a posterior: axes in and axes out, so that they fit into your own figure.

Every function takes the posterior and, optionally, axes to draw in; it returns the axes. Without
axes it makes a new pyplot figure (which shows itself in a notebook); with them, pyplot is not
touched. `var_names` holds parameters (`"coefficients"`) or scalars as labelled in the summary
(`"coefficients[x1]"`); None takes the parameters that the model names first.

Density curves are scaled to the same height: compare their positions and widths. Matplotlib is
imported when the first plot is drawn.

Example
-------
>>> import noiseaware as na
>>> release = na.Release([37.2], na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5), 100)
>>> model, quick = na.models.Bernoulli(), {"draws": 100, "chains": 2, "progressbar": False}
>>> posterior = na.sample(model, release, random_seed=1, **quick)
>>> import matplotlib.figure
>>> ax = matplotlib.figure.Figure().subplots()
>>> na.plot_posterior(posterior, axes=ax)[0].get_title(loc="left")
'probability'
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseaware.basics.numerals import INTERVAL, tick_texts
from noiseaware.documents.stored import naive_draws
from noiseaware.results.posterior import need_posterior
from noiseaware.results.scalars import Scalar, pick_scalars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import DataTree

__all__ = ["plot_acceptance", "plot_against_naive", "plot_posterior", "plot_rank", "plot_trace"]

COLOURS = {"posterior": "#1f6f8b", "naive": "#b3541e", "prior": "#6b6f76"}
"""One colour each; the rows are named as well, so nothing depends on the colour."""

CHAINS = ("#1f77b4", "#d1690b", "#2f8f4e", "#9056b0")
"""Colours of chains, in turn."""

POINTS = 160  # points of a density curve
TICKS = 4  # steps between the numbers of an axis, at most: so few that six digits do not touch
LINE = 48  # letters of a unit in one line below a picture; a third beside it, which is lower

RANK_BINS = 20
TEXT = 9


def plot_posterior(
    posterior: DataTree,
    var_names: Sequence[str] | str | None = None,
    *,
    axes: Any = None,
    ci_prob: float = INTERVAL,
) -> np.ndarray:
    """Draw the posterior of each parameter above its prior.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    var_names : str or sequence of str, optional
        Parameters or labels of scalars.
    axes : Axes or array of Axes, optional
        Where to draw: one for each scalar.
    ci_prob : float
        Probability of the interval drawn as a bar.

    Returns
    -------
    ndarray of Axes
        One for each scalar.
    """
    return _plot_ridges(posterior, {}, var_names, axes, ci_prob, 1.7)


def plot_against_naive(
    posterior: DataTree,
    naive: dict[str, Any] | None = None,
    var_names: Sequence[str] | str | None = None,
    *,
    axes: Any = None,
    ci_prob: float = INTERVAL,
    model: Any = None,
    release: Any = None,
) -> np.ndarray:
    """Draw the posterior, the analysis that takes the noisy numbers as exact, and the prior.

    Parameters
    ----------
    posterior : DataTree
        What `sample` or `load` returned.
    naive : dict, optional
        Draws of the naive analysis, (draws, *shape) for each parameter. None: computed by
        `noiseaware.baselines.naive`.
    var_names, axes, ci_prob
        As in `plot_posterior`.
    model, release : optional
        For the naive analysis, if they are of your own classes, which the posterior cannot hold.

    Returns
    -------
    ndarray of Axes
        One for each scalar.
    """
    if naive is None:
        naive = naive_draws(posterior, model, release)
    return _plot_ridges(posterior, naive, var_names, axes, ci_prob, 2.2)


def _plot_ridges(
    posterior: DataTree, naive: Mapping[str, Any], var_names: Any, axes: Any, ci_prob: float, height
) -> np.ndarray:
    if not 0.0 < ci_prob < 1.0:
        raise ValueError(f"ci_prob must be between 0 and 1; got {ci_prob!r}")
    drawn, panels = _panels(posterior, var_names, axes, height)
    for ax, scalar in panels:
        draw_ridges(ax, scalar, ridges_of(scalar, scalar.of(naive)), float(ci_prob))
    return drawn


def plot_acceptance(posterior: DataTree, *, ax: Any = None) -> Axes:
    """Plot the acceptance of proposals for records, and the bound that privacy implies.

    The dots are the lowest acceptance probability of each draw; the line is the share of accepted
    proposals. Under pure differential privacy no dot can lie below exp(-epsilon).

    Returns
    -------
    Axes
        The given axes, or new ones.
    """
    need_posterior(posterior)
    stats = posterior["sample_stats"].to_dataset()
    if "acceptance_rate" not in stats:
        raise ValueError(
            "there is no acceptance to plot: none of the moves of this run proposes records one "
            "at a time"
        )
    (ax,) = axes_for(ax, 1, height=2.4)
    rate = stats["acceptance_rate"].mean("chain").values
    draws = np.arange(1, len(rate) + 1)
    if "lowest_log_acceptance" in stats:
        lowest = np.exp(stats["lowest_log_acceptance"].min("chain").values)
        ax.plot(
            draws, lowest, ".", markersize=2.5, color=COLOURS["prior"], rasterized=True,
            label="lowest in a draw",
        )  # fmt: skip
    ax.plot(
        draws, _running(rate), "-", linewidth=1.5, color=COLOURS["posterior"],
        label="share accepted",
    )  # fmt: skip
    epsilon = float(posterior.attrs.get("change_epsilon", math.nan))
    if not math.isnan(epsilon):
        bound = math.exp(-epsilon)
        ax.axhline(
            bound, linestyle="--", linewidth=1.2, color=COLOURS["naive"],
            label=f"bound exp(−ε) = {bound:.3g}",
        )  # fmt: skip
    ax.set(xlabel="draw", ylabel="probability", ylim=(-0.03, 1.03), xlim=(0, len(rate) + 1))
    plain(ax)
    legend_above(ax, ncols=2)
    return ax


def plot_trace(
    posterior: DataTree, var_names: Sequence[str] | str | None = None, *, axes: Any = None
) -> np.ndarray:
    """Plot the draws of each chain in order: the chains should look alike, without a trend.

    Parameters and the return value are those of `plot_posterior`.
    """
    drawn, panels = _panels(posterior, var_names, axes, 1.8)
    for ax, scalar in panels:
        for number, chain in enumerate(scalar.draws):
            ax.plot(
                np.arange(1, len(chain) + 1), chain, linewidth=0.5, alpha=0.75, rasterized=True,
                color=CHAINS[number % len(CHAINS)],
            )  # fmt: skip
        ax.set(xlabel="draw", xlim=(0, scalar.draws.shape[1] + 1))
        ax.set_ylabel(textwrap.fill(scalar.unit, LINE // 3))
        plain(ax, scalar.label)
    return drawn


def plot_rank(
    posterior: DataTree, var_names: Sequence[str] | str | None = None, *, axes: Any = None
) -> np.ndarray:
    """Plot the ranks of each chain's draws among all draws: every row of bars should be level.

    Parameters and the return value are those of `plot_posterior`. Rank plots are those of
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).
    """
    from scipy.stats import rankdata

    drawn, panels = _panels(posterior, var_names, axes, 1.8)
    for ax, scalar in panels:
        chains, length = scalar.draws.shape
        bins = max(1, min(RANK_BINS, length))
        # In the middle of its cell, so that no rank is on the edge of two bars.
        ranks = (rankdata(scalar.draws).reshape(chains, length) - 0.5) / (chains * length)
        edges = np.linspace(0.0, 1.0, bins + 1)
        bases = np.arange(chains)[::-1]
        for number, base in enumerate(bases):
            counts, _ = np.histogram(ranks[number], edges)
            ax.bar(
                edges[:-1], 0.4 * counts / (length / bins), width=1.0 / bins, bottom=base,
                align="edge", color=CHAINS[number % len(CHAINS)], linewidth=0,
            )  # fmt: skip
            ax.axhline(base + 0.4, linestyle=":", linewidth=0.8, color=COLOURS["prior"])
        ax.set(xlabel="rank among all draws, from lowest to highest", xlim=(0, 1), xticks=[])
        ax.set_ylim(-0.05, chains)
        ax.set_yticks(bases + 0.4, [f"chain {number + 1}" for number in range(chains)])
        plain(ax, scalar.label)
    return drawn


def _panels(
    posterior: DataTree, var_names: Sequence[str] | str | None, axes: Any, height: float
) -> tuple[np.ndarray, Iterable[tuple[Axes, Scalar]]]:
    scalars = pick_scalars(posterior, var_names)
    drawn = axes_for(axes, len(scalars), height)
    return drawn, zip(drawn, scalars, strict=True)


def ridges_of(scalar: Scalar, naive: np.ndarray | None = None) -> list[tuple[str, np.ndarray]]:
    """Return the rows to draw for a scalar, from top to bottom."""
    rows = [("posterior", scalar.draws.ravel())]
    if naive is not None:
        rows.append(("naive", naive))
    if scalar.prior is not None:
        rows.append(("prior", scalar.prior))
    return [(name, values[np.isfinite(values)]) for name, values in rows]


def draw_ridges(
    ax: Axes, scalar: Scalar, rows: list[tuple[str, np.ndarray]], probability: float
) -> None:
    """Draw one density above another, each of height 1, with its interval below it."""
    low, high = _window(rows)
    for place, (name, values) in enumerate(rows):
        base = 1.35 * (len(rows) - 1 - place)
        colour = COLOURS[name]
        if len(values) == 0:
            ax.text(0.5, base + 0.2, "no value exists", transform=ax.get_yaxis_transform(),
                    ha="center", fontsize=TEXT, color=colour)  # fmt: skip
            continue
        ends = np.quantile(values, [(1 - probability) / 2, (1 + probability) / 2])
        if np.ptp(values) > 0:
            grid, density = _density(values, low, high)
            ax.fill_between(grid, base, base + density, color=colour, alpha=0.25, linewidth=0)
            ax.plot(grid, base + density, color=colour, linewidth=1.4,
                    linestyle="--" if name == "prior" else "-")  # fmt: skip
        ax.plot(np.clip(ends, low, high), [base - 0.1] * 2, color=colour, linewidth=3.5,
                solid_capstyle="butt")  # fmt: skip
        middle = float(np.median(values))
        if low <= middle <= high:
            ax.plot([middle], [base - 0.1], "o", color=colour, markersize=5)
    ax.set_xlim(low, high)
    ax.set_ylim(-0.3, 1.35 * (len(rows) - 1) + 1.12)
    ax.set_yticks([1.35 * (len(rows) - 1 - i) for i in range(len(rows))], [n for n, _ in rows])
    ax.set_xlabel(textwrap.fill(scalar.unit, LINE))
    plain(ax, scalar.label)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _window(rows: list[tuple[str, np.ndarray]]) -> tuple[float, float]:
    """Return the range to show: all of the posterior and naive analysis, the prior if it fits."""
    prior = [values for name, values in rows if name == "prior" and len(values)]
    others = [values for name, values in rows if name != "prior" and len(values)]
    lows, highs = np.array([np.quantile(values, [0.002, 0.998]) for values in others]).T
    # An absurdly distant naive value is cut off; its interval runs out of the plot.
    reach = 4.0 * (highs[0] - lows[0])
    low, high = max(lows.min(), lows[0] - reach), min(highs.max(), highs[0] + reach)
    if prior:
        # Room for the prior, unless it is so wide that only a flat part of it would show.
        a, b = np.quantile(prior[0], [0.01, 0.99])
        if max(high, b) - min(low, a) < 4.0 * (high - low):
            low, high = min(low, a), max(high, b)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    pad = 0.02 * (high - low)
    return float(low - pad), float(high + pad)


def _density(values: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a density curve inside the window, scaled to height 1 at its highest point there."""
    from arviz_stats.base import array_stats

    # Distant draws (of a heavy-tailed prior) would leave few grid points for the rest.
    width = high - low
    inside = values[(values > low - width) & (values < high + width)]
    if len(inside) < 10 or np.ptp(inside) == 0:
        inside = values
    # The default bandwidth averages two rules, one of which fails on evenly spread draws.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        grid, density, _ = array_stats.kde(inside)
    if not np.isfinite(density).all():
        grid, density, _ = array_stats.kde(inside, bw="scott")
    fine = np.linspace(max(low, grid[0]), min(high, grid[-1]), POINTS)
    if not fine[-1] > fine[0]:
        return grid[:1], np.ones(1)
    curve = np.interp(fine, grid, density)
    top = curve.max()
    return fine, curve / top if top > 0 else curve


def _running(values: np.ndarray) -> np.ndarray:
    window = max(1, len(values) // 40)
    kernel = np.ones(window)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")


def axes_for(axes: Any, count: int, height: float) -> np.ndarray:
    """Return the user's axes as a flat array, or those of a new figure."""
    if axes is None:
        from matplotlib import pyplot

        _, made = pyplot.subplots(
            count, 1, figsize=(5.2, height * count), layout="constrained", squeeze=False
        )
        return made.ravel()
    flat = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(flat) != count or not all(hasattr(ax, "plot") for ax in flat):
        raise ValueError(f"axes must be {count} Matplotlib axes, one for each scalar; got {axes!r}")
    return flat


def legend_above(ax: Axes, **more: Any) -> None:
    """Put the legend above the axes."""
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=TEXT,
        handlelength=1.2, columnspacing=1.0, **more,
    )  # fmt: skip


def plain(ax: Axes, title: str = "") -> None:
    """Use small text, plain numbers and no frame."""
    ax.set_title(title, fontsize=TEXT, loc="left", parse_math=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=TEXT)
    ax.xaxis.label.set_fontsize(TEXT)
    ax.yaxis.label.set_fontsize(TEXT)
    for axis in (ax.xaxis, ax.yaxis):
        _write_numerals(axis)


def _write_numerals(axis: Any) -> None:
    """Write the numbers of an axis as in tables, unless its ticks have their own texts."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, ScalarFormatter

    if type(axis.get_major_formatter()) is not ScalarFormatter:
        return

    class Numerals(FuncFormatter):
        def format_ticks(self, values: Any) -> list[str]:
            return tick_texts(values)

    axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(Numerals(lambda value, _: tick_texts([value])[0]))
