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


@dataclass(frozen=True, init=False)
class RegressionMoments:
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
    lower: Bound
    upper: Bound
    names: tuple[str, ...] = field(repr=False, compare=False)
    integer_valued: ClassVar[bool] = False
    _moments: ClampedMoments = field(repr=False, compare=False)

    def __init__(self, n_features: int, lower: ArrayLike, upper: ArrayLike) -> None:
        p = whole_number("n_features", n_features)
        right = f"{p + 1} numbers ({p} features, then the response)"
        low, high = bounds_of_columns(lower, upper, p + 1, right)
        moments = ClampedMoments(*centre_and_scale(low, high, p + 1), _places(p))
        features = [f"x{j}" for j in range(1, p + 1)]
        products = (f"{x}*y" for x in features)
        names = ("y", *products, "y^2", *features, *product_names(features))
        set_field = object.__setattr__  # the way around `frozen`, for the constructor only
        set_field(self, "n_features", p)
        set_field(self, "lower", low)
        set_field(self, "upper", high)
        set_field(self, "names", names)
        set_field(self, "_moments", moments)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names by which columns of a frame are found: x1, x2, ..., y."""
        return (*(f"x{j}" for j in range(1, self.n_features + 1)), "y")

    def statistic(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the moments of each record, (n, (p + 1)(p + 4) / 2).

        Parameters
        ----------
        records
            Features, then the response, (n, p + 1).
        """
        return self._moments.of_each(records, self)

    def total(self, records: ArrayLike) -> NDArray[np.float64]:
        """Return the sum of `statistic` over the records, ((p + 1)(p + 4) / 2,).

        Parameters
        ----------
        records
            Features, then the response, (n, p + 1).
        """
        return self._moments.of_all(records, self)

    def sensitivity(self, norm: float = 1, neighbours: Neighbours = "change") -> float:
        r"""Return how far one record can move the total; every value is attained.

        With q = p + 1 entries in a record (see `docs/sensitivity.md` for the proofs):

        ==========  ==========================  =========================
        norm        change one record           add or remove one record
        ==========  ==========================  =========================
        1           q(q+3)/2 + q/(2(q+1))       q(q+3)/2
        2           2 sqrt(floor((q+1)^2 / 4))  sqrt(q(q+3)/2)
        inf         2                           1
        ==========  ==========================  =========================

        The paper uses p^2 + 3p + 3 for norm 1, which is safe: at p = 2 it is 13, not 9.375.

        Parameters
        ----------
        norm
            1, 2 or inf.
        neighbours
            `"change"` or `"add-remove"`.
        """
        return moments_sensitivity(self.n_features + 1, norm, neighbours)

    @property
    def regression_clamps(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """C and f, (p + 1,) each: an entry z within its bounds counts as (z - c) f."""
        return self._moments.centre, self._moments.scale

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n, p + 1)."""
        records = as_array(records, self)
        shape = records.shape
        if len(shape) != 2 or shape[1] != self.n_features + 1:
            raise ValueError(
                f"records must have shape (n, {self.n_features + 1}): {self.n_features} "
                f"feature(s), then the response; got shape {shape}"
            )
        check_numbers(records)

    def to_dict(self) -> dict[str, Any]:
        """Return the query as JSON knows it; `queries.from_dict` reads it back."""
        return {
            "type": "RegressionMoments",
            "n_features": self.n_features,
            "lower": bound_to_json(self.lower),
            "upper": bound_to_json(self.upper),
        }
