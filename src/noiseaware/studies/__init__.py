"""Replicated studies, which say how well analysts will do with a release like this.

A study simulates the whole way many times: parameters, confidential records, a release, an
analysis. Over the replicates it reports how often intervals hold the truth, how wide they are, how
far the posterior mean is off, and how well the chains mixed; for every epsilon and every number of
records. Other analyses (`noiseaware.baselines`) may run on the same releases.

The files: `methods` (what is run on a release, and what is kept of it), `replicate` (one replicate,
a function of its seed), `tasks` (many of them, on several cores, with a file to go on from),
`run` (the call), `result` (the table).
"""

from noiseaware.studies.methods import Sampler
from noiseaware.studies.result import Study
from noiseaware.studies.run import study

__all__ = ["Sampler", "Study", "study"]
