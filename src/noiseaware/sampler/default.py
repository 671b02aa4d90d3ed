"""Which moves `sample` uses when nobody chooses."""

from __future__ import annotations

from typing import Any

from noiseaware.sampler.moves import (
    BlockSweep,
    Interweave,
    ParameterUpdate,
    Stretch,
    TableSteps,
    Transport,
    algorithm1,
)
from noiseaware.sampler.target import Target


def default_moves(target: Target) -> tuple[Any, ...]:
    """Pick the moves from what the model can do.

    A table of counts is moved as such, with its probabilities integrated out. A model that builds
    its records from innovations is transported, and, if it has a kernel for p(theta | x) too, the
    two are interwoven. A model without innovations gets Algorithm 1. The kernel is the model's own,
    or a ready one if it has a prior and a likelihood only. A model that knows of a direction that
    releases do not see is stretched along it.
    """
    if target.uses_cells and getattr(target.model, "table_concentrations", None) is not None:
        return (TableSteps(), BlockSweep())
    if not target.can_transport:
        return algorithm1()
    if target.can_update:
        stretch = (Stretch(),) if hasattr(target.model, "stretch_records") else ()
        return (Interweave(ParameterUpdate(), Transport(), *stretch, BlockSweep()),)
    return (Interweave(Transport(), BlockSweep()),)
