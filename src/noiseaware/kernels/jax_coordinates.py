"""The unconstrained coordinates of `noiseaware.maths.coordinates`, with v -> theta written in JAX.

The maps v -> theta and the logarithms of their Jacobians are those of the table there; here they
can be differentiated, so that a gradient of log p(v | x) is the gradient of the density that the
kernel has to leave invariant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseaware.maths.coordinates import COVARIANCE, POSITIVE, REAL, SUPPORTS, UNIT, Coordinates
from noiseaware.parameters import Parameter


class JaxCoordinates(Coordinates):
    """The maps between theta and one real vector v, with a differentiable v -> theta."""

    def from_vector(self, v: Any) -> tuple[dict[str, Any], Any]:
        """Return theta(v) and the log of the Jacobian at v, as JAX arrays."""
        theta, log_jacobian = {}, 0.0
        ends = [*self.layout[1:, 2].tolist(), self.size]
        for parameter, row, end in zip(self.parameters, self.layout, ends, strict=True):
            value, part = _constrain(parameter, v[row[2] : end])
            theta[parameter.name] = value
            log_jacobian = log_jacobian + part
        return theta, log_jacobian


def _constrain(parameter: Parameter, v: Any) -> tuple[Any, Any]:
    """Return one parameter's theta(v), in its shape, and the log of the Jacobian."""
    import jax
    import jax.numpy as jnp

    shape, support = parameter.shape, SUPPORTS[parameter.support]
    if support.code == REAL:
        return v.reshape(shape), 0.0
    if support.code == POSITIVE:
        return jnp.exp(v).reshape(shape), v.sum()
    if support.code == UNIT:
        # log theta + log(1 - theta), stable for large |v|.
        log_jacobian = -(jax.nn.softplus(v) + jax.nn.softplus(-v)).sum()
        return jax.nn.sigmoid(v).reshape(shape), log_jacobian
    if support.code == COVARIANCE:
        p = shape[0]
        row, column = np.tril_indices(p)
        filled = jnp.where(row == column, jnp.exp(v), v)
        factor = jnp.zeros((p, p), v.dtype).at[row, column].set(filled)
        diagonal = v[np.flatnonzero(row == column)]
        log_jacobian = p * math.log(2.0) + ((p - np.arange(p) + 1) * diagonal).sum()
        return factor @ factor.T, log_jacobian
    _, width, _ = support.cut(shape)
    rows = v.reshape(-1, width - 1)
    logits = jnp.concatenate([rows, jnp.zeros((len(rows), 1), rows.dtype)], axis=1)
    log_theta = jax.nn.log_softmax(logits, axis=1)
    return jnp.exp(log_theta).reshape(shape), log_theta.sum()
