"""Make the tables of cells in examples/cells: made-up numbers in the formats of real publications.

    python examples/make_cells.py

`counties.csv` imitates the Detailed DHC-A of the 2020 Census: the number of people of one detailed
group in each county, with discrete Gaussian noise; small noisy numbers are withheld. The column
`true` would be confidential; it is included to compare estimates with.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import noiseaware as na

HERE = Path(__file__).parent / "cells"
STATES = ["Arden", "Birch", "Cedar", "Dell", "Elm", "Fern", "Glen", "Heath", "Isle", "Juniper"]


def counties() -> pd.DataFrame:
    rng = np.random.default_rng(2020)
    n = 120
    state = np.sort(rng.choice(STATES, size=n))
    people = np.exp(rng.normal(9.5, 1.2, size=n)).astype(int)
    abroad = rng.beta(2.0, 18.0, size=n).round(3)
    effect = dict(zip(STATES, rng.normal(0.0, 0.6, size=len(STATES)), strict=True))
    rate = people * np.exp(-6.9 + 9.0 * abroad + np.array([effect[s] for s in state]))
    size = 1 / 0.3
    true = rng.poisson(rng.gamma(size, rate / size))
    noise = na.mechanisms.LocalDiscreteGaussian(na.queries.Value(), scale=7.0, threshold=21)
    number = dict.fromkeys(STATES, 0)
    names = []
    for s in state:
        number[s] += 1
        names.append(f"{s} county {number[s]}")
    return pd.DataFrame(
        {
            "NAME": names,
            "STATE": state,
            "POPGROUP_LABEL": "Made-up group",
            "T01001_001N": pd.array(noise.privatize(true, rng).values, dtype="Int64"),
            "sd": 7.0,
            "population": people,
            "born_abroad": abroad,
            "true": true,
        }
    )


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    counties().to_csv(HERE / "counties.csv", index=False)
