"""Ctrl-C, held back for as long as it would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back in the block, and SIGTERM where it does the same.

    A compiled function reads a `numpy.random.Generator` by calling Python, `ctypes.cast`; numba
    0.68 does not look whether that call raised, and goes on with a null pointer. So nothing may
    raise there, and a signal would. KeyboardInterrupt is raised when the block calls what it is
    given, or at its end. A second Ctrl-C is not held back: what is going on may take long.

    Only signals that raise KeyboardInterrupt are held, so a block in such a block does nothing.
    """
    pressed: list[int] = []

    def note(number: int, _: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            let_go()

    def let_go() -> None:
        if pressed:
            pressed.clear()
            raise KeyboardInterrupt

    ours = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if threading.current_thread() is threading.main_thread()
        and signal.getsignal(number) is signal.default_int_handler
    ]
    for number in ours:
        signal.signal(number, note)
    try:
        yield let_go
    finally:
        for number in ours:
            signal.signal(number, signal.default_int_handler)
    let_go()
