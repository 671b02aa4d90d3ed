"""The setting of the particle filter for private data (DP-PF), with noiseaware's default call.

Simple linear regression with everything unknown (arXiv 2505.00877, github.com/psanghi04/DP-PF,
conjugate priors, simulated release): x ~ N(1, 1), y = 2 x + N(0, 1), both clamped to [-5, 5] and
divided by 5, and the sums of y, x y, y^2, x and x^2 with Laplace noise of scale 8 / epsilon. The
priors: mean of x ~ N(0, 1), its precision ~ chi-square(2), precision of the noise tau ~ Gamma(1,
1), coefficients given tau ~ N(0, I / tau).

The published figures are seconds per effective draw of the slope, averaged over 100 simulations:
DP-PF with particles in parallel on up to 100 cores, and data augmentation in R on one core. Here it
is the wall-clock time of `na.sample`, with four chains in one process on one core and without
compilation, divided by the bulk ESS of the slope. The machines differ: a factor of two means
nothing, a factor of a hundred does.
"""

from __future__ import annotations

import math
import time
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import measure, tables

PUBLISHED = {
    (0.1, 100): (1.72, 12.64), (0.1, 500): (1.06, 117.01),
    (0.5, 100): (1.11, 8.66), (0.5, 500): (1.23, 43.82),
    (1.0, 100): (0.61, 4.44), (1.0, 500): (3.15, 35.34),
    (2.0, 100): (0.54, 3.14), (2.0, 500): (13.27, 27.80),
}  # fmt: skip
"""(epsilon, n) -> seconds per effective draw: DP-PF, and data augmentation in R. From
linear_regression/visuals/rand_sdp_conjugate_comparison_table.tex in its repository."""

TRUTH = {"mean": 1.0, "precision": 1.0, "tau": 1.0, "coefficients": np.array([0.0, 2.0])}


class Conjugate:
    """The model of the paper: the noise's precision scales the prior of the coefficients."""

    parameters = (
        na.Parameter("mean"),
        na.Parameter("precision", (), "positive"),
        na.Parameter("tau", (), "positive"),
        na.Parameter("coefficients", (2,)),
    )
    innovations = na.Innovations("normal", 2)

    def sample_prior(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw theta."""
        tau = rng.gamma(1.0)
        return {
            "mean": rng.normal(),
            "precision": rng.chisquare(2),
            "tau": tau,
            "coefficients": rng.normal(size=2) / math.sqrt(tau),
        }

    def log_prior(self, theta: dict[str, Any]) -> float:
        """Return log p(theta), up to a constant."""
        tau, beta = float(theta["tau"]), theta["coefficients"]
        return (
            -0.5 * float(theta["mean"]) ** 2 - 0.5 * float(theta["precision"])
            - tau + math.log(tau) - 0.5 * tau * float(beta @ beta)
        )  # fmt: skip

    def build_records(self, theta: dict[str, Any], u: Any) -> Any:
        """Return the records F(u; theta)."""
        x = theta["mean"] + u[:, 0] / np.sqrt(theta["precision"])
        beta = theta["coefficients"]
        return np.column_stack([x, beta[0] + beta[1] * x + u[:, 1] / np.sqrt(theta["tau"])])

    def recover_innovations(self, theta: dict[str, Any], records: Any, rng: Any) -> Any:
        """Return u with F(u; theta) = x."""
        x, y = records.T
        beta = theta["coefficients"]
        first = (x - theta["mean"]) * np.sqrt(theta["precision"])
        return np.column_stack([first, (y - beta[0] - beta[1] * x) * np.sqrt(theta["tau"])])

    def update_parameters(self, theta: dict[str, Any], records: Any, rng: Any) -> dict[str, Any]:
        """Draw mean given precision, precision given mean, and (tau, coefficients) together."""
        x, y = records.T
        n, precision = len(x), float(theta["precision"])
        mean = rng.normal(precision * x.sum() / (1 + n * precision), (1 + n * precision) ** -0.5)
        precision = rng.gamma(1 + n / 2) / (0.5 + ((x - mean) ** 2).sum() / 2)
        design = np.column_stack([np.ones(n), x])
        inner = design.T @ design + np.eye(2)
        centre = np.linalg.solve(inner, design.T @ y)
        tau = rng.gamma(1 + n / 2) / (1 + (y @ y - centre @ inner @ centre) / 2)
        factor = np.linalg.cholesky(np.linalg.inv(inner) / tau)
        return {
            "mean": mean,
            "precision": precision,
            "tau": tau,
            "coefficients": centre + factor @ rng.normal(size=2),
        }


def release(n: int, epsilon: float, seed: int) -> na.Release:
    rng = np.random.default_rng(seed)
    records = Conjugate().build_records(TRUTH, rng.normal(size=(n, 2)))
    query = na.queries.RegressionMoments(1, -5.0, 5.0)
    return na.mechanisms.Laplace(query, scale=8.0 / epsilon).privatize(records, rng)


def run(options: Namespace) -> None:
    releases = options.releases or (1 if options.quick else 5)
    grid = [
        (epsilon, n)
        for epsilon, n in PUBLISHED
        if n in (options.sizes or (100, 500)) and epsilon in (options.epsilons or (0.1, 0.5, 1, 2))
    ]
    model = Conjugate()
    na.sample(model, release(100, 1.0, 0), draws=50, warmup=50, cores=1, progressbar=False)
    rows = []
    for epsilon, n in grid[:1] if options.quick else grid:
        found = []
        for seed in range(1, releases + 1):
            data = release(n, epsilon, seed)
            start = time.perf_counter()
            result = na.sample(model, data, cores=1, random_seed=seed, progressbar=False)
            seconds = time.perf_counter() - start
            slope = result["posterior"]["coefficients"].to_numpy()[..., 1:]
            everything = [result["posterior"][p.name].to_numpy() for p in model.parameters]
            found.append(
                (
                    seconds / measure.smallest_ess(slope),
                    seconds,
                    max(map(measure.largest_rhat, everything)),
                )
            )
        each, seconds, rhat = np.array(found).T
        filter_, augmentation = PUBLISHED[epsilon, n]
        rows.append(
            {
                "epsilon": epsilon,
                "n": n,
                "releases": releases,
                "seconds a call": np.median(seconds),
                "worst R-hat": rhat.max(),
                "seconds a draw": np.median(each),
                "DP-PF": filter_,
                "augmentation in R": augmentation,
                "DP-PF / here": filter_ / np.median(each),
                "R / here": augmentation / np.median(each),
            }
        )
    tables.show(
        "Seconds for an effective draw of the slope: noiseaware on one core, and as published",
        {"epsilon": "g", "n": "d", "releases": "d", "seconds a call": ".1f", "worst R-hat": ".3f",
         "seconds a draw": ".5f", "DP-PF": ".2f", "augmentation in R": ".2f",
         "DP-PF / here": ",.0f", "R / here": ",.0f"},
        rows,
    )  # fmt: skip
    tables.write(options.out / "dp_pf.csv", rows)
