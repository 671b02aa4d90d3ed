"""Checks of the arguments of models.

Each check returns the value as the models store it (a plain int or float, or a fresh array), so a
constructor reads as a list of what it accepts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.frames import columns_of
from noiseaware.contract import Floats


def real_number(name: str, value: Any) -> float:
    """Return ``value`` as a finite float."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a finite number; got {value!r}") from None
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
    return number


def positive_number(name: str, value: Any) -> float:
    """Return ``value`` as a finite float above 0."""
    number = real_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be positive; got {value!r}")
    return number


LEAST_SHAPE = 0.03
"""With this shape, 3e-9 of a gamma prior is below 1e-287 / rate, near the end of the doubles."""


def prior_shape(name: str, value: Any) -> float:
    """Return the shape of a gamma or inverse gamma prior of a parameter that scales the records."""
    number = positive_number(name, value)
    if number < LEAST_SHAPE:
        raise ValueError(
            f"{name} must be at least {LEAST_SHAPE}: a smaller shape puts part of the prior where "
            f"the records would be no floating-point numbers any more; got {value!r}"
        )
    return number


REAL, POSITIVE, PRIOR_SHAPE = (
    {"check": check} for check in (real_number, positive_number, prior_shape)
)
"""The ``metadata`` of a dataclass field: how `ReadyModel` checks the argument."""


def not_both_known(**given: Any) -> None:
    """Raise ValueError if neither of two parameters is None (unknown)."""
    if all(value is not None for value in given.values()):
        names = " and ".join(given)
        values = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(
            f"{names} must not both be known, or there is nothing to infer; got {values}"
        )


def real_array(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return ``value`` as a fresh float64 array of finite numbers with this shape.

    A plain number is accepted for a shape with one entry.
    """
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an array of numbers with shape {shape}; got {value!r}"
        ) from None
    if array.ndim == 0 and all(size == 1 for size in shape):
        array = array.reshape(shape)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers; got {array.tolist()}")
    return array


def one_or_each(name: str, value: ArrayLike, size: int, *, positive: bool = False) -> Floats:
    """Return one number for all, or an array with one for each, as a fresh array ``(size,)``."""
    if np.ndim(value) == 0:
        value = np.full(size, real_number(name, value))
    array = real_array(name, value, (size,))
    if positive and not (array > 0).all():
        raise ValueError(f"{name} must be positive; got {value!r}")
    return array


def covariance_matrix(name: str, value: ArrayLike, size: int) -> Floats:
    """Return ``value`` as a fresh symmetric positive definite matrix."""
    array = real_array(name, value, (size, size))
    if not np.allclose(array, array.T, rtol=1e-10, atol=0.0):
        raise ValueError(f"{name} must be symmetric; got {array.tolist()}")
    try:
        np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite; got {array.tolist()}") from None
    return array


MOST_CELLS = 10_000_000
"""Maximum number of cells of a table; a posterior draw has a number for each."""


def table_levels(n_levels: Any, right: str) -> list[int]:
    """Return the number of levels of each variable of a table; ``right`` completes the message."""
    if np.ndim(n_levels) != 1 or len(n_levels) == 0:
        raise ValueError(f"n_levels must {right}; got {n_levels!r}")
    levels = [whole_number(f"n_levels[{k}]", count, least=2) for k, count in enumerate(n_levels)]
    n_cells = math.prod(levels)
    if n_cells > MOST_CELLS:
        raise ValueError(
            f"n_levels must make a table of at most {MOST_CELLS:,} cells; got {n_cells:,}: leave "
            "out variables, or put levels together"
        )
    return levels


def feature_columns(given: Any) -> dict[str, Floats]:
    """Return known features by name, as floats; an error names the column and the row."""
    columns = columns_of("features", given, "x{}")
    for name, column in columns.items():
        if column.dtype.kind not in "iufb":
            entry = column[:1].tolist()[0]
            raise TypeError(f"features must be numbers; column {name!r} has {entry!r}")
        columns[name] = column = column.astype(np.float64)
        wrong = ~np.isfinite(column)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"features must have no missing values; column {name!r} has {column[row]} in row "
                f"{row}"
            )
        if (column == column[0]).all():
            raise ValueError(
                f"features must vary; column {name!r} is {column[0]} in every row, and the "
                "intercept is there already"
            )
    return columns


def common_length(columns: Mapping[str, Floats]) -> int | None:
    """Return the common length of known features; None if there are no features."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"features must have columns of one length; got {lengths}")
    return next(iter(lengths.values()), None)


def read_parameter(theta: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    """Return ``theta[name]`` as a contiguous float64 array; a wrong shape is an error.

    The kernels index without bounds checks and rely on this.
    """
    array = np.ascontiguousarray(theta[name], dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got shape {array.shape}")
    return array


def read_floats(name: str, values: ArrayLike, width: int | None) -> Floats:
    """Return ``values`` as contiguous float64, ``(n,)`` or, with a width, ``(n, width)``."""
    return _of_shape(name, np.ascontiguousarray(values, dtype=np.float64), width)


def read_integers(records: ArrayLike, width: int | None) -> NDArray[np.int64]:
    """Return records as contiguous int64, ``(n,)`` or, with a width, ``(n, width)``."""
    array = np.asarray(records)
    if array.dtype.kind not in "iub":
        raise TypeError(f"records must be integers; got an array of {array.dtype}")
    return _of_shape("records", np.ascontiguousarray(array, dtype=np.int64), width)


def _of_shape(name: str, array: NDArray[Any], width: int | None) -> NDArray[Any]:
    if array.shape[1:] != (() if width is None else (width,)):
        right = "(n,)" if width is None else f"(n, {width})"
        raise ValueError(f"{name} must have shape {right}; got shape {array.shape}")
    return array


def refuse_records(wrong: NDArray[np.bool_], right: str, shown: NDArray[Any]) -> None:
    """Raise ValueError at the first wrong record, saying what would be right and what it has."""
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ValueError(f"{right}; got {shown[index].tolist()} in record {index}")


def check_levels(records: NDArray[np.int64], n_levels: Sequence[int], names: Sequence[str]) -> None:
    """Raise ValueError if a column of the records has a level that the model lacks."""
    columns = records if records.ndim == 2 else records[:, np.newaxis]
    for column, count, name in zip(columns.T, n_levels, names, strict=True):
        right = f"records must hold integers from 0 to {count - 1} as {name}"
        refuse_records((column < 0) | (column >= count), right, column)
