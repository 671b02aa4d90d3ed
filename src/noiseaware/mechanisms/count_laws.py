"""Published counts whose law depends on the true count: rounded, by cell keys, as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import first_line
from noiseaware.contract import Floats
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.local import LocalMechanism, stochastic
from noiseaware.mechanisms.terms import EXACT, GAUSSIAN, N_PARAMETERS, TABLE, CellLaws
from noiseaware.queries import Value
from noiseaware.registry import MECHANISMS


class CountLaw(LocalMechanism):
    """A published count whose law depends on the true count; a subclass gives the table."""

    discrete = True
    can_withhold = True
    needed: ClassVar[tuple[str, ...]] = ()
    optional_arguments: ClassVar[tuple[str, ...]] = ()
    promise: ClassVar[str]
    """Why no guarantee is stated."""

    def _hold(self) -> None:
        self.query = Value()
        self.guarantee = Guarantee("unknown", reason=self.promise)

    def _possible(self, value: float) -> tuple[int, Floats]:
        """Return the first true count that can give this value, and P(value | x) from it on."""
        raise NotImplementedError

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (n,); NaN is no value.

        Raises
        ------
        ValueError
            If one of them cannot be published.
        """
        array = super().check_values(values)
        possible = {
            value: (self._possible(value)[1] > 0.0).any() for value in set(array[~np.isnan(array)])
        }
        wrong = np.array([not possible.get(value, True) for value in array], dtype=bool)
        self._refuse(f"what {type(self).__name__} can publish", array, wrong)
        return array

    def record_laws(self, values: Floats) -> CellLaws:
        """Return log P(s_i | x_i) as tables, one for each different value."""
        family = np.full(len(values), TABLE)
        parameters = np.zeros((len(values), N_PARAMETERS))
        nothing = np.isnan(values)
        family[nothing] = GAUSSIAN
        tables, at = [np.zeros(0)], 0
        for value in np.unique(values[~nothing]):
            first, probabilities = self._possible(float(value))
            with np.errstate(divide="ignore"):
                tables.append(np.log(probabilities))
            parameters[values == value, :3] = first, at, len(probabilities)
            at += len(probabilities)
        return CellLaws(family, parameters, np.concatenate(tables))

    def record_constants(self, values: Floats) -> Floats:
        """Return zeros: log h is the log of a probability."""
        return np.zeros(len(values))

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return 0: log g is the log of a probability."""
        return 0.0

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp) = log P(s_i | x_i), (m, 1)."""
        family, parameters, table = self.record_laws(values[index])
        place = np.asarray(records, dtype=np.int64) - parameters[:, 0].astype(np.int64)
        inside = (family == TABLE) & (place >= 0) & (place < parameters[:, 2])
        scores = np.where(family == TABLE, -np.inf, 0.0)
        scores[inside] = table[parameters[inside, 1].astype(np.int64) + place[inside]]
        return scores[:, np.newaxis]

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [first_line(self), f"There is no guarantee: {self.promise}."]


class RandomRounding(CountLaw):
    """Counts rounded at random to a multiple of a base, up or down, so that the mean is kept.

    A multiple stays as it is. Any other count x goes up with probability (x mod base) / base, and
    down otherwise: Statistics New Zealand's random rounding to base 3, for example.

    Parameters
    ----------
    base
        At least 2.
    """

    needed = ("base",)
    promise = "random rounding is not differential privacy, a multiple of the base is exact"

    def __init__(self, base: int = 3) -> None:
        self.base = whole_number("base", base, 2)
        self._hold()

    def _possible(self, value: float) -> tuple[int, Floats]:
        if value < 0 or value % self.base:
            return 0, np.zeros(1)
        first = max(0, int(value) - self.base + 1)
        x = np.arange(first, int(value) + self.base)
        return first, 1.0 - np.abs(x - value) / self.base

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        below = records // self.base * self.base
        up = rng.random(len(records)) * self.base < records - below
        return (below + self.base * up).astype(np.float64)

    @classmethod
    def example(cls) -> RandomRounding:
        """Return a small one."""
        return cls(base=3)


class CellKey(CountLaw):
    """Counts perturbed by a table of probabilities, as cell-key methods do.

    Parameters
    ----------
    probabilities
        (K, D). Row x has the probabilities of the perturbations `lowest`, `lowest` + 1, ... of a
        true count x; the last row is that of all larger counts.
    lowest
        The smallest perturbation.

    Examples
    --------
    >>> import noiseaware as na
    >>> table = [[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]]  # 0 stays; others go down, stay, go up
    >>> print(na.mechanisms.CellKey(table, lowest=-1).guarantee.kind)
    unknown
    """

    needed = ("probabilities", "lowest")
    promise = "perturbation by a table is not differential privacy"

    def __init__(self, probabilities: ArrayLike, lowest: int) -> None:
        table = np.array(probabilities, dtype=np.float64)
        self.probabilities = stochastic("probabilities", table, table.shape)
        if isinstance(lowest, bool) or int(lowest) != lowest:
            raise ValueError(f"lowest must be an integer; got {lowest!r}")
        self.lowest = int(lowest)
        for x, row in enumerate(self.probabilities):
            below = np.flatnonzero((row > 0.0) & (x + self.lowest + np.arange(len(row)) < 0))
            if below.size:
                raise ValueError(
                    f"probabilities must publish no negative count; row {x} has "
                    f"{row[below[0]]} for {x + self.lowest + int(below[0])}"
                )
        self._hold()

    def _possible(self, value: float) -> tuple[int, Floats]:
        K, D = self.probabilities.shape
        first = max(0, int(value) - self.lowest - D + 1)
        x = np.arange(first, max(first, int(value) - self.lowest) + 1)
        change = int(value) - x - self.lowest
        inside = (change >= 0) & (change < D)
        found = self.probabilities[np.minimum(x, K - 1), np.clip(change, 0, D - 1)]
        return first, np.where(inside, found, 0.0)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        rows = np.cumsum(self.probabilities, axis=1)[
            np.minimum(records, len(self.probabilities) - 1)
        ]
        place = (rng.random(len(records))[:, np.newaxis] >= rows).sum(axis=1)
        place = np.minimum(place, self.probabilities.shape[1] - 1)
        return (records + self.lowest + place).astype(np.float64)

    @classmethod
    def example(cls) -> CellKey:
        """Return a small one."""
        return cls([[0.0, 1.0, 0.0], [0.3, 0.4, 0.3]], lowest=-1)


class LocalExact(CountLaw):
    """Each record's number as it is.

    Parameters
    ----------
    integer_valued
        Whether the numbers are counts or levels, from 0; otherwise they are any real numbers.
    """

    optional_arguments = ("integer_valued",)
    promise = "the numbers are published as they are"

    def __init__(self, *, integer_valued: bool = True) -> None:
        self._hold()
        self.integer_valued = self.discrete = bool(integer_valued)
        self.query = Value(integer_valued=self.integer_valued)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (n,); NaN is no value."""
        return (CountLaw if self.integer_valued else LocalMechanism).check_values(self, values)

    def record_laws(self, values: Floats) -> CellLaws:
        """Return that x_i is s_i, or nothing."""
        if self.integer_valued:
            return super().record_laws(values)
        nothing = np.isnan(values)
        parameters = np.zeros((len(values), N_PARAMETERS))
        parameters[~nothing, 0] = values[~nothing]
        return CellLaws(np.where(nothing, GAUSSIAN, EXACT), parameters, np.zeros(0))

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return 0 where x_i is s_i, or s_i is not there, and minus infinity elsewhere, (m, 1)."""
        seen = values[index]
        right = np.isnan(seen) | (seen == np.asarray(records, dtype=np.float64))
        return np.where(right, 0.0, -np.inf)[:, np.newaxis]

    def _possible(self, value: float) -> tuple[int, Floats]:
        return max(0, int(value)), np.array([float(value >= 0)])

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return np.asarray(records, dtype=np.float64)

    @classmethod
    def example(cls) -> LocalExact:
        """Return one."""
        return cls()


for kind in (RandomRounding, CellKey, LocalExact):
    MECHANISMS.add(kind)
