"""Chains of counts: the cost of an iteration as n grows, and effective draws against records.

    python -m benchmarks.counts             # all tables
    python -m benchmarks.counts growth      # time per iteration at n = 10^8 relative to 10^3
    python -m benchmarks.counts memory      # the same for memory
    python -m benchmarks.counts records     # effective draws per second, against record samplers
    python -m benchmarks.counts strata      # the same for StratifiedProportions, at several n
    python -m benchmarks.counts parts       # naive Bayes with many records, the default call
    python -m benchmarks.counts sums        # the one-off cost of the sums of naive Bayes

The simulated county is in `examples/census_county.py`.

Times are processor times (`time.process_time`); the two sides of a ratio are measured one after the
other in the same process.
"""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import noiseaware as na
from benchmarks.subjects import subject
from noiseaware.sampler import chain
from noiseaware.sampler.default import default_moves, make_target

LEVELS = (4, 3, 2)


def _release(mechanism: Any, shares: np.ndarray, records: np.ndarray, n: int) -> na.Release:
    """Return a release of n records with these shares of the possible record values."""
    counts = np.floor(n * shares)
    counts[0] += n - counts.sum()
    total = mechanism.query.statistic(records).T @ counts
    return na.Release(total + 0.25, mechanism, n)


def _flat(model: Any, query: Any) -> Callable[[int], tuple[Any, na.Release]]:
    def make(n: int) -> tuple[Any, na.Release]:
        values = np.asarray(model.record_values)
        shares = np.arange(1.0, len(values) + 1)
        mechanism = na.mechanisms.Laplace(query, epsilon=1.0)
        return model, _release(mechanism, shares / shares.sum(), values, n)

    return make


def _groups(kind: Any, groups: int) -> Callable[[int], tuple[Any, na.Release]]:
    def make(n: int) -> tuple[Any, na.Release]:
        sizes = [n // groups] * groups
        query = na.queries.ByGroup(na.queries.Count(), n_groups=groups)
        values = [round(0.3 * size) + 0.25 for size in sizes]
        release = na.Release(values, na.mechanisms.Laplace(query, epsilon=1.0), sum(sizes))
        return kind(sizes), release

    return make


MODELS = {
    "Bernoulli": _flat(na.models.Bernoulli(), na.queries.Count()),
    "Categorical(10)": _flat(na.models.Categorical(10), na.queries.Histogram(n_levels=10)),
    "ContingencyTable(4, 3, 2)": _flat(
        na.models.ContingencyTable(LEVELS), na.queries.Margins(LEVELS, [[0, 1], [1, 2]])
    ),
    "NaiveBayes(2; 3, 2)": _flat(
        na.models.NaiveBayes(2, [3, 2]), na.queries.ClassFeatureCounts(2, [3, 2])
    ),
    "TwoProportions": _groups(na.models.TwoProportions, 2),
    "StratifiedProportions(5)": _groups(na.models.StratifiedProportions, 5),
}


def _draw(
    model: Any, release: na.Release, moves: Any, warmup: int, draws: int
) -> tuple[float, np.ndarray]:
    """Run a chain; return the seconds of its draws, and the last parameter, (draws, entries)."""
    target = make_target(model, release, moves)
    moves = moves or default_moves(target)
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(1)))
    schedule = chain.Schedule(warmup, draws)
    state, _ = chain.advance(target, moves, schedule, state, warmup)
    began = time.process_time()
    _, made = chain.advance(target, moves, schedule, state, draws)
    seconds = time.process_time() - began
    name = model.parameters[-1].name
    return seconds, made.theta[name].reshape(draws, -1)


def growth(small: int = 10**3, large: int = 10**8) -> None:
    """Print the time per iteration for few and for many records, the best of three runs each.

    A run takes about a third of a second.
    """
    print(f"{'model':28}{'us at ' + f'{small:.0e}':>14}{'us at ' + f'{large:.0e}':>14}{'ratio':>8}")
    for name, make in MODELS.items():
        best = []
        for n in (small, large):
            model, release = make(n)
            draws = math.ceil(0.3 / (_draw(model, release, None, 300, 600)[0] / 600))
            best.append(min(_draw(model, release, None, 300, draws)[0] for _ in range(3)) / draws)
        print(
            f"{name:28}{best[0] * 1e6:14.1f}{best[1] * 1e6:14.1f}{best[1] / best[0]:8.2f}",
            flush=True,
        )


def sums(sizes: Sequence[int] = (100, 300, 1000, 1800)) -> None:
    """Print the seconds to compute the sums of naive Bayes, 75 cells, for each epsilon."""
    epsilons = (0.1, 1.0, 10.0, 100.0)
    print(f"{'seconds for the sums':28}" + "".join(f"{'epsilon ' + str(e):>14}" for e in epsilons))
    for n in sizes:
        print(f"n = {n:<24,}", end="")
        for epsilon in epsilons:
            data = subject("naive-bayes", n, epsilon, 1)
            make_target(data.model, data.release, None).boxes(None)  # compiled
            target = make_target(data.model, data.release, None)
            began = time.process_time()
            assert len(target.boxes(None)[0].last) > n
            print(f"{time.process_time() - began:14.4f}", end="", flush=True)
        print()


SPARSE = (
    (0.3, 3711, 23.0), (1.0, 5000, 130.0), (0.3, 20_000, 130.0),
    (0.1, 20_000, 13.0), (0.1, 100_000, 13.0), (1.0, 100_000, 1.3),
)  # fmt: skip
"""Concentration, number of records, and scale of the Gaussian noise."""


def parts(levels: Sequence[int] = (3, 2, 5), classes: int = 4) -> None:
    """Print the worst diagnostics of the default call for naive Bayes, and the CPU seconds."""
    print(f"{'concentration, n, scale':28}{'R-hat':>8}{'bulk':>8}{'tail':>8}{'CPU s':>8}")
    for concentration, n, scale in ((1.0, 5000, 5.0), *SPARSE):  # the first is compiled
        model = na.models.NaiveBayes(classes, levels, concentration=concentration)
        query, rng = na.queries.ClassFeatureCounts(classes, levels), np.random.default_rng(1)
        records = model.sample_records(model.sample_prior(rng), n, rng)
        release = na.mechanisms.Gaussian(query, scale=scale).privatize(records, rng)
        began = time.process_time()
        drawn = na.sample(model, release, random_seed=1, cores=1, progressbar=False)
        seconds, found = time.process_time() - began, na.summary(drawn)
        print(
            f"{concentration:<6}{n:>10,}{scale:>8}    {found['r_hat'].max():8.3f}"
            f"{found['ess_bulk'].min():8,.0f}{found['ess_tail'].min():8,.0f}{seconds:8.1f}",
            flush=True,
        )


def memory(small: int = 10**3, large: int = 10**8, draws: int = 200) -> None:
    """Print the peak memory that Python and NumPy allocate in a chain, for few and many records."""
    print(
        f"{'model':28}{'KiB at ' + f'{small:.0e}':>15}{'KiB at ' + f'{large:.0e}':>15}{'ratio':>8}"
    )
    for name, make in MODELS.items():
        _draw(*make(small), None, 10, 10)  # what is made once is not counted
        peaks = []
        for n in (small, large):
            tracemalloc.start()
            _draw(*make(n), None, 100, draws)
            peaks.append(tracemalloc.get_traced_memory()[1] / 1024)
            tracemalloc.stop()
        print(f"{name:28}{peaks[0]:15.0f}{peaks[1]:15.0f}{peaks[1] / peaks[0]:8.2f}", flush=True)


def _effective(values: np.ndarray) -> float:
    sizes = [float(array_stats.ess(column[None], method="bulk")) for column in values.T]
    return min(sizes)


INTERWOVEN = na.moves.Interweave(
    na.moves.ParameterUpdate(), na.moves.Transport(), na.moves.BlockSweep()
)


def strata(draws: int = 1000) -> None:
    """Print effective draws per second of StratifiedProportions with counts and with records."""
    print(f"{'StratifiedProportions(5)':28}{'counts':>14}{'Interweave':>14}{'ratio':>8}")
    for n in (200, 2000, 20_000):
        model, release = MODELS["StratifiedProportions(5)"](n)
        speed = []
        for moves in (None, (INTERWOVEN,)):
            seconds, values = _draw(model, release, moves, 500, draws)
            speed.append(_effective(values) / seconds)
        print(f"n = {n:<24,}{speed[0]:14.1f}{speed[1]:14.1f}{speed[0] / speed[1]:8.2f}", flush=True)


def records(n: int = 2000, draws: int = 2000) -> None:
    """Print effective draws per second with counts, and of two samplers that hold records."""
    samplers = {
        "counts": None,
        "Interweave": (INTERWOVEN,),
        "Algorithm 1": na.moves.algorithm1(),
    }
    print(f"{'effective draws a second':28}" + "".join(f"{name:>14}" for name in samplers))
    for name in list(MODELS)[:3]:
        model, release = MODELS[name](n)
        print(f"{name:28}", end="", flush=True)
        speed = []
        for moves in samplers.values():
            many = draws if moves else 20 * draws  # so quick that fewer could not be timed
            seconds, values = _draw(model, release, moves, 500, many)
            speed.append(_effective(values) / seconds)
            print(f"{speed[-1]:14.1f}", end="", flush=True)
        print(f"   ratios {speed[0] / speed[1]:.1f} and {speed[0] / speed[2]:.1f}", flush=True)


if __name__ == "__main__":
    tables = {
        function.__name__: function for function in (growth, memory, records, strata, parts, sums)
    }
    for name in sys.argv[1:] or tables:
        tables[name]()
