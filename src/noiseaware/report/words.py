"""What a privacy guarantee promises, in sentences for the report."""

from __future__ import annotations

import math
from typing import Any

from noiseaware.mechanisms import Guarantee

__all__ = ["promise"]


def promise(guarantee: Any) -> list[str]:
    """Return what a guarantee means for one person in the database, in sentences."""
    if not isinstance(guarantee, Guarantee):
        return ["The mechanism does not say what it promises."]
    kind = guarantee.kind
    if kind == "unknown":
        return [f"No promise can be stated: {guarantee.reason}."]
    if guarantee.neighbours == "change":
        pair = (
            "Compare the database with one in which the content of a single record is different; "
            "the number of records is public and stays the same."
        )
    else:
        pair = "Compare the database with one that has a single record more or less."
    return [pair, *_strength(guarantee, kind)]


def _strength(guarantee: Any, kind: str) -> list[str]:
    if kind in ("pure", "approximate"):
        likelier = (
            f"is at most {math.exp(guarantee.epsilon):.3g} times as likely under one as under the "
            f"other (e to the power of ε = {guarantee.epsilon:.4g})"
        )
        if kind == "approximate":
            extra = f"up to an extra probability δ = {guarantee.delta:.3g}"
            return [f"Every set of releases {likelier}, {extra}."]
        return [
            f"Every possible release {likelier}. Whoever sees the release can therefore learn only "
            "so much about any one record."
        ]
    strength = (
        "Telling the two apart from the release is at least as hard as telling, from one draw, a "
        f"normal distribution with mean 0 from one with mean μ = {guarantee.mu:.4g}, both with "
        "standard deviation 1."
        if kind == "GDP"
        else "How far the release can tell the two apart is bounded on average over its noise: the "
        f"Rényi divergence of each order α is at most α times ρ = {guarantee.rho:.4g}."
    )
    usual = f"ε = 1 with δ = {guarantee.delta_at(1.0):.2g}"
    return [strength, f"In the more usual terms this is {usual}."]
