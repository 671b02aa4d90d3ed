"""Posterior means, acceptance and coverage: two studies for each model.

*Means* (Figures 1a, 1b and 2, and the supplement's acceptance): one fixed database, many releases
of it. *Coverage* (Tables 1 and 2): fixed parameters, a new database and a release in every
replicate. Both run the published protocol and the default sampler on the same releases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseaware.reproduce import published
from noiseaware.reproduce.settings import Experiment, Size
from noiseaware.studies.replicate import Plan
from noiseaware.studies.run import make_plan


def database(experiment: Experiment) -> np.ndarray:
    """Return the one database whose releases Figures 1 and 2 show."""
    rng = np.random.default_rng(0)
    theta = dict(experiment.true_parameters)
    return experiment.model.sample_records(theta, published.N_RECORDS, rng)


def means_plan(experiment: Experiment, size: Size, random_seed: int) -> Plan:
    """Return the study of posterior means and acceptance."""
    return _plan(experiment, size, random_seed, records=database(experiment), n_records=None)


def coverage_plan(experiment: Experiment, size: Size, random_seed: int) -> Plan:
    """Return the study of coverage."""
    return _plan(experiment, size, random_seed + 1, records=None, n_records=published.N_RECORDS)


def _plan(experiment: Experiment, size: Size, random_seed: int, **data: Any) -> Plan:
    return make_plan(
        experiment.model,
        experiment.mechanism,
        epsilons=published.EPSILONS,
        true_parameters=experiment.true_parameters,
        interval=published.INTERVAL,
        samplers=size.samplers,
        comparators=(),
        parameters=[experiment.parameter],
        random_seed=random_seed,
        **data,
    )
