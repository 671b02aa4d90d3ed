"""P(published | true) of local mechanisms by hand, and log sums over counts, term by term."""

import math

import numpy as np
from scipy import stats
from scipy.special import logsumexp

NAN = math.nan
X = np.arange(8000)
RATES = np.array([4.0, 30.0, 2.0, 11.0, 90.0])
TRIALS = np.array([9, 60, 8, 30, 300])


def log_masses(kind):
    """log f(x) of each of the five records, (5, X)."""
    if kind == "poisson":
        return np.array([stats.poisson.logpmf(X, rate) for rate in RATES])
    if kind == "negative-binomial":
        return np.array([stats.nbinom.logpmf(X, 0.7, 0.7 / (0.7 + rate)) for rate in RATES])
    if kind == "binomial":
        return np.array([stats.binom.logpmf(X, N, 0.4) for N in TRIALS])
    zero = np.where(X == 0, math.log(0.3), -np.inf)  # many zeros
    return np.array(
        [np.logaddexp(zero, math.log(0.7) + stats.poisson.logpmf(X, rate)) for rate in RATES]
    )


def discrete(log_mass, scale):
    """Log probabilities of whole noise from -2000 to 2000."""
    e = np.arange(-2000, 2001)
    logs = log_mass(e, scale)
    return e, logs - logsumexp(logs)


def gauss(e, scale):
    return -0.5 * (e / scale) ** 2


def laplace(e, scale):
    return -np.abs(e) / scale


def log_laplace_cdf(z):
    return np.where(z < 0, z - math.log(2.0), np.log1p(-0.5 * np.exp(-np.abs(z))))


def by_hand(law, scale, low, high):
    """log P(low <= x + e <= high) of every count; the density, if low is high."""
    if law in ("laplace", "gaussian"):
        if low == high:
            return (stats.laplace if law == "laplace" else stats.norm).logpdf(low - X, scale=scale)
        cdf = log_laplace_cdf if law == "laplace" else stats.norm.logcdf
        if high == math.inf:
            return cdf((X - low) / scale)
        assert low == -math.inf
        return cdf((high - X) / scale)
    e, logs = discrete(laplace if law == "geometric" else gauss, scale)
    out = np.full(len(X), -np.inf)
    for x in range(400):
        there = (e + x >= low) & (e + x <= high)
        if there.any():
            out[x] = logsumexp(logs[there])
    return out
