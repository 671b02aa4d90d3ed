"""The error for what another library has made and noiseaware cannot read."""

from __future__ import annotations

BY_HAND = (
    "If you know how the numbers were made, write the release by hand: "
    "na.Release(values, na.mechanisms.Laplace(query, scale=...), n_records), with the query and "
    "the mechanism that fit (see docs/interop.md)"
)


def cannot_read(what: str, by_hand: bool = True) -> ValueError:
    """Return the error to raise: what cannot be read, and what to do instead.

    `by_hand` is False for what no release can state: a ratio, or a choice among candidates.
    """
    return ValueError(f"{what}. {BY_HAND}" if by_hand else what)
