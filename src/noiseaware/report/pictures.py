"""Pictures of the report as SVG inside the page, in colours that follow the page's."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from noiseaware.plots import COLOURS
from noiseaware.scalars import Scalar

__all__ = ["INK", "draw", "forest"]

INK = "#1c2024"
"""Text and axes. In the page each of these colours becomes a variable of its style sheet."""

WIDTH = 3.9
"""Inches. Narrow, so that the letters can still be read on a phone."""


def draw(height: float, label: str, paint: Callable[[Any], Any]) -> Markup:
    """Return an SVG element: `paint(ax)` on axes of this height, described by `label`."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",  # text stays text: small, sharp and selectable
                "svg.hashsalt": label,  # same page from the same posterior; ids differ by picture
                "font.family": "sans-serif",
                "axes.edgecolor": INK,
                "axes.labelcolor": INK,
                "text.color": INK,
                "xtick.color": INK,
                "ytick.color": INK,
            }
        )
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.subplots())
        out = io.StringIO()
        figure.savefig(
            out, format="svg", transparent=True, dpi=130, metadata={"Date": None, "Creator": None}
        )
    return Markup(_fit_in_page(out.getvalue(), label))


def _fit_in_page(svg: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert size is not None
    head = (
        f'<svg viewBox="{size[0][9:-1]}" width="{size[1]}pt" height="{size[2]}pt" role="img" '
        f'aria-label="{escape(label)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    # Matplotlib names the fonts it knows of; the page has its own.
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for name, colour in {**COLOURS, "ink": INK}.items():
        svg = svg.replace(colour, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", svg).strip()


def forest(entries: list[Scalar], naive: list[np.ndarray | None], ends: tuple[float, float]):
    """Return a painter of intervals, one row an entry: the posterior, below it the naive one."""

    def paint(ax: Any) -> None:
        for row, (entry, other) in enumerate(zip(entries, naive, strict=True)):
            place = len(entries) - 1 - row
            rows = [("posterior", entry.draws.ravel(), 0.14), ("naive", other, -0.2)]
            for name, values, shift in rows:
                if values is None:
                    continue
                values = values[np.isfinite(values)]
                if len(values) == 0:
                    continue
                low, middle, high = np.quantile(values, [ends[0], 0.5, ends[1]])
                ax.plot([low, high], [place + shift] * 2, color=COLOURS[name], linewidth=2.2)
                ax.plot([middle], [place + shift], "o" if shift > 0 else "D", color=COLOURS[name],
                        markersize=3.5)  # fmt: skip
        ax.set_yticks(range(len(entries)), [entry.label for entry in reversed(entries)])
        ax.set_ylim(-0.7, len(entries) - 0.3)
        ax.tick_params(labelsize=7)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)

    return paint
