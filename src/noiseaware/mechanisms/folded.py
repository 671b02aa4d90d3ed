"""Noise that was folded into a range: a number outside is mirrored at the bound that it passed.

The noisy number Y = T + e is replaced by 2 lower - Y if it is below `lower`, by 2 upper - Y if it
is above `upper`, and so on until it is inside (diffprivlib's `LaplaceFolded`, `GeometricFolded`).
The numbers that end at the released value v are v itself and its mirror images: with the width
D = upper - lower they are v + 2 k D and 2 lower - v + 2 k D for every integer k. So

    g(v, T) = sum_k [ h(v + 2 k D - T) + h(2 lower - v + 2 k D - T) ],

with h(e) proportional to exp(-|e| / b). The sum has a period of 2 D in T and is the same at T and
2 lower - T, so T can be folded into the range first. Then a = |v - T| and c = v + T - 2 lower are
between 0 and 2 D, and both sums over k are geometric series:

    g(v, T)  is proportional to  e^(-a/b) + e^(-(2D - a)/b) + e^(-c/b) + e^(-(2D - c)/b),

where the factor 1 / (1 - e^(-2D/b)) is free of T. With one infinite bound there is one mirror, and
two terms. For integers the same formula holds: at a bound the two series are the same numbers
counted twice, which is a factor of 2 that is free of T. Bounds may then be halves of integers.

Folding is done after the noise, so the guarantee is that of the noise.

Example
-------
>>> import noiseaware as na
>>> noise = na.mechanisms.Laplace(na.queries.Count(value=1), epsilon=0.5)
>>> mechanism = na.mechanisms.Folded(noise, lower=0, upper=20)
>>> release = na.Release([1.25], mechanism, n_records=20)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.mechanisms.discrete_laplace import DiscreteLaplace
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.mechanisms.terms import FOLDED, N_PARAMETERS, Terms, log_density

if TYPE_CHECKING:
    from noiseaware.release import Release


class Folded:
    """Laplace noise, continuous or discrete, folded into [lower, upper].

    Parameters
    ----------
    mechanism
        The noise: a `Laplace` or a `DiscreteLaplace`.
    lower, upper
        The range of the released values; one of them may be infinite. Under discrete noise,
        integers or halves of integers.

    Attributes
    ----------
    query, guarantee, neighbours, scale
        Those of the noise.
    """

    def __init__(
        self,
        mechanism: Laplace | DiscreteLaplace,
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        if not isinstance(mechanism, Laplace | DiscreteLaplace):
            raise TypeError(
                f"mechanism must be a Laplace or a DiscreteLaplace; got {type(mechanism).__name__}"
            )
        self.mechanism = mechanism
        self.lower, self.upper = _bounds(lower, upper, mechanism.discrete)
        self.query = mechanism.query
        self.scale = mechanism.scale
        self.neighbours = mechanism.neighbours
        self.guarantee = mechanism.guarantee

    def terms(self, values: ArrayLike) -> Terms:
        """Return the log density, coordinate by coordinate, for compiled code."""
        checked = self.check_values(values)
        parameters = np.empty((len(checked), N_PARAMETERS))
        parameters[:] = [0.0, 1.0 / self.scale, self.lower, self.upper]
        parameters[:, 0] = checked
        # int32 is for the longer formulas (see `terms.longer_term`).
        return Terms(np.full(len(checked), FOLDED, dtype=np.int32), parameters)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T.

        Parameters
        ----------
        values
            s_dp, the released values, (d,).
        total
            T, the query summed over the records, (d,).
        """
        return log_density(self.terms(values), total)

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as a new float64 array (d,); ValueError outside the range."""
        checked = self.mechanism.check_values(values)
        outside = np.flatnonzero((checked < self.lower) | (checked > self.upper))
        if outside.size:
            raise ValueError(
                f"values must be between {self.lower:g} and {self.upper:g}, into which they were "
                f"folded; got {checked[outside[0]]:g} for {self.query.names[outside[0]]!r}"
            )
        return checked

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records; for simulation only, as `Laplace.privatize`."""
        from noiseaware.release import Release

        noisy = self.mechanism.privatize(records, rng)
        return Release(fold(noisy.values, self.lower, self.upper), self, noisy.n_records)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; `noiseaware.mechanisms.from_dict` reads it back."""
        ends = {"lower": self.lower, "upper": self.upper}
        # JSON has no infinity: an infinite bound is left out.
        finite = {name: end for name, end in ends.items() if math.isfinite(end)}
        return {"type": "Folded", **finite, "mechanism": self.mechanism.to_dict()}

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> Folded:
        """Read back what `to_dict` wrote."""
        from noiseaware.mechanisms import from_dict

        fields = ("type", "lower", "upper", "mechanism")
        if "mechanism" not in entries:
            raise ValueError("Folded must have a mechanism; 'mechanism' is missing")
        foreign = sorted(set(entries) - set(fields))
        if foreign:
            raise ValueError(f"Folded may have {', '.join(fields)}; got {foreign[0]!r}")
        mechanism: Any = from_dict(entries["mechanism"])
        return cls(mechanism, entries.get("lower", -math.inf), entries.get("upper", math.inf))

    def __repr__(self) -> str:
        return f"Folded({self.mechanism!r}, lower={self.lower:g}, upper={self.upper:g})"


def fold(values: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
    """Return the values, mirrored at the bounds until they are inside."""
    if not math.isfinite(lower) or not math.isfinite(upper):
        if math.isfinite(lower):
            return lower + np.abs(values - lower)
        return upper - np.abs(values - upper) if math.isfinite(upper) else values
    period = 2.0 * (upper - lower)
    place = (values - lower) % period
    return lower + np.minimum(place, period - place)


def _bounds(lower: Any, upper: Any, discrete: bool) -> tuple[float, float]:
    for name, end in (("lower", lower), ("upper", upper)):
        if isinstance(end, bool) or not isinstance(end, int | float | np.number):
            raise TypeError(f"{name} must be a number; got {end!r}")
        if discrete and math.isfinite(end) and 2 * end != math.floor(2 * end):
            raise ValueError(
                f"{name} must be an integer or half of one under discrete noise; got {end!r}"
            )
    if not lower < upper:
        raise ValueError(f"lower must be below upper; got lower={lower}, upper={upper}")
    return float(lower), float(upper)
