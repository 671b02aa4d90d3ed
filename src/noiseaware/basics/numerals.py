"""Numbers for people: as many digits as they are worth, thousands apart, no minus zero."""

from __future__ import annotations

import math

__all__ = ["INTERVAL", "numeral"]

INTERVAL = 0.9
"""The probability of an interval where none is asked for: in tables, plots and the report."""


def numeral(value: float, spread: float | None = None, digits: int = 2) -> str:
    """Return a number to so many digits of the spread it belongs to.

    Examples
    --------
    >>> numeral(-0.16123, spread=0.066), numeral(51234.5, spread=204.0), numeral(-0.004, spread=0.5)
    ('-0.161', '51,230', '0.00')
    >>> numeral(0.0000412, spread=0.0000031), numeral(3.14159)
    ('4.12e-05', '3.14')
    """
    value = float(value)
    if not math.isfinite(value):
        return str(value)
    if spread is None or not math.isfinite(spread) or spread <= 0:
        spread = abs(value) / 10
    if spread <= 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(spread))
    if decimals > 6 and abs(value) < 1e-3:
        text = f"{value:.{max(1, decimals + 1 + _magnitude(value))}g}"
    elif decimals > 15 or abs(value) >= 1e15:
        text = f"{value:.6g}"
    else:
        text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value))) if value else 0
