"""Linear regression on features released with noise, alongside known ones.

The model
---------
Record i is (x_i, y_i), the true values of q features and the response, q + 1 floats; z_i = (1,
known features of record i).

    x_i | z_i ~ N_q(G z_i, Sigma)                        the unseen features
    y_i | x_i, z_i ~ N((z_i, x_i) beta, sigma^2)         the response

    beta_j ~ N(0, coefficient_sd^2),     G_jl ~ N(0, feature_sd^2),
    sigma^2 ~ InverseGamma(a, b),        Sigma ~ InverseWishart(df, S).

A naive analysis replaces x_i by its noisy value s_i, which attenuates the coefficients. Here x_i is
imputed, from the law of its noise, from y_i and from z_i.

Given the records
-----------------
Let D have the rows (z_i, x_i) and Z the rows z_i. The full conditionals are:

* beta: normal with precision D'D / sigma^2 + I / tau^2, tau = coefficient_sd, and precision times
  mean D'y / sigma^2;
* sigma^2: InverseGamma(a + n/2, b + |y - D beta|^2 / 2);
* G, as a vector of its rows: normal with precision kron(Sigma^-1, Z'Z) + I / feature_sd^2, and
  precision times mean the rows of Sigma^-1 X'Z;
* Sigma: InverseWishart(df + n, S + R'R), R = X - Z G'.

With the records integrated out
-------------------------------
Given theta, (x_i, y_i) is normal with mean (G z_i, (z_i, G z_i) beta) and a common covariance
matrix C, and each entry is seen through its own noise. `maths.seen_normals` integrates the records
out, and draws them given theta. This matters under wide noise, where theta given the records hardly
moves: x_i is nearly free, so its spread, the slope and sigma^2 pin one another down. Integrating
x_i out removes this dependence (`moves.ConditionalMove`).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.maths.coordinates import Coordinates
from noiseaware.maths.densities import LOG_2PI, log_normal_iid
from noiseaware.maths.seen_normals import SeenNormals
from noiseaware.mechanisms.terms import CellLaws
from noiseaware.models import arguments
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, read_floats
from noiseaware.models.normal_vectors import FEATURES, NormalVectors
from noiseaware.models.ready import ReadyModel, labelled
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

LEFT = 1e-10
"""Least sigma^2 as a share of the variance of y: below it their difference has under six digits."""


@dataclass(repr=False, eq=False)
class ErrorsInVariables(ReadyModel):
    """Linear regression on features released with noise, alongside known ones.

        noisy features x_i    ~ N_q(G z_i, feature_covariance),   z_i = (1, known features)
        response y_i          ~ N((z_i, x_i) coefficients, noise_variance)

        coefficients_j        ~ N(0, coefficient_sd^2)
        G_jl                  ~ N(0, feature_sd^2)                G = feature_coefficients
        noise_variance        ~ InverseGamma(noise_variance_shape, noise_variance_scale)
        feature_covariance    ~ InverseWishart(q + 3, 2 I)

    Parameters
    ----------
    n_features : int, default 1
        q, the number of features released with noise.
    features : frame, array (n, p), or mapping from names to columns, optional
        The known features.
    coefficient_sd, feature_sd : float, default 2 and 2
        Prior standard deviations of the coefficients of the response, and of those of the noisy
        features given the known ones; both include the intercept.
    noise_variance : float, optional
        The variance of the response given all features, if known. Default: unknown.
    feature_covariance : array_like, shape (q, q), optional
        The covariance of the noisy features given the known ones, if known. Default: unknown.
    noise_variance_shape, noise_variance_scale : float, default 3 and 4
        The prior mean is scale / (shape - 1).

    Notes
    -----
    Records are float64 of shape ``(n, q + 1)``, the response last. Build the release with
    `mechanisms.Attributes`, using `LocalExact(integer_valued=False)` for a known response.
    Parameters: ``coefficients`` (1 + p + q,), in the order intercept, known features, noisy
    features; ``feature_coefficients`` (q, 1 + p); and, if unknown, ``noise_variance`` () and
    ``feature_covariance`` (q, q).

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
        # The mean given the known features is subtracted.
        noisy = self._noisy = NormalVectors(FEATURES, q, np.zeros(q), self.feature_covariance)
        self.feature_covariance = noisy.covariance
        self.column_names = [*noisy.labels, "y"]
        # Unnamed known columns are called x1, x2, ..., as the noisy features are.
        known = [f"{name} (known)" if name in noisy.labels else name for name in columns]
        names = ["intercept", *known]
        dims, coords = ("feature", "known"), {"feature": noisy.labels, "known": names}
        self.parameters = (
            labelled("coefficients", "real", "coefficient", [*names, *noisy.labels]),
            *self._unknown(Parameter("noise_variance", (), "positive")),
            Parameter("feature_coefficients", (q, len(names)), "real", dims, coords),
            *noisy.parameters,
        )
        self.coordinates = StraightCoordinates(self)

    def _known(self, n: int, index: ArrayLike | None = None) -> Floats:
        """Return z of n records, those in ``index`` or the first n, (n, 1 + p)."""
        columns = list((self.features or {}).values())
        chosen = np.arange(n) if index is None else np.asarray(index)
        rows = [column[chosen % len(column)] for column in columns]
        return np.column_stack([np.ones(n), *rows])

    def read(self, theta: Theta) -> tuple[Floats, float, Floats, Floats]:
        """Return beta, sigma^2, G and Sigma."""
        coefficients = np.asarray(theta["coefficients"], dtype=np.float64)
        slopes = np.asarray(theta["feature_coefficients"], dtype=np.float64)
        noise = self._number(theta, "noise_variance")
        return coefficients, noise, slopes, self.feature_spread(theta)

    def feature_spread(self, theta: Theta) -> Floats:
        """Return Sigma."""
        return self._noisy.read(theta)[1]

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
        beta, _, slopes, _ = self.read(theta)
        total = log_normal_iid(beta, 0.0, self.coefficient_sd)
        total += log_normal_iid(np.ascontiguousarray(slopes).reshape(-1), 0.0, self.feature_sd)
        if self.noise_variance is None:
            total += self._log_density("noise_variance", theta)
        return float(total + self._noisy.log_prior(theta))

    def update_parameters(self, theta: Theta, records: ArrayLike, rng: Generator) -> Theta:
        array = read_floats("records", records, self.n_features + 1)
        n, x, y = len(array), array[:, :-1], array[:, -1]
        z = self._known(n)
        _, noise, _, sigma = self.read(theta)
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
        """Return the mean of each record, (n, q + 1), and the common covariance matrix."""
        beta, noise, slopes, sigma = self.read(theta)
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

    def mirror_parameters(self, theta: Theta, rng: Generator) -> Theta:
        """Return theta with the sign of one noisy feature's coefficient flipped.

        (a, b_j) -> (a + 2 b_j C_j, -b_j), with C_j the coefficients of the feature, keeps the mean
        of y given the known features.
        """
        beta = np.array(theta["coefficients"], dtype=np.float64)
        j = int(rng.integers(self.n_features))
        own = len(beta) - self.n_features + j
        beta[: len(beta) - self.n_features] += 2.0 * beta[own] * theta["feature_coefficients"][j]
        beta[own] *= -1.0
        return {**theta, "coefficients": beta}

    def seen_records(
        self, records: Floats, laws: list[CellLaws | None], rng: Generator
    ) -> SeenNormals:
        """Return the records as seen through noise."""
        z = self._known(len(records))
        return SeenNormals(lambda theta: self._law(theta, z), records, laws, rng)

    def __repr__(self) -> str:
        known = "" if self.features is None else f", features={list(self.features)}"
        return f"ErrorsInVariables(n_features={self.n_features}{known})"


def draw_normal(precision: Floats, right: Floats, rng: Generator) -> Floats:
    """Draw from the normal distribution with this precision, given precision times mean."""
    factor = np.linalg.cholesky(precision)
    mean = np.linalg.solve(factor.T, np.linalg.solve(factor, right))
    return mean + np.linalg.solve(factor.T, rng.standard_normal(len(right)))


class StraightCoordinates:
    """Coordinates that isolate what a release leaves nearly free.

    Under wide noise the release determines where x and y are, how much y varies and how x varies
    with it, but hardly how much x varies: in beta, sigma^2 and Sigma this is a curved ridge. The
    mean of y is z_i' (beta_z + G' b), b the coefficients of x. The first coordinates are these sums
    beta_z + G' b, and G, with Jacobian 1; the others are

    - if sigma^2 and Sigma are both unknown: the covariance matrix of (y, x), by its factor, whose
      last entries are the nearly free ones. With V the variance of y and c its covariances with x,
      b = Sigma^{-1} c and sigma^2 = V - c'b: (b, sigma^2, Sigma) in place of (c, V, Sigma) has the
      Jacobian 1 / |Sigma|;
    - if one or both are known: u = L'b, L L' = Sigma, since V is sigma^2 + u'u, and the unknown
      one. The Jacobian is 1 / |L|.
    """

    def __init__(self, model: ErrorsInVariables) -> None:
        _, *variances, slopes = model.parameters[: 2 + (model.noise_variance is None)]
        variances += model.parameters[2 + len(variances) :]
        k = model.n_features + 1
        rest = [Parameter("own", (k - 1,), "real"), *variances]
        self._joint, self._model = len(variances) == 2, model
        if self._joint:
            rest = [Parameter("joint", (k, k), "covariance")]
        self._inner = Coordinates([Parameter("means", (k, slopes.shape[1]), "real"), *rest])
        self.size = self._inner.size

    def to_vector(self, theta: Theta) -> Floats:
        """Return v with theta(v) = theta."""
        beta, noise, slopes, sigma = self._model.read(theta)
        other, own = np.split(beta, [slopes.shape[1]])
        made = {**theta, "means": np.vstack([other + own @ slopes, slopes])}
        if self._joint:
            across = sigma @ own
            first = np.append(noise + own @ across, across)
            made["joint"] = np.vstack([first, np.column_stack([across, sigma])])
        else:
            made["own"] = np.linalg.cholesky(sigma).T @ own
        return self._inner.to_vector(made)

    def from_vector(self, v: Floats) -> tuple[Theta, float]:
        """Return theta(v) and the log of the Jacobian; -inf if no positive sigma^2 remains."""
        theta, log_jacobian = self._inner.from_vector(v)
        means = theta.pop("means")
        if self._joint:
            joint = theta.pop("joint")
            sigma = theta["feature_covariance"] = joint[1:, 1:].copy()
            own = np.linalg.solve(sigma, joint[1:, 0])
            noise = theta["noise_variance"] = np.array(joint[0, 0] - own @ joint[1:, 0])
            log_jacobian -= float(np.linalg.slogdet(sigma)[1])
            if not noise > LEFT * joint[0, 0]:
                log_jacobian = -math.inf
        else:
            factor = np.linalg.cholesky(self._model.feature_spread(theta))
            own = np.linalg.solve(factor.T, theta.pop("own"))
            log_jacobian -= float(np.log(np.diag(factor)).sum())
        slopes = theta["feature_coefficients"] = means[1:].copy()
        theta["coefficients"] = np.append(means[0] - own @ slopes, own)
        return theta, log_jacobian


MODELS.add(ErrorsInVariables)
