"""What a mechanism promises to the people in the database.

A promise is about neighbouring databases: either one record is changed and the number of
records stays (`"change"`, the relation of the paper, where n is public), or one record is
added or removed (`"add-remove"`). The kinds of promise here, for outputs M(x) and M(x'):

- pure: every output's log density changes by at most epsilon;
- approximate: P(M(x) in S) <= e^epsilon P(M(x') in S) + delta for every set S;
- zCDP: the Renyi divergence of every order alpha is at most alpha * rho (Bun and Steinke 2016);
- GDP: telling x from x' is at least as hard as telling N(0, 1) from N(mu, 1) (Dong, Roth and
  Su 2022).

Only a pure promise bounds the sampler's acceptance probability below, by exp(-epsilon) where
one record is changed (`Guarantee.change_epsilon`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from noiseaware.contract import Neighbours
from noiseaware.mechanisms.curves import gaussian_delta, zcdp_delta

Kind = Literal["pure", "approximate", "zCDP", "GDP", "unknown"]

_NUMBERS = {
    "pure": ("epsilon",),
    "approximate": ("epsilon", "delta"),
    "zCDP": ("rho",),
    "GDP": ("mu",),
    "unknown": (),
}
"""The numbers that each kind of promise is made of."""
_IN_WORDS = {
    "pure": "pure",
    "approximate": "approximate",
    "zCDP": "zero-concentrated",
    "GDP": "Gaussian",
}
_NEIGHBOURS_IN_WORDS = {
    "change": "when one record is changed",
    "add-remove": "when one record is added or removed",
}
# Files hold rounded numbers: a stated promise may be this much stronger than the real one.
_SLACK = 1e-6


@dataclass(frozen=True)
class Guarantee:
    """A promise of privacy, with the numbers that it is about.

    Numbers beside those of the kind are also true of the mechanism: Gaussian noise set by
    (epsilon, delta) has its mu and rho here too. None means that the number does not apply.

    Attributes
    ----------
    kind
        `"pure"`, `"approximate"`, `"zCDP"` or `"GDP"`; or `"unknown"`, for noise whose scale
        was given and whose query does not know its sensitivity.
    epsilon, delta, rho, mu
        The numbers of the promise.
    neighbours
        `"change"` or `"add-remove"`.
    reason
        Why the promise is unknown; empty for the other kinds.

    Examples
    --------
    >>> print(Guarantee("pure", epsilon=0.5))
    pure differential privacy with epsilon = 0.5, when one record is changed
    >>> Guarantee("GDP", mu=1.0, rho=0.5).delta_at(epsilon=1.0)  # doctest: +ELLIPSIS
    0.126936...
    """

    kind: Kind
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    neighbours: Neighbours = "change"
    reason: str = ""

    def __post_init__(self) -> None:
        if self.kind not in list(_NUMBERS):
            raise ValueError(f"kind must be one of {', '.join(_NUMBERS)}; got {self.kind!r}")
        check_neighbours(self.neighbours)
        for name in ("epsilon", "delta", "rho", "mu"):
            value = getattr(self, name)
            if value is None:
                if name in _NUMBERS[self.kind]:
                    raise ValueError(f"{name} is needed for a guarantee of kind {self.kind!r}")
            elif isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ValueError(f"{name} must be a number that is at least 0; got {value!r}")

    @property
    def pure_epsilon(self) -> float | None:
        """The epsilon of pure differential privacy, or None if the promise is not pure."""
        return self.epsilon if self.kind == "pure" else None

    @property
    def change_epsilon(self) -> float | None:
        """The epsilon of pure differential privacy when one record is changed, or None.

        The sampler changes one record at a time, so this is the epsilon of its acceptance bound.
        """
        return self.for_change().pure_epsilon

    def delta_at(self, epsilon: float) -> float:
        """Return a delta such that the mechanism is (epsilon, delta)-DP.

        From the strongest number known: exact from mu (`gaussian_delta`), a bound from rho
        (`zcdp_delta`). From a pure epsilon_0 alone, or (epsilon_0, delta_0) alone, it is the
        value that holds for every mechanism with that promise: delta_0 if epsilon >= epsilon_0,
        and otherwise delta_0 + (1 - delta_0) (e^epsilon_0 - e^epsilon) / (1 + e^epsilon_0)
        (Kairouz, Oh and Viswanath 2015), with delta_0 = 0 for a pure promise.
        """
        if not (isinstance(epsilon, int | float) and epsilon >= 0):
            raise ValueError(f"epsilon must be a number that is at least 0; got {epsilon!r}")
        if self.mu is not None:
            return gaussian_delta(epsilon, self.mu)
        if self.rho is not None:
            return zcdp_delta(epsilon, self.rho)
        if self.epsilon is None:
            raise ValueError(f"no delta is known: {self.reason}")
        delta = 0.0 if self.delta is None else self.delta
        if epsilon >= self.epsilon:
            return delta
        gap = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return delta + (1.0 - delta) * gap

    def for_change(self) -> Guarantee:
        """Return the promise for one changed record.

        To change a record is to remove one and to add one. Under `"add-remove"` this doubles
        epsilon and mu, and makes rho four times as large (Bun and Steinke 2016). Of two steps of
        (epsilon, delta) the first delta is carried over the second step: delta (1 + e^epsilon).
        """
        if self.neighbours == "change":
            return self
        numbers = {}
        for name, factor in (("epsilon", 2.0), ("mu", 2.0), ("rho", 4.0)):
            if getattr(self, name) is not None:
                numbers[name] = factor * getattr(self, name)
        if self.delta is not None and self.epsilon is not None:
            numbers["delta"] = min(1.0, self.delta * (1.0 + math.exp(min(self.epsilon, 700.0))))
        return replace(self, neighbours="change", **numbers)

    def __str__(self) -> str:
        if self.kind == "unknown":
            return f"no promise can be stated: {self.reason}"
        names = _NUMBERS[self.kind]
        numbers = " and ".join(f"{name} = {getattr(self, name):.6g}" for name in names)
        if self.kind == "GDP" and self.rho is not None:
            numbers += f" (and zCDP with rho = {self.rho:.6g})"
        where = _NEIGHBOURS_IN_WORDS[self.neighbours]
        return f"{_IN_WORDS[self.kind]} differential privacy with {numbers}, {where}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> Guarantee:
        """Read back the guarantee that `to_dict` wrote."""
        if not isinstance(entries, dict) or "kind" not in entries:
            raise ValueError(f"guarantee must be a dictionary with a 'kind'; got {entries!r}")
        known = [field.name for field in fields(cls)]
        foreign = ", ".join(map(repr, sorted(set(entries) - set(known))))
        if foreign:
            raise ValueError(f"guarantee may hold {', '.join(known)}; got {foreign}")
        return cls(**entries)


def pure_or_unknown(epsilon: float | None, neighbours: Neighbours, reason: str) -> Guarantee:
    """Return the pure promise of epsilon; with None, why there is no promise that is known."""
    if epsilon is None:
        return Guarantee("unknown", neighbours=neighbours, reason=reason)
    return Guarantee("pure", epsilon=epsilon, neighbours=neighbours)


def check_neighbours(neighbours: str) -> None:
    """ValueError unless `neighbours` is one of the two relations."""
    if neighbours not in list(_NEIGHBOURS_IN_WORDS):
        raise ValueError(f"neighbours must be 'change' or 'add-remove'; got {neighbours!r}")


def confirmed(real: Guarantee, stated: Guarantee) -> Guarantee:
    """Return the guarantee to show for a mechanism that was read from a file.

    `real` is what the scale in the file and the query's sensitivity give; `stated` is what the
    file claims. A true claim keeps its kind, its epsilon and its delta, next to the real numbers.
    A claim that is stronger than the real promise is an error, for then the query, the bounds or
    the scale in the file did not make the release.
    """
    if "unknown" in (real.kind, stated.kind):
        return real
    if stated.neighbours != real.neighbours:
        raise ValueError(
            f"guarantee is stated for neighbours {stated.neighbours!r}, but the mechanism's are "
            f"{real.neighbours!r}"
        )
    if real.kind == "pure" and stated.kind in ("zCDP", "GDP"):
        return real  # a weaker kind of promise than the one that is known
    if not _holds(real, stated):
        raise ValueError(
            f"guarantee states {stated}, but the scale and the query's sensitivity give {real}"
        )
    if real.kind == "pure" and stated.kind == "approximate":
        return real
    kept = {}
    for name in ("epsilon", "delta", "rho", "mu"):
        true, claimed = getattr(real, name), getattr(stated, name)
        # A stated number may stand for the real one: the same, or there is no real one.
        if claimed is not None and (true is None or math.isclose(true, claimed, rel_tol=_SLACK)):
            kept[name] = claimed
    return replace(real, kind=stated.kind, **kept)


def _holds(real: Guarantee, stated: Guarantee) -> bool:
    """Whether the claim `stated` follows from `real`, up to the rounding of a file."""
    claims = [getattr(stated, name) * (1.0 + _SLACK) for name in _NUMBERS[stated.kind]]
    if stated.kind == "approximate":
        epsilon, delta = claims
        return real.delta_at(epsilon) <= delta
    truth = getattr(real, _NUMBERS[stated.kind][0])
    return truth is not None and truth <= claims[0]
