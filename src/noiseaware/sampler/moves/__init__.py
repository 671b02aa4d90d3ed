"""How a chain advances: one file a move.

A move is a small object with the members of `noiseaware.contract.Move`, which change the state of a
chain so that p(theta, x | s_dp) is invariant and learn in warm-up only. A list of moves done one
after another is a sampler; `algorithm1()` is the paper's.
"""

from __future__ import annotations

from noiseaware.basics.deprecated import renamed
from noiseaware.counts.move import CountMove
from noiseaware.sampler.moves.cells import CellMove
from noiseaware.sampler.moves.conditional import ConditionalMove
from noiseaware.sampler.moves.count_transport import CountTransport
from noiseaware.sampler.moves.exchange import ExchangeMove
from noiseaware.sampler.moves.finite import FiniteMove
from noiseaware.sampler.moves.groups import GroupMove
from noiseaware.sampler.moves.interweave import Interweave
from noiseaware.sampler.moves.level import LevelMove
from noiseaware.sampler.moves.mirror import MirrorMove
from noiseaware.sampler.moves.parameters import ParameterUpdate
from noiseaware.sampler.moves.records import BlockSweep, RecordSweep
from noiseaware.sampler.moves.scale import ScaleMove
from noiseaware.sampler.moves.size import SizeMove
from noiseaware.sampler.moves.transport import Transport

__all__ = [
    "BlockSweep",
    "CellMove",
    "ConditionalMove",
    "CountMove",
    "CountTransport",
    "ExchangeMove",
    "FiniteMove",
    "GroupMove",
    "Interweave",
    "LevelMove",
    "MirrorMove",
    "ParameterUpdate",
    "RecordSweep",
    "ScaleMove",
    "SizeMove",
    "Transport",
    "algorithm1",
]


def algorithm1() -> tuple[ParameterUpdate, RecordSweep]:
    """Algorithm 1 of Ju, Awan, Gong and Rao (2022), as published.

    Step 1 updates theta by the model's kernel for p(theta | x); step 2 goes through the records,
    proposes each from the model, and accepts by the ratio of the mechanism's densities.
    """
    return (ParameterUpdate(), RecordSweep())


__getattr__ = renamed(
    "noiseaware.moves",
    {
        "Stretch": ("noiseaware.moves.ScaleMove", ScaleMove),
        "TableSteps": ("noiseaware.moves.CountMove", CountMove),
    },
    {
        "Autoregressive": "it is now an example: CrankNicolson in examples/moves/crank_nicolson.py",
        "FullConditional": "it is now an example: examples/moves/full_conditional.py",
        "Soma": "it is now an example: examples/moves/soma.py",
    },
)
