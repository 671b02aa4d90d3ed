"""The paper's regression with an unpublished number of records.

The release of `settings` with 1,000 records, and n uniform within 20% of that. The nuisance
parameters are known, as in the paper. The table has the worst R-hat and ESS of the coefficients and
n in the default call, and the cost of an iteration relative to one with n known, after warm-up:
four chains of each, in turns, in CPU time. `round` compares iterations with all moves; `cost` those
of the call, in which every second iteration may be an almost free antithetic draw, more often if n
is known.
"""

from __future__ import annotations

import itertools
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import noiseaware as na
from benchmarks import measure, settings, tables
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves, make_target
from noiseaware.sampler.moves import Transport

N = 1000
RANGE = na.sizes.Uniform(800, 1200)
CHAINS, WARMUP, ITERATIONS, TURNS = 4, 1000, 100, 7

MODEL = na.models.LinearRegression(
    2,
    coefficient_sd=settings.COEFFICIENT_SD,
    noise_variance=settings.NOISE_VARIANCE,
    feature_mean=settings.FEATURE_MEAN,
    feature_covariance=settings.FEATURE_COVARIANCE,
)


def run(options: Namespace) -> None:
    rows = [
        row(epsilon, seed)
        for epsilon, seed in itertools.product(
            options.epsilons or ((1.0,) if options.quick else settings.EPSILONS),
            range(1, (options.releases or 1) + 1),
        )
    ]
    title = "The paper's regression, n in 800 to 1,200 (R-hat <= 1.01, ESS >= 400; round <= 1.5)"
    columns = {"epsilon": "g", "seed": "d", "r_hat": ".3f", "ess_bulk": ".0f", "ess_tail": ".0f"}
    tables.show(title, columns | {"cpu": ".1f", "round": ".2f", "cost": ".2f"}, rows)
    tables.write(options.out / "unknown_n.csv", rows)


def row(epsilon: float, seed: int) -> dict[str, Any]:
    """Sample one release with n unknown; time iterations with n known and unknown."""
    query = na.queries.RegressionMoments(2, settings.LOWER, settings.UPPER)
    mechanism = na.mechanisms.Laplace(query, scale=settings.regression_scale(epsilon))
    values = settings.regression_release(N, epsilon, seed)
    known, unknown = (na.Release(values, mechanism, n_records=n) for n in (N, None))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = na.sample(
            MODEL, unknown, size=RANGE, random_seed=seed, cores=1, progressbar=False
        )
    seconds = time.process_time() - start
    rivals = {"known": iterations(known, None, seed), "unknown": iterations(unknown, RANGE, seed)}
    times = measure.interleave(rivals, TURNS, time.process_time)
    with mock.patch.object(Transport, "antithetic", all_moves):
        rounds = measure.interleave(rivals, TURNS, time.process_time)
    summary = na.summary(posterior)
    return {
        "epsilon": epsilon,
        "seed": seed,
        "r_hat": float(summary["r_hat"].max()),
        "ess_bulk": float(summary["ess_bulk"].min()),
        "ess_tail": float(summary["ess_tail"].min()),
        "cpu": seconds,
        "round": measure.ratio(rounds["unknown"], rounds["known"])[0],
        "cost": measure.ratio(times["unknown"], times["known"])[0],
    }


def all_moves(*_: Any) -> bool:
    return False


def iterations(release: na.Release, size: Any, seed: int) -> Callable[[], None]:
    """Return a function that advances warmed-up chains a little."""
    target = make_target(MODEL, release, None, size)
    moves, schedule = default_moves(target), chain.Schedule(WARMUP, 10**9)
    states = []
    for k in range(CHAINS):
        state = chain.start(target, moves, np.random.Generator(np.random.SFC64([seed, k])))
        states.append(chain.advance(target, moves, schedule, state, WARMUP)[0])

    def call() -> None:
        for state in states:
            chain.advance(target, moves, schedule, state, ITERATIONS)

    return call
