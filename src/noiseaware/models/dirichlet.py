"""Dirichlet compositions: records are shares that sum to 1, such as a day in a time-use survey.

The model
---------
A record is a row of k shares, each above 0, with sum 1.

    x_i ~ Dirichlet(alpha),  alpha = A m        density prop. to prod_j x_j^(alpha_j - 1)
    m ~ Dirichlet(c)                            m = mean, c = mean_concentration
    A ~ Gamma(a, b)                             A = precision; a = precision_shape,
                                                b = precision_rate

with m and A independent a priori. m_j is the mean of share j, and its variance is
m_j (1 - m_j) / (A + 1).

There are two reasons to use mean and precision rather than alpha. They are the quantities of
interest. And sums of shares inform about m but hardly about A, so m and A are nearly independent in
the posterior, whereas the entries of alpha, all proportional to A, would move along a ridge.
Independent priors alpha_j ~ Gamma(c_j, b) are the special case a = sum_j c_j.

A kernel for p(m, A | x)
------------------------
The likelihood is [Gamma(A) / prod_j Gamma(alpha_j)]^n exp(sum_j (alpha_j - 1) L_j) with
L_j = sum_i log x_ij. In the coordinates v_j = log alpha_j the prior density is that of
(m_1, ..., m_{k-1}, A) divided by A^(k-1) (the Jacobian of alpha = A m) and times prod_j alpha_j,
that is, up to a constant, prod_j m_j^(c_j) A^a exp(-b A), m_j = alpha_j / A. So

    log p(v | x) = sum_j c_j v_j + (a - C) log A - b A + n lgamma(A)
                   - n sum_j lgamma(alpha_j) + sum_j alpha_j L_j + constant,     C = sum_j c_j.

* As a function of one v_j it is `log_shape_density` with a = c_j, b = L_j - b,
  c = a - C, o = A - alpha_j, r = 1, m = n.
* Along v + t (1, ..., 1), which multiplies A by exp(t) and leaves the mean unchanged, C cancels.
  It is the same density in t with a = a, b = sum_j alpha_j L_j - b A, c = 0, o = 0, r = A,
  m = n, w = alpha.

`Dirichlet.update_parameters` makes a slice step in the common direction, which takes care of the
ridge, then one in each coordinate. Each step moves along a line in v and leaves p(v | x) invariant.
Only the L_j are needed: one pass over the records.

The construction x = F(u; theta)
--------------------------------
With u standard normal of length k and G_j the quantile of Gamma(alpha_j) at Phi(u_j) (see
`gamma_quantiles`), x_j = G_j / sum_l G_l. The sum S of the gammas is lost, but it is independent of
the shares and Gamma(A) distributed, so u given x is found by drawing S and setting
u_j = Phi^{-1}(P(Gamma(alpha_j) <= x_j S)). Gammas are handled by their logarithms, because for
small alpha_j they underflow.

Shares that underflow
---------------------
A share below the smallest (normal) double d is recorded as d, which then carries the probability of
all such shares: prop. to d^alpha_j / alpha_j, the integral of x_j^(alpha_j - 1), instead of the
density d^(alpha_j - 1) at d. With D_j of these in column j, log p(v | x) has the further term
-sum_j D_j v_j: the slice steps replace c_j by c_j - D_j in a coordinate, and a by a - sum_j D_j in
the common direction. Given x_j = d, log x_j is log d minus an exponential variable with rate
alpha_j.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import ArrayLike

from noiseaware.basics.arguments import whole_number
from noiseaware.contract import Floats, Theta
from noiseaware.models import arguments, conjugate
from noiseaware.models.arguments import POSITIVE, PRIOR_SHAPE, read_parameter, refuse_records
from noiseaware.models.conjugate import SIMPLEX_TOLERANCE, SMALLEST, draw_log_gammas
from noiseaware.models.gamma_quantiles import gamma_scores, log_gamma_quantiles, spread_below
from noiseaware.models.ready import Compiled, CompiledModel, labelled, needed
from noiseaware.models.slice_sampling import move_shape
from noiseaware.parameters import Innovations, Parameter, Work
from noiseaware.registry import MODELS

_POOL = 12
"""Uniforms drawn per slice step, which uses six on average."""

_ONE = np.ones(1)


@njit(cache=True, nogil=True)
def _subtract_highest(logs, records):
    """Write log G_j minus the maximum of its row."""
    for i in range(logs.shape[0]):
        highest = -math.inf
        for j in range(logs.shape[1]):
            highest = max(highest, logs[i, j])
        for j in range(logs.shape[1]):
            records[i, j] = logs[i, j] - highest


@njit(cache=True, nogil=True)
def _divide_by_sum(records):
    """Divide each row by its sum; no share goes below the smallest double."""
    for i in range(records.shape[0]):
        total = 0.0
        for j in range(records.shape[1]):
            total += records[i, j]
        for j in range(records.shape[1]):
            records[i, j] = max(records[i, j] / total, SMALLEST)


def _normalise(logs: Floats, records: Floats) -> None:
    """Write the shares exp(log G_j) / sum_l exp(log G_l) of each row."""
    _subtract_highest(logs, records)
    np.exp(records, out=records)  # vector instructions, which a compiled loop does not get
    _divide_by_sum(records)


def _build_records(alpha, innovations, records):
    _normalise(log_gamma_quantiles(alpha, innovations), records)


@njit(cache=True, nogil=True)
def _sum_logs(records, sums, smallest):
    """Write L_j = sum_i log x_ij, and D_j, how often column j is the smallest double."""
    sums[:] = smallest[:] = 0.0
    for i in range(records.shape[0]):
        for j in range(records.shape[1]):
            sums[j] += math.log(max(records[i, j], SMALLEST))
            smallest[j] += records[i, j] <= SMALLEST


@njit(cache=True, nogil=True)
def _log_likelihood(alpha, records, out):
    """Write log Dirichlet(x_i; alpha), with a mass at the smallest double; -inf off the simplex."""
    out[:] = -math.inf
    if not (alpha > 0.0).all():
        return
    constant = 0.0
    for a in alpha:
        constant -= math.lgamma(a)
    constant += math.lgamma(alpha.sum())
    for i in range(records.shape[0]):
        value = constant
        shares = 0.0
        for j in range(alpha.shape[0]):
            x = records[i, j]
            shares += x
            if x > SMALLEST:
                value += (alpha[j] - 1.0) * math.log(x)
            elif x > 0.0:
                value += alpha[j] * math.log(SMALLEST) - math.log(alpha[j])
            else:
                value = -math.inf
        if abs(shares - 1.0) <= SIMPLEX_TOLERANCE:
            out[i] = value


@njit(cache=True, nogil=True)
def _slice_scan(alpha, sums, smallest, prior, n, one, uniforms):
    """Move ``alpha`` by a step in the common direction and one in each coordinate, in place.

    ``sums`` holds the L_j, ``smallest`` the D_j, ``prior`` the c_j, a and b. Returns False if the
    pool of uniforms is exhausted.
    """
    k = alpha.shape[0]
    concentration, a, b = prior
    total, all_concentration = alpha.sum(), concentration.sum()
    slope = (alpha * sums).sum()
    terms = (a - smallest.sum(), slope - b * total, 0.0, 0.0, total, n, n)
    t, used = move_shape(0.0, terms, alpha, n, uniforms, 0)
    if used < 0:
        return False
    alpha *= math.exp(t)
    for j in range(k):
        others = 0.0
        for other in range(k):
            if other != j:
                others += alpha[other]
        now = math.log(max(alpha[j], SMALLEST))
        c = a - all_concentration
        terms = (concentration[j] - smallest[j], sums[j] - b, c, others, 1.0, n, n)
        v, used = move_shape(now, terms, one, n, uniforms, used)
        if used < 0:
            return False
        alpha[j] = math.exp(v)
    return True


@dataclass(repr=False, eq=False)
class Dirichlet(CompiledModel):
    """Independent compositions: k shares that sum to 1, with a Dirichlet distribution.

        x_i       ~ Dirichlet(precision * mean)
        mean      ~ Dirichlet(mean_concentration, ..., mean_concentration)
        precision ~ Gamma(precision_shape, precision_rate)

    Share j has mean m = mean_j and variance m (1 - m) / (precision + 1).

    Parameters
    ----------
    n_parts : int
        k, the number of shares.
    mean_concentration : float or array_like, shape (k,), default 1
        The prior of the mean, one number for all shares or one for each; 1 is uniform.
    precision_shape, precision_rate : float, default 2 and 0.1
        The prior mean of the precision is shape / rate.

    Notes
    -----
    Records are float64 of shape ``(n, k)``, above 0, each row with sum 1. Parameters: ``mean``
    (k,) and ``precision`` ().

    Examples
    --------
    >>> import numpy as np
    >>> from noiseaware.models import Dirichlet
    >>> model = Dirichlet(3)
    >>> rng = np.random.default_rng(1)
    >>> theta = {"mean": [0.5, 0.3, 0.2], "precision": 1000.0}
    >>> model.sample_records(theta, 500, rng).mean(axis=0).round(2)
    array([0.5, 0.3, 0.2])
    """

    n_parts: int
    mean_concentration: ArrayLike = 1.0
    _: KW_ONLY
    precision_shape: float = field(default=2.0, metadata=PRIOR_SHAPE)
    precision_rate: float = field(default=0.1, metadata=POSITIVE)

    _priors: ClassVar = {"precision": "gamma"}
    example: ClassVar[dict[str, Any]] = {"n_parts": 2}
    compiled = Compiled(_build_records, None, _log_likelihood)

    def __post_init__(self) -> None:
        super().__post_init__()
        k = self.width = self.n_parts = whole_number("n_parts", self.n_parts, least=2)
        name, given = "mean_concentration", self.mean_concentration
        concentration = arguments.one_or_each(name, given, k, positive=True)
        self.mean_concentration = concentration
        for c in concentration:
            arguments.prior_shape(name, c)
        self.column_names = [f"x{j}" for j in range(1, k + 1)]
        mean = labelled("mean", "simplex", "part", self.column_names)
        self.parameters = (mean, Parameter("precision", (), "positive"))
        work = Work(2.0 + 2.0 * k, update=1.0 * k, draw=4.5 * k, build=3.5 * k, recover=9.0 * k)
        self.innovations = Innovations("normal", k, work)
        self._concentration, self._exponents = concentration, concentration - 1.0
        self._constant = conjugate.log_dirichlet_constant(concentration)

    def _read(self, theta: Theta) -> tuple[Floats]:
        """Return alpha = A m, a fresh array; NaN if A is not positive."""
        precision = float(theta["precision"])
        mean = read_parameter(theta, "mean", (self.n_parts,))
        return (mean * (precision if precision > 0.0 else math.nan),)

    def _check(self, records: Floats) -> None:
        right = "records must be shares above 0 (a Dirichlet distribution makes no zeros)"
        refuse_records(np.any(records <= 0.0, axis=1), right, records)
        wrong = np.abs(records.sum(axis=1) - 1.0) > SIMPLEX_TOLERANCE
        refuse_records(wrong, "records must be shares that sum to 1", records)

    def sample_prior(self, rng: Generator) -> Theta:
        mean = np.empty((1, self.n_parts))
        _normalise(draw_log_gammas(self._concentration, rng)[np.newaxis], mean)
        precision = rng.standard_gamma(self.precision_shape) / self.precision_rate
        return {"mean": mean[0], "precision": np.array(precision)}

    def log_prior(self, theta: Theta) -> float:
        """Return log p(theta), normalised, over the first k - 1 entries of the mean."""
        mean = read_parameter(theta, "mean", (self.n_parts,))
        shares = conjugate.log_dirichlet(mean[np.newaxis], 0, self.n_parts, self._exponents)
        return self._log_density("precision", theta) + shares + self._constant

    def _update(self, theta: Theta, records: Floats, rng: Generator) -> Theta:
        n = len(records)
        (start,) = self._read(theta)
        sums, smallest = np.empty((2, self.n_parts))
        _sum_logs(records, sums, smallest)
        prior = (self._concentration, *self._prior_arguments["precision"])
        pool = rng.random(_POOL * (self.n_parts + 1))
        alpha = start.copy()
        while not _slice_scan(alpha, sums, smallest, prior, float(n), _ONE, pool):
            pool = np.concatenate((pool, rng.random(len(pool))))
            alpha = start.copy()
        precision = alpha.sum()
        return {"mean": np.maximum(alpha / precision, SMALLEST), "precision": np.array(precision)}

    def recover_innovations(
        self, theta: Theta, records: ArrayLike, rng: Generator | None = None
    ) -> Floats:
        """Draw u_i given F(u_i; theta) = x_i, ``(n, k)``; this draws the lost total S."""
        records = self._read_records(records)
        (alpha,) = self._read(theta)
        precision = alpha.sum()
        if not 0.0 < precision < math.inf:
            return np.full(records.shape, math.nan)
        log_total = draw_log_gammas(np.full((len(records), 1), precision), needed(rng))
        logs = np.log(np.maximum(records, SMALLEST)) + log_total
        spread_below(logs, records <= SMALLEST, alpha, rng)
        return gamma_scores(alpha, logs)


MODELS.add(Dirichlet)
