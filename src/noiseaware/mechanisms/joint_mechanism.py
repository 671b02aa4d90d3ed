"""What the mechanisms with a joint density share; see `joint` for the compiled formulas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.mechanisms.additive import check_values, records_to_release
from noiseaware.mechanisms.guarantee import Guarantee, confirmed
from noiseaware.mechanisms.joint import Joint, log_joint
from noiseaware.queries import Neighbours

if TYPE_CHECKING:
    from noiseaware.release import Release


class JointMechanism:
    """A mechanism whose log density is one compiled formula of the whole total T.

    Attributes
    ----------
    query
        What was asked; its names are those of the released values.
    scale
        The scale of the noise.
    neighbours, guarantee
        The relation that the guarantee is about, and what is promised.
    """

    query: Any
    scale: float
    neighbours: Neighbours
    guarantee: Guarantee

    def joint(self, values: ArrayLike) -> Joint:
        """Return the log density of these released values, for compiled code."""
        raise NotImplementedError

    def _draw(self, records: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
        """Simulate the released values."""
        raise NotImplementedError

    def _length(self, values: NDArray[np.float64]) -> int:
        """Return the length of T."""
        return len(values)

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T.

        Parameters
        ----------
        values
            s_dp, the released values.
        total
            T, the statistics summed over the records, (d,).
        """
        checked = self.check_values(values)
        code, parameters = self.joint(checked)
        total = np.ascontiguousarray(total, dtype=np.float64)
        if total.shape != (self._length(checked),):
            raise ValueError(f"total must have shape ({self._length(checked)},); got {total.shape}")
        return float(log_joint(code, parameters, total))

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as a new float64 array; ValueError if they cannot be."""
        return check_values(values, tuple(self.query.names), integers=False)

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records.

        For simulation only: floating-point noise from an ordinary random generator is open to
        known attacks (Mironov 2012). To protect real people, use a vetted library.

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
        return Release(self._draw(records, rng), self, len(records))

    def take_guarantee(self, stated: Guarantee) -> None:
        """Take over what a file says of the guarantee; ValueError if it is not true."""
        self.guarantee = confirmed(self.guarantee, stated)

    def _to_dict(self, **others: Any) -> dict[str, Any]:
        return {
            "type": type(self).__name__,
            "scale": self.scale,
            "neighbours": self.neighbours,
            "guarantee": self.guarantee.to_dict(),
            **others,
        }


def read_entries(
    entries: dict[str, Any], needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Check the fields of a mechanism in a file; return them without type and guarantee."""
    known = ("type", "scale", *needed, "neighbours", "guarantee", *optional)
    for name in known[: len(needed) + 2]:
        if name not in entries:
            raise ValueError(f"a mechanism {entries.get('type')!r} must have {name!r}")
    foreign = sorted(set(entries) - set(known))
    if foreign:
        raise ValueError(f"a mechanism may have {', '.join(known)}; got {foreign[0]!r}")
    return {name: entries[name] for name in entries if name not in ("type", "guarantee")}


def norm_to_json(norm: float) -> float | str:
    """Return a norm as JSON knows it, which has no infinity."""
    return "inf" if math.isinf(norm) else norm


def norm_of(norm: Any) -> float:
    """Return what a user or a file gave for a norm, with "inf" as a number."""
    return math.inf if isinstance(norm, str) and norm == "inf" else norm
