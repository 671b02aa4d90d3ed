"""The imputed databases of a posterior, as tables or as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noiseaware.basics.frames import LIBRARIES
from noiseaware.results.posterior import need_posterior

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["column_names", "imputed"]


def imputed(posterior: DataTree, *, as_frame: Literal["pandas", "polars"] | None = "pandas") -> Any:
    """Return the imputed databases of a posterior.

    Each is one draw of the confidential records given the release, so that an analysis of all of
    them, one by one, carries the uncertainty along. None is the confidential database.

    Parameters
    ----------
    posterior : DataTree
        What `sample(..., keep_records=...)` or `load` returned.
    as_frame : {"pandas", "polars"} or None
        A long table, one row per record: the columns chain, draw and record, then those of the
        records. None: an array (databases, n, ...), the chains one after another.

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
    values = records.values
    chains, draws, n = values.shape[:3]
    if as_frame is None:
        return values.reshape(chains * draws, *values.shape[2:])
    table = values.reshape(chains * draws * n, -1)
    content = {
        "chain": np.repeat(records["chain"].values, draws * n),
        "draw": np.tile(np.repeat(records["draw"].values, n), chains),
        "record": np.tile(np.arange(n), chains * draws),
        **dict(zip(column_names(posterior), table.T, strict=True)),
    }
    if as_frame == "polars":
        try:
            import polars
        except ImportError:
            raise ImportError(
                'as_frame="polars" needs the library polars: pip install noiseaware[frames]'
            ) from None
        return polars.DataFrame({name: np.ascontiguousarray(x) for name, x in content.items()})
    import pandas

    return pandas.DataFrame(content)


def column_names(posterior: DataTree) -> list[str]:
    """Return a name for each column of the imputed records."""
    records: Any = posterior["latent_records"]["records"]
    if "column" in records.coords:
        return [str(name) for name in records["column"].values]
    width = records.isel(chain=0, draw=0, record=0).size
    return ["value"] if width == 1 else [f"column {i + 1}" for i in range(width)]
