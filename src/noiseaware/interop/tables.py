"""Tables of published cells: a CSV file, a Parquet file or a frame, one row per cell.

    name,value,scale,law
    north,140,10,discrete gaussian
    south,,10,discrete gaussian

Every row is a record with its own noise, as for `noiseaware.models.CountRegression`. The columns:

- `value`: the published number, or empty;
- one of `scale` (b of exp(-abs(e) / b) for Laplace laws, sigma for Gaussian ones), `sd` (the
  standard deviation of the noise) and `variance`;
- `law`: `laplace`, `gaussian`, `discrete laplace` (or `geometric`), `discrete gaussian`;
- `threshold`, if values up to it were withheld;
- `name`, if the cells have names.

The standard deviation of Laplace noise is sqrt(2) b. The variance of discrete Laplace noise is
v = 2 p / (1 - p)^2 with p = exp(-1 / b), so 1 + 1 / v = (p + 1 / p) / 2 = cosh(1 / b), and
b = 1 / arccosh(1 + 1 / v). The standard deviation of discrete Gaussian noise equals sigma to within
4e-6 of it for sigma of at least 0.9; smaller ones are refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseaware import mechanisms, queries
from noiseaware.interop.reading import cannot_read
from noiseaware.release import Release

__all__ = ["columns_by_name", "numbers_of", "release", "rows_of", "text_of"]

LAWS = {
    "laplace": mechanisms.LocalLaplace,
    "gaussian": mechanisms.LocalGaussian,
    "normal": mechanisms.LocalGaussian,
    "discretelaplace": mechanisms.LocalGeometric,
    "geometric": mechanisms.LocalGeometric,
    "discretegaussian": mechanisms.LocalDiscreteGaussian,
}


def release(
    table: Any,
    *,
    value: str = "value",
    law: str = "law",
    scale: str = "scale",
    sd: str = "sd",
    variance: str = "variance",
    threshold: str = "threshold",
    name: str = "name",
    clamp: tuple[float | None, float | None] | None = None,
    step: float | None = None,
) -> Release:
    """Read a table of cells, each of which is a record.

    Parameters
    ----------
    table
        A path (CSV, TSV, Parquet, JSON lines), a pandas or polars frame, or a mapping of columns.
    value, law, scale, sd, variance, threshold, name
        The names of the columns. `law` may be a law, such as `"laplace"`, if the table has no such
        column. Exactly one of `scale`, `sd` and `variance` must exist.
    clamp, step
        Steps applied to all noisy numbers: clamping to two bounds, rounding to multiples.

    Examples
    --------
    >>> table = {"value": [140, 95], "scale": [10.0, 20.0]}
    >>> release(table, law="laplace").mechanism.scale
    array([10., 20.])
    """
    columns = columns_by_name(table)
    kind = _law(columns, law)
    if value not in columns:
        raise ValueError(f"the table must have a column {value!r}; it has {_listed(columns)}")
    values = numbers_of(value, columns[value])
    known = [name for name in (scale, sd, variance) if name in columns]
    if len(known) != 1:
        raise ValueError(
            f"the table must have one of the columns {scale!r}, {sd!r} and {variance!r}; it has "
            f"{' and '.join(map(repr, known)) or 'none of them: ' + _listed(columns)}"
        )
    noise = numbers_of(known[0], columns[known[0]])
    if not (noise > 0).all():
        row = int(np.argmin(noise > 0))
        raise ValueError(f"{known[0]} must be above 0; got {noise[row]:g} in row {row}")
    if known[0] != scale:
        noise = scale_of(kind, noise if known[0] == sd else np.sqrt(noise))
    limit = numbers_of(threshold, columns[threshold]) if threshold in columns else None
    each: Any = noise if np.ptp(noise) > 0 else float(noise[0])
    mechanism = kind(queries.Value(), scale=each, threshold=limit, step=step, clamp=clamp)
    names = [str(entry) for entry in columns[name]] if name in columns else None
    return Release(values, mechanism, len(values), names)


def scale_of(kind: type, sd: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scale of noise with this standard deviation."""
    if kind is mechanisms.LocalLaplace:
        return sd / math.sqrt(2.0)
    if kind is mechanisms.LocalGeometric:
        return 1.0 / np.arccosh(1.0 + 1.0 / np.square(sd))
    if kind is mechanisms.LocalDiscreteGaussian and (sd < 0.9).any():
        raise cannot_read(
            f"sd is {sd.min():g}: so small a standard deviation of discrete Gaussian noise is not "
            "its sigma; give scale"
        )
    return sd


def rows_of(path: str | Path, needed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of a CSV, TSV, Parquet, JSON lines or JSON file, by column names.

    Text may be compressed (`.gz`). JSON is a list of lists, the names first. Parquet, which may be
    a folder of partitions, requires pandas and pyarrow.
    """
    path = Path(path)
    suffix = [part.lower() for part in path.suffixes if part.lower() != ".gz"][-1:]
    if path.is_dir() or suffix == [".parquet"]:
        import pandas

        frame = pandas.read_parquet(path)
        rows = frame.to_dict("records")
    else:
        rows = _text_rows(text_of(path))
    if not rows:
        raise ValueError(f"{path} has no rows")
    missing = [name for name in needed if name not in rows[0]]
    if missing:
        raise ValueError(f"{path} lacks the column {missing[0]!r}; it has {_listed(rows[0])}")
    return rows


def text_of(path: str | Path) -> str:
    """Return the text of a file, which may be compressed (`.gz`)."""
    content = Path(path).read_bytes()
    content = gzip.decompress(content) if str(path).lower().endswith(".gz") else content
    return content.decode("utf-8-sig")


def _text_rows(text: str) -> list[dict[str, Any]]:
    start = text.lstrip()[:1]
    if start == "[":
        names, *lines = json.loads(text)
        return [dict(zip(names, line, strict=True)) for line in lines]
    if start == "{":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    first = text.partition("\n")[0]
    mark = max(",\t|;", key=first.count)
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=mark))


def columns_by_name(table: Any) -> dict[str, Any]:
    """Return the columns of a path, a frame or a mapping."""
    if isinstance(table, str | Path):
        rows = rows_of(table)
        return {name: [row[name] for row in rows] for name in rows[0]}
    if isinstance(table, Mapping):
        return {str(name): column for name, column in table.items()}
    if hasattr(table, "collect"):  # a LazyFrame of polars, or the OnceFrame of OpenDP
        raise TypeError(f"table must be collected: call .collect() on this {type(table).__name__}")
    if not hasattr(table, "columns"):
        raise TypeError(f"table must be a path, a frame or a mapping of columns; got {table!r}")
    return {str(name): table[name] for name in table.columns}


def _law(columns: Mapping[str, Any], law: str) -> Any:
    given = {str(entry) for entry in columns[law]} if law in columns else {law}
    found = {name.lower().replace("_", "").replace("-", "").replace(" ", "") for name in given}
    unknown = sorted(found - set(LAWS))
    if unknown:
        raise ValueError(
            "law must be laplace, gaussian, discrete laplace or discrete gaussian; "
            f"got {', '.join(sorted(given))}"
        )
    kinds = {LAWS[name] for name in found}
    if len(kinds) > 1:
        listed = ", ".join(sorted(given))
        raise cannot_read(f"the table has several laws ({listed}), and a release of cells has one")
    return kinds.pop()


def numbers_of(name: str, column: Any) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where empty."""
    blank = {"", "nan", "none", "null", "na", "<na>"}
    try:
        return np.array(
            [math.nan if str(x).strip().lower() in blank else float(x) for x in column],
            dtype=np.float64,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None


def _listed(columns: Mapping[str, Any]) -> str:
    return ", ".join(map(str, columns))
