"""Logistic regression: features as in `LinearRegression`, and a response that is 0 or 1.

The model
---------
A record is (x_0, y): p features and a response, a row of p + 1 floats with the response last.

    x_0^i ~ N_p(m, Sigma)                       the features
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    y_i | x_0^i ~ Bernoulli(p_i)                p_i = 1 / (1 + exp(-eta_i))
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

The features are random because the confidential ones are not published either. m and Sigma are
known, or unknown with the priors of `LinearRegression`: m_j ~ N(0, s^2), and Sigma inverse Wishart.

`generalised_regression.py` has the kernel for p(theta | x).

The construction x = F(u; theta)
--------------------------------
That of `generalised_regression.py`, from p + 2 standard normals: the last two make an exponential
variable E, and y = 1 if E >= log(1 + exp(-eta)), which has the probability 1 / (1 + exp(-eta)).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from noiseaware.models import generalised_regression as shared
from noiseaware.models import response_kernels as kernels
from noiseaware.models.arguments import arguments_repr, positive_number, read_finite
from noiseaware.models.features import Features
from noiseaware.parameters import Innovations


class LogisticRegression:
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

    sample_prior = shared.sample_prior
    log_prior = shared.log_prior
    sample_records = shared.sample_records
    log_likelihood = shared.log_likelihood
    update_parameters = shared.update_parameters
    build_records = shared.build_records
    recover_innovations = shared.recover_innovations

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
        self.feature_covariance_df = features.prior.df
        self.feature_covariance_scale = features.prior.scale
        self.coefficient_sd = positive_number("coefficient_sd", coefficient_sd)
        self._response = (kernels.LOGISTIC, kernels.STEEPEST)
        self.parameters = (features.coefficients(), *features.parameters())
        self.innovations = Innovations("normal", features.p + 2)
        self.column_names = [*features.names, "y"]

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        response = read_finite(records, self.n_features + 1)[:, -1]
        wrong = (response != 0) & (response != 1)
        shared.check_response(response, wrong, "0 or 1")

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "LogisticRegression",
            "n_features": self.n_features,
            "coefficient_sd": self.coefficient_sd,
            **self.features.to_dict(),
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
