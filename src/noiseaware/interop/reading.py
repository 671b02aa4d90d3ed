"""Helpers of the readers: the error for what cannot be read, and joint releases."""

from __future__ import annotations

from typing import Any

from noiseaware import mechanisms
from noiseaware.release import Release

BY_HAND = (
    "If you know how the numbers were made, write the release by hand: "
    "na.Release(values, na.mechanisms.Laplace(query, scale=...), n_records), with the query and "
    "the mechanism that fit (see docs/interop.md)"
)


def cannot_read(what: str, by_hand: bool = True) -> ValueError:
    """Return the error that says what cannot be read, and what to do instead.

    `by_hand` is False for what no release can state, such as a ratio.
    """
    return ValueError(f"{what}. {BY_HAND}" if by_hand else what)


def joint(values: Any, parts: list[Any], n_records: int | None, labels: Any = None) -> Release:
    """Return one release of one or several mechanisms about the same records."""
    made = parts[0] if len(parts) == 1 else mechanisms.Several(parts, labels=labels)
    return Release(values, made, n_records)
