"""Which moves `sample` uses when nobody chooses."""

from __future__ import annotations

from noiseaware.contract import Move
from noiseaware.sampler.moves import (
    BlockSweep,
    Interweave,
    MarkovBasisMove,
    MirrorMove,
    ParameterUpdate,
    ScaleMove,
    SizeMove,
    Transport,
    algorithm1,
)
from noiseaware.sampler.moves.mirror import mirror_images
from noiseaware.sampler.target import Target


def default_moves(target: Target) -> tuple[Move, ...]:
    """Pick the moves from what the model can do.

    A table of counts is moved as such, with its probabilities integrated out. A model that builds
    its records from innovations is transported, and, if it has a kernel for p(theta | x) too, the
    two are interwoven. A model without innovations gets Algorithm 1. The kernel is the model's own,
    or a ready one if it has a prior and a likelihood only. A model that knows of a direction that
    releases do not see is moved along it, and a database that the release does not tell from its
    mirror image goes over to that. Where the number of records is not known, some are added and
    taken away.
    """
    able = target.abilities
    size = () if target.size is None else (SizeMove(),)
    if target.uses_cells and able.table_concentrations is not None and not size:
        return (MarkovBasisMove(), BlockSweep())
    if not able.can_transport:
        return (*algorithm1(), *size)
    update = (ParameterUpdate(),) if able.can_update else ()
    scale = (ScaleMove(),) if able.can_update and able.scale_records is not None else ()
    mirror = (MirrorMove(),) if mirror_images(target) else ()
    return (Interweave(*update, Transport(), *scale, *mirror, *size, BlockSweep()),)
