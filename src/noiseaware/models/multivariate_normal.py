"""Multivariate normal records with an unknown mean, an unknown covariance, or both.

The model
---------
A record is a row of q floats.

    x_i ~ N_q(m, Sigma)
    m_j ~ N(a_j, s_j^2)                         a = mean_mean, s = mean_sd, independent
    Sigma ~ InverseWishart(df, S)               density prop. to |Sigma|^(-(df+q+1)/2)
                                                exp(-tr(S Sigma^{-1})/2)

with m and Sigma independent a priori; either may be known instead.

The full conditionals
---------------------
The likelihood is |Sigma|^(-n/2) exp(-sum_i (x_i - m)' Sigma^{-1} (x_i - m) / 2), so

* m | Sigma, x: completing the square, N(mu, V) with V^{-1} = n Sigma^{-1} + diag(1/s_j^2) and
  V^{-1} mu = Sigma^{-1} sum_i x_i + (a_j/s_j^2)_j;
* Sigma | m, x: InverseWishart(df + n, S + sum_i (x_i - m)(x_i - m)').

`MultivariateNormal.update_parameters` draws m, then Sigma, each if unknown: an exact draw when one
is known, a Gibbs scan of p(m, Sigma | x) when both are not.

The construction x = F(u; theta)
--------------------------------
x = m + L u with u standard normal of length q and Sigma = L L' (L lower triangular, positive
diagonal), inverted by u = L^{-1} (x - m).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from noiseaware.arguments import whole_number
from noiseaware.models.arguments import (
    arguments_repr,
    covariance_matrix,
    not_both_known,
    one_if_equal,
    one_or_each,
    read_finite,
    read_floats,
    read_parameter,
    real_array,
)
from noiseaware.models.conjugate import draw_inverse_wishart, draw_normal_mean
from noiseaware.models.inverse_wishart import InverseWishart
from noiseaware.models.linear_algebra import cholesky
from noiseaware.parameters import Innovations, Parameter

Theta = dict[str, NDArray[np.float64]]

_LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True, nogil=True)
def _build_records(mean, covariance, innovations, records):
    """Write x_i = m + L u_i; NaN if the covariance is not positive definite."""
    q = mean.shape[0]
    factor = np.empty((q, q))
    if not cholesky(covariance, q, factor):
        records[:] = math.nan
        return
    for i in range(records.shape[0]):
        for j in range(q):
            total = mean[j]
            for k in range(j + 1):
                total += factor[j, k] * innovations[i, k]
            records[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
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
        for j in range(q):
            total = records[i, j] - mean[j]
            for k in range(j):
                total -= factor[j, k] * innovations[i, k]
            innovations[i, j] = total / factor[j, j]
    return log_determinant


@njit(cache=True, nogil=True)
def _sums(records, sums):
    """Write sum_i x_i."""
    sums[:] = 0.0
    for i in range(records.shape[0]):
        for j in range(records.shape[1]):
            sums[j] += records[i, j]


@njit(cache=True, nogil=True)
def _add_scatter(records, mean, scatter):
    """Add sum_i (x_i - m)(x_i - m)' to the lower triangle of ``scatter``."""
    q = mean.shape[0]
    row = np.empty(q)
    for i in range(records.shape[0]):
        for a in range(q):
            row[a] = records[i, a] - mean[a]
            for b in range(a + 1):
                scatter[a, b] += row[a] * row[b]


class MultivariateNormal:
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
        self.mean = None if mean is None else real_array("mean", mean, (q,))
        self.covariance = (
            None if covariance is None else covariance_matrix("covariance", covariance, q)
        )
        self.mean_mean = one_or_each("mean_mean", mean_mean, q)
        self.mean_sd = one_or_each("mean_sd", mean_sd, q, positive=True)
        prior = self._prior = InverseWishart(
            "covariance", "n_columns", q, covariance_df, covariance_scale
        )
        self.covariance_df, self.covariance_scale = prior.df, prior.scale
        self.column_names = [f"x{j + 1}" for j in range(q)]
        found = []
        if self.mean is None:
            labels = {"column": self.column_names}
            found.append(Parameter("mean", (q,), "real", ("column",), labels))
        if self.covariance is None:
            found.append(prior.parameter("column", self.column_names))
        self.parameters = tuple(found)
        self.innovations = Innovations("normal", q)
        self._precisions = self.mean_sd**-2

    def _read(self, theta: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return m and Sigma, each from theta or from what is known."""
        q, mean, covariance = self.n_columns, self.mean, self.covariance
        if mean is None:
            mean = read_parameter(theta, "mean", (q,))
        if covariance is None:
            covariance = read_parameter(theta, "covariance", (q, q))
        return mean, covariance

    def check_records(self, records: ArrayLike) -> None:
        """Raise ValueError if these cannot be records of this model."""
        read_finite(records, self.n_columns)

    def sample_prior(self, rng: np.random.Generator) -> Theta:
        """Draw theta from the prior."""
        theta: Theta = {}
        if self.mean is None:
            theta["mean"] = self.mean_mean + self.mean_sd * rng.standard_normal(self.n_columns)
        if self.covariance is None:
            theta["covariance"] = self._prior.sample(rng)
        return theta

    def log_prior(self, theta: Mapping[str, Any]) -> float:
        """Return log p(theta), normalised; Sigma by its lower triangle."""
        q = self.n_columns
        total = 0.0
        if self.mean is None:
            z = (read_parameter(theta, "mean", (q,)) - self.mean_mean) / self.mean_sd
            total -= 0.5 * (float(z @ z) + q * _LOG_2PI) + float(np.log(self.mean_sd).sum())
        if self.covariance is None:
            total += self._prior.log_density(read_parameter(theta, "covariance", (q, q)))
        return total

    def sample_records(
        self, theta: Mapping[str, Any], n: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw n records from f(. | theta); shape ``(n, q)``."""
        return self.build_records(theta, rng.standard_normal((n, self.n_columns)))

    def log_likelihood(self, theta: Mapping[str, Any], records: ArrayLike) -> NDArray[np.float64]:
        """Return log f(x_i | theta) for each record; shape ``(n,)``."""
        records = read_floats("records", records, self.n_columns)
        u = np.empty(records.shape)
        log_determinant = _recover_innovations(*self._read(theta), records, u)
        if math.isnan(log_determinant):
            return np.full(len(records), -math.inf)
        return -0.5 * (self.n_columns * _LOG_2PI + (u * u).sum(axis=1)) - log_determinant

    def update_parameters(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
    ) -> Theta:
        """Return a new theta by one Gibbs scan of p(theta | x); see the module docstring."""
        q = self.n_columns
        records = read_floats("records", records, q)
        mean, covariance = self._read(theta)
        new: Theta = {}
        if self.mean is None:
            sums, mean = np.empty(q), np.empty(q)
            _sums(records, sums)
            draw_normal_mean(
                float(len(records)),
                sums,
                covariance,
                self._precisions,
                self.mean_mean,
                rng.standard_normal(q),
                0,
                mean,
            )
            new["mean"] = mean
        if self.covariance is None:
            scatter = self.covariance_scale.copy()
            _add_scatter(records, mean, scatter)
            gammas = rng.standard_gamma(self._prior.gamma_shapes + 0.5 * len(records))
            normals = rng.standard_normal(self._prior.n_normals)
            new["covariance"] = np.full((q, q), math.nan)
            draw_inverse_wishart(scatter, gammas, normals, 0, new["covariance"])
        return new

    def build_records(
        self, theta: Mapping[str, Any], innovations: ArrayLike
    ) -> NDArray[np.float64]:
        """Return the records F(u_i; theta); innovations and records both ``(n, q)``."""
        innovations = read_floats("innovations", innovations, self.n_columns)
        records = np.empty(innovations.shape)
        _build_records(*self._read(theta), innovations, records)
        return records

    def recover_innovations(
        self, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Return the u_i with F(u_i; theta) = x_i, ``(n, q)``; no randomness is needed."""
        records = read_floats("records", records, self.n_columns)
        innovations = np.empty(records.shape)
        _recover_innovations(*self._read(theta), records, innovations)
        return innovations

    def to_dict(self) -> dict[str, Any]:
        """Return the type and the constructor's arguments, ready for JSON."""
        return {
            "type": "MultivariateNormal",
            "n_columns": self.n_columns,
            "mean": None if self.mean is None else self.mean.tolist(),
            "covariance": None if self.covariance is None else self.covariance.tolist(),
            "mean_mean": one_if_equal(self.mean_mean),
            "mean_sd": one_if_equal(self.mean_sd),
            **self._prior.to_dict(),
        }

    def __repr__(self) -> str:
        return arguments_repr(self)
