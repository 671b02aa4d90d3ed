"""Renamed objects: old names work for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(
    module: str, names: Mapping[str, tuple[str, Any]], left: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, such as "noiseaware.moves", with renamed members.

    `names` maps each old name to the new one, as users write it, and the object; `left` says where
    to find what has left the package.
    """

    def find(name: str) -> Any:
        if name in names:
            new, found = names[name]
            warn(f"{module}.{name}", new)
            return found
        hint = f"; {left[name]}" if left and name in left else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")

    return find


def warn(old: str, new: str) -> None:
    """Warn, at the caller's caller, that a name has changed."""
    warnings.warn(f"{old} is now {new}; the old name goes with 0.3", DeprecationWarning, 3)
