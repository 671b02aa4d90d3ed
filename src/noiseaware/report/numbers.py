"""Numbers on the page: rounded for the reader, with the full value for programs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from markupsafe import escape

from noiseaware.basics.numerals import INTERVAL, numeral

PROBABILITY = INTERVAL
ENDS = (0.05, 0.95)  # the intervals of the page


def number(value: float, spread: float | None = None) -> str:
    """Return a number rounded to two digits of its spread, with a typographic minus sign.

    Examples
    --------
    >>> number(-0.16123, spread=0.066)
    '−0.161'
    >>> number(1234.5, spread=200.0)
    '1,230'
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    return numeral(value, spread).replace("-", "−")


def percent(share: float) -> str:
    """Return a share as a percentage; only exact 0 and 1 become 0% and 100%.

    Examples
    --------
    >>> percent(0.9863), percent(0.99995), percent(1.0), percent(0.31)
    ('98.6%', 'over 99.9%', '100%', '31%')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if share > 0.999:
        return "over 99.9%"
    if share < 0.001:
        return "under 0.1%"
    return f"{share:.1%}" if share > 0.9 or share < 0.1 else f"{share:.0%}"


def share_of_draws(share: float, draws: int) -> str:
    """Return a probability estimated from draws as text that never claims certainty.

    By the rule of three, an event seen in none of m draws has probability below 3 / m, with 95%
    confidence.

    Examples
    --------
    >>> share_of_draws(1.0, 4000), share_of_draws(0.0, 200), share_of_draws(0.31, 4000)
    ('over 99.9%', 'under 2%', '31%')
    """
    if 0.0 < share < 1.0:
        return percent(share)
    rare = 0.1 if 3 / draws <= 0.001 else float(min(50, math.ceil(300 / draws)))
    return f"over {100 - rare:g}%" if share else f"under {rare:g}%"


def factor(ratio: float) -> str:
    """Return a ratio above 1 as text: "1.4", "12"."""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


@dataclass(frozen=True)
class Number:
    """A number on the page: the text shown, and the full value for programs."""

    what: str
    value: float
    text: str

    def __html__(self) -> str:
        return (
            f'<data class="number" data-what="{escape(self.what)}" value="{self.value!r}">'
            f"{escape(self.text)}</data>"
        )


@dataclass(frozen=True)
class Spread:
    """Median and interval of some draws."""

    low: Number
    middle: Number
    high: Number

    @classmethod
    def of(cls, what: str, label: str, values: np.ndarray | None) -> Spread | None:
        """Return the spread of draws, or None if there are no draws or most are not finite."""
        if values is None:
            return None
        finite = values[np.isfinite(values)]
        if len(finite) < max(1, len(values) // 2):
            return None
        ends = [float(v) for v in np.quantile(finite, [ENDS[0], 0.5, ENDS[1]])]
        digits = (ends[2] - ends[0]) / 3.3  # about a standard deviation; sound under heavy tails
        shown = [number(value, digits) for value in ends]
        names = (f"{what} {place} {label}" for place in ("low", "middle", "high"))
        return cls(*map(Number, names, ends, shown))

    @property
    def width(self) -> float:
        """The length of the interval."""
        return self.high.value - self.low.value

    def __str__(self) -> str:
        return f"{self.middle.text}, from {self.low.text} to {self.high.text}"
