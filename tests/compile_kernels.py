"""Compile what many tests need while something else keeps the other core busy.

Makes very short runs of models that much of the suite samples, so that the test workers find the
kernels compiled and do not both compile them.
"""

import warnings

import numpy as np

import noiseaware as na
from calibration.settings import MODELS

FIRST = ("regression-unknown", "naive-bayes", "bernoulli", "normal")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    for model, query, n in map(MODELS.get, FIRST):
        records = model.sample_records(model.sample_prior(rng), n, rng)
        release = na.mechanisms.Laplace(query, scale=1.0).privatize(records, rng)
        for moves in (None, na.moves.algorithm1()):
            options = {"draws": 4, "warmup": 40, "chains": 1, "cores": 1, "progressbar": False}
            na.sample(model, release, moves=moves, **options)
