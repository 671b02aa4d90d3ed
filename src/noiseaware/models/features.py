"""Normal features of a regression, their mean and covariance known or unknown.

    x_0^i ~ N_p(m, Sigma),   m_j ~ N(0, s^2),   Sigma ~ InverseWishart(df, S)

as in `linear_regression.py`, whose docstring has the full conditionals. `LogisticRegression` and
`PoissonRegression` each hold one `Features` and add a response to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.models.arguments import (
    covariance_matrix,
    positive_number,
    read_parameter,
    real_array,
)
from noiseaware.models.conjugate import (
    draw_inverse_wishart,
    log_inverse_wishart,
    log_inverse_wishart_constant,
    log_normal_iid,
)
from noiseaware.models.response_kernels import update_features
from noiseaware.parameters import Parameter

Theta = dict[str, NDArray[np.float64]]

_NO_VECTOR = np.empty(0)
_NO_MATRIX = np.empty((0, 0))


class Features:
    """The features' part of a regression; the arguments are those of `LinearRegression`."""

    def __init__(
        self,
        n_features: int,
        feature_mean: ArrayLike | None,
        feature_covariance: ArrayLike | None,
        feature_mean_sd: float,
        feature_covariance_df: float | None,
        feature_covariance_scale: ArrayLike | None,
    ) -> None:
        p = self.p = whole_number("n_features", n_features)
        self.mean = None if feature_mean is None else real_array("feature_mean", feature_mean, (p,))
        self.covariance = (
            None
            if feature_covariance is None
            else covariance_matrix("feature_covariance", feature_covariance, p)
        )
        self.mean_sd = positive_number("feature_mean_sd", feature_mean_sd)
        self.df = (
            p + 3.0
            if feature_covariance_df is None
            else positive_number("feature_covariance_df", feature_covariance_df)
        )
        if self.df <= p - 1:
            raise ValueError(
                f"feature_covariance_df must be above n_features - 1 = {p - 1}, or the prior is "
                f"not proper; got {feature_covariance_df!r}"
            )
        self.scale = (
            2.0 * np.eye(p)
            if feature_covariance_scale is None
            else covariance_matrix("feature_covariance_scale", feature_covariance_scale, p)
        )
        self._scale_factor = np.linalg.cholesky(self.scale)
        self._constant = log_inverse_wishart_constant(self.df, self._scale_factor)
        self.names = [f"x{j + 1}" for j in range(p)]

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the coefficients, and those of mean and covariance that are unknown."""
        p, names = self.p, self.names
        labels = {"coefficient": ["intercept", *names]}
        found = [Parameter("coefficients", (p + 1,), "real", ("coefficient",), labels)]
        if self.mean is None:
            found.append(Parameter("feature_mean", (p,), "real", ("feature",), {"feature": names}))
        if self.covariance is None:
            dims, labels = ("feature", "feature_bis"), {"feature": names, "feature_bis": names}
            found.append(Parameter("feature_covariance", (p, p), "covariance", dims, labels))
        return tuple(found)

    def read(
        self, theta: Mapping[str, Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return beta, m and Sigma, each from theta or from what is known."""
        p = self.p
        coefficients = read_parameter(theta, "coefficients", (p + 1,))
        mean, covariance = self.mean, self.covariance
        if mean is None:
            mean = read_parameter(theta, "feature_mean", (p,))
        if covariance is None:
            covariance = read_parameter(theta, "feature_covariance", (p, p))
        return coefficients, mean, covariance

    def sample_prior(self, coefficient_sd: float, rng: np.random.Generator) -> Theta:
        """Draw the coefficients and what is unknown of the features."""
        p = self.p
        theta: Theta = {"coefficients": coefficient_sd * rng.standard_normal(p + 1)}
        if self.mean is None:
            theta["feature_mean"] = self.mean_sd * rng.standard_normal(p)
        if self.covariance is None:
            covariance = np.empty((p, p))
            gammas = rng.standard_gamma(0.5 * (self.df - np.arange(p)))
            normals = rng.standard_normal(p * (p - 1) // 2)
            draw_inverse_wishart(self.scale, gammas, normals, 0, covariance)
            theta["feature_covariance"] = covariance
        return theta

    def log_prior(self, coefficient_sd: float, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised; Sigma by its lower triangle."""
        coefficients, mean, covariance = self.read(theta)
        total = log_normal_iid(coefficients, 0.0, coefficient_sd)
        if self.mean is None:
            total += log_normal_iid(mean, 0.0, self.mean_sd)
        if self.covariance is None:
            total += log_inverse_wishart(covariance, self.df, self._scale_factor, self._constant)
        return total

    def update(
        self, theta: Mapping[str, Any], records: NDArray[np.float64], rng: np.random.Generator
    ) -> Theta:
        """Draw what is unknown of the features, given the records: a Gibbs scan."""
        if self.mean is not None and self.covariance is not None:
            return {}
        p = self.p
        new: Theta = {}
        mean_out, covariance_out = _NO_VECTOR, _NO_MATRIX
        n_normals, gammas = 0, _NO_VECTOR
        if self.mean is None:
            new["feature_mean"] = mean_out = np.empty(p)
            n_normals += p
        if self.covariance is None:
            new["feature_covariance"] = covariance_out = np.empty((p, p))
            n_normals += p * (p - 1) // 2
            gammas = rng.standard_gamma(0.5 * (self.df + len(records) - np.arange(p)))
        _, mean, covariance = self.read(theta)
        update_features(
            records,
            mean,
            covariance,
            self.mean_sd**-2,
            self.scale,
            rng.standard_normal(n_normals),
            gammas,
            mean_out,
            covariance_out,
        )
        return new

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments, ready for JSON; None for what is left at its default."""
        usual = np.array_equal(self.scale, 2.0 * np.eye(self.p))
        return {
            "feature_mean": None if self.mean is None else self.mean.tolist(),
            "feature_covariance": None if self.covariance is None else self.covariance.tolist(),
            "feature_mean_sd": self.mean_sd,
            "feature_covariance_df": None if self.df == self.p + 3 else self.df,
            "feature_covariance_scale": None if usual else self.scale.tolist(),
        }
