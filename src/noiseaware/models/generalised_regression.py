"""Logistic and Poisson regression: features, coefficients and a discrete response.

    x_0^i ~ N_p(m, Sigma)                       the features, as in `regression.py`
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    y_i | x_0^i ~ Bernoulli(1 / (1 + exp(-eta_i)))      in `LogisticRegression`
    y_i | x_0^i ~ Poisson(min(exp(eta_i), R))           in `PoissonRegression`
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

R = largest_rate is part of the model. It exists because a wild draw from the prior can give a rate
too large to count up to. Set above every plausible rate, it has no other effect.

The construction x = F(u; theta)
--------------------------------
u is p + 2 standard normals. With Sigma = L L', x_0 = m + L u_{1..p}. The last two give
E = (u_{p+1}^2 + u_{p+2}^2) / 2, a standard exponential independent of their angle, and the response
inverts its survival function at exp(-E):

    y >= k   if and only if   E >= c_k,      c_k = -log P(y >= k | eta),  0 = c_0 < c_1 < ...

Given y = k, E is an exponential variable between c_k and c_{k+1}, drawn by inverting its CDF, and
the angle is uniform. In E both tails are exact: a probability near 0 is a large E and one near 1 a
small E, so each value of the response has numbers of its own, however unlikely.

* Logistic: c_1 = -log P(y = 1) = log(1 + exp(-eta)), and c_2 is infinite.
* Poisson: P(y < k) is summed from 0. Where it is too close to 1 to resolve the tail,
  P(y >= k) = P(y = k) (1 + l/(k+1) + l^2/((k+1)(k+2)) + ...) is used, l the rate.

In floating point E can round to the wrong side of an edge; it is then moved to the middle of its
interval, which changes a probability by about 1e-16.

The kernel
----------
Given x, beta and (m, Sigma) are independent: one Metropolis-Hastings step on beta, and one Gibbs
scan of m and Sigma with the conditionals of `normal_vectors.py`.

p(beta | x) is proportional to exp(sum_i l_i(eta_i) - |beta|^2 / (2 tau^2)), l_i the log probability
of y_i. `_update_coefficients` proposes from a Student t distribution around its mode, scaled by the
inverse of its Fisher information, and accepts by Metropolis-Hastings. Newton's method finds the
mode *from a start that depends on the records only*, never on the current beta. So given x the
proposal q is one fixed distribution, and with the ratio

    p(beta' | x) q(beta) / (p(beta | x) q(beta'))

the kernel leaves p(beta | x) invariant, even if Newton's method stops early. (Newton steps from the
current beta would make q depend on it, and this ratio wrong.) As the prior is normal and the log
likelihood bounded above, p / q is bounded and the chain cannot get stuck anywhere.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import expit

from noiseaware.basics.linear_algebra import cholesky, copy_vector, solve_lower, solve_upper
from noiseaware.contract import Floats, Theta
from noiseaware.maths.densities import softplus
from noiseaware.models import normal_vectors
from noiseaware.models.arguments import POSITIVE, positive_number, refuse_records
from noiseaware.models.ready import Compiled
from noiseaware.models.regression import Regression
from noiseaware.parameters import Work
from noiseaware.registry import MODELS

LOGISTIC, POISSON = 0, 1

STEEPEST = 700.0
"""|eta| is clamped here: exp(-700) is about the smallest number with all its digits."""

DEEP = 18.0
"""From this E on, the Poisson tail is computed directly and not as 1 minus a sum."""

DEEP_SUM = -math.expm1(-DEEP)
"""P(y < k) at an edge c_k = DEEP."""

LARGEST_PRODUCT = 1e300
"""Factors of at most 2 are multiplied up to this value before a logarithm is taken."""

FIRST = 8
"""Number of edges that are always compared, wherever E is. A loop that ends at E defeats branch
prediction and takes half as long again at rates of a few."""

DOF = 6.0
"""Degrees of freedom of the proposal: enough to fit a normal, heavy enough for any tail here."""

MOST_NEWTON_STEPS = 25

CLOSE = 0.04
"""Newton's method takes its last step once the squared distance to the mode is below this many
squared standard deviations. The remaining error is about this number over the square root of n."""


@njit(cache=True, nogil=True)
def linear_predictor(coefficients, records, i, top):
    """Return eta of record i, clamped to -700 and ``top``."""
    eta = coefficients[0]
    for j in range(coefficients.shape[0] - 1):
        eta += coefficients[1 + j] * records[i, j]
    return min(max(eta, -STEEPEST), top)


@njit(cache=True, nogil=True)
def log_poisson_tail(rate, k):
    """Return log P(y >= k) for k above the rate, by summing the series of ratios to P(y = k)."""
    term = 1.0
    total = 1.0
    j = k + 1.0
    while term > 1e-17 * total:
        term *= rate / j
        total += term
        j += 1.0
    return k * math.log(rate) - rate - math.lgamma(k + 1.0) + math.log(total)


@njit(cache=True, nogil=True)
def poisson_count(rate, energy):
    """Return the largest k with c_k <= E."""
    if energy >= DEEP:
        k = math.floor(rate) + 1.0
        while -energy <= log_poisson_tail(rate, k):
            k += 1.0
        return k - 1.0
    below = -math.expm1(-energy)
    mass = math.exp(-rate)
    total = mass
    k = 0.0
    for j in range(1, FIRST + 1):
        k += total <= below
        mass *= rate / j
        total += mass
    if k < FIRST:
        return k
    while total <= below:
        k += 1.0
        mass *= rate / k
        total += mass
        if mass < 1e-30 and k > rate:  # the sum has come to its end
            break
    return k


@njit(cache=True, nogil=True)
def poisson_edges(rate, k):
    """Return c_k and c_{k+1}."""
    mass = math.exp(-rate)
    before = 0.0
    total = mass
    j = 0.0
    while j < k and total < DEEP_SUM:
        j += 1.0
        mass *= rate / j
        before = total
        total += mass
    if j < k:  # the sum is in the tail before it is at k
        low = max(DEEP, -log_poisson_tail(rate, k))
        return low, max(low, -log_poisson_tail(rate, k + 1.0))
    low = -math.log1p(-before)
    if total < DEEP_SUM:
        return low, -math.log1p(-total)
    return low, max(DEEP, -log_poisson_tail(rate, k + 1.0))


@njit(cache=True, nogil=True)
def response(kind, eta, energy):
    """Return the response y at E."""
    if kind == LOGISTIC:
        return 1.0 if energy >= softplus(-eta) else 0.0
    return poisson_count(math.exp(eta), energy)


@njit(cache=True, nogil=True, error_model="numpy")
def _build_records(kind, top, coefficients, mean, covariance, innovations, records):
    """Write x_0 = m + L u_{1..p} and y at E = (u_{p+1}^2 + u_{p+2}^2) / 2; NaN if there is no L."""
    p = mean.shape[0]
    if not normal_vectors.build_vectors(mean, covariance, innovations, records):
        return
    for i in range(innovations.shape[0]):
        a = innovations[i, p]
        b = innovations[i, p + 1]
        eta = linear_predictor(coefficients, records, i, top)
        records[i, p] = response(kind, eta, 0.5 * (a * a + b * b))


@njit(cache=True, nogil=True, error_model="numpy")
def _recover_innovations(kind, top, coefficients, mean, covariance, records, innovations):
    """Draw u given the records: L^{-1} (x_0 - m), and E between its edges with a uniform angle.

    The last two columns of ``innovations`` hold uniforms for E and the angle; NaN if there is no L.
    """
    p = mean.shape[0]
    if not normal_vectors.recover_vectors(mean, covariance, records, innovations):
        return
    for i in range(records.shape[0]):
        eta = linear_predictor(coefficients, records, i, top)
        y = records[i, p]
        if kind == LOGISTIC:
            low = softplus(-eta) if y > 0.5 else 0.0
            high = math.inf if y > 0.5 else softplus(-eta)
        else:
            low, high = poisson_edges(math.exp(eta), y)
        angle = 2.0 * math.pi * innovations[i, p + 1]
        v = innovations[i, p]
        for _ in range(2):
            energy = low - math.log1p(v * math.expm1(low - high))
            radius = math.sqrt(2.0 * energy)
            a = radius * math.cos(angle)
            b = radius * math.sin(angle)
            if response(kind, eta, 0.5 * (a * a + b * b)) == y:
                break
            v = 0.5
        innovations[i, p] = a
        innovations[i, p + 1] = b


@njit(cache=True, nogil=True)
def log_response(kind, top, eta, y):
    """Return the log probability of y, up to -log y! for Poisson, and its derivatives in eta.

    The log probability is the first number minus the log of the second, so that a product of many
    of the latter needs one logarithm. The second derivative has its sign changed: it is the Fisher
    information. Where eta is clamped, the derivatives are 0.
    """
    if kind == LOGISTIC:
        smaller = math.exp(-abs(eta))  # of the odds and their inverse
        soft, factor = max(eta, 0.0), 1.0 + smaller
        value = y * eta - soft
        probability = (1.0 if eta > 0.0 else smaller) / factor
        first, second = y - probability, smaller / (factor * factor)
    else:
        rate = math.exp(eta)
        value, factor = y * eta - rate, 1.0
        first, second = y - rate, rate
    if eta <= -STEEPEST or eta >= top:
        return value, factor, 0.0, 0.0
    return value, factor, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def _log_likelihood(kind, top, coefficients, mean, covariance, records, out):
    """Write log f(x_i | theta) = log N(x_0; m, Sigma) + log P(y | eta)."""
    if not normal_vectors.log_density_of_vectors(mean, covariance, records, out):
        return
    for i in range(records.shape[0]):
        y = records[i, mean.shape[0]]
        eta = linear_predictor(coefficients, records, i, top)
        value, factor, _, _ = log_response(kind, top, eta, y)
        out[i] += value - math.log(factor)
        if kind == POISSON:
            out[i] -= math.lgamma(y + 1.0)


@njit(cache=True, nogil=True)
def log_posterior(kind, top, coefficients, records, prior_precision):
    """Return log p(beta | x) up to a constant."""
    w = coefficients.shape[0]
    value = 0.0
    for a in range(w):
        value -= 0.5 * prior_precision * coefficients[a] * coefficients[a]
    product = 1.0
    for i in range(records.shape[0]):
        eta = linear_predictor(coefficients, records, i, top)
        one, factor, _, _ = log_response(kind, top, eta, records[i, w - 1])
        value += one
        product *= factor
        if product > LARGEST_PRODUCT:
            value -= math.log(product)
            product = 1.0
    return value - math.log(product)


@njit(cache=True, nogil=True)
def differentiate(kind, top, coefficients, records, prior_precision, gradient, information):
    """Fill in gradient and information (lower triangle) of log p(beta | x); return its value."""
    w = coefficients.shape[0]
    value = 0.0
    information[:] = 0.0
    for a in range(w):
        value -= 0.5 * prior_precision * coefficients[a] * coefficients[a]
        gradient[a] = -prior_precision * coefficients[a]
        information[a, a] = prior_precision
    product = 1.0
    for i in range(records.shape[0]):
        eta = linear_predictor(coefficients, records, i, top)
        one, factor, first, second = log_response(kind, top, eta, records[i, w - 1])
        value += one
        product *= factor
        if product > LARGEST_PRODUCT:
            value -= math.log(product)
            product = 1.0
        gradient[0] += first
        information[0, 0] += second
        for a in range(1, w):
            x = records[i, a - 1]
            gradient[a] += first * x
            information[a, 0] += second * x
            for b in range(1, a + 1):
                information[a, b] += second * x * records[i, b - 1]
    return value - math.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def find_mode(kind, top, records, prior_precision, mode, information):
    """Write the mode of p(beta | x) into ``mode`` and the information there into ``information``.

    Newton's method with step halving, from an intercept that fits the mean response: a function of
    the records only. The last step is taken in full, and the information is that before it.
    """
    w = mode.shape[0]
    mode[:] = 0.0
    responses = 0.0
    for i in range(records.shape[0]):
        responses += records[i, w - 1]
    share = (0.5 + responses) / (records.shape[0] + 1.0)
    mode[0] = math.log(share / (1.0 - share)) if kind == LOGISTIC else math.log(share)
    gradient, factor = np.empty(w), np.empty((w, w))
    direction, trial = np.empty(w), np.empty(w)
    value = differentiate(kind, top, mode, records, prior_precision, gradient, information)
    for _ in range(MOST_NEWTON_STEPS):
        if not cholesky(information, w, factor):
            return
        copy_vector(gradient, direction)
        solve_lower(factor, w, direction)
        slope = 0.0
        for a in range(w):
            slope += direction[a] * direction[a]
        solve_upper(factor, w, direction)
        if slope < CLOSE:
            for a in range(w):
                mode[a] += direction[a]
            return
        size = 1.0
        while size > 1e-4:
            for a in range(w):
                trial[a] = mode[a] + size * direction[a]
            there = differentiate(kind, top, trial, records, prior_precision, gradient, information)
            if there > value:
                break
            size *= 0.5
        if size <= 1e-4:
            return
        copy_vector(trial, mode)
        value = there


@njit(cache=True, nogil=True, error_model="numpy")
def log_proposal(coefficients, mode, factor):
    """Return the log of the Student t density at beta, up to a constant.

    ``factor`` is K, where K K' is the information at the mode.
    """
    w = mode.shape[0]
    squares = 0.0
    for b in range(w):
        total = 0.0
        for a in range(b, w):
            total += factor[a, b] * (coefficients[a] - mode[a])
        squares += total * total
    return -0.5 * (DOF + w) * math.log1p(squares / DOF)


@njit(cache=True, nogil=True, error_model="numpy")
def _update_coefficients(
    kind, top, coefficients, records, prior_precision, normals, half_chi_square, log_uniform, out
):
    """Make one Metropolis-Hastings step on p(beta | x); return whether it was accepted.

    ``half_chi_square`` is a gamma variable of shape DOF / 2, ``log_uniform`` the log of a uniform.
    """
    w = coefficients.shape[0]
    mode = np.empty(w)
    factor = np.empty((w, w))
    find_mode(kind, top, records, prior_precision, mode, factor)
    copy_vector(coefficients, out)
    if not cholesky(factor, w, factor):
        return False
    proposed = np.empty(w)
    copy_vector(normals, proposed)
    solve_upper(factor, w, proposed)
    radius = math.sqrt(0.5 * DOF / half_chi_square)
    for a in range(w):
        proposed[a] = mode[a] + radius * proposed[a]
    log_ratio = (
        log_posterior(kind, top, proposed, records, prior_precision)
        - log_posterior(kind, top, coefficients, records, prior_precision)
        + log_proposal(coefficients, mode, factor)
        - log_proposal(proposed, mode, factor)
    )
    if log_uniform < log_ratio:
        copy_vector(proposed, out)
        return True
    return False


# ------------------------------------------------------------------ the models

LARGEST_RATE = 600
"""P(y = 0) = exp(-600) is about the smallest probability with all its digits."""


def _possible_rate(name: str, value: Any) -> float:
    rate = positive_number(name, value)
    if rate > LARGEST_RATE:
        raise ValueError(f"{name} must be at most {LARGEST_RATE}; got {value!r}")
    return rate


_RIGHT = "the response (the last entry of a record) must be"


@dataclass(repr=False, eq=False)
class GeneralisedRegression(Regression):
    """Everything except the distribution of the response."""

    n_features: int = cast(int, None)
    coefficient_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_mean: ArrayLike | None = None
    feature_covariance: ArrayLike | None = None
    _: KW_ONLY
    feature_mean_sd: float = field(default=2.0, metadata=POSITIVE)
    feature_covariance_df: float | None = None
    feature_covariance_scale: ArrayLike | None = None
    features: Any = None

    _response = (LOGISTIC, STEEPEST)
    """The kind of response and the upper clamp of eta."""

    _response_normals = uniforms = 2
    _response_type = np.int64
    compiled = Compiled(_build_records, _recover_innovations, _log_likelihood)

    def _read(self, theta: Theta) -> tuple[int, float, Floats, Floats, Floats]:
        """Return the kind of response, the upper clamp, beta, m and Sigma."""
        return *self._response, self._coefficients(theta), *self._features.read(theta)

    def _respond(self, eta: Floats, theta: Theta, rng: Generator) -> tuple[Floats, Floats]:
        kind, top = self._response
        eta = np.clip(eta, -STEEPEST, top)  # as `linear_predictor` does
        if kind == LOGISTIC:
            expected = expit(eta)
            return expected, (rng.random(len(eta)) < expected).astype(np.float64)
        expected = np.exp(eta)
        return expected, rng.poisson(expected).astype(np.float64)

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        width = self.n_features + 1
        new: Theta = {"coefficients": np.empty(width)}
        _update_coefficients(
            *self._response,
            self._coefficients(theta),
            records,
            self._prior_precision,
            rng.standard_normal(width),
            rng.standard_gamma(0.5 * DOF),
            -rng.standard_exponential(),
            new["coefficients"],
        )
        features = self._features
        gammas = normal_vectors.draw_gammas(features.gamma_shapes, len(records), rng)
        normals = rng.standard_normal(features.n_mean + features.n_below)
        return new | features.update(theta, records, normals, gammas)


@dataclass(repr=False, eq=False)
class LogisticRegression(GeneralisedRegression):
    """Logistic regression on normal features with known or unknown mean and covariance.

        features x         ~ N_p(feature_mean, feature_covariance)
        P(y = 1 | x)       = 1 / (1 + exp(-(1, x) coefficients))
        coefficients_j     ~ N(0, coefficient_sd^2)              the intercept first
        feature_mean_j     ~ N(0, feature_mean_sd^2)
        feature_covariance ~ InverseWishart(feature_covariance_df, feature_covariance_scale)

    The defaults suit features that are centred near 0 with a spread of about one unit.

    Parameters
    ----------
    n_features : int
        p, not counting the intercept; may be omitted if `features` is given.
    coefficient_sd : float, default 2
        Prior standard deviation of each coefficient, including the intercept, in log odds.
    feature_mean, feature_covariance, feature_mean_sd
        As for `LinearRegression`, with the same defaults.
    feature_covariance_df, feature_covariance_scale, features
        As for `LinearRegression`, with the same defaults.

    Notes
    -----
    Records are float64 of shape ``(n, p + 1)``, the response (0 or 1) last, or int64 ``(n,)`` with
    `features`. Parameters: ``coefficients`` (p + 1,) and, if unknown, ``feature_mean`` (p,) and
    ``feature_covariance`` (p, p).

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

    _work: ClassVar[Work] = Work(update=13.0, draw=8.0, build=3.5, recover=18.0)

    def _check(self, records: Floats) -> None:
        y = records[:, -1]
        refuse_records((y != 0) & (y != 1), f"{_RIGHT} 0 or 1", y)


@dataclass(repr=False, eq=False)
class PoissonRegression(GeneralisedRegression):
    """Poisson regression on normal features with known or unknown mean and covariance.

        features x         ~ N_p(feature_mean, feature_covariance)
        response y         ~ Poisson(exp((1, x) coefficients)), the rate at most largest_rate
        coefficients_j     ~ N(0, coefficient_sd^2)              the intercept first
        feature_mean_j     ~ N(0, feature_mean_sd^2)
        feature_covariance ~ InverseWishart(feature_covariance_df, feature_covariance_scale)

    The defaults suit features that are centred near 0 with a spread of about one unit.

    Parameters
    ----------
    n_features : int
        p, not counting the intercept; may be omitted if `features` is given.
    coefficient_sd : float, default 1
        Prior standard deviation of each coefficient, including the intercept, in log rate.
    feature_mean, feature_covariance, feature_mean_sd
        As for `LinearRegression`, with the same defaults.
    largest_rate : float, default 500
        Larger rates are clamped to this value, which may be at most 600.
    feature_covariance_df, feature_covariance_scale, features
        As for `LinearRegression`, with the same defaults.

    Notes
    -----
    Records are float64 of shape ``(n, p + 1)``, the response (a count) last, or int64 ``(n,)`` with
    `features`. Parameters: ``coefficients`` (p + 1,) and, if unknown, ``feature_mean`` (p,) and
    ``feature_covariance`` (p, p).

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import PoissonRegression
    >>> model = PoissonRegression(1, feature_mean=[0.0], feature_covariance=[[1.0]])
    >>> model.build_records({"coefficients": [0.5, 1.0]}, np.array([[0.3, 0.2, 1.5]]))
    array([[0.3, 3. ]])
    """

    coefficient_sd: float = field(default=1.0, metadata=POSITIVE)
    _: KW_ONLY
    largest_rate: float = field(default=500.0, metadata={"check": _possible_rate})

    _work: ClassVar[Work] = Work(calls=2.0, update=10.0, draw=10.0, build=5.0, recover=31.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._response = (POISSON, math.log(self.largest_rate))

    def _check(self, records: Floats) -> None:
        y = records[:, -1]
        refuse_records((y < 0) | (y != np.floor(y)), f"{_RIGHT} a whole number from 0", y)


MODELS.add(LogisticRegression)
MODELS.add(PoissonRegression)
