"""`ErrorsInVariables` with the default call: scales and laws of the noise, sizes and priors.

x ~ N(0.3, 1) and y ~ N(0.5 + x, 0.49); x is released with noise of `noise` times its standard
deviation, y without noise.

The target: R-hat at most 1.01, bulk and tail ESS at least 400 for every parameter, and at most 20
CPU seconds on one core with 2,000 records.
"""

from __future__ import annotations

import math
import time
import warnings
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import tables

NUMBER = na.queries.Value(integer_valued=False)
WIDE = {"coefficient_sd": 50.0, "feature_sd": 50.0}

SETTINGS: tuple[tuple[int, float, str, dict[str, Any], dict[str, Any]], ...] = (
    # n, noise, law, post-processing, arguments of the model
    *((n, noise, "laplace", {}, {}) for n in (20, 200, 2000) for noise in (0.001, 1.0, 5.0, 10.0)),
    *((n, noise, "gaussian", {}, {}) for n in (20, 200) for noise in (0.001, 1.0, 5.0, 10.0)),
    (2000, 5.0, "gaussian", {}, {}),
    (20_000, 5.0, "laplace", {}, {}),
    *((200, 5.0, law, {"threshold": 6.0}, {}) for law in ("laplace", "gaussian")),
    (200, 1.0, "laplace", {"step": 5.0}, {}),
    (200, 1.0, "laplace", {"clamp": (-1.0, 1.0)}, {}),
    *((n, 5.0, "laplace", {}, WIDE) for n in (20, 200)),
    *((n, 5.0, "laplace", {}, {"noise_variance": 0.5}) for n in (200, 2000)),
    (200, 5.0, "laplace", {}, {"feature_covariance": [[1.0]]}),
    (200, 5.0, "laplace", {}, {"noise_variance_shape": 0.5, "noise_variance_scale": 0.1}),
)


def measure(setting: tuple[Any, ...], seed: int) -> dict[str, Any]:
    n, noise, law, after, given = setting
    rng = np.random.default_rng(seed)
    x = 0.3 + rng.normal(size=n)
    y = 0.5 + x + rng.normal(0.0, 0.7, size=n)
    if law == "laplace":
        mechanism = na.mechanisms.LocalLaplace(NUMBER, scale=noise / math.sqrt(2.0), **after)
    else:
        mechanism = na.mechanisms.LocalGaussian(NUMBER, scale=noise, **after)
    seen = na.mechanisms.Attributes([mechanism, na.mechanisms.LocalExact(integer_valued=False)])
    release = na.Release(np.column_stack([mechanism.privatize(x, rng).values, y]), seen, n)
    model = na.models.ErrorsInVariables(**given)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = na.sample(model, release, random_seed=seed, cores=1, progressbar=False)
    seconds = time.process_time() - begin
    table = na.summary(tree)[["r_hat", "ess_bulk", "ess_tail"]].astype(float)
    return {
        "n": n,
        "noise": noise,
        "law": law,
        "other": ", ".join(f"{name}={value}" for name, value in (after | given).items()),
        "r_hat": table["r_hat"].max(),
        "bulk": table["ess_bulk"].min(),
        "tail": table["ess_tail"].min(),
        "cpu": seconds,
    }


def run(options: Namespace) -> None:
    measure((20, 1.0, "laplace", {}, {}), 0)  # compiled
    chosen = [one for one in SETTINGS if options.sizes is None or one[0] in options.sizes]
    rows = [measure(one, 1) for one in (chosen[:1] if options.quick else chosen)]
    columns = {"n": "d", "noise": "g", "law": "", "other": "", "r_hat": ".3f"}
    columns |= {"bulk": ".0f", "tail": ".0f", "cpu": ".1f"}
    title = "A noisy covariate, the default call; targets: R-hat 1.01, ESS 400, 20 s with 2,000"
    tables.show(title, columns, rows)
    tables.write(options.out / "noisy_covariate.csv", rows)
