"""Several attributes of every record, each released by a local mechanism of its own.

A person answers two questions by randomized response, an area has two noisy counts, one column is
published as it is: record i has the released values s_i1, ..., s_ik, made independently from its
columns,

    log g(s_dp, x) = sum_i sum_j log h_j(s_ij | x_i[c_j]),

so t_i(x_i, s_dp) = sum_j log h_j(s_ij | x_i[c_j]), one number, as for each part alone (`local`).
All of the values are about one person, so the promises of the parts are composed (`several`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import query_words
from noiseaware.basics.frames import as_table
from noiseaware.contract import (
    Floats,
    Mechanism,
    Neighbours,
    mechanism_abilities,
    missing,
    query_abilities,
)
from noiseaware.mechanisms.local import LocalMechanism
from noiseaware.mechanisms.randomized_response import RandomizedResponse
from noiseaware.mechanisms.ready import log_normaliser, mechanism_words
from noiseaware.mechanisms.several import checked_labels, composed, read_parts
from noiseaware.registry import MECHANISMS
from noiseaware.release import check_values


class ColumnQueries:
    """What is asked of each attribute; made by `Attributes`."""

    def __init__(
        self, queries: Sequence[Any], labels: Sequence[str], columns: Sequence[int]
    ) -> None:
        self.queries, self.names = tuple(queries), tuple(labels)
        self.columns = tuple(columns)
        in_order = self.columns == tuple(range(len(self.columns)))
        self.column_names = self.names if in_order else None

    def __repr__(self) -> str:
        parts = zip(self.names, self.queries, strict=True)
        return "; ".join(f"{name}: {query!r}" for name, query in parts)

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the statistics of all attributes side by side."""
        array = np.asarray(records)
        parts = zip(self.queries, self.columns, strict=True)
        return np.concatenate([query.statistic(array[:, c]) for query, c in parts], axis=1)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return a bound on how far one record can move them: the norm of the parts' own."""
        parts = [query.sensitivity(norm, neighbours=neighbours) for query in self.queries]
        return float(np.linalg.norm(parts, norm))

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless each column fits its query."""
        array = np.asarray(records)
        if array.ndim != 2 or array.shape[1] <= max(self.columns):
            raise ValueError(
                f"records must have at least {max(self.columns) + 1} columns, one for each "
                f"attribute; got shape {array.shape}"
            )
        for query, name, c in zip(self.queries, self.names, self.columns, strict=True):
            check = query_abilities(query).check_records
            try:
                if check is not None:
                    check(array[:, c])
            except (ValueError, TypeError) as error:
                raise type(error)(f"attribute {name!r}: {error}") from None

    def words(self) -> list[str]:
        """Return what was asked, in sentences for the report."""
        return [
            f"({name}) {' '.join(query_words(query))}"
            for name, query in zip(self.names, self.queries, strict=True)
        ]


class Attributes(LocalMechanism):
    """Several attributes of every record, each released by a local mechanism of its own.

    Parameters
    ----------
    mechanisms
        A local mechanism for each released value of a record: `RandomizedResponse`, `LocalLaplace`
        and so on, `LocalExact` for an attribute that is published as it is.
    labels
        Their names; "1", "2", ... if not given.
    columns
        The column of a record that each of them is about; the first, the second, ... if not given.
        A column that is not in the list is not released.

    Examples
    --------
    >>> import noiseaware as na
    >>> answer = na.mechanisms.RandomizedResponse(n_levels=2, truth=0.75)
    >>> both = na.mechanisms.Attributes([answer, answer], labels=["smokes", "drinks"])
    >>> release = na.Release([[0, 1], [1, 1], [0, 0]], both, n_records=3)
    >>> release.names[:2]
    ('record 0: smokes', 'record 0: drinks')
    >>> round(both.guarantee.epsilon, 4)  # 2 log 3
    2.1972
    """

    needed, optional_arguments = ("mechanisms",), ("labels", "columns", "guarantee")
    discrete = False

    def __init__(
        self,
        mechanisms: Iterable[Any],
        labels: Sequence[str] | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        if not missing(mechanisms, Mechanism):
            raise TypeError(f"mechanisms must be a list of mechanisms; got {mechanisms!r}")
        self.mechanisms = tuple(mechanisms)
        if not self.mechanisms:
            raise ValueError("mechanisms must hold at least one mechanism; got none")
        able = [mechanism_abilities(mechanism) for mechanism in self.mechanisms]
        for part in able:
            if part.per_record != 1 or part.statistic is None:
                raise TypeError(
                    "mechanisms must be local, such as RandomizedResponse or LocalLaplace; got "
                    f"{part.mechanism!r}"
                )
        k = len(self.mechanisms)
        self.labels = checked_labels(labels, k)
        given = range(k) if columns is None else columns
        self.columns = [whole_number("columns", column, 0) for column in given]
        if len(self.columns) != k:
            raise ValueError(f"columns must be {k}, one for each mechanism; got {columns!r}")
        self.query = ColumnQueries(
            [mechanism.query for mechanism in self.mechanisms], self.labels, self.columns
        )
        self.guarantee = composed([mechanism.guarantee for mechanism in self.mechanisms])
        self.per_record = k
        self.can_withhold = any(part.can_withhold for part in able)

    def _parts(self, values: Floats) -> list[tuple[Any, int, Floats]]:
        """Return each mechanism with its column and the values that it made, (n,)."""
        table = values.reshape(-1, len(self.mechanisms))
        return list(zip(self.mechanisms, self.columns, table.T, strict=True))

    def check_values(self, values: Any) -> Floats:
        """Return the released values as a new float64 array, those of a record side by side.

        Raises
        ------
        ValueError
            If they are not k for each record, or one of them cannot be published.
        """
        array, k = as_table(values, self.labels), len(self.mechanisms)
        if array.ndim != 2 and not (array.ndim == 1 and array.size % k == 0):
            raise ValueError(f"values must have shape (n, {k}); got shape {array.shape}")
        if array.ndim == 2 and array.shape[1] != k:
            raise ValueError(
                f"values must have {k} columns, {', '.join(self.labels)}; got shape {array.shape}"
            )
        checked = []
        parts = zip(self.labels, self.mechanisms, array.reshape(-1, k).T, strict=True)
        for label, mechanism, part in parts:
            try:
                checked.append(check_values(mechanism, part))
            except (ValueError, TypeError) as error:
                raise type(error)(f"attribute {label!r}: {error}") from None
        return np.ascontiguousarray(np.column_stack(checked)).reshape(-1)

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp), the sum of log h_j over the attributes, (m, 1)."""
        return sum(
            mechanism.statistic(np.ascontiguousarray(records[:, column]), index, part)
            for mechanism, column, part in self._parts(values)
        )

    def column_laws(self, values: Floats, width: int) -> list[Any] | None:
        """Return log h of each column of a record as `CellLaws`, None for one not released.

        None instead of the list if a column is released twice, or not as the number that it is.
        """
        laws: list[Any] = [None] * width
        for mechanism, column, part in self._parts(values):
            of_record = mechanism_abilities(mechanism).record_laws
            found = None if of_record is None else of_record(part)
            if found is None or laws[column] is not None:
                return None
            laws[column] = found
        return laws

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return what the parts' log densities lack, added up."""
        parts = self._parts(self.check_values(values))
        return sum(log_normaliser(mechanism, part) for mechanism, _, part in parts)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        columns = [
            mechanism.privatize(np.ascontiguousarray(records[:, column]), rng).values
            for mechanism, column in zip(self.mechanisms, self.columns, strict=True)
        ]
        return np.column_stack(columns)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Attributes:
        """Read back what `to_dict` wrote; the guarantee is composed again from the parts."""
        return super().from_dict({k: v for k, v in entries.items() if k != "guarantee"})

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        return read_parts(cls.__name__, value) if name == "mechanisms" else value

    def words(self) -> list[str]:
        """Return how the numbers were made private, in sentences for the report."""
        return [
            f"({label}) {' '.join(mechanism_words(part))}"
            for label, part in zip(self.labels, self.mechanisms, strict=True)
        ]

    @classmethod
    def example(cls) -> Attributes:
        """Return a small one."""
        return cls([RandomizedResponse.example()] * 2, labels=["smokes", "drinks"])


MECHANISMS.add(Attributes)
