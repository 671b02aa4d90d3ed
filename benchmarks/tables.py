"""Plain-text tables, and the same numbers as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
Columns = Mapping[str, str | Callable[[Any], str]]


def show(
    title: str, columns: Mapping[str, str | Callable[[Any], str]], rows: Iterable[Row]
) -> None:
    """Print rows under a title, with numbers aligned right and text left.

    Parameters
    ----------
    title
        Printed above.
    columns
        The columns to print, in order, each with a format (such as ``".2f"``) or a function. A
        missing value, None or text is printed unformatted.
    rows
        One mapping per row.
    """
    rows = list(rows)
    cells = [[_cell(row.get(name), how) for name, how in columns.items()] for row in rows]
    left = [
        how == "" and all(isinstance(row.get(name, ""), str) for row in rows)
        for name, how in columns.items()
    ]
    widths = [max([len(name), *(len(row[j]) for row in cells)]) for j, name in enumerate(columns)]
    print(f"\n{title}")
    for line in [list(columns), *cells]:
        print(
            "  "
            + "  ".join(
                text.ljust(width) if is_left else text.rjust(width)
                for text, width, is_left in zip(line, widths, left, strict=True)
            ).rstrip()
        )
    print(flush=True)


def _cell(value: Any, how: str | Callable[[Any], str]) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return how(value) if callable(how) else format(value, how)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV, unrounded, with the columns of the first row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def append(path: Path, row: Row) -> None:
    """Add one row to a CSV file; create the file with a header if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def read(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a CSV file, with numbers as floats; a missing file has no rows."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {name: value if name == "code" else _number(value) for name, value in row.items()}
            for row in csv.DictReader(file)
            if None not in row.values()  # a line that was cut off
        ]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
