"""Local mechanisms: every record is released with its own noise.

Here nobody holds the database: each person makes their own record private and sends that. The
release has n values, and value i depends on record i alone,

    g(s_dp, x) = prod_i h(s_i | x_i),        log g = sum_i log h(s_i | x_i).

This is record additive with one coordinate: t_i(x_i, s_dp) = log h(s_i | x_i), and log g is the
total T itself (`terms.LINEAR`). t_i depends on the index, because record i is compared with its own
value; this is why a mechanism may have `statistic(records, index, values)`. Changing a record
changes one factor, so the guarantee is that of h, and the sampler's acceptance ratio for record i
is h(s_i | x_i*) / h(s_i | x_i): the other records do not enter.

- `LocalLaplace`, `LocalGaussian`, `LocalGeometric`, `LocalDiscreteGaussian`: s_i = t(x_i) + e_i,
  with t a query of one coordinate (a clamped record, say, or `queries.Value()`) and e_i Laplace,
  Gaussian, discrete Laplace or discrete Gaussian noise, of one scale or of one for each record. The
  query's sensitivity under "change" is the largest |t(x) - t(x')|, and epsilon (mu for Gaussian
  noise) is sensitivity / scale, as for a total; with several scales, the smallest counts.
- After the noise, Y_i = t(x_i) + e_i may have been rounded, then clamped, then withheld: what is
  published is then known to come from an interval, and h is the probability of that interval
  (`after_noise` has the derivation). A value that is NaN was withheld if there is a threshold,
  h = P(Y_i <= threshold); without one it was never asked for, and h = 1.
- `RandomizedResponse`: k levels; the true level is released with probability p, each other one
  with probability (1 - p) / (k - 1). The largest ratio of h is p (k - 1) / (1 - p), which is
  exp(epsilon), so that p = exp(epsilon) / (exp(epsilon) + k - 1). Or any table of probabilities.
- `RandomRounding`, `CellKey`: laws that depend on the true count, as tables; `LocalExact`: the
  number as it is. None of them is differential privacy, and their guarantee says so.

The number of records is seen in the release, so one that is added or removed is not hidden: the
neighbour relation is always "change".

References
----------
Warner, S. L. (1965). Randomized response: a survey technique for eliminating evasive answer bias.
    JASA 60(309).
Kasiviswanathan, S. P., Lee, H. K., Nissim, K., Raskhodnikova, S. and Smith, A. (2011). What can we
    learn privately? SIAM Journal on Computing 40(3).
Kairouz, P., Oh, S. and Viswanath, P. (2016). Extremal mechanisms for local differential privacy.
    JMLR 17. (k-ary randomized response.)

Example
-------
>>> import noiseaware as na
>>> mechanism = na.mechanisms.RandomizedResponse(n_levels=3, epsilon=1.0)
>>> release = na.Release([0, 2, 2, 1, 2], mechanism, n_records=5)
>>> print(mechanism.guarantee)
pure differential privacy with epsilon = 1, when one record is changed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.basics.frames import as_floats
from noiseaware.mechanisms.additive import SeparableMechanism
from noiseaware.mechanisms.ready import as_numbers
from noiseaware.mechanisms.terms import LINEAR, N_PARAMETERS, SeparableDensity


class LocalMechanism(SeparableMechanism):
    """What all local mechanisms share; a subclass gives h, and draws from it."""

    per_record: int = 1
    """How many values each record has in a release; `Release` sees to their number."""
    discrete: bool
    """Whether the released values are integers."""
    can_withhold: bool = False

    def statistic(
        self, records: NDArray[Any], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return t_i(x_i, s_dp) = log h(s_i | x_i), up to a constant, (m, 1).

        Parameters
        ----------
        records
            Some of the records.
        index
            Which ones they are, (m,).
        values
            s_dp, all n released values.
        """
        raise NotImplementedError

    def terms(self, values: ArrayLike) -> SeparableDensity:
        """Return log g for compiled code: one coordinate, whose term is T itself."""
        parameters = np.zeros((1, N_PARAMETERS))
        # The factor stands where other families have 1 / scale. The sampler's tuning reads it so:
        # the square of dT/dtheta, averaged over the posterior, is the information in T.
        parameters[0, 1] = 1.0
        return SeparableDensity(np.array([LINEAR]), parameters)

    def check_values(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the released values as a new float64 array (n,).

        Raises
        ------
        ValueError
            If they are not one-dimensional, not finite, or not what h can give.
        """
        array = as_numbers(as_floats(values))
        if array.ndim != 1:
            raise ValueError(
                f"values must be one number for each record, (n,); got shape {array.shape}"
            )
        if self.can_withhold:
            self._refuse("finite, or NaN where nothing was published", array, np.isinf(array))
        else:
            self._refuse("finite", array, ~np.isfinite(array))
        if self.discrete:
            wrong = ~np.isnan(array) & (array != np.floor(array))
            self._refuse(f"integers under {type(self).__name__}", array, wrong)
        return array

    @staticmethod
    def _refuse(right: str, values: NDArray[np.float64], wrong: NDArray[np.bool_]) -> None:
        """ValueError for the first of the values that is wrong."""
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"values must be {right}; got {values[i]} for record {i}")

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Any:
        """Read back what `to_dict` wrote; the scale is read, never computed again."""
        if entries.get("neighbours", "change") != "change":
            raise ValueError(
                f"neighbours must be 'change' for {cls.__name__}, whose release shows the number "
                f"of records; got {entries['neighbours']!r}"
            )
        return super().from_dict({k: v for k, v in entries.items() if k != "neighbours"})


def stochastic(name: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a table whose rows are probabilities."""
    table = np.array(value, dtype=np.float64)
    if table.ndim != 2 or table.shape != shape:
        raise ValueError(f"{name} must be a table of shape {shape}; got shape {table.shape}")
    wrong = (table < 0.0).any(axis=1) | (np.abs(table.sum(axis=1) - 1.0) > 1e-8)
    if not np.isfinite(table).all() or wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"{name} must have rows of probabilities that sum to 1; got {table[i].tolist()} in row "
            f"{i}"
        )
    return table
