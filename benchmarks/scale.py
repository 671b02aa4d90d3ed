"""Many cells, many parameters, many records: ``python -m benchmarks.scale [part ...]``.

Parts: levels (a histogram of a category), proportions and means (strata with a common prior,
released by group), features, logistic and poisson (regressions with 2 to 50 features), bernoulli
and records (regression, n up to 10^7), memory (naive Bayes), and bytes (a million records of each
example whose chains hold records). Each setting runs in its own process, with at most 6 GiB, for
two seconds and at least three iterations. Times are processor times of one chain of the default
sampler during warm-up, after the first few iterations: the median over groups of three iterations,
because those after 1, 2, 4, 8, ... iterations, which learn, take longer. Bytes are the peak memory
above that of the package itself.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

PARTS: dict[str, tuple[int, ...]] = {
    "levels": (10, 100, 1000, 10_000, 100_000),
    "proportions": (10, 100, 1000, 10_000),
    "means": (10, 100, 1000, 10_000),
    "features": (2, 5, 10, 20, 50),
    "bernoulli": (10**4, 10**5, 10**6, 10**7),
    "records": (10**4, 10**5, 10**6, 10**7),
    "memory": (10**4, 10**5, 10**6, 10**7),
    "logistic": (2, 5, 10, 20, 50),
    "poisson": (2, 5, 10, 20, 50),
    "bytes": tuple(range(11)),
}
HELD = (
    "normal", "exponential", "gamma", "poisson", "negative_binomial", "dirichlet",
    "multivariate_normal", "linear_regression", "logistic_regression", "poisson_regression",
    "naive_bayes",
)  # fmt: skip
"""Examples whose chains hold records, in any number."""

EXAMPLES = Path(__file__).parents[1] / "examples" / "models"
SECONDS, MOST_BYTES = 2.0, 6 * 2**30


def setting(part: str, size: int) -> tuple[Any, Any, int]:
    import noiseaware as na
    from noiseaware.documents.model_file import read_model_file

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
    if part == "bytes":
        release = na.Release.from_json(EXAMPLES.parent / "releases" / f"{HELD[size]}.json")
        return read_model_file(EXAMPLES / f"{HELD[size]}.toml").model, release.query, 10**6
    if part in ("logistic", "poisson"):
        kind = na.models.LogisticRegression if part == "logistic" else na.models.PoissonRegression
        return kind(size), na.queries.RegressionMoments(size, lower=-5.0, upper=5.0), 1000
    p, n = (size, 1000) if part == "features" else (2, size)
    return (
        na.models.LinearRegression(p),
        na.queries.RegressionMoments(p, lower=-5.0, upper=5.0),
        n,
    )


def measure(part: str, size: int) -> dict[str, float]:
    """Return milliseconds per iteration, and bytes above the memory of the package itself."""
    import noiseaware as na
    from noiseaware.contract import draw_records
    from noiseaware.running.run import prepare
    from noiseaware.sampler import chain

    def memory() -> float:
        return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    rng = np.random.default_rng(1)
    model, query, n = setting(part, size)
    small = setting(part, size if part == "bytes" else PARTS[part][0])
    _run(na, prepare, chain, small[0], small[1], min(small[2], 1000), draw_records, rng, 4)
    before = memory()
    seconds, held = _run(na, prepare, chain, model, query, n, draw_records, rng, 1000)
    above = (memory() - before - held) / n
    return {"ms": 1e3 * seconds, "bytes": memory() - before, "n": n, "above": above}


def _run(na, prepare, chain, model, query, n, draw_records, rng, most):
    """Return the processor time per iteration, and the bytes of a chain's records."""
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
    spent: list[float] = []
    while 3 * len(spent) < most and (not spent or sum(spent) < SECONDS):
        began = time.process_time()
        state, _ = chain.advance(target, moves, schedule, state, 3)
        spent.append(time.process_time() - began)
    return float(np.median(spent)) / 3, state.records.nbytes


def part_words(kind: Any, moves: Any) -> str:
    return f"records {kind[0]}, {kind[1]} bytes; {', '.join(type(m).__name__ for m in moves)}"


def main(parts: list[str]) -> None:
    for part in parts or list(PARTS):
        print(
            f"{part}\n    size   ms an iteration   a unit, against the first   MiB   bytes/record"
            "   above the records"
        )
        first = None
        for size in PARTS[part]:
            words = [sys.executable, "-m", "benchmarks.scale", "--one", part, str(size)]
            ran = subprocess.run(words, capture_output=True, text=True)
            if ran.returncode:
                print(f"{size:8d}   {ran.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            found = json.loads(ran.stdout)
            unit = found["ms"] / (1 if part == "bytes" else size)
            first = first or unit
            named = HELD[size] if part == "bytes" else str(size)
            print(
                f"{named:>8s}   {found['ms']:15.3f}   {unit / first:24.2f}   "
                f"{found['bytes'] / 2**20:5.0f}   {found['bytes'] / found['n']:8.0f}   "
                f"{found['above']:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
    else:
        main(sys.argv[1:])
