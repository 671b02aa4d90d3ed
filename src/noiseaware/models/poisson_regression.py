"""Poisson regression: features as in `LinearRegression`, and a response that is a count.

The model
---------
A record is (x_0, y): p features and a response, a row of p + 1 floats with the response last.

    x_0^i ~ N_p(m, Sigma)                       the features
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    y_i | x_0^i ~ Poisson(l_i)                  l_i = min(exp(eta_i), R)
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

The features are random because the confidential ones are not published either. m and Sigma are
known, or unknown with the priors of `LinearRegression`: m_j ~ N(0, s^2), and Sigma inverse Wishart.

R = largest_rate is there because exp makes an enormous rate of a wild draw from the prior, which no
computer can count up to. It is part of the model: set it above every rate that is thinkable, and it
plays no role but that one.

The kernel
----------
Given x, beta and (m, Sigma) are independent. `update_parameters` does one Metropolis-Hastings step
on beta, from a Student t distribution around the mode of p(beta | x) that does not depend on where
beta is (`response_kernels.py` has the derivation), and one Gibbs scan of m and Sigma, with the
conditionals of `linear_regression.py`.

The construction x = F(u; theta)
--------------------------------
u is p + 2 standard normals. With Sigma = L L', x_0 = m + L u_{1..p}. The last two make the
exponential variable E = (u_{p+1}^2 + u_{p+2}^2) / 2, and y is the largest k with
E >= -log P(y >= k | eta).
Given y, E is drawn from an exponential distribution between the edges that give y, and the angle of
(u_{p+1}, u_{p+2}) uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.models import response_kernels as kernels
from noiseaware.models.arguments import arguments_repr, positive_number, read_floats
from noiseaware.models.features import Features
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]

LARGEST_RATE = 600
"""P(y = 0) = exp(-600) is about the smallest probability that still has all its digits."""


class PoissonRegression:
    """Poisson regression on normal features, whose mean and covariance are known or not.

    Parameters
    ----------
    n_features : int
        p, the number of features, without the intercept.
    coefficient_sd : float
        tau: each coefficient, the intercept included, has the prior N(0, tau^2).
    feature_mean : array_like, shape (p,), optional
        m if it is known. None: unknown, with independent normal priors.
    feature_covariance : array_like, shape (p, p), optional
        Sigma if it is known. None: unknown, with an inverse-Wishart prior.
    largest_rate : float
        R: a rate exp((1, x_0) beta) above it counts as R. At most 600.
    feature_mean_sd : float
        s: each m_j has the prior N(0, s^2).
    feature_covariance_df : float, optional
        Degrees of freedom of the inverse Wishart, above p - 1; p + 3 if not given.
    feature_covariance_scale : array_like, shape (p, p), optional
        S of the inverse Wishart; 2 I if not given. The prior mean is S / (df - p - 1).

    Notes
    -----
    Records are float64 of shape ``(n, p + 1)``, the response (a count) last. Parameters, those
    that are unknown: ``coefficients`` (p + 1,), ``feature_mean`` (p,) and ``feature_covariance``
    (p, p).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import PoissonRegression
    >>> model = PoissonRegression(1, feature_mean=[0.0], feature_covariance=[[1.0]])
    >>> [parameter.name for parameter in model.parameters]
    ['coefficients']
    >>> model.build_records({"coefficients": [0.5, 1.0]}, np.array([[0.3, 0.2, 1.5]]))
    array([[0.3, 3. ]])
    """

    def __init__(
        self,
        n_features: int,
        coefficient_sd: float = 1.0,
        feature_mean: ArrayLike | None = None,
        feature_covariance: ArrayLike | None = None,
        *,
        largest_rate: float = 500.0,
        feature_mean_sd: float = 2.0,
        feature_covariance_df: float | None = None,
        feature_covariance_scale: ArrayLike | None = None,
    ) -> None:
        features = self.features = Features(
            n_features,
            feature_mean,
            feature_covariance,
            feature_mean_sd,
            feature_covariance_df,
            feature_covariance_scale,
        )
        self.n_features = features.p
        self.feature_mean, self.feature_covariance = features.mean, features.covariance
        self.feature_mean_sd = features.mean_sd
        self.feature_covariance_df = features.df
        self.feature_covariance_scale = features.scale
        self.coefficient_sd = positive_number("coefficient_sd", coefficient_sd)
        self.largest_rate = positive_number("largest_rate", largest_rate)
        if self.largest_rate > LARGEST_RATE:
            raise ValueError(f"largest_rate must be at most {LARGEST_RATE}; got {largest_rate!r}")
        self._top = math.log(self.largest_rate)
        self.parameters: tuple[Parameter, ...] = self.features.parameters()
        self.innovations = Innovations("normal", self.n_features + 2)

    @property
    def column_names(self) -> list[str]:
        """The names of a record's entries, for imputed databases."""
        return [*self.features.names, "y"]

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        array = read_floats("records", records, self.n_features + 1)
        if not np.isfinite(array).all():
            raise ValueError("records must be finite; got NaN or an infinite number")
        response = array[:, -1]
        wrong = (response < 0) | (response != np.floor(response))
        if wrong.any():
            index = int(np.argmax(wrong))
            raise ValueError(
                "the response (the last entry of a record) must be a whole number from 0; "
                f"got {response[index]} in record {index}"
            )

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        return self.features.sample_prior(self.coefficient_sd, rng)

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised; Sigma by its lower triangle."""
        return self.features.log_prior(self.coefficient_sd, theta)

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw n records from f(. | theta); shape ``(n, p + 1)``."""
        return self.build_records(theta, rng.standard_normal((n, self.n_features + 2)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_floats("records", records, self.n_features + 1)
        out = np.empty(len(records))
        kernels.log_likelihood(kernels.POISSON, self._top, *self.features.read(theta), records, out)
        return out

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta by a kernel that leaves p(theta | x) alone; see the module."""
        records = read_floats("records", records, self.n_features + 1)
        coefficients, _, _ = self.features.read(theta)
        new: Theta = {"coefficients": np.empty(self.n_features + 1)}
        kernels.update_coefficients(
            kernels.POISSON,
            self._top,
            coefficients,
            records,
            self.coefficient_sd**-2,
            rng.standard_normal(self.n_features + 1),
            rng.standard_gamma(0.5 * kernels.DOF),
            -rng.standard_exponential(),
            new["coefficients"],
        )
        return new | self.features.update(theta, records, rng)

    def build_records(
        self, theta: Mapping[str, Any], innovations: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the records F(u_i; theta), ``(n, p + 1)``, of innovations ``(n, p + 2)``."""
        innovations = read_floats("innovations", innovations, self.n_features + 2)
        records = np.empty((len(innovations), self.n_features + 1))
        kernels.build_records(
            kernels.POISSON, self._top, *self.features.read(theta), innovations, records
        )
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw u_i given x_i and theta, ``(n, p + 2)``; random only in what makes the response."""
        records = read_floats("records", records, self.n_features + 1)
        innovations = np.empty((len(records), self.n_features + 2))
        uniforms = rng.random((len(records), 2))
        kernels.recover_innovations(
            kernels.POISSON, self._top, *self.features.read(theta), records, uniforms, innovations
        )
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "PoissonRegression",
            "n_features": self.n_features,
            "coefficient_sd": self.coefficient_sd,
            "largest_rate": self.largest_rate,
            **self.features.to_dict(),
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
