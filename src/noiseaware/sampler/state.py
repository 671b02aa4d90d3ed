"""What a chain is between two iterations, and what a segment of it leaves behind."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class ChainState:
    """All that the next iteration needs; a chain is a pure function of it.

    Attributes
    ----------
    theta
        The parameters, one array per name.
    records
        The imputed confidential database, first axis the record.
    innovations
        u with records = F(u; theta), where the chain has to carry it; otherwise None.
    rng
        The chain's own random generator.
    iteration
        Iterations done so far, warm-up included.
    tunings
        One dictionary a move: what it learned in warm-up.
    acceptance
        How often each record's proposal was accepted since warm-up ended, (n,).
    sweeps
        How often all records were gone through since warm-up ended.
    """

    theta: dict[str, np.ndarray]
    records: np.ndarray
    innovations: np.ndarray | None
    rng: np.random.Generator
    iteration: int = 0
    tunings: list[dict[str, Any]] = field(default_factory=list)
    acceptance: np.ndarray = field(init=False)
    sweeps: int = 0

    def __post_init__(self) -> None:
        self.acceptance = np.zeros(len(self.records), dtype=np.int64)

    def set_records(self, records: np.ndarray, innovations: np.ndarray | None) -> None:
        """Put another database in place, which may have more records or fewer."""
        self.records, self.innovations = records, innovations
        more = len(records) - len(self.acceptance)
        if more > 0:
            self.acceptance = np.append(self.acceptance, np.zeros(more, dtype=np.int64))
        elif more < 0:
            self.acceptance = self.acceptance[: len(records)].copy()

    def copy(self) -> ChainState:
        """Return a state that shares nothing with this one."""
        return copy.deepcopy(self)


@dataclass
class Draws:
    """What a segment of a chain leaves behind, warm-up not included.

    Attributes
    ----------
    theta
        (draws, *shape) for each parameter.
    reports
        (draws,) for each number that a move reports.
    databases
        The imputed databases that were to be kept, in order.
    """

    theta: dict[str, np.ndarray]
    reports: dict[str, np.ndarray]
    databases: list[np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.theta.values())))

    def first(self, count: int) -> Draws:
        """Only the first `count` draws, with all the databases."""
        return Draws(
            {name: values[:count] for name, values in self.theta.items()},
            {name: values[:count] for name, values in self.reports.items()},
            self.databases,
        )

    @staticmethod
    def join(parts: list[Draws]) -> Draws:
        """Put segments of one chain one after another."""
        return Draws(
            {name: np.concatenate([p.theta[name] for p in parts]) for name in parts[0].theta},
            {name: np.concatenate([p.reports[name] for p in parts]) for name in parts[0].reports},
            [database for p in parts for database in p.databases],
        )
