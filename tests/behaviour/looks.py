"""What a picture looks like, without looking at it."""

from __future__ import annotations

import re
from typing import Any


def seen_texts(figure: Any) -> list[tuple[str, Any]]:
    """Return the texts in and around the axes of a figure that are drawn, with their places."""
    figure.draw_without_rendering()
    found = []
    for ax in figure.axes:
        found += [ax.title, ax._left_title]
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found += [axis.label, axis.offsetText, *(tick.label1 for tick in ticks)]
    shown = [text for text in found if text.get_visible() and text.get_text()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


def powers_of_ten(figure: Any) -> list[str]:
    """Return the texts that have numbers as programs write them: 1e10."""
    return [text for text, _ in seen_texts(figure) if re.search(r"\de[-−+\d]", text)]


def overlapping(figure: Any) -> list[tuple[str, str]]:
    """Return the pairs of texts that are printed over one another."""
    boxes = seen_texts(figure)
    return [
        (text, other)
        for number, (text, box) in enumerate(boxes)
        for other, beside in boxes[:number]
        if box.overlaps(beside)
    ]
