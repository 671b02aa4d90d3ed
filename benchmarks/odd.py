"""The default call in settings for which it was not tuned, against an answer without chains.

Every ready model with usual and odd priors; 1, 2, 5 and 20 records; releases with much, usual and
little noise, at a total that is plausible under the model and at one far away. The answer comes
from importance sampling: theta and the total of its records are drawn from the prior, by the
model's own `sample_prior` and `sample_records`, and weighted by g(s_dp, T). The comparison is of
the probabilities that a parameter lies below its 5, 25, 50, 75 and 95% quantiles. A run is *off* if
one of them differs by more than five standard errors (of the chains and the answer combined), and
*green* if `na.check` passes. Cells with too few effective prior draws (`LEAST`) are left out.

The target: no run is both green and off. Results on file are not measured again (``--fresh``
discards them).

``--releases 100`` uses 100 random settings (`anything.py`) instead of the grid;
``--examples NaiveBayes,TwoMeans`` selects models.
"""

from __future__ import annotations

import itertools
import warnings
from argparse import Namespace
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import noiseaware as na
from benchmarks import anything, tables

SIZES = (1, 2, 5, 20)
DRAWS = 60_000
LEAST = 300.0
"""The smallest number of effective prior draws for an answer."""
NOISES = {"much": 5.0, "usual": 1.0, "little": 0.2}
"""Scale of the noise, in (robust) standard deviations of the total under the prior."""
PLACES = ("likely", "far")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
KEYS = ("n", "model", "noise", "place")

M, Q = na.models, na.queries


def halves(n: int) -> list[int]:
    """Return the sizes of two groups with n records in total; the second may be empty."""
    return [n - n // 2, n // 2]


EXAMPLES: dict[str, Any] = {
    "Bernoulli": lambda n: (M.Bernoulli(), Q.Count()),
    "Bernoulli (sparse)": lambda n: (M.Bernoulli(0.05, 0.3), Q.Count()),
    "Categorical (sparse)": lambda n: (M.Categorical(3, 0.05), Q.Histogram(n_levels=3)),
    "ContingencyTable (sparse)": lambda n: (
        M.ContingencyTable([2, 2], 0.1),
        Q.Margins([2, 2], [[0], [1]]),
    ),
    "NaiveBayes (sparse)": lambda n: (
        M.NaiveBayes(2, (2, 2), 0.2),
        Q.ClassFeatureCounts(2, (2, 2)),
    ),
    "TwoProportions (sparse)": lambda n: (
        M.TwoProportions(halves(n), 0.1, 0.1),
        Q.ByGroup(Q.Count(), 2),
    ),
    "StratifiedProportions (wide)": lambda n: (
        M.StratifiedProportions(halves(n), location_sd=8.0, spread_scale=8.0),
        Q.ByGroup(Q.Count(), 2),
    ),
    "Normal": lambda n: (M.Normal(mean_sd=3.0), Q.Sum(-5.0, 5.0)),
    "Normal (heavy)": lambda n: (
        M.Normal(mean_sd=100.0, variance_shape=0.2, variance_scale=0.1),
        Q.Sum(-5.0, 5.0),
    ),
    "Normal (histogram)": lambda n: (
        M.Normal(variance_shape=0.5, variance_scale=5.0),
        Q.Histogram(edges=[-4.0, -1.0, 1.0, 4.0]),
    ),
    "MultivariateNormal": lambda n: (M.MultivariateNormal(2, mean_sd=2.0), Q.Moments(2, -3.0, 3.0)),
    "TwoMeans (heavy)": lambda n: (
        M.TwoMeans(halves(n), variance_shape=0.3, variance_scale=0.3),
        Q.ByGroup(Q.Sum(-5.0, 5.0), 2),
    ),
    "StratifiedMeans (wide)": lambda n: (
        M.StratifiedMeans(halves(n), spread_scale=20.0, variance_shape=0.5, variance_scale=0.5),
        Q.ByGroup(Q.Sum(-5.0, 5.0), 2),
    ),
    "Exponential": lambda n: (M.Exponential(0.3, 0.1), Q.Sum(0.0, 10.0)),
    "Gamma": lambda n: (M.Gamma(), Q.Sum(0.0, 10.0)),
    "Gamma (small shapes)": lambda n: (
        M.Gamma(shape_shape=0.3, shape_rate=1.0, rate_shape=0.5, rate_rate=0.5),
        Q.Histogram(edges=[0.0, 0.1, 1.0, 10.0]),
    ),
    "Dirichlet": lambda n: (M.Dirichlet(3), Q.Shares(3)),
    "Dirichlet (sparse)": lambda n: (
        M.Dirichlet(3, 0.2, precision_shape=0.3, precision_rate=0.1),
        Q.Shares(3, squares=True),
    ),
    "Poisson": lambda n: (M.Poisson(0.1, 0.01), Q.Sum(0, 20, integer_valued=True)),
    "NegativeBinomial": lambda n: (
        M.NegativeBinomial(0.2, 0.05, dispersion_shape=0.3, dispersion_rate=0.1),
        Q.Sum(0, 20, integer_valued=True),
    ),
    "LinearRegression": lambda n: (M.LinearRegression(1), Q.RegressionMoments(1, -5.0, 5.0)),
    "LinearRegression (heavy)": lambda n: (
        M.LinearRegression(
            1, coefficient_sd=20.0, noise_variance_shape=0.3, noise_variance_scale=0.1
        ),
        Q.RegressionMoments(1, -5.0, 5.0),
    ),
    "LogisticRegression (wide)": lambda n: (
        M.LogisticRegression(1, coefficient_sd=10.0),
        Q.RegressionMoments(1, [-4.0, 0.0], [4.0, 1.0]),
    ),
    "PoissonRegression": lambda n: (
        M.PoissonRegression(1),
        Q.RegressionMoments(1, [-4.0, 0.0], [4.0, 15.0]),
    ),
}


def run_random(options: Namespace) -> None:
    path = options.out / "odd_random.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    rows = tables.read(path)
    done = {(row["seed"], row["of"]) for row in rows}
    names = options.examples or tuple(anything.MAKERS)
    of = ",".join(options.examples or ["all"])
    for seed in range(options.releases):
        if (seed, of) in done:
            continue
        setting = anything.draw_setting(seed, names)
        theta, weights, enough = anything.reference(setting, DRAWS, np.random.default_rng(seed))
        found: dict[str, Any] = {"errors": 0.0, "where": "too few", "green": "", "r_hat": 1.0}
        if enough >= LEAST:
            found = compare(setting.model, setting.release, theta, weights, setting.size)
        rows.append({"seed": seed, "of": of, "setting": setting.words, "prior": enough} | found)
        tables.append(path, rows[-1])
    tables.show(
        "The default call at random settings against importance sampling from the prior",
        {"seed": "d", "setting": "", "prior": ".0f", "errors": ".1f", "where": "", "green": ""}
        | {"r_hat": ".3f"},
        rows,
    )


def run(options: Namespace) -> None:
    if options.releases:
        run_random(options)
        return
    path = options.out / "odd.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    rows = tables.read(path)
    done = {tuple(row[key] for key in KEYS) for row in rows}
    names = [name for name in EXAMPLES if not options.examples or name in options.examples]
    for n, name in itertools.product(options.sizes or SIZES, names):
        cells = [(noise, place) for noise in options.parts or NOISES for place in PLACES]
        cells = [cell for cell in cells if (n, name, *cell) not in done]
        if cells and (n > 1 or "halves" not in EXAMPLES[name].__code__.co_names):
            for row in measure(*EXAMPLES[name](n), n, cells):
                rows.append(dict(zip(KEYS, (n, name, *row.pop("cell")), strict=True)) | row)
                tables.append(path, rows[-1])
    tables.show(
        "The default call against importance sampling from the prior",
        {"n": "d", "model": "", "noise": "", "place": "", "prior": ".0f", "errors": ".1f"}
        | {"where": "", "green": "", "r_hat": ".3f"},
        rows,
    )


def measure(model: Any, query: Any, n: int, cells: list[tuple[str, str]]) -> list[dict[str, Any]]:
    rng = np.random.default_rng([7, n])
    drawn, totals = [], []
    with np.errstate(all="ignore"):
        for _ in range(DRAWS):
            theta = model.sample_prior(rng)
            drawn.append(np.concatenate([np.ravel(theta[p.name]) for p in model.parameters]))
            totals.append(query.statistic(model.sample_records(theta, n, rng)).sum(axis=0))
    theta, total = np.stack(drawn), np.stack(totals)
    low, middle, high = np.quantile(total, (0.16, 0.5, 0.84), axis=0)
    unit = float(np.mean(high - low)) / 2 or float(total.std()) or 1.0
    rows = []
    for noise, place in cells:
        scale = NOISES[noise] * unit
        released = total[n] if place == "likely" else middle + 3.0 * (high - low + scale)
        log_weights = -np.abs(total - released).sum(axis=1) / scale
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        enough = 1.0 / float(weights @ weights)
        row: dict[str, Any] = {"cell": (noise, place), "prior": enough}
        found: dict[str, Any] = {"errors": 0.0, "where": "too few", "green": "", "r_hat": 1.0}
        if enough >= LEAST:
            release = na.Release(released, na.mechanisms.Laplace(query, scale=scale), n_records=n)
            found = compare(model, release, theta, weights)
        rows.append(row | found)
    return rows


def compare(
    model: Any, release: Any, theta: np.ndarray, weights: np.ndarray, size: Any = None
) -> dict[str, Any]:
    """Sample with the defaults and return the largest difference.

    An unknown n is the last column of theta. Probabilities that floats cannot distinguish from 0 or
    1 count as 0 or 1.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = na.sample(model, release, size=size, random_seed=1, cores=1, progressbar=False)
        if not posterior.attrs["complete"]:
            raise KeyboardInterrupt  # stopped while it ran: no result
        green = all(v.passed for v in na.check(posterior).verdicts if "prior" not in v.name)
        r_hat = float(na.summary(posterior)["r_hat"].max())
    draws, names = [], []
    for p in model.parameters:
        values = posterior["posterior"][p.name].to_numpy()
        values = values.reshape(*values.shape[:2], -1)
        draws.append(values)
        names += [f"{p.name}[{j}]" for j in range(values.shape[2])]
    if theta.shape[1] > len(names):
        counted = posterior["posterior"]["counts" if size is None else "n_records"].to_numpy()
        draws.append(counted.reshape(*counted.shape[:2], -1).sum(axis=2, keepdims=True))
        names.append("n")
    worst, theta = (0.0, ""), theta.round(12)
    for j, values in enumerate(np.moveaxis(np.concatenate(draws, axis=2).round(12), 2, 0)):
        order = np.argsort(theta[:, j])
        steps = np.cumsum(weights[order])
        for quantile in QUANTILES:
            cut = theta[order[min(int(np.searchsorted(steps, quantile)), len(order) - 1)], j]
            below = theta[:, j] < cut
            exactly = float(weights @ below)
            error = float(weights**2 @ (below - exactly) ** 2)
            seen = (values < cut).astype(float)
            spread = float(seen.std())
            effective = float(array_stats.ess(seen, method="mean")) if spread else seen.size / 10
            own = max(spread**2, 0.0 if spread else exactly * (1.0 - exactly)) / effective
            z = abs(float(seen.mean()) - exactly) / np.sqrt(own + error + 1e-8)
            where = f"P({names[j]} < {cut:.3g}) {seen.mean():.3f} for {exactly:.3f}"
            worst = max(worst, (float(z), where))
    return {"errors": worst[0], "where": worst[1], "green": str(green), "r_hat": r_hat}
