"""Normal features of a regression, their mean and covariance known or unknown.

    x_0^i ~ N_p(m, Sigma),   m_j ~ N(0, s^2),   Sigma ~ InverseWishart(df, S)

as in `linear_regression.py`, whose docstring has the full conditionals. Each model of a regression
holds one `Features` and adds a response to it.
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
from noiseaware.models.conjugate import log_normal_iid
from noiseaware.models.inverse_wishart import InverseWishart
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
        self.prior = InverseWishart(
            "feature_covariance", "n_features", p, feature_covariance_df, feature_covariance_scale
        )
        self.names = [f"x{j + 1}" for j in range(p)]

    def coefficients(self) -> Parameter:
        """Return the coefficients of a response as a parameter, the intercept first."""
        labels = {"coefficient": ["intercept", *self.names]}
        return Parameter("coefficients", (self.p + 1,), "real", ("coefficient",), labels)

    def parameters(self) -> tuple[Parameter, ...]:
        """Return those of mean and covariance that are unknown."""
        found = []
        if self.mean is None:
            labels = {"feature": self.names}
            found.append(Parameter("feature_mean", (self.p,), "real", ("feature",), labels))
        if self.covariance is None:
            found.append(self.prior.parameter("feature", self.names))
        return tuple(found)

    def read(self, theta: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return m and Sigma, each from theta or from what is known."""
        p, mean, covariance = self.p, self.mean, self.covariance
        if mean is None:
            mean = read_parameter(theta, "feature_mean", (p,))
        if covariance is None:
            covariance = read_parameter(theta, "feature_covariance", (p, p))
        return mean, covariance

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw what is unknown."""
        theta: Theta = {}
        if self.mean is None:
            theta["feature_mean"] = self.mean_sd * rng.standard_normal(self.p)
        if self.covariance is None:
            theta["feature_covariance"] = self.prior.sample(rng)
        return theta

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(m, Sigma), normalised; Sigma by its lower triangle."""
        mean, covariance = self.read(theta)
        total = 0.0
        if self.mean is None:
            total += log_normal_iid(mean, 0.0, self.mean_sd)
        if self.covariance is None:
            total += self.prior.log_density(covariance)
        return total

    def update(
        self, theta: Mapping[str, Any], records: NDArray[np.float64], rng: np.random.Generator
    ) -> Theta:
        """Draw what is unknown, given the records: a Gibbs scan."""
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
            n_normals += self.prior.n_normals
            gammas = rng.standard_gamma(self.prior.gamma_shapes + 0.5 * len(records))
        update_features(
            records,
            *self.read(theta),
            self.mean_sd**-2,
            self.prior.scale,
            rng.standard_normal(n_normals),
            gammas,
            mean_out,
            covariance_out,
        )
        return new

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments, ready for JSON; None for what is left at its default."""
        return {
            "feature_mean": None if self.mean is None else self.mean.tolist(),
            "feature_covariance": None if self.covariance is None else self.covariance.tolist(),
            "feature_mean_sd": self.mean_sd,
            **self.prior.to_dict(),
        }
