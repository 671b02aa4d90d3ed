"""Computes the scale and the guarantee of a mechanism from its arguments.

The user gives a privacy promise (an epsilon, a rho) or the published scale. Either determines the
other through the query's sensitivity: the most that T can differ between neighbouring databases,
in l1 norm for Laplace noise and l2 norm for Gaussian noise.
"""

from __future__ import annotations

import math
from typing import Any

from noiseaware.basics.arguments import positive, probability
from noiseaware.contract import Neighbours
from noiseaware.mechanisms.guarantee import Guarantee, Kind, gaussian_mu, pure_or_unknown, zcdp_rho


def laplace_noise(
    query: Any,
    neighbours: Neighbours,
    *,
    norm: float = 1,
    epsilon: float | None = None,
    scale: float | None = None,
) -> tuple[float, Guarantee]:
    """Return the scale and guarantee of Laplace noise, or of `KNorm` noise by another norm.

    epsilon = Delta_1 / scale.
    """
    check_one_way("epsilon and scale", epsilon=epsilon, scale=scale)
    if scale is not None:
        scale = positive("scale", scale)
        sensitivity, reason = known_sensitivity(query, norm, neighbours)
        epsilon = None if sensitivity is None else sensitivity / scale
        return scale, pure_or_unknown(epsilon, neighbours, reason)
    epsilon = positive("epsilon", epsilon)
    scale = scale_for(query, norm, neighbours, epsilon)
    return scale, Guarantee("pure", epsilon=epsilon, neighbours=neighbours)


def utility_noise(
    sensitivity: float | None,
    reason: str,
    neighbours: Neighbours,
    *,
    epsilon: float | None,
    scale: float | None,
    normaliser: float = math.inf,
    whose: str = "a",
) -> tuple[float, Guarantee]:
    """Return the scale b and the guarantee where g is proportional to exp(utility / b).

    If one record moves the utility of every output by at most Delta, it changes exp(utility / b) by
    a factor of at most exp(Delta / b). The normaliser, the sum over all outputs, changes by no more
    than that, nor by more than exp(normaliser) where that bound is known:

        epsilon = Delta / b + min(Delta / b, normaliser).

    `sensitivity` is Delta, or None for a `reason`; `whose` is for the error message.
    """
    check_one_way("epsilon and scale", epsilon=epsilon, scale=scale)
    if epsilon is not None:
        epsilon = positive("epsilon", epsilon)
        if not sensitivity:
            raise ValueError(f"epsilon needs {whose} sensitivity: {reason or 'it is 0'}")
        scale = sensitivity / max(0.5 * epsilon, epsilon - normaliser)
    else:
        scale = positive("scale", scale)
        if sensitivity is not None:
            strength = sensitivity / scale
            epsilon = strength + min(strength, normaliser)
    return scale, pure_or_unknown(epsilon, neighbours, reason)


def gaussian_noise(
    query: Any,
    neighbours: Neighbours,
    discrete: bool = False,
    *,
    scale: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
) -> tuple[float, Guarantee]:
    """Return the scale and guarantee of Gaussian noise, continuous or discrete.

    With strength = Delta_2 / scale, both are zCDP with rho = strength^2 / 2. Continuous noise is
    also GDP with mu = strength, and its (epsilon, delta) is exact (`gaussian_mu`). For discrete
    noise (epsilon, delta) is a bound from rho (`zcdp_rho`).
    """
    if discrete and mu is not None:
        raise ValueError(
            "mu is not available for DiscreteGaussian, whose Gaussian differential privacy is not "
            "known exactly: give rho, epsilon with delta, or scale"
        )
    ways = "scale, epsilon (with delta)" + (" and rho" if discrete else ", rho and mu")
    check_one_way(ways, scale=scale, epsilon=epsilon, rho=rho, mu=mu)
    if (epsilon is None) != (delta is None):
        missing = "delta" if delta is None else "epsilon"
        raise ValueError(f"epsilon and delta must be given together; {missing} is missing")
    kind: Kind = "zCDP" if discrete else "GDP"
    if scale is not None:
        scale = positive("scale", scale)
        sensitivity, reason = known_sensitivity(query, 2, neighbours)
        if sensitivity is None:
            return scale, Guarantee("unknown", neighbours=neighbours, reason=reason)
        strength = sensitivity / scale
    else:
        if epsilon is not None:
            kind = "approximate"
            epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
            if discrete:
                strength = math.sqrt(2.0 * zcdp_rho(epsilon, delta))
            else:
                strength = gaussian_mu(epsilon, delta)
        elif rho is not None:
            kind = "zCDP"
            rho = positive("rho", rho)
            strength = math.sqrt(2.0 * rho)
        else:
            strength = positive("mu", mu)
        scale = scale_for(query, 2, neighbours, strength)
    return scale, Guarantee(
        kind,
        epsilon=epsilon,
        delta=delta,
        rho=0.5 * strength * strength if rho is None else rho,
        mu=None if discrete else strength,
        neighbours=neighbours,
    )


def check_one_way(ways: str, **given: Any) -> None:
    """Raise ValueError unless exactly one of the `ways` of setting the noise is not None."""
    used = [name for name, value in given.items() if value is not None]
    if len(used) != 1:
        got = " and ".join(used) if used else "none of them"
        raise ValueError(f"give exactly one of {ways}; got {got}")


def scale_for(query: Any, norm: float, neighbours: Neighbours, strength: float) -> float:
    """Return the query's sensitivity divided by `strength`.

    Raises ValueError if the sensitivity is unknown, 0 or infinite.
    """
    sensitivity = float(query.sensitivity(norm, neighbours=neighbours))
    scale = sensitivity / strength if strength > 0.0 else math.inf
    if not (scale > 0.0 and math.isfinite(scale)):
        raise ValueError(
            f"no scale follows from the guarantee: the query's l{norm} sensitivity is "
            f"{sensitivity}, which gives the scale {scale} (give scale instead)"
        )
    return scale


def known_sensitivity(query: Any, norm: float, neighbours: Neighbours) -> tuple[float | None, str]:
    """Return the query's sensitivity, or None with a reason.

    None is no error if the scale is given: the posterior needs no sensitivity, and only the
    guarantee is unknown.
    """
    try:
        sensitivity = float(query.sensitivity(norm, neighbours=neighbours))
    except ValueError as error:
        return None, str(error)
    if not (sensitivity >= 0.0 and math.isfinite(sensitivity)):
        return None, f"the query's l{norm} sensitivity is {sensitivity}"
    return sensitivity, ""
