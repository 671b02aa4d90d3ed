"""The state of a chain between two iterations, and the draws of a segment of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class ChainState:
    """All that the next iteration needs; a chain is a pure function of it."""

    theta: dict[str, np.ndarray]
    """The parameters, one array per name."""
    records: np.ndarray
    """The imputed confidential database, first axis the record."""
    innovations: np.ndarray | None
    """u with records = F(u; theta), where the chain has to carry it; otherwise None."""
    rng: np.random.Generator
    iteration: int = 0
    """Iterations done so far, warm-up included."""
    tunings: list[dict[str, Any]] = field(default_factory=list)
    """One dictionary a move: what it learned in warm-up."""
    acceptance: np.ndarray = field(init=False)
    """Accepted proposals for each record since warm-up ended, (n,)."""
    sweeps: int = 0
    """Passes over all records since warm-up ended."""

    def __post_init__(self) -> None:
        self.acceptance = np.zeros(len(self.records), dtype=np.int64)

    def set_records(self, records: np.ndarray, innovations: np.ndarray | None) -> None:
        """Replace the database, possibly by one with another number of records."""
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
    """The draws of a segment of a chain, without warm-up."""

    theta: dict[str, np.ndarray]
    """(draws, *shape) for each parameter."""
    reports: dict[str, np.ndarray]
    """(draws,) for each number that a move reports."""
    databases: list[np.ndarray]
    """The imputed databases to keep, in order."""

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
        """Concatenate segments of one chain."""
        return Draws(
            {name: np.concatenate([p.theta[name] for p in parts]) for name in parts[0].theta},
            {name: np.concatenate([p.reports[name] for p in parts]) for name in parts[0].reports},
            [database for p in parts for database in p.databases],
        )
