"""What the sampler asks of a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.queries import QueryLike

if TYPE_CHECKING:
    from noiseaware.release import Release


@runtime_checkable
class MechanismLike(Protocol):
    """How an answer was made private. A class with these members is a mechanism.

    Three more methods are looked for, and used if they are there:

    - `terms(values) -> Terms`, for a log density that is a sum over coordinates: the sampler
      then scores a record by the coordinates that it changes, in compiled code;
    - `joint(values) -> Joint`, for a log density that is one of the compiled formulas of
      `noiseaware.mechanisms.joint`;
    - `statistic(records, index, values) -> (m, d)`, for a t_i(x_i, s_dp) that depends on the
      record's index or on the released values. Without it, t is `query.statistic`.
    """

    query: QueryLike
    guarantee: Guarantee

    def log_density(self, values: ArrayLike, total: ArrayLike) -> float:
        """Return log g(s_dp, T), up to a constant that does not depend on T."""
        ...

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as float64 (d,), or a ValueError that says what is wrong."""
        ...

    def privatize(self, records: ArrayLike, rng: np.random.Generator) -> Release:
        """Simulate a release of these records. For simulation only."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism, ready for JSON."""
        ...
