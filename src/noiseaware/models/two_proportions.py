"""Two groups with yes-or-no outcomes, and the difference of their proportions.

The model
---------
A record is a group, 0 or 1, and an outcome, 0 or 1. The sizes of the groups are known.

    P(outcome = 1 in group g) = p_g,      p_g ~ Beta(a, b), independently, g = 0, 1

The conditional of the parameters
---------------------------------
With s_g ones among the n_g records of group g, p_g | x ~ Beta(a + s_g, b + n_g - s_g), the two
independent: `TwoProportions.update_parameters` is an exact draw.

The construction x = F(u; theta)
--------------------------------
That of `grouped.py`: the outcome is 1 if u < p_g.

What is derived
---------------
``difference`` is p_1 - p_0, ``log_ratio`` is log(p_1 / p_0), and ``log_odds_ratio`` is
logit(p_1) - logit(p_0), where logit(p) = log(p / (1 - p)). (The ratios themselves have no mean if
the prior allows p_0 near 0; exp of the quantiles of their logarithms are their quantiles.) A
proportion that is stated or rounds to 0 or 1 counts as the double next to it, as in the draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import logit

from noiseaware.contract import ClosedForm, CountsPrior, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import POSITIVE
from noiseaware.models.conjugate import SMALLEST, log_dirichlet_constant, shares_of
from noiseaware.models.grouped import YesNoGroups
from noiseaware.models.inverse_cdf import SPACING
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS


@dataclass(repr=False, eq=False)
class TwoProportions(YesNoGroups):
    """Two groups of known sizes, each with its own unknown probability of a one.

    Parameters
    ----------
    sizes : two ints
        The number of records in each group.
    a, b : float
        The Beta(a, b) prior of both proportions; (1, 1) is uniform.
    labels : two texts, optional
        Names of the groups; "0" and "1" if not given.

    Notes
    -----
    Records are int64 of shape ``(n, 2)``: the group and the outcome, those of group 0 first.
    Parameter: ``proportions`` (2,). Derived: ``difference`` (), the second minus the first,
    ``log_ratio`` (), the logarithm of the second over the first, and ``log_odds_ratio`` (), that
    of the odds of the second over the odds of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import TwoProportions
    >>> model = TwoProportions(sizes=[1, 2], labels=["control", "treated"])
    >>> model.build_records({"proportions": [0.3, 0.8]}, np.array([[0.5], [0.5], [0.9]]))
    array([[0, 0],
           [1, 1],
           [1, 0]])
    """

    sizes: Sequence[int] | None = None
    a: float = field(default=1.0, metadata=POSITIVE)
    b: float = field(default=1.0, metadata=POSITIVE)
    _: KW_ONLY
    labels: Sequence[str] | None = None

    number = 2
    derived = (Parameter("difference"), Parameter("log_ratio"), Parameter("log_odds_ratio"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._log_constant = 2.0 * log_dirichlet_constant(np.array([self.a, self.b]))
        self.parameters = (self._each("proportions", "unit"),)
        self.counts_prior = CountsPrior(np.array([self.b, self.a] * 2))

    @staticmethod
    def _draw(a: Any, b: Any, rng: Generator) -> Theta:
        # A beta variable can round to 0 or 1; the open interval keeps its logit finite.
        return {"proportions": np.clip(rng.beta(a, b, size=2), SMALLEST, 1.0 - SPACING)}

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        return self._draw(self.a, self.b, rng)

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        total = self._log_constant
        for p in self._read(theta)[0].tolist():
            if not 0.0 < p < 1.0:
                return -math.inf
            total += (self.a - 1.0) * math.log(p) + (self.b - 1.0) * math.log1p(-p)
        return total

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta drawn from p(theta | x); the old one plays no part."""
        ones, sizes = self._totals(records)
        return self._draw(self.a + ones, self.b + sizes - ones, rng)

    def from_gammas(self, logs: Floats) -> Theta:
        """Return draws of the proportions, the share of the second gamma of each group's two."""
        return {"proportions": shares_of(logs.reshape(-1, 2, 2))[..., 1]}

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the difference and the log ratios of draws of theta."""
        p = np.clip(theta["proportions"], SMALLEST, 1.0 - SPACING)
        return {
            "difference": p[..., 1] - p[..., 0],
            "log_ratio": np.log(p[..., 1]) - np.log(p[..., 0]),
            "log_odds_ratio": logit(p[..., 1]) - logit(p[..., 0]),
        }

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the proportions given exact counts, a Beta each, and their estimates."""
        if reading.kind != "groups" or self.sizes is None:
            return None
        parts = reading.values(self.sizes)
        if parts is None:
            return None
        found = [
            estimates.zeros_and_ones(part, m) for part, m in zip(parts, self.sizes, strict=True)
        ]
        if any(part is None for part in found):
            return None
        zeros, ones = np.transpose(np.array(found))
        return ClosedForm(
            {"proportions": estimates.shares(np.array(found))[:, 1]},
            lambda draws, rng: {
                "proportions": rng.beta(self.a + ones, self.b + zeros, size=(draws, 2))
            },
        )


MODELS.add(TwoProportions)
