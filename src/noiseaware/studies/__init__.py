"""Replicated studies, which say how well analysts will do with a release like this.

A study simulates the whole path many times: parameters, confidential records, a release, an
analysis. Over the replicates it reports how often intervals cover the truth, how wide they are, how
far off the posterior mean is, and how well the chains mixed, for every epsilon and every number of
records. Other analyses (`noiseaware.baselines`) may run on the same releases.

The files: `replicate` (one replicate, a function of its seed: what is run on a release, and what is
kept of it), `tasks` (many of them, on several cores, with a file to continue from), `run` (the
call), `result` (the table).
"""

from noiseaware.studies.replicate import SAMPLERS, Sampler, run_chains, summarise
from noiseaware.studies.result import Study, binomial_error
from noiseaware.studies.run import study
from noiseaware.studies.tasks import Advance, CheckpointError, Lines, bar, run_tasks

__all__ = [
    "SAMPLERS",
    "Advance",
    "CheckpointError",
    "Lines",
    "Sampler",
    "Study",
    "bar",
    "binomial_error",
    "run_chains",
    "run_tasks",
    "study",
    "summarise",
]
