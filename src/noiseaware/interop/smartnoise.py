"""Results of SmartNoise SQL: a frame, and the accuracy that its reader states for a column.

`reader.get_simple_accuracy(query, alpha)` gives for each column the bound a that the noise stays
within with probability 1 - alpha. For Laplace noise P(|e| > a) = exp(-a / b), so
b = a / log(1 / alpha); for Gaussian noise P(|e| > a) = 2 (1 - Phi(a / sigma)), so
sigma = a / Phi^-1(1 - alpha / 2).

SmartNoise sets negative counts to 0 (`clamp_counts`) and omits groups whose noisy number of
individuals is not above a threshold (`censor_dims`), `reader.tau`. In version 1.0.10 counts have
continuous noise and are then truncated to whole numbers, which is not read; sums of float columns
are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from noiseaware.basics.arguments import positive, probability
from noiseaware.interop import tables
from noiseaware.interop.reading import cannot_read
from noiseaware.release import Release

__all__ = ["release"]


def release(
    result: Any,
    column: str,
    accuracy: float,
    alpha: float = 0.05,
    law: str = "laplace",
    *,
    clamped: bool = False,
    threshold: float | None = None,
) -> Release:
    """Read one column of a result: every row is a record.

    Parameters
    ----------
    result
        What `execute` returned (a list, the names first) or `execute_df`, with a row for every
        group: NaN in `column` for those omitted.
    column
        The name of the column.
    accuracy, alpha
        What `get_simple_accuracy(query, alpha)` says about the column.
    law
        `"laplace"`, `"gaussian"`; `"geometric"` for counts of old versions.
    clamped
        Whether negative numbers were set to 0.
    threshold
        The threshold up to which rows were withheld, if this column is the number of individuals.
    """
    if isinstance(result, list):
        names, *rows = result
        result = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    table = tables.columns_by_name(result)
    if column not in table:
        raise ValueError(f"column must be one of {', '.join(table)}; got {column!r}")
    values = np.array([math.nan if x is None else float(x) for x in table[column]])
    shown = values[~np.isnan(values)]
    away, rest = positive("accuracy", accuracy), probability("alpha", alpha)
    if law != "geometric" and len(shown) and (shown == np.floor(shown)).all():
        raise cannot_read(
            f"column {column!r} has whole numbers: SmartNoise cuts counts to whole numbers after "
            "continuous noise"
        )
    far = -ndtri(rest / 2.0) if law == "gaussian" else math.log(1.0 / rest)
    columns = {"value": values, "scale": np.full(len(values), away / far)}
    if threshold is not None:
        columns["threshold"] = np.full(len(values), float(threshold))
    return tables.release(columns, law=law, clamp=(0.0, None) if clamped else None)
