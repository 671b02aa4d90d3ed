"""Arrays whose references compiled code does not count are the same arrays."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numba import njit

from noiseaware.basics.borrowed import borrowed


class Pair(NamedTuple):
    first: np.ndarray
    number: float


@njit
def double(array):
    for i in range(array.shape[0]):
        array[i] *= 2.0


@njit
def use(pair, plain):
    pair, plain = borrowed((pair, plain))
    double(plain)
    return pair.first.sum() + plain.sum() + pair.number


def test_numbers_are_read_and_written_and_nobody_owns_them():
    pair, plain = Pair(np.arange(3.0), 0.5), np.ones(4)
    counts = [sys.getrefcount(pair.first), sys.getrefcount(plain)]
    assert use(pair, plain) == 3.0 + 8.0 + 0.5
    assert (plain == 2.0).all()
    assert [sys.getrefcount(pair.first), sys.getrefcount(plain)] == counts
    assert use(pair, np.ones(4)) == use.py_func(pair, np.ones(4))
    assert borrowed(pair) is pair
