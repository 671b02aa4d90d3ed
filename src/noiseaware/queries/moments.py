"""The first and second moments of several columns, clamped and scaled to [-1, 1].

A record of q numbers is clamped to published bounds and moved to z in [-1, 1]^q; the total is the
sums of the z_j and of all products z_j z_k. They are what a mean vector and a covariance matrix are
estimated from. `RegressionMoments` has the same numbers, in the order of the paper's regression.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.queries.clamped_moments import MomentsQuery, product_names
from noiseaware.registry import QUERIES


class Moments(MomentsQuery):
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
    example_arguments: ClassVar[dict[str, Any]] = {
        "n_columns": 2,
        "lower": [-6, -3],
        "upper": [6, 3],
    }

    def __init__(self, n_columns: int, lower: ArrayLike, upper: ArrayLike) -> None:
        q = whole_number("n_columns", n_columns)
        columns = [f"x{j}" for j in range(1, q + 1)]
        names = (*columns, *product_names(columns))
        right = f"{q} numbers, one for each column"
        self._hold_bounds(lower, upper, np.arange(len(names)), q, right)
        self._hold(n_columns=q, names=names)


QUERIES.add(Moments)
