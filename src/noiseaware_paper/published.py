"""The numbers printed in the paper.

Ju, Awan, Gong and Rao (2022), arXiv:2206.00710: Table 1 (section 4), Table 2 and the statement on
computing resources (supplement). The tests check them against the paper.
"""

from __future__ import annotations

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
N_RECORDS = 100
REPLICATES = 100
INTERVAL = 0.9
ITERATIONS = 10_000
BURN_IN = 5_000

# Naive Bayes log-linear model
N_CLASSES = 5
N_FEATURES = 5
N_LEVELS = 3
CONCENTRATION = 2.0
CLASS_PROBABILITIES = (0.097, 0.148, 0.145, 0.446, 0.163)
"""Three digits, as printed; they add up to .999."""

TABLE_1 = (
    (1.00, 1.00, 1.00, 0.36, 1.00),
    (0.97, 1.00, 1.00, 0.59, 1.00),
    (0.94, 0.99, 0.97, 0.83, 0.98),
    (0.95, 0.91, 0.97, 0.89, 0.93),
    (0.92, 0.88, 0.94, 0.92, 0.90),
)
"""Coverage of the class probabilities; a row for each epsilon."""

# Linear regression
FEATURES = 2
NOISE_VARIANCE = 2.0
FEATURE_MEAN = (0.9, -1.17)
COEFFICIENT_SD = 2.0
LOWER, UPPER = -10.0, 10.0
SENSITIVITY = 13.0
"""Delta = p^2 + 3p + 3 at p = 2. Valid but not tight: the exact sensitivity is 9.375."""

COEFFICIENTS = (-1.79, -2.89, -0.66)

TABLE_2 = (
    (0.99, 0.60, 0.99),
    (1.00, 0.66, 0.94),
    (1.00, 0.84, 0.80),
    (1.00, 0.84, 0.75),
    (0.93, 0.87, 0.85),
)
"""Coverage of the coefficients; a row for each epsilon."""

SECONDS_A_CHAIN = {"regression": 330.0, "naive_bayes": 404.0}
"""Time of a chain of 10,000 iterations, on a server with two 64-core processors."""
