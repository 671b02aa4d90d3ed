"""Sums of clamped records and of shares, and the record's own number."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import Clamping, Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Floats, Neighbours, Reading
from noiseaware.queries.arguments import (
    Bound,
    as_bounds,
    bound_array,
    check_columns,
    check_flat,
    check_norm,
    check_numbers,
    vector_norm,
)
from noiseaware.registry import QUERIES


class Sum(Clamping):
    """The sum of the records, each clamped to published bounds.

    Parameters
    ----------
    lower, upper
        The bounds: two numbers for records of shape (n,). Give w numbers for either or both if
        records have shape (n, w); their w sums are then released.
    integer_valued
        Whether the records are integers, so that discrete noise can be added; the bounds must then
        be integers too.

    Examples
    --------
    >>> query = Sum(lower=0, upper=5)
    >>> query.statistic([-1.0, 2.5, 7.0]).ravel()
    array([0. , 2.5, 5. ])
    >>> query.sensitivity(norm=1)
    5.0
    """

    in_words = "The sum of the records."
    lower: Bound
    upper: Bound
    integer_valued: bool
    names: tuple[str, ...]
    _lower: Floats
    _upper: Floats
    _record_shape: tuple[int, ...]
    example_arguments = {"lower": 0.0, "upper": 5.0}

    def __init__(self, lower: ArrayLike, upper: ArrayLike, *, integer_valued: bool = False) -> None:
        low, high = as_bounds(lower, upper)
        lists = [bound for bound in (low, high) if isinstance(bound, tuple)]
        width = len(lists[0]) if lists else 1
        a, b = bound_array(low, width), bound_array(high, width)
        for name, bound in (("lower", a), ("upper", b)):
            if integer_valued and (bound != np.floor(bound)).any():
                right = f"{name} must be whole when integer_valued=True"
                raise ValueError(f"{right}; got {bound.tolist()}")
        names = tuple(f"sum of x{j}" for j in range(1, width + 1)) if lists else ("sum",)
        self._hold(
            lower=low,
            upper=high,
            integer_valued=bool(integer_valued),
            names=names,
            _lower=a,
            _upper=b,
            _record_shape=(width,) if lists else (),
        )

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the clamped records, (n, w); w = 1 for scalar records."""
        array = as_array(records, self)
        if array.shape[1:] != self._record_shape:
            self.check_records(array)
        clamped = np.maximum(array.reshape(-1, len(self.names)), self._lower)
        return np.minimum(clamped, self._upper, out=clamped)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total; every value is attained.

        It is the norm of the most that each entry j can move: upper_j - lower_j if a record is
        changed, max(|lower_j|, |upper_j|) if one is added or removed.
        """
        check_norm(norm, neighbours)
        if neighbours == "change":
            return vector_norm(self._upper - self._lower, norm)
        return vector_norm(np.maximum(np.abs(self._lower), np.abs(self._upper)), norm)

    def reading(self, totals: Floats, n: int) -> Reading | None:
        """Return the sum, if it is one number."""
        if self._record_shape:
            return None
        lower, upper = float(self._lower[0]), float(self._upper[0])
        total = float(np.clip(totals[0], n * lower, n * upper))
        words = "moved to a possible sum, as if nothing was clamped"
        return Reading("sum", total, words, (lower, upper))

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of the right shape."""
        records = as_array(records, self)
        if self._record_shape:
            check_columns(records, self._record_shape[0])
        else:
            check_flat(records)
        check_numbers(records, self.integer_valued)

    def possible(self, totals: Floats, n: int) -> Floats:
        """Return the nearest sums between n lower and n upper."""
        return np.clip(totals, n * self._lower, n * self._upper)


class Value(Described):
    """The record's own number, for records that are released one by one.

    A record may be a published cell, its number the true count. Nothing bounds it, so it has no
    known sensitivity; only the publisher can state a guarantee.

    Parameters
    ----------
    integer_valued
        Whether records are integers, such as counts; discrete noise requires it.

    Examples
    --------
    >>> Value().statistic(np.array([3, 0])).ravel()
    array([3., 0.])
    """

    is_value = True
    in_words = "The number of every record, one by one."
    integer_valued: bool
    names: tuple[str, ...]

    def __init__(self, *, integer_valued: bool = True) -> None:
        self._hold(integer_valued=bool(integer_valued), names=("value",))

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the records, (n, 1)."""
        return np.array(as_array(records, self), dtype=np.float64).reshape(-1, 1)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Raise ValueError: nothing bounds the number."""
        check_norm(norm, neighbours)
        raise ValueError(
            "the sensitivity of Value is not known: how far one person can move a published number "
            "is for its publisher to say; for the posterior the scale of the noise is enough"
        )

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n,)."""
        array = as_array(records, self)
        check_flat(array)
        check_numbers(array, self.integer_valued)


TOLERANCE = 1e-8
"""How far from 1 a record's shares may sum."""


class Shares(Described):
    """The sums of the shares and, if asked, of their squares.

    Records are floats (n, n_parts), at least 0, with rows that sum to 1, such as shares of a day. A
    changed record raises one share only at the cost of others, so for k shares the l1 sensitivity
    is 2; that of a clamped `Sum` is k.

    Parameters
    ----------
    n_parts
        The number of shares k of a record.
    squares
        Whether to release the sums of the squared shares too, which show how much records vary.

    Examples
    --------
    >>> query = Shares(n_parts=3)
    >>> query.names
    ('x1', 'x2', 'x3')
    >>> query.sensitivity(norm=1)
    2.0
    >>> Shares(2, squares=True).statistic([[0.5, 0.5]])
    array([[0.5 , 0.5 , 0.25, 0.25]])
    """

    n_parts: int
    squares: bool
    names: tuple[str, ...]
    integer_valued: ClassVar[bool] = False
    example_arguments = {"n_parts": 3}

    def __init__(self, n_parts: int, squares: bool = False) -> None:
        k = whole_number("n_parts", n_parts, least=2)
        if not isinstance(squares, bool | np.bool_):
            raise TypeError(f"squares must be True or False; got {squares!r}")
        names = tuple(f"x{j}" for j in range(1, k + 1))
        if squares:
            names += tuple(f"{name}^2" for name in names)
        self._hold(n_parts=k, squares=bool(squares), names=names)

    def statistic(self, records: ArrayLike) -> Floats:
        """Return each record's shares, (n, k), or shares and squares, (n, 2 k)."""
        array = np.array(records, dtype=np.float64, order="C")
        check_columns(array, self.n_parts)
        return np.concatenate((array, array * array), axis=1) if self.squares else array

    def total(self, records: ArrayLike) -> Floats:
        """Return the sum of `statistic` over the records."""
        array = np.asarray(records, dtype=np.float64)
        check_columns(array, self.n_parts)
        ones = np.ones(len(array))  # BLAS adds up narrow rows ten times as fast as `sum` does
        return np.concatenate((ones @ array, *((ones @ (array * array),) if self.squares else ())))

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        """Return how far one record can move the total; every value is attained.

        ==========  ===================  ========================
        norm        change one record    add or remove one record
        ==========  ===================  ========================
        1           2 (squares: 4)       1 (squares: 2)
        2           sqrt(2) (2)          1 (sqrt(2))
        inf         1                    1
        ==========  ===================  ========================

        The proofs are in `docs/sensitivity.md`.
        """
        check_norm(norm, neighbours)
        moved = (2.0 if neighbours == "change" else 1.0) * (2.0 if self.squares else 1.0)
        if norm == 1:
            return moved
        return math.sqrt(moved) if norm == 2 else 1.0

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are shares that sum to 1."""
        check_columns(np.asarray(records), self.n_parts)
        check_numbers(records)
        array = np.asarray(records, dtype=np.float64)
        bad = (array < 0.0).any(axis=1) | (np.abs(array.sum(axis=1) - 1.0) > TOLERANCE)
        if bad.any():
            index = int(np.argmax(bad))
            raise ValueError(
                "records must be shares of at least 0 that sum to 1; "
                f"got {array[index].tolist()} in record {index}"
            )


QUERIES.add(Sum, Value, Shares)
