"""The paper's two models with their mechanisms, and the sizes of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noiseaware import Release, mechanisms, models, queries
from noiseaware.studies import SAMPLERS, Sampler
from noiseaware_paper import published

FEATURE_SEED = 1
"""As in the paper, the feature probabilities come from the prior; it does not print its own."""


@dataclass(frozen=True)
class Experiment:
    """One of the paper's two settings."""

    name: str  # for files
    title: str  # for people
    model: Any  # with its prior
    mechanism: Callable[[float], Any]  # a function of epsilon
    true_parameters: Mapping[str, Any]  # what makes the records
    parameter: str  # the one that is reported
    symbols: tuple[str, ...]  # what the paper calls its entries
    published: tuple[tuple[float, ...], ...]  # the printed coverage, (epsilon, entry)

    def records(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n records with the true parameters."""
        return self.model.sample_records(dict(self.true_parameters), n, rng)

    def database(self) -> np.ndarray:
        """Return the database whose releases Figures 1 and 2 show."""
        return self.records(published.N_RECORDS, np.random.default_rng(0))

    def release(self, records: np.ndarray, epsilon: float, rng: np.random.Generator) -> Release:
        """Release a database with this epsilon."""
        return self.mechanism(epsilon).privatize(records, rng)


def naive_bayes() -> Experiment:
    """Section 4: Laplace(2K / epsilon) on every class-feature count."""
    levels = [published.N_LEVELS] * published.N_FEATURES
    model = models.NaiveBayes(published.N_CLASSES, levels, published.CONCENTRATION)
    query = queries.ClassFeatureCounts(published.N_CLASSES, levels)
    theta = model.sample_prior(np.random.default_rng(FEATURE_SEED))
    probabilities = np.array(published.CLASS_PROBABILITIES)
    theta["class_probabilities"] = probabilities / probabilities.sum()
    return Experiment(
        "naive_bayes",
        "Naive Bayes log-linear model",
        model,
        lambda epsilon: mechanisms.Laplace(query, scale=2 * published.N_FEATURES / epsilon),
        theta,
        "class_probabilities",
        tuple(f"p_{i}" for i in range(1, published.N_CLASSES + 1)),
        published.TABLE_1,
    )


def regression() -> Experiment:
    """Section 5: Laplace(13 / epsilon) on every clamped moment."""
    p = published.FEATURES
    model = models.LinearRegression(
        p,
        coefficient_sd=published.COEFFICIENT_SD,
        noise_variance=published.NOISE_VARIANCE,
        feature_mean=published.FEATURE_MEAN,
        feature_covariance=np.eye(p),
    )
    query = queries.RegressionMoments(p, published.LOWER, published.UPPER)
    return Experiment(
        "regression",
        "Linear regression",
        model,
        lambda epsilon: mechanisms.Laplace(query, scale=published.SENSITIVITY / epsilon),
        {"coefficients": np.array(published.COEFFICIENTS)},
        "coefficients",
        tuple(f"beta_{j}" for j in range(p + 1)),
        published.TABLE_2,
    )


def experiments() -> tuple[Experiment, Experiment]:
    """Both, in the paper's order."""
    return naive_bayes(), regression()


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    name: str  # for the checkpoint and the page
    replicates: int  # releases for each epsilon, in each of the four studies
    samplers: Mapping[str, Sampler]  # the published protocol, and the default
    limit_epsilons: tuple[float, ...]
    limit_releases: int  # of each epsilon
    limit_samplers: Mapping[str, Sampler]  # with little noise the regression needs long chains
    imputed: int  # releases whose imputed databases are looked at
    imputed_sampler: Sampler
    databases: int  # that are kept of it
    run_time_records: tuple[int, ...]
    run_time_seconds: float  # of processor time, for each measurement of the speed


FULL = Size(
    name="full",
    replicates=published.REPLICATES,
    samplers={"algorithm1": SAMPLERS["algorithm1"], "default": Sampler(warmup=200, draws=400)},
    limit_epsilons=(0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
    limit_releases=2,
    limit_samplers={
        "naive_bayes": Sampler(warmup=500, draws=1000, chains=2),
        "regression": Sampler(warmup=1000, draws=5000, chains=2),
    },
    imputed=100,
    imputed_sampler=Sampler(warmup=300, draws=600),
    databases=19,
    run_time_records=(100, 1000, 10_000, 100_000),
    run_time_seconds=1.0,
)
QUICK = replace(
    FULL,
    name="quick",
    replicates=2,
    limit_epsilons=FULL.limit_epsilons[::3],
    limit_releases=1,
    limit_samplers={
        "naive_bayes": Sampler(warmup=500, draws=1000),
        "regression": Sampler(warmup=1000, draws=3000, chains=2),
    },
    imputed=12,
    imputed_sampler=Sampler(warmup=300, draws=400),
    run_time_records=(100, 1000, 10_000),
    run_time_seconds=0.2,
)
# For tests: runs everything, but the numbers mean nothing.
SMALLEST = replace(
    QUICK,
    name="smallest",
    samplers={name: replace(one, warmup=20, draws=20) for name, one in FULL.samplers.items()},
    limit_epsilons=(0.01, 100.0),
    limit_samplers=dict.fromkeys(FULL.limit_samplers, Sampler(warmup=20, draws=40)),
    imputed=3,
    imputed_sampler=Sampler(warmup=20, draws=20),
    databases=4,
    run_time_records=(50, 100),
    run_time_seconds=0.01,
)
SIZES = {size.name: size for size in (FULL, QUICK, SMALLEST)}
