"""Make `exercise_release.json`, the release that the demo reads.

A made-up survey of 300 people: weekly hours of exercise, and resting pulse. The agency clamps both
and publishes the five sums for a linear regression, with Laplace noise for epsilon = 2, as stated
in the file. The records themselves are discarded.

Units: `x1` is weekly hours of exercise minus 4; `y` is the pulse minus 70, in tens of beats per
minute.
"""

from pathlib import Path

import numpy as np

import noiseaware as na

TRUTH = {"intercept": 0.2, "slope": -0.25, "noise_variance": 0.5, "mean": 0.3, "variance": 4.0}


def main() -> None:
    rng = np.random.default_rng(20220601)
    hours = TRUTH["mean"] + np.sqrt(TRUTH["variance"]) * rng.standard_normal(300)
    pulse = (
        TRUTH["intercept"]
        + TRUTH["slope"] * hours
        + np.sqrt(TRUTH["noise_variance"]) * rng.standard_normal(300)
    )
    query = na.queries.RegressionMoments(n_features=1, lower=[-6, -3], upper=[6, 3])
    mechanism = na.mechanisms.Laplace(query, epsilon=2.0)
    release = mechanism.privatize(np.column_stack([hours, pulse]), rng)
    release.to_json(Path(__file__).with_name("exercise_release.json"))


if __name__ == "__main__":
    main()
