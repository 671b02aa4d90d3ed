"""Numbers for people: only meaningful digits, thousands separators, no minus zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

INTERVAL = 0.9
"""The default probability of intervals in tables, plots and the report."""


def numeral(value: float, spread: float | None = None, digits: int = 2) -> str:
    """Return a number to so many digits of its spread.

    Examples
    --------
    >>> numeral(-0.16123, spread=0.066), numeral(51234.5, spread=204.0), numeral(-0.004, spread=0.5)
    ('-0.161', '51,230', '0.00')
    >>> numeral(0.0000412, spread=0.0000031), numeral(0.00004, 0.000003, 3), numeral(3.14159)
    ('4.12e-05', '4.000e-05', '3.14')
    """
    value = float(value)
    if not math.isfinite(value):
        return str(value)
    if spread is None or not math.isfinite(spread) or spread <= 0:
        spread = abs(value) / 10
    if spread <= 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(spread))
    if decimals > 6 and value == 0:
        text = "0"
    elif decimals > 6 and abs(value) < 1e-3:
        text = f"{value:.{max(0, decimals + _magnitude(value))}e}"
    elif decimals > 15 or abs(value) >= 1e15:
        text = f"{value:.6g}"
    else:
        text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def _magnitude(value: float) -> int:
    return math.floor(math.log10(abs(value)))


WIDE, NARROW = 1e6, 1e-3
"""Axis numbers from the first on, and below the second, are written with a power of ten."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_texts(values: Sequence[float]) -> list[str]:
    """Return the labels of an axis: uniform, short, and with enough digits to distinguish them.

    Examples
    --------
    >>> tick_texts([0, 50_000, 100_000]), tick_texts([-0.25, 0.0, 0.25])
    (['0', '50,000', '100,000'], ['−0.25', '0.00', '0.25'])
    >>> tick_texts([0.0, 2.5e9, 5e9]), tick_texts([0.00002, 0.00004])
    (['0', '2.5×10⁹', '5.0×10⁹'], ['2×10⁻⁵', '4×10⁻⁵'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    if largest == 0.0:
        return ["0"] * len(values)
    power = 0 if NARROW <= largest < WIDE else _magnitude(largest)
    parts = [value / 10.0**power for value in values]
    step = min((b - a for a, b in pairwise(sorted(parts)) if b > a), default=abs(parts[0]))
    digits = 1
    while digits < 6 and not all(_close(part, numeral(part, step, digits), step) for part in parts):
        digits += 1
    texts = [numeral(part, step, digits).replace("-", "−") for part in parts]
    ten = f"×10{str(power).translate(SUPERSCRIPTS)}" if power else ""
    return [
        text + ten if value else "0" if ten else text
        for text, value in zip(texts, values, strict=True)
    ]


def _close(value: float, text: str, step: float) -> bool:
    return abs(float(text.replace(",", "")) - value) < 1e-3 * step
