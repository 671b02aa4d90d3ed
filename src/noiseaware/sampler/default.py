"""Which moves `sample` uses by default."""

from __future__ import annotations

from collections.abc import Sequence

from noiseaware.contract import Model, Move, Size, move_abilities
from noiseaware.counts.parts import count_target, why_not_counts
from noiseaware.release import Release
from noiseaware.sampler.moves import (
    BlockSweep,
    CellMove,
    ConditionalMove,
    CountMove,
    CountTransport,
    ExchangeMove,
    FiniteMove,
    GroupMove,
    Interweave,
    LevelMove,
    MirrorMove,
    ParameterUpdate,
    RecordSweep,
    ScaleMove,
    SizeMove,
    Transport,
    algorithm1,
)
from noiseaware.sampler.moves.level import can_follow
from noiseaware.sampler.moves.mirror import mirror_images
from noiseaware.sampler.target import Target


def make_target(
    model: Model,
    release: Release,
    moves: Sequence[Move] | None = None,
    size: Size | None = None,
) -> Target:
    """Return the target for some moves: counts, if they move counts or nobody chose."""
    on_counts = not why_not_counts(model, release, size) if moves is None else _about_counts(moves)
    return (count_target if on_counts else Target)(model, release, size)


def _about_counts(moves: Sequence[Move]) -> bool:
    """Whether one of the moves, or of those inside them, is about counts."""
    parts = [move_abilities(move) for move in moves] if isinstance(moves, Sequence) else []
    return any(part.on_counts or _about_counts(part.moves) for part in parts)


def default_moves(target: Target) -> tuple[Move, ...]:
    """Choose the moves by what the model and the release allow.

    Cells released one by one are summed out, and so are records of few values. Counts are moved
    directly, with the model's probabilities integrated out, or with its parameters following where
    they are linear in the logarithms of its means.

    A model that builds its records from innovations is transported, interwoven with its kernel for
    p(theta | x) if it has one. A model without innovations gets Algorithm 1. The kernel is the
    model's own, or a ready one if it only has a prior and a likelihood. Further moves follow if the
    model allows: along a direction that releases do not see; redrawing records with the total held,
    where theta moves them without a jump; the levels of groups, one by one; and to a mirror image
    that the release cannot tell apart.

    Where the number of records is unknown, some are added and removed. Where exact numbers stand
    beside a joint or local mechanism, records are exchanged so that these stay.
    """
    able = target.abilities
    if target.on_counts:
        if target.integrated:
            return (CountMove(),)
        sized = able.random_size and target.release.n_records is not None
        carried = able.log_prior is not None and not sized
        carry = (CountTransport(),) if carried else ()
        return (ParameterUpdate(), *carry, CountMove(follow=able.log_linear is not None))
    if target.has_exact:
        return (*algorithm1(), ExchangeMove())
    size = () if target.size is None else (SizeMove(1 if able.can_transport else 4),)
    if target.summed_kernel is not None:
        return (CellMove(),)
    if target.column_laws is not None:
        return (ConditionalMove(),)
    if target.listed is not None:
        return (*((ParameterUpdate(),) if able.can_update else ()), FiniteMove())
    if not able.can_transport:
        return (*algorithm1(), *size)
    update = (ParameterUpdate(),) if able.can_update else ()
    scale = (ScaleMove(),) if able.can_update and able.scale_records is not None else ()
    if target.levels is not None:
        moves = (Transport(hold_levels=True), GroupMove(), *scale)
    else:
        level = (LevelMove(),) if can_follow(target) else ()
        mirror = (MirrorMove(),) if mirror_images(target) else ()
        moves = (Transport(), *level, *scale, *mirror)
    return (Interweave(*update, *moves, *size, BlockSweep()),)


def moves_of_records(target: Target) -> tuple[Move, ...]:
    """Return moves for p(x | theta, s_dp), for records or their counts, with theta held."""
    if target.on_counts:
        return (CountMove(),)
    if target.has_exact:
        return (RecordSweep(), ExchangeMove())
    return (BlockSweep(),) if target.size is None else (SizeMove(), BlockSweep())
