"""The classes under validation, the amount of simulation, and checked draws from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from noiseaware.agreement import fit
from noiseaware.agreement.arrays import usual_array
from noiseaware.contract import (
    Mechanism,
    MechanismAbilities,
    Model,
    ModelAbilities,
    QueryAbilities,
    draw_poisson_records,
    mechanism_abilities,
    model_abilities,
    query_abilities,
)
from noiseaware.maths.coordinates import Coordinates, check_theta
from noiseaware.release import Release
from noiseaware.results.checks import Verdict


@dataclass
class Case:
    """A model and a mechanism under validation, with the moves if some were given."""

    model: Model
    mechanism: Mechanism
    n: int  # records in a database
    draws: int  # of the prior, at which the plain contract is checked
    replicates: int  # independent runs of an experiment on theta
    thetas: int  # draws of theta at which records are compared
    records: int  # and how many records
    level: float  # the probability with which one experiment may fail by chance
    seed: int
    moves: Any = None
    verdicts: list[Verdict] = field(default_factory=list)  # of the checks that have run

    def rng(self, experiment: int) -> np.random.Generator:
        """Return a separate generator for each experiment."""
        return np.random.default_rng([self.seed, experiment])

    @cached_property
    def able(self) -> ModelAbilities:
        """The abilities of the model."""
        return model_abilities(self.model)

    @cached_property
    def noise(self) -> MechanismAbilities:
        """The abilities of the mechanism."""
        return mechanism_abilities(self.mechanism)

    @cached_property
    def query(self) -> QueryAbilities:
        """The abilities of the query."""
        return query_abilities(self.mechanism.query)

    @cached_property
    def coordinates(self) -> Any:
        """The coordinates in which the sampler moves theta."""
        own = self.able.coordinates
        return Coordinates(self.able.parameters) if own is None else own

    def passed(self, name: str) -> bool:
        """Whether a check found nothing wrong, or was not run."""
        return all(verdict.passed for verdict in self.verdicts if verdict.name == name)

    def numbers(self, n: int) -> np.ndarray:
        """Return indices for n records, repeating if the model fixes a smaller number."""
        return np.arange(n) % (self.able.n_records or max(n, 1))

    def draw_theta(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw theta from the prior and check it."""
        where = f"{self.able.name}.sample_prior"
        return check_theta(where, self.model.sample_prior(rng), self.able.parameters)

    def make_records(
        self, method: str, theta: dict[str, Any], n: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Make n records by one of the model's methods."""
        return fit.make_records(self.model, method, theta, self.numbers(n), rng)

    def draw_records(self, theta: dict[str, Any], n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n records as the sampler would."""
        return usual_array(self.make_records(fit.makers(self.model)[-1], theta, n, rng))

    def draw_database(
        self, rng: np.random.Generator, n: int | None = None
    ) -> tuple[dict[str, Any], np.ndarray]:
        """Draw theta and n records, or a random number of them if the model makes it random."""
        theta = self.draw_theta(rng)
        if self.able.random_size:
            return theta, draw_poisson_records(self.model, theta, rng)
        return theta, self.draw_records(theta, n or self.n, rng)

    def draw_release(
        self, n: int, rng: np.random.Generator
    ) -> tuple[dict[str, Any], np.ndarray, Release]:
        """Draw theta, n records and a release, and check the release."""
        theta = self.draw_theta(rng)
        records = self.draw_records(theta, n, rng)
        privatize: Any = self.noise.privatize
        where = f"{self.noise.name}.privatize"
        with fit.left_alone(where, records=records):
            release = privatize(records, rng)
        if not isinstance(release, Release):
            raise TypeError(
                f"{where} must return a noiseaware.Release; got {type(release).__name__}"
            )
        if release.n_records != n or release.mechanism is not self.mechanism:
            raise ValueError(
                f"{where} must return a Release by this mechanism with n_records = {n}; got one by "
                f"{release.mechanism!r} with n_records = {release.n_records}"
            )
        return theta, records, release

    def check_repeats(self, where: str, draw: Callable[[np.random.Generator], Any]) -> None:
        """Raise if two generators of the same seed give different results."""
        one, other = (draw(np.random.default_rng(self.seed)) for _ in range(2))
        pairs = [(one[k], other[k]) for k in one] if isinstance(one, dict) else [(one, other)]
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
            raise ValueError(
                f"{where} must take all its random numbers from rng; two generators of the same "
                f"seed gave {one!r} and {other!r}"
            )


def refuses(check_records: Any, records: np.ndarray) -> str | None:
    """Return the complaint of `check_records` about records, or None."""
    try:
        if check_records is not None:
            check_records(records)
    except (ValueError, TypeError) as error:
        return str(error)
    return None
