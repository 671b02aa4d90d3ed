"""Passes over many records, piece by piece.

A pass that builds records and sums their statistics needs the records only briefly. Taken a piece
at a time they stay in the processor's cache, no second database is held, and several threads can
take a piece each, since compiled loops and NumPy's generators release the interpreter's lock.

The draws do not depend on the number of threads. Sums are added in the order of the pieces, and
each piece has its own generator, seeded by numbers that the chain's generator draws once for the
pass. A database of at most one piece is handled without any of this.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

PIECE = 32_768
"""Records of a piece: enough to make the calls around them cheap, few enough to keep some columns
in cache."""

Result = TypeVar("Result")


class _Thread(threading.local):
    """Whether this thread is one of ours. These wait for no other thread, since all might wait."""

    ours = False


_thread = _Thread()


def in_pieces(
    n: int,
    function: Callable[..., Result],
    rng: np.random.Generator | None = None,
    *,
    piece: int | None = None,
    threads: int = 1,
) -> Iterator[Result]:
    """Yield function(begin, end) of each piece of n records, in order; of (begin, end, rng) if any.

    With several threads a few pieces are computed ahead of the one that is yielded.
    """
    piece = piece or PIECE
    places: list[tuple[Any, ...]] = [(a, min(a + piece, n)) for a in range(0, n, piece)]
    if rng is not None:
        places = [(*place, own) for place, own in zip(places, streams(rng), strict=False)]
    if threads == 1 or _thread.ours:
        yield from (function(*place) for place in places)
        return
    waiting: deque[Any] = deque()
    for place in places:
        if len(waiting) == 2 * threads:
            yield waiting.popleft().result()
        waiting.append(_pool(threads).submit(_quietly, function, place))
    while waiting:
        yield waiting.popleft().result()


def streams(rng: np.random.Generator) -> Iterator[np.random.Generator]:
    """Yield independent generators, seeded by 128 bits of another."""
    key = rng.integers(2**64, size=2, dtype=np.uint64).tolist()
    number = 0
    while True:
        seed = np.random.SeedSequence(key, spawn_key=(number,))
        yield np.random.Generator(np.random.SFC64(seed))
        number += 1


def _quietly(function: Callable[..., Any], place: tuple[Any, ...]) -> Any:
    """Call a function in a thread, without warnings when a proposal overflows."""
    _thread.ours = True
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return function(*place)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="noiseaware")
