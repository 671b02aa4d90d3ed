"""The cost of a user's own model: a plain NumPy regression against the built-in one.

The release, the default moves and the number of iterations are the same. The target: an iteration
costs at most 6 times that of the compiled model at n = 100, and at most 2.5 times at n = 10,000.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, settings, tables
from benchmarks.subjects import subject
from noiseaware.running.run import pick_moves
from noiseaware.sampler import chain
from noiseaware.sampler.target import Target

TARGETS = {100: 6.0, 10_000: 2.5}
EPSILON = 1.0


class Regression:
    """Linear regression with unknown coefficients, as an analyst would write it in NumPy."""

    parameters = (na.Parameter("coefficients", (3,)),)
    innovations = na.Innovations("normal", 3)

    def __init__(self) -> None:
        self.mean = np.asarray(settings.FEATURE_MEAN, dtype=float)
        self.factor = np.linalg.cholesky(np.asarray(settings.FEATURE_COVARIANCE, dtype=float))
        self.sd = settings.NOISE_VARIANCE**0.5
        self.prior_sd = settings.COEFFICIENT_SD

    def sample_prior(self, rng):
        """Draw theta from the prior."""
        return {"coefficients": self.prior_sd * rng.standard_normal(3)}

    def log_prior(self, theta):
        """Return log p(theta), up to a constant."""
        beta = theta["coefficients"]
        return -0.5 * (beta @ beta) / self.prior_sd**2

    def build_records(self, theta, innovations):
        """Return the features and the response built from normal innovations."""
        (m1, m2), ((a, _), (b, c)), beta = self.mean, self.factor, theta["coefficients"]
        u1, u2, u3 = innovations.T
        x1 = m1 + a * u1
        x2 = m2 + b * u1 + c * u2
        return np.column_stack([x1, x2, beta[0] + beta[1] * x1 + beta[2] * x2 + self.sd * u3])

    def recover_innovations(self, theta, records, rng):
        """Return the innovations of these records."""
        (m1, m2), ((a, _), (b, c)), beta = self.mean, self.factor, theta["coefficients"]
        x1, x2, y = records.T
        u1 = (x1 - m1) / a
        u2 = (x2 - m2 - b * u1) / c
        return np.column_stack([u1, u2, (y - beta[0] - beta[1] * x1 - beta[2] * x2) / self.sd])

    def sample_records(self, theta, n, rng):
        """Draw n records."""
        return self.build_records(theta, rng.standard_normal((n, 3)))

    def update_parameters(self, theta, records, rng):
        """Draw the coefficients from their full conditional."""
        design = np.column_stack([np.ones(len(records)), records[:, :2]])
        precision = design.T @ design / self.sd**2 + np.eye(3) / self.prior_sd**2
        mean = np.linalg.solve(precision, design.T @ records[:, 2] / self.sd**2)
        factor = np.linalg.cholesky(precision)
        return {"coefficients": mean + np.linalg.solve(factor.T, rng.standard_normal(3))}


def run(options: Namespace) -> None:
    rows = []
    with measure.one_core():
        for n, target in TARGETS.items():
            ready = subject("regression", n, EPSILON, 1)
            count = (200 if options.quick else 1000) if n <= 1000 else 20 if options.quick else 100
            seconds = measure.interleave(
                {
                    "NumPy": iterations(Regression(), ready.release, count),
                    "built-in": iterations(ready.model, ready.release, count),
                },
                3 if options.quick else 9,
                time.process_time,
            )
            ratio = measure.ratio(seconds["NumPy"], seconds["built-in"])
            rows.append(
                {
                    "n": n,
                    "NumPy, us": float(np.median(seconds["NumPy"])) / count * 1e6,
                    "built-in, us": float(np.median(seconds["built-in"])) / count * 1e6,
                    "ratio": ratio.median,
                    "lowest": ratio.lowest,
                    "highest": ratio.highest,
                    "target": f"<= {target:g}",
                }
            )
    tables.show(
        "An iteration with a plain NumPy regression, against the built-in model",
        {
            "n": ",",
            "NumPy, us": ".0f",
            "built-in, us": ".0f",
            **dict.fromkeys(("ratio", "lowest", "highest"), ".2f"),
            "target": "",
        },
        rows,
    )
    tables.write(options.out / "own_model.csv", rows)


def iterations(model: Any, release: Any, count: int) -> Callable[[], object]:
    """Return a function that runs `count` iterations of the default moves, after warm-up.

    Both models draw the same random numbers in the same order, so both chains learn the same tuning
    and take the same steps.
    """
    target = Target(model, release)
    moves = pick_moves(None, target)
    warmup = 300
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(1)))
    schedule = chain.Schedule(warmup, 10**9)
    state, _ = chain.advance(target, moves, schedule, state, warmup)
    return lambda: chain.advance(target, moves, schedule, state, count)
