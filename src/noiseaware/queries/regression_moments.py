"""The clamped moments of a linear regression (the paper's section 5).

A record is p features and a response. Each entry is clamped to its published bounds and moved
to [-1, 1] on a linear scale,

    z -> 2 (clamp(z, lower, upper) - lower) / (upper - lower) - 1,

which gives the features x1, ..., xp and the response y of the formulas below. With the
intercept in front, x = (1, x1, ..., xp), the statistic of the record is

    t = (x y,  y^2,  the upper triangle of x'x, row by row, without its constant first entry),

(p + 1)(p + 4) / 2 numbers: all products of degree one and two of x1, ..., xp and y.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.described import clamped_words
from noiseaware.contract import Floats
from noiseaware.queries.clamped_moments import MomentsQuery, product_names
from noiseaware.registry import QUERIES


def _places(p: int) -> NDArray[np.int64]:
    """Return where the moments of (x_1, ..., x_p, y), in their natural order, are written."""
    y, y_squared, x1 = 0, p + 1, p + 2
    linear = [*range(x1, x1 + p), y]
    features = iter(range(x1 + p, x1 + p + p * (p + 1) // 2))
    products = []
    for j in range(p):
        products += [next(features) for _ in range(j, p)]
        products.append(1 + j)  # x_j y
    return np.array([*linear, *products, y_squared])


class RegressionMoments(MomentsQuery):
    """The clamped sums, squares and cross products that a linear regression needs.

    Records are floats (n, n_features + 1), the response last.

    Parameters
    ----------
    n_features
        The number of features p, without the intercept.
    lower, upper
        The bounds that features and response are clamped to: a number for all of them, or
        n_features + 1 numbers, the response last.

    Examples
    --------
    >>> query = RegressionMoments(n_features=2, lower=-10, upper=10)
    >>> query.names
    ('y', 'x1*y', 'x2*y', 'y^2', 'x1', 'x2', 'x1^2', 'x1*x2', 'x2^2')
    >>> query.sensitivity(norm=1), query.sensitivity(norm=2)
    (9.375, 4.0)
    """

    n_features: int
    example_arguments: ClassVar[dict[str, Any]] = {
        "n_features": 1,
        "lower": [-6, -3],
        "upper": [6, 3],
    }

    def __init__(self, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        p = whole_number("n_features", n_features)
        features = [f"x{j}" for j in range(1, p + 1)]
        products = (f"{x}*y" for x in features)
        right = f"{p + 1} numbers ({p} features, then the response)"
        self._hold_bounds(lower, upper, _places(p), p + 1, right)
        names = ("y", *products, "y^2", *features, *product_names(features))
        columns = f": {p} feature(s), then the response"
        self._hold(n_features=p, names=names, _columns=columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names by which columns of a frame are found: x1, x2, ..., y."""
        return (*(f"x{j}" for j in range(1, self.n_features + 1)), "y")

    @property
    def regression_clamps(self) -> tuple[Floats, Floats]:
        """C and f, (p + 1,) each: an entry z within its bounds counts as (z - c) f."""
        return self._moments.centre, self._moments.scale

    def words(self) -> list[str]:
        """Return what was asked, in sentences for the report."""
        return [
            "The sums, squares and products of features and response that a linear regression "
            "needs, after each was scaled to lie between −1 and 1.",
            clamped_words(self.lower, self.upper),
        ]


QUERIES.add(RegressionMoments)
