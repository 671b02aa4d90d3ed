"""The record's own number."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.described import Described
from noiseaware.basics.frames import as_array
from noiseaware.contract import Neighbours
from noiseaware.queries.arguments import check_norm, check_numbers
from noiseaware.registry import QUERIES


class Value(Described):
    """The record's own number, as it is: for records that are released one by one.

    A record may be a published cell, its number the true count. Nothing bounds it, so no
    sensitivity is known, and a guarantee has to be taken from the publisher.

    Parameters
    ----------
    integer_valued
        Whether records are integers, as counts are; discrete noise needs it.

    Examples
    --------
    >>> Value().statistic(np.array([3, 0])).ravel()
    array([3., 0.])
    """

    is_value = True
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
            "is for its publisher to say. Give the scale of the noise"
        )

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError unless the records are finite numbers of shape (n,)."""
        array = as_array(records, self)
        if array.ndim != 1:
            raise ValueError(f"records must have shape (n,); got shape {array.shape}")
        check_numbers(array, self.integer_valued)

    def words(self) -> list[str]:
        """Return what was asked, in sentences for the report."""
        return ["The number of every record, one by one."]

    @classmethod
    def example(cls) -> Value:
        """Return one."""
        return cls()


QUERIES.add(Value)
