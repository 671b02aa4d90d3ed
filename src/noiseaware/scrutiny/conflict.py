"""Whether the prior and the release contradict one another.

A prior in the wrong units (dollars, where it expects standardised numbers) gives a posterior that
is exact and useless, and nothing in the chains reveals it. Three questions do.

**Could the prior have made this release?** Let s_1, ..., s_m be releases simulated with theta from
the prior, and D a function fixed before looking at the release: here the distance of a release from
the middle of other simulated ones, in its most extreme coordinate. If prior, model and mechanism
are right, s_dp, s_1, ..., s_m are independent with the same distribution, so

    P(D(s_dp) > D(s_k) for all k) <= 1 / (m + 1),

whatever that distribution is. The simulation ends at the first s_k that is as far out as s_dp
(Besag and Clifford 1991). It then takes k simulations or more with probability 1/k, so that an
unsurprising release costs few, and only a surprising one takes all m.

**Could the prior have made this posterior?** If prior, model and mechanism are right, a posterior
draw, with s_dp averaged out, is a prior draw. So with D applied to theta,

    P(D(theta) > D(theta_k) for all k) <= 1 / (m + 1)

for a draw theta of the posterior and theta_1, ..., theta_m of the prior. By Markov's inequality, a
posterior for which this holds in half of the draws has probability at most 2 / (m + 1).

**Was the query made for such records?** Bounds of 0 to 200,000 are for records that vary by
thousands. If the prior confines records to within a hundredth of what the query allows for, and
their remaining variation is small against the noise, no release can contradict the prior and none
can be informative: the posterior is the prior. Chance plays no part in this question.

False alarms of the first two together have probability at most 1 / 20,001 + 2 / 60,001 < 1e-4.

References
----------
Besag, J. and Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78(2).
Evans, M. and Moshonov, H. (2006). Checking for prior-data conflict. Bayesian Analysis 1(4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseaware.contract import Theta
from noiseaware.running.run import CONFLICT, Run
from noiseaware.sampler.state import Draws
from noiseaware.sampler.target import Target
from noiseaware.scrutiny import harmless, long_enough

RELEASES = 20_000
PARAMETERS = 60_000
"""Simulated releases, and prior draws, that must all be less extreme for a verdict."""

REFERENCE = 50
"""Simulations that define the middle and the unit of distance."""

SHARE_OF_QUERY, SHARE_OF_NOISE = 0.01, 0.03
"""If records vary by less than this share of the sensitivity, and totals by less than this share of
the noise, the query was made for other records and the release says nothing about these."""

MOST_RECORDS = 20_000
"""Larger databases are too expensive to simulate 20,000 times: only the posterior is looked at.
So many records are informative enough to move it away from a prior that is wrong about them."""

LARGEST = 10 * MOST_RECORDS
"""If the prior covers the number of records, larger databases are not simulated. They count as more
extreme than the release, which can only prevent an alarm."""

SHOWN = 1000
"""Records of a simulated database used to see how much records vary."""


@dataclass(frozen=True)
class Conflict:
    """The answers to the three questions, in words; "" if there is no conflict."""

    release: str = ""
    posterior: str = ""
    query: str = ""


class Far:
    """The distance of rows of numbers from the middle of reference rows, (R, k)."""

    def __init__(self, rows: np.ndarray) -> None:
        self.middle = np.nanmedian(rows, axis=0)
        low, high = np.nanquantile(rows, (0.1, 0.9), axis=0)
        self.above, self.below = 1.0 / (high - self.middle), 1.0 / (low - self.middle)

    def each(self, rows: np.ndarray) -> np.ndarray:
        """Return the distance in each coordinate; NaN for a withheld value."""
        away = rows - self.middle
        return away * np.where(away > 0.0, self.above, self.below)

    def most(self, rows: np.ndarray) -> np.ndarray:
        """Return the distance in the coordinate where it is largest, ignoring NaN."""
        return np.fmax.reduce(self.each(rows), axis=-1, initial=0.0)

    def place(
        self, row: np.ndarray, level: float, most: int, draw: Callable[[], np.ndarray | None]
    ) -> int | None:
        """Return the most extreme coordinate of `row`, if none of `most` draws reaches `level`."""
        for _ in range(most):
            drawn = draw()
            if drawn is None or self.most(drawn) >= level:
                return None
        return int(np.nanargmax(self.each(row)))


def look(run: Run) -> Conflict | None:
    """Answer the three questions; None if the run was stopped or is too short to matter."""
    if not long_enough(run):
        return None
    with harmless("the check of the prior"), np.errstate(all="ignore"):
        simulator = Simulator(run.target, run.stream(CONFLICT))
        small = simulator.size() <= MOST_RECORDS
        release = simulator.look_at_release() if small else ""
        posterior = simulator.look_at_posterior(run.draws)
        return Conflict(release, posterior, simulator.look_at_query() if small else "")
    return None


class Simulator:
    """Simulates draws of the prior, and the releases that they would make."""

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        self.target, self.rng = target, rng
        self.privatize: Any = target.mechanism_abilities.privatize

    def size(self) -> int:
        """Return the number of records, or roughly what the prior expects."""
        return self.target.release.n_records or self.target.number(self.target.simulate(self.rng))

    # The release.

    def look_at_release(self) -> str:
        """Say where the release is more extreme than all that the prior would make."""
        if self.privatize is None:
            return ""
        made = (self.release() for _ in range(REFERENCE))
        rows = np.array([row for row in made if row is not None and not np.isnan(row).all()])
        seen = self.row(self.target.values)
        if len(rows) < REFERENCE // 2 or np.isnan(seen).all():
            return ""  # the prior hardly ever makes records that can be counted; or none were
        far = Far(rows)
        k = far.place(seen, float(far.most(seen)), RELEASES, self.release)
        if k is None:
            return ""
        names, each = self.target.release.names, self.target.mechanism_abilities.per_record
        if each:
            entries = [f" of {name}" for name in self.target.release.query.names]
            looks = ("the mean of the values", "the standard deviation of the values")
            names = tuple(look + of for look in looks for of in (entries if each > 1 else [""]))
        low, high = rows[:, k].min(), rows[:, k].max()
        return (
            f"{names[k]} is {seen[k]:.6g} in the release, but releases that the prior would make "
            f"are usually between {low:.4g} and {high:.4g}, and none of {RELEASES:,} is as extreme"
        )

    def release(self) -> np.ndarray | None:
        """Simulate a release; None if there are no records that can be counted."""
        records = self.records()
        try:
            listed = None if records is None else self.target.expand(records, self.rng)
            return None if listed is None else self.row(self.privatize(listed, self.rng).values)
        except (ValueError, OverflowError):
            return None

    def records(self) -> np.ndarray | None:
        """Simulate a database, as a state holds it; None if it is too large or theta too extreme.

        A prior on the number of records may now and then make far more of them than the release
        has.
        """
        try:
            records = self.target.simulate(self.rng)
        except (ValueError, OverflowError):
            return None
        return records if self.target.number(records) <= LARGEST else None

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers to compare: the values, or their means and standard deviations.

        If every record has a value, each value is nearly all noise, and a prior that is wrong about
        all of them shows in the mean.
        """
        each = self.target.mechanism_abilities.per_record
        if not each:
            return values
        columns = [column[~np.isnan(column)] for column in values.reshape(-1, each).T]
        return np.array(
            [look(seen) if len(seen) else np.nan for look in (np.mean, np.std) for seen in columns]
        )

    # The posterior.

    def look_at_posterior(self, draws: list[Draws]) -> str:
        """Say which parameter is more extreme in the posterior than in all draws of the prior."""
        prior = np.array([self.parameters() for _ in range(REFERENCE)])
        theta = {name: np.concatenate([d.theta[name] for d in draws]) for name in draws[0].theta}
        drawn, far = self._rows(theta), Far(prior)
        level = float(np.median(far.most(drawn)))
        k = far.place(np.median(drawn, axis=0), level, PARAMETERS, self.parameters)
        if k is None:
            return ""
        name, change = self._entries()[k]
        (low, high), (least, most) = (
            change(np.quantile(rows[:, k], (0.0, 1.0))) for rows in (drawn, prior)
        )
        return (
            f"{name} is {low:.4g} to {high:.4g} in the posterior, but usually between "
            f"{least:.4g} and {most:.4g} under the prior, and none of {PARAMETERS:,} prior draws "
            "is as extreme"
        )

    def parameters(self) -> np.ndarray:
        """Draw theta from the prior, as the row of numbers to compare."""
        theta = self.target.sample_prior(self.rng)
        return self._rows({name: np.asarray(value)[None] for name, value in theta.items()})[0]

    def _rows(self, theta: Theta) -> np.ndarray:
        """Return draws of theta, a row each: all entries, as logarithms if positive."""
        columns = []
        for parameter in self.target.abilities.parameters:
            values = np.asarray(theta[parameter.name], dtype=np.float64)
            values = values.reshape(len(values), -1)
            columns.append(np.log(values) if parameter.support == "positive" else values)
        return np.concatenate(columns, axis=1)

    def _entries(self) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
        """Return the name of each entry of a row, and the map back to its natural scale."""
        return [
            (f"{p.name}{list(index) or ''}", np.exp if p.support == "positive" else np.asarray)
            for p in self.target.abilities.parameters
            for index in np.ndindex(p.shape)
        ]

    # The query.

    def look_at_query(self) -> str:
        """Say whether the query was made for records that vary far more than the prior's."""
        target, query = self.target, self.target.query_abilities
        terms, sensitivity = target.terms, query.sensitivity
        shared = target.mechanism_abilities.statistic is None
        if not shared or terms is None or sensitivity is None:
            return ""  # the values are not totals with noise
        size = float(sensitivity(1, neighbours=query.neighbours or "change"))
        made = (self.records() for _ in range(REFERENCE))
        databases = [records for records in made if records is not None]
        if len(databases) < REFERENCE // 2:
            return ""
        listed = (target.expand(records, self.rng)[:SHOWN] for records in databases)
        rows = [target.release.query.statistic(records) for records in listed]
        totals = [target.total(records) for records in databases]
        of_records = float(np.concatenate(rows).std(axis=0).sum())
        of_noise = float((np.std(totals, axis=0) * terms.parameters[:, 1]).max())
        if not (of_records < SHARE_OF_QUERY * size and of_noise < SHARE_OF_NOISE):
            return ""
        return (
            f"one record can change the query by {size:.4g}, but under the prior records differ "
            f"only by about {of_records:.2g}: the query was made for other records, its noise "
            "hides everything about these, and the posterior is merely the prior"
        )
