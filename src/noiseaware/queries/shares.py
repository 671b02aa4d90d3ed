"""The sums of shares, each record being shares of a whole (of a day, of a budget).

A record that changes moves the sum of one share only at the cost of another, which a clamped `Sum`
does not know: for k shares its l1 sensitivity is k, and that of this query is 2.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import Described
from noiseaware.contract import Floats, Neighbours
from noiseaware.queries.arguments import check_columns, check_norm, check_numbers
from noiseaware.registry import QUERIES

TOLERANCE = 1e-8
"""How far from 1 the sum of the shares of a record may be."""


class Shares(Described):
    """The sums of the shares and, if asked, of their squares.

    Records are floats (n, n_parts), at least 0, each row with sum 1.

    Parameters
    ----------
    n_parts
        The number of shares k of a record.
    squares
        True releases the sums of the squared shares as well, which tell how different the records
        are; False the sums of the shares only.

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
    example_arguments: ClassVar[dict[str, Any]] = {"n_parts": 3}

    def __init__(self, n_parts: int, squares: bool = False) -> None:
        k = whole_number("n_parts", n_parts, least=2)
        if not isinstance(squares, bool | np.bool_):
            raise TypeError(f"squares must be True or False; got {squares!r}")
        names = tuple(f"x{j}" for j in range(1, k + 1))
        if squares:
            names += tuple(f"{name}^2" for name in names)
        self._hold(n_parts=k, squares=bool(squares), names=names)

    def statistic(self, records: ArrayLike) -> Floats:
        """Return the shares of each record, (n, k), or with their squares (n, 2 k)."""
        array = np.array(records, dtype=np.float64, order="C")
        check_columns(array, self.n_parts)
        return np.concatenate((array, array * array), axis=1) if self.squares else array

    def total(self, records: ArrayLike) -> Floats:
        """Return the sum of `statistic` over the records."""
        array = np.asarray(records, dtype=np.float64)
        check_columns(array, self.n_parts)
        sums = array.sum(axis=0)
        if not self.squares:
            return sums
        return np.concatenate((sums, np.einsum("ij,ij->j", array, array)))

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


QUERIES.add(Shares)
