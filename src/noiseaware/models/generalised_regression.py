"""What `LogisticRegression` and `PoissonRegression` share: all but the response's distribution.

    x_0^i ~ N_p(m, Sigma)                       the features, as in `LinearRegression`
    eta_i = (1, x_0^i) beta                     the linear predictor; beta_0 is the intercept
    beta_j ~ N(0, tau^2)                        tau = coefficient_sd

The functions here are the methods of both classes. Which response a model has it says by
``_response``, the kind and the cut-off of eta that `response_kernels.py` takes.

The kernel
----------
Given x, beta and (m, Sigma) are independent. `update_parameters` does one Metropolis-Hastings step
on beta, from a Student t distribution around the mode of p(beta | x) that does not depend on where
beta is (`response_kernels.py` has the derivation), and one Gibbs scan of m and Sigma, with the
conditionals of `linear_regression.py`.

The construction x = F(u; theta)
--------------------------------
u is p + 2 standard normals. With Sigma = L L', x_0 = m + L u_{1..p}. The last two make the
exponential variable E = (u_{p+1}^2 + u_{p+2}^2) / 2, and y is a step function of E. Given y, E is
drawn from an exponential distribution between the edges that give y, and the angle of
(u_{p+1}, u_{p+2}) uniformly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseaware.models import response_kernels as kernels
from noiseaware.models.arguments import read_floats, read_parameter
from noiseaware.models.conjugate import log_normal_iid
from noiseaware.models.features import Features

Theta = dict[str, NDArray[np.float64]]


class Regression(Protocol):
    """What the functions here need of a model."""

    n_features: int
    features: Features
    coefficient_sd: float
    _response: tuple[int, float]


def check_response(response: NDArray[np.float64], wrong: NDArray[np.bool_], right: str) -> None:
    """Raise ValueError, which says what would be right, if a response is wrong."""
    if wrong.any():
        index = int(np.argmax(wrong))
        raise ValueError(
            f"the response (the last entry of a record) must be {right}; "
            f"got {response[index]} in record {index}"
        )


def _read(
    model: Regression, theta: Mapping[str, Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return beta, m and Sigma, each from theta or from what is known."""
    coefficients = read_parameter(theta, "coefficients", (model.n_features + 1,))
    return coefficients, *model.features.read(theta)


def sample_prior(self: Regression, rng: np.random.Generator) -> Theta:
    """Draw theta from the prior."""
    coefficients = self.coefficient_sd * rng.standard_normal(self.n_features + 1)
    return {"coefficients": coefficients} | self.features.sample_prior(rng)


def log_prior(self: Regression, theta: Mapping[str, Any]) -> float:
    """Return log p(theta), normalised; Sigma by its lower triangle."""
    coefficients = read_parameter(theta, "coefficients", (self.n_features + 1,))
    return log_normal_iid(coefficients, 0.0, self.coefficient_sd) + self.features.log_prior(theta)


def sample_records(
    self: Regression, theta: Mapping[str, Any], n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw n records from f(. | theta); shape ``(n, p + 1)``."""
    return build_records(self, theta, rng.standard_normal((n, self.n_features + 2)))


def log_likelihood(
    self: Regression, theta: Mapping[str, Any], records: ArrayLike
) -> NDArray[np.float64]:
    """Return log f(x_i | theta) for each record; shape ``(n,)``."""
    records = read_floats("records", records, self.n_features + 1)
    out = np.empty(len(records))
    kernels.log_likelihood(*self._response, *_read(self, theta), records, out)
    return out


def update_parameters(
    self: Regression, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
) -> Theta:
    """Return a new theta by a kernel that leaves p(theta | x) alone; see the module."""
    width = self.n_features + 1
    records = read_floats("records", records, width)
    new: Theta = {"coefficients": np.empty(width)}
    kernels.update_coefficients(
        *self._response,
        read_parameter(theta, "coefficients", (width,)),
        records,
        self.coefficient_sd**-2,
        rng.standard_normal(width),
        rng.standard_gamma(0.5 * kernels.DOF),
        -rng.standard_exponential(),
        new["coefficients"],
    )
    return new | self.features.update(theta, records, rng)


def build_records(
    self: Regression, theta: Mapping[str, Any], innovations: ArrayLike
) -> NDArray[np.float64]:
    """Return the records F(u_i; theta), ``(n, p + 1)``, of innovations ``(n, p + 2)``."""
    innovations = read_floats("innovations", innovations, self.n_features + 2)
    records = np.empty((len(innovations), self.n_features + 1))
    kernels.build_records(*self._response, *_read(self, theta), innovations, records)
    return records


def recover_innovations(
    self: Regression, theta: Mapping[str, Any], records: ArrayLike, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw u_i given x_i and theta, ``(n, p + 2)``; random only in what makes the response."""
    records = read_floats("records", records, self.n_features + 1)
    innovations = np.empty((len(records), self.n_features + 2))
    uniforms = rng.random((len(records), 2))
    kernels.recover_innovations(
        *self._response, *_read(self, theta), records, uniforms, innovations
    )
    return innovations
