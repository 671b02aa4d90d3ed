"""Imputed databases have the right predictive distribution.

A chain also draws confidential databases from p(x | s_dp). If theta is drawn from the prior, x from
the model and s_dp from the mechanism, the true database is exchangeable with correctly imputed
ones: the rank of any statistic of the true x among theirs is uniform. This is tested for two
statistics per model, one of which is not a function of the released totals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseaware.calibration import uniform_p_value
from noiseaware.studies import run_chains
from noiseaware_paper import published
from noiseaware_paper.settings import Experiment, Size

EPSILON = 1.0


def statistics(experiment: Experiment, records: np.ndarray) -> list[float]:
    """Return the two statistics of a database that `STATISTICS` names."""
    if experiment.name == "regression":
        return [float(records[:, -1].mean()), float(np.median(records[:, 0]))]
    both = (records[:, 1] == 0) & (records[:, 2] == 0)
    return [float((records[:, 0] == 0).sum()), float(both.sum())]


STATISTICS = {
    "regression": ("mean of y", "median of x1"),
    "naive_bayes": ("records of class 1", "records with features 1 and 2 both at level 1"),
}


def imputed_task(experiment: Experiment, size: Size, random_seed: int, key) -> dict[str, Any]:
    """Return the ranks of the true database's statistics among those of the imputed ones."""
    seeds = np.random.SeedSequence(random_seed, spawn_key=(3, *key)).spawn(2)
    rng = np.random.default_rng(seeds[0])
    model = experiment.model
    theta = model.sample_prior(rng)
    records = model.sample_records(theta, published.N_RECORDS, rng)
    release = experiment.release(records, EPSILON, rng)
    drawn, _ = run_chains(model, release, size.imputed_sampler, seeds[1], size.databases)
    imputed = np.array([statistics(experiment, x) for x in drawn[""][0]])
    true = np.array(statistics(experiment, records))
    ties = rng.integers(0, (imputed == true).sum(axis=0) + 1)
    return {"ranks": ((imputed < true).sum(axis=0) + ties).tolist()}


def p_values(ranks: np.ndarray, databases: int) -> list[float]:
    """Return the p-value of uniform ranks for each statistic."""
    return [uniform_p_value(column, databases + 1) for column in ranks.T]
