"""The cost per record of a sweep with a joint mechanism, relative to additive Laplace noise.

Targets: at most 10 times for the exponential mechanism with 50 outputs, and at most 20 times for
objective perturbation with 5 parameters.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, tables
from noiseaware.sampler import chain
from noiseaware.sampler.target import Target


def run(options: Namespace) -> None:
    mechanisms, queries, models = na.mechanisms, na.queries, na.models
    categories = models.Categorical(50)
    regression = models.LinearRegression(4)
    histogram = queries.Histogram(n_levels=50)
    moments = mechanisms.Laplace(queries.RegressionMoments(4, -5, 5), epsilon=1.0)
    loss = mechanisms.ObjectivePerturbation(mechanisms.LinearLoss(4, -5, 5), 1.0, scale=1.0)
    pairs = {
        "exponential, 50 outputs": (
            categories,
            mechanisms.Exponential(histogram, epsilon=1.0),
            mechanisms.Laplace(histogram, epsilon=1.0),
            "<= 10",
        ),
        "objective perturbation, 5 parameters": (regression, loss, moments, "<= 20"),
    }
    rows = []
    with measure.one_core():
        for name, (model, joint, additive, target) in pairs.items():
            for n in (100, 1_000):
                count = (200_000 if options.quick else 1_000_000) // (10 * n)
                seconds = measure.interleave(
                    {
                        "joint": sweeps(model, joint, n, count),
                        "laplace": sweeps(model, additive, n, count),
                    },
                    3 if options.quick else 9,
                    time.process_time,
                )
                ratio = measure.ratio(seconds["joint"], seconds["laplace"])
                rows.append(
                    {
                        "mechanism": name,
                        "n": n,
                        "ns a record": float(np.median(seconds["joint"])) / count / n * 1e9,
                        "Laplace": float(np.median(seconds["laplace"])) / count / n * 1e9,
                        "ratio": ratio.median,
                        "lowest": ratio.lowest,
                        "highest": ratio.highest,
                        "target": target,
                    }
                )
    columns = dict.fromkeys(("ratio", "lowest", "highest"), ".2f")
    tables.show(
        "A sweep of the records, against additive Laplace noise on the same model",
        {
            "mechanism": "",
            "n": ",",
            "ns a record": ".0f",
            "Laplace": ".0f",
            **columns,
            "target": "",
        },
        rows,
    )
    tables.write(options.out / "mechanisms.csv", rows)


def sweeps(model: Any, mechanism: Any, n: int, count: int) -> Callable[[], object]:
    """Return a function that runs `count` sweeps through n records."""
    rng = np.random.Generator(np.random.SFC64(1))
    records = model.sample_records(model.sample_prior(rng), n, rng)
    target = Target(model, mechanism.privatize(records, rng))
    moves = (na.moves.RecordSweep(),)
    schedule = chain.Schedule(0, 10**9)
    state, _ = chain.advance(target, moves, schedule, chain.start(target, moves, rng), 5)
    return lambda: chain.advance(target, moves, schedule, state, count)
