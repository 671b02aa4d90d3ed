"""Make `releases/*.json`: a release for each model file in `models/`.

All surveys are made up. This file has the true parameters, the query and the noise for each model
file; the records themselves are discarded.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import noiseaware as na
from noiseaware.documents.model_file import read_model_file

HERE = Path(__file__).parent


class Survey(NamedTuple):
    """The simulation of an example: model and true parameters, query and noise."""

    theta: dict[str, Any]
    mechanism: Any
    n_records: int | None
    """None if the model includes their number."""


def surveys() -> dict[str, Survey]:
    queries, mechanisms = na.queries, na.mechanisms
    return {
        "linear_regression": Survey(
            {
                "coefficients": np.array([0.3, 0.8, -0.4]),
                "noise_variance": np.array(1.0),
                "feature_mean": np.array([0.2, 0.5]),
                "feature_covariance": np.array([[2.0, 0.6], [0.6, 1.5]]),
            },
            mechanisms.Laplace(queries.RegressionMoments(2, lower=-6, upper=6), epsilon=3.0),
            400,
        ),
        "naive_bayes": Survey(
            {
                "class_probabilities": np.array([0.35, 0.65]),
                "feature_probabilities_1": np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]),
                "feature_probabilities_2": np.array([[0.4, 0.6], [0.5, 0.5]]),
            },
            mechanisms.DiscreteLaplace(queries.ClassFeatureCounts(2, [3, 2]), epsilon=1.0),
            400,
        ),
        "bernoulli": Survey(
            {"probability": np.array(0.22)},
            mechanisms.DiscreteLaplace(queries.Count(value=1), epsilon=0.2),
            250,
        ),
        "normal": Survey(
            {"mean": np.array(7.2), "variance": np.array(1.6)},
            mechanisms.DiscreteGaussian(queries.Histogram(edges=[4, 5, 6, 7, 8, 9, 10]), rho=0.1),
            200,
        ),
        "categorical": Survey(
            {"probabilities": np.array([0.15, 0.2, 0.25, 0.4])},
            mechanisms.Clamped(
                mechanisms.DiscreteLaplace(queries.Histogram(n_levels=4), epsilon=0.5), lower=0
            ),
            300,
        ),
        "exponential": Survey(
            {"rate": np.array(0.4)},
            mechanisms.Laplace(queries.Sum(lower=0.0, upper=10.0), epsilon=1.0),
            300,
        ),
        "gamma": Survey(
            {"shape": np.array(2.5), "rate": np.array(0.6)},
            mechanisms.DiscreteLaplace(
                queries.Histogram(edges=[0, 1, 2, 3, 4, 6, 8, 12]), epsilon=1.0
            ),
            300,
        ),
        "multivariate_normal": Survey(
            {"mean": np.array([0.1, 0.3]), "covariance": np.array([[0.9, 0.6], [0.6, 1.8]])},
            mechanisms.Gaussian(queries.Moments(2, lower=-5.0, upper=5.0), rho=0.5),
            300,
        ),
        "two_proportions": Survey(
            {"proportions": np.array([0.42, 0.58])},
            mechanisms.DiscreteLaplace(queries.ByGroup(queries.Count(value=1), 2), epsilon=0.5),
            300,
        ),
        "two_means": Survey(
            {"means": np.array([0.1, 0.6]), "variance": np.array(1.2)},
            mechanisms.Laplace(queries.ByGroup(queries.Sum(lower=-4.0, upper=4.0), 2), epsilon=1.0),
            220,
        ),
        "stratified_proportions": Survey(
            {"proportions": np.array([0.18, 0.07, 0.1, 0.12, 0.09, 0.14])},
            mechanisms.DiscreteLaplace(queries.ByGroup(queries.Count(value=1), 6), epsilon=1.0),
            500,
        ),
        "stratified_means": Survey(
            {"means": np.array([3.2, 4.1, 4.4, 3.8, 5.0]), "variance": np.array(2.2)},
            mechanisms.Laplace(queries.ByGroup(queries.Sum(lower=0.0, upper=10.0), 5), epsilon=2.0),
            250,
        ),
        "poisson": Survey(
            {"rate": np.array(3.1)},
            mechanisms.DiscreteLaplace(
                queries.Sum(lower=0, upper=20, integer_valued=True), epsilon=0.5
            ),
            250,
        ),
        "negative_binomial": Survey(
            {"mean": np.array(7.0), "dispersion": np.array(0.8)},
            mechanisms.DiscreteLaplace(
                queries.Histogram(edges=[0, 1, 3, 5, 10, 20, 50]), epsilon=1.0
            ),
            300,
        ),
        "logistic_regression": Survey(
            {
                "coefficients": np.array([-1.2, -0.3, -0.8]),
                "feature_mean": np.array([0.3, 0.0]),
                "feature_covariance": np.array([[1.5, 0.3], [0.3, 1.0]]),
            },
            mechanisms.Laplace(
                queries.RegressionMoments(2, lower=[-4, -4, 0], upper=[4, 4, 1]), epsilon=4.0
            ),
            400,
        ),
        "poisson_regression": Survey(
            {
                "coefficients": np.array([0.9, 0.2, -0.3]),
                "feature_mean": np.array([0.2, 0.1]),
                "feature_covariance": np.array([[1.2, 0.0], [0.0, 1.0]]),
            },
            mechanisms.Laplace(
                queries.RegressionMoments(2, lower=[-4, -4, 0], upper=[4, 4, 15]), epsilon=4.0
            ),
            400,
        ),
        "contingency_table": Survey(
            {
                "cell_probabilities": np.array(
                    [
                        [[0.10, 0.07], [0.08, 0.10], [0.04, 0.10]],
                        [[0.09, 0.08], [0.07, 0.11], [0.05, 0.11]],
                    ]
                )
            },
            mechanisms.DiscreteLaplace(queries.Margins([2, 3, 2], [[0, 1], [1, 2]]), epsilon=1.0),
            400,
        ),
        "dirichlet": Survey(
            {"mean": np.array([0.5, 0.2, 0.3]), "precision": np.array(8.0)},
            mechanisms.Laplace(queries.Shares(3, squares=True), epsilon=1.0),
            300,
        ),
        "unknown_sizes": Survey(
            {"proportions": np.array([0.31, 0.2]), "shares": np.array([0.6, 0.4])},
            mechanisms.DiscreteLaplace(
                queries.ByGroup(queries.Histogram(n_levels=2), 2), epsilon=1.0
            ),
            300,
        ),
        "poisson_table": Survey(
            {"means": np.array([[31.0, 27.0], [80.0, 95.0], [4.0, 3.0]])},
            mechanisms.DiscreteGaussian(
                queries.Margins([3, 2], [[0], [0, 1]]), scale=[3.0] * 3 + [5.0] * 6
            ),
            None,
        ),
        "log_normal_table": Survey(
            {"log_means": np.log([[31.0, 27.0], [80.0, 95.0], [4.0, 3.0]])},
            mechanisms.DiscreteGaussian(
                queries.Margins([3, 2], [[0], [0, 1]]), scale=[3.0] * 3 + [5.0] * 6
            ),
            None,
        ),
        "log_linear_table": Survey(
            {"coefficients": np.array([3.2, 0.1, -0.3, 0.2, 0.4, 0.1, 0.0, 0.8, -0.3])},
            mechanisms.DiscreteLaplace(
                queries.Margins([2, 3, 2], [[0, 1], [1, 2], [0, 2]]), epsilon=1.0
            ),
            None,
        ),
    }


def main() -> None:
    for number, (name, survey) in enumerate(surveys().items()):
        rng = np.random.default_rng([20220614, number])
        model = read_model_file(HERE / "models" / f"{name}.toml").model
        if survey.n_records is None:
            means = np.exp(model.log_likelihood(survey.theta, model.record_values))
            records = np.repeat(model.record_values, rng.poisson(means), axis=0)
        else:
            records = model.sample_records(survey.theta, survey.n_records, rng)
        release = survey.mechanism.privatize(records, rng)
        if survey.n_records is None:
            release = na.Release(release.values, release.mechanism, None)
        release.to_json(HERE / "releases" / f"{name}.json")


if __name__ == "__main__":
    main()
