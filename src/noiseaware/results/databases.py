"""The imputed databases of a posterior, as tables or as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noiseaware.basics.frames import LIBRARIES, make_frame
from noiseaware.results.posterior import need_posterior

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["column_names", "imputed"]


def imputed(posterior: DataTree, *, as_frame: Literal["pandas", "polars"] | None = "pandas") -> Any:
    """Return the imputed databases of a posterior.

    Each is one draw of the confidential records given the release; none is the confidential
    database itself. Analysing each of them in turn carries the uncertainty along.

    Parameters
    ----------
    posterior : DataTree
        What `sample(..., keep_records=...)` or `load` returned.
    as_frame : {"pandas", "polars"} or None
        A long table, one row per record: the columns chain, draw and record, then those of the
        records. None: an array (databases, n, ...), chain after chain; if the number of records is
        unknown, a list of arrays of different lengths.

    Examples
    --------
    >>> import noiseaware as na
    >>> mechanism = na.mechanisms.Laplace(na.queries.Count(), epsilon=1.0)
    >>> posterior = na.sample(
    ...     na.models.Bernoulli(), na.Release([5.0], mechanism, 8), draws=20, chains=2,
    ...     keep_records=3, random_seed=1, progressbar=False,
    ... )
    >>> na.imputed(posterior).shape
    (48, 4)
    >>> na.imputed(posterior, as_frame=None).shape
    (6, 8)
    """
    if as_frame not in (*LIBRARIES, None):
        raise ValueError(f'as_frame must be "pandas", "polars" or None; got {as_frame!r}')
    need_posterior(posterior)
    if "latent_records" not in posterior.children:
        raise ValueError("the posterior holds no databases; sample it with keep_records=5 or more")
    records = posterior["latent_records"]["records"].transpose("chain", "draw", "record", ...)
    places = [(c, k) for c in range(records.sizes["chain"]) for k in range(records.sizes["draw"])]
    each = [database(records, c, k) for c, k in places]
    lengths = [len(one) for one in each]
    if as_frame is None:
        return np.stack(each) if len(set(lengths)) == 1 else each
    table = np.concatenate([one.reshape(len(one), -1) for one in each])
    content = {
        "chain": np.repeat([records["chain"].values[c] for c, _ in places], lengths),
        "draw": np.repeat([records["draw"].values[k] for _, k in places], lengths),
        "record": np.concatenate([np.arange(n) for n in lengths]),
        **dict(zip(column_names(posterior), table.T, strict=True)),
    }
    needs = f"the library {as_frame}: pip install noiseaware[frames]"
    return make_frame(content, as_frame, needs)


def database(records: Any, chain: int, draw: int) -> np.ndarray:
    """Return one database of `latent_records`, (n, ...), without its padding."""
    one = records.transpose("chain", "draw", "record", ...).values[chain, draw]
    there = ~np.isnan(one.reshape(len(one), -1)).all(axis=1)
    return np.ascontiguousarray(one[there]).astype(records.attrs.get("dtype", one.dtype))


def column_names(posterior: DataTree) -> list[str]:
    """Return a name for each column of the imputed records."""
    records: Any = posterior["latent_records"]["records"]
    if "column" in records.coords:
        return [str(name) for name in records["column"].values]
    width = records.isel(chain=0, draw=0, record=0).size
    return ["value"] if width == 1 else [f"column {i + 1}" for i in range(width)]
