"""Simulation studies of how well analyses of a release will do.

Each replicate simulates parameters, confidential records and a release, and analyses the release.
For each epsilon and number of records, a study reports the coverage and width of the intervals, the
error of the posterior mean, and how well the chains mixed. Other analyses (`noiseaware.baselines`)
can run on the same releases.

The files: `replicate` (one replicate, a function of its seed), `tasks` (many tasks, on several
cores, with a checkpoint), `run` (the call), `result` (the table).
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
