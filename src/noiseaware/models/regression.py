"""What the regressions share: normal features, and coefficients with a normal prior.

    x_0^i ~ N_p(m, Sigma)                       the features, `normal_vectors.py`
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

A record is a row of p + 1 floats: p features x_0, then the response y. The features are random
because they are confidential too: imputing a record means imputing all of it.

**Known features.** With `features=`, x_0^i is known, m and Sigma drop out, and a record is y_i
alone,

    y_i | x_0^i, theta  as above.

The loops for random features still serve. With m = 0 and Sigma = I the construction of the features
is x_0 = u, so the known x_0^i stand for their own innovations in a row (x_0^i, y_i). The term
log N(x_0^i; 0, I), part of the likelihood of a whole row but not of y_i, is subtracted.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import LOG_2PI, log_normal_iid
from noiseaware.models import arguments
from noiseaware.models.arguments import read_floats, read_parameter
from noiseaware.models.normal_vectors import FEATURES, NormalVectors
from noiseaware.models.ready import CompiledModel, labelled
from noiseaware.parameters import PLAIN_WORK, Innovations, Work


class Regression(CompiledModel):
    """Features and coefficients; one dataclass per kind of response adds the rest."""

    n_features: int
    coefficient_sd: float
    feature_mean: ArrayLike | None
    feature_covariance: ArrayLike | None
    feature_mean_sd: float
    feature_covariance_df: float | None
    feature_covariance_scale: ArrayLike | None
    features: Any

    example: ClassVar[dict[str, Any]] = {"n_features": 1}

    _response_normals = 1
    """How many normals make the response, in addition to one per feature."""
    _work: ClassVar[Work] = PLAIN_WORK
    """The cost of the methods."""
    _response_type: ClassVar[type] = np.float64
    """The type of records that hold the response alone."""

    uses_index: bool = False
    n_records: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._known = self._know_features()
        mean, covariance = self.feature_mean, self.feature_covariance
        df, scale = self.feature_covariance_df, self.feature_covariance_scale
        prior = (0.0, self.feature_mean_sd, df, scale)
        features = NormalVectors(FEATURES, self.n_features, mean, covariance, *prior)
        self._features = features
        p = self.n_features = features.size
        self.feature_mean, self.feature_covariance = features.mean, features.covariance
        self.feature_covariance_df, self.feature_covariance_scale = features.df, features.scale
        self.width = p + 1
        self._prior_precision = self.coefficient_sd**-2
        self._numbers = [name for name in self._priors if getattr(self, name) is None]
        names = ["intercept", *(self.features or features.labels)]
        coefficients = labelled("coefficients", "real", "coefficient", names)
        self.parameters = (coefficients, *features.parameters)
        self.innovations = Innovations("normal", p + self._response_normals, self._work)
        self.column_names = [*features.labels, "y"]
        if self._known is not None:
            self.width, self.uses_index, self.n_records = None, True, len(self._known)
            self.innovations = Innovations("normal", self._response_normals, self._work)
            self.column_names, self._known_width = ["y"], p

    def _know_features(self) -> Floats | None:
        """Return the known features, (n, p), and fix the parameters of unknown ones."""
        columns = self.features = arguments.feature_columns(self.features)
        if not columns:
            self.features = None
            if self.n_features is None:
                raise TypeError("n_features is missing: how many there are; or give features")
            return None
        for name in ("feature_mean", "feature_covariance"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for features that are not known; features are given")
        p = len(columns)
        if self.n_features not in (None, p):
            raise ValueError(f"n_features must be {p}, as features has; got {self.n_features!r}")
        arguments.common_length(columns)
        self.n_features, self.feature_mean, self.feature_covariance = p, np.zeros(p), np.eye(p)
        return np.column_stack(list(columns.values()))

    def _known_of(self, n: int, index: ArrayLike | None = None) -> Floats:
        """Return the known features of n records: those in ``index``, or the first n."""
        assert self._known is not None
        chosen = np.arange(n) if index is None else np.asarray(index)
        return self._known[chosen % len(self._known)]

    def _read_records(self, records: ArrayLike) -> NDArray[Any]:
        array = CompiledModel._read_records(self, records)
        if self._known is None:
            return array
        return np.column_stack([self._known_of(len(array)), array])

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        found = CompiledModel.log_likelihood(self, theta, records)
        if self._known is None:
            return found
        x = self._known_of(len(found))
        return found + 0.5 * ((x * x).sum(axis=1) + x.shape[1] * LOG_2PI)

    def build_records(
        self, theta: Theta, innovations: ArrayLike, index: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the records F(u_i; theta); with known features, the records in ``index``."""
        if self._known is None:
            return CompiledModel.build_records(self, theta, innovations)
        u = read_floats("innovations", innovations, self._response_normals)
        whole = np.column_stack([self._known_of(len(u), index), u])
        rows = self._build(theta, whole, (len(u), self.n_features + 1))
        return np.ascontiguousarray(rows[:, -1], dtype=self._response_type)

    def _coefficients(self, theta: Theta) -> Floats:
        return read_parameter(theta, "coefficients", (self.n_features + 1,))

    def predict_response(
        self, theta: Theta, features: Floats, rng: Generator
    ) -> tuple[Floats, Floats]:
        """Return E(y | x_0) for each row of features, (m, p), and a draw of y."""
        beta = self._coefficients(theta)
        return self._respond(beta[0] + features @ beta[1:], theta, rng)

    def _respond(self, eta: Floats, theta: Theta, rng: Generator) -> tuple[Floats, Floats]:
        """Return E(y) and a draw of y, given the linear predictors."""
        raise NotImplementedError

    def sample_prior(self, rng: Generator) -> Theta:
        theta: Theta = {}
        theta["coefficients"] = self.coefficient_sd * rng.standard_normal(self.n_features + 1)
        theta |= {name: self._draw_number(name, rng) for name in self._numbers}
        return theta | self._features.sample_prior(rng)

    def log_prior(self, theta: Theta) -> float:
        total = log_normal_iid(self._coefficients(theta), 0.0, self.coefficient_sd)
        for name in self._numbers:
            total += self._log_density(name, theta)
        return total + self._features.log_prior(theta)

    def __repr__(self) -> str:
        if self.features is None:
            return super().__repr__()
        return f"{type(self).__name__}(features={list(self.features)}, {self.n_records} records)"

    def to_dict(self) -> dict[str, Any]:
        made = super().to_dict() | self._features.given()
        if self.features is None:
            return made
        unknown = dict.fromkeys(("n_features", "feature_mean", "feature_covariance"))
        return made | unknown
