"""The units in which a posterior is shown, and the divisors of its numbers.

The posterior holds both as attributes, so they are saved with it. A parameter's unit applies to all
its entries, unless an entry has its own. Only printed and plotted numbers are divided, never draws
or tables of numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from noiseaware.registry import nearest

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["KEYS", "Units", "check_units"]

KEYS = {"units": "report_units", "scales": "report_scales"}
"""The attributes of a posterior that hold units and scales."""


class Units(NamedTuple):
    """The units of parameters or of their entries, and the divisors of their numbers."""

    units: Mapping[str, str]
    scales: Mapping[str, float]

    @classmethod
    def of(cls, posterior: DataTree) -> Units:
        """Return the units and scales of a posterior."""
        return cls(*(json.loads(posterior.attrs.get(key, "{}")) for key in KEYS.values()))

    def unit(self, label: str) -> str:
        """Return the unit of a scalar; "" if unknown."""
        return self.units.get(label) or self.units.get(label.partition("[")[0], "")

    def scale(self, label: str) -> float:
        """Return the divisor of a scalar."""
        return self.scales.get(label) or self.scales.get(label.partition("[")[0], 1.0)

    def named(self, label: str) -> str:
        """Return the label followed by its unit."""
        return f"{label} ({self.unit(label)})" if self.unit(label) else label


def check_units(units: Any, scales: Any, names: Iterable[str], where: str = "") -> None:
    """Raise ValueError unless both are tables with valid values for these names."""
    if not isinstance(units, Mapping) or not all(isinstance(v, str) for v in units.values()):
        raise ValueError(f"units{where} must be a table of texts; got {units!r}")
    if not isinstance(scales, Mapping) or not all(map(_positive, scales.values())):
        raise ValueError(f"scales{where} must be a table of positive numbers; got {scales!r}")
    known = list(names)
    for what, given in (("units", units), ("scales", scales)):
        for label in given:
            if label not in known:
                of = f" of{where[3:]}" if where else ""
                raise ValueError(f"unknown name {label!r} in {what}{of}{nearest(label, known)}")


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0
