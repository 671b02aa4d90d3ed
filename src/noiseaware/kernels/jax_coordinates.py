"""The unconstrained coordinates of `noiseaware.sampler.coordinates`, written for JAX.

The maps v -> theta and the logarithms of their Jacobians are those of the table there; here they
can be differentiated, so that a gradient of log p(v | x) is the gradient of the density that the
kernel has to leave alone. Into the other direction, theta -> v, no derivative is needed, and the
compiled NumPy map is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.parameters import Parameter
from noiseaware.sampler.coordinates import Coordinates


class JaxCoordinates:
    """The maps between theta and one real vector v, with a differentiable v -> theta.

    Attributes
    ----------
    size
        The length of v.
    """

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        self.parameters = tuple(parameters)
        self._numpy = Coordinates(self.parameters)
        self.size = self._numpy.size

    def to_vector(self, theta: dict[str, Any]) -> np.ndarray:
        """Return v with theta(v) = theta, (size,)."""
        return self._numpy.to_vector(theta)

    def from_vector(self, v: Any) -> tuple[dict[str, Any], Any]:
        """Return theta(v) and the log of the Jacobian at v, as JAX arrays."""
        theta, log_jacobian, at = {}, 0.0, 0
        for parameter in self.parameters:
            free = free_size(parameter)
            value, part = _constrain(parameter, v[at : at + free])
            theta[parameter.name] = value
            log_jacobian = log_jacobian + part
            at += free
        return theta, log_jacobian


def free_size(parameter: Parameter) -> int:
    """Return how many free coordinates a parameter has."""
    shape = parameter.shape
    if parameter.support == "simplex":
        return math.prod(shape[:-1]) * (shape[-1] - 1)
    if parameter.support == "table":
        return math.prod(shape) - 1
    if parameter.support == "covariance":
        return shape[0] * (shape[0] + 1) // 2
    return math.prod(shape)


def _constrain(parameter: Parameter, v: Any) -> tuple[Any, Any]:
    """Return one parameter's theta(v), in its shape, and the log of the Jacobian."""
    import jax
    import jax.numpy as jnp

    shape, support = parameter.shape, parameter.support
    if support == "real":
        return v.reshape(shape), 0.0
    if support == "positive":
        return jnp.exp(v).reshape(shape), v.sum()
    if support == "unit":
        # log theta + log(1 - theta), stable for large |v|.
        log_jacobian = -(jax.nn.softplus(v) + jax.nn.softplus(-v)).sum()
        return jax.nn.sigmoid(v).reshape(shape), log_jacobian
    if support in ("simplex", "table"):
        width = shape[-1] if support == "simplex" else math.prod(shape)
        rows = v.reshape(-1, width - 1)
        logits = jnp.concatenate([rows, jnp.zeros((len(rows), 1), rows.dtype)], axis=1)
        log_theta = jax.nn.log_softmax(logits, axis=1)
        return jnp.exp(log_theta).reshape(shape), log_theta.sum()
    p = shape[0]
    row, column = np.tril_indices(p)
    filled = jnp.where(row == column, jnp.exp(v), v)
    factor = jnp.zeros((p, p), v.dtype).at[row, column].set(filled)
    diagonal = v[np.flatnonzero(row == column)]
    log_jacobian = p * math.log(2.0) + ((p - np.arange(p) + 1) * diagonal).sum()
    return factor @ factor.T, log_jacobian
