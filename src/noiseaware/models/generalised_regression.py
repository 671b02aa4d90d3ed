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
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import expit

from noiseaware.contract import Floats, Theta
from noiseaware.models import response_kernels as kernels
from noiseaware.models.arguments import POSITIVE, positive_number, refuse_records
from noiseaware.models.normal_vectors import draw_gammas
from noiseaware.models.ready import Compiled
from noiseaware.models.regression import Regression
from noiseaware.parameters import Work
from noiseaware.registry import MODELS

LARGEST_RATE = 600
"""P(y = 0) = exp(-600) is about the smallest probability that still has all its digits."""


def _possible_rate(name: str, value: Any) -> float:
    rate = positive_number(name, value)
    if rate > LARGEST_RATE:
        raise ValueError(f"{name} must be at most {LARGEST_RATE}; got {value!r}")
    return rate


_RIGHT = "the response (the last entry of a record) must be"


class GeneralisedRegression(Regression):
    """All but the distribution of the response."""

    _response: tuple[int, float]
    """The kind of response and the cut-off of eta, as `response_kernels.py` takes them."""

    _response_normals = uniforms = 2
    _response_type = np.int64
    compiled = Compiled(kernels.build_records, kernels.recover_innovations, kernels.log_likelihood)

    def _read(self, theta: Theta) -> tuple[int, float, Floats, Floats, Floats]:
        """Return the kind of response, the cut-off, beta, m and Sigma."""
        return *self._response, self._coefficients(theta), *self._features.read(theta)

    def _respond(self, eta: Floats, theta: Theta, rng: Generator) -> tuple[Floats, Floats]:
        kind, top = self._response
        eta = np.clip(eta, -kernels.STEEPEST, top)  # as `linear_predictor` does
        if kind == kernels.LOGISTIC:
            expected = expit(eta)
            return expected, (rng.random(len(eta)) < expected).astype(np.float64)
        expected = np.exp(eta)
        return expected, rng.poisson(expected).astype(np.float64)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        width = self.n_features + 1
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


@dataclass(repr=False, eq=False)
class LogisticRegression(GeneralisedRegression):
    """Logistic regression on normal features, whose mean and covariance are known or not.

    Parameters
    ----------
    n_features : int
        p, the number of features, without the intercept; not needed with `features`.
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
    features : frame, array (n, p), or mapping from names to columns, optional
        The features of each record, if they are known: a record is then the response alone.

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

    n_features: int = cast(int, None)
    coefficient_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_mean: ArrayLike | None = None
    feature_covariance: ArrayLike | None = None
    _: KW_ONLY
    feature_mean_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_covariance_df: float | None = None
    feature_covariance_scale: ArrayLike | None = None
    features: Any = None

    _response = (kernels.LOGISTIC, kernels.STEEPEST)
    _work: ClassVar[Work] = Work(update=40.0, draw=8.0, build=3.5, recover=18.0)

    def _check(self, records: Floats) -> None:
        y = records[:, -1]
        refuse_records((y != 0) & (y != 1), f"{_RIGHT} 0 or 1", y)


@dataclass(repr=False, eq=False)
class PoissonRegression(GeneralisedRegression):
    """Poisson regression on normal features, whose mean and covariance are known or not.

    Parameters
    ----------
    n_features, coefficient_sd, feature_mean, feature_covariance
        As for `LogisticRegression`.
    largest_rate : float
        R: a rate exp((1, x_0) beta) above it counts as R. At most 600.
    feature_mean_sd, feature_covariance_df, feature_covariance_scale, features
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

    n_features: int = cast(int, None)
    coefficient_sd: float = field(default=1.0, metadata=POSITIVE)
    feature_mean: ArrayLike | None = None
    feature_covariance: ArrayLike | None = None
    _: KW_ONLY
    largest_rate: float = field(default=500.0, metadata={"check": _possible_rate})
    feature_mean_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_covariance_df: float | None = None
    feature_covariance_scale: ArrayLike | None = None
    features: Any = None

    _work: ClassVar[Work] = Work(calls=2.0, update=12.0, draw=13.0, build=5.0, recover=31.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._response = (kernels.POISSON, math.log(self.largest_rate))

    def _check(self, records: Floats) -> None:
        y = records[:, -1]
        refuse_records((y < 0) | (y != np.floor(y)), f"{_RIGHT} a whole number from 0", y)


MODELS.add(LogisticRegression)
MODELS.add(PoissonRegression)
