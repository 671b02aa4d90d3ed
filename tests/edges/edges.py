"""Numbers at the edges, each against an answer that does not come from the sampler.

``python -m edges.edges``, in `tests`, prints the table of the reliability page: what was tried, and
whether the posterior is right or the setting refused. The answers are closed forms.

**Sums.** x_i ~ N(m, v), v known, m ~ N(0, t^2), and s = sum_i x_i + N(0, r^2), with bounds so wide
that nothing is clamped: s | m ~ N(n m, n v + r^2), so m is normal given s, with precision
1 / t^2 + n^2 / (n v + r^2) and mean n s / (n v + r^2) over it.

**A narrow clamp.** Clamped to [0, w] with w far below sqrt(v), x_i counts as 0 or w, and s / w is a
Binomial(n, Phi(m / sqrt(v))) plus noise: a sum over the counts, and a grid of m.

**Counts.** k is uniform on 0, ..., n if p is, and p | k ~ Beta(1 + k, 1 + n - k): a mixture over k.
With n so large that the noise covers many counts, k is s plus noise and p is k / n.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from scipy import special, stats

import noiseaware as na

FAR = 5.0
"""Monte Carlo errors that a mean or a variance may be off: by chance 6e-7 of the time."""


class Answer(NamedTuple):
    """Mean and standard deviation of a parameter."""

    parameter: str
    mean: float
    sd: float


Setting = Callable[[], tuple[object, na.Release, Answer | None]]


def total(n: int, unit: float = 1.0, noise: float = 5.0, value: float = 0.7) -> Setting:
    """Return a noisy sum of n records of size `unit`, with noise of so many units."""

    def make():
        model = na.models.Normal(mean_sd=unit, variance=unit * unit)
        query = na.queries.Sum(-10.0 * unit, 10.0 * unit)
        mechanism = na.mechanisms.Gaussian(query, scale=noise * unit)
        release = na.Release([value * n * unit], mechanism, n)
        spread = n + noise**2
        precision = 1.0 + n**2 / spread
        mean = n * (value * n) / spread / precision
        return model, release, Answer("mean", unit * mean, unit / math.sqrt(precision))

    return make


def clamped(n: int, width: float) -> Setting:
    """Return a noisy sum of n records that are clamped to [0, width]."""

    def make():
        model = na.models.Normal(mean_sd=1.0, variance=1.0)
        mechanism = na.mechanisms.Gaussian(na.queries.Sum(0.0, width), scale=2.0 * width)
        release = na.Release([0.7 * n * width], mechanism, n)
        m, k = np.linspace(-6.0, 6.0, 4001), np.arange(n + 1)
        seen = stats.norm.pdf(0.7 * n - k, scale=2.0)
        log_p, log_q = special.log_ndtr(m)[:, None], special.log_ndtr(-m)[:, None]
        log_choose = -special.betaln(k + 1, n - k + 1)
        weight = (np.exp(k * log_p + (n - k) * log_q + log_choose) * seen).sum(axis=1)
        weight *= stats.norm.pdf(m)
        weight /= weight.sum()
        mean = float(weight @ m)
        return model, release, Answer("mean", mean, math.sqrt(float(weight @ (m - mean) ** 2)))

    return make


def counted(n: int, scale: float, value: float, mechanism=na.mechanisms.Laplace) -> Setting:
    """Return a noisy count of n records."""

    def make():
        release = na.Release([value], mechanism(na.queries.Count(), scale=scale), n)
        if n > 10**6:
            deviation = math.sqrt(2.0) * scale
            mean = value / n
            sd = math.sqrt((deviation / n) ** 2 + mean * (1.0 - mean) / n)
            return na.models.Bernoulli(), release, Answer("probability", mean, sd)
        k = np.arange(n + 1)
        with np.errstate(over="ignore"):
            log_weight = -np.abs(value - k) / scale
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        means = (1.0 + k) / (2.0 + n)
        squares = means * (2.0 + k) / (3.0 + n)
        mean = float(weight @ means)
        sd = math.sqrt(float(weight @ squares) - mean**2)
        return na.models.Bernoulli(), release, Answer("probability", mean, sd)

    return make


def alike(n: int, away: float) -> Setting:
    """Return a regression on a known feature that is 3 for all records but one."""

    def make():
        features = np.full((n, 1), 3.0)
        features[0] += away
        model = na.models.LinearRegression(features=features, noise_variance=1.0)
        mechanism = na.mechanisms.Gaussian(na.queries.Sum(-60.0, 60.0), scale=2.0)
        release = na.Release([5.0 * n], mechanism, n)
        # b ~ N(0, 4 I) and s ~ N((n, sum of the feature) b, n + 4).
        row, spread = np.array([n, features.sum()]), n + 4.0
        covariance = np.linalg.inv(np.eye(2) / 4.0 + np.outer(row, row) / spread)
        mean = covariance @ row * 5.0 * n / spread
        return model, release, Answer("coefficients", mean[0], math.sqrt(covariance[0, 0]))

    return make


def only(make: Callable[[], object]) -> Setting:
    """Return a setting that cannot be: making it is refused."""

    def refused():
        make()
        raise AssertionError("accepted")

    return refused


laplace, queries = na.mechanisms.Laplace, na.queries
TRIED: dict[str, Setting] = {
    "records of size 1e-12, their sum": total(50, 1e-12),
    "records of size 1e-6": total(50, 1e-6),
    "records of size 1e6": total(50, 1e6),
    "records of size 1e12": total(50, 1e12),
    "a total above 2^53 (1,000 records of size 1e14)": total(1000, 1e14),
    "records of size 1e150": total(50, 1e150),
    "records of size 1e200, whose squares overflow": total(50, 1e200),
    "records of size 1e-310, denormal": total(50, 1e-310),
    "noise of scale 1e-12 on the sum of 50 records": total(50, 1.0, 1e-12),
    "noise of scale 1e12": total(50, 1.0, 1e12),
    "one record": total(1),
    "one record, noise of scale 1e-12": total(1, 1.0, 1e-12),
    "a released sum of exactly 0": total(50, 1.0, 5.0, 0.0),
    "a clamp of width 1e-9": clamped(50, 1e-9),
    "a clamp of width 1e-300": clamped(50, 1e-300),
    "a clamp of width 1e-310, denormal": clamped(50, 1e-310),
    "a clamp of width 0": only(lambda: queries.Sum(1.0, 1.0)),
    "a histogram with two equal edges": only(lambda: queries.Histogram(edges=[0.0, 1.0, 1.0])),
    "a count, noise of scale 1e-12": counted(20, 1e-12, 7.0),
    "a count, noise of scale 1e12": counted(20, 1e12, 7.0),
    "a count, noise of scale 1e-320, denormal": counted(20, 1e-320, 7.0),
    "a count of one record": counted(1, 1.0, 1.0),
    "a count of 10^12 records": counted(10**12, 1e6, 3e11),
    "10^13 records": only(lambda: na.Release([1.0], laplace(queries.Count(), scale=1.0), 10**13)),
    "a released count above 2^53": counted(20, 2.0, 2.0**53 + 2.0, na.mechanisms.DiscreteLaplace),
    "a released sum of 1e17, noise of scale 5": total(50, 1.0, 5.0, 2e15),
    "noise of scale 1e-14 on the sum of 50 records": total(50, 1.0, 1e-14),
    "noise of scale 0": only(lambda: laplace(queries.Count(), scale=0.0)),
    "a released value that is infinite": only(
        lambda: na.Release([math.inf], laplace(queries.Count(), scale=1.0), 9)
    ),
    "one level": only(lambda: na.models.Categorical(1)),
    "identical known features": alike(30, 0.0),
    "known features that differ by 1e-9, in one record": alike(30, 1e-9),
}  # fmt: skip


def outcome(name: str, seed: int = 1, draws: int = 4000) -> str:
    """Return "right", with how far the mean is off, "refused" with the reason, or what is wrong."""
    try:
        model, release, answer = TRIED[name]()
        posterior = na.sample(
            model, release, draws=draws, warmup=500, cores=1, random_seed=seed, progressbar=False
        )
    except (ValueError, TypeError, OverflowError) as error:
        return f"refused: {error}"
    found = posterior["posterior"][answer.parameter].values
    found = found.reshape(*found.shape[:2], -1)[..., 0]
    found = (found - answer.mean) / answer.sd
    squares = (found - found.mean()) ** 2
    size = effective(found)
    off = found.mean() * math.sqrt(size)
    spread = (squares.mean() - 1.0) / squares.std() * math.sqrt(effective(squares))
    right = abs(off) < FAR and abs(spread) < FAR and size > 100
    said = f"mean {off:+.1f}, sd {spread:+.1f} Monte Carlo errors, {size:.0f} effective draws"
    return f"{'right' if right else 'WRONG'}: {said}"


def effective(draws: np.ndarray) -> float:
    """Return the number of effective draws of (chains, draws), at most 1.2 times the draws."""
    found = float(array_stats.ess(draws, chain_axis=0, draw_axis=1, method="mean"))
    return min(found, 1.2 * draws.size)


def main() -> None:
    wrong = False
    print("| tried | outcome |\n|---|---|")
    for name in TRIED:
        found = outcome(name)
        wrong |= found.startswith("WRONG")
        print(f"| {name} | {found} |", flush=True)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
