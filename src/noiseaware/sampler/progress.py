"""Progress of a run: one row for each chain on the terminal, or nothing."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from numba.core import event as numba_event

from noiseaware.sampler.chain import Schedule


class Progress(Protocol):
    """What the runner reports as chains advance."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        return

    def update(self, chain: int, iteration: int, acceptance: float | None) -> None:
        """Chain `chain` has done `iteration` iterations; its latest acceptance rate."""
        return


class Silent(Progress):
    """Shows nothing, so that the runner needs no `if`."""

    def __init__(self, chains: int, schedule: Schedule) -> None:
        pass


COMPILING = "compiling (first time only)"


class Rows(numba_event.Listener):
    """A rich row for each chain: phase, bar, acceptance, time left.

    The rows also say when functions are being compiled. They appear with the first message.
    """

    def __init__(self, chains: int, schedule: Schedule) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._schedule, self._advanced = schedule, False
        self._rich = RichProgress(
            TextColumn("chain {task.fields[chain]}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[phase]}"),
            TextColumn("accepts {task.fields[acceptance]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
        )
        self._rows = [
            self._rich.add_task(
                "", total=schedule.iterations, chain=chain, phase="warming", acceptance="   -"
            )
            for chain in range(chains)
        ]

    def __enter__(self) -> Rows:
        numba_event.register("numba:compile", self)
        return self

    def __exit__(self, kind, error, trace) -> None:
        numba_event.unregister("numba:compile", self)
        if self._rich.live.is_started:
            # A run refused before it begins leaves no rows behind.
            self._rich.live.transient = kind is not None and not self._advanced
            self._rich.__exit__(kind, error, trace)

    def on_start(self, event: Any) -> None:
        """Say that a function is being compiled; numba calls this."""
        self._rich.start()
        for row in self._rows:
            self._rich.update(row, phase=COMPILING)

    def on_end(self, event: Any) -> None:
        """Leave the message: the next iterations replace it."""

    def update(self, chain: int, iteration: int, acceptance: float | None) -> None:
        """Advance the chain's row."""
        self._rich.start()
        self._advanced = self._advanced or iteration > 0
        phase = "warming" if iteration < self._schedule.warmup else "drawing"
        shown = "   -" if acceptance is None else f"{acceptance:4.0%}"
        row = self._rows[chain]
        self._rich.update(row, completed=iteration, phase=f"{phase:7}", acceptance=shown)
