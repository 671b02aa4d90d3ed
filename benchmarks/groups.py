"""The default call on groups for which it was not tuned: R-hat <= 1.01, bulk and tail ESS >= 400.

`StratifiedMeans` with a noisy, clamped sum of each group: few and many groups, small and large,
little and much noise, and means inside the bounds, at the bounds or far beyond them, so that all
records of some groups are clamped. The worst parameter counts. Results on file are not measured
again; ``--sizes`` (records in a group), ``--parts`` (where the means lie) and ``--releases`` select
settings.
"""

from __future__ import annotations

import itertools
import math
from argparse import Namespace
from typing import Any

import numpy as np

import noiseaware as na
from benchmarks import models, tables

GROUPS = (3, 10, 50)
SIZES = (5, 50)
RATIOS = (0.1, 1.0, 10.0)
"""Standard deviation of the noise, in standard errors of a group's sum."""
PLACES = {"inside": 1.0, "reach": 3.0, "beyond": 6.0}
"""Standard deviation of the groups' means, for bounds at -5 and 5 and a variance of 1."""
NOISES = {
    "Laplace": lambda query, sd: na.mechanisms.Laplace(query, scale=sd / math.sqrt(2.0)),
    "Gaussian": lambda query, sd: na.mechanisms.Gaussian(query, scale=sd),
}
KINDS = {"groups": "d", "size": "d", "place": "", "noise": "", "ratio": "g"}
KEYS = (*KINDS, "seed")


def run(options: Namespace) -> None:
    path = options.out / "groups.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    rows = tables.read(path)
    done = {tuple(row[key] for key in KEYS) for row in rows}
    groups, ratios = (GROUPS[:1], RATIOS[:1]) if options.quick else (GROUPS, RATIOS)
    for values in itertools.product(
        groups,
        options.sizes or SIZES,
        options.parts or PLACES,
        NOISES,
        ratios,
        range(1, (options.releases or 1) + 1),
    ):
        if values not in done:
            rows.append(dict(zip(KEYS, values, strict=True)) | measure(*values))
            tables.append(path, rows[-1])
    title = "Releases of groups that pass (R-hat <= 1.01, bulk and tail ESS >= 400); the worst"
    tables.show(title, KINDS | models.SHOWN, models.cells(rows, tuple(KINDS)))


def measure(
    groups: int, size: int, place: str, noise: str, ratio: float, seed: int
) -> dict[str, Any]:
    """Simulate and sample a release of groups, half of them three times as large as the rest."""
    rng = np.random.default_rng([seed, groups, size])
    sizes = [size if g % 2 else 3 * size for g in range(groups)]
    model = na.models.StratifiedMeans(sizes)
    theta = {"means": PLACES[place] * rng.standard_normal(groups), "variance": np.array(1.0)}
    query = na.queries.ByGroup(na.queries.Sum(-5.0, 5.0), groups)
    mechanism = NOISES[noise](query, ratio * math.sqrt(size))
    release = mechanism.privatize(model.sample_records(theta, sum(sizes), rng), rng)
    return models.diagnose(model, release, seed)
