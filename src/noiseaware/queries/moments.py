"""The first and second moments of several columns, clamped and scaled to [-1, 1].

A record of q numbers is clamped to published bounds and moved to z in [-1, 1]^q; the total is the
sums of the z_j and of all products z_j z_k. They are what a mean vector and a covariance matrix are
estimated from. `RegressionMoments` has the same numbers, in the order of the paper's regression.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.frames import as_array
from noiseaware.queries.arguments import Bound, bound_to_json, check_numbers
from noiseaware.queries.clamped_moments import (
    ClampedMoments,
    bounds_of_columns,
    centre_and_scale,
    moments_sensitivity,
    product_names,
)
from noiseaware.queries.protocol import Neighbours


@dataclass(frozen=True, init=False)
class Moments:
    """The clamped sums, squares and cross products of all columns.

    Records are floats (n, n_columns).

    Parameters
    ----------
    n_columns
        The number of columns q.
    lower, upper
        The bounds that the columns are clamped to: a number for all of them, or q numbers. What is
        released are moments of (x - middle) / half the width of the bounds, which is in [-1, 1].

    Examples
    --------
    >>> query = Moments(n_columns=2, lower=-10, upper=10)
    >>> query.names
    ('x1', 'x2', 'x1^2', 'x1*x2', 'x2^2')
    >>> query.statistic([[5.0, 20.0]])
    array([[0.5 , 1.  , 0.25, 0.5 , 1.  ]])
    >>> round(query.sensitivity(norm=1), 3)
    5.333
    """

    n_columns: int
    lower: Bound
    upper: Bound
    names: tuple[str, ...] = field(repr=False, compare=False)
    integer_valued: ClassVar[bool] = False
    _moments: ClampedMoments = field(repr=False, compare=False)

    def __init__(self, n_columns: int, lower: ArrayLike, upper: ArrayLike) -> None:
        q = whole_number("n_columns", n_columns)
        low, high = bounds_of_columns(lower, upper, q, f"{q} numbers, one for each column")
        columns = [f"x{j}" for j in range(1, q + 1)]
        names = (*columns, *product_names(columns))
        moments = ClampedMoments(*centre_and_scale(low, high, q), np.arange(len(names)))
        set_field = object.__setattr__  # the way around `frozen`, for the constructor only
        set_field(self, "n_columns", q)
        set_field(self, "lower", low)
        set_field(self, "upper", high)
        set_field(self, "names", names)
        set_field(self, "_moments", moments)

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the moments of each record, (n, q (q + 3) / 2).

        Parameters
        ----------
        records
            (n, q).
        """
        return self._moments.of_each(records, self)

    def total(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the sum of `statistic` over the records, (q (q + 3) / 2,).

        Parameters
        ----------
        records
            (n, q).
        """
        return self._moments.of_all(records, self)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        r"""Return how far one record can move the total; every value is attained.

        With q columns (see `docs/sensitivity.md` for the proofs):

        ==========  ==========================  =========================
        norm        change one record           add or remove one record
        ==========  ==========================  =========================
        1           q(q+3)/2 + q/(2(q+1))       q(q+3)/2
        2           2 sqrt(floor((q+1)^2 / 4))  sqrt(q(q+3)/2)
        inf         2                           1
        ==========  ==========================  =========================

        Parameters
        ----------
        norm
            1, 2 or inf.
        neighbours
            `"change"` or `"add-remove"`.
        """
        return moments_sensitivity(self.n_columns, norm, neighbours)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n, q)."""
        records = as_array(records, self)
        shape = records.shape
        if len(shape) != 2 or shape[1] != self.n_columns:
            raise ValueError(f"records must have shape (n, {self.n_columns}); got shape {shape}")
        check_numbers(records)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
        return {
            "type": "Moments",
            "n_columns": self.n_columns,
            "lower": bound_to_json(self.lower),
            "upper": bound_to_json(self.upper),
        }
