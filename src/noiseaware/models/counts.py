"""Independent counts: what `Poisson` and `NegativeBinomial` share.

Records are int64 ``(n,)``, from 0, with mean m and size r (r = inf: Poisson). u is uniform on
[0, 1) and x is the inverse CDF at u, counted from above; given x, u is uniform in the interval that
gives x (`count_cdf.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseaware.models.count_cdf import (
    LARGEST_COUNT,
    build_counts,
    log_masses,
    recover_counts,
    sum_counts,
)
from noiseaware.models.gamma_priors import GammaPriors
from noiseaware.models.ready import Compiled
from noiseaware.parameters import Innovations


class CountModel(GammaPriors):
    """Counts whose mean and size follow from theta: `_read` returns the two."""

    dtype = np.int64
    innovations = Innovations("uniform", 1)
    compiled = Compiled(build_counts, recover_counts, log_masses)
    _sizes, _names = [LARGEST_COUNT + 1], ["the count"]

    def _total(self, records: NDArray[np.int64]) -> float:
        """Return the sum of the records."""
        found = sum_counts(records)
        if found < 0.0:
            self.check_records(records)
        return found
