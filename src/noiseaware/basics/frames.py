"""Tables with named columns (pandas or polars) as records.

Internally, records are arrays. A query and `privatize` also take a frame: `as_array` picks columns
by name if the query has names for them and the frame has these, and otherwise by order. Columns of
a categorical type (pandas) or an Enum (polars) become the numbers of their categories, in the
declared order. Text without declared levels, missing values and dates are refused: the number of a
text must not depend on the data.

Neither library is imported, except to make a requested table.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noiseaware.contract import query_abilities

LIBRARIES = ("pandas", "polars")


def as_array(records: Any, query: Any = None) -> np.ndarray:
    """Return records as an array; for a frame, the columns that the query names."""
    if type(records) is np.ndarray:
        return records
    if not _is_frame(records):
        return np.asarray(records)
    if not hasattr(records, "columns"):
        return _column(records, str(records.name or "of the series"))
    given = [str(name) for name in records.columns]
    chosen = _chosen(given, query_abilities(query).column_names)
    by_position = dict(zip(given, records.columns, strict=True))
    columns = [_column(records[by_position[name]], name) for name in chosen]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def as_floats(values: Any) -> np.ndarray:
    """Return numbers as an array; missing values of a Series become NaN."""
    if not _is_frame(values):
        return np.asarray(values)
    if type(values).__module__.startswith("polars"):
        return np.asarray(values.cast(float).to_numpy(), dtype=np.float64)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def as_table(values: Any, names: Sequence[str]) -> np.ndarray:
    """Return a frame's columns, by these names if it has them all; other values as an array."""
    if not (_is_frame(values) and hasattr(values, "columns")):
        return np.array(as_floats(values), dtype=np.float64)
    given = {str(name): values[name] for name in values.columns}
    return np.column_stack([as_floats(given[name]) for name in _chosen(list(given), names)])


def columns_of(
    argument: str, given: Any, default: str, *, labels: bool = False
) -> dict[str, np.ndarray]:
    """Return the columns of a frame, a Series, a mapping or an array, by name; none for None.

    Columns without a name get `default` with their number, from 1, in its braces. Labels may be
    text; a missing label is an error.
    """
    if given is None:
        return {}
    if _is_frame(given) and hasattr(given, "columns"):
        named = {str(name): given[name] for name in given.columns}
    elif _is_frame(given):
        named = {str(given.name or default.format(1)): given}
    elif isinstance(given, Mapping):
        named = {str(name): column for name, column in given.items()}
    else:
        array = np.asarray(given)
        columns = array.T if array.ndim == 2 else array[np.newaxis]
        named = {default.format(k): column for k, column in enumerate(columns, start=1)}
        if len(named) < len(columns):
            named = {f"{default}{k}": column for k, column in enumerate(columns, start=1)}
    found = {}
    for name, column in named.items():
        try:
            array = np.asarray(column) if labels else as_floats(column)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{argument} must be numbers; column {name!r}: {error}") from None
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"{argument} must have one entry for each record; {name!r} has shape {array.shape}"
            )
        if labels:
            missing = [entry is None or entry != entry for entry in array.tolist()]
            if any(missing):
                row = missing.index(True)
                raise ValueError(f"{argument} must have a label in every row; row {row} has none")
        found[name] = array.astype(str) if labels and array.dtype.kind == "O" else array
    return found


def make_frame(content: Mapping[str, np.ndarray], library: str, needs: str) -> Any:
    """Return columns as a table of a library; `needs` completes the message if it is absent."""
    try:
        made = importlib.import_module(library)
    except ImportError:
        raise ImportError(f'as_frame="{library}" needs {needs}') from None
    return made.DataFrame({name: np.ascontiguousarray(x) for name, x in content.items()})


def _is_frame(records: Any) -> bool:
    return type(records).__module__.partition(".")[0] in LIBRARIES


def _chosen(given: list[str], wanted: Any) -> list[str]:
    """Return the columns to take, in order: by name if all names are present, else all."""
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
