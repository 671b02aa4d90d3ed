"""Multivariate normal records with an unknown mean, an unknown covariance, or both.

A record is a row of q floats. The model, the full conditionals and the construction are those of
`normal_vectors.py`. `MultivariateNormal.update_parameters` is an exact draw when the mean or the
covariance is known, a Gibbs scan of p(m, Sigma | x) when both are not.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.models import estimates
from noiseaware.models.arguments import not_both_known, one_or_each
from noiseaware.models.normal_vectors import (
    NormalVectors,
    build_vectors,
    draw_gammas,
    log_density_of_vectors,
    recover_vectors,
)
from noiseaware.models.ready import Compiled, CompiledModel
from noiseaware.parameters import Innovations
from noiseaware.registry import MODELS


@dataclass(repr=False, eq=False)
class MultivariateNormal(CompiledModel):
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

    n_columns: int
    mean: ArrayLike | None = None
    covariance: ArrayLike | None = None
    _: KW_ONLY
    mean_mean: ArrayLike = 0.0
    mean_sd: ArrayLike = 10.0
    covariance_df: float | None = None
    covariance_scale: ArrayLike | None = None

    example: ClassVar[dict[str, Any]] = {"n_columns": 2}
    compiled = Compiled(build_vectors, recover_vectors, log_density_of_vectors)

    def __post_init__(self) -> None:
        q = self.width = self.n_columns = whole_number("n_columns", self.n_columns)
        not_both_known(mean=self.mean, covariance=self.covariance)
        mean_mean = self.mean_mean = one_or_each("mean_mean", self.mean_mean, q)
        mean_sd = self.mean_sd = one_or_each("mean_sd", self.mean_sd, q, positive=True)
        vectors = self._vectors = NormalVectors(
            ("", "column", "n_columns"),
            q,
            self.mean,
            self.covariance,
            mean_mean,
            mean_sd,
            self.covariance_df,
            self.covariance_scale,
        )
        self.mean, self.covariance = vectors.mean, vectors.covariance
        self.covariance_df, self.covariance_scale = vectors.df, vectors.scale
        self.column_names, self.parameters = vectors.labels, vectors.parameters
        self.innovations = Innovations("normal", q)

    def _read(self, theta: Theta) -> tuple[Floats, Floats]:
        return self._vectors.read(theta)

    def sample_prior(self, rng: Generator) -> Theta:
        return self._vectors.sample_prior(rng)

    def log_prior(self, theta: Theta) -> float:
        return self._vectors.log_prior(theta)

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the estimates given exact moments; p(theta | x) depends on nothing else."""
        if reading.kind != "moments" or len(reading.values[0]) != self.n_columns:
            return None
        mean, scatter = reading.values
        theta: Theta = {} if self.mean is not None else {"mean": mean}
        if self.covariance is None:
            away = mean - (mean if self._vectors.mean is None else self._vectors.mean)
            least = estimates.least_variance(reading) * np.eye(len(mean))
            theta["covariance"] = scatter / n + np.outer(away, away) + least
        return ClosedForm(theta)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        vectors = self._vectors
        normals = rng.standard_normal(vectors.n_mean)
        gammas = draw_gammas(vectors.gamma_shapes, len(records), rng)
        normals = np.append(normals, rng.standard_normal(vectors.n_below))
        return vectors.update(theta, records, normals, gammas)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | self._vectors.given()


MODELS.add(MultivariateNormal)
