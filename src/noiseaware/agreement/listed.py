"""Records with few possible values, released one by one: what is seen of each, as a table.

If all C possible values are known and record i is released with its own distribution h(s_i | x_i),

    p(s_dp | theta) = prod_i sum_c f(c | theta) h(s_i | c),

and given theta and s_dp the records are independent: record i is c with probability proportional to
f(c | theta) h(s_i | c). Both need only f at C values and h at the P distinct rows of h(s_i | .),
whatever the number of records.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from noiseaware.contract import Floats, Model, mechanism_abilities, model_abilities

CHUNK = 65_536

MOST = 4096
"""The most possible values; larger tables would take as much space as the records."""


class ListedLaws(NamedTuple):
    """What is seen of records whose possible values are listed."""

    values: NDArray[Any]
    """The C values of a record, (C, ...)."""
    log_h: Floats
    """log h of each value, (P, C), a row for each pattern."""
    pattern: NDArray[np.int64]
    """The row of each record, (n,)."""

    def joint(self, log_f: Floats) -> Floats:
        """Return log f(c) + log h(s | c), (P, C)."""
        return self.log_h + log_f

    def log_seen(self, log_f: Floats) -> Floats:
        """Return log sum_c f(c) h(s_i | c) for each record, (n,)."""
        joint = self.joint(log_f)
        top = joint.max(axis=1)
        possible = np.where(top > -np.inf, top, 0.0)
        with np.errstate(divide="ignore"):
            summed = np.log(np.exp(joint - possible[:, np.newaxis]).sum(axis=1))
        return (possible + summed)[self.pattern]

    def draw(self, log_f: Floats, rng: np.random.Generator) -> NDArray[Any]:
        """Draw every record given what is seen of it."""
        joint = self.joint(log_f)
        weights = np.exp(joint - joint.max(axis=1, keepdims=True))
        chosen = np.empty(len(self.pattern), dtype=np.int64)
        draw_places(np.cumsum(weights, axis=1), self.pattern, rng.random(len(chosen)), chosen)
        return self.values[chosen]

    def tempered(self, power: float) -> ListedLaws:
        """Return the same with h^power in place of h."""
        return self._replace(log_h=power * self.log_h)


@njit(cache=True, nogil=True)
def draw_places(cumulative, pattern, uniforms, chosen):
    """Write, for each record, the first place whose cumulative weight exceeds u times the total."""
    last = cumulative.shape[1] - 1
    for i in range(pattern.shape[0]):
        row = cumulative[pattern[i]]
        wanted = uniforms[i] * row[last]
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if row[middle] > wanted:
                high = middle
            else:
                low = middle + 1
        chosen[i] = low


def can_list(model: Model, mechanism: Any) -> bool:
    """Whether records have one distribution over few values, and are released one by one."""
    able, law = model_abilities(model), mechanism_abilities(mechanism)
    return (
        able.record_values is not None
        and len(able.record_values) <= MOST
        and able.value_groups is None
        and not able.uses_index
        and able.has_density
        and not able.holds_innovations
        and bool(law.per_record)
        and law.statistic is not None
    )


def listed_laws(model: Model, release: Any) -> ListedLaws | None:
    """Return what is seen of each record as a table; None if the release is not of this form.

    ValueError if a released value is impossible for every possible record.
    """
    if not can_list(model, release.mechanism):
        return None
    values = np.ascontiguousarray(model_abilities(model).record_values)
    n, statistic = release.n_records, mechanism_abilities(release.mechanism).statistic
    assert statistic is not None
    rows = np.empty((n, len(values)))
    for start in range(0, n, CHUNK):
        index = np.arange(start, min(start + CHUNK, n))
        for c in range(len(values)):
            same = np.repeat(values[c : c + 1], len(index), axis=0)
            rows[index, c] = statistic(same, index, release.values)[:, 0]
    impossible = ~(rows > -np.inf).any(axis=1)
    if impossible.any():
        name, i = type(model).__name__, int(np.argmax(impossible))
        raise ValueError(
            f"values must be possible for a record of {name}; those of record {i} are not"
        )
    log_h, pattern = np.unique(rows, axis=0, return_inverse=True)
    return ListedLaws(values, log_h, pattern.reshape(-1).astype(np.int64))


def column_laws(model: Model, release: Any) -> list[Any] | None:
    """Return what is seen of each column, if the model can draw records given that, or None."""
    able, laws = model_abilities(model), mechanism_abilities(release.mechanism).column_laws
    names = able.column_names
    if able.seen_records is None or laws is None or names is None:
        return None
    return laws(release.values, len(names)) if max(release.query.columns) < len(names) else None
