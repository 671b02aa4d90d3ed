"""Several releases about the same records, as one joint release.

A curator releases a histogram and a sum, or the same counts twice with different epsilons. Given
the records, the noise is independent, so the joint density is a product,

    log g((s_1, s_2, ...), (T_1, T_2, ...)) = sum_k log g_k(s_k, T_k),

and T = (T_1, T_2, ...) is again a sum over records: nothing else changes for the sampler. A part
with a joint log density (objective perturbation, K-norm) keeps its formula for its own T_k. A part
that releases a value for each record (local noise) has T_k = sum_i log h(s_i | x_i).

Do not fit the releases sequentially, with the posterior of one as the prior of the next. They share
the records, so they are not independent given theta.

**The guarantee** of all parts together, by the composition theorems:

- pure: the epsilons add up (Dwork and Roth 2014, theorem 3.16);
- Gaussian differential privacy: mu = sqrt(mu_1^2 + mu_2^2 + ...) (Dong, Roth and Su 2022);
- zCDP: the rhos add up (Bun and Steinke 2016);
- pure with zCDP: a pure epsilon is zCDP with rho = epsilon^2 / 2 (Bun and Steinke 2016,
  proposition 1.4), and the rhos add up;
- approximate with pure: the epsilons and the deltas add up.

Parts that each ask one group only (`noiseaware.queries.InGroup`) concern different records. Parts
on the same group are composed as above, and the groups together promise what the weakest one does:
parallel composition (McSherry 2009).

Anything else is "unknown", with the parts' promises as the reason. Parts with different neighbour
relations are composed for one changed record, that is one removed and one added: epsilon and mu
double and rho quadruples.

**Several attributes of every record**, each released by its own local mechanism: two questions
answered by randomized response, two noisy counts of an area, a column published exactly. Record i
has the released values s_i1, ..., s_ik, made independently from its columns,

    log g(s_dp, x) = sum_i sum_j log h_j(s_ij | x_i[c_j]),

so t_i(x_i, s_dp) = sum_j log h_j(s_ij | x_i[c_j]) is one number, as for each part alone (`local`).
All values are about one person, so the promises are composed as above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.frames import as_table
from noiseaware.contract import (
    Floats,
    Mechanism,
    MechanismAbilities,
    mechanism_abilities,
    missing,
    query_abilities,
)
from noiseaware.mechanisms import joint
from noiseaware.mechanisms.additive import Laplace
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.local import LocalMechanism
from noiseaware.mechanisms.local_tables import RandomizedResponse
from noiseaware.mechanisms.ready import Ready, ReadyMechanism, log_normaliser, mechanism_words
from noiseaware.mechanisms.terms import SeparableDensity, as_total, joined
from noiseaware.queries import Count, StackedQuery
from noiseaware.queries.stacked import ColumnQueries
from noiseaware.registry import MECHANISMS
from noiseaware.release import Release, check_values


class Compound(ReadyMechanism):
    """Base class of mechanisms made of labelled parts, whose guarantees are composed."""

    part_name: ClassVar[str]  # what messages call a part
    mechanisms: tuple[Any, ...]
    labels: tuple[str, ...]

    def _hold_parts(self, mechanisms: Iterable[Any], labels: Sequence[str] | None) -> None:
        if not missing(mechanisms, Mechanism):
            raise TypeError(f"mechanisms must be a list of mechanisms; got {mechanisms!r}")
        self.mechanisms = tuple(mechanisms)
        if not self.mechanisms:
            raise ValueError("mechanisms must hold at least one mechanism; got none")
        self._abilities = [mechanism_abilities(mechanism) for mechanism in self.mechanisms]
        self.can_withhold = any(able.can_withhold for able in self._abilities)
        self.labels = checked_labels(labels, len(self.mechanisms))

    def _parts(self, values: Any) -> list[Any]:
        """Split the released values into those of each part."""
        raise NotImplementedError

    def _checked(self, parts: Iterable[Any]) -> list[Floats]:
        """Return the values of each part, checked by its mechanism."""
        checked = []
        for label, mechanism, part in zip(self.labels, self.mechanisms, parts, strict=True):
            try:
                checked.append(check_values(mechanism, part))
            except (ValueError, TypeError) as error:
                raise type(error)(f"{self.part_name} {label!r}: {error}") from None
        return checked

    def log_normaliser(self, values: ArrayLike) -> float:
        """Return the sum of the parts' normalising constants."""
        parts = zip(self.mechanisms, self._parts(self.check_values(values)), strict=True)
        return sum(log_normaliser(mechanism, part) for mechanism, part in parts)

    @classmethod
    def from_dict(cls: type[Ready], entries: Mapping[str, Any]) -> Ready:
        """Read what `to_dict` wrote; the guarantee is composed afresh from the parts."""
        return super().from_dict({k: v for k, v in entries.items() if k != "guarantee"})

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        if name != "mechanisms":
            return value
        if not isinstance(value, list):
            raise ValueError(f"{cls.__name__} must have 'mechanisms', a list of mechanisms")
        return [MECHANISMS.read(part) for part in value]

    def words(self) -> list[str]:
        return [
            f"({label}) {' '.join(mechanism_words(part))}"
            for label, part in zip(self.labels, self.mechanisms, strict=True)
        ]


class Several(Compound):
    """Several releases about the same records, with independent noise.

    Parameters
    ----------
    mechanisms
        Mechanisms of any kind about the same records: additive (also clamped, thresholded, rounded,
        truncated or folded), joint (such as objective perturbation and K-norm), local, `Exact`,
        `Several`, or your own.
    labels
        A prefix for the names of each part; by default "1", "2", ...

    Examples
    --------
    >>> import noiseaware as na
    >>> count = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.5)
    >>> again = na.mechanisms.Laplace(na.queries.Count(), epsilon=0.25)
    >>> both = na.mechanisms.Several([count, again], labels=["June", "July"])
    >>> both.query.names
    ('June: count of 1', 'July: count of 1')
    >>> print(both.guarantee)
    pure differential privacy with epsilon = 0.75, when one record is changed
    """

    needed, optional_arguments = ("mechanisms",), ("labels", "guarantee")
    part_name = "part"
    example_arguments = {
        "mechanisms": [Laplace.example(), Laplace(Count.example(), epsilon=0.25)],
        "labels": ["June", "July"],
    }

    def __init__(self, mechanisms: Iterable[Any], labels: Sequence[str] | None = None) -> None:
        self._hold_parts(mechanisms, labels)
        for mechanism, able in zip(self.mechanisms, self._abilities, strict=True):
            if missing(mechanism, Mechanism):
                raise TypeError(f"mechanisms must hold mechanisms only; got {mechanism!r}")
            if able.statistic is not None and able.terms is None and able.total_length is None:
                raise TypeError(
                    "mechanisms with a statistic of their own must have total_length(values), the "
                    f"length of its total; got {mechanism!r}"
                )
        self.query = StackedQuery([m.query for m in self.mechanisms], self.labels)
        self.guarantee = _together(self.mechanisms)
        self.neighbours = self.guarantee.neighbours
        self._say_what_is_absent()

    def _say_what_is_absent(self) -> None:
        """Set to None the methods that these parts do not support together."""
        parts = self._abilities
        separable = all(able.terms for able in parts)
        present = {
            "terms": separable,
            "joint": not separable and all(able.terms or able.joint for able in parts),
            "statistic": any(able.statistic for able in parts),
            "exact_parts": any(able.exact_parts for able in parts),
            "n_values": any(able.per_record or able.n_values for able in parts),
        }
        vars(self).update({name: None for name, there in present.items() if not there})

    def n_values(self, n: int) -> int:
        """Return the number of values released for n records; local parts release one for each."""
        return sum(_n_values(able, n) for able in self._abilities)

    def _parts(self, values: ArrayLike) -> list[Any]:
        array = np.asarray(values)
        fixed = sum(_n_values(able, 0) for able in self._abilities)
        each = sum(_n_values(able, 1) for able in self._abilities) - fixed
        n, left = divmod(len(array) - fixed, each) if each and array.ndim == 1 else (0, 0)
        if array.ndim != 1 or left or n < 0 or (not each and len(array) != fixed):
            got = f"{len(array)}" if array.ndim == 1 else f"an array of shape {array.shape}"
            more = f" and {each} for each record" if each else ""
            raise ValueError(
                f"values must be {fixed} numbers{more}, those of all {len(self.mechanisms)} parts "
                f"one after another; got {got}"
            )
        return np.split(array, np.cumsum([_n_values(able, n) for able in self._abilities])[:-1])

    def check_values(self, values: ArrayLike) -> Floats:
        """Return the released values as a new float64 array (d,), checked part by part."""
        return np.concatenate(self._checked(self._parts(values)))

    def _able(self, values: ArrayLike) -> Iterator[tuple[MechanismAbilities, Any]]:
        """Yield the abilities and the values of each part."""
        return zip(self._abilities, self._parts(values), strict=True)

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return the log density of all parts, concatenated."""
        return joined([able.terms(part) for able, part in self._able(values)])  # type: ignore[misc]

    def joint(self, values: ArrayLike) -> joint.JointDensity:
        """Return the log density of all parts for compiled code."""
        made = [
            able.terms(part) if able.terms is not None else able.joint(part)  # type: ignore[misc]
            for able, part in self._able(values)
        ]
        return joint.several(made, self._lengths(values))

    def _lengths(self, values: ArrayLike) -> list[int]:
        return [_length(able, part) for able, part in self._able(values)]

    def total_length(self, values: ArrayLike) -> int:
        """Return the length of T."""
        return sum(self._lengths(values))

    def statistic(self, records: Any, index: NDArray[np.int64], values: ArrayLike) -> Floats:
        """Return t_i(x_i, s_dp) of all parts side by side, (m, d)."""
        made = [
            able.mechanism.query.statistic(records)
            if able.statistic is None
            else able.statistic(records, index, part)
            for able, part in self._able(values)
        ]
        return np.concatenate(made, axis=1)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T) up to a constant free of T: the sum over the parts."""
        lengths = self._lengths(values)
        totals = np.split(as_total(total, sum(lengths)), np.cumsum(lengths)[:-1])
        each = zip(self.mechanisms, self._parts(values), totals, strict=True)
        return float(sum(mechanism.log_density(part, own) for mechanism, part, own in each))

    def exact_parts(self, values: ArrayLike) -> list[tuple[Any, Floats]]:
        """Return the queries published without noise, and their totals."""
        each = [able.exact_parts(part) for able, part in self._able(values) if able.exact_parts]
        return [held for parts in each for held in parts]

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate all releases of these records; for simulation only."""
        return self.release([mechanism.privatize(records, rng) for mechanism in self.mechanisms])

    def release(self, releases: Sequence[Release]) -> Release:
        """Join the parts' releases, in order and about the same records, into one."""
        if len(releases) != len(self.mechanisms):
            raise ValueError(
                f"releases must be {len(self.mechanisms)}, one for each part; got {len(releases)}"
            )
        sizes = [release.n_records for release in releases]
        if len(set(sizes)) > 1:
            raise ValueError(
                "releases must be about the same records, so of the same n_records; "
                f"got {', '.join(map(str, sizes))}"
            )
        return Release(np.concatenate([release.values for release in releases]), self, sizes[0])

    def words(self) -> list[str]:
        number = len(self.mechanisms)
        return [f"There are {number} releases about the same records.", *super().words()]


def _length(able: MechanismAbilities, values: Any) -> int:
    if able.terms is not None:
        return len(able.terms(values).family)
    return len(able.mechanism.query.names) if not able.total_length else able.total_length(values)


def _n_values(able: MechanismAbilities, n: int) -> int:
    if able.n_values is not None:
        return able.n_values(n)
    return n * able.per_record if able.per_record else len(able.mechanism.query.names)


def _together(mechanisms: Sequence[Any]) -> Guarantee:
    """Return the composed guarantee, with parallel composition across groups."""
    promises = [_promise(mechanism) for mechanism in mechanisms]
    groups: dict[int | None, list[Guarantee]] = {None: []}
    for mechanism, promise in zip(mechanisms, promises, strict=True):
        groups.setdefault(query_abilities(mechanism.query).group, []).append(promise)
    of_all = groups.pop(None)
    if len(groups) < 2:
        return composed(promises)
    return composed([*of_all, in_parallel([composed(parts) for parts in groups.values()])])


def _promise(mechanism: Any) -> Guarantee:
    """Return the guarantee of a part; unknown if a user's mechanism states none."""
    able = mechanism_abilities(mechanism)
    if able.guarantee is not None:
        return able.guarantee
    return Guarantee("unknown", neighbours=able.neighbours, reason=f"{able.name} states none")


def in_parallel(parts: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of mechanisms on groups with no common record: the weakest of theirs.

    If the kinds differ and none is the weakest, return their composition, which also holds.
    """
    return _combined(parts, max, max) or composed(parts)


def composed(parts: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of mechanisms with these guarantees together."""
    if len(parts) == 1:
        return parts[0]
    made = _combined(parts, math.fsum, lambda mus: math.hypot(*mus))
    if made is not None:
        return made
    parts = _alike(parts)
    reason = "the parts' promises are not composed here: " + "; ".join(map(str, parts))
    return Guarantee("unknown", neighbours=parts[0].neighbours, reason=reason)


Numbers = Callable[[list[float]], float]


def _combined(parts: Sequence[Guarantee], total: Numbers, total_mu: Numbers) -> Guarantee | None:
    """Return the promise whose numbers are totals of the parts'; None if no kind fits all parts.

    `total` is for epsilon, delta and rho, `total_mu` for mu.
    """
    parts = _alike(parts)
    neighbours = parts[0].neighbours
    epsilons = _known(part.pure_epsilon for part in parts)
    if epsilons:
        return Guarantee("pure", epsilon=total(epsilons), neighbours=neighbours)
    mus = _known(part.mu for part in parts)
    if mus:
        mu = total_mu(mus)
        return Guarantee("GDP", mu=mu, rho=0.5 * mu * mu, neighbours=neighbours)
    rhos = _known(
        part.rho if part.pure_epsilon is None else 0.5 * part.pure_epsilon**2 for part in parts
    )
    if rhos:
        return Guarantee("zCDP", rho=total(rhos), neighbours=neighbours)
    epsilons = _known(part.epsilon for part in parts)
    if epsilons and all(part.kind in ("pure", "approximate") for part in parts):
        delta = total([part.delta or 0.0 for part in parts])
        return Guarantee("approximate", epsilon=total(epsilons), delta=delta, neighbours=neighbours)
    return None


def _known(numbers: Iterable[float | None]) -> list[float]:
    """Return the numbers, or an empty list if one is None."""
    listed = list(numbers)
    known = [number for number in listed if number is not None]
    return known if len(known) == len(listed) else []


def _alike(parts: Sequence[Guarantee]) -> Sequence[Guarantee]:
    """Return the promises for one neighbour relation: one changed record, if theirs differ."""
    if len({part.neighbours for part in parts}) == 1:
        return parts
    return [part.for_change() for part in parts]


def checked_labels(labels: Sequence[str] | None, number: int) -> tuple[str, ...]:
    """Return distinct labels for the parts; numbers by default."""
    if labels is None:
        return tuple(str(k + 1) for k in range(number))
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise TypeError(f"labels must be a list of texts; got {labels!r}")
    if len(labels) != number or len(set(labels)) != number:
        raise ValueError(f"labels must be {number} different texts; got {list(labels)!r}")
    return tuple(labels)


class Attributes(Compound, LocalMechanism):
    """Several attributes of every record, each released by its own local mechanism.

    Parameters
    ----------
    mechanisms
        A local mechanism for each released value of a record: `RandomizedResponse`, `LocalLaplace`
        and so on, or `LocalExact` for an attribute published exactly.
    labels
        Their names; by default "1", "2", ...
    columns
        The column of a record that each releases; by default the first, the second, ... Other
        columns are not released.

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
    record_constants = None  # type: ignore[assignment]
    example_arguments = {
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
                right = "mechanisms must be local, such as RandomizedResponse or LocalLaplace"
                raise TypeError(f"{right}; got {part.mechanism!r}")
        k = self.per_record = len(self.mechanisms)
        given = range(k) if columns is None else columns
        self.columns = [whole_number("columns", column, 0) for column in given]
        if len(self.columns) != k:
            raise ValueError(f"columns must be {k}, one for each mechanism; got {columns!r}")
        queries = [mechanism.query for mechanism in self.mechanisms]
        self.query = ColumnQueries(queries, self.labels, self.columns)
        self.guarantee = composed([mechanism.guarantee for mechanism in self.mechanisms])
        if any(part.record_tails is None for part in self._abilities):
            self.record_tails = None  # type: ignore[assignment, method-assign]

    def _parts(self, values: Floats) -> list[Floats]:
        return list(values.reshape(-1, len(self.mechanisms)).T)

    def _columns(
        self, records: NDArray[Any], values: Floats
    ) -> Iterator[tuple[Any, NDArray[Any], Floats]]:
        """Yield each mechanism's abilities, its column of the records and its values."""
        columns = (np.ascontiguousarray(records[:, column]) for column in self.columns)
        return zip(self._abilities, columns, self._parts(values), strict=True)

    def check_values(self, values: Any) -> Floats:
        """Return the released values as a new float64 array, record by record."""
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
        each = self._columns(records, values)
        return sum(able.statistic(column, index, part) for able, column, part in each)

    def column_laws(self, values: Floats, width: int) -> list[Any] | None:
        """Return log h of each column of a record as `CellLaws`, None for one not released.

        Returns None instead of the list if a column is released twice, or its mechanism gives no
        `CellLaws`.
        """
        laws: list[Any] = [None] * width
        each = zip(self._abilities, self.columns, self._parts(values), strict=True)
        for able, column, part in each:
            found = None if able.record_laws is None else able.record_laws(part)
            if found is None or laws[column] is not None:
                return None
            laws[column] = found
        return laws

    def record_tails(self, records: NDArray[Any], values: Floats) -> Floats:
        """Return log P(Y < s), log P(Y = s) and log P(Y > s) of each value, (3, n k)."""
        each = self._columns(records, values)
        made = [able.record_tails(column, part) for able, column, part in each]
        return np.stack(made, axis=2).reshape(3, -1)

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> Floats:
        columns = [
            mechanism.privatize(np.ascontiguousarray(records[:, column]), rng).values
            for mechanism, column in zip(self.mechanisms, self.columns, strict=True)
        ]
        return np.column_stack(columns)


MECHANISMS.add(Several, Attributes)
