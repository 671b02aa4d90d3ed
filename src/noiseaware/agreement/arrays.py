"""Results of a user's class as arrays that compiled loops can take, or an error that names it.

Compiled loops do not check bounds, and their error messages are pages long. So they only get arrays
that have been checked here or made by this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def usual_array(array: np.ndarray) -> np.ndarray:
    """Return an array in the form for compiled code: contiguous, writeable, of a usual dtype."""
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        dtype = np.dtype(np.float64)
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.writeable else array.copy()


def short(value: Any) -> str:
    """Describe what was returned: all of it, or shape and dtype of a large array."""
    if isinstance(value, np.ndarray) and value.size > 10:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{type(value).__name__} {shown[:200]} ..."


def as_records(where: str, made: Any, m: int) -> np.ndarray:
    """Return what a model made if it is an array of m records, or raise."""
    if not isinstance(made, np.ndarray) or made.dtype.kind not in "fiub":
        kind = f"dtype {made.dtype}" if isinstance(made, np.ndarray) else type(made).__name__
        raise TypeError(f"{where} must return a NumPy array of real numbers; got {kind}")
    if made.ndim == 0 or len(made) != m:
        raise ValueError(
            f"{where} must return {m} records along the first axis when asked for {m}; "
            f"got shape {made.shape}"
        )
    return made


def as_statistic(source: str, t: Any, m: int, d: int | None, *, finite: bool = False) -> np.ndarray:
    """Return a statistic as float64 (m, d), or raise.

    It may overflow for records of an extreme proposal, which is then rejected. At a draw of the
    prior it must be finite.
    """
    if not isinstance(t, np.ndarray) or t.dtype.kind not in "fiub":
        raise TypeError(f"{source} must return a NumPy array of numbers; got {short(t)}")
    if t.ndim != 2 or len(t) != m or t.shape[1] != (d or t.shape[1]):
        raise ValueError(
            f"{source} must return shape ({m}, {d or 'd'}) for {m} records; got {t.shape}"
        )
    if finite and not np.isfinite(t).all():
        raise ValueError(f"{source} returned a value that is not finite")
    return np.ascontiguousarray(t, dtype=np.float64)


def as_cells(source: str, cells: Any, m: int, d: int) -> np.ndarray:
    """Return cell numbers as int64 (m, k), each below d, or raise: loops index with them."""
    if not isinstance(cells, np.ndarray) or cells.dtype.kind not in "iu":
        raise TypeError(f"{source} must return a NumPy array of integers; got {short(cells)}")
    if cells.ndim != 2 or len(cells) != m:
        raise ValueError(f"{source} must return shape ({m}, k) for {m} records; got {cells.shape}")
    if cells.size and not (int(cells.min()) >= -1 and int(cells.max()) < d):
        wrong = cells[(cells < -1) | (cells >= d)][0]
        raise ValueError(
            f"{source} must return cells from 0 to {d - 1}, or -1 for no cell; got {wrong}"
        )
    return np.ascontiguousarray(cells, dtype=np.int64)


def as_placed(source: str, placed: Any, m: int, d: int) -> np.ndarray:
    """Return rows with their first coordinate, float64 (m, 1 + w), or raise."""
    rows = as_statistic(source, placed, m, None)
    first, w = rows[:, 0], rows.shape[1] - 1
    if w < 1 or d % w or (first % w).any() or not ((first >= 0) & (first <= d - w)).all():
        raise ValueError(
            f"{source} must return shape ({m}, 1 + w), where w divides {d}, with multiples of w "
            f"from 0 to {d} - w first; got {short(placed)}"
        )
    return rows


def as_total(source: str, total: Any, d: int) -> np.ndarray:
    """Return a total as float64 (d,), or raise."""
    if not isinstance(total, np.ndarray) or total.dtype.kind not in "fiub" or total.shape != (d,):
        raise ValueError(f"{source} must return an array of shape ({d},); got {short(total)}")
    return np.ascontiguousarray(total, dtype=np.float64)


def as_number(where: str, value: Any, wanted: str) -> float:
    """Return one finite number, or raise."""
    try:
        number = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} must return {wanted}; got {short(value)}") from None
    if number.shape != () or not np.isfinite(number):
        raise ValueError(f"{where} must return {wanted}; got {short(value)}")
    return float(number)


def as_innovations(where: str, innovations: Any, n: int, width: int) -> np.ndarray:
    """Return innovations as float64 (n, width), or raise."""
    try:
        array = np.ascontiguousarray(innovations, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} must return numbers; got {short(innovations)}") from None
    if array.shape != (n, width):
        raise ValueError(
            f"{where} must return shape {(n, width)} for {n} records; got {np.shape(innovations)}"
        )
    return array
