"""Published cells: a CSV or Parquet file, with a TOML file that names its columns.

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

The TOML file is a model file (`documents.model_file`) in which `features`, `exposure`, `groups` and
`trials` name columns. Its table `[cells]` says how the numbers were published:

- `value` names the column of released numbers, empty where one was withheld or not asked for;
- `law` is the distribution of the noise (as in `noiseaware.interop.tables`), the name of a column
  with one per row, or a local mechanism such as "RandomRounding";
- `scale`, `sd`, `variance`, `threshold` and other parameters of the law are each a number, or a
  text that names a column with a number per row;
- `name`, optional, names the column with the cells' names.

An error in the table states the line of the file and the name of the cell; an error in the model
file states that file's name.
"""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
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
COLUMNS = ("features", "exposure", "groups", "trials")  # arguments of models that are columns
OWN = ("value", "law", "name")  # keys of [cells] that are not the mechanism's
NOISE = ("scale", "sd", "variance", "threshold", "clamp", "step")  # those of additive noise

LAWS = ("laplace", "gaussian", "discrete laplace", "discrete gaussian")

SEPARATORS = {";": ";", "\t": "tabs", "|": "|"}  # what other files have in place of commas
OTHER_TABLES = (".xlsx", ".xls", ".ods", ".tsv")  # ends of the names of tables that are not read

IN_ROW = re.compile(r" (?:in row|for record) (\d+)|; row (\d+) has none")
"""How messages of models and mechanisms give the row, counted from 0."""

THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*")


class Cells(NamedTuple):
    """The content of the two files."""

    release: Release
    described: ModelFile
    frame: Any
    notes: list[str]  # what a reader should know of the columns, in sentences


def is_cells_file(path: str | Path) -> bool:
    """Whether a file's suffix is that of a table of cells."""
    return Path(path).suffix.lower() in SUFFIXES


class WrongEntry(ValueError):
    """An error in the table (not in the model file), with its place."""


@dataclass
class Table:
    """A table of cells that can locate its entries for error messages."""

    path: Path
    frame: Any
    names: list[str] | None = None

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return [str(name) for name in self.frame.columns]

    def column(self, key: str, name: Any) -> Any:
        """Return the column that a key names."""
        if name not in self.columns:
            raise ValueError(
                f"{key} names the column {name!r}, which is not there{nearest(name, self.columns)}"
            )
        return self.frame[name]

    def numbers(self, key: str, name: Any) -> np.ndarray:
        """Return a column of numbers, NaN where an entry is empty; an error names the line."""
        column = self.column(key, name)
        try:
            return np.asarray(as_floats(column), dtype=np.float64)
        except Exception:  # of pandas or polars; the entry is found below
            for row, entry in enumerate(column):
                try:
                    np.float64(np.nan if entry is None else entry)
                except (ValueError, TypeError):
                    words = f"{name} must be a number; got {entry!r}"
                    raise WrongEntry(f"{self.where(row)}: {words}{_hint(key, entry)}") from None
            raise

    def where(self, row: int) -> str:
        """Return the file, line and cell of a row (counted from 0), for a message."""
        line = f"row {row + 1}"
        if self.path.suffix.lower() == ".csv":
            with self.path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
                reader = csv.reader(lines)
                written = [reader.line_num for entries in reader if entries]  # pandas skips others
            line = f"line {written[row + 1]}" if row + 1 < len(written) else line
        cell = f" ({self.names[row]})" if self.names is not None else ""
        return f"{self.path.name}, {line}{cell}"


def _hint(key: str, entry: Any) -> str:
    """Return advice about an entry that is not a number, or ""."""
    if isinstance(entry, str) and THOUSANDS.fullmatch(entry):
        return " (remove the thousands separator)"
    return " (a column of labels goes into groups)" if key == "features" else ""


def read_cells(path: str | Path, model: str | Path) -> Cells:
    """Read a table of cells and the model file that names its columns.

    Raises ValueError with one line: the file, the line or key, and what was expected.
    """
    table = Table(Path(path), read_frame(Path(path)))
    content = read_toml(model, lambda content: content)
    try:
        return _read(content, table)
    except WrongEntry as error:
        raise ValueError(str(error)) from None
    except (ValueError, TypeError) as error:
        words, in_row = str(error), IN_ROW.search(str(error))
        if in_row is None:
            raise ValueError(f"{model}: {words}") from None
        place = table.where(int(in_row[1] or in_row[2]))
        raise ValueError(f"{place}: {words[: in_row.start()]}{words[in_row.end() :]}") from None


def check_kinds(release: str | Path, content: dict[str, Any]) -> None:
    """Raise ValueError if a release that is not a table should be one."""
    path, kinds = Path(release), " or ".join(SUFFIXES)
    if is_cells_file(path):
        return
    if path.suffix.lower() == ".json" and "cells" in content:
        raise ValueError(f"[cells] is for a table; {path} is a release file")
    if "cells" in content or path.suffix.lower() in OTHER_TABLES:
        raise ValueError(f"a table must end in {kinds}; got {path}")


def read_frame(path: Path) -> Any:
    """Return a table as a frame of pandas (CSV) or polars (Parquet)."""
    try:
        if path.suffix.lower() == ".parquet":
            return _with_rows(_polars().read_parquet(path), path)
        import pandas

        _check_separator(path)
        frame = pandas.read_csv(path)
    except Exception as error:  # those of pandas are kinds of ValueError; polars has its own
        of_polars = type(error).__module__.partition(".")[0] == "polars"
        if not isinstance(error, ValueError) and not of_polars:
            raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} cannot be read as a table: {first}") from None
    return _with_rows(frame, path)


def _with_rows(frame: Any, path: Path) -> Any:
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows")
    return frame


def _check_separator(path: Path) -> None:
    """Raise ValueError if the header has another separator and no comma."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        header = lines.readline()
    for mark, name in SEPARATORS.items():
        if mark in header and "," not in header:
            raise ValueError(f"the columns seem to be separated by {name}; commas are needed")


def write_cells(frame: Any, path: str | Path) -> None:
    """Write a frame as CSV or Parquet, depending on the suffix."""
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


def _read(content: dict[str, Any], table: Table) -> Cells:
    said = content.pop("cells", None)
    if not isinstance(said, dict):
        raise ValueError("cells is missing: a table [cells] with value, law, scale and so on")
    for key in OWN[:2]:
        if not isinstance(said.get(key), str):
            raise ValueError(f"{key} is missing in [cells], or no text; got {said.get(key)!r}")
    _check_keys(said, table.columns)
    if "name" in said:
        table.names = [str(entry) for entry in table.column("name", said["name"])]
    values = table.numbers("value", said["value"])
    given = {k: v for k, v in said.items() if k not in OWN}
    used = {k: v for k, v in {"value": said["value"], **given}.items() if isinstance(v, str)}
    for key, entry in given.items():
        if isinstance(entry, str):
            given[key] = table.numbers(key, entry)
    try:
        made = _mechanism(said["law"], given, table)
        release = Release(values, made, len(values), table.names)
    except (ValueError, TypeError) as error:
        where = ", ".join(f"{key} is column {name!r}" for key, name in used.items())
        raise ValueError(f"{error} ({where})") from None
    for key in COLUMNS:
        if key in content:
            content[key] = _columns(table, key, content[key])
    notes = [*_empty(values, said), *_lone(content.get("groups", {}))]
    return Cells(release, read_content(content), table.frame, notes)


def _empty(values: np.ndarray, said: dict[str, Any]) -> list[str]:
    """Return a note on the number of empty cells, unless a threshold explains them."""
    count = int(np.isnan(values).sum())
    if not count or "threshold" in said:
        return []
    words = f"{count} of {len(values)} cells are empty and taken as not asked for"
    can = "threshold" in _arguments(said["law"])
    return [f"{words}; if small numbers were withheld, give threshold" if can else words]


def _lone(grouped: dict[str, Any]) -> list[str]:
    """Return notes on groups that have only one cell."""
    lone = filter(None, [lone_groups(name, labels) for name, labels in grouped.items()])
    known = "its effect is known from that cell, and from the spread of the others"
    return [f"{said}: {known}" for said in lone]


def _arguments(law: str) -> Iterable[str]:
    """Return the keys of [cells] that a law, or a mechanism given by name, accepts."""
    if law not in MECHANISMS.names:
        return NOISE
    return [name for name in inspect.signature(MECHANISMS[law]).parameters if name != "query"]


def _check_keys(said: dict[str, Any], columns: list[str]) -> None:
    """Raise ValueError for a law that is one of totals, or an unknown key."""
    law = said["law"]
    plain = {name.replace(" ", ""): name for name in LAWS}.get(law.lower())
    if law in MECHANISMS.names and plain is not None and law not in columns:
        raise ValueError(
            f"law must be the noise of each cell; got {law!r}; did you mean {plain!r}?"
        )
    known = (*OWN, *_arguments(law))
    for key in said:
        if key not in known:
            raise ValueError(f"unknown key {key!r} in [cells]{nearest(key, known)}")


def _mechanism(law: str, given: dict[str, Any], table: Table) -> Any:
    """Return the local mechanism for a law, or for a mechanism given by name."""
    if law not in MECHANISMS.names:
        n = len(table.frame)
        after = {key: given[key] for key in ("clamp", "step") if key in given}
        each = {k: np.broadcast_to(v, n) for k, v in given.items() if k not in after}
        if law in table.columns:
            each["law"], law = table.frame[law], "law"
        return tables.release({"value": np.zeros(n) + np.nan, **each}, law=law, **after).mechanism
    kind = MECHANISMS[law]
    takes = "query" in inspect.signature(kind).parameters
    made = kind(**({"query": Value()} if takes else {}), **given)
    if not (mechanism_abilities(made).per_record and query_abilities(made.query).is_value):
        raise ValueError(f"law must publish every cell's own number; {law} does not")
    return made


def _columns(table: Table, key: str, names: Any) -> Any:
    """Return the columns that a model's argument names: a mapping by name, or one array."""
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not listed or not all(isinstance(n, str) for n in listed):
        raise ValueError(f"{key} must be a column's name, or a list of names; got {names!r}")
    if key == "groups":
        return {name: np.asarray(table.column(key, name)) for name in listed}
    found = {name: table.numbers(key, name) for name in listed}
    return found if key == "features" else found[listed[0]]
