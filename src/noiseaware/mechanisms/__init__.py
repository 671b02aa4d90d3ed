"""How the answer to a query was made private.

A mechanism knows the law of the released values s_dp given the total T of the records'
statistics: `log_density(values, total)` is log g(s_dp, T), the one place where the noise enters
the posterior. It also knows what it promises (`guarantee`) and can simulate a release
(`privatize`). The mechanisms, one file each:

- `Laplace`: pure differential privacy, by the l1 sensitivity;
- `Gaussian`: (epsilon, delta), rho-zCDP or mu-GDP, by the l2 sensitivity;
- `DiscreteLaplace`, `DiscreteGaussian`: the same for queries whose totals are integers;
- `Clamped`, `Thresholded`, `Rounded`, `Truncated`: what was done after the noise (`after_noise`);
- `Several`: several releases about the same records, as one;
- `Folded`: Laplace noise that was mirrored into a range;
- `LocalLaplace`, `LocalGaussian`, `LocalGeometric`, `RandomizedResponse`: every record is released
  with its own noise (`local`).
- `KNorm`: noise that follows the l1, l2 or l-infinity ball;
- `Exponential`: one of finitely many outputs, by its utility;
- `KNormGradient`, `ObjectivePerturbation`: a minimiser of a summed loss (`losses`);
- `Functional`: the noisy coefficients of a polynomial objective.

Behind them: `terms` (the log density for compiled code), `guarantee` (the promises), `calibrate`
(from a promise to a scale), `curves` (delta as a function of epsilon), `additive` (what the four
share), `protocol` (what a mechanism of your own must have).

Example
-------
>>> import noiseaware as na
>>> import numpy as np
>>> mechanism = na.mechanisms.DiscreteLaplace(na.queries.Count(), epsilon=1.0)
>>> mechanism.log_density(values=[7.0], total=[5.0])
-2.0
>>> release = mechanism.privatize(np.array([0, 1, 1, 0, 1]), np.random.default_rng(1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noiseaware import queries
from noiseaware.mechanisms.additive import AdditiveNoise
from noiseaware.mechanisms.after_noise import Clamped, Rounded, Thresholded, Truncated
from noiseaware.mechanisms.calibrate import positive
from noiseaware.mechanisms.discrete_gaussian import DiscreteGaussian
from noiseaware.mechanisms.discrete_laplace import DiscreteLaplace
from noiseaware.mechanisms.exponential import Exponential
from noiseaware.mechanisms.folded import Folded
from noiseaware.mechanisms.functional import Functional, ObjectiveCoefficients
from noiseaware.mechanisms.gaussian import Gaussian
from noiseaware.mechanisms.guarantee import Guarantee, with_guarantee
from noiseaware.mechanisms.k_norm import KNorm
from noiseaware.mechanisms.k_norm_gradient import KNormGradient
from noiseaware.mechanisms.laplace import Laplace
from noiseaware.mechanisms.local import (
    LocalGaussian,
    LocalGeometric,
    LocalLaplace,
    RandomizedResponse,
)
from noiseaware.mechanisms.losses import LinearLoss, LogisticLoss, MeanLoss, QuantileLoss
from noiseaware.mechanisms.objective_perturbation import ObjectivePerturbation
from noiseaware.mechanisms.protocol import MechanismLike
from noiseaware.mechanisms.several import Several
from noiseaware.mechanisms.terms import Terms

__all__ = [
    "Clamped",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Folded",
    "Functional",
    "Gaussian",
    "Guarantee",
    "KNorm",
    "KNormGradient",
    "Laplace",
    "LinearLoss",
    "LocalGaussian",
    "LocalGeometric",
    "LocalLaplace",
    "LogisticLoss",
    "MeanLoss",
    "MechanismLike",
    "ObjectiveCoefficients",
    "ObjectivePerturbation",
    "QuantileLoss",
    "RandomizedResponse",
    "Rounded",
    "Several",
    "Terms",
    "Thresholded",
    "Truncated",
    "from_dict",
]

_ADDITIVE: dict[str, Callable[..., AdditiveNoise]] = {
    mechanism.__name__: mechanism
    for mechanism in (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)
}

# Mechanisms with other fields read their own dictionaries.
_OWN_FIELDS: dict[str, Callable[[dict[str, Any]], MechanismLike]] = {
    mechanism.__name__: mechanism.from_dict
    for mechanism in (
        Clamped,
        Thresholded,
        Rounded,
        Truncated,
        Several,
        Folded,
        LocalLaplace,
        LocalGaussian,
        LocalGeometric,
        RandomizedResponse,
        KNorm,
        Exponential,
        KNormGradient,
        ObjectivePerturbation,
        Functional,
    )
}


def from_dict(entries: dict[str, Any]) -> MechanismLike:
    """Read back the mechanism that its `to_dict` wrote.

    The scale is read, never computed again. A guarantee in `entries` is checked against what
    the scale and the query's sensitivity give, and one that promises more is an error.

    Parameters
    ----------
    entries
        `type`, `scale` and `query`; `neighbours` (`"change"` if it is not there) and
        `guarantee` are optional.
    """
    if not isinstance(entries, dict):
        raise TypeError(f"a mechanism must be a dictionary; got {type(entries).__name__}")
    if entries.get("type") in list(_OWN_FIELDS):
        return _OWN_FIELDS[entries["type"]](entries)
    known = ("type", "scale", "query", "neighbours", "guarantee")
    missing = [name for name in known[:3] if name not in entries]
    if missing:
        raise ValueError(
            f"a mechanism must have {', '.join(known[:3])}; {missing[0]!r} is missing"
            f"{_scale_hint(entries)}"
        )
    foreign = sorted(set(entries) - set(known))
    if foreign:
        raise ValueError(
            f"a mechanism may have {', '.join(known)}; got {foreign[0]!r}{_scale_hint(foreign)}"
        )
    if entries["type"] not in list(_ADDITIVE):
        raise ValueError(
            f"type of a mechanism must be one of {', '.join([*_ADDITIVE, *_OWN_FIELDS])}; "
            f"got {entries['type']!r}"
        )
    mechanism = _ADDITIVE[entries["type"]](
        queries.from_dict(entries["query"]),
        scale=positive("scale", entries["scale"]),
        neighbours=entries.get("neighbours", "change"),
    )
    return with_guarantee(mechanism, entries)


def _scale_hint(fields: Iterable[str]) -> str:
    """Return what to write instead of a promise, which alone does not say how large the noise is.

    A promise leaves open which sensitivity and which formula made the scale.
    """
    promises = [name for name in ("epsilon", "delta", "rho", "mu") if name in fields]
    if not promises:
        return ""
    return (
        f". A file states the scale of the noise and not {promises[0]}: for Laplace noise it is "
        "the query's l1 sensitivity / epsilon"
    )
