"""Compiled functions that do not count references to arrays.

A function that is handed a tuple of arrays counts each of them up when it begins and down when it
ends, by an atomic instruction each. Where a tuple holds twenty arrays and the function does little,
that is much of its time: of a step on counts, about a third (`python -m benchmarks.counts
records`, with and without). A function that makes no array has no need to count, because whoever
calls it holds what it was handed:

    @njit(cache=True, nogil=True, **UNCOUNTED)

What such a function calls must make no array either: if it is compiled for this call first, it
inherits the switch, and cannot.

numba has a switch for this but does not document it; where it is gone, references are counted.
"""

from __future__ import annotations

from typing import Any

from numba.core.options import DefaultOptions

UNCOUNTED: dict[str, Any] = {"_nrt": False} if "_nrt" in vars(DefaultOptions) else {}
