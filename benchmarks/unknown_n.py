"""The paper's regression with a number of records that nobody has published.

The release of `settings` with 1,000 records, and n in a range of 20% around that; nothing else is
said of n. The nuisance parameters are known, as in the paper. The default call with n known and
unknown, with the same release: R-hat and ESS of the worst of the coefficients and n, and what an
iteration costs next to one with n known, in CPU time.
"""

from __future__ import annotations

import itertools
import time
import warnings
from argparse import Namespace
from typing import Any

import noiseaware as na
from benchmarks import settings, tables

N = 1000
RANGE = na.sizes.Uniform(800, 1200)

MODEL = na.models.LinearRegression(
    2,
    coefficient_sd=settings.COEFFICIENT_SD,
    noise_variance=settings.NOISE_VARIANCE,
    feature_mean=settings.FEATURE_MEAN,
    feature_covariance=settings.FEATURE_COVARIANCE,
)


def run(options: Namespace) -> None:
    """Measure, print and write the table."""
    rows = [
        measure(epsilon, seed)
        for epsilon, seed in itertools.product(
            options.epsilons or ((1.0,) if options.quick else settings.EPSILONS),
            range(1, (options.releases or 1) + 1),
        )
    ]
    title = "The paper's regression, n in 800 to 1,200 (R-hat <= 1.01, ESS >= 400; cost <= 1.5)"
    columns = {"epsilon": "g", "seed": "d", "r_hat": ".3f", "ess_bulk": ".0f", "ess_tail": ".0f"}
    tables.show(title, columns | {"cpu": ".1f", "cost": ".2f"}, rows)
    tables.write(options.out / "unknown_n.csv", rows)


def measure(epsilon: float, seed: int) -> dict[str, Any]:
    """Sample one release with n known and unknown."""
    query = na.queries.RegressionMoments(2, settings.LOWER, settings.UPPER)
    mechanism = na.mechanisms.Laplace(query, scale=settings.regression_scale(epsilon))
    values = settings.regression_release(N, epsilon, seed)
    seconds = []
    for n, size in ((N, None), (None, RANGE)):
        release = na.Release(values, mechanism, n_records=n)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = na.sample(
                MODEL, release, size=size, random_seed=seed, cores=1, progressbar=False
            )
        seconds.append(time.process_time() - start)
    summary = na.summary(posterior)
    return {
        "epsilon": epsilon,
        "seed": seed,
        "r_hat": float(summary["r_hat"].max()),
        "ess_bulk": float(summary["ess_bulk"].min()),
        "ess_tail": float(summary["ess_tail"].min()),
        "cpu": seconds[1],
        "cost": seconds[1] / seconds[0],
    }
