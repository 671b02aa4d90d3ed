"""Logistic and Poisson regression: features, coefficients and a response that is discrete.

    x_0^i ~ N_p(m, Sigma)                       the features, as in `regression.py`
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    y_i | x_0^i ~ Bernoulli(1 / (1 + exp(-eta_i)))      in `LogisticRegression`
    y_i | x_0^i ~ Poisson(min(exp(eta_i), R))           in `PoissonRegression`
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

R = largest_rate is there because exp makes an enormous rate of a wild draw from the prior, which no
computer can count up to. It is part of the model: set it above every rate that is thinkable, and it
plays no role but that one.

The kernel
----------
Given x, beta and (m, Sigma) are independent. `update_parameters` does one Metropolis-Hastings step
on beta, from a Student t distribution around the mode of p(beta | x) that does not depend on where
beta is (`response_kernels.py` has the derivation), and one Gibbs scan of m and Sigma, with the
conditionals of `normal_vectors.py`.

The construction x = F(u; theta)
--------------------------------
u is p + 2 standard normals. With Sigma = L L', x_0 = m + L u_{1..p}. The last two make the
exponential variable E = (u_{p+1}^2 + u_{p+2}^2) / 2, and y is a step function of E: the largest k
with E >= -log P(y >= k | eta). So the logistic y is 1 if E >= log(1 + exp(-eta)), which has the
probability 1 / (1 + exp(-eta)). Given y, E is drawn from an exponential distribution between the
edges that give y, and the angle of (u_{p+1}, u_{p+2}) uniformly.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from noiseaware.contract import Floats, Theta
from noiseaware.models import response_kernels as kernels
from noiseaware.models.arguments import positive_number, read_finite, read_floats
from noiseaware.models.normal_vectors import draw_gammas
from noiseaware.models.regression import Regression
from noiseaware.registry import MODELS

LARGEST_RATE = 600
"""P(y = 0) = exp(-600) is about the smallest probability that still has all its digits."""


class GeneralisedRegression(Regression):
    """All but the distribution of the response."""

    _response: tuple[int, float]
    """The kind of response and the cut-off of eta, as `response_kernels.py` takes them."""

    _response_normals = 2

    _right: str
    """What a response must be."""

    def _read(self, theta: Theta) -> tuple[Floats, Floats, Floats]:
        """Return beta, m and Sigma, each from theta or from what is known."""
        return self._coefficients(theta), *self._features.read(theta)

    def _impossible(self, response: Floats) -> NDArray[np.bool_]:
        """Return which responses cannot be."""
        raise NotImplementedError

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        response = read_finite(records, self.n_features + 1)[:, -1]
        wrong = self._impossible(response)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise ValueError(
                f"the response (the last entry of a record) must be {self._right}; "
                f"got {response[index]} in record {index}"
            )

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_floats("records", records, self.n_features + 1)
        out = np.empty(len(records))
        kernels.log_likelihood(*self._response, *self._read(theta), records, out)
        return out

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta by a kernel that leaves p(theta | x) invariant; see the module."""
        width = self.n_features + 1
        records = read_floats("records", records, width)
        new: Theta = {"coefficients": np.empty(width)}
        kernels.update_coefficients(
            *self._response,
            self._coefficients(theta),
            records,
            self._prior_precision,
            rng.standard_normal(width),
            rng.standard_gamma(0.5 * kernels.DOF),
            -rng.standard_exponential(),
            new["coefficients"],
        )
        features = self._features
        gammas = draw_gammas(features.gamma_shapes, len(records), rng)
        normals = rng.standard_normal(features.n_mean + features.n_below)
        return new | features.update(theta, records, normals, gammas)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> Floats:
        """Return the records F(u_i; theta), ``(n, p + 1)``, of innovations ``(n, p + 2)``."""
        innovations = read_floats("innovations", innovations, self.n_features + 2)
        records = np.empty((len(innovations), self.n_features + 1))
        kernels.build_records(*self._response, *self._read(theta), innovations, records)
        return records

    def recover_innovations(self, theta: Theta, records: ArrayLike, rng: Generator) -> Floats:
        """Draw u_i given x_i and theta, ``(n, p + 2)``; random only in what makes the response."""
        records = read_floats("records", records, self.n_features + 1)
        innovations = np.empty((len(records), self.n_features + 2))
        uniforms = rng.random((len(records), 2))
        kernels.recover_innovations(
            *self._response, *self._read(theta), records, uniforms, innovations
        )
        return innovations


class LogisticRegression(GeneralisedRegression):
    """Logistic regression on normal features, whose mean and covariance are known or not.

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
    feature_mean_sd : float
        s: each m_j has the prior N(0, s^2).
    feature_covariance_df : float, optional
        Degrees of freedom of the inverse Wishart, above p - 1; p + 3 if not given.
    feature_covariance_scale : array_like, shape (p, p), optional
        S of the inverse Wishart; 2 I if not given. The prior mean is S / (df - p - 1).

    Notes
    -----
    Records are float64 of shape ``(n, p + 1)``, the response (0 or 1) last. Parameters, those
    that are unknown: ``coefficients`` (p + 1,), ``feature_mean`` (p,) and ``feature_covariance``
    (p, p).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import LogisticRegression
    >>> model = LogisticRegression(1, feature_mean=[0.0], feature_covariance=[[1.0]])
    >>> [parameter.name for parameter in model.parameters]
    ['coefficients']
    >>> model.build_records({"coefficients": [0.5, 1.0]}, np.array([[0.3, 0.2, 1.5]]))
    array([[0.3, 1. ]])
    """

    _response = (kernels.LOGISTIC, kernels.STEEPEST)
    _right = "0 or 1"

    def __init__(
        self,
        n_features: int,
        coefficient_sd: float = 2.0,
        feature_mean: ArrayLike | None = None,
        feature_covariance: ArrayLike | None = None,
        *,
        feature_mean_sd: float = 2.0,
        feature_covariance_df: float | None = None,
        feature_covariance_scale: ArrayLike | None = None,
    ) -> None:
        super().__init__(
            n_features,
            coefficient_sd,
            feature_mean,
            feature_covariance,
            feature_mean_sd,
            feature_covariance_df,
            feature_covariance_scale,
        )

    def _impossible(self, response: Floats) -> NDArray[np.bool_]:
        return (response != 0) & (response != 1)


class PoissonRegression(GeneralisedRegression):
    """Poisson regression on normal features, whose mean and covariance are known or not.

    Parameters
    ----------
    n_features, coefficient_sd, feature_mean, feature_covariance
        As for `LogisticRegression`.
    largest_rate : float
        R: a rate exp((1, x_0) beta) above it counts as R. At most 600.
    feature_mean_sd, feature_covariance_df, feature_covariance_scale
        As for `LogisticRegression`.

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
    >>> model.build_records({"coefficients": [0.5, 1.0]}, np.array([[0.3, 0.2, 1.5]]))
    array([[0.3, 3. ]])
    """

    _right = "a whole number from 0"

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
        super().__init__(
            n_features,
            coefficient_sd,
            feature_mean,
            feature_covariance,
            feature_mean_sd,
            feature_covariance_df,
            feature_covariance_scale,
        )
        self.largest_rate = positive_number("largest_rate", largest_rate)
        if self.largest_rate > LARGEST_RATE:
            raise ValueError(f"largest_rate must be at most {LARGEST_RATE}; got {largest_rate!r}")
        self._response = (kernels.POISSON, math.log(self.largest_rate))

    def _impossible(self, response: Floats) -> NDArray[np.bool_]:
        return (response < 0) | (response != np.floor(response))


MODELS.add(LogisticRegression)
MODELS.add(PoissonRegression)
