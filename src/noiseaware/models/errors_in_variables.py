"""Linear regression on features that were released with noise, beside others that are known.

The model
---------
Record i is (x_i, y_i), the true values of q features and the response, q + 1 floats; z_i = (1,
known features of record i).

    x_i | z_i ~ N_q(G z_i, Sigma)                        the features that nobody sees
    y_i | x_i, z_i ~ N((z_i, x_i) beta, sigma^2)         the response

    beta_j ~ N(0, coefficient_sd^2),     G_jl ~ N(0, feature_sd^2),
    sigma^2 ~ InverseGamma(a, b),        Sigma ~ InverseWishart(df, S).

A naive analysis puts the noisy numbers s_i in the place of x_i, which draws the coefficients
towards zero. Here x_i is imputed, from the law of its noise, from y_i and from what goes with z_i.

Given the records
-----------------
With D the rows (z_i, x_i) and Z the rows z_i: beta is normal with precision D'D / sigma^2 + I /
tau^2 and D'y / sigma^2 on the other side; sigma^2 is InverseGamma(a + n/2, b + |y - D beta|^2 / 2);
G, as a vector of its rows, is normal with precision kron(Sigma^-1, Z'Z) + I / feature_sd^2 and the
rows of Sigma^-1 X'Z on the other side; Sigma is InverseWishart(df + n, S + R'R), R = X - Z G'.

The records
-----------
Given theta, (x_i, y_i) is normal with mean (G z_i, (z_i, G z_i) beta) and the covariance matrix C
of both. With Q = C^-1, entry j given the others is normal with variance v = 1 / Q_jj and mean m_j -
v sum_l Q_jl (entry l - m_l); times the law h of what is seen of the entry this is

- Gaussian noise of precision w: normal with precision 1 / v + w;
- Laplace noise of rate b = 1 / scale around s: to the left of s a normal density with mean a + b v,
  to the right one with mean a - b v, with the weights exp(b (a - s)) Phi((s - a - b v) / sqrt v)
  and exp(-b (a - s)) Phi((a - b v - s) / sqrt v), up to a common factor;
- an interval (withheld, clamped, rounded): the normal is proposed, and accepted by the ratio of h;
- nothing: the normal itself; a number that was published as it is stays.

Each leaves p(x | theta, s_dp) invariant, one entry after another.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import special

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import LOG_2PI, log_normal_iid
from noiseaware.mechanisms.terms import BETWEEN, EXACT, GAUSSIAN, LAPLACE, CellLaws, formula
from noiseaware.models import arguments
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, read_floats
from noiseaware.models.normal_vectors import FEATURES, NormalVectors
from noiseaware.models.ready import ReadyModel, labelled
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

log_formula = np.vectorize(formula, otypes=[np.float64])


@dataclass(repr=False, eq=False)
class ErrorsInVariables(ReadyModel):
    """Linear regression on features that were released with noise, beside others that are known.

    Parameters
    ----------
    n_features : int
        q, the number of features that were released with noise.
    features : frame, array (n, p), or mapping from names to columns, optional
        The features that are known.
    coefficient_sd, feature_sd : float
        Standard deviations of the normal priors of the coefficients of the response, and of those
        of the noisy features given the known ones.
    noise_variance : float, optional
        sigma^2 if it is known. None: unknown, with an inverse-gamma prior.
    feature_covariance : array_like, shape (q, q), optional
        Sigma if it is known. None: unknown, with an inverse-Wishart prior.
    noise_variance_shape, noise_variance_scale : float
        a and b of InverseGamma(a, b); the prior mean is b / (a - 1).

    Notes
    -----
    Records are float64 of shape ``(n, q + 1)``, the response last; a release is made by
    `mechanisms.Attributes`, with `LocalExact(integer_valued=False)` for a response that is known.
    Sigma has q + 3 degrees of freedom and S = 2 I. Parameters: ``coefficients`` (1 + p + q,),
    intercept first, then known features, then noisy ones; ``feature_coefficients`` (q, 1 + p); and
    ``noise_variance`` () and ``feature_covariance`` (q, q) if they are unknown.

    Examples
    --------
    >>> from noiseaware.models import ErrorsInVariables
    >>> model = ErrorsInVariables(1, {"age": [0.2, 1.4, -0.3]}, noise_variance=1.0)
    >>> [parameter.name for parameter in model.parameters]
    ['coefficients', 'feature_coefficients', 'feature_covariance']
    """

    n_features: int = 1
    features: Any = None
    coefficient_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_sd: float = field(default=2.0, metadata=POSITIVE)
    noise_variance: float | None = field(default=None, metadata=POSITIVE)
    feature_covariance: ArrayLike | None = None
    _: KW_ONLY
    noise_variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    noise_variance_scale: float = field(default=4.0, metadata=POSITIVE)

    _priors: ClassVar = {"noise_variance": "inverse gamma"}
    example: ClassVar[dict[str, Any]] = {"n_features": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        q = self.n_features = whole_number("n_features", self.n_features)
        columns = arguments.feature_columns(self.features)
        self.features = columns or None
        self.uses_index, self.n_records = bool(columns), arguments.common_length(columns)
        # The mean given the known features is taken away.
        noisy = self._noisy = NormalVectors(FEATURES, q, np.zeros(q), self.feature_covariance)
        self.feature_covariance = noisy.covariance
        self.column_names = [*noisy.labels, "y"]
        names = ["intercept", *columns]
        dims, coords = ("feature", "known"), {"feature": noisy.labels, "known": names}
        self.parameters = (
            labelled("coefficients", "real", "coefficient", [*names, *noisy.labels]),
            *self._unknown(Parameter("noise_variance", (), "positive")),
            Parameter("feature_coefficients", (q, len(names)), "real", dims, coords),
            *noisy.parameters,
        )

    def _known(self, n: int, index: ArrayLike | None = None) -> Floats:
        """Return z of n records: those with these numbers, or the first n; (n, 1 + p)."""
        columns = list((self.features or {}).values())
        chosen = np.arange(n) if index is None else np.asarray(index)
        rows = [column[chosen % len(column)] for column in columns]
        return np.column_stack([np.ones(n), *rows])

    def _read(self, theta: Theta) -> tuple[Floats, float, Floats, Floats]:
        """Return beta, sigma^2, G and Sigma."""
        coefficients = np.asarray(theta["coefficients"], dtype=np.float64)
        slopes = np.asarray(theta["feature_coefficients"], dtype=np.float64)
        sigma = self._noisy.read(theta)[1]
        return coefficients, self._number(theta, "noise_variance"), slopes, sigma

    # ------------------------------------------------------------------ theta

    def sample_prior(self, rng: Generator) -> Theta:
        q, p = self.n_features, len(self.features or {})
        theta: Theta = {"coefficients": self.coefficient_sd * rng.standard_normal(1 + p + q)}
        if self.noise_variance is None:
            theta["noise_variance"] = self._draw_number("noise_variance", rng)
        theta["feature_coefficients"] = self.feature_sd * rng.standard_normal((q, 1 + p))
        if self.feature_covariance is None:
            theta["feature_covariance"] = self._noisy.draw_covariance(0.0, 0, rng)
        return theta

    def log_prior(self, theta: Theta) -> float:
        beta, _, slopes, _ = self._read(theta)
        total = log_normal_iid(beta, 0.0, self.coefficient_sd)
        total += log_normal_iid(np.ascontiguousarray(slopes).reshape(-1), 0.0, self.feature_sd)
        if self.noise_variance is None:
            total += self._log_density("noise_variance", theta)
        return float(total + self._noisy.log_prior(theta))

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        array = read_floats("records", records, self.n_features + 1)
        n, x, y = len(array), array[:, :-1], array[:, -1]
        z = self._known(n)
        _, noise, _, sigma = self._read(theta)
        design = np.column_stack([z, x])
        new: Theta = {}
        precision = design.T @ design / noise + np.eye(design.shape[1]) / self.coefficient_sd**2
        new["coefficients"] = beta = draw_normal(precision, design.T @ y / noise, rng)
        if self.noise_variance is None:
            squares = float(((y - design @ beta) ** 2).sum())
            new["noise_variance"] = self._draw_number("noise_variance", rng, 0.5 * n, 0.5 * squares)
        inverse = np.linalg.inv(sigma)
        precision = np.kron(inverse, z.T @ z)
        precision[np.diag_indices(len(precision))] += self.feature_sd**-2
        drawn = draw_normal(precision, (inverse @ x.T @ z).reshape(-1), rng)
        new["feature_coefficients"] = slopes = drawn.reshape(self.n_features, -1)
        if self.feature_covariance is None:
            left = x - z @ slopes.T
            new["feature_covariance"] = self._noisy.draw_covariance(left.T @ left, n, rng)
        return new

    # ------------------------------------------------------------------ records

    def _law(self, theta: Theta, z: Floats) -> tuple[Floats, Floats]:
        """Return the mean of each record, (n, q + 1), and the covariance matrix of all."""
        beta, noise, slopes, sigma = self._read(theta)
        own, other = beta[z.shape[1] :], beta[: z.shape[1]]
        means = z @ slopes.T
        across = sigma @ own
        last = [across[np.newaxis], noise + own @ across]
        covariance = np.block([[sigma, across[:, np.newaxis]], last])
        return np.column_stack([means, z @ other + means @ own]), covariance

    def sample_records(
        self, theta: Theta, n: int, rng: Generator, index: ArrayLike | None = None, **_: Any
    ) -> Floats:
        means, covariance = self._law(theta, self._known(n, index))
        normals = rng.standard_normal(means.shape)
        return np.ascontiguousarray(means + normals @ np.linalg.cholesky(covariance).T)

    def log_likelihood(self, theta: Theta, records: ArrayLike) -> Floats:
        array = read_floats("records", records, self.n_features + 1)
        means, covariance = self._law(theta, self._known(len(array)))
        factor = np.linalg.cholesky(covariance)
        u = np.linalg.solve(factor, (array - means).T)
        constant = 0.5 * array.shape[1] * LOG_2PI + np.log(np.diag(factor)).sum()
        return -0.5 * (u * u).sum(axis=0) - constant

    def check_records(self, records: ArrayLike) -> None:
        if not np.isfinite(read_floats("records", records, self.n_features + 1)).all():
            raise ValueError("records must be finite; got NaN or an infinite number")

    def update_records(
        self, theta: Theta, records: Floats, laws: list[CellLaws | None], rng: Generator
    ) -> Floats:
        """Return new records, each entry drawn given the others and what is seen of it."""
        means, covariance = self._law(theta, self._known(len(records)))
        precision = np.linalg.inv(covariance)
        away = records - means
        for j, law in enumerate(laws):
            variance = 1.0 / precision[j, j]
            others = away @ precision[j] - away[:, j] * precision[j, j]
            mean = means[:, j] - variance * others
            drawn = draw_seen(mean, math.sqrt(variance), means[:, j] + away[:, j], law, rng)
            away[:, j] = drawn - means[:, j]
            records = records.copy()
            records[:, j] = drawn
        return records

    def __repr__(self) -> str:
        known = "" if self.features is None else f", features={list(self.features)}"
        return f"ErrorsInVariables(n_features={self.n_features}{known})"


def draw_normal(precision: Floats, right: Floats, rng: Generator) -> Floats:
    """Draw from the normal distribution with this precision, and precision times mean."""
    factor = np.linalg.cholesky(precision)
    mean = np.linalg.solve(factor.T, np.linalg.solve(factor, right))
    return mean + np.linalg.solve(factor.T, rng.standard_normal(len(right)))


def draw_seen(
    mean: Floats, sd: float, now: Floats, law: CellLaws | None, rng: Generator
) -> NDArray[np.float64]:
    """Draw numbers with a normal distribution, given what is seen of each; see above."""
    drawn = mean + sd * rng.standard_normal(len(mean))
    if law is None:
        return drawn
    family, p = law.family, law.parameters
    variance = sd * sd
    w = np.where(family == GAUSSIAN, p[:, 1] ** 2, 0.0)
    centre = (mean + variance * w * p[:, 0]) / (1.0 + variance * w)
    drawn = np.where(w > 0.0, centre + (drawn - mean) / np.sqrt(1.0 + variance * w), drawn)
    u = rng.random((2, len(mean)))
    sharp = np.flatnonzero(family == LAPLACE)
    if len(sharp):
        s, b, a = p[sharp, 0], p[sharp, 1], mean[sharp]
        below = special.log_ndtr((s - a - b * variance) / sd)
        above = special.log_ndtr((a - b * variance - s) / sd)
        left = np.log(u[0, sharp]) < -np.logaddexp(0.0, above - below - 2.0 * b * (a - s))
        tail = special.ndtri_exp(np.log(u[1, sharp]) + np.where(left, below, above))
        drawn[sharp] = np.where(left, a + b * variance + sd * tail, a - b * variance - sd * tail)
    apart = np.flatnonzero((family >= BETWEEN) & (family < BETWEEN + 2))
    if len(apart):
        rows = p[apart].T
        gain = log_formula(family[apart], *rows, drawn[apart])
        gain -= log_formula(family[apart], *rows, now[apart])
        drawn[apart] = np.where(np.log(u[0, apart]) < gain, drawn[apart], now[apart])
    return np.where(family == EXACT, p[:, 0], drawn)


MODELS.add(ErrorsInVariables)
