"""Normal vectors with every entry seen through noise: integrated out, and drawn exactly.

Record i is normal with mean m_i and covariance matrix C, k entries. Each entry has its own law
h_j(s_ij | x_ij) of what is seen of it: the number with Gaussian or Laplace noise, an interval for
such a number (withheld, clamped, rounded), the number itself, or nothing. Required are p(s | theta)
with the records integrated out, and a draw of the records given theta and s.

**One column** j has a closed form if everything seen of the others is normal: numbers y_il with
noise of variance d_il (0: exact; infinite: nothing). Given these, x_ij is normal with a mean a and
a variance v (`given_numbers`), whatever the law of column j, and p(s_ij | a, v) is, up to a
constant,

- Gaussian noise of variance d: the normal density with mean a and variance v + d at s, or for an
  interval its probability;
- Laplace noise of rate b: with e = (s - a) / sqrt v, the integrals of N(x; a, v) exp(-b |s - x|)
  over x < s and over x > s are exp(b^2 v / 2 -+ b (s - a)) Phi(+-e - b sqrt v). As (e - b sqrt v)^2
  = e^2 - 2 b (s - a) + b^2 v, both are exp(-e^2 / 2) M(+-e - b sqrt v), M(t) = Phi(t) exp(t^2 / 2),
  which keeps its digits for any b.

**Non-normal entries** of other columns are made normal by imputing more, given the records. For an
interval this is the noisy number, x plus noise, inside it. For Laplace noise it is the variance d:
Laplace noise is normal with an exponential variance of mean 2 / b^2 (Andrews and Mallows 1974).
Given the noise e, d has density d^(-1/2) exp(-e^2 / (2 d) - b^2 d / 2), so 1 / d is inverse
Gaussian with mean b / |e| and shape b^2. In column j only the variances of intervals under Laplace
noise are imputed. These imputations are draws given the records; theta may then move with the
records integrated out, and the records be drawn given theta and the rest: p(theta, x | s) is
invariant. Column j is drawn at random among those that would need imputation.

References
----------
Andrews, D. F. and Mallows, C. L. (1974). Scale mixtures of normal distributions. JRSS B 36(1).
Hoffman, Y. and Ribak, E. (1991). Constrained realizations of Gaussian fields. Astrophysical
    Journal 380.
Michael, J. R., Schucany, W. R. and Haas, R. W. (1976). Generating random variates using
    transformations with multiple roots. The American Statistician 30(2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator
from scipy import special

from noiseaware.basics.linear_algebra import cholesky
from noiseaware.contract import Floats, Theta
from noiseaware.mechanisms.intervals import log_gaussian_between, log_scaled_cdf
from noiseaware.mechanisms.terms import BETWEEN, GAUSSIAN, LAPLACE, CellLaws


class Column(NamedTuple):
    """What is seen of a column: a noisy number between `low` and `high`, (n,) each."""

    low: Floats
    high: Floats
    """Equal to `low` where the number is known."""
    variance: Floats
    """Variance of Gaussian noise: 0 if there is none, infinite if nothing is seen."""
    rate: Floats
    """1 / scale of Laplace noise; 0 if the noise is Gaussian."""


# ------------------------------------------------------------------ one column integrated out


@njit(cache=True, nogil=True, error_model="numpy")
def given_numbers(covariance, noise, away, mean, variance):
    """Return log p(y) up to a constant, y the numbers seen; -inf if C is no covariance matrix.

    `away` is y - m and `noise` its variance, (n, k), infinite where nothing is seen. Writes
    E(x | y) - m and Var(x_j | y), (n, k). With R R' = C + D over the rows and columns seen, and
    T = R^{-1} C over the rows seen, these are T' R^{-1} (y - m) and C_jj - sum_a T_aj^2.
    """
    n, k = noise.shape
    root, solved, u = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    seen, log_p = np.empty(k, np.int64), 0.0
    for i in range(n):
        size = 0
        for j in range(k):
            mean[i, j], variance[i, j] = 0.0, covariance[j, j]
            if noise[i, j] < math.inf:
                seen[size] = j
                size += 1
        for a in range(size):
            for b in range(a + 1):
                root[a, b] = covariance[seen[a], seen[b]]
            root[a, a] += noise[i, seen[a]]
        if not cholesky(root, size, root):
            return -math.inf
        for a in range(size):
            u[a] = away[i, seen[a]]
            for b in range(a):
                u[a] -= root[a, b] * u[b]
            u[a] /= root[a, a]
            log_p -= math.log(root[a, a]) + 0.5 * u[a] * u[a]
            for j in range(k):
                t = covariance[seen[a], j]
                for b in range(a):
                    t -= root[a, b] * solved[b, j]
                solved[a, j] = t / root[a, a]
                mean[i, j] += solved[a, j] * u[a]
                variance[i, j] -= solved[a, j] * solved[a, j]
    return log_p


@njit(cache=True, nogil=True, error_model="numpy")
def log_column(column, mean, variance):
    """Return the sum of log p(s_i | a_i, v_i) over the records, up to a constant; see above."""
    total = 0.0
    for i in range(mean.shape[0]):
        a, v, low, high = mean[i], variance[i], column.low[i], column.high[i]
        if column.rate[i] > 0.0:
            e, shift = (low - a) / math.sqrt(v), column.rate[i] * math.sqrt(v)
            below, above = log_scaled_cdf(e - shift), log_scaled_cdf(-e - shift)
            total += max(below, above) + math.log1p(math.exp(-abs(below - above))) - 0.5 * e * e
        elif column.variance[i] < math.inf:
            v += column.variance[i]
            if low < high:
                total += log_gaussian_between(low, high, 1.0 / math.sqrt(v), a)
            else:
                total -= 0.5 * (math.log(v) + (low - a) * (low - a) / v)
    return total


# ------------------------------------------------------------------ draws


def draw_between(low: Floats, high: Floats, rng: Generator) -> Floats:
    """Draw standard normals, each truncated to an interval."""
    turn = low > -high  # the upper tail, in which there are no digits
    low, high = np.where(turn, -high, low), np.where(turn, -low, high)
    u = rng.random(len(low))
    with np.errstate(divide="ignore"):
        log_u, log_rest = np.log(u), np.log1p(-u)
    below = np.logaddexp(special.log_ndtr(low) + log_rest, special.log_ndtr(high) + log_u)
    drawn = np.clip(special.ndtri_exp(below), low, high)
    return np.where(turn, -drawn, drawn)


def draw_laplace_between(low: Floats, high: Floats, rng: Generator) -> Floats:
    """Draw Laplace noise of scale 1, each truncated to an interval.

    Of the parts to the left and right of 0 one is empty, or both begin there. Each is an
    exponential distribution from `first` on, truncated to have 1 - exp(-length) of its mass.
    """
    first = np.maximum(np.stack([-high, low]), 0.0)
    share = -np.expm1(first - np.maximum(np.stack([-low, high]), 0.0))
    u = rng.random((2, len(low)))
    right = (u[0] * share.sum(axis=0) >= share[0]).astype(np.int64)
    chosen = (right, np.arange(len(low)))
    return np.where(right, 1.0, -1.0) * (first[chosen] - np.log1p(-u[1] * share[chosen]))


def draw_variance(rate: Floats, noise: Floats, rng: Generator) -> Floats:
    """Draw the variance of Laplace noise as a scale mixture of normals, given the noise.

    Its inverse is drawn by the method of Michael, Schucany and Haas. With A = |e| / b and
    H = z^2 / (2 b^2), z standard normal, the two roots are A + H + sqrt(H (H + 2 A)) and A^2
    divided by it; the first is drawn with probability first / (first + A).
    """
    A, H = np.abs(noise) / rate, 0.5 * (rng.standard_normal(len(rate)) / rate) ** 2
    first = A + H + np.sqrt(H * (H + 2.0 * A))
    return np.where(rng.random(len(rate)) * (first + A) < first, first, A * A / first)


def draw_column(column: Column, mean: Floats, variance: Floats, rng: Generator) -> Floats:
    """Draw x_ij, normal with a mean and a variance, given what is seen of it.

    Under Gaussian noise of variance d the noisy number y comes first, normal with mean a and
    variance v + d, inside its interval; then x given y, with weight v / (v + d) of y. Under Laplace
    noise x is to the left of s with the share of that integral, and there normal with mean a + b v;
    to the right with mean a - b v.
    """
    low, high, d, b = column
    sd, y, apart = np.sqrt(variance), low.copy(), low < high
    if apart.any():
        a, spread = mean[apart], np.sqrt((variance + d)[apart])
        ends = (low[apart] - a) / spread, (high[apart] - a) / spread
        y[apart] = a + spread * draw_between(*ends, rng)
    weight = variance / (variance + d)
    x = mean + weight * (y - mean) + sd * np.sqrt(1.0 - weight) * rng.standard_normal(len(mean))
    sharp = b > 0.0
    if sharp.any():
        s, a, sd, b = low[sharp], mean[sharp], sd[sharp], b[sharp]
        e, shift, u = (s - a) / sd, b * sd, rng.random((2, len(s)))
        below, above = special.log_ndtr(e - shift), special.log_ndtr(-e - shift)
        left = np.log(u[0]) < -np.logaddexp(0.0, above - below + 2.0 * shift * e)
        tail = shift + special.ndtri_exp(np.log(u[1]) + np.where(left, below, above))
        x[sharp] = a + np.where(left, sd, -sd) * tail
    return np.where(d == 0.0, low, x)


# ------------------------------------------------------------------ what is imputed


def read_column(law: CellLaws | None, n: int) -> Column:
    """Return what is seen of a column; None means nothing."""
    if law is None:
        return Column(np.zeros(n), np.zeros(n), np.full(n, math.inf), np.zeros(n))
    family, (low, inverse, high) = law.family, law.parameters.T[:3]
    laplace = (family == LAPLACE) | (family == BETWEEN)
    gaussian = (family == GAUSSIAN) | (family == BETWEEN + 1)
    with np.errstate(divide="ignore"):
        variance = np.where(gaussian, inverse**-2.0, np.where(laplace, math.inf, 0.0))
    high = np.where((family == BETWEEN) | (family == BETWEEN + 1), high, low)
    return Column(low, high, variance, np.where(laplace, inverse, 0.0))


def impute(column: Column, x: Floats, numbers: bool, rng: Generator) -> Column:
    """Return a column with its imputations given x, its entries of the records.

    These are the variances of intervals under Laplace noise; with `numbers`, also of all Laplace
    noise, and the noisy numbers of intervals.
    """
    low, high, variance, rate = column
    sharp, apart = rate > 0.0, low < high
    y, variance = low.copy(), variance.copy()
    scale = np.where(sharp, 1.0 / np.where(sharp, rate, 1.0), np.sqrt(variance))
    ways = (draw_laplace_between, sharp & apart), (draw_between, ~sharp & apart & numbers)
    for draw, which in ways:
        if which.any():
            at, unit = x[which], scale[which]
            ends = (low[which] - at) / unit, (high[which] - at) / unit
            y[which] = at + unit * draw(*ends, rng)
    mixed = sharp & (apart | numbers)
    if mixed.any():
        variance[mixed] = draw_variance(rate[mixed], (y - x)[mixed], rng)
    rate = np.where(mixed, 0.0, rate)
    return Column(y, y, variance, rate) if numbers else Column(low, high, variance, rate)


class SeenNormals:
    """Records seen through noise, with their imputations.

    ``law`` maps theta to the mean of each record, (n, k), and C; ``laws`` describes what is seen of
    each column.
    """

    def __init__(
        self,
        law: Callable[[Theta], tuple[Floats, Floats]],
        records: Floats,
        laws: list[CellLaws | None],
        rng: Generator,
    ) -> None:
        self._law = law
        columns = [read_column(one, len(records)) for one in laws]
        hard = [j for j, (a, b, _, rate) in enumerate(columns) if ((a < b) | (rate > 0.0)).any()]
        j = self._j = int(rng.choice(hard)) if hard else 0
        columns = [impute(c, records[:, k], k != j, rng) for k, c in enumerate(columns)]
        self._column = columns[j]
        self._values = np.column_stack([column.low for column in columns])
        self._noise = np.column_stack([column.variance for column in columns])
        self._noise[:, j] = math.inf

    def _given(self, theta: Theta) -> tuple[float, Floats, Floats]:
        """Return log p of the numbers, and the mean and variance of column j given these."""
        means, covariance = self._law(theta)
        change, variance = np.empty_like(means), np.empty_like(means)
        away = self._values - means
        log_p = given_numbers(covariance, self._noise, away, change, variance)
        return log_p, means[:, self._j] + change[:, self._j], variance[:, self._j]

    def log_p(self, theta: Theta) -> float:
        """Return log p(s, w | theta), w the imputations, up to a constant."""
        log_p, mean, variance = self._given(theta)
        return log_p + log_column(self._column, mean, variance) if log_p > -math.inf else log_p

    def draw(self, theta: Theta, rng: Generator) -> Floats:
        """Draw the records given theta, s and the imputations.

        Column j comes first. Given its x_j the rest is normal: with (x~, y~) a draw of records and
        numbers from the model, x~ + C R^{-1} (y - y~), R = C + D, is a draw given y (Hoffman and
        Ribak 1991).
        """
        _, mean, variance = self._given(theta)
        values, noise = self._values.copy(), self._noise.copy()
        values[:, self._j] = draw_column(self._column, mean, variance, rng)
        noise[:, self._j] = 0.0
        if (noise == 0.0).all():
            return values
        means, covariance = self._law(theta)
        normals = rng.standard_normal((2, *means.shape))
        records = means + normals[0] @ np.linalg.cholesky(covariance).T
        numbers = records + np.sqrt(noise) * normals[1]  # not read where nothing is seen
        change = np.empty_like(means)
        given_numbers(covariance, noise, values - numbers, change, np.empty_like(means))
        return np.where(noise == 0.0, values, records + change)
