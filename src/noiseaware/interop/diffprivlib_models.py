"""Fitted models of diffprivlib whose distribution is known.

**LogisticRegression** (two classes) minimises, with rows of X clipped to length `data_norm`,

    (1/n) sum_i loss(w; x_i) + ||w||^2 / (2 C n) + b'w / n + delta ||(w, c)||^2 / 2,

where the noise b has density proportional to exp(-||b|| / scale), scale = 2 L / epsilon', L the
largest row length, sqrt(data_norm^2 + 1) with an intercept c. Times n this is objective
perturbation with the ridge 1 / C + n delta; the intercept has the ridge n delta only, and is one
of the coordinates of b. If epsilon' = epsilon - 2 log(1 + L C / 4) is positive, delta = 0;
otherwise epsilon' = epsilon / 2 and n delta = L / (4 (e^(epsilon/4) - 1)) - 1 / C. The optimiser
stops when no entry of the gradient exceeds `tol`; n tol must be small beside the noise.

**LinearRegression** without an intercept stores the noisy coefficients of its objective, which
determine `coef_`: sum y^2, sum x_j y, sum x_j x_k of the unclipped records. Each has Laplace noise
of the scale that diffprivlib derives from the bounds, with epsilon divided equally among the
1 + p + p(p+1)/2 coefficients; squares are folded at 0. (In the library, the noise of a squared
feature depends on its *lower* bound.)

Not read: with an intercept, LinearRegression centres by noisy means that it does not store.
GaussianNB changes its noisy class counts until they sum to n, then clips the results by them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware import mechanisms, queries
from noiseaware.basics.arguments import whole_number
from noiseaware.interop.reading import cannot_read
from noiseaware.release import Release

__all__ = ["fitted"]

SLACK = 0.01  # how large n tol may be, in scales of the noise


def fitted(estimator: Any, n_records: int) -> Release:
    """Read a fitted model of diffprivlib.

    Parameters
    ----------
    estimator
        A `diffprivlib.models.LogisticRegression` of two classes, or a `LinearRegression` without an
        intercept, after `fit`.
    n_records
        The number of rows it was fitted to.

    Returns
    -------
    Release
        For `noiseaware.models.LogisticRegression` or `LinearRegression`: records are (n, p + 1),
        the response last. A classifier's response is 1 for the second of its `classes_`.
    """
    name = type(estimator).__name__
    if not type(estimator).__module__.startswith("diffprivlib.models"):
        raise TypeError(
            "estimator must be a fitted model of diffprivlib, such as "
            f"diffprivlib.models.LogisticRegression(data_norm=2).fit(X, y); got {name}"
        )
    n = whole_number("n_records", n_records)
    if name == "LogisticRegression" and hasattr(estimator, "coef_"):
        return _logistic(estimator, n)
    if name == "LinearRegression" and hasattr(estimator, "coef_"):
        return _linear(estimator, n)
    if name in ("LogisticRegression", "LinearRegression"):
        raise ValueError(f"estimator must be fitted; this {name} is not")
    reason = {
        "GaussianNB": "it changes its noisy class counts until they add up to n, and clips the "
        "sums of each class by them"
    }.get(name, "the law of what it releases is not known here")
    raise cannot_read(f"estimator is a {name}, which is not read: {reason}")


def _logistic(estimator: Any, n: int) -> Release:
    if len(estimator.classes_) != 2:
        raise cannot_read(f"estimator must have 2 classes; it has {len(estimator.classes_)}")
    if max(estimator.n_iter_) >= estimator.max_iter:
        raise cannot_read(
            f"estimator stopped after max_iter = {estimator.max_iter} steps, before the minimum"
        )
    p, alpha = estimator.coef_.shape[1], 1.0 / float(estimator.C)
    intercept = bool(estimator.fit_intercept)
    longest = math.sqrt(float(estimator.data_norm) ** 2 + intercept)
    left = estimator.epsilon - 2.0 * math.log1p(0.25 * longest / alpha)
    extra = 0.0
    if left <= 0.0:
        left = estimator.epsilon / 2.0
        extra = 0.25 * longest / math.expm1(estimator.epsilon / 4.0) - alpha
    scale = 2.0 * longest / left
    if n * estimator.tol > SLACK * scale:
        raise cannot_read(
            f"estimator has tol = {estimator.tol:g}, so that its optimiser stops up to "
            f"{n * estimator.tol:g} from the minimum, which is not small beside noise of scale "
            f"{scale:g}; fit it with tol = {SLACK * scale / n:.1g}"
        )
    loss = mechanisms.RowNormLogisticLoss(
        p, float(estimator.data_norm), intercept, alpha / n if intercept else 0.0
    )
    made = mechanisms.ObjectivePerturbation(loss, ridge=alpha + extra, scale=scale)
    values = [*estimator.intercept_, *estimator.coef_[0]] if intercept else estimator.coef_[0]
    return Release(values, made, n)


def _linear(estimator: Any, n: int) -> Release:
    if estimator.fit_intercept:
        raise cannot_read(
            "estimator was fitted with an intercept: it centred the records by noisy means, which "
            "it does not keep; fit_intercept=False is read"
        )
    squares, products, features = (np.asarray(part, float) for part in estimator._obj_coefs)
    if squares.size != 1:
        raise cannot_read(f"estimator must have one response; it has {squares.size}")
    p = len(features)
    low, high = np.ravel(estimator.bounds_X[0]), np.ravel(estimator.bounds_X[1])
    ends_y = np.array([np.ravel(end)[0] for end in estimator.bounds_y], dtype=np.float64)
    share = (1 + p + p * (p + 1) / 2) / estimator.epsilon
    # The columns of a record: the features, then the response.
    names = [*(f"x{j}" for j in range(1, p + 1)), "y"]
    ends: list[Any] = [*zip(low, high, strict=True), ends_y]
    sums = np.block([[features, products], [products.T, squares.reshape(1, 1)]])
    pairs = [(p, p), *((j, p) for j in range(p)), *((j, k) for j in range(p) for k in range(j, p))]
    made, values, labels = [], [], []
    for a, b in pairs:
        sensitivity = np.ptp(np.outer(ends[a], ends[b]))
        if a == b:
            sensitivity = (np.abs(ends_y).max() if a == p else low[a]) ** 2
        if not sensitivity > 0.0:
            raise cannot_read(f"{names[a]} {names[b]} has no noise: a lower bound in bounds_X is 0")
        label = f"{names[a]}^2" if a == b else f"{names[a]}*{names[b]}"
        query = queries.Query(_product(a, b), [label], sensitivity)
        noise: Any = mechanisms.Laplace(query, scale=share * sensitivity)
        made.append(mechanisms.Folded(noise, lower=0.0) if a == b else noise)
        values.append(sums[a, b])
        labels.append(label)
    return Release(values, mechanisms.Several(made, labels=labels), n)


def _product(a: int, b: int) -> Any:
    """Return a function that multiplies two columns of the records."""

    def product(records: Any) -> Any:
        return records[:, a] * records[:, b]

    return product
