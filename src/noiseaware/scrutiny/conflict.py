"""Whether the prior and the release contradict one another.

A prior in the wrong units (dollars, where it expects standardised numbers) gives a posterior that
is exact and useless, and nothing in the chains says so. Three questions do.

**Could the prior have made this release?** Let s_1, ..., s_m be releases simulated with theta from
the prior, and D a number that is fixed before the release is looked at: here how far a release is
from the middle of others of them, in the coordinate where it is furthest. If prior, model and
mechanism are right, s_dp, s_1, ..., s_m are independent with the same law, so that

    P(D(s_dp) > D(s_k) for all k) <= 1 / (m + 1),

whatever that law is. The simulation ends at the first s_k that is as far out as s_dp (Besag and
Clifford 1991). It is then needed k times or more with probability 1/k, so that a release which is
no surprise costs a few simulations, and only one that is ends with all m.

**Could the prior have made this posterior?** Under the same law a draw of the posterior, with
s_dp averaged out, is a draw of the prior. So with D of theta instead of a release,

    P(D(theta) > D(theta_k) for all k) <= 1 / (m + 1)

for a draw theta of the posterior and theta_1, ..., theta_m of the prior. If that holds for half of
the draws of a posterior, then by Markov's inequality such a posterior has probability at most
2 / (m + 1).

**Was the query made for such records?** Bounds of 0 to 200,000 are for records that vary by
thousands. Where a prior holds them within a hundredth of what the query allows for, and what is
left is also small against the noise, no release can contradict the prior and none can say
anything: the posterior is the prior. This is no question of chance.

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
"""Simulated releases, and draws of the prior, that must all be nearer for a verdict."""

REFERENCE = 50
"""Simulations that say where the middle is, and how far is far."""

SHARE_OF_QUERY, SHARE_OF_NOISE = 0.01, 0.03
"""Records vary by less than this share of the sensitivity, and totals by less than this of the
noise: then the query was made for other records, and the release says nothing of these."""

MOST_RECORDS = 20_000
"""Larger databases are not made 20,000 times for the sake of this: only the posterior is looked at.
So many records say enough for it to leave a prior that is wrong about them."""

LARGEST = 10 * MOST_RECORDS
"""Of the databases of a model whose prior says how many records there are, larger ones are not
made. They count as further out than the release, so that nothing is said by mistake."""

SHOWN = 1000
"""Records of a simulated database from which it is seen how much records vary."""


@dataclass(frozen=True)
class Conflict:
    """The answers to the three questions, in words; "" if all is well."""

    release: str = ""
    posterior: str = ""
    query: str = ""


class Far:
    """How far a row of numbers is from the middle of some reference rows, (R, k)."""

    def __init__(self, rows: np.ndarray) -> None:
        self.middle = np.nanmedian(rows, axis=0)
        low, high = np.nanquantile(rows, (0.1, 0.9), axis=0)
        self.above, self.below = 1.0 / (high - self.middle), 1.0 / (low - self.middle)

    def each(self, rows: np.ndarray) -> np.ndarray:
        """Return the distance in each coordinate; NaN for a value that was withheld."""
        away = rows - self.middle
        return away * np.where(away > 0.0, self.above, self.below)

    def most(self, rows: np.ndarray) -> np.ndarray:
        """Return the distance in the coordinate where it is largest; NaN is not far."""
        return np.fmax.reduce(self.each(rows), axis=-1, initial=0.0)

    def place(
        self, row: np.ndarray, level: float, most: int, draw: Callable[[], np.ndarray | None]
    ) -> int | None:
        """Return where `row` is furthest, if none of `most` draws gets as far as `level`."""
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
    """Draws of the prior, and releases that they would make."""

    def __init__(self, target: Target, rng: np.random.Generator) -> None:
        self.target, self.rng = target, rng
        self.privatize: Any = target.mechanism_abilities.privatize

    def size(self) -> int:
        """Return the number of records, or about how many the prior expects."""
        return self.target.release.n_records or self.target.number(self.target.simulate(self.rng))

    # The release.

    def look_at_release(self) -> str:
        """Say where the release is further out than all that the prior would make."""
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
            f"{names[k]} is {seen[k]:.6g} in the release, where releases that the prior would make "
            f"are usually between {low:.4g} and {high:.4g}, and none of {RELEASES:,} is as far out"
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
        """Simulate a database, as a state holds it; None if it is too large, or theta too far out.

        A model of the number of records may have a prior that makes far more of them than the
        release has, now and then.
        """
        try:
            records = self.target.simulate(self.rng)
        except (ValueError, OverflowError):
            return None
        return records if self.target.number(records) <= LARGEST else None

    def row(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers that are compared: the values, or their mean and their spread.

        Where every record has a value, each is nearly all noise, and a prior that is wrong about
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
        """Say which parameter is further out in the posterior than in all draws of the prior."""
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
            f"{name} is {low:.4g} to {high:.4g} in the posterior, where the prior is usually "
            f"between {least:.4g} and {most:.4g}, and none of {PARAMETERS:,} of its draws is as "
            "far out"
        )

    def parameters(self) -> np.ndarray:
        """Draw a theta of the prior, as the row of numbers that is compared."""
        theta = self.target.sample_prior(self.rng)
        return self._rows({name: np.asarray(value)[None] for name, value in theta.items()})[0]

    def _rows(self, theta: Theta) -> np.ndarray:
        """Return draws of theta, a row each: all entries, the logarithm of those above zero."""
        columns = []
        for parameter in self.target.abilities.parameters:
            values = np.asarray(theta[parameter.name], dtype=np.float64)
            values = values.reshape(len(values), -1)
            columns.append(np.log(values) if parameter.support == "positive" else values)
        return np.concatenate(columns, axis=1)

    def _entries(self) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
        """Return the name of each entry of a row, and what leads back from the number in it."""
        return [
            (f"{p.name}{list(index) or ''}", np.exp if p.support == "positive" else np.asarray)
            for p in self.target.abilities.parameters
            for index in np.ndindex(p.shape)
        ]

    # The query.

    def look_at_query(self) -> str:
        """Say whether the query was made for records that vary far more than the prior's do."""
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
            f"one record can change the query by {size:.4g}, and under the prior records differ by "
            f"about {of_records:.2g}: the query was made for other records, and about these its "
            "noise hides everything, so that the posterior is the prior"
        )
