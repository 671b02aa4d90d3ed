"""Several attributes of every record, each released by a local mechanism of its own.

A person answers two questions by randomized response, an area has two noisy counts, one column is
published as it is: record i has the released values s_i1, ..., s_ik, made independently from its
columns,

    log g(s_dp, x) = sum_i sum_j log h_j(s_ij | x_i[c_j]),

so t_i(x_i, s_dp) = sum_j log h_j(s_ij | x_i[c_j]), one number, as for each part alone (`local`).
All of the values are about one person, so the promises of the parts are composed (`several`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.frames import as_table
from noiseaware.contract import Floats
from noiseaware.mechanisms.local import LocalMechanism
from noiseaware.mechanisms.local_tables import RandomizedResponse
from noiseaware.mechanisms.several import Compound, composed
from noiseaware.queries.stacked import ColumnQueries
from noiseaware.registry import MECHANISMS


class Attributes(Compound, LocalMechanism):
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
    part_name = "attribute"
    discrete = False
    example_arguments: ClassVar[dict[str, Any]] = {
        "mechanisms": [RandomizedResponse.example()] * 2,
        "labels": ["smokes", "drinks"],
    }

    def __init__(
        self,
        mechanisms: Iterable[Any],
        labels: Sequence[str] | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        self._hold_parts(mechanisms, labels)
        for part in self._abilities:
            if part.per_record != 1 or part.statistic is None:
                raise TypeError(
                    "mechanisms must be local, such as RandomizedResponse or LocalLaplace; got "
                    f"{part.mechanism!r}"
                )
        k = self.per_record = len(self.mechanisms)
        given = range(k) if columns is None else columns
        self.columns = [whole_number("columns", column, 0) for column in given]
        if len(self.columns) != k:
            raise ValueError(f"columns must be {k}, one for each mechanism; got {columns!r}")
        queries = [mechanism.query for mechanism in self.mechanisms]
        self.query = ColumnQueries(queries, self.labels, self.columns)
        self.guarantee = composed([mechanism.guarantee for mechanism in self.mechanisms])
        self.can_withhold = any(part.can_withhold for part in self._abilities)

    def _parts(self, values: Floats) -> list[Floats]:
        """Return the values that each mechanism made, (n,)."""
        return list(values.reshape(-1, len(self.mechanisms)).T)

    def check_values(self, values: Any) -> Floats:
        """Return the released values as a new float64 array, those of a record side by side.

        ValueError if they are not k for each record, or one of them cannot be published.
        """
        array, k = as_table(values, self.labels), len(self.mechanisms)
        if array.ndim != 2 and not (array.ndim == 1 and array.size % k == 0):
            raise ValueError(f"values must have shape (n, {k}); got shape {array.shape}")
        if array.ndim == 2 and array.shape[1] != k:
            raise ValueError(
                f"values must have {k} columns, {', '.join(self.labels)}; got shape {array.shape}"
            )
        checked = self._checked(self._parts(array))
        return np.ascontiguousarray(np.column_stack(checked)).reshape(-1)

    def statistic(self, records: NDArray[Any], index: NDArray[np.int64], values: Floats) -> Floats:
        """Return t_i(x_i, s_dp), the sum of log h_j over the attributes, (m, 1)."""
        return sum(
            mechanism.statistic(np.ascontiguousarray(records[:, column]), index, part)
            for mechanism, column, part in zip(
                self.mechanisms, self.columns, self._parts(values), strict=True
            )
        )

    def column_laws(self, values: Floats, width: int) -> list[Any] | None:
        """Return log h of each column of a record as `CellLaws`, None for one not released.

        None instead of the list if a column is released twice, or not as the number that it is.
        """
        laws: list[Any] = [None] * width
        for able, column, part in zip(
            self._abilities, self.columns, self._parts(values), strict=True
        ):
            found = None if able.record_laws is None else able.record_laws(part)
            if found is None or laws[column] is not None:
                return None
            laws[column] = found
        return laws

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        columns = [
            mechanism.privatize(np.ascontiguousarray(records[:, column]), rng).values
            for mechanism, column in zip(self.mechanisms, self.columns, strict=True)
        ]
        return np.column_stack(columns)


MECHANISMS.add(Attributes)
