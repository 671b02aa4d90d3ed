"""Many cells, many parameters, many records: ``python -m benchmarks.scale [part ...]``.

Parts: levels (a histogram of a category), proportions and means (strata that share a prior, a
release by group), features (linear regression), records (Bernoulli and regression, n up to 10^7),
memory (naive Bayes). A setting has a process of its own, so that its memory is its own, and at
most 6 GiB. It is iterated for two seconds, at least three times. Times are processor time of one
chain of the default sampler in its warm-up, after the first few iterations.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

PARTS: dict[str, tuple[int, ...]] = {
    "levels": (10, 100, 1000, 10_000, 100_000),
    "proportions": (10, 100, 1000, 10_000),
    "means": (10, 100, 1000, 10_000),
    "features": (2, 5, 10, 20, 50),
    "bernoulli": (10**4, 10**5, 10**6, 10**7),
    "records": (10**4, 10**5, 10**6, 10**7),
    "memory": (10**6, 10**7),
}
SECONDS, MOST_BYTES = 2.0, 6 * 2**30


def setting(part: str, size: int) -> tuple[Any, Any, int]:
    """Return a model, a query and the number of records."""
    import noiseaware as na

    if part == "levels":
        return na.models.Categorical(size), na.queries.Histogram(n_levels=size), 100_000
    if part in ("proportions", "means"):
        sizes = [max(1, 100_000 // size)] * size
        if part == "means":
            inner: Any = na.queries.Sum(0.0, 1.0)
            model: Any = na.models.StratifiedMeans(sizes)
        else:
            inner = na.queries.Count()
            model = na.models.StratifiedProportions(sizes)
        return model, na.queries.ByGroup(inner, size), sum(sizes)
    if part == "bernoulli":
        return na.models.Bernoulli(), na.queries.Count(), size
    if part == "memory":
        levels = [5, 5, 5]
        return na.models.NaiveBayes(5, levels), na.queries.ClassFeatureCounts(5, levels), size
    p, n = (size, 1000) if part == "features" else (2, size)
    return (
        na.models.LinearRegression(p),
        na.queries.RegressionMoments(p, lower=-5.0, upper=5.0),
        n,
    )


def measure(part: str, size: int) -> dict[str, float]:
    """Return milliseconds of an iteration, and bytes above what the package itself takes."""
    import noiseaware as na
    from noiseaware.contract import draw_records
    from noiseaware.running.run import prepare
    from noiseaware.sampler import chain

    def memory() -> float:
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    rng = np.random.default_rng(1)
    model, query, n = setting(part, size)
    small = setting(part, PARTS[part][0])
    _run(na, prepare, chain, small[0], small[1], min(small[2], 1000), draw_records, rng, 4)
    before = memory()
    seconds, done = _run(na, prepare, chain, model, query, n, draw_records, rng, 1000)
    return {"ms": 1e3 * seconds / done, "bytes": memory() - before, "n": n, "iterations": done}


def _run(na, prepare, chain, model, query, n, draw_records, rng, most):
    """Return the processor time and the number of the iterations after the first few."""
    theta = model.sample_prior(rng)
    records = draw_records(model, theta, np.arange(n), rng)
    release = na.mechanisms.Laplace(query, scale=20.0).privatize(records, rng)
    kind = records.dtype, records.nbytes
    del records
    target, moves = prepare(model, release, None)
    schedule = chain.Schedule.make(10**6, 1, 0)
    state = chain.start(target, moves, np.random.Generator(np.random.SFC64(2)))
    print(part_words(kind, moves), file=sys.stderr)
    state, _ = chain.advance(target, moves, schedule, state, 3)
    done, began = 0, time.process_time()
    while done < most and (done < 3 or time.process_time() - began < SECONDS):
        state, _ = chain.advance(target, moves, schedule, state, 3)
        done += 3
    return time.process_time() - began, done


def part_words(kind: Any, moves: Any) -> str:
    """Say what the records are, and which moves there are."""
    return f"records {kind[0]}, {kind[1]} bytes; {', '.join(type(m).__name__ for m in moves)}"


def main(parts: list[str]) -> None:
    for part in parts or list(PARTS):
        print(
            f"{part}\n    size   ms an iteration   a unit, against the first   MiB   bytes/record"
        )
        first = None
        for size in PARTS[part]:
            words = [sys.executable, "-m", "benchmarks.scale", "--one", part, str(size)]
            ran = subprocess.run(words, capture_output=True, text=True)
            if ran.returncode:
                print(f"{size:8d}   {ran.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            found = json.loads(ran.stdout)
            unit = found["ms"] / size
            first = first or unit
            print(
                f"{size:8d}   {found['ms']:15.3f}   {unit / first:24.2f}   "
                f"{found['bytes'] / 2**20:5.0f}   {found['bytes'] / found['n']:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
    else:
        main(sys.argv[1:])
