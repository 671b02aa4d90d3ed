# ruff: noqa: NPY002 (inside njit, np.random is numba's own generator)
"""The paper's Algorithm 1 as hand-fused compiled loops: a yardstick for its cost.

One numba loop per model contains everything (random numbers, model, statistic, mechanism, accept
step) and serves as the comparison for a general sampler that does the same work. The loops are
exact samplers, so draws can be compared too.

One iteration, in the order of Algorithm 1 of Ju, Awan, Gong and Rao (2022):

Regression
    One pass over the n records for x'x and x'y (the conjugate draw) and for the total of the 9
    clamped statistics, which is thus recomputed exactly once per sweep. A 3 x 3 Cholesky factor and
    the draw of beta | x. Then for every record: three normals and a proposal from f(. | beta); the
    9 statistics of the proposal and of the current record; log g of the new total over all 9
    coordinates; one uniform and one exp.
Naive Bayes
    One pass over the records to count the classes and the I x K x J table (both the sufficient
    statistic and the query's total). 1 + I K Dirichlet draws as gammas (80 gammas in the paper's
    setting), and their cumulative sums. Then for every record: 1 + K uniforms and inverse CDFs;
    log g only in the cells that change (a feature that stays in its cell costs a comparison); one
    uniform and one exp.

Every iteration stores the parameters and the share of accepted records, but not the acceptance by
record or the smallest acceptance probability.

The loops are no lower bound: at n = 100, the 300 normals of numba's Mersenne Twister (polar method)
take about two thirds of a regression iteration; with NumPy's ziggurat normals, drawn in bulk, the
same loop took half the time (6.4 instead of 12.8 us).

``python -m benchmarks.fused`` prints the time per iteration.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks import settings


class RegressionDraws(NamedTuple):
    """Draws of the fused regression loop, one row per iteration."""

    coefficients: NDArray[np.float64]  # (iterations, 3), intercept first
    acceptance: NDArray[np.float64]  # (iterations,) share of the n proposals accepted


class NaiveBayesDraws(NamedTuple):
    """Draws of the fused naive Bayes loop, one row per iteration."""

    class_probabilities: NDArray[np.float64]  # (iterations, I)
    feature_probabilities: NDArray[np.float64]  # (iterations, I, K, J)
    acceptance: NDArray[np.float64]  # (iterations,) share of the n proposals accepted


def regression(
    values: NDArray[np.float64], n: int, scale: float, iterations: int, seed: int
) -> RegressionDraws:
    """Run Algorithm 1 on the paper's regression (see `settings`).

    Parameters
    ----------
    values : (9,)
        The released moments, in the order of `settings.regression_statistic`.
    n
        Number of records.
    scale
        Scale of the Laplace noise.
    iterations
        Number of iterations; all are returned, the first ones are not burnt in.
    seed
        Seed of numba's generator for this thread (NumPy's own is not touched).
    """
    slope = 2.0 / (settings.UPPER - settings.LOWER)
    return RegressionDraws(
        *_regression(
            np.ascontiguousarray(values, dtype=np.float64),
            n,
            1.0 / scale,
            iterations,
            seed,
            settings.FEATURE_MEAN[0],
            settings.FEATURE_MEAN[1],
            np.sqrt(settings.NOISE_VARIANCE),
            settings.COEFFICIENT_SD,
            settings.LOWER,
            settings.UPPER,
            slope,
            -settings.LOWER * slope - 1.0,
        )
    )


@njit(cache=True)
def _statistic(x1, x2, y, lower, upper, slope, shift):
    a = min(max(x1, lower), upper) * slope + shift
    b = min(max(x2, lower), upper) * slope + shift
    c = min(max(y, lower), upper) * slope + shift
    return c, a * c, b * c, c * c, a, b, a * a, a * b, b * b


@njit(cache=True)
def _add(s, t):
    return (
        s[0] + t[0], s[1] + t[1], s[2] + t[2], s[3] + t[3], s[4] + t[4],
        s[5] + t[5], s[6] + t[6], s[7] + t[7], s[8] + t[8],
    )  # fmt: skip


@njit(cache=True)
def _replace(s, old, new):
    return (
        s[0] - old[0] + new[0], s[1] - old[1] + new[1], s[2] - old[2] + new[2],
        s[3] - old[3] + new[3], s[4] - old[4] + new[4], s[5] - old[5] + new[5],
        s[6] - old[6] + new[6], s[7] - old[7] + new[7], s[8] - old[8] + new[8],
    )  # fmt: skip


@njit(cache=True)
def _log_g(v, s, inverse_scale):
    # Two sums, so that additions need not wait for one another.
    even = abs(v[0] - s[0]) + abs(v[2] - s[2]) + abs(v[4] - s[4]) + abs(v[6] - s[6])
    odd = abs(v[1] - s[1]) + abs(v[3] - s[3]) + abs(v[5] - s[5]) + abs(v[7] - s[7])
    return -(even + odd + abs(v[8] - s[8])) * inverse_scale


@njit(cache=True)
def _regression(
    values, n, inverse_scale, iterations, seed, m1, m2, sigma, tau, lower, upper, slope, shift
):
    np.random.seed(seed)
    v = (
        values[0], values[1], values[2], values[3], values[4],
        values[5], values[6], values[7], values[8],
    )  # fmt: skip
    draws = np.empty((iterations, 3))
    acceptance = np.empty(iterations)
    records = np.empty((n, 3))
    weight = 1.0 / (sigma * sigma)
    prior_precision = 1.0 / (tau * tau)

    # Start from the prior and the model.
    b0 = tau * np.random.standard_normal()
    b1 = tau * np.random.standard_normal()
    b2 = tau * np.random.standard_normal()
    for i in range(n):
        x1 = m1 + np.random.standard_normal()
        x2 = m2 + np.random.standard_normal()
        records[i, 0] = x1
        records[i, 1] = x2
        records[i, 2] = b0 + b1 * x1 + b2 * x2 + sigma * np.random.standard_normal()

    for iteration in range(iterations):
        # Step 1, beta | x ~ N(A^-1 x'y / sigma^2, A^-1) with A = x'x / sigma^2 + I / tau^2.
        total = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        s1 = s2 = s11 = s12 = s22 = sy = s1y = s2y = 0.0
        for i in range(n):
            x1, x2, y = records[i, 0], records[i, 1], records[i, 2]
            s1 += x1
            s2 += x2
            s11 += x1 * x1
            s12 += x1 * x2
            s22 += x2 * x2
            sy += y
            s1y += x1 * y
            s2y += x2 * y
            total = _add(total, _statistic(x1, x2, y, lower, upper, slope, shift))
        # Cholesky factor of A, then the two triangular solves with the normals in between.
        l00 = np.sqrt(n * weight + prior_precision)
        l10 = s1 * weight / l00
        l20 = s2 * weight / l00
        l11 = np.sqrt(s11 * weight + prior_precision - l10 * l10)
        l21 = (s12 * weight - l20 * l10) / l11
        l22 = np.sqrt(s22 * weight + prior_precision - l20 * l20 - l21 * l21)
        w0 = sy * weight / l00
        w1 = (s1y * weight - l10 * w0) / l11
        w2 = (s2y * weight - l20 * w0 - l21 * w1) / l22
        b2 = (w2 + np.random.standard_normal()) / l22
        b1 = (w1 + np.random.standard_normal() - l21 * b2) / l11
        b0 = (w0 + np.random.standard_normal() - l10 * b1 - l20 * b2) / l00

        # Step 2, a sweep of x_i | x_-i, beta, s_dp.
        log_g = _log_g(v, total, inverse_scale)
        accepted = 0
        for i in range(n):
            x1 = m1 + np.random.standard_normal()
            x2 = m2 + np.random.standard_normal()
            y = b0 + b1 * x1 + b2 * x2 + sigma * np.random.standard_normal()
            new = _statistic(x1, x2, y, lower, upper, slope, shift)
            old = _statistic(
                records[i, 0], records[i, 1], records[i, 2], lower, upper, slope, shift
            )
            proposed_total = _replace(total, old, new)
            proposed_log_g = _log_g(v, proposed_total, inverse_scale)
            difference = proposed_log_g - log_g
            if np.random.random() < np.exp(difference):
                records[i, 0] = x1
                records[i, 1] = x2
                records[i, 2] = y
                total = proposed_total
                log_g = proposed_log_g
                accepted += 1
        draws[iteration, 0] = b0
        draws[iteration, 1] = b1
        draws[iteration, 2] = b2
        acceptance[iteration] = accepted / n
    return draws, acceptance


def naive_bayes(
    values: NDArray[np.float64],
    n: int,
    scale: float,
    iterations: int,
    seed: int,
    *,
    n_classes: int = settings.N_CLASSES,
    n_features: int = settings.N_FEATURES,
    n_levels: int = settings.N_LEVELS,
    concentration: float = settings.CONCENTRATION,
) -> NaiveBayesDraws:
    """Run Algorithm 1 on the naive Bayes model (by default with the paper's sizes).

    Parameters
    ----------
    values : (n_classes * n_features * n_levels,)
        The released counts: class first, then feature, then level.
    n, scale, iterations, seed
        As in `regression`.
    n_classes, n_features, n_levels
        I, K and J of the paper.
    concentration
        Of the Dirichlet prior on every probability vector.
    """
    p, q, acceptance = _naive_bayes(
        np.ascontiguousarray(values, dtype=np.float64),
        n_classes,
        n_features,
        n_levels,
        n,
        1.0 / scale,
        iterations,
        seed,
        float(concentration),
    )
    return NaiveBayesDraws(p, q.reshape(iterations, n_classes, n_features, n_levels), acceptance)


@njit(cache=True)
def _dirichlets(concentration, counts, size, probabilities, cumulative):
    # Normalised gammas, one vector for each `size` entries; the cumulative sums serve the
    # inverse CDF of the sweep.
    for start in range(0, counts.shape[0], size):
        total = 0.0
        for j in range(start, start + size):
            probabilities[j] = np.random.standard_gamma(concentration + counts[j])
            total += probabilities[j]
        running = 0.0
        for j in range(start, start + size):
            probabilities[j] /= total
            running += probabilities[j]
            cumulative[j] = running


@njit(cache=True)
def _category(cumulative, start, size, u):
    # Position of u among cumulative[start : start + size], without branches; the last category
    # absorbs rounding errors.
    position = start
    for j in range(start, start + size - 1):
        position += u >= cumulative[j]
    return position


@njit(cache=True)
def _naive_bayes(
    values, n_classes, n_features, n_levels, n, inverse_scale, iterations, seed, concentration
):
    np.random.seed(seed)
    p = np.empty((iterations, n_classes))
    q = np.empty((iterations, values.shape[0]))
    acceptance = np.empty(iterations)
    # A record is its class and its K cells, in flat arrays: a row view inside the sweep would
    # count references (twice the time). Counts are floats with integer values.
    classes = np.empty(n, dtype=np.int64)
    cells = np.empty((n, n_features), dtype=np.int64)
    proposal = np.empty(n_features, dtype=np.int64)
    class_counts = np.zeros(n_classes)
    counts = np.zeros(values.shape[0])
    p_cumulative = np.empty(n_classes)
    q_cumulative = np.empty(values.shape[0])

    # Start from the prior (the counts are still zero) and the model.
    _dirichlets(concentration, class_counts, n_classes, np.empty(n_classes), p_cumulative)
    _dirichlets(concentration, counts, n_levels, np.empty(counts.shape[0]), q_cumulative)
    for i in range(n):
        classes[i] = _category(p_cumulative, 0, n_classes, np.random.random())
        for k in range(n_features):
            row = (classes[i] * n_features + k) * n_levels
            cells[i, k] = _category(q_cumulative, row, n_levels, np.random.random())

    for iteration in range(iterations):
        # Step 1, theta | x: every probability vector is Dirichlet(concentration + counts).
        class_counts[:] = 0.0
        counts[:] = 0.0
        for i in range(n):
            class_counts[classes[i]] += 1.0
            for k in range(n_features):
                counts[cells[i, k]] += 1.0
        _dirichlets(concentration, class_counts, n_classes, p[iteration], p_cumulative)
        _dirichlets(concentration, counts, n_levels, q[iteration], q_cumulative)

        # Step 2, a sweep of x_i | x_-i, theta, s_dp.
        accepted = 0
        for i in range(n):
            new_class = _category(p_cumulative, 0, n_classes, np.random.random())
            row = new_class * n_features * n_levels
            difference = 0.0
            for k in range(n_features):
                new = _category(q_cumulative, row, n_levels, np.random.random())
                old = cells[i, k]
                proposal[k] = new
                # A record that stays in its cell changes nothing there.
                if new != old:
                    gap = values[old] - counts[old]
                    difference += abs(gap) - abs(gap + 1.0)
                    gap = values[new] - counts[new]
                    difference += abs(gap) - abs(gap - 1.0)
                row += n_levels
            if np.random.random() < np.exp(difference * inverse_scale):
                for k in range(n_features):
                    counts[cells[i, k]] -= 1.0
                    counts[proposal[k]] += 1.0
                    cells[i, k] = proposal[k]
                classes[i] = new_class
                accepted += 1
        acceptance[iteration] = accepted / n
    return p, q, acceptance


def main() -> None:
    epsilon = 1.0
    runs = (
        ("regression", regression, settings.regression_release, settings.regression_scale),
        ("naive Bayes", naive_bayes, settings.naive_bayes_release, settings.naive_bayes_scale),
    )
    print(f"hand-fused Algorithm 1, epsilon = {epsilon:g}, best of 9 runs")
    for name, run, release, scale in runs:
        for n in (100, 1_000, 10_000):
            values = release(n, epsilon, 1)
            iterations = 300_000 // n
            run(values, n, scale(epsilon), 10, 0)  # compile, or load from the cache
            seconds = []
            for repetition in range(9):
                start = time.perf_counter()
                draws = run(values, n, scale(epsilon), iterations, repetition)
                seconds.append(time.perf_counter() - start)
            each = min(seconds) / iterations
            print(
                f"{name:<12} n = {n:>6,}  {each * 1e6:9.1f} us an iteration"
                f"  {each / n * 1e9:6.1f} ns a record"
                f"  acceptance {draws.acceptance[iterations // 2 :].mean():.3f}"
            )


if __name__ == "__main__":
    main()
