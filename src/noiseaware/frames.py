"""Tables with named columns, pandas or polars, on the way in and on the way out.

Inside, records are arrays. A query and `privatize` take a frame too: `as_array` picks the columns
by their names, where the query has names for them and the frame has these, and by their order
otherwise. Columns of a categorical type (pandas) or an Enum (polars) become the numbers of their
categories, in the order that the type declares. Text without declared levels, missing values and
dates are refused: which number a text would get must not depend on the data.

Neither library is imported unless a frame of it is there or asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["as_array", "imputed"]

LIBRARIES = ("pandas", "polars")


def as_array(records: Any, query: Any = None) -> np.ndarray:
    """Return records as an array; a frame by the names that the query has for its columns."""
    if type(records) is np.ndarray:
        return records
    if not _is_frame(records):
        return np.asarray(records)
    if not hasattr(records, "columns"):
        return _column(records, str(records.name or "of the series"))
    given = [str(name) for name in records.columns]
    chosen = _chosen(given, getattr(query, "column_names", None))
    by_position = dict(zip(given, records.columns, strict=True))
    columns = [_column(records[by_position[name]], name) for name in chosen]
    if len(columns) == 1:
        return columns[0]
    return np.column_stack(columns)


def _is_frame(records: Any) -> bool:
    return type(records).__module__.partition(".")[0] in LIBRARIES


def _chosen(given: list[str], wanted: Any) -> list[str]:
    """Return the columns to take, in order: by name if all names are there, else all of them."""
    if len(set(given)) < len(given):
        raise ValueError(f"records must have different names of columns; got {given}")
    if wanted is None or len(given) == 0:
        return given
    missing = [name for name in wanted if name not in given]
    if not missing:
        return list(wanted)
    if len(given) == len(wanted) and len(missing) == len(wanted):
        return given  # other names for the same number of columns: the order counts
    raise ValueError(
        f"records must have the columns {list(wanted)}, or {len(wanted)} columns with other names "
        f"in this order; got {given}, without {missing}"
    )


def _column(series: Any, name: str) -> np.ndarray:
    """Return one column as floats or integers."""
    missing = int(series.isna().sum() if hasattr(series, "isna") else series.null_count())
    if missing:
        raise ValueError(f"records must have no missing values; column {name!r} has {missing}")
    if hasattr(series, "cat") and hasattr(series.dtype, "categories"):  # pandas, polars Enum
        if hasattr(series.cat, "codes"):
            return np.asarray(series.cat.codes, dtype=np.int64)
        if type(series.dtype).__name__ == "Enum":
            return series.to_physical().to_numpy().astype(np.int64)
    values = series.to_numpy()
    if values.dtype.kind in "fiub":
        return values.astype(np.int64) if values.dtype.kind in "iub" else values.astype(np.float64)
    raise TypeError(
        f"records must be numbers or declared levels; column {name!r} has dtype {series.dtype}. "
        "Text becomes levels by a type that lists them in the order of the model's: "
        "pandas.CategoricalDtype([...]) or polars.Enum([...])"
    )


def imputed(posterior: DataTree, *, as_frame: Literal["pandas", "polars"] | None = "pandas") -> Any:
    """Return the imputed databases of a posterior.

    Each is one draw of the confidential records given the release, so that an analysis of all of
    them, one by one, carries the uncertainty along. None is the confidential database.

    Parameters
    ----------
    posterior : DataTree
        What `sample(..., keep_records=...)` or `load` returned.
    as_frame : {"pandas", "polars"} or None
        One long table with a row a record: the columns chain, draw and record, then those of the
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
    if not hasattr(posterior, "children") or "posterior" not in posterior.children:
        raise TypeError(
            f"imputed needs a posterior, as sample or load returns it; "
            f"got {type(posterior).__name__}"
        )
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
        **dict(zip(_names(records, table.shape[1]), table.T, strict=True)),
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


def _names(records: Any, width: int) -> list[str]:
    if "column" in records.coords:
        return [str(name) for name in records["column"].values]
    return ["value"] if width == 1 else [f"column {i + 1}" for i in range(width)]
