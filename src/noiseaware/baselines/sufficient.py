"""Models whose posterior needs only the numbers that the query releases.

Here T(x) is a sufficient statistic of the model, and the posterior given T is known. What is
released is T plus noise, which may be impossible (a count below 0, a matrix of moments that is
not positive definite). Somebody who takes it as exact has to mend it first; each pair says how:

| model              | query                 | mended numbers       | posterior                 |
|--------------------|-----------------------|----------------------|---------------------------|
| `Bernoulli`        | `Count` of 0 or 1     | c into [0, n]        | Beta(a + c, b + n - c)    |
| `Bernoulli`        | `Sum` over [0, 1]     | c into [0, n]        | the same                  |
| `Bernoulli`        | `Histogram`, 2 levels | to at least 0        | Beta(a + c_1, b + c_0)    |
| `Categorical`      | `Histogram`, J levels | to at least 0        | Dirichlet(a_j + c_j)      |
| `NaiveBayes`       | `ClassFeatureCounts`  | see below            | Dirichlet, each           |
| `Normal`, v known  | `Sum`                 | into n[lower, upper] | N(w (m_0/s_0^2 + S/v), w) |
| `Poisson`          | `Sum`                 | see `rates`          | Gamma(a + S, b + n)       |
| `Exponential`      | `Sum`                 | see `rates`          | Gamma(a + n, b + S)       |
| `TwoProportions`   | `ByGroup`, a `Count`  | c_g into [0, n_g]    | Beta, each                |
| `LinearRegression` | `RegressionMoments`   | see below            | the model's own kernel    |
| `MultivariateNormal` | `Moments`          | the same             | the model's own kernel    |

*Naive Bayes.* The counts are moved to at least 0. Every feature has its own count of class i,
sum_j n_ij^k; with noise the K of them differ, and their mean is taken and moved to at least 0.

*Linear regression.* The released moments M~ are those of z~ = (z - centre) scale, z = (x_0, y).
The sums are moved to [-n, n]; the scatter matrix sum z~ z~' - (sum z~)(sum z~)'/n is replaced by
the nearest positive semidefinite one (negative eigenvalues to 0). Scaling is undone; clamping
cannot be. The posterior depends on the records through these moments only, so any records with
the same moments have the same posterior: `records_with` builds some, and the model's own kernel
runs on them, whatever is known and unknown.

The estimate for the bootstrap is the maximum of the likelihood at the same mended numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseaware import models, queries
from noiseaware.baselines import rates
from noiseaware.baselines.non_private import non_private

Array = NDArray[np.float64]
Theta = dict[str, Array]

TINY = 1e-9
"""How close an estimated probability may come to 0 or 1, and, relative to the range of the bounds,
how small an estimated variance may be: records are simulated from it."""


class Sufficient(NamedTuple):
    """How the posterior and the estimate follow from the released numbers.

    Attributes
    ----------
    draw
        (model, query, values, n, draws, rng) -> draws of each parameter, (draws, ...).
    estimate
        (model, query, values, n) -> the maximum likelihood estimate.
    words
        What was done to the numbers, to go on from "taken as exact".
    """

    draw: Callable[[Any, Any, Array, int, int, np.random.Generator], Theta]
    estimate: Callable[[Any, Any, Array, int], Theta]
    words: str


def find(model: Any, query: Any) -> Sufficient | None:
    """Return how to go from the query's numbers to the model's posterior, or None."""
    for model_type, query_type, fits, way in _PAIRS:
        if type(model) is model_type and type(query) is query_type and fits(model, query):
            return way
    return None


# Bernoulli


def _zeros_and_ones(query: Any, values: Array, n: int) -> tuple[float, float]:
    if isinstance(query, queries.Histogram):
        zeros, ones = np.maximum(values, 0.0)
        return float(zeros), float(ones)
    count = float(np.clip(values[0], 0.0, n))
    if isinstance(query, queries.Count) and query.value == 0:
        count = n - count
    return n - count, count


def _draw_probability(model, query, values, n, draws, rng) -> Theta:
    zeros, ones = _zeros_and_ones(query, values, n)
    return {"probability": rng.beta(model.a + ones, model.b + zeros, size=draws)}


def _estimate_probability(model, query, values, n) -> Theta:
    zeros, ones = _zeros_and_ones(query, values, n)
    total = zeros + ones
    p = ones / total if total > 0.0 else 0.5
    return {"probability": np.array(np.clip(p, TINY, 1.0 - TINY))}


def _counts_ones(model: Any, query: Any) -> bool:
    if isinstance(query, queries.Histogram):
        return query.n_levels == 2
    if isinstance(query, queries.Count):
        return query.predicate is None and query.value in (0, 1)
    return np.ndim(query.lower) == 0 and query.lower == 0 and query.upper == 1


# Categorical and naive Bayes


def _draw_categories(model, query, values, n, draws, rng) -> Theta:
    shapes = np.broadcast_to(model.concentration, values.shape) + np.maximum(values, 0.0)
    return {"probabilities": rng.dirichlet(shapes, size=draws)}


def _estimate_categories(model, query, values, n) -> Theta:
    return {"probabilities": _shares(np.maximum(values, 0.0))}


def _shares(counts: Array) -> Array:
    """Return counts as probabilities along the last axis, none of them 0."""
    totals = counts.sum(axis=-1, keepdims=True)
    shares = np.where(totals > 0.0, counts / np.where(totals > 0.0, totals, 1.0), 1.0)
    shares = np.maximum(shares, TINY)
    return shares / shares.sum(axis=-1, keepdims=True)


def _class_counts(model: Any, values: Array) -> tuple[Array, list[Array]]:
    """Return the mended counts of the classes, (I,), and of each feature's levels, (I, J_k)."""
    table = values.reshape(model.n_classes, -1)
    parts = np.split(table, np.cumsum(model.n_levels)[:-1], axis=1)
    classes = np.mean([part.sum(axis=1) for part in parts], axis=0)
    return np.maximum(classes, 0.0), [np.maximum(part, 0.0) for part in parts]


def _as_parameters(model: Any, classes: Array, features: list[Array]) -> Theta:
    """Name the tables (..., I) and (..., I, J_k) as the model does."""
    theta = {"class_probabilities": classes}
    if len(set(model.n_levels)) == 1:
        theta["feature_probabilities"] = np.stack(features, axis=-2)
    else:
        theta |= {f"feature_probabilities_{k}": part for k, part in enumerate(features, start=1)}
    return theta


def _draw_naive_bayes(model, query, values, n, draws, rng) -> Theta:
    classes, features = _class_counts(model, values)
    drawn = [
        np.stack([rng.dirichlet(model.concentration + row, size=draws) for row in part], axis=1)
        for part in features
    ]
    return _as_parameters(model, rng.dirichlet(model.concentration + classes, size=draws), drawn)


def _estimate_naive_bayes(model, query, values, n) -> Theta:
    classes, features = _class_counts(model, values)
    return _as_parameters(model, _shares(classes), [_shares(part) for part in features])


# Normal records with a known variance


def _clamped_sum(query: Any, values: Array, n: int) -> float:
    return float(np.clip(values[0], n * query.lower, n * query.upper))


def _draw_normal(model, query, values, n, draws, rng) -> Theta:
    total = _clamped_sum(query, values, n)
    variance = 1.0 / (model.mean_sd**-2 + n / model.variance)
    mean = variance * (model.mean_mean / model.mean_sd**2 + total / model.variance)
    return {"mean": mean + math.sqrt(variance) * rng.standard_normal(draws)}


def _estimate_normal(model, query, values, n) -> Theta:
    return {"mean": np.array(_clamped_sum(query, values, n) / n)}


def _only_mean(model: Any, query: Any) -> bool:
    return model.mean is None and model.variance is not None and np.ndim(query.lower) == 0


# Linear regression


def mended_moments(query: Any, values: Array, n: int) -> tuple[Array, Array]:
    """Return the mean (q,) and a positive semidefinite scatter matrix (q, q) of the records.

    For `RegressionMoments` these are of (x_0, y), q = p + 1; for `Moments` of all columns.
    """
    if isinstance(query, queries.Moments):
        q = query.n_columns
        totals, products = np.array(values[:q]), np.empty((q, q))
        upper = np.triu_indices(q)
        products[upper] = products[upper[1], upper[0]] = values[q:]
    else:
        p = query.n_features
        q = p + 1
        totals, products = np.empty(q), np.empty((q, q))
        totals[p], totals[:p] = values[0], values[p + 2 : 2 * p + 2]
        products[:p, p] = products[p, :p] = values[1 : p + 1]
        products[p, p] = values[p + 1]
        upper = np.triu_indices(p)
        products[upper] = products[upper[1], upper[0]] = values[2 * p + 2 :]
    totals = np.clip(totals, -n, n)
    eigenvalues, vectors = np.linalg.eigh(products - np.outer(totals, totals) / n)
    scatter = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    lower = np.broadcast_to(np.asarray(query.lower, dtype=float), (q,))
    top = np.broadcast_to(np.asarray(query.upper, dtype=float), (q,))
    half_width = 0.5 * (top - lower)
    return lower + half_width * (1.0 + totals / n), scatter * np.outer(half_width, half_width)


def records_with(mean: Array, scatter: Array, n: int) -> Array:
    """Return n records with this mean and scatter matrix, (n, q).

    The columns cos(pi (i + 1/2) j / n), j = 1, ..., n - 1, of the discrete cosine transform sum to
    zero and are orthogonal, so that q of them, scaled, are records with any scatter matrix of rank
    below n.
    """
    eigenvalues, vectors = np.linalg.eigh(scatter)
    size = min(len(mean), n - 1)
    waves = np.cos(np.pi / n * np.outer(np.arange(n) + 0.5, np.arange(1, size + 1)))
    largest = np.argsort(eigenvalues)[::-1][:size]
    roots = np.sqrt(np.maximum(eigenvalues[largest], 0.0) * 2.0 / n)
    return mean + (waves * roots) @ vectors[:, largest].T


def _draw_by_records(model, query, values, n, draws, rng) -> Theta:
    records = records_with(*mended_moments(query, values, n), n)
    return non_private(model, records, draws=draws, random_seed=int(rng.integers(2**63)))


def _estimate_regression(model, query, values, n) -> Theta:
    mean, scatter = mended_moments(query, values, n)
    p = model.n_features
    slopes = np.linalg.pinv(scatter[:p, :p], hermitian=True) @ scatter[:p, p]
    theta = {"coefficients": np.concatenate([[mean[p] - mean[:p] @ slopes], slopes])}
    smallest = TINY * float(np.max(np.subtract(query.upper, query.lower))) ** 2
    if model.noise_variance is None:
        residual = scatter[p, p] - slopes @ scatter[:p, p]
        theta["noise_variance"] = np.array(max(residual / n, smallest))
    if model.feature_mean is None:
        theta["feature_mean"] = mean[:p].copy()
    if model.feature_covariance is None:
        theta["feature_covariance"] = scatter[:p, :p] / n + smallest * np.eye(p)
    return theta


def _estimate_multivariate_normal(model, query, values, n) -> Theta:
    mean, scatter = mended_moments(query, values, n)
    theta = {} if model.mean is not None else {"mean": mean}
    if model.covariance is None:
        around = mean if model.mean is None else np.asarray(model.mean)
        smallest = TINY * float(np.max(np.subtract(query.upper, query.lower))) ** 2
        theta["covariance"] = (
            scatter / n + np.outer(mean - around, mean - around) + smallest * np.eye(len(mean))
        )
    return theta


# Two groups


def _ones_of_groups(model: Any, query: Any, values: Array) -> tuple[Array, Array]:
    sizes = np.asarray(model.sizes, dtype=np.float64)
    counts = np.clip(values, 0.0, sizes)
    return (sizes - counts if query.query.value == 0 else counts), sizes


def _draw_proportions(model, query, values, n, draws, rng) -> Theta:
    ones, sizes = _ones_of_groups(model, query, values)
    return {"proportions": rng.beta(model.a + ones, model.b + sizes - ones, size=(draws, 2))}


def _estimate_proportions(model, query, values, n) -> Theta:
    ones, sizes = _ones_of_groups(model, query, values)
    return {"proportions": np.clip(ones / sizes, TINY, 1.0 - TINY)}


def _counts_of_two_groups(model: Any, query: Any) -> bool:
    inside = query.query
    return query.n_groups == 2 and isinstance(inside, queries.Count) and _counts_ones(model, inside)


def _one_sum(model: Any, query: Any) -> bool:
    return np.ndim(query.lower) == 0 and np.ndim(query.upper) == 0


def _same_features(model: Any, query: Any) -> bool:
    return model.n_features == query.n_features


def _same_tables(model: Any, query: Any) -> bool:
    return model.n_classes == query.n_classes and list(model.n_levels) == list(query.n_levels)


_MOMENTS = (
    "after undoing the scaling and making the matrix of moments positive semidefinite, as if "
    "nothing was clamped"
)
_SUM = "moved to a possible sum, as if nothing was clamped"
_COUNT = Sufficient(
    _draw_probability, _estimate_probability, "after moving impossible counts to possible ones"
)
_PAIRS: tuple[tuple[type, type, Callable[[Any, Any], bool], Sufficient], ...] = (
    (models.Bernoulli, queries.Count, _counts_ones, _COUNT),
    (models.Bernoulli, queries.Sum, _counts_ones, _COUNT),
    (models.Bernoulli, queries.Histogram, _counts_ones, _COUNT),
    (
        models.Categorical,
        queries.Histogram,
        lambda model, query: query.n_levels == model.n_levels,
        Sufficient(_draw_categories, _estimate_categories, "with negative counts set to 0"),
    ),
    (
        models.NaiveBayes,
        queries.ClassFeatureCounts,
        _same_tables,
        Sufficient(
            _draw_naive_bayes,
            _estimate_naive_bayes,
            "with negative counts set to 0 and the size of each class averaged over the features",
        ),
    ),
    (
        models.Normal,
        queries.Sum,
        _only_mean,
        Sufficient(_draw_normal, _estimate_normal, _SUM),
    ),
    (
        models.Poisson,
        queries.Sum,
        _one_sum,
        Sufficient(rates.draw_poisson, rates.estimate_poisson, _SUM),
    ),
    (
        models.Exponential,
        queries.Sum,
        _one_sum,
        Sufficient(rates.draw_exponential, rates.estimate_exponential, _SUM),
    ),
    (
        models.TwoProportions,
        queries.ByGroup,
        _counts_of_two_groups,
        Sufficient(
            _draw_proportions,
            _estimate_proportions,
            "after moving impossible counts to possible ones",
        ),
    ),
    (
        models.MultivariateNormal,
        queries.Moments,
        lambda model, query: model.n_columns == query.n_columns,
        Sufficient(_draw_by_records, _estimate_multivariate_normal, _MOMENTS),
    ),
    (
        models.LinearRegression,
        queries.RegressionMoments,
        _same_features,
        Sufficient(
            _draw_by_records,
            _estimate_regression,
            _MOMENTS,
        ),
    ),
)
