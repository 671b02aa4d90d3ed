"""The log density of Laplace noise that was folded into a range, for compiled code.

The derivation is in `folded`.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def log_folded_laplace(value, inverse, lower, upper, total):
    """Return log g at `value`, up to a constant free of T.

    Parameters
    ----------
    value
        The released number, between the bounds.
    inverse
        1 / scale.
    lower, upper
        The bounds, lower < upper; one or both may be infinite.
    total
        T_j, anywhere.

    Returns
    -------
    float
    """
    if np.isinf(lower) and np.isinf(upper):
        return -abs(value - total) * inverse
    if np.isinf(lower) or np.isinf(upper):
        # One mirror: the noisy number was the value, or the value's mirror image.
        mirror = upper if np.isinf(lower) else lower
        near = abs(value - total)
        far = abs(2.0 * mirror - value - total)
        if far < near:
            near, far = far, near
        return -near * inverse + np.log1p(np.exp((near - far) * inverse))
    # Two mirrors: g is periodic in T, and the same at T and at its mirror image.
    period = 2.0 * (upper - lower)
    place = (total - lower) % period
    if place > 0.5 * period:
        place = period - place
    direct = abs(value - lower - place)
    image = value - lower + place
    nearest = min(direct, image, period - image)
    result = 0.0
    for distance in (direct, period - direct, image, period - image):
        result += np.exp((nearest - distance) * inverse)
    return -nearest * inverse + np.log(result)
