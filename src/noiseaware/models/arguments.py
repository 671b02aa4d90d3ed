"""Checks of what a user hands to a model.

Every check returns the value in the form that the models keep (a plain int, float or a fresh
array), so that a constructor reads as a list of what it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
"""With this shape, 3e-9 of a gamma prior is below 1e-287 / rate, where the doubles are ending."""


def prior_shape(name: str, value: Any) -> float:
    """Return the shape of a gamma or inverse gamma prior of a parameter that scales the records."""
    number = positive_number(name, value)
    if number < LEAST_SHAPE:
        raise ValueError(
            f"{name} must be at least {LEAST_SHAPE}: a smaller shape puts part of the prior where "
            f"the records would be no floating-point numbers any more; got {value!r}"
        )
    return number


def not_both_known(**given: Any) -> None:
    """Raise ValueError if neither of two parameters is None, which is what stands for unknown."""
    if all(value is not None for value in given.values()):
        names = " and ".join(given)
        values = " and ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(
            f"{names} must not both be known, or there is nothing to infer; got {values}"
        )


def real_array(name: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return ``value`` as a fresh float64 array of finite numbers with this shape.

    A plain number will do where there is room for one number only.
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


def one_or_each(
    name: str, value: ArrayLike, size: int, *, positive: bool = False
) -> NDArray[np.float64]:
    """Return one number for all, or an array with one for each, as a fresh array ``(size,)``."""
    if np.ndim(value) == 0:
        value = np.full(size, real_number(name, value))
    array = real_array(name, value, (size,))
    if positive and not (array > 0).all():
        raise ValueError(f"{name} must be positive; got {value!r}")
    return array


def covariance_matrix(name: str, value: ArrayLike, size: int) -> NDArray[np.float64]:
    """Return ``value`` as a fresh symmetric positive definite matrix."""
    array = real_array(name, value, (size, size))
    if not np.allclose(array, array.T, rtol=1e-10, atol=0.0):
        raise ValueError(f"{name} must be symmetric; got {array.tolist()}")
    try:
        np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name} must be positive definite; got {array.tolist()}") from None
    return array


def read_parameter(
    theta: Mapping[str, Any], name: str, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return ``theta[name]`` as a contiguous float64 array; a wrong shape is an error.

    The kernels index without bounds checks, so a wrong shape must not reach them.
    """
    array = np.ascontiguousarray(theta[name], dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got shape {array.shape}")
    return array


def read_floats(name: str, values: ArrayLike, width: int) -> NDArray[np.float64]:
    """Return ``values`` as a contiguous float64 array of shape ``(n, width)``."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (n, {width}); got shape {array.shape}")
    return array


def read_finite(records: ArrayLike, width: int | None) -> NDArray[np.float64]:
    """Return records as float64, ``(n,)`` or, with a width, ``(n, width)``; all must be finite."""
    array = read_numbers(records) if width is None else read_floats("records", records, width)
    if not np.isfinite(array).all():
        raise ValueError("records must be finite; got NaN or an infinite number")
    return array


def read_numbers(records: ArrayLike) -> NDArray[np.float64]:
    """Return records as a contiguous float64 array of shape ``(n,)``."""
    array = np.ascontiguousarray(records, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"records must have shape (n,); got shape {array.shape}")
    return array


def check_durations(given: ArrayLike, *, zero: bool = True) -> None:
    """Raise ValueError unless the records are finite and at least 0, or, without zero, above 0."""
    records = read_finite(given, None)
    bad = records < 0.0 if zero else records <= 0.0
    if bad.any():
        index = int(np.argmax(bad))
        right = "durations of at least 0" if zero else "durations above 0"
        raise ValueError(f"records must be {right}; got {records[index]} in record {index}")


def read_integers(records: ArrayLike, width: int | None) -> NDArray[np.int64]:
    """Return records as a contiguous int64 array, ``(n,)`` or, with a width, ``(n, width)``."""
    array = np.asarray(records)
    if array.dtype.kind not in "iub":
        raise TypeError(f"records must be integers; got an array of {array.dtype}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    if width is None:
        if array.ndim != 1:
            raise ValueError(f"records must have shape (n,); got shape {array.shape}")
    elif array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"records must have shape (n, {width}); got shape {array.shape}")
    return array


def check_levels(records: NDArray[np.int64], n_levels: Sequence[int], names: Sequence[str]) -> None:
    """Raise ValueError if a column of the records has a level that the model does not have."""
    columns = records if records.ndim == 2 else records[:, np.newaxis]
    for column, count, name in zip(columns.T, n_levels, names, strict=True):
        wrong = (column < 0) | (column >= count)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise ValueError(
                f"records must hold integers from 0 to {count - 1} as {name}; "
                f"got {int(column[index])} in record {index}"
            )
