"""Privacy promises.

A promise compares neighbouring databases: either one record is changed (`"change"`, the relation of
the paper, where n is public), or one record is added or removed (`"add-remove"`). The kinds of
promise, for outputs M(x) and M(x'):

- pure: the log density of every output changes by at most epsilon;
- approximate: P(M(x) in S) <= e^epsilon P(M(x') in S) + delta for every set S;
- zCDP: the Renyi divergence of every order alpha is at most alpha * rho (Bun and Steinke 2016);
- GDP: telling x from x' is at least as hard as telling N(0, 1) from N(mu, 1) (Dong, Roth and
  Su 2022).

Only a pure promise gives a lower bound on the sampler's acceptance probability: exp(-epsilon), for
one changed record (`Guarantee.change_epsilon`).

**Curves of (epsilon, delta).** For Gaussian noise, continuous or discrete, (epsilon, delta) gives
no closed form for the scale. delta increases with the signal-to-noise ratio, so bisection finds the
largest ratio whose delta is small enough.

Gaussian noise is exactly mu-GDP with mu = (l2 sensitivity) / scale, and mu-GDP is exactly a
curve of (epsilon, delta) pairs: `gaussian_delta` (Balle and Wang 2018, theorem 8; Dong, Roth
and Su 2022, corollary 1). Discrete Gaussian noise is rho-zCDP, which implies a curve of (epsilon,
delta) pairs: `zcdp_delta` (Canonne, Kamath and Steinke 2020). This second curve is a bound: the
mechanism gives slightly more privacy than it promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from scipy.special import erfcx, log_ndtr

from noiseaware.contract import Neighbours

# exp(-x^2 / 2) underflows beyond this x.
_NORMAL_UNDERFLOW = 39.0
# Below this mu the two terms of `gaussian_delta` nearly cancel, so it integrates instead.
_SMALL_MU = 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def largest(holds: Callable[[float], bool]) -> float:
    """Return the largest x > 0 with `holds(x)`, for a condition true up to some x only.

    Bisects down to neighbouring floats. The condition holds at the x returned, so a calibrated
    scale errs towards more privacy.
    """
    low = high = 1.0
    while not holds(low):
        low /= 2.0
        if low == 0.0:
            return 0.0  # there is none that is a floating-point number
    while holds(high):
        high *= 2.0
    while True:
        # A geometric mean: x may be anywhere between 1e-300 and 1e300.
        middle = low * math.sqrt(high / low)
        if not low < middle < high:
            return low
        if holds(middle):
            low = middle
        else:
            high = middle


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which mu-GDP is (epsilon, delta)-DP.

    With Phi the standard normal distribution function (Balle and Wang 2018, theorem 8),

        delta = Phi(-x) - e^epsilon Phi(-y),   x = epsilon/mu - mu/2,   y = x + mu.

    Because y^2 - x^2 = 2 epsilon, this equals phi(x) (m(x) - m(y)) with phi the normal density and
    m(t) = Phi(-t) / phi(t) the Mills ratio, whose derivative is t m(t) - 1. For small mu this
    difference is lost to rounding, and 1 - t m(t) is integrated from x to y instead. epsilon and mu
    are at least 0; at epsilon = 0, delta is the total variation distance of the two output
    distributions.
    """
    if mu == 0.0:
        return 0.0
    x = epsilon / mu - mu / 2.0
    y = epsilon / mu + mu / 2.0
    if x > _NORMAL_UNDERFLOW:
        return 0.0
    if mu < _SMALL_MU:
        t = epsilon / mu + 0.5 * mu * _NODES
        integrand = 1.0 - t * math.sqrt(math.pi / 2.0) * erfcx(t / math.sqrt(2.0))
        integral = 0.5 * mu * float(_WEIGHTS @ integrand)
        return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * integral
    first = float(log_ndtr(-x))
    second = epsilon + float(log_ndtr(-y))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP is (epsilon, delta)-DP: the analytic calibration."""
    return largest(lambda mu: gaussian_delta(epsilon, mu) <= delta)


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta for which rho-zCDP is (epsilon, delta)-DP.

    It minimises, over a = alpha - 1 > 0, the conversion from Renyi divergence of order alpha
    (Canonne, Kamath and Steinke 2020),

        delta = exp(a ((a + 1) rho - epsilon)) / a * (1 - 1/(a + 1))^(a + 1).

    The logarithm is convex in a; its derivative, (2a + 1) rho - epsilon + log(a/(a + 1)), changes
    sign at the minimum.
    """
    if rho == 0.0:
        return 0.0
    if rho - epsilon > 40.0:
        # The best a is near exp(epsilon - rho), and the bound is 1 to double precision.
        return 1.0
    a = largest(lambda a: (2.0 * a + 1.0) * rho - epsilon - math.log1p(1.0 / a) <= 0.0)
    log_delta = a * ((a + 1.0) * rho - epsilon) - a * math.log1p(1.0 / a) - math.log1p(a)
    return math.exp(min(log_delta, 0.0))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which `zcdp_delta` promises (epsilon, delta)-DP."""
    return largest(lambda rho: zcdp_delta(epsilon, rho) <= delta)


Kind = Literal["pure", "approximate", "zCDP", "GDP", "unknown"]

_NUMBERS = {
    "pure": ("epsilon",),
    "approximate": ("epsilon", "delta"),
    "zCDP": ("rho",),
    "GDP": ("mu",),
    "unknown": (),
}
"""The numbers that define each kind of promise."""
_IN_WORDS = {"zCDP": "zero-concentrated", "GDP": "Gaussian"}
_NEIGHBOURS_IN_WORDS = {
    "change": "when one record is changed",
    "add-remove": "when one record is added or removed",
}
# Numbers in files are rounded, so a stated promise may be this much stronger than the real one.
_SLACK = 1e-6


@dataclass(frozen=True)
class Guarantee:
    """A privacy promise and its numbers.

    Other numbers may be set besides those that define the kind, and also hold for the mechanism:
    Gaussian noise calibrated to (epsilon, delta) has mu and rho too. None means not applicable.

    Attributes
    ----------
    kind
        `"pure"`, `"approximate"`, `"zCDP"` or `"GDP"`; or `"unknown"`, for example if the scale was
        given and the query does not know its sensitivity.
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
        """The epsilon of a pure promise, or None."""
        return self.epsilon if self.kind == "pure" else None

    @property
    def change_epsilon(self) -> float | None:
        """The epsilon of a pure promise for one changed record, or None.

        The sampler changes one record at a time, so its acceptance bound uses this epsilon.
        """
        return self.for_change().pure_epsilon

    def delta_at(self, epsilon: float) -> float:
        """Return a delta such that the mechanism is (epsilon, delta)-DP.

        It is exact from mu (`gaussian_delta`), or else a bound from rho (`zcdp_delta`). From a pure
        epsilon_0 alone, or (epsilon_0, delta_0) alone, it is the value that holds for every
        mechanism with that promise: delta_0 if epsilon >= epsilon_0, and otherwise
        delta_0 + (1 - delta_0) (e^epsilon_0 - e^epsilon) / (1 + e^epsilon_0)
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

        Changing a record removes one and adds one. From `"add-remove"` this doubles epsilon and mu,
        quadruples rho (Bun and Steinke 2016), and turns delta into delta (1 + e^epsilon): the two
        deltas add, one of them multiplied by e^epsilon.
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
        return f"{_IN_WORDS.get(self.kind, self.kind)} differential privacy with {numbers}, {where}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> Guarantee:
        """Read a guarantee written by `to_dict`."""
        if not isinstance(entries, dict) or "kind" not in entries:
            raise ValueError(f"guarantee must be a dictionary with a 'kind'; got {entries!r}")
        known = [field.name for field in fields(cls)]
        foreign = ", ".join(map(repr, sorted(set(entries) - set(known))))
        if foreign:
            raise ValueError(f"guarantee may hold {', '.join(known)}; got {foreign}")
        return cls(**entries)


def pure_or_unknown(epsilon: float | None, neighbours: Neighbours, reason: str) -> Guarantee:
    """Return the pure promise of epsilon; if that is None, an unknown one for this reason."""
    if epsilon is None:
        return Guarantee("unknown", neighbours=neighbours, reason=reason)
    return Guarantee("pure", epsilon=epsilon, neighbours=neighbours)


def check_neighbours(neighbours: str) -> None:
    """Raise ValueError unless `neighbours` is one of the two relations."""
    if neighbours not in list(_NEIGHBOURS_IN_WORDS):
        raise ValueError(f"neighbours must be 'change' or 'add-remove'; got {neighbours!r}")


def confirmed(real: Guarantee, stated: Guarantee) -> Guarantee:
    """Return the guarantee to show for a mechanism read from a file.

    `real` follows from the scale in the file and the query's sensitivity; `stated` is the file's
    claim. A true claim keeps its kind, epsilon and delta, next to the real numbers. A claim
    stronger than the real promise is an error: the query, the bounds or the scale in the file are
    not those of the release.
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
        # Keep a stated number that equals the real one, or for which there is no real one.
        if claimed is not None and (true is None or math.isclose(true, claimed, rel_tol=_SLACK)):
            kept[name] = claimed
    return replace(real, kind=stated.kind, **kept)


def _holds(real: Guarantee, stated: Guarantee) -> bool:
    """Whether the claim `stated` follows from `real`, up to rounding."""
    claims = [getattr(stated, name) * (1.0 + _SLACK) for name in _NUMBERS[stated.kind]]
    if stated.kind == "approximate":
        epsilon, delta = claims
        return real.delta_at(epsilon) <= delta
    truth = getattr(real, _NUMBERS[stated.kind][0])
    return truth is not None and truth <= claims[0]
