"""Names that have changed: the old ones work for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any


def renamed(
    module: str, names: Mapping[str, tuple[str, Any]], left: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, such as "noiseaware.moves", whose names have changed.

    `names` has the new name, as users write it, and the object of each old one; `left` says where
    what has left the package is now.
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
