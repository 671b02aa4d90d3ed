"""Sums over counts, term by term, in extended precision: what `maths.cells` is held against."""

import numpy as np

LONG = np.longdouble


def log_masses(family, rate, size, most):
    """Return log f(0), ..., log f(most), added up from the ratios of neighbours."""
    rate, size, x = LONG(rate), LONG(size), np.arange(most, dtype=LONG)
    if family == "poisson":
        first, steps = -rate, rate / (x + 1)
    elif family == "negative-binomial":
        first, steps = -size * np.log1p(rate / size), (x + size) * (rate / (rate + size)) / (x + 1)
    else:
        first, steps = -size * np.log1p(rate), (size - x) * rate / (x + 1)
    with np.errstate(divide="ignore"):
        return np.concatenate(([first], first + np.cumsum(np.log(steps))))


def moments(log_weights):
    """Return log sum w, and the mean and the variance of x = 0, 1, ... under the weights."""
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    total = weights.sum()
    x = np.arange(len(weights), dtype=LONG)
    mean = (weights * x).sum() / total
    return top + np.log(total), mean, (weights * (x - mean) ** 2).sum() / total
