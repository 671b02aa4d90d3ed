"""Compile what most tests need, in two processes, so that the test workers need not do it twice.

    python tests/compile_kernels.py 0 & python tests/compile_kernels.py 1; wait

Each makes very short runs of its half of the models, with the default moves and with Algorithm 1.
"""

import sys
import warnings

import numpy as np
from calibration.settings import MODELS

import noiseaware as na

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    for model, query, n in list(MODELS.values())[int(sys.argv[1]) :: 2]:
        records = model.sample_records(model.sample_prior(rng), n, rng)
        release = na.mechanisms.Laplace(query, scale=1.0).privatize(records, rng)
        for moves in (None, na.moves.algorithm1()):
            na.sample(
                model,
                release,
                moves=moves,
                draws=4,
                warmup=40,
                chains=1,
                cores=1,
                progressbar=False,
            )
