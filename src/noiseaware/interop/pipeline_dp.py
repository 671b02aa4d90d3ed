"""Results of PipelineDP that state the standard deviation of their noise.

With `output_noise_stddev=True` in `AggregateParams`, PipelineDP adds `count_noise_stddev`,
`privacy_id_count_noise_stddev` or `sum_noise_stddev` to the metric. The noise is that of Google's
library, effectively continuous; if all numbers are whole, they are read as rounded.

Partitions must be public (`public_partitions`): private selection depends on the records in a way
that is not read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseaware.interop import tables
from noiseaware.interop.reading import cannot_read
from noiseaware.release import Release

__all__ = ["release"]


def release(result: Any, metric: str = "count", noise_kind: Any = "laplace") -> Release:
    """Read one metric of a PipelineDP result: every partition is a record.

    Parameters
    ----------
    result
        The collected pairs (partition, metrics), in order; or a frame with the columns `metric` and
        `metric_noise_stddev`.
    metric
        `"count"`, `"privacy_id_count"` or `"sum"`.
    noise_kind
        `"laplace"` or `"gaussian"`, or PipelineDP's `NoiseKind`.
    """
    spread = f"{metric}_noise_stddev"
    if isinstance(result, Mapping) or hasattr(result, "columns"):
        table = tables.columns_by_name(result)
    else:
        rows = [m if isinstance(m, Mapping) else m._asdict() for _, m in result]
        table = {name: [row[name] for row in rows if name in row] for name in (metric, spread)}
        if len(table[metric]) < len(rows):
            raise ValueError(f"metric must be in every result; {metric!r} is not")
    if spread not in table or not len(table[spread]):
        raise cannot_read(
            f"the result has no {spread}; it is there with output_noise_stddev=True, for counts "
            "and sums"
        )
    values = np.asarray(table[metric], dtype=np.float64)
    law = str(getattr(noise_kind, "value", noise_kind))
    whole = bool((values == np.floor(values)).all())
    columns = {"value": values, "sd": table[spread]}
    return tables.release(columns, law=law, step=1.0 if whole else None)
