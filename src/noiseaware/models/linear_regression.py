"""Linear regression with random features: sections 5 and S-5 of the paper.

The model
---------
A record is a row of p + 1 floats: p features x_0, then the response y.

    x_0^i ~ N_p(m, Sigma)                       the features
    y_i | x_0^i ~ N((1, x_0^i) beta, sigma^2)   the response; beta_0 is the intercept

The paper takes sigma^2, m and Sigma as known and beta_j ~ N(0, tau^2) independently, tau = 2. Here
each of the three may also be unknown, with independent priors

    beta_j ~ N(0, tau^2)                        tau = coefficient_sd
    sigma^2 ~ InverseGamma(a, b)                density prop. to v^(-a-1) exp(-b/v)
    m_j ~ N(0, s^2)                             s = feature_mean_sd
    Sigma ~ InverseWishart(df, S)

The full conditionals
---------------------
p(theta | x) is proportional to the prior times
prod_i N(y_i; (1, x_0^i) beta, sigma^2) N(x_0^i; m, Sigma). Let x be the n x (p + 1) matrix with
rows (1, x_0^i). Given the other blocks,

* beta has density prop. to exp(-|y - x beta|^2 / (2 sigma^2) - |beta|^2 / (2 tau^2)). Completing
  the square gives N(mu_n, Sigma_n) with Sigma_n^{-1} = x'x/sigma^2 + I/tau^2 and
  mu_n = Sigma_n x'y / sigma^2 (section S-5);
* sigma^2 has density prop. to v^(-n/2 - a - 1) exp(-(b + |y - x beta|^2 / 2) / v), which is
  InverseGamma(a + n/2, b + |y - x beta|^2 / 2);
* m and Sigma: see `normal_vectors.py`.

`LinearRegression.update_parameters` draws each unknown block once, in the order beta, m, sigma^2,
Sigma. Given x, (beta, sigma^2) and (m, Sigma) are independent, so these are two short Gibbs
samplers side by side. If only beta is unknown, the draw is exact.

The construction x = F(u; theta)
--------------------------------
With u standard normal of length p + 1 and Sigma = L L' (L lower triangular, positive diagonal),

    x_0 = m + L u_{1..p},      y = (1, x_0) beta + sigma u_{p+1}.

The inverse is u_{1..p} = L^{-1} (x_0 - m), u_{p+1} = (y - (1, x_0) beta) / sigma.

The loops over records
----------------------
The compiled loops take ``width``, whose *length* is p + 1. For small p it is a tuple: the length is
part of its type, so the compiler unrolls the loops over a record, which makes them three times
faster. For large p it is an array, so that one compilation serves every p.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.basics.linear_algebra import cholesky, copy_vector
from noiseaware.contract import ClosedForm, Floats, Reading, Theta, query_abilities
from noiseaware.maths.cells import GAUSSIAN, CellLaws
from noiseaware.maths.densities import LOG_2PI
from noiseaware.maths.formulas import RegressionFormula, RegressionPrior
from noiseaware.models import estimates
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE
from noiseaware.models.conjugate import draw_from_precision, draw_inverse_wishart, draw_normal_mean
from noiseaware.models.normal_vectors import draw_gammas
from noiseaware.models.ready import Compiled
from noiseaware.models.regression import Regression
from noiseaware.models.summed_linear import SummedLinear
from noiseaware.parameters import Parameter
from noiseaware.registry import MODELS

_UNROLLED = 8
"""Longest record for which the kernels are compiled with a fixed width (some 5 s, once)."""

_NO_VECTOR = np.empty(0)


class Draw(NamedTuple):
    """Where a new theta is written; an empty array marks a known parameter."""

    coefficients: Floats
    noise_variance: Floats
    """One number."""
    mean: Floats
    covariance: Floats


@njit(cache=True, nogil=True)
def _build_records(width, coefficients, noise_variance, mean, covariance, innovations, records):
    """Write x_0 = m + L u_{1..p} and y = (1, x_0) beta + sigma u_{p+1} into ``records``.

    A record is an affine function c + A u of its innovations, with A lower triangular: rows 1..p of
    (c, A) are (m, L), and the last row is (beta_0 + beta' m, (beta' L, sigma)). NaN if the
    covariance is not positive definite.
    """
    w = len(width)
    p = w - 1
    matrix = np.empty((w, w))
    offset = np.empty(w)
    if not (cholesky(covariance, p, matrix) and noise_variance >= 0.0):
        records[:] = math.nan
        return
    offset[p] = coefficients[0]
    for j in range(p):
        offset[j] = mean[j]
        offset[p] += coefficients[1 + j] * mean[j]
    for k in range(p):
        total = 0.0
        for j in range(k, p):
            total += coefficients[1 + j] * matrix[j, k]
        matrix[p, k] = total
    matrix[p, p] = math.sqrt(noise_variance)
    for i in range(innovations.shape[0]):
        for j in range(w):
            total = offset[j]
            for k in range(j + 1):
                total += matrix[j, k] * innovations[i, k]
            records[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _divisors(width, noise_variance, factor):
    w = len(width)
    inverse = np.empty(w)
    for j in range(w - 1):
        inverse[j] = 1.0 / factor[j, j]
    inverse[w - 1] = 1.0 / math.sqrt(noise_variance)
    return inverse


@njit(cache=True, nogil=True)
def _whiten(width, coefficients, mean, factor, inverse, records, i, out):
    """Write u = (L^{-1} (x_0 - m), (y - (1, x_0) beta) / sigma) of record i; return |u|^2.

    u goes into row i of ``out``, or into its only row.
    """
    at, p = min(i, out.shape[0] - 1), len(width) - 1
    squares = 0.0
    for j in range(p):
        total = records[i, j] - mean[j]
        for k in range(j):
            total -= factor[j, k] * out[at, k]
        total *= inverse[j]
        out[at, j] = total
        squares += total * total
    total = records[i, p] - coefficients[0]
    for j in range(p):
        total -= coefficients[1 + j] * records[i, j]
    total *= inverse[p]
    out[at, p] = total
    return squares + total * total


@njit(cache=True, nogil=True)
def _recover_innovations(
    width, coefficients, noise_variance, mean, covariance, records, innovations
):
    """Write u into ``innovations``; NaN if the covariance is not positive definite."""
    w = len(width)
    factor = np.empty((w, w))
    if not cholesky(covariance, w - 1, factor):
        innovations[:] = math.nan
        return
    inverse = _divisors(width, noise_variance, factor)
    for i in range(records.shape[0]):
        _whiten(width, coefficients, mean, factor, inverse, records, i, innovations)


@njit(cache=True, nogil=True)
def _log_likelihood(width, coefficients, noise_variance, mean, covariance, records, out):
    """Write log f(x_i | theta) = log N(x_0; m, Sigma) + log N(y; (1, x_0) beta, sigma^2)."""
    w = len(width)
    factor = np.empty((w, w))
    if not (cholesky(covariance, w - 1, factor) and noise_variance > 0.0):
        out[:] = -math.inf
        return
    constant = -0.5 * (w * LOG_2PI + math.log(noise_variance))
    for j in range(w - 1):
        constant -= math.log(factor[j, j])
    inverse = _divisors(width, noise_variance, factor)
    row = np.empty((1, w))
    for i in range(records.shape[0]):
        squares = _whiten(width, coefficients, mean, factor, inverse, records, i, row)
        out[i] = constant - 0.5 * squares


@njit(cache=True, nogil=True)
def _moments(width, records, gram, cross):
    """Write x'x into the lower triangle of ``gram`` and x'y into ``cross``, x = (1, x_0)."""
    w = len(width)
    p = w - 1
    cross[:] = 0.0
    gram[:] = 0.0
    for i in range(records.shape[0]):
        y = records[i, p]
        cross[0] += y
        for a in range(p):
            x = records[i, a]
            gram[1 + a, 0] += x
            cross[1 + a] += x * y
            for b in range(a + 1):
                gram[1 + a, 1 + b] += x * records[i, b]
    gram[0, 0] = records.shape[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_coefficients(gram, cross, noise_variance, prior_precision, normals, out):
    """Draw beta | sigma^2, x, y from N(mu_n, Sigma_n) into ``out``; the inputs stay unchanged.

    Sigma_n^{-1} = x'x / sigma^2 + I / tau^2 and Sigma_n^{-1} mu_n = x'y / sigma^2 (section S-5 of
    the paper); ``prior_precision`` is 1 / tau^2.
    """
    w = cross.shape[0]
    precision = np.empty((w, w))
    inverse = 1.0 / noise_variance
    for a in range(w):
        out[a] = cross[a] * inverse
        for b in range(a + 1):
            precision[a, b] = gram[a, b] * inverse
        precision[a, a] += prior_precision
    if not draw_from_precision(precision, w, out, normals):
        out[:] = math.nan


@njit(cache=True, nogil=True)
def _update_coefficients(width, records, noise_variance, prior_precision, normals, coefficients):
    """Draw beta | sigma^2, x, y into ``coefficients``, in one pass over the records."""
    w = len(width)
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(width, records, gram, cross)
    _draw_coefficients(gram, cross, noise_variance, prior_precision, normals, coefficients)


@njit(cache=True, nogil=True)
def _spread(width, records, coefficients, mean, scatter):
    """Write sum (x_0 - m)(x_0 - m)' into ``scatter`` (lower triangle); return |y - x beta|^2.

    Computing these from x'x and x'y instead would save this second pass, but lose every digit when
    the residuals are small relative to the records.
    """
    w = len(width)
    p = w - 1
    squares = 0.0
    scatter[:] = 0.0
    row = np.empty(w)
    for i in range(records.shape[0]):
        residual = records[i, p] - coefficients[0]
        for a in range(p):
            row[a] = records[i, a] - mean[a]
            residual -= coefficients[1 + a] * records[i, a]
        squares += residual * residual
        for a in range(p):
            for b in range(a + 1):
                scatter[a, b] += row[a] * row[b]
    return squares


@njit(cache=True, nogil=True)
def _gibbs_scan(
    width,
    records,
    noise_variance,
    mean,
    covariance,
    coefficient_precision,
    noise_scale,
    features,
    normals,
    gammas,
    out,
):
    """One Gibbs scan of p(theta | x): beta, m, sigma^2, Sigma, in two passes over the records.

    ``features`` holds the `Priors` of m and Sigma; ``out`` is a `Draw`. ``normals`` holds p + 1
    numbers for beta, then p for an unknown m, then p (p - 1)/2 for an unknown Sigma. ``gammas``
    holds one of shape a + n/2 for an unknown sigma^2, then p of shapes (df + n - j)/2 for an
    unknown Sigma.
    """
    w = len(width)
    p = w - 1
    gram = np.empty((w, w))
    cross = np.empty(w)
    _moments(width, records, gram, cross)
    _draw_coefficients(
        gram, cross, noise_variance, coefficient_precision, normals, out.coefficients
    )
    used = w
    centre = np.empty(p)
    copy_vector(mean, centre)
    if out.mean.shape[0] > 0:
        sums = gram[1:w, 0].copy()
        precisions, centres = features.precisions, features.centres
        draw_normal_mean(gram[0, 0], sums, covariance, precisions, centres, normals, used, out.mean)
        used += p
        copy_vector(out.mean, centre)
    if out.noise_variance.shape[0] == 0 and out.covariance.shape[0] == 0:
        return
    scatter = np.empty((p, p))
    squares = _spread(width, records, out.coefficients, centre, scatter)
    taken = 0
    if out.noise_variance.shape[0] > 0:
        out.noise_variance[0] = (noise_scale + 0.5 * squares) / gammas[0]
        taken = 1
    if out.covariance.shape[0] > 0:
        for a in range(p):
            for b in range(a + 1):
                scatter[a, b] += features.scale[a, b]
        if not draw_inverse_wishart(scatter, gammas[taken:], normals, used, out.covariance):
            out.covariance[:] = math.nan


@dataclass(repr=False, eq=False)
class LinearRegression(Regression):
    """Linear regression on normal features, with nuisance parameters known or unknown.

        features x ~ N_p(feature_mean, feature_covariance)
        response y ~ N((1, x) coefficients, noise_variance)

        coefficients_j     ~ N(0, coefficient_sd^2)     the intercept first
        noise_variance     ~ InverseGamma(noise_variance_shape, noise_variance_scale)
        feature_mean_j     ~ N(0, feature_mean_sd^2)
        feature_covariance ~ InverseWishart(feature_covariance_df, feature_covariance_scale)

    All priors are independent. The defaults suit features and responses that are centred near 0
    with a spread of about one unit.

    Parameters
    ----------
    n_features : int
        p, not counting the intercept; may be omitted if `features` is given.
    coefficient_sd : float, default 2
        Prior standard deviation of each coefficient, including the intercept.
    noise_variance : float, optional
        The noise variance, if known. Default: unknown.
    feature_mean : array_like, shape (p,), optional
        The mean of the features, if known. Default: unknown.
    feature_covariance : array_like, shape (p, p), optional
        The covariance of the features, if known. Default: unknown.
    noise_variance_shape, noise_variance_scale : float, default 3 and 4
        The prior mean is scale / (shape - 1).
    feature_mean_sd : float, default 2
        Prior standard deviation of the mean of each feature.
    feature_covariance_df : float, default p + 3
        Degrees of freedom; must exceed p - 1.
    feature_covariance_scale : array_like, shape (p, p), default 2 I
        The prior mean is scale / (df - p - 1).
    features : frame, array (n, p), or mapping from names to columns, optional
        The features of each record, if known. A record is then its response alone.

    Notes
    -----
    Records are float64 of shape ``(n, p + 1)``, the response last, or ``(n,)`` with `features`.
    Parameters: ``coefficients`` (p + 1,) and, if unknown, ``noise_variance`` (), ``feature_mean``
    (p,) and ``feature_covariance`` (p, p). For R squared, pass
    ``derived={"r_squared": model.r_squared}``.

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import LinearRegression
    >>> model = LinearRegression(1, noise_variance=2.0, feature_mean=[0.9])
    >>> [parameter.name for parameter in model.parameters]
    ['coefficients', 'feature_covariance']
    >>> rng = np.random.default_rng(1)
    >>> model.sample_records(model.sample_prior(rng), 5, rng).shape
    (5, 2)
    """

    n_features: int = cast(int, None)
    coefficient_sd: float = field(default=2.0, metadata=POSITIVE)
    noise_variance: float | None = field(default=None, metadata=POSITIVE)
    feature_mean: ArrayLike | None = None
    feature_covariance: ArrayLike | None = None
    _: KW_ONLY
    noise_variance_shape: float = field(default=3.0, metadata=PRIOR_SHAPE)
    noise_variance_scale: float = field(default=4.0, metadata=POSITIVE)
    feature_mean_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_covariance_df: float | None = None
    feature_covariance_scale: ArrayLike | None = None
    features: Any = None

    _priors: ClassVar = {"noise_variance": "inverse gamma"}
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def __post_init__(self) -> None:
        super().__post_init__()
        noise = self._unknown(Parameter("noise_variance", (), "positive"))
        self.parameters = (self.parameters[0], *noise, *self.parameters[1:])
        self._gamma_shapes = [self.noise_variance_shape] * len(noise) + self._features.gamma_shapes
        w = self.n_features + 1
        self._length = (0,) * w if w <= _UNROLLED else np.zeros(w)
        self._n_normals = w + self._features.n_mean + self._features.n_below

    def _read(self, theta: Theta) -> tuple[Any, Floats, float, Floats, Floats]:
        """Return the width, beta, sigma^2, m and Sigma."""
        noise_variance = self._number(theta, "noise_variance")
        return self._length, self._coefficients(theta), noise_variance, *self._features.read(theta)

    def _respond(self, eta: Floats, theta: Theta, rng: Generator) -> tuple[Floats, Floats]:
        deviation = np.sqrt(self._number(theta, "noise_variance"))
        return eta, eta + deviation * rng.standard_normal(len(eta))

    def r_squared(self, theta: Theta) -> float:
        """Return R squared at one theta: the share of the response's variance explained.

        It is b' C b / (b' C b + sigma^2), with b the slopes and C = Sigma; with `features`, C is
        the (population) covariance of the n known rows. Use it as
        ``derived={"r_squared": model.r_squared}``.
        """
        slopes = self._coefficients(theta)[1:]
        if self._known is None:
            explained = float(slopes @ self._features.read(theta)[1] @ slopes)
        else:
            explained = float(np.var(self._known @ slopes))
        return explained / (explained + self._number(theta, "noise_variance"))

    def summed_kernel(self, laws: CellLaws, n: int) -> SummedLinear | None:
        """Return a kernel for p(theta | s_dp), responses under Gaussian noise integrated out."""
        if self.features is None or (laws.family != GAUSSIAN).any():
            return None
        design = np.column_stack([np.ones(n), self._known_of(n)])
        prior = self._prior_arguments["noise_variance"]
        return SummedLinear(design, laws, self._prior_precision, self.noise_variance, prior)

    def closed_form(self, reading: Reading, n: int) -> ClosedForm | None:
        """Return the estimates given exact moments, which are sufficient for theta."""
        p = self.n_features
        known = self.features is not None
        if known or reading.kind != "moments" or len(reading.values[0]) != p + 1:
            return None
        mean, scatter = reading.values
        least = estimates.least_variance(reading)
        slopes = np.linalg.pinv(scatter[:p, :p], hermitian=True) @ scatter[:p, p]
        theta = {"coefficients": np.concatenate([[mean[p] - mean[:p] @ slopes], slopes])}
        if self.noise_variance is None:
            residual = scatter[p, p] - slopes @ scatter[:p, p]
            theta["noise_variance"] = np.array(max(residual / n, least))
        if self.feature_mean is None:
            theta["feature_mean"] = mean[:p].copy()
        if self.feature_covariance is None:
            theta["feature_covariance"] = scatter[:p, :p] / n + least * np.eye(p)
        return ClosedForm(theta)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        normals = rng.standard_normal(self._n_normals)
        coefficients = np.empty(self.n_features + 1)
        new: Theta = {"coefficients": coefficients}
        if len(self.parameters) == 1:
            known, precision = self.noise_variance, self._prior_precision
            _update_coefficients(self._length, records, known, precision, normals, coefficients)
            return new
        gammas = draw_gammas(self._gamma_shapes, len(records), rng)
        noise_variance = _NO_VECTOR
        if self.noise_variance is None:
            noise_variance = np.empty(1)
            new["noise_variance"] = noise_variance.reshape(())
        features, mean, covariance = self._features.room()
        _gibbs_scan(
            self._length,
            records,
            *self._read(theta)[2:],
            self._prior_precision,
            self.noise_variance_scale,
            self._features.priors,
            normals,
            gammas,
            Draw(coefficients, noise_variance, mean, covariance),
        )
        return new | features

    def formula(self, query: Any, n: int) -> RegressionFormula | None:
        """Return a formula for the total of regression moments given u; see `maths.formulas`."""
        p = self.n_features
        clamps = query_abilities(query).regression_clamps
        if self.features is not None or clamps is None or len(clamps[0]) != p + 1:
            return None
        features = self._features
        known = np.eye(p) if features.covariance is None else features.covariance
        return RegressionFormula(
            RegressionPrior(
                self.coefficient_sd,
                self.noise_variance_shape,
                self.noise_variance_scale,
                self.feature_mean_sd,
                features.df,
                np.array(features.scale_factor),
            ),
            np.array([1.0 if self.noise_variance is None else self.noise_variance]),
            np.zeros(p) if features.mean is None else features.mean.copy(),
            np.array(known),
            unknown_noise=self.noise_variance is None,
            unknown_mean=self.feature_mean is None,
            unknown_covariance=self.feature_covariance is None,
            centre=np.array(clamps[0]),
            scale=np.array(clamps[1]),
            n=n,
        )


MODELS.add(LinearRegression)
