"""Holding back Ctrl-C while it would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold back Ctrl-C in the block, and SIGTERM if it acts like Ctrl-C.

    A compiled function reads a `numpy.random.Generator` by calling Python's `ctypes.cast`; numba
    0.68 does not check whether that call raised, and continues with a null pointer. So nothing may
    raise there, as a signal would. KeyboardInterrupt is raised when the block calls the function
    that it is given, or at its end. A second Ctrl-C acts at once, because the block may take long.

    Only signals that raise KeyboardInterrupt are held back, so a nested block does nothing.
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
