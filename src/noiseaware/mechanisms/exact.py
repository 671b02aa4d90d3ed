"""Numbers without noise: what the curator held invariant.

A census publishes some totals as they are, beside noisy ones. log g is 0 if the total is the
published number and minus infinity if not: the records are those that give it. A chain has to
begin at such a table and stay on them, by its counts (`noiseaware.counts`) or, beside a joint or a
local mechanism, by exchanges of records (`moves.ExchangeMove`); a model whose records are not of
finitely many kinds is refused.

An exact number has no privacy. The guarantee of noisy numbers beside it compares only databases
that agree on the exact ones.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Query, query_abilities
from noiseaware.mechanisms.additive import SeparableMechanism
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.ready import check_values
from noiseaware.mechanisms.terms import EXACT, SeparableDensity, additive_terms
from noiseaware.queries import Count
from noiseaware.registry import MECHANISMS


class Exact(SeparableMechanism):
    """The total itself, with no noise: what the curator held invariant.

    Usually a part of `Several`, beside noisy numbers about the same records.

    Parameters
    ----------
    query
        What was asked of the database; its totals are integers.

    Examples
    --------
    >>> import noiseaware as na
    >>> people = na.mechanisms.Exact(na.queries.Linear([[1, 1, 0, 0]], ["in the north"]))
    >>> people.log_density([12.0], [12.0]), people.log_density([12.0], [11.0])
    (0.0, -inf)
    """

    needed, optional_arguments = ("query",), ()
    example_arguments: ClassVar[dict[str, Any]] = {"query": Count.example()}

    def __init__(self, query: Query) -> None:
        self._hold_query(query, "change")
        if not query_abilities(query).integer_valued:
            raise ValueError(
                "query must have totals that are integers for Exact: the counts of a table are "
                f"found from them; those of {type(query).__name__} are not"
            )
        reason = "exact numbers were published, which have no privacy"
        self.guarantee = Guarantee("unknown", reason=reason)

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the published numbers as a new float64 array (d,); ValueError if not integers."""
        array = check_values(values, self.query.names, integers=False)
        wrong = np.flatnonzero(array != np.floor(array))
        if wrong.size:
            j = wrong[0]
            raise ValueError(
                f"exact values must be integers; got {array[j]} for {self.query.names[j]!r}"
            )
        return array

    def terms(self, values: ArrayLike) -> SeparableDensity:
        return additive_terms(EXACT, self.check_values(values), 1.0)

    def exact_parts(self, values: ArrayLike) -> list[tuple[Query, Floats]]:
        """Return what was published without noise: the query and its totals."""
        return [(self.query, self.check_values(values))]

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return 0: of all releases, the total itself has probability 1."""
        return 0.0

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        return self.query.statistic(records).sum(axis=0)

    def words(self) -> list[str]:
        return ["These numbers were published as they are, without noise."]


MECHANISMS.add(Exact)
