"""Two groups with normal outcomes, and the difference of their means.

The model
---------
A record is a group, 0 or 1, and an outcome, a number. The sizes of the groups are known.

    outcome in group g ~ N(m_g, v_g)
    m_g ~ N(m_0, s_0^2)                         m_0 = mean_mean, s_0 = mean_sd
    v_g ~ InverseGamma(a, b)                    density prop. to v^(-a-1) exp(-b/v)

all independent a priori; or, with ``equal_variances``, v_0 = v_1 = v ~ InverseGamma(a, b).

The full conditionals
---------------------
With n_g records of sum S_g in group g,

* m_g | v, x ~ N(w (m_0/s_0^2 + S_g / v_g), w), 1/w = 1/s_0^2 + n_g/v_g, the two independent;
* v_g | m, x ~ InverseGamma(a + n_g/2, b + Q_g/2), Q_g = sum over group g of (x_i - m_g)^2, the two
  independent; and v | m, x ~ InverseGamma(a + (n_0 + n_1)/2, b + (Q_0 + Q_1)/2) if they are equal.

`TwoMeans.update_parameters` draws the means, then the variances: a Gibbs scan of p(theta | x).

The construction x = F(u; theta)
--------------------------------
That of `grouped.py`: the outcome is m_g + sqrt(v_g) u, u standard normal.

What is derived
---------------
``difference`` is m_1 - m_0, and ``effect_size`` is the difference divided by the square root of
(v_0 + v_1) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numba import njit
from numpy.random import Generator

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import LOG_2PI, log_inverse_gamma
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, REAL, read_parameter
from noiseaware.models.grouped import NormalGroups, sum_squares
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _draw_means(sums, sizes, variances, prior_mean, prior_precision, means):
    """Turn the standard normals in ``means`` into a draw of m | v, x."""
    for g in range(means.shape[0]):
        precision = prior_precision + sizes[g] / variances[g]
        centre = (prior_mean * prior_precision + sums[g] / variances[g]) / precision
        means[g] = centre + means[g] / math.sqrt(precision)


@dataclass(repr=False, eq=False)
class TwoMeans(NormalGroups):
    """Two groups of known sizes, each with its own unknown mean and variance.

    Parameters
    ----------
    sizes : two ints
        The number of records in each group.
    mean_mean, mean_sd : float
        Mean and standard deviation of the prior of both means.
    variance_shape, variance_scale : float
        a and b of the InverseGamma(a, b) prior of the variances; its mean is b / (a - 1).
    equal_variances : bool
        True: the groups share one variance.
    labels : two texts, optional
        Names of the groups; "0" and "1" if not given.

    Notes
    -----
    Records are float64 of shape ``(n, 2)``: the group and the outcome, those of group 0 first.
    Parameters: ``means`` (2,) and ``variances`` (2,), or ``variance`` () if they are equal.
    Derived: ``difference`` (), the second mean minus the first, and ``effect_size`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import TwoMeans
    >>> model = TwoMeans(sizes=[1, 1])
    >>> model.build_records({"means": [1.0, 2.0], "variances": [1.0, 4.0]}, np.array([[0.5], [1]]))
    array([[0. , 1.5],
           [1. , 4. ]])
    """

    sizes: Sequence[int] | None = None
    _: KW_ONLY
    mean_mean: float = field(default=0.0, metadata=REAL)
    mean_sd: float = field(default=10.0, metadata=POSITIVE)
    variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    variance_scale: float = field(default=2.0, metadata=POSITIVE)
    equal_variances: bool = False
    labels: Sequence[str] | None = None

    number = 2
    derived = (Parameter("difference"), Parameter("effect_size"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.equal_variances = bool(self.equal_variances)
        variance = (
            Parameter("variance", (), "positive")
            if self.equal_variances
            else self._each("variances", "positive")
        )
        self._variance = variance.name
        self.parameters = (self._each("means", "real"), variance)

    def _read(self, theta: Theta) -> tuple[Floats, Floats]:
        """Return the means and the variances of both groups."""
        means = read_parameter(theta, "means", (2,))
        if self.equal_variances:
            return means, np.full(2, float(theta["variance"]))
        return means, read_parameter(theta, "variances", (2,))

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        means = self.mean_mean + self.mean_sd * rng.standard_normal(2)
        gamma = rng.standard_gamma(self.variance_shape, () if self.equal_variances else 2)
        return {"means": means, self._variance: np.asarray(self.variance_scale / gamma)}

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised."""
        means, variances = self._read(theta)
        total = -2.0 * math.log(self.mean_sd) - LOG_2PI
        for mean in means.tolist():
            z = (mean - self.mean_mean) / self.mean_sd
            total -= 0.5 * z * z
        for variance in variances[:1] if self.equal_variances else variances:
            total += log_inverse_gamma(float(variance), self.variance_shape, self.variance_scale)
        return total

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        sums, sizes = self._totals(records)
        _, variances = self._read(theta)
        means = rng.standard_normal(2)
        _draw_means(sums, sizes, variances, self.mean_mean, self.mean_sd**-2, means)
        squares = np.zeros(2)
        sum_squares(records, means, squares)
        if self.equal_variances:
            squares, sizes = squares.sum(), sizes.sum()
        gamma = rng.standard_gamma(self.variance_shape + 0.5 * sizes)
        variance = np.asarray((self.variance_scale + 0.5 * squares) / gamma)
        return {"means": means, self._variance: variance}

    def derive(self, theta: Theta) -> dict[str, Floats]:
        """Return the difference and the effect size of draws of theta."""
        means, variance = np.asarray(theta["means"]), np.asarray(theta[self._variance])
        difference = means[..., 1] - means[..., 0]
        if not self.equal_variances:
            variance = variance.mean(axis=-1)
        return {"difference": difference, "effect_size": difference / np.sqrt(variance)}


MODELS.add(TwoMeans)
