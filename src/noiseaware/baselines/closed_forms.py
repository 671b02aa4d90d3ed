"""Models for which the released numbers are all that the records say.

Without noise, T(x) would be a sufficient statistic of the model, and the posterior given T is
known. What is released is T plus noise, which may be impossible (a count below 0, a matrix of
moments that is not positive definite). Somebody who takes it as exact has to mend it first. The
query says what the mended numbers say of the records (`reading`), the model says what follows
(`closed_form`), and neither knows the other. Those that find one another are:

| model                | query                 | mended numbers       | posterior                 |
|----------------------|-----------------------|----------------------|---------------------------|
| `Bernoulli`          | `Count` of 0 or 1     | c into [0, n]        | Beta(a + c, b + n - c)    |
| `Bernoulli`          | `Sum` over [0, 1]     | c into [0, n]        | the same                  |
| `Bernoulli`          | `Histogram`, 2 levels | to at least 0        | Beta(a + c_1, b + c_0)    |
| `Categorical`        | `Histogram`, J levels | to at least 0        | Dirichlet(a_j + c_j)      |
| `NaiveBayes`         | `ClassFeatureCounts`  | to at least 0        | Dirichlet, each           |
| `Normal`, v known    | `Sum`                 | into n[lower, upper] | N(w (m_0/s_0^2 + S/v), w) |
| `Poisson`            | `Sum`                 | and to at least 0    | Gamma(a + S, b + n)       |
| `Exponential`        | `Sum`                 | and to at least 0    | Gamma(a + n, b + S)       |
| `TwoProportions`     | `ByGroup` of a count  | c_g into [0, n_g]    | Beta, each                |
| `LinearRegression`   | `RegressionMoments`   | made possible        | the model's own kernel    |
| `MultivariateNormal` | `Moments`             | the same             | the model's own kernel    |

The last two posteriors depend on the records through their moments only, so any records with the
same moments have the same posterior: `records_with` builds some, and the model's own kernel runs on
them, whatever is known and unknown.

The estimate for the bootstrap is the maximum of the likelihood at the same mended numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseaware.baselines.non_private import non_private
from noiseaware.contract import ClosedForm, Model, Reading, Theta, model_abilities, query_abilities
from noiseaware.release import Release

Array = NDArray[np.float64]


class Found(NamedTuple):
    """What a release says of the records if it is exact, and what follows for the model."""

    reading: Reading
    form: ClosedForm


def find(model: Model, release: Release) -> Found | None:
    """Return how a release's numbers give the model's posterior, or None; 0 stands for withheld."""
    read, answer = query_abilities(release.query).reading, model_abilities(model).closed_form
    if read is None or answer is None:
        return None
    n = release.known_n
    reading = read(np.where(np.isnan(release.values), 0.0, release.values), n)
    form = None if reading is None else answer(reading, n)
    return None if reading is None or form is None else Found(reading, form)


def draw(model: Model, found: Found, n: int, draws: int, rng: np.random.Generator) -> Theta:
    """Draw from the posterior given what the release says."""
    if found.form.draw is not None:
        return found.form.draw(draws, rng)
    mean, scatter = found.reading.values
    records = records_with(mean, scatter, n)
    return non_private(model, records, draws=draws, random_seed=int(rng.integers(2**63)))


def records_with(mean: Array, scatter: Array, n: int) -> Array:
    """Return n records with this mean and scatter matrix, (n, q).

    The columns cos(pi (i + 1/2) j / n), j = 1, ..., n - 1, of the discrete cosine transform sum to
    zero and are orthogonal, so that q of them, scaled, are records with any scatter matrix of rank
    below n.
    """
    eigenvalues, vectors = np.linalg.eigh(scatter)
    size = min(len(mean), n - 1)
    waves = np.cos(np.pi / n * np.outer(np.arange(n) + 0.5, np.arange(1, size + 1)))
    largest = np.argsort(eigenvalues)[::-1][:size]
    roots = np.sqrt(np.maximum(eigenvalues[largest], 0.0) * 2.0 / n)
    return mean + (waves * roots) @ vectors[:, largest].T
