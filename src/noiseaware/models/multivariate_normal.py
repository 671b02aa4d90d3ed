"""Multivariate normal records with an unknown mean, an unknown covariance, or both.

The model and the full conditionals are those of `normal_vectors.py`; a record is a row of q floats.
`MultivariateNormal.update_parameters` is an exact draw when the mean or the covariance is known, a
Gibbs scan of p(m, Sigma | x) when both are not.

The construction x = F(u; theta)
--------------------------------
x = m + L u with u standard normal of length q and Sigma = L L' (L lower triangular, positive
diagonal), inverted by u = L^{-1} (x - m).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.arguments import whole_number
from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.linear_algebra import cholesky
from noiseaware.models import estimates
from noiseaware.models.arguments import (
    not_both_known,
    one_or_each,
    read_finite,
    read_floats,
)
from noiseaware.models.linear_algebra import colour, whiten
from noiseaware.models.normal_vectors import LOG_2PI, NormalVectors, draw_gammas
from noiseaware.models.ready import ReadyModel
from noiseaware.parameters import Innovations
from noiseaware.registry import MODELS


@njit(cache=True, nogil=True)
def _build_records(mean, covariance, innovations, records):
    """Write x_i = m + L u_i; NaN if the covariance is not positive definite."""
    q = mean.shape[0]
    factor = np.empty((q, q))
    if not cholesky(covariance, q, factor):
        records[:] = math.nan
        return
    for i in range(records.shape[0]):
        colour(mean, factor, innovations, i, records)


@njit(cache=True, nogil=True)
def _recover_innovations(mean, covariance, records, innovations):
    """Write u_i = L^{-1} (x_i - m); return log|L|, NaN if there is no L."""
    q = mean.shape[0]
    factor = np.empty((q, q))
    if not cholesky(covariance, q, factor):
        innovations[:] = math.nan
        return math.nan
    log_determinant = 0.0
    for j in range(q):
        log_determinant += math.log(factor[j, j])
    for i in range(records.shape[0]):
        whiten(mean, factor, records, i, innovations, i)
    return log_determinant


class MultivariateNormal(ReadyModel):
    """Independent normal vectors; the mean, the covariance or both unknown.

    Parameters
    ----------
    n_columns : int
        q, the length of a record.
    mean : array_like, shape (q,), optional
        m if it is known. None: unknown, with independent normal priors.
    covariance : array_like, shape (q, q), optional
        Sigma if it is known. None: unknown, with an inverse-Wishart prior.
    mean_mean, mean_sd : float or array_like, shape (q,)
        a_j and s_j of the priors N(a_j, s_j^2) of the m_j; one number stands for all.
    covariance_df : float, optional
        Degrees of freedom of the inverse Wishart, above q - 1; q + 3 if not given.
    covariance_scale : array_like, shape (q, q), optional
        S of the inverse Wishart; 2 I if not given. The prior mean is S / (df - q - 1).

    Notes
    -----
    Records are float64 of shape ``(n, q)``. Parameters, those that are unknown: ``mean`` (q,) and
    ``covariance`` (q, q).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import MultivariateNormal
    >>> model = MultivariateNormal(2, covariance=[[4.0, 0.0], [0.0, 1.0]])
    >>> model.build_records({"mean": [1.0, 5.0]}, np.array([[0.0, 0.0], [1.0, 2.0]]))
    array([[1., 5.],
           [3., 7.]])
    """

    example: ClassVar[dict[str, Any]] = {"n_columns": 2}

    def __init__(
        self,
        n_columns: int,
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        *,
        mean_mean: ArrayLike = 0.0,
        mean_sd: ArrayLike = 10.0,
        covariance_df: float | None = None,
        covariance_scale: ArrayLike | None = None,
    ) -> None:
        q = self.n_columns = whole_number("n_columns", n_columns)
        not_both_known(mean=mean, covariance=covariance)
        self.mean_mean = one_or_each("mean_mean", mean_mean, q)
        self.mean_sd = one_or_each("mean_sd", mean_sd, q, positive=True)
        vectors = self._vectors = NormalVectors(
            ("", "column", "n_columns"),
            q,
            mean,
            covariance,
            mean_mean=self.mean_mean,
            mean_sd=self.mean_sd,
            df=covariance_df,
            scale=covariance_scale,
        )
        self.mean, self.covariance = vectors.mean, vectors.covariance
        self.covariance_df, self.covariance_scale = vectors.prior.df, vectors.prior.scale
        self.column_names = vectors.labels
        self.parameters = vectors.parameters
        self.innovations = Innovations("normal", self.n_columns)

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        read_finite(records, self.n_columns)

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw theta from the prior."""
        return self._vectors.sample_prior(rng)

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised; Sigma by its lower triangle."""
        return self._vectors.log_prior(theta)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_floats("records", records, self.n_columns)
        u = np.empty(records.shape)
        log_determinant = _recover_innovations(*self._vectors.read(theta), records, u)
        if math.isnan(log_determinant):
            return np.full(len(records), -math.inf)
        return -0.5 * (self.n_columns * LOG_2PI + (u * u).sum(axis=1)) - log_determinant

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the estimates given exact moments; p(theta | x) depends on nothing else."""
        if reading.kind != "moments" or len(reading.values[0]) != self.n_columns:
            return None
        mean, scatter = reading.values
        theta: Theta = {} if self.mean is not None else {"mean": mean}
        if self.covariance is None:
            away = mean - (mean if self.mean is None else self.mean)
            least = estimates.least_variance(reading) * np.eye(len(mean))
            theta["covariance"] = scatter / n + np.outer(away, away) + least
        return ClosedForm(theta)

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        """Return a new theta by one Gibbs scan of p(theta | x); see the module docstring."""
        records = read_floats("records", records, self.n_columns)
        vectors = self._vectors
        normals = rng.standard_normal(vectors.n_mean)
        gammas = draw_gammas(vectors.gamma_shapes, len(records), rng)
        normals = np.append(normals, rng.standard_normal(vectors.n_below))
        return vectors.update(theta, records, normals, gammas)

    def build_records(self, theta: Theta, innovations: ArrayLike) -> Floats:
        """Return the records F(u_i; theta); innovations and records both ``(n, q)``."""
        innovations = read_floats("innovations", innovations, self.n_columns)
        records = np.empty(innovations.shape)
        _build_records(*self._vectors.read(theta), innovations, records)
        return records

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        """Return the u_i with F(u_i; theta) = x_i, ``(n, q)``; no randomness is needed."""
        records = read_floats("records", records, self.n_columns)
        innovations = np.empty(records.shape)
        _recover_innovations(*self._vectors.read(theta), records, innovations)
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return super().to_dict() | self._vectors.prior.given()


MODELS.add(MultivariateNormal)
