"""What the four additive-noise mechanisms share.

An additive mechanism releases T + e: T is the query summed over the records, (d,), and e has
independent coordinates with one law and one scale. Laplace, Gaussian and their discrete forms
differ in that law, in the sensitivity that turns a promise into a scale, and in nothing else;
the rest is here. A user's own mechanism does not inherit from this class: it has the methods
of `MechanismLike`, and that is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.frames import as_array
from noiseaware.mechanisms.calibrate import gaussian_noise, laplace_noise
from noiseaware.mechanisms.guarantee import Guarantee, check_neighbours, confirmed
from noiseaware.mechanisms.terms import GAUSSIAN, LAPLACE, Terms, additive_terms, log_density
from noiseaware.queries import Neighbours, QueryLike

if TYPE_CHECKING:
    from noiseaware.release import Release


class AdditiveNoise:
    """T plus independent noise; a subclass gives the law of the noise and sets the scale.

    Attributes
    ----------
    query
        What was asked of the database.
    scale
        The scale of the noise.
    neighbours
        The relation that the guarantee is about.
    guarantee
        What the scale and the query's sensitivity promise.
    """

    family: ClassVar[int]
    """The code of the noise in `terms`."""
    discrete: ClassVar[bool]
    """Whether the noise is integer-valued."""

    query: QueryLike
    scale: float
    neighbours: Neighbours
    guarantee: Guarantee

    def _noise(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Independent draws of the noise, (size,)."""
        raise NotImplementedError

    def _set_query(self, query: QueryLike, neighbours: Neighbours) -> None:
        check_query(query)
        check_neighbours(neighbours)
        if self.discrete and not getattr(query, "integer_valued", False):
            name = type(self).__name__
            raise ValueError(
                f"query must be integer-valued for {name}; {type(query).__name__} is not "
                f"(use {name.removeprefix('Discrete')})"
            )
        self.query = query
        self.neighbours = neighbours

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

    def terms(self, values: ArrayLike) -> Terms:
        """Return the same log density, coordinate by coordinate, for compiled code."""
        return additive_terms(self.family, self.check_values(values), self.scale)

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as a new float64 array (d,).

        Raises
        ------
        ValueError
            If their number is not the query's, one is not finite, or the noise is discrete and
            one is not an integer.
        """
        return check_values(values, self.query.names, integers=self.discrete)

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records.

        For simulation only: the noise is made with floating-point numbers and an ordinary
        random generator, which are open to known attacks (Mironov 2012). To protect real
        people, make the release with a vetted library such as OpenDP.

        Parameters
        ----------
        records
            The confidential records; the first axis is the record.
        rng
            The source of the noise.
        """
        # Release knows mechanisms (it reads them from files), so it is imported late.
        from noiseaware.release import Release

        records = records_to_release(self.query, records, rng)
        total = self.query.statistic(records).sum(axis=0)
        return Release(total + self._noise(len(total), rng), self, len(records))

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON; `noiseaware.mechanisms.from_dict` reads it back.

        Raises
        ------
        ValueError
            If the query is a function of the user's, which a file cannot hold.
        """
        return {
            "type": type(self).__name__,
            "scale": self.scale,
            "neighbours": self.neighbours,
            "guarantee": self.guarantee.to_dict(),
            "query": self.query.to_dict(),
        }

    def take_guarantee(self, stated: Guarantee) -> None:
        """Take over what a file says of the guarantee; ValueError if it is not true."""
        self.guarantee = confirmed(self.guarantee, stated)

    def __repr__(self) -> str:
        neighbours = "" if self.neighbours == "change" else f", neighbours={self.neighbours!r}"
        return f"{type(self).__name__}({self.query!r}, scale={self.scale!r}{neighbours})"


class LaplaceNoise(AdditiveNoise):
    """What `Laplace` and `DiscreteLaplace` share."""

    family = LAPLACE

    def __init__(
        self,
        query: QueryLike,
        epsilon: float | None = None,
        scale: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._set_query(query, neighbours)
        self.scale, self.guarantee = laplace_noise(query, neighbours, epsilon=epsilon, scale=scale)


class GaussianNoise(AdditiveNoise):
    """What `Gaussian` and `DiscreteGaussian` share."""

    family = GAUSSIAN

    def __init__(
        self,
        query: QueryLike,
        scale: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mu: float | None = None,
        neighbours: Neighbours = "change",
    ) -> None:
        self._set_query(query, neighbours)
        self.scale, self.guarantee = gaussian_noise(
            query,
            neighbours,
            scale=scale,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            mu=mu,
            discrete=self.discrete,
        )


def records_to_release(query: Any, records: ArrayLike, rng: np.random.Generator) -> NDArray[Any]:
    """Return the records of `privatize` as an array, after a look at them and at `rng`."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            "rng must be a numpy.random.Generator, such as numpy.random.default_rng(1); "
            f"got {rng!r}"
        )
    records = as_array(records, query)
    query.check_records(records)
    return records


def check_query(query: Any) -> None:
    """TypeError unless `query` has what a mechanism asks of a query."""
    missing = [name for name in ("names", "statistic", "sensitivity") if not hasattr(query, name)]
    if missing or isinstance(query, type):
        raise TypeError(
            "query must be a query, such as noiseaware.queries.Count(); "
            f"got {query!r}" + (f", which has no {', '.join(missing)}" if missing else "")
        )


def check_values(
    values: ArrayLike, names: tuple[str, ...], integers: bool, withheld: bool = False
) -> NDArray[np.float64]:
    """`values` as a new float64 array (d,), or a ValueError that names the bad coordinate.

    With `withheld`, NaN is allowed: a value that was not published.
    """
    array = as_numbers(values)
    if array.ndim == 0:
        array = array[np.newaxis]
    if array.ndim != 1 or len(array) != len(names):
        got = f"{len(array)}" if array.ndim == 1 else f"an array of shape {array.shape}"
        raise ValueError(
            f"values must be {len(names)} numbers, one for each name of the query "
            f"({_shortened(names)}); got {got}"
        )
    bad = np.flatnonzero(np.isinf(array) if withheld else ~np.isfinite(array))
    if bad.size:
        hint = " (a withheld value needs Thresholded)" if np.isnan(array[bad[0]]) else ""
        raise ValueError(f"values must be finite; got {array[bad[0]]} for {names[bad[0]]!r}{hint}")
    if integers:
        bad = np.flatnonzero(array != np.floor(array))
        if bad.size:
            raise ValueError(
                "values must be integers under discrete noise; "
                f"got {array[bad[0]]} for {names[bad[0]]!r}"
            )
    return array


def as_numbers(values: ArrayLike) -> NDArray[np.float64]:
    """`values` as a new float64 array of any shape, or a TypeError."""
    try:
        # NumPy would read the text "1" as a number, and drop an imaginary part.
        if np.asarray(values).dtype.kind not in "biufO":
            raise TypeError
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"values must be numbers; got {values!r}") from None


def _shortened(names: tuple[str, ...]) -> str:
    """Return the names as a list in words, without the middle of a long one."""
    shown = [*names[:3], "...", names[-1]] if len(names) > 5 else names
    return ", ".join(shown)
