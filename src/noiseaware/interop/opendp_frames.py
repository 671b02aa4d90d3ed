"""Releases made by OpenDP's Polars API: `query.summarize()` and the released frame.

The method `summarize` of a query, `context.query().select(...)` or `.group_by(...).agg(...)`,
describes each column of its answer:

    column  aggregate     distribution     scale  threshold
    len     Frame Length  Integer Laplace  2.0    null
    age     Sum           Integer Laplace  120.0  null

Both tables are read; neither OpenDP nor Polars is imported.

| aggregate                | read as                                                          |
|--------------------------|------------------------------------------------------------------|
| `Frame Length`, `Length` | all records, `Count(value=None)`; by groups, the number in each   |
| `Sum`                    | `Sum` with your `bounds`                                         |
| `Sum` with a `Length`    | a mean: read if the length has no noise, as n times the mean     |
| `Count`, `Null Count`    | your query, `queries={"column": ...}`                            |

Facts that matter for the likelihood: a column of an unsigned type was clamped at 0. A group is in
the frame if its noisy length is *above* the threshold, so a missing group is a censored count; its
other columns were withheld whatever their values, and are uninformative. Records are the rows that
the query saw: after a `filter`, and with one of the keys.

**The form of a record.** For sums of one column, records are (n,); of several columns, (n, w), in
order of appearance. For lengths by groups alone, a record is the level of the key, (n,), or of each
of several keys, (n, K). For sums by groups the group comes first, (n, 1 + w).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from noiseaware import mechanisms, queries
from noiseaware.basics.arguments import whole_number
from noiseaware.interop.reading import cannot_read, joint
from noiseaware.interop.tables import columns_by_name, numbers_of
from noiseaware.queries import Neighbours
from noiseaware.release import Release

__all__ = ["frame"]

NOISE = {
    "Integer Laplace": mechanisms.DiscreteLaplace,
    "Float Laplace": mechanisms.Laplace,
    "Integer Gaussian": mechanisms.DiscreteGaussian,
    "Float Gaussian": mechanisms.Gaussian,
}
LENGTHS = ("Frame Length", "Length")


class Column(NamedTuple):
    """One column of a released frame, with its entry in the summary."""

    name: str
    aggregate: str
    noise: type
    scale: float
    threshold: float | None
    unsigned: bool
    keys: tuple[str, ...]
    rows: dict[tuple[str, ...], float]  # the released numbers, by the levels of the keys


class Shape(NamedTuple):
    """The form of a record: the levels of each key, and the summed columns."""

    keys: dict[str, list[str]]
    sums: list[str]


def frame(
    summary: Any,
    released: Any,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    n_records: int | None = None,
    queries: Mapping[str, Any] | None = None,
    signed: bool | None = None,
    neighbours: Neighbours = "add-remove",
) -> Release:
    """Read the summary of a query of OpenDP's Polars API, and the frame that it released.

    Parameters
    ----------
    summary
        What `query.summarize()` returned: a frame, or a mapping of its columns. A list of them, for
        several queries of one context, becomes one joint release.
    released
        What `query.release().collect()` returned, or a list of them.
    bounds
        The bounds of each sum or mean, by column name: `{"age": (0, 60)}`.
    keys
        All levels of each key, if a threshold may have removed groups from the frame. By default
        the levels in the frame, sorted.
    n_records
        The number of rows; None if unknown.
    queries
        What a `Count` or `Null Count` counts among the records, by column name.
    signed
        Whether counts may be negative, if column types do not say so, as in a mapping.
    neighbours
        The relation of the guarantee; `"change"` if the number of rows is public.

    Examples
    --------
    >>> summary = {"column": ["len"], "aggregate": ["Frame Length"],
    ...            "distribution": ["Integer Laplace"], "scale": [2.0]}
    >>> released = {"region": ["b", "a"], "len": [31, 12]}
    >>> frame(summary, released, signed=True).names
    ('region=a', 'region=b')
    """
    several = isinstance(summary, list | tuple)
    summaries, frames = (list(summary), list(released)) if several else ([summary], [released])
    if len(summaries) != len(frames):
        raise ValueError(f"released must be {len(summaries)} frames; got {len(frames)}")
    found = [
        column
        for each, table in zip(summaries, frames, strict=True)
        for column in _columns(each, table, signed, n_records)
    ]
    shape = _shape(found, keys or {})
    parts, values, labels = [], [], []
    for column in found:
        for label, query, numbers in _asked(column, shape, bounds or {}, queries or {}):
            parts.append(_mechanism(column, query, numbers, neighbours))
            values += numbers
            labels.append(label)
    if len(set(labels)) < len(labels):
        labels = [f"{number}, {label}" for number, label in enumerate(labels, start=1)]
    return joint(values, parts, n_records, labels)


def _columns(summary: Any, released: Any, signed: bool | None, n: int | None) -> list[Column]:
    table, says = columns_by_name(released), columns_by_name(summary)
    for field in ("column", "aggregate", "distribution", "scale"):
        if field not in says:
            raise ValueError(f"summary must have a column {field!r}; it has {', '.join(says)}")
    for field in {"scale", "threshold"} & set(says):  # texts in a CSV
        says[field] = numbers_of(field, says[field]).tolist()
    lines = [dict(zip(says, line, strict=True)) for line in zip(*says.values(), strict=True)]
    keys = tuple(name for name in table if name not in {line["column"] for line in lines})
    index = list(zip(*([str(level) for level in table[key]] for key in keys), strict=True))
    found = []
    for name in dict.fromkeys(line["column"] for line in lines):
        mine = [line for line in lines if line["column"] == name]
        if name not in table:
            raise ValueError(f"released must have the column {name!r}; it has {', '.join(table)}")
        first, factor = _read_line(mine, bool(keys), n)
        numbers = (factor * numbers_of(name, table[name])).tolist()
        limit = first.get("threshold", np.nan)
        noise = (NOISE[first["distribution"]], first["scale"], None if np.isnan(limit) else limit)
        unsigned = _unsigned(name, table[name], first, signed)
        rows = dict(zip(index if keys else [()], numbers, strict=True))
        found.append(Column(name, first["aggregate"], *noise, unsigned, keys, rows))
    return found


def _read_line(lines: list[dict[str, Any]], grouped: bool, n: int | None) -> tuple[Any, float]:
    """Return a column's line of the summary, and the factor that turns its answer into a total.

    A mean has two lines, its sum and its length, and only their ratio is released. If the length
    has no noise, n times the mean is the noisy sum.
    """
    first, name = lines[0], lines[0]["column"]
    if first["distribution"] not in NOISE:
        raise cannot_read(
            f"column {name!r} is {first['aggregate']} with {first['distribution']} noise, which is "
            "not additive",
            by_hand=False,
        )
    if not first["scale"] > 0:
        raise cannot_read(
            f"column {name!r} was released without noise (scale 0): where lengths are invariant, "
            "one changed record is two contributions, and the unit of privacy has fewer",
            by_hand=False,
        )
    if len(lines) == 1:
        return first, 1.0
    if [line["aggregate"] for line in lines] != ["Sum", "Length"] or lines[1]["scale"] > 0:
        raise cannot_read(
            f"column {name!r} is the ratio of two noisy numbers, of which neither is released; ask "
            "for the sum and for the length instead, with dp.sum and dp.len",
            by_hand=False,
        )
    if grouped or n is None:
        raise cannot_read(
            f"column {name!r} is a mean over a known number of records: n_records is needed, and "
            "there must be no groups"
        )
    return first, float(whole_number("n_records", n))


def _unsigned(name: str, column: Any, line: dict[str, Any], signed: bool | None) -> bool:
    """Whether a column was clamped at 0, by its type or by `signed`."""
    if not line["distribution"].startswith("Integer"):
        return False
    kind = str(getattr(column, "dtype", "")).lower()
    if "int" in kind and signed is None:
        return kind.startswith("uint")
    if signed is None and line["aggregate"] != "Sum":
        raise ValueError(
            f"signed is needed: the type of {name!r} does not say whether counts were clamped at "
            "0, as dp.len(signed=False) does"
        )
    return signed is False and line["aggregate"] != "Sum"


def _shape(found: list[Column], given: Mapping[str, Sequence[Any]]) -> Shape:
    levels: dict[str, list[str]] = {}
    for column in found:
        for place, key in enumerate(column.keys):
            seen = {group[place] for group in column.rows}
            if key in given:
                levels[key] = [str(level) for level in given[key]]
                strange = sorted(seen - set(levels[key]))
                if strange:
                    raise ValueError(f"keys must hold all levels of {key!r}; {strange[0]} is not")
            elif column.threshold is not None:
                raise ValueError(
                    f"keys is needed, with all levels of {key!r}: a group that is not above the "
                    f"threshold {column.threshold:g} is not in the frame"
                )
            else:
                levels[key] = sorted({*levels.get(key, []), *seen}, key=_order)
    unknown = sorted(set(given) - set(levels))
    if unknown:
        raise ValueError(f"keys must be columns of the frame; got {unknown[0]!r}")
    sums = list(dict.fromkeys(column.name for column in found if column.aggregate == "Sum"))
    if sums and len({column.keys for column in found if column.keys}) > 1:
        raise cannot_read("sums are read with one set of keys, the same in all frames")
    return Shape(levels, sums)


def _order(level: str) -> tuple[float, str]:
    """Return the sort key of levels: numbers by value, then texts."""
    try:
        return float(level), level
    except ValueError:
        return np.inf, level


def _asked(column: Column, shape: Shape, bounds: Any, given: Any) -> list[tuple[str, Any, list]]:
    """Return the parts that a column becomes, each with its label, query and numbers."""
    if column.aggregate in LENGTHS:
        query: Any = queries.Count(value=None)
    elif column.aggregate == "Sum":
        query = _sum(column, bounds)
        grouped_elsewhere = bool(shape.keys) and not column.keys  # the group is the first column
        if grouped_elsewhere or len(shape.sums) > 1:
            query = queries.InColumn(query, grouped_elsewhere + shape.sums.index(column.name))
    elif column.aggregate in ("Count", "Null Count") and column.name in given and not column.keys:
        query = given[column.name]
    else:
        why = "say what it counts, queries={...}, without groups"
        if column.aggregate == "N Unique":
            why = "the number of different values is not a sum over records"
        raise cannot_read(f"column {column.name!r} is {column.aggregate}: {why}", by_hand=False)
    if not column.keys:
        return [(column.name, query, list(column.rows.values()))]
    return _by_group(column, shape, query)


def _by_group(column: Column, shape: Shape, query: Any) -> list[tuple[str, Any, list]]:
    """Return the parts of a column of groups, with NaN for a withheld group."""
    mine = {key: shape.keys[key] for key in column.keys}
    groups = list(product(*mine.values()))
    numbers = [column.rows.get(group, np.nan) for group in groups]
    missing = [group for group, number in zip(groups, numbers, strict=True) if np.isnan(number)]
    names = [",".join(f"{k}={v}" for k, v in zip(mine, group, strict=True)) for group in groups]
    if shape.sums:
        if not missing or column.threshold is not None:
            return [(column.name, queries.ByGroup(query, len(groups), names), numbers)]
        return [  # what was not published, because the length was withheld, says nothing
            (f"{column.name}, {names[g]}", queries.InGroup(query, g), [number])
            for g, number in enumerate(numbers)
            if not np.isnan(number)
        ]
    if missing and column.threshold is None:
        raise cannot_read(
            f"column {column.name!r} lacks the group {missing[0]}, and there is no threshold"
        )
    if len(shape.keys) == 1:
        return [(column.name, queries.Histogram(n_levels=len(groups), labels=names), numbers)]
    sizes = [len(levels) for levels in shape.keys.values()]
    table = queries.Margins(sizes, [list(column.keys)], list(shape.keys), list(shape.keys.values()))
    return [(column.name, table, numbers)]


def _sum(column: Column, bounds: Any) -> Any:
    if column.name not in bounds:
        raise ValueError(
            f"bounds is needed for the sum of {column.name!r}: bounds={{{column.name!r}: (lower, "
            f"upper)}}; got {', '.join(map(repr, bounds)) or 'none'}"
        )
    whole = column.noise in (mechanisms.DiscreteLaplace, mechanisms.DiscreteGaussian)
    return queries.Sum(*bounds[column.name], integer_valued=whole)


def _mechanism(column: Column, query: Any, numbers: list[float], neighbours: Neighbours) -> Any:
    made: Any = column.noise(query, scale=column.scale, neighbours=neighbours)
    if column.unsigned:
        made = mechanisms.Clamped(made, lower=0.0)
    if column.threshold is not None:
        made = mechanisms.Thresholded(made, threshold=column.threshold)
    return made
