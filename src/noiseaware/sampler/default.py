"""Which moves `sample` uses when nobody chooses."""

from __future__ import annotations

from typing import Any

from noiseaware.sampler.moves import algorithm1
from noiseaware.sampler.target import Target


def default_moves(target: Target) -> tuple[Any, ...]:
    """Pick the moves from what the model can do."""
    return algorithm1()
