"""What the regressions share: normal features, and coefficients with a normal prior.

    x_0^i ~ N_p(m, Sigma)                       the features, `normal_vectors.py`
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

A record is (x_0, y): p features and a response, a row of p + 1 floats with the response last. The
features are random because the confidential ones are not published either: imputing a record means
imputing all of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.contract import Floats, Theta
from noiseaware.densities import log_normal_iid
from noiseaware.models.arguments import read_parameter
from noiseaware.models.normal_vectors import NormalVectors
from noiseaware.models.ready import CompiledModel
from noiseaware.parameters import Innovations, Parameter


class Regression(CompiledModel):
    """Features and coefficients; a dataclass for each kind of response adds what is its own."""

    n_features: int
    coefficient_sd: float
    feature_mean: ArrayLike | None
    feature_covariance: ArrayLike | None
    feature_mean_sd: float
    feature_covariance_df: float | None
    feature_covariance_scale: ArrayLike | None

    example: ClassVar[dict[str, Any]] = {"n_features": 1}

    _response_normals = 1
    """How many normals make the response, besides one for each feature."""

    def __post_init__(self) -> None:
        super().__post_init__()
        features = self._features = NormalVectors(
            ("feature_", "feature", "n_features"),
            self.n_features,
            self.feature_mean,
            self.feature_covariance,
            0.0,
            self.feature_mean_sd,
            self.feature_covariance_df,
            self.feature_covariance_scale,
        )
        p = self.n_features = features.size
        self.feature_mean, self.feature_covariance = features.mean, features.covariance
        self.feature_covariance_df, self.feature_covariance_scale = features.df, features.scale
        self.width = p + 1
        self._prior_precision = self.coefficient_sd**-2
        labels = {"coefficient": ["intercept", *features.labels]}
        coefficients = Parameter("coefficients", (p + 1,), "real", ("coefficient",), labels)
        self.parameters = (coefficients, *features.parameters)
        self.innovations = Innovations("normal", p + self._response_normals)
        self.column_names = [*features.labels, "y"]

    def _coefficients(self, theta: Theta) -> Floats:
        """Return beta."""
        return read_parameter(theta, "coefficients", (self.n_features + 1,))

    def predict_response(
        self, theta: Theta, features: Floats, rng: Generator
    ) -> tuple[Floats, Floats]:
        """Return E(y | x_0) of each row of features, (m, p), and a draw of y."""
        beta = self._coefficients(theta)
        return self._respond(beta[0] + features @ beta[1:], theta, rng)

    def _respond(self, eta: Floats, theta: Theta, rng: Generator) -> tuple[Floats, Floats]:
        """Return E(y) and a draw of y, given the linear predictors."""
        raise NotImplementedError

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        coefficients = self.coefficient_sd * rng.standard_normal(self.n_features + 1)
        theta: Theta = {"coefficients": coefficients}
        return theta | self._sample_noise(rng) | self._features.sample_prior(rng)

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised; Sigma by its lower triangle."""
        total = log_normal_iid(self._coefficients(theta), 0.0, self.coefficient_sd)
        return total + self._log_noise(theta) + self._features.log_prior(theta)

    def _sample_noise(self, rng: Generator) -> Theta:
        """Draw what the response has besides the coefficients, from its prior."""
        return {}

    def _log_noise(self, theta: Theta) -> float:
        """Return the log density of that prior."""
        return 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return super().to_dict() | self._features.given()
