"""p(theta | x) as a density of the unconstrained vector v.

    log p(v | x) = log p(theta(v)) + log |d theta / d v| + sum_i log f(x_i | theta(v)) + constant.

The Jacobian is there because theta is moved in v: without it the kernel would leave another
density alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def log_density(target: Any, v: np.ndarray, records: np.ndarray) -> tuple[float, dict[str, Any]]:
    """Return log p(v | x) up to a constant, and theta(v).

    It is minus infinity where the model gives NaN: far out, where its arithmetic ends. So it is
    where the model gives plus infinity, on the edge of a support that v reaches only by rounding.
    """
    theta, log_jacobian = target.coordinates.from_vector(v)
    model = target.model
    value = float(model.log_prior(theta)) + log_jacobian
    if value > -math.inf:  # not with NaN, and no likelihood outside the prior's support
        value += float(np.sum(model.log_likelihood(theta, records)))
    return (value if -math.inf < value < math.inf else -math.inf), theta


def check_model(kernel: Any, target: Any) -> None:
    """ValueError unless the model has a prior density and a likelihood."""
    for method in ("log_prior(theta)", "log_likelihood(theta, records)"):
        if not hasattr(target.model, method.partition("(")[0]):
            raise ValueError(
                f"{type(kernel).__name__} needs a model with {method}; "
                f"{type(target.model).__name__} has none"
            )
