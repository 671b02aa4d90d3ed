"""The two simulation settings of the paper, in plain NumPy.

Ju, Awan, Gong and Rao (2022), "Data Augmentation MCMC for Bayesian Inference from Privatized Data":
the linear regression of section 5 and supplement S-5, the naive Bayes log-linear model of section 4
and S-4. All samplers are compared on releases from here. Nothing here imports noiseaware.

Linear regression, p = 2 features: x_i ~ N(m, I), y_i ~ N((1, x_i) beta, 2), prior
beta_j ~ N(0, 2^2); clamping to [-10, 10], scaling to [-1, 1], 9 moments, Laplace noise with
the paper's scale (p^2 + 3p + 3) / epsilon = 13 / epsilon.

Naive Bayes, I = K = 5, J = 3: class ~ p, feature k given class i ~ p_i^k, Dirichlet(2) on
every probability vector; the 75 class-feature counts, Laplace noise with scale 2K / epsilon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

# Linear regression: Table 2 (coefficients) and S-5 (the rest, known to the analyst).
COEFFICIENTS = np.array([-1.79, -2.89, -0.66])
COEFFICIENT_SD = 2.0
NOISE_VARIANCE = 2.0
FEATURE_MEAN = np.array([0.9, -1.17])
FEATURE_COVARIANCE = np.eye(2)
LOWER, UPPER = -10.0, 10.0

# Naive Bayes. The paper prints the class probabilities it drew (Table 1; rounded, so rescaled
# here) but not the feature probabilities, which are one draw from the prior here.
N_CLASSES, N_FEATURES, N_LEVELS = 5, 5, 3
CONCENTRATION = 2.0
CLASS_PROBABILITIES = np.array([0.097, 0.148, 0.145, 0.446, 0.163])
CLASS_PROBABILITIES = CLASS_PROBABILITIES / CLASS_PROBABILITIES.sum()
FEATURE_PROBABILITIES = np.random.default_rng(2022).dirichlet(
    np.full(N_LEVELS, CONCENTRATION), size=(N_CLASSES, N_FEATURES)
)


def regression_scale(epsilon: float) -> float:
    """Return the Laplace scale of the paper's regression release (p = 2): 13 / epsilon."""
    return 13.0 / epsilon


def regression_records(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Simulate the confidential records.

    Returns
    -------
    records : (n, 3)
        The two features, then the response.
    """
    features = FEATURE_MEAN + rng.standard_normal((n, 2))
    noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n)
    response = COEFFICIENTS[0] + features @ COEFFICIENTS[1:] + noise
    return np.column_stack([features, response])


def regression_statistic(records: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the 9 clamped and scaled moments of each record.

    Parameters
    ----------
    records : (n, 3)

    Returns
    -------
    statistic : (n, 9)
        y, x1 y, x2 y, y^2, x1, x2, x1^2, x1 x2, x2^2, of the scaled values.
    """
    scaled = 2.0 * (np.clip(records, LOWER, UPPER) - LOWER) / (UPPER - LOWER) - 1.0
    x1, x2, y = scaled.T
    return np.column_stack([y, x1 * y, x2 * y, y * y, x1, x2, x1 * x1, x1 * x2, x2 * x2])


def regression_release(n: int, epsilon: float, seed: int) -> NDArray[np.float64]:
    """Simulate one release of the regression moments.

    Returns
    -------
    values : (9,)
    """
    rng = np.random.default_rng(seed)
    total = regression_statistic(regression_records(n, rng)).sum(axis=0)
    return total + rng.laplace(0.0, regression_scale(epsilon), total.shape)


def naive_bayes_scale(epsilon: float) -> float:
    """Return the Laplace scale of the paper's class-feature counts: 2K / epsilon."""
    return 2.0 * N_FEATURES / epsilon


def naive_bayes_records(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Simulate the confidential records.

    Returns
    -------
    records : (n, 6)
        The class, then the features, numbered from 0.
    """
    records = np.empty((n, 1 + N_FEATURES), dtype=np.int64)
    records[:, 0] = rng.choice(N_CLASSES, size=n, p=CLASS_PROBABILITIES)
    # Inverse CDF of every feature given its record's class.
    cumulative = FEATURE_PROBABILITIES.cumsum(axis=2)[records[:, 0]]
    cumulative[:, :, -1] = 1.0
    records[:, 1:] = (rng.random((n, N_FEATURES, 1)) >= cumulative).sum(axis=2)
    return records


def naive_bayes_counts(records: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the records in every (class, feature, level).

    Parameters
    ----------
    records : (n, 6)

    Returns
    -------
    counts : (75,)
        Class first, then feature, then level.
    """
    counts = np.zeros((N_CLASSES, N_FEATURES, N_LEVELS), dtype=np.int64)
    for k in range(N_FEATURES):
        np.add.at(counts, (records[:, 0], k, records[:, 1 + k]), 1)
    return counts.reshape(-1)


def naive_bayes_release(n: int, epsilon: float, seed: int) -> NDArray[np.float64]:
    """Simulate one release of the class-feature counts.

    Returns
    -------
    values : (75,)
    """
    rng = np.random.default_rng(seed)
    total = naive_bayes_counts(naive_bayes_records(n, rng))
    return total + rng.laplace(0.0, naive_bayes_scale(epsilon), total.shape)
