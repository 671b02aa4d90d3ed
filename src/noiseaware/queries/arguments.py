"""Checks of arguments and records that several queries share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import refuse
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats

Bound = float | tuple[float, ...]
"""A bound on a record: one number for all of its entries, or one for each."""


def as_bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Bound, Bound]:
    """Return both bounds as floats or tuples of floats, finite, with lower below upper."""
    low, high = _as_bound("lower", lower), _as_bound("upper", upper)
    if isinstance(low, tuple) and isinstance(high, tuple) and len(low) != len(high):
        got = f"got {len(low)} and {len(high)}"
        raise ValueError(f"lower and upper must have the same length; {got}")
    width = max(len(bound) if isinstance(bound, tuple) else 1 for bound in (low, high))
    pairs = zip(bound_array(low, width).tolist(), bound_array(high, width).tolist(), strict=True)
    for k, (a, b) in enumerate(pairs):
        if not a < b:
            where = f" for entry {k} of a record" if width > 1 else ""
            raise ValueError(f"lower must be below upper; got lower={a}, upper={b}{where}")
        if not math.isfinite(b - a):
            raise ValueError(f"upper - lower must be finite; got lower={a}, upper={b}")
    return low, high


def _as_bound(name: str, value: ArrayLike) -> Bound:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or a list of numbers; got {value!r}") from None
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a list of numbers; got {value!r}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got {value!r}")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def bound_array(bound: Bound, width: int) -> Floats:
    """Return a bound as an array with one entry for each entry of a record, (width,)."""
    return np.array(np.broadcast_to(bound, (width,)), dtype=np.float64)


def check_norm(norm: float, neighbours: str) -> None:
    """Raise ValueError unless both arguments of `sensitivity` are valid."""
    if norm not in (1, 2, math.inf):
        raise ValueError(f"norm must be 1, 2 or inf; got {norm!r}")
    if neighbours not in ("change", "add-remove"):
        raise ValueError(f'neighbours must be "change" or "add-remove"; got {neighbours!r}')


def vector_norm(vector: Sequence[float] | Floats, norm: float) -> float:
    """Return the l1, l2 or l-infinity norm of a vector."""
    return float(np.linalg.norm(np.asarray(vector, dtype=np.float64), ord=norm))


def as_float_records(records: ArrayLike, query: Any = None) -> Floats:
    """Return records as compiled code needs them, copied only if necessary."""
    return np.ascontiguousarray(as_array(records, query), dtype=np.float64)


def as_integer_records(records: ArrayLike, query: Any = None) -> NDArray[np.int64]:
    """Return records as int64; floats are an error, because a cast would truncate them."""
    array = as_array(records, query)
    check_integer_dtype(array)
    return np.ascontiguousarray(array, dtype=np.int64)


def check_columns(records: NDArray[Any], width: int, columns: str = "") -> None:
    """Raise ValueError unless the shape is (n, width); `columns` describes them."""
    if records.ndim != 2 or records.shape[1] != width:
        shape = records.shape
        raise ValueError(f"records must have shape (n, {width}){columns}; got shape {shape}")


def check_flat(records: NDArray[Any]) -> None:
    """Raise ValueError unless the shape is (n,)."""
    if records.ndim != 1:
        raise ValueError(f"records must have shape (n,); got shape {records.shape}")


def check_real_dtype(records: NDArray[Any]) -> None:
    """Raise ValueError unless the dtype holds real numbers."""
    if records.dtype.kind not in "fiub":
        raise ValueError(f"records must be real numbers; got dtype {records.dtype}")


def check_integer_dtype(records: NDArray[Any]) -> None:
    """Raise ValueError unless the dtype holds integers."""
    if records.dtype.kind not in "iub":
        raise ValueError(f"records must be integers; got dtype {records.dtype}")


def check_numbers(records: ArrayLike, integer_valued: bool = False) -> None:
    """Raise ValueError unless the records are finite real numbers (whole ones, if asked)."""
    array = np.asarray(records)
    check_real_dtype(array)

    def where(i: int) -> str:
        return f"in record {np.unravel_index(i, array.shape)[0]}"

    def why(i: int) -> str:
        return (
            f"{where(i)} (the query has integer_valued=True, for a model such as Poisson or "
            "NegativeBinomial; for Normal floats must have been summed: in OpenDP, cast to float "
            "before dp.sum)"
        )

    refuse("records must be finite", array, ~np.isfinite(array), where)
    if integer_valued:
        refuse("records must be whole numbers", array, array != np.floor(array), why)


def check_range(what: str, values: NDArray[Any], n_levels: int) -> None:
    """Raise ValueError unless all values, one per record, are in 0, ..., n_levels - 1."""
    right, wrong = f"{what} must be from 0 to {n_levels - 1}", (values < 0) | (values >= n_levels)
    refuse(right, values, wrong, "in record {}".format)
