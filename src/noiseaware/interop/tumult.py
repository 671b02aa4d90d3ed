"""Releases made by Tumult Analytics, from its noise information.

Tumult Analytics describes the noise of a query as a list of dictionaries (`Session._noise_info`
for a query and a privacy budget), such as

    [{"noise_mechanism": <_NoiseMechanism.GEOMETRIC: 2>, "noise_parameter": 2.0}]

This module reads such a dictionary without importing Tumult. The mechanism may be Tumult's
enumeration or its name as text, so that it can be stored as JSON.

The meaning of `noise_parameter` depends on the mechanism:

| noise_mechanism     | noise_parameter                             | here               |
|---------------------|---------------------------------------------|--------------------|
| `LAPLACE`           | b of exp(-abs(e) / b)                       | `Laplace`          |
| `GEOMETRIC`         | b of exp(-abs(e) / b), on the integers      | `DiscreteLaplace`  |
| `GAUSSIAN`          | the variance sigma^2, not sigma             | `Gaussian`         |
| `DISCRETE_GAUSSIAN` | sigma^2 of exp(-e^2 / (2 sigma^2))          | `DiscreteGaussian` |
| `EXPONENTIAL`       | epsilon of a quantile: not read             |                    |

Reference
---------
Tumult Analytics: https://docs.tmlt.dev
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from noiseaware.basics.arguments import positive
from noiseaware.interop.opendp_frames import NOISE as LAWS
from noiseaware.interop.opendp_frames import frame
from noiseaware.interop.reading import cannot_read
from noiseaware.queries import Neighbours
from noiseaware.release import Release

__all__ = ["release", "table"]

# The noise as named in OpenDP's summaries, and whether its scale is the parameter's square root.
NOISE = {
    "LAPLACE": ("Float Laplace", False),
    "GEOMETRIC": ("Integer Laplace", False),
    "GAUSSIAN": ("Float Gaussian", True),
    "DISCRETE_GAUSSIAN": ("Integer Gaussian", True),
}


def release(
    noise_info: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    values: ArrayLike,
    query: Any,
    n_records: int,
    neighbours: Neighbours = "add-remove",
) -> Release:
    """Read the noise information of Tumult Analytics and the released values.

    Parameters
    ----------
    noise_info
        The dictionary, with `noise_mechanism` and `noise_parameter`, or a list of one such.
    values
        The released numbers, in the order of `query.names`.
    query
        What was asked, such as `noiseaware.queries.Histogram(n_levels=3)` for a count of groups.
    n_records
        The number of confidential records.
    neighbours
        `"add-remove"` for Tumult's `AddOneRow`, its usual unit of privacy; `"change"` if one
        record is changed.
    """
    law, scale = _read(noise_info)
    return Release(values, LAWS[law](query, scale=scale, neighbours=neighbours), n_records)


def table(
    noise_info: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    released: Any,
    column: str = "count",
    n_records: int | None = None,
) -> Release:
    """Read a table of counts by groups from Tumult's `evaluate`, with its keys as names.

    Parameters
    ----------
    noise_info
        As for `release`.
    released
        The table: a frame, a mapping or a CSV file, with the keys and `column`.
    column
        The counts; all other columns are keys.
    n_records
        The number of records, if known.
    """
    law, scale = _read(noise_info)
    said = {"column": [column], "aggregate": ["Frame Length"], "distribution": [law]}
    return frame({**said, "scale": [scale]}, released, n_records=n_records, signed=True)


def _read(noise_info: Any) -> tuple[str, float]:
    """Return the noise, as named in OpenDP's summaries, and its scale."""
    listed = [noise_info] if isinstance(noise_info, Mapping) else noise_info
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise TypeError(f"noise_info must be a dictionary or a list; got {noise_info!r}")
    if len(listed) != 1:
        raise cannot_read(
            f"noise_info has {len(listed)} entries: the query has several noisy parts, as an "
            "average has, which Tumult makes from a noisy sum and a noisy count and releases only "
            "as their ratio",
            by_hand=False,
        )
    noise = listed[0]
    if not isinstance(noise, Mapping):
        raise TypeError(f"noise_info must hold a dictionary; got {noise!r}")
    for field in ("noise_mechanism", "noise_parameter"):
        if field not in noise:
            raise ValueError(f"noise_info lacks {field!r}; got {dict(noise)!r}")
    kind = noise["noise_mechanism"]
    text = getattr(kind, "name", kind)  # of a member of an enumeration, or the text itself
    name = text.rpartition(".")[2].upper() if isinstance(text, str) else repr(text)
    if name not in NOISE:
        raise cannot_read(
            f"noise_mechanism must be one of {', '.join(NOISE)}; got {name!r}", by_hand=False
        )
    parameter = positive("noise_parameter", noise["noise_parameter"])
    law, squared = NOISE[name]
    return law, math.sqrt(parameter) if squared else parameter
