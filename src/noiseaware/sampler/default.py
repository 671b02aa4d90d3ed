"""Which moves `sample` uses when nobody chooses."""

from __future__ import annotations

from noiseaware.contract import Move
from noiseaware.sampler.moves import (
    BlockSweep,
    Interweave,
    MarkovBasisMove,
    ParameterUpdate,
    ScaleMove,
    Transport,
    algorithm1,
)
from noiseaware.sampler.target import Target


def default_moves(target: Target) -> tuple[Move, ...]:
    """Pick the moves from what the model can do.

    A table of counts is moved as such, with its probabilities integrated out. A model that builds
    its records from innovations is transported, and, if it has a kernel for p(theta | x) too, the
    two are interwoven. A model without innovations gets Algorithm 1. The kernel is the model's own,
    or a ready one if it has a prior and a likelihood only. A model that knows of a direction that
    releases do not see is moved along it.
    """
    able = target.abilities
    if target.uses_cells and able.table_concentrations is not None:
        return (MarkovBasisMove(), BlockSweep())
    if not able.can_transport:
        return algorithm1()
    if not able.can_update:
        return (Interweave(Transport(), BlockSweep()),)
    scale = () if able.scale_records is None else (ScaleMove(),)
    return (Interweave(ParameterUpdate(), Transport(), *scale, BlockSweep()),)
