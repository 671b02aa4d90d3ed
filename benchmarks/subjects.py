"""The paper's settings (`settings`) as noiseaware's models and releases."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noiseaware as na
from benchmarks import settings

MODELS = ("regression", "unknown", "naive-bayes")
"""Regression with only the coefficients unknown, with everything unknown, and naive Bayes."""


class Subject(NamedTuple):
    """A model with one simulated release of it."""

    model: Any
    release: Any
    interest: str  # the parameter whose ESS counts


def subject(model: str, n: int, epsilon: float, seed: int) -> Subject:
    """Simulate a release of one of `MODELS`."""
    if model == "naive-bayes":
        query = na.queries.ClassFeatureCounts(
            settings.N_CLASSES, (settings.N_LEVELS,) * settings.N_FEATURES
        )
        mechanism = na.mechanisms.Laplace(query, scale=settings.naive_bayes_scale(epsilon))
        values = settings.naive_bayes_release(n, epsilon, seed)
        made = na.models.NaiveBayes(
            settings.N_CLASSES,
            (settings.N_LEVELS,) * settings.N_FEATURES,
            settings.CONCENTRATION,
        )
        return Subject(made, na.Release(values, mechanism, n), "class_probabilities")
    query = na.queries.RegressionMoments(2, settings.LOWER, settings.UPPER)
    mechanism = na.mechanisms.Laplace(query, scale=settings.regression_scale(epsilon))
    values = settings.regression_release(n, epsilon, seed)
    known: dict[str, Any] = {}
    if model == "regression":
        known = {
            "noise_variance": settings.NOISE_VARIANCE,
            "feature_mean": settings.FEATURE_MEAN,
            "feature_covariance": settings.FEATURE_COVARIANCE,
        }
    made = na.models.LinearRegression(2, settings.COEFFICIENT_SD, **known)
    return Subject(made, na.Release(values, mechanism, n), "coefficients")


def check_order() -> None:
    """Raise if noiseaware orders a statistic differently from `settings` (and the peers)."""
    rng = np.random.default_rng(0)
    regression = settings.regression_records(50, rng)
    classes = settings.naive_bayes_records(50, rng)
    for model, records, expected in (
        ("regression", regression, settings.regression_statistic(regression).sum(axis=0)),
        ("naive-bayes", classes, settings.naive_bayes_counts(classes)),
    ):
        query = subject(model, 50, 1.0, 0).release.mechanism.query
        if not np.allclose(query.statistic(records).sum(axis=0), expected):
            raise RuntimeError(f"{model}: the query and benchmarks/settings.py disagree")


def code() -> str:
    """Return a short digest of the code that makes the draws, docstrings included.

    Stored results are marked with it, so that a table never mixes two samplers.
    """
    root = Path(na.__file__).parent
    folders = ("counts", "mechanisms", "models", "queries", "sampler")
    files = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(ast.dump(ast.parse(path.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()[:10]
