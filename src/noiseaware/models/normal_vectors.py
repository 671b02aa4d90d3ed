"""Normal vectors with known or unknown mean and covariance: records, or features of records.

The model
---------
    x_i ~ N_p(m, Sigma)
    m_j ~ N(a_j, s_j^2)                         independent
    Sigma ~ InverseWishart(df, S)               density prop. to |Sigma|^(-(df+p+1)/2)
                                                exp(-tr(S Sigma^{-1})/2)

with m and Sigma independent a priori; either may be known.

The full conditionals
---------------------
The likelihood is |Sigma|^(-n/2) exp(-sum_i (x_i - m)' Sigma^{-1} (x_i - m) / 2), so

* m | Sigma, x: completing the square, N(mu, V) with V^{-1} = n Sigma^{-1} + diag(1/s_j^2) and
  V^{-1} mu = Sigma^{-1} sum_i x_i + (a_j/s_j^2)_j;
* Sigma | m, x: InverseWishart(df + n, S + sum_i (x_i - m)(x_i - m)').

`NormalVectors.update` draws m, then Sigma, skipping a known one: an exact draw if one is known, a
Gibbs scan of p(m, Sigma | x) otherwise.

The construction x = F(u; theta)
--------------------------------
x = m + L u with u standard normal of length p and Sigma = L L' (L lower triangular, positive
diagonal); the inverse is u = L^{-1} (x - m).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.linear_algebra import cholesky
from noiseaware.contract import ClosedForm, Floats, Reading, Theta
from noiseaware.maths.densities import LOG_2PI, log_inverse_wishart, log_normal_iid
from noiseaware.maths.densities import log_inverse_wishart_constant as wishart_constant
from noiseaware.models import arguments, estimates
from noiseaware.models.arguments import covariance_matrix, one_or_each, read_parameter
from noiseaware.models.conjugate import draw_inverse_wishart, draw_normal_mean
from noiseaware.models.ready import Compiled, CompiledModel, labelled
from noiseaware.parameters import Innovations, Parameter
from noiseaware.registry import MODELS

FEATURES = ("feature_", "feature", "n_features")
"""The names for vectors that are features of records; see `NormalVectors`."""

_NO_VECTOR = np.empty(0)
_NO_MATRIX = np.empty((0, 0))


class Priors(NamedTuple):
    """What the draws of m and Sigma need to know of their priors."""

    centres: Floats
    """a, (p,)."""
    precisions: Floats
    """1 / s_j^2, (p,)."""
    scale: Floats
    """S, (p, p)."""


@njit(cache=True, nogil=True)
def build_vectors(mean, covariance, innovations, records):
    """Write m + L u_i into the first p columns; if there is no L, NaN everywhere and False."""
    p = mean.shape[0]
    factor = np.empty((p, p))
    if not cholesky(covariance, p, factor):
        records[:] = math.nan
        return False
    for i in range(records.shape[0]):
        for j in range(p):
            total = mean[j]
            for k in range(j + 1):
                total += factor[j, k] * innovations[i, k]
            records[i, j] = total
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _whiten(mean, factor, records, i, out):
    """Write L^{-1} (x_i - m) into row i of ``out``, or its only row; return the sum of squares."""
    at, squares = min(i, out.shape[0] - 1), 0.0
    for j in range(mean.shape[0]):
        total = records[i, j] - mean[j]
        for k in range(j):
            total -= factor[j, k] * out[at, k]
        out[at, j] = total / factor[j, j]
        squares += out[at, j] * out[at, j]
    return squares


@njit(cache=True, nogil=True)
def recover_vectors(mean, covariance, records, innovations):
    """Write u_i = L^{-1} (x_i - m) into the first p columns; failure as in `build_vectors`."""
    p = mean.shape[0]
    factor = np.empty((p, p))
    if not cholesky(covariance, p, factor):
        innovations[:] = math.nan
        return False
    for i in range(records.shape[0]):
        _whiten(mean, factor, records, i, innovations)
    return True


@njit(cache=True, nogil=True)
def log_density_of_vectors(mean, covariance, records, out):
    """Write log N(x_i; m, Sigma); if there is no L, -inf everywhere and False."""
    p = mean.shape[0]
    factor, row = np.empty((p, p)), np.empty((1, p))
    if not cholesky(covariance, p, factor):
        out[:] = -math.inf
        return False
    constant = -0.5 * p * LOG_2PI
    for j in range(p):
        constant -= math.log(factor[j, j])
    for i in range(records.shape[0]):
        out[i] = constant - 0.5 * _whiten(mean, factor, records, i, row)
    return True


@njit(cache=True, nogil=True)
def draw_both(records, mean, covariance, priors, normals, gammas, mean_out, covariance_out):
    """Draw m given Sigma, then Sigma given m; an empty output marks a known parameter.

    The vectors are the first p columns of the records. ``normals`` holds p numbers for an unknown
    m, then p (p - 1)/2 for an unknown Sigma; ``gammas`` holds p of shapes (df + n - j)/2.
    """
    p = mean.shape[0]
    centre = mean
    used = 0
    if mean_out.shape[0] > 0:
        sums = np.zeros(p)
        for i in range(records.shape[0]):
            for j in range(p):
                sums[j] += records[i, j]
        n = float(records.shape[0])
        precisions, centres = priors.precisions, priors.centres
        draw_normal_mean(n, sums, covariance, precisions, centres, normals, 0, mean_out)
        used = p
        centre = mean_out
    if covariance_out.shape[0] > 0:
        scatter = priors.scale.copy()
        row = np.empty(p)
        for i in range(records.shape[0]):
            for a in range(p):
                row[a] = records[i, a] - centre[a]
                for b in range(a + 1):
                    scatter[a, b] += row[a] * row[b]
        if not draw_inverse_wishart(scatter, gammas, normals, used, covariance_out):
            covariance_out[:] = math.nan


def draw_gammas(shapes: Sequence[float], n_records: int, rng: Generator) -> Floats:
    """Draw a gamma variable for each of the prior's shapes, each increased by n/2."""
    half = 0.5 * n_records
    # For a few gammas, scalar calls are faster than one call with an array.
    return np.array([rng.standard_gamma(shape + half) for shape in shapes])


class NormalVectors:
    """N_p(m, Sigma) with m and Sigma known, or unknown (None) with their priors.

    ``names`` holds the prefix of "mean" and "covariance" in the names of parameters and arguments,
    the dimension of the parameters (labels x1, ..., xp), and the model's name for p. ``df`` and
    ``scale`` default to p + 3 and 2 I.
    """

    def __init__(
        self,
        names: tuple[str, str, str],
        size: int,
        mean: ArrayLike | None,
        covariance: ArrayLike | None,
        mean_mean: float | Floats = 0.0,
        mean_sd: float | Floats = 1.0,
        df: float | None = None,
        scale: ArrayLike | None = None,
    ) -> None:
        prefix, dim, size_name = names
        p = self.size = whole_number(size_name, size)
        first, second = self._names = f"{prefix}mean", f"{prefix}covariance"
        self.mean = None if mean is None else arguments.real_array(first, mean, (p,))
        self.covariance = None if covariance is None else covariance_matrix(second, covariance, p)
        self.mean_mean, self.mean_sd = np.full(p, mean_mean), np.full(p, mean_sd)
        self._alike = isinstance(mean_sd, float)
        self.df = p + 3.0 if df is None else arguments.positive_number(f"{second}_df", df)
        if self.df <= p - 1:
            raise ValueError(
                f"{second}_df must be above {size_name} - 1 = {p - 1}, or the prior is not "
                f"proper; got {df!r}"
            )
        usual = 2.0 * np.eye(p)
        self.scale = usual if scale is None else covariance_matrix(f"{second}_scale", scale, p)
        self.scale_factor = np.linalg.cholesky(self.scale)
        self._constant = wishart_constant(self.df, self.scale_factor)
        self.priors = Priors(self.mean_mean, self.mean_sd**-2, self.scale)
        labels = self.labels = [f"x{j + 1}" for j in range(p)]
        self.parameters: tuple[Parameter, ...] = ()
        self.n_mean = self.n_below = 0
        self.gamma_shapes: list[float] = []
        if self.mean is None:
            self.n_mean = p
            self.parameters += (labelled(first, "real", dim, labels),)
        if self.covariance is None:
            self.n_below = p * (p - 1) // 2
            self.gamma_shapes = [0.5 * (self.df - j) for j in range(p)]
            dims, coords = (dim, f"{dim}_bis"), {dim: labels, f"{dim}_bis": labels}
            self.parameters += (Parameter(second, (p, p), "covariance", dims, coords),)

    def given(self) -> dict[str, Any]:
        """Return df and scale, ready for JSON; None marks a default."""
        df = None if self.df == self.size + 3 else self.df
        usual = np.array_equal(self.scale, 2.0 * np.eye(self.size))
        scale = None if usual else self.scale.tolist()
        return {f"{self._names[1]}_df": df, f"{self._names[1]}_scale": scale}

    def read(self, theta: Theta) -> tuple[Floats, Floats]:
        """Return m and Sigma, each from theta or as known."""
        p, (first, second) = self.size, self._names
        mean = read_parameter(theta, first, (p,)) if self.mean is None else self.mean
        if self.covariance is not None:
            return mean, self.covariance
        return mean, read_parameter(theta, second, (p, p))

    def sample_prior(self, rng: Generator) -> Theta:
        """Draw the unknown parameters from the prior."""
        new, mean, covariance = self.room()
        if self.mean is None:
            mean[:] = self.mean_mean + self.mean_sd * rng.standard_normal(self.size)
        if self.covariance is None:
            covariance[:] = self.draw_covariance(0.0, 0, rng)
        return new

    def draw_covariance(self, scatter: Floats | float, n: int, rng: Generator) -> Floats:
        """Draw Sigma from InverseWishart(df + n, S + scatter)."""
        out = np.empty((self.size, self.size))
        gammas = draw_gammas(self.gamma_shapes, n, rng)
        normals = rng.standard_normal(self.n_below)
        if not draw_inverse_wishart(self.scale + scatter, gammas, normals, 0, out):
            out[:] = math.nan
        return out

    def log_prior(self, theta: Theta) -> float:
        """Return log p(m, Sigma), normalised, over the lower triangle of Sigma."""
        mean, covariance = self.read(theta)
        total = 0.0
        if self.mean is None and self._alike:  # one compiled sum
            total += log_normal_iid(mean, self.mean_mean[0], self.mean_sd[0])
        elif self.mean is None:
            z = (mean - self.mean_mean) / self.mean_sd
            total -= 0.5 * (float(z @ z) + self.size * LOG_2PI) + float(np.log(self.mean_sd).sum())
        if self.covariance is None:
            total += log_inverse_wishart(covariance, self.df, self.scale_factor, self._constant)
        return total

    def room(self) -> tuple[Theta, Floats, Floats]:
        """Return an unfilled theta, and its m and Sigma (empty arrays for known ones)."""
        new: Theta = {parameter.name: np.empty(parameter.shape) for parameter in self.parameters}
        return new, new.get(self._names[0], _NO_VECTOR), new.get(self._names[1], _NO_MATRIX)

    def update(self, theta: Theta, records: Floats, normals: Floats, gammas: Floats) -> Theta:
        """Return the unknown parameters, drawn given the records by one Gibbs scan.

        ``normals`` holds n_mean + n_below standard normals; ``gammas`` come from `draw_gammas`.
        """
        new, mean, covariance = self.room()
        if new:
            draw_both(records, *self.read(theta), self.priors, normals, gammas, mean, covariance)
        return new


@dataclass(repr=False, eq=False)
class MultivariateNormal(CompiledModel):
    """Independent normal vectors with unknown mean, unknown covariance, or both.

        x_i        ~ N_q(mean, covariance)
        mean_j     ~ N(mean_mean_j, mean_sd_j^2)     independent
        covariance ~ InverseWishart(covariance_df, covariance_scale)

    The defaults suit columns within a few tens of units of 0 that vary by about one unit.

    Parameters
    ----------
    n_columns : int
        q, the length of a record.
    mean : array_like, shape (q,), optional
        The mean, if known. Default: unknown.
    covariance : array_like, shape (q, q), optional
        The covariance, if known. Default: unknown.
    mean_mean, mean_sd : float or array_like, shape (q,), default 0 and 10
        Prior mean and standard deviation of each entry of the mean; a single number serves all.
    covariance_df : float, default q + 3
        Degrees of freedom; must exceed q - 1.
    covariance_scale : array_like, shape (q, q), default 2 I
        The prior mean is scale / (df - q - 1).

    Notes
    -----
    Records are float64 of shape ``(n, q)``. Parameters, if unknown: ``mean`` (q,) and
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
        arguments.not_both_known(mean=self.mean, covariance=self.covariance)
        mean_mean = self.mean_mean = one_or_each("mean_mean", self.mean_mean, q)
        mean_sd = self.mean_sd = one_or_each("mean_sd", self.mean_sd, q, positive=True)
        names = ("", "column", "n_columns")
        prior = (mean_mean, mean_sd, self.covariance_df, self.covariance_scale)
        vectors = self._vectors = NormalVectors(names, q, self.mean, self.covariance, *prior)
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
        """Return the estimates given exact moments, which are sufficient for theta."""
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
