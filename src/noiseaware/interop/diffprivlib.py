"""Releases made by the mechanisms of IBM's diffprivlib.

A diffprivlib mechanism has an epsilon, maybe a delta, and a sensitivity, and privatises one number
(`mechanism.randomise(value)`). The scale of its noise is read from the mechanism if it stores it,
or else computed by the mechanism's own formula:

| diffprivlib                    | the noise                                  | here               |
|--------------------------------|--------------------------------------------|--------------------|
| `Laplace`                      | scale sensitivity/(epsilon-log(1-delta))   | `Laplace`          |
| `LaplaceTruncated`             | the same, then clamped to the range        | `Clamped`          |
| `LaplaceFolded`                | the same, then mirrored into the range     | `Folded`           |
| `LaplaceBoundedDomain`         | drawn again until it is in the range       | `Truncated`        |
| `Geometric`                    | scale sensitivity/epsilon, on the integers | `DiscreteLaplace`  |
| `GeometricTruncated`           | the same, then clamped to the range        | `Clamped`          |
| `GeometricFolded`              | the same, then mirrored into the range     | `Folded`           |
| `Gaussian`, `GaussianAnalytic` | the scale that the mechanism stores        | `Gaussian`         |
| `GaussianDiscrete`             | likewise, on the integers                  | `DiscreteGaussian` |

Note that diffprivlib's "truncated" mechanisms clamp (atoms at the ends), which is `Clamped` here;
`Truncated` here is its bounded domain. The bounded-domain mechanism first clamps the true answer to
the range, so it is read only if the range holds all answers that n records can give. Its guarantee
here is twice what the scale alone gives, which holds for all truncated Laplace noise; diffprivlib's
epsilon is smaller.

diffprivlib adds noise to one number at a time. For a query of several numbers, the same mechanism
must have been used on each; the guarantee then follows from the query's sensitivity for all of them
together, not from the mechanism's epsilon.

The mechanism's sensitivity must be possible for the query: at least what one record can move one
of the numbers, and at most what it can move all of them together, under either relation. Otherwise
the numbers do not answer that query, and it is refused.

`tools` reads the answers of `diffprivlib.tools`, `fitted` the models of `diffprivlib.models`.

Reference
---------
Holohan, N., Braghin, S., Mac Aonghusa, P. and Levacher, K. (2019). Diffprivlib: the IBM
    differential privacy library. arXiv:1907.02444.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noiseaware import mechanisms
from noiseaware.basics.arguments import whole_number
from noiseaware.contract import query_abilities
from noiseaware.interop import diffprivlib_tools as tools
from noiseaware.interop.diffprivlib_models import fitted
from noiseaware.interop.reading import cannot_read
from noiseaware.queries import Neighbours
from noiseaware.release import Release

__all__ = ["fitted", "release", "tools"]

LAPLACE = ("Laplace", "LaplaceTruncated", "LaplaceFolded")
GEOMETRIC = ("Geometric", "GeometricTruncated", "GeometricFolded")
KNOWN: dict[str, Any] = {
    **dict.fromkeys((*LAPLACE, "LaplaceBoundedDomain"), mechanisms.Laplace),
    **dict.fromkeys(GEOMETRIC, mechanisms.DiscreteLaplace),
    **dict.fromkeys(("Gaussian", "GaussianAnalytic"), mechanisms.Gaussian),
    "GaussianDiscrete": mechanisms.DiscreteGaussian,
}


def release(
    mechanism: Any, values: ArrayLike, query: Any, n_records: int, neighbours: Neighbours = "change"
) -> Release:
    """Read a mechanism of diffprivlib and the values that it released.

    Parameters
    ----------
    mechanism
        The mechanism of `diffprivlib.mechanisms` that made every value.
    values
        The released numbers, in the order of `query.names`.
    query
        What was asked, such as `noiseaware.queries.Count(value=1)`.
    n_records
        The number of confidential records.
    neighbours
        The relation of the guarantee, which diffprivlib leaves implicit in the sensitivity.

    Raises
    ------
    ValueError
        If the mechanism cannot be read; the message says how to write the release by hand.
    """
    module = type(mechanism).__module__
    if not module.startswith("diffprivlib.") or isinstance(mechanism, type):
        raise TypeError(
            "mechanism must be a mechanism of diffprivlib, such as "
            f"diffprivlib.mechanisms.Laplace(epsilon=1, sensitivity=1); got {mechanism!r}"
        )
    name = type(mechanism).__name__
    if name not in KNOWN:
        raise cannot_read(f"mechanism must be one of {', '.join(KNOWN)}; got {name}")
    n = whole_number("n_records", n_records)
    _check_sensitivity(float(mechanism.sensitivity), query)
    noise = KNOWN[name](query, scale=_scale(name, mechanism), neighbours=neighbours)
    return Release(values, _after_noise(name, mechanism, noise, n), n)


def _check_sensitivity(given: float, query: Any) -> None:
    """Raise ValueError if no neighbour relation gives the query this sensitivity."""
    known = query_abilities(query).sensitivity
    if known is None:
        return
    found = []
    for relation in ("change", "add-remove"):
        for norm in (math.inf, 1):
            try:
                found.append(known(norm, neighbours=relation))
            except ValueError:  # a query that knows its sensitivity for some of these only
                continue
    if found and not min(found) * (1 - 1e-9) <= given <= max(found) * (1 + 1e-9):
        right = f"{min(found):g}" + (f" to {max(found):g}" if max(found) > min(found) else "")
        raise ValueError(
            f"query must have the sensitivity of the mechanism, {given:g}; that of {query!r} is "
            f"{right}: were other numbers asked, or scaled?"
        )


def _scale(name: str, mechanism: Any) -> float:
    if name in LAPLACE:
        # delta reduces the noise: epsilon - log(1 - delta) is above epsilon.
        return mechanism.sensitivity / (mechanism.epsilon - math.log1p(-mechanism.delta))
    if name in GEOMETRIC:
        return mechanism.sensitivity / mechanism.epsilon
    if name == "LaplaceBoundedDomain":
        mechanism.effective_epsilon()  # it finds its scale when it is first used
    scale = getattr(mechanism, "_scale", None)
    if scale is None:
        raise cannot_read(f"this {name} does not say the scale of its noise")
    return float(scale)


def _after_noise(name: str, mechanism: Any, noise: Any, n: int) -> Any:
    if name == "LaplaceBoundedDomain":
        lower, upper = float(mechanism.lower), float(mechanism.upper)
        _check_answers(noise.query, n, lower, upper)
        return mechanisms.Truncated(noise, lower=lower, upper=upper)
    if name.endswith("Truncated"):
        return mechanisms.Clamped(noise, lower=mechanism.lower, upper=mechanism.upper)
    if name.endswith("Folded"):
        return mechanisms.Folded(noise, mechanism.lower, mechanism.upper)
    return noise


def _check_answers(query: Any, n: int, lower: float, upper: float) -> None:
    """Raise ValueError unless all answers that n records can give are between the bounds."""
    able = query_abilities(query)
    if able.possible is None:
        raise cannot_read(
            "LaplaceBoundedDomain is read for queries whose range of answers is known, such as "
            f"Count, Histogram and Sum; got {able.name}"
        )
    far = np.full(len(query.names), np.inf)
    least, most = able.possible(-far, n).min(), able.possible(far, n).max()
    if least < lower or most > upper:
        raise cannot_read(
            f"LaplaceBoundedDomain clamps the answer to [{lower:g}, {upper:g}] before the noise, "
            f"but {n} records can give answers from {least:g} to {most:g}"
        )
