"""Compiled functions that do not count references to arrays.

A function that is passed a tuple of arrays increments the reference count of each on entry and
decrements it on exit, by atomic instructions. With twenty arrays and little work, that is much of
the time: about a third of a step on counts (`python -m benchmarks.counts records`, with and
without). A function that allocates no array need not count, because its caller holds the arguments:

    @njit(cache=True, nogil=True, **UNCOUNTED)

Functions that it calls must not allocate arrays either: if this call compiles them first, they
inherit the switch, and would fail.

The switch is an undocumented one of numba; where it is missing, references are counted.
"""

from __future__ import annotations

from typing import Any

from numba.core.options import DefaultOptions

UNCOUNTED: dict[str, Any] = {"_nrt": False} if "_nrt" in vars(DefaultOptions) else {}
