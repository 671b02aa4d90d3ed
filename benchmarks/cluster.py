"""How many replicates of a study a cluster does per hour: ``python -m benchmarks.cluster``.

Measures, on two Dask workers, the processor time per replicate of a worker, and of the parent
process that distributes them (including the scheduler, which runs in it), the latter with a study
of many tiny replicates. A cluster of W cores then does W / worker replicates per second, until the
parent is saturated at W = worker / parent.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import joblib

import noiseaware as na

CORES = (2, 16, 128, 1024)
MANY = 200


def spent() -> tuple[int, float]:
    return os.getpid(), time.process_time()


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=20)
    replicates = parser.parse_args().replicates
    query = na.queries.RegressionMoments(n_features=2, lower=-10, upper=10)
    mechanism = na.mechanisms.Laplace(query, epsilon=1.0)
    short = {"short": na.studies.Sampler(na.moves.algorithm1(), draws=20, warmup=0)}

    def study(count: int, samplers: Any = ("default",)) -> float:
        began = time.process_time()
        na.study(
            na.models.LinearRegression(n_features=2),
            mechanism,
            n_records=100,
            replicates=count,
            samplers=samplers,
            random_seed=1,
            progressbar=False,
        )
        return time.process_time() - began

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, Client(cluster) as client, joblib.parallel_config("dask"):
        study(2)  # the workers load the package
        before = dict(client.run(spent).values())
        study(replicates)
        after = dict(client.run(spent).values())
        parent = (study(MANY + 20, short) - study(20, short)) / MANY
    worker = sum(after[pid] - before[pid] for pid in before) / replicates
    print(f"regression, n = 100, default sampler, {replicates} replicates, 2 Dask workers:")
    print(f"a worker spends {worker:.2f} s of processor time on a replicate,")
    print(f"the process that hands them out {1000 * parent:.1f} ms")
    print("cores   replicates an hour")
    for cores in CORES:
        print(f"{cores:5d}   {3600 * min(cores / worker, 1 / parent):,.0f}")


if __name__ == "__main__":
    main()
