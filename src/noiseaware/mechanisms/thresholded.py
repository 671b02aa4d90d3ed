"""Noisy numbers withheld unless they are above a threshold; `after_noise` has the derivation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware.mechanisms.after_noise import Floats, Step, read_bound, shown
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.registry import MECHANISMS


class Thresholded(Step):
    """Noisy numbers withheld unless they are above a threshold.

    A withheld value is NaN in `values` (null in a file). It is information: the noisy number was
    at most the threshold. A library that also publishes a number equal to the threshold has, for
    integers, the threshold less 1; for continuous noise it makes no difference.

    Parameters
    ----------
    mechanism
        An additive mechanism, or one with another step.
    threshold
        A number, or one for each value, (d,).

    Examples
    --------
    >>> import noiseaware as na
    >>> laplace = na.mechanisms.Laplace(na.queries.Count(), scale=2.0)
    >>> thresholded = na.mechanisms.Thresholded(laplace, threshold=10.0)
    >>> round(thresholded.log_density(values=[float("nan")], total=[3.0]), 4)
    -0.0152
    """

    needed, optional_arguments = ("threshold", "mechanism"), ()
    arguments = ("threshold",)
    in_words = "withheld where they were below a threshold"
    can_withhold = True

    def __init__(self, mechanism: Any, threshold: Any) -> None:
        super().__init__(mechanism)
        if mechanism.can_withhold:
            raise ValueError("mechanism must not be thresholded twice; give the higher threshold")
        self.threshold = read_bound(self, "threshold", threshold)
        if not np.isfinite(self.threshold).all():
            raise ValueError(f"threshold must be finite; got {threshold!r}")

    def _apply(self, values: Floats) -> Floats:
        return np.where(values > self.threshold, values, np.nan)

    def _pull(self, low: Floats, high: Floats, withheld: NDArray[np.bool_]) -> tuple[Any, Any]:
        if self.noise.discrete:
            above = np.maximum(low, np.floor(self.threshold) + 1.0)
        else:
            above = np.where(high <= self.threshold, np.inf, np.maximum(low, self.threshold))
        # A withheld value was not seen by the steps outside; here it is all up to the threshold.
        return np.where(withheld, -np.inf, above), np.where(withheld, self.threshold, high)

    def _wanted(self) -> list[str]:
        right = f"above the threshold {shown(self.threshold)} or withheld (NaN)"
        return [*self.mechanism._wanted(), right]

    @classmethod
    def example(cls) -> Thresholded:
        """Return a small one."""
        return cls(Laplace.example(), threshold=5.0)


MECHANISMS.add(Thresholded)
