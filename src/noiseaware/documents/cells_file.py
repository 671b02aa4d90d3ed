"""Published cells in a CSV or Parquet file, and a TOML file that names their columns.

    type = "CountRegression"
    family = "negative-binomial"
    features = ["income"]
    exposure = "population"
    groups = ["state"]

    [cells]
    value = "noisy"
    law = "discrete gaussian"
    sd = "sd"
    name = "county"

It is a model file (`documents.model_file`) in which `features`, `exposure`, `groups` and `trials`
are names of columns, with a table `[cells]` that says how the numbers were published: the column
`value`, empty where a number was withheld or not asked for; the `law` of the noise, as in
`noiseaware.interop.tables`, or a column with it, or a local mechanism such as "RandomRounding"; its
`scale`, `sd` or `variance`, `threshold` and so on, each a number or, as a text, the name of a
column with one for each row; and, if there is one, the column with the `name` of each cell.

Messages count the rows from 0, the header left out.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from noiseaware.basics.files import write_table, write_whole
from noiseaware.basics.frames import as_floats
from noiseaware.contract import mechanism_abilities, query_abilities
from noiseaware.documents.model_file import ModelFile, read_content, read_toml
from noiseaware.interop import tables
from noiseaware.models.count_regression import lone_groups
from noiseaware.queries import Value
from noiseaware.registry import MECHANISMS, nearest
from noiseaware.release import Release

__all__ = ["Cells", "is_cells_file", "read_cells", "write_cells"]

SUFFIXES = (".csv", ".parquet")
COLUMNS = ("features", "exposure", "groups", "trials")
"""Arguments of models that are columns."""

OWN = ("value", "law", "name")
"""Keys of [cells] that are not the mechanism's."""

NOISE = ("scale", "sd", "variance", "threshold", "clamp", "step")
"""Those of additive noise."""


class Cells(NamedTuple):
    """What the two files say."""

    release: Release
    described: ModelFile
    frame: Any
    notes: list[str]
    """What a reader should know of the columns, in sentences."""


def is_cells_file(path: str | Path) -> bool:
    """Whether a file is one of cells, by the end of its name."""
    return Path(path).suffix.lower() in SUFFIXES


def read_cells(path: str | Path, model: str | Path) -> Cells:
    """Read a table of cells, and the model file that names its columns.

    Raises
    ------
    ValueError
        In one line: the file, the column, the row, and what would be right.
    """
    frame = read_frame(Path(path))
    return read_toml(model, lambda content: _read(content, frame))


def read_frame(path: Path) -> Any:
    """Return a table as a frame of pandas (CSV) or polars (Parquet)."""
    try:
        if path.suffix.lower() == ".parquet":
            return _polars().read_parquet(path)
        import pandas

        return pandas.read_csv(path)
    except (ValueError, UnicodeError) as error:  # those of pandas are kinds of ValueError
        raise ValueError(f"{path} cannot be read as a table: {_first(error)}") from None
    except Exception as error:  # polars has its own, of no common kind
        if type(error).__module__.partition(".")[0] != "polars":
            raise
        raise ValueError(f"{path} cannot be read as a table: {_first(error)}") from None


def write_cells(frame: Any, path: str | Path) -> None:
    """Write a frame as CSV or Parquet, by the end of the name."""
    path = Path(path)
    if not is_cells_file(path):
        raise ValueError(f"estimates are written as {' or '.join(SUFFIXES)}; got {path}")
    of_polars = type(frame).__module__.startswith("polars")
    if path.suffix.lower() == ".parquet":
        made = frame if of_polars else _polars().DataFrame(frame.to_dict("list"))
        write_whole(path, made.write_parquet)
    else:
        import pandas

        table = pandas.DataFrame(frame.to_dict(as_series=False)) if of_polars else frame
        write_table(path, table)


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        raise ValueError("Parquet needs polars: pip install 'noiseaware[frames]'") from None
    return polars


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _read(content: dict[str, Any], frame: Any) -> Cells:
    said = content.pop("cells", None)
    if not isinstance(said, dict):
        raise ValueError("cells is missing: a table [cells] with value, law, scale and so on")
    columns = [str(name) for name in frame.columns]
    for key in OWN[:2]:
        if not isinstance(said.get(key), str):
            raise ValueError(f"{key} is missing in [cells], or no text; got {said.get(key)!r}")
    values = _numbers(frame, columns, "value", said["value"])
    names = None
    if "name" in said:
        names = [str(entry) for entry in _column(frame, columns, "name", said["name"])]
    given = {k: v for k, v in said.items() if k not in OWN}
    used = {k: v for k, v in {"value": said["value"], **given}.items() if isinstance(v, str)}
    for key, entry in given.items():
        if isinstance(entry, str):
            given[key] = _numbers(frame, columns, key, entry)
    try:
        made = _mechanism(said["law"], given, frame, columns)
        release = Release(values, made, len(values), names)
    except (ValueError, TypeError) as error:
        where = ", ".join(f"{key} is column {name!r}" for key, name in used.items())
        raise ValueError(f"{error} ({where})") from None
    for key in COLUMNS:
        if key in content:
            content[key] = _columns(frame, columns, key, content[key])
    grouped = content.get("groups", {})
    lone = filter(None, [lone_groups(name, labels) for name, labels in grouped.items()])
    known = "its effect is known from that cell, and from the spread of the others"
    notes = [f"{said}: {known}" for said in lone]
    return Cells(release, read_content(content), frame, notes)


def _mechanism(law: str, given: dict[str, Any], frame: Any, columns: list[str]) -> Any:
    """Return the local mechanism of these arguments: of a law, or of a mechanism by its name."""
    if law not in MECHANISMS.names:
        n = len(frame)
        unknown = [key for key in given if key not in NOISE]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r} in [cells]{nearest(unknown[0], NOISE)}")
        after = {key: given[key] for key in ("clamp", "step") if key in given}
        table = {k: np.broadcast_to(v, n) for k, v in given.items() if k not in after}
        if law in columns:
            table["law"], law = frame[law], "law"
        return tables.release({"value": np.zeros(n) + np.nan, **table}, law=law, **after).mechanism
    kind = MECHANISMS[law]
    arguments = [name for name in inspect.signature(kind).parameters if name != "query"]
    for key in given:
        if key not in arguments:
            raise ValueError(f"unknown key {key!r} in [cells]{nearest(key, (*OWN, *arguments))}")
    takes = "query" in inspect.signature(kind).parameters
    made = kind(**({"query": Value()} if takes else {}), **given)
    if not (mechanism_abilities(made).per_record and query_abilities(made.query).is_value):
        raise ValueError(f"law must publish every cell's own number; {law} does not")
    return made


def _column(frame: Any, columns: list[str], key: str, name: Any) -> Any:
    if name not in columns:
        raise ValueError(
            f"{key} names the column {name!r}, which is not there{nearest(name, columns)}"
        )
    return frame[name]


def _numbers(frame: Any, columns: list[str], key: str, name: Any) -> np.ndarray:
    """Return a column of numbers, NaN where an entry is empty; an error names the row."""
    column = _column(frame, columns, key, name)
    try:
        return np.asarray(as_floats(column), dtype=np.float64)
    except Exception:  # of pandas or polars; the entry is found below
        for row, entry in enumerate(column):
            try:
                np.float64(np.nan if entry is None else entry)
            except (ValueError, TypeError):
                raise ValueError(
                    f"{key} must be numbers; column {name!r} has {entry!r} in row {row}"
                ) from None
        raise


def _columns(frame: Any, columns: list[str], key: str, names: Any) -> Any:
    """Return the columns that a model's argument names: several by name, one as it is."""
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not listed or not all(isinstance(n, str) for n in listed):
        raise ValueError(f"{key} must be a column's name, or a list of names; got {names!r}")
    if key == "groups":
        return {name: np.asarray(_column(frame, columns, key, name)) for name in listed}
    found = {name: _numbers(frame, columns, key, name) for name in listed}
    return found if key == "features" else found[listed[0]]
