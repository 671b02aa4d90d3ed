"""Pictures of the report: SVG inside the page, in the page's colours."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from noiseaware.basics.text_files import for_a_page
from noiseaware.plots import COLOURS, plain
from noiseaware.report.numbers import ENDS

__all__ = ["INK", "draw", "forest"]

INK = "#1c2024"
"""Text and axes. On the page this and `COLOURS` become variables of the style sheet."""

INKED: Any = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
WIDTH = 3.9  # inches: narrow, so that the letters can still be read on a phone


def draw(height: float, label: str, paint: Callable[[Any], Any]) -> Markup:
    """Return `paint(ax)` as an SVG element of this height, described by `label`."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about letters that no font has
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",  # text stays text: small, sharp and selectable
                "text.parse_math": False,  # a name from a file is no formula
                "svg.hashsalt": label,  # same page from the same posterior; ids differ by picture
                "font.family": "sans-serif",
                **dict.fromkeys(INKED, INK),
            }
        )
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.subplots())
        out = io.StringIO()
        figure.savefig(
            out, format="svg", transparent=True, dpi=130, metadata={"Date": None, "Creator": None}
        )
    return Markup(for_a_page(_fit_in_page(out.getvalue(), label)))


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
    # Drop Matplotlib's fonts: the page has its own.
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    for name, colour in {**COLOURS, "ink": INK}.items():
        svg = svg.replace(colour, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", svg).strip()


def forest(rows: Sequence[tuple[str, np.ndarray, np.ndarray | None]]) -> Callable[[Any], None]:
    """Return a painter of intervals; each row is a label, the posterior's and the naive draws."""

    def paint(ax: Any) -> None:
        for place, (_, posterior, naive) in enumerate(reversed(rows)):
            drawn = (("posterior", posterior, 0.14, "o"), ("naive", naive, -0.2, "D"))
            for name, values, shift, mark in drawn:
                finite = () if values is None else values[np.isfinite(values)]
                if len(finite) == 0:
                    continue
                low, middle, high = np.quantile(finite, [ENDS[0], 0.5, ENDS[1]])
                ax.plot([low, high], [place + shift] * 2, color=COLOURS[name], linewidth=2.2)
                ax.plot([middle], [place + shift], mark, color=COLOURS[name], markersize=3.5)
        ax.set_yticks(range(len(rows)), [label for label, _, _ in reversed(rows)])
        ax.set_ylim(-0.7, len(rows) - 0.3)
        plain(ax)
        ax.tick_params(labelsize=7)

    return paint
