"""The 2020 Census noisy measurement files (P.L. 94-171 and DHC), and the Detailed DHC-A.

**Noisy measurements.** The Census Bureau publishes the noisy counts behind its tables. A row of a
file is one query about one area:

| column                | what it says                                                        |
|-----------------------|---------------------------------------------------------------------|
| `geocode`             | the area, by the code of the Bureau's own hierarchy                 |
| `query_name`          | `votingage * hispanic_dpq`, ...; `..._con` is a constraint          |
| one for each variable | `hhgq`, `votingage`, ...: how it enters; `*` if summed out          |
| `query_shape`         | the number of levels of each variable, 1 if summed out              |
| `value`               | the noisy counts of all cells, the last variable changing fastest   |
| `variance`            | sigma^2 of the noise, P(e) proportional to exp(-e^2 / (2 sigma^2))  |
| `sign`                | of a constraint: `=`, `<=` or `>=`                                  |

Noise is discrete Gaussian and protects against one changed record. `read` returns the rows of a
Parquet file, a folder of them, a CSV file (lists as `[1, 2]`) or JSON lines. `release` makes one
joint release of rows about one area, and `hierarchy` one of all levels of geography. The code of an
area starts with the code of the area that contains it. A variable enters a query by its own levels,
in groups (`hhinstlevels` is `hhgq` in three groups) or not at all, so each query is a margin of the
table of all variables in the chosen rows.

**The Detailed DHC-A** publishes a noisy count for each area and group of people; its documentation
states margins of error. `detailed` reads tables from data.census.gov (CSV, with a second line of
labels) or the Bureau's API (JSON), each cell as a record.

Reference
---------
Abowd, J. et al. (2022). The 2020 Census Disclosure Avoidance System TopDown Algorithm. Harvard Data
    Science Review, special issue 2.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from noiseaware import mechanisms, queries
from noiseaware.interop.reading import cannot_read, joint
from noiseaware.interop.tables import rows_of
from noiseaware.release import Release

__all__ = ["Measurement", "Place", "detailed", "hierarchy", "read", "release"]

NEEDED = ("geocode", "query_name", "query_shape", "value")
# Columns of text that are not variables.
OTHERS = (*NEEDED, "sign", "geolevel", "State", "County", "Tract", "Block_Group", "Block")
MOE = 1.6448536269514722
"""The Bureau's margins of error (90%) are this many standard deviations."""


class Measurement(NamedTuple):
    """One row of a noisy measurement file."""

    geocode: str
    query: str
    """Its name in the file, such as `"votingage * hispanic_dpq"`."""
    variables: tuple[str, ...]
    """Those that are not summed out."""
    groups: tuple[str, ...]
    """How each enters: its own name, or the name of groups of its levels."""
    shape: tuple[int, ...]
    """The number of levels of each."""
    values: NDArray[np.float64]
    """The counts of the cells, in C order of `shape`."""
    variance: float
    sign: str = ""
    """`"="`, `"<="` or `">="` for a constraint, which has no noise."""


class Place(NamedTuple):
    """All levels of geography of a place as one release about its smallest areas."""

    release: Release
    areas: tuple[str, ...]
    """The codes of the smallest areas, those with no parts in the file."""
    n_levels: list[int]
    """The table's sizes: the number of smallest areas, then the levels of each variable."""
    variables: list[str]
    """The matching names, `"area"` first."""

    def within(self, code: str) -> NDArray[np.int64]:
        """Return the numbers of the smallest areas inside this one."""
        return np.flatnonzero([area.startswith(code) for area in self.areas])


def read(
    path: str | Path,
    geocode: str | None = None,
    queries: Sequence[str] | None = None,
    variables: Sequence[str] | None = None,
) -> list[Measurement]:
    """Read a noisy measurement file.

    Parameters
    ----------
    path
        A Parquet file or a folder of Parquet files (requires pandas and pyarrow), a CSV file, or
        JSON lines.
    geocode
        Keep only the rows of this area.
    queries
        Keep only these, by their names in the file, with or without `_dpq`.
    variables
        The columns of the variables, in the order of `query_shape`, if the file has other text
        columns too.

    Returns
    -------
    list of Measurement
        In the order of `queries`, if these are given.
    """
    wanted = [queries] if isinstance(queries, str) else queries or ()
    names = [name if name.endswith(("_dpq", "_con")) else f"{name}_dpq" for name in wanted]
    rows = rows_of(path, NEEDED)
    there = {str(row["query_name"]) for row in rows}
    found = [
        _measurement(row, variables)
        for row in rows
        if geocode in (None, str(row["geocode"]))
        and (queries is None or str(row["query_name"]) in names)
    ]
    for name in names:
        if name not in there:
            listed = ", ".join(sorted(there))
            raise ValueError(f"queries must be among those of the file ({listed}); got {name}")
    if not found:
        raise ValueError(f"geocode must be in the file {path}; got {geocode!r}")
    return found if queries is None else sorted(found, key=lambda row: names.index(row.query))


def release(
    measurements: Measurement | Iterable[Measurement], n_records: int | None = None
) -> Release:
    """Return the measurements of one area as one release about the same people.

    Parameters
    ----------
    measurements
        Rows from `read`, of one area. A constraint with the sign `=` is exact: `n_records` if it
        counts all people, or else a part of the release. Bounds are refused.
    n_records
        The number of people (or housing units), if published, as it is for states. None if unknown;
        `noiseaware.sample` then needs a prior for it.

    Returns
    -------
    Release
        A record has a level of each variable, (n, K), as for `noiseaware.models.ContingencyTable`;
        with a single variable records are (n,), as for `Categorical`.
    """
    rows, areas = _rows([measurements] if isinstance(measurements, Measurement) else measurements)
    if len(areas) > 1:
        raise ValueError(f"measurements must be of one area; got {', '.join(areas[:3])}")
    levels = _levels(rows)
    for row in [row for row in rows if row.sign and not row.variables]:
        if n_records not in (None, row.values[0]):
            raise ValueError(f"n_records must be {row.values[0]:.0f}, as {row.query} says")
        n_records = int(row.values[0])
    rows = [row for row in rows if row.variables or not row.sign]
    if not rows:
        raise ValueError("measurements must hold a noisy row; got the number of people alone")
    parts = [_mechanism(_query(row, levels), row.sign, math.sqrt(row.variance)) for row in rows]
    values = np.concatenate([row.values for row in rows])
    return joint(values, parts, n_records, [row.query.removesuffix("_dpq") for row in rows])


def hierarchy(measurements: Iterable[Measurement]) -> Place:
    """Return the measurements of an area, its parts, and their parts, as one release.

    A record is the number of a smallest area and a level of each variable; each measurement is a
    set of sums over the table of records. Use it with `noiseaware.models.PoissonTable`, which needs
    no known total, or `ContingencyTable`.

    Parameters
    ----------
    measurements
        Rows from `read`. A constraint with the sign `=` is exact; bounds are refused.

    Examples
    --------
    >>> import noiseaware as na
    >>> rows = [
    ...     na.interop.census.Measurement(code, "total_dpq", (), (), (), np.array([n]), 9.0)
    ...     for code, n in (("36", 31.0), ("361", 20.0), ("362", 14.0))
    ... ]
    >>> place = na.interop.census.hierarchy(rows)
    >>> place.areas, place.release.query.matrix.toarray().tolist()
    (('361', '362'), [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    """
    rows, codes = _rows(measurements)
    levels = _levels(rows)
    # In text order, the parts of an area follow it.
    following = [*codes[1:], ""]
    areas = [a for a, b in zip(codes, following, strict=True) if not b.startswith(a)]
    if len(areas) < 2:
        raise ValueError(f"measurements must be of two areas at least; got {', '.join(areas)}")
    parts, values = [], []
    for exact in (False, True):
        chosen = [row for row in rows if bool(row.sign) == exact]
        if chosen:
            scale = np.concatenate([np.full(len(r.values), math.sqrt(r.variance)) for r in chosen])
            parts.append(_mechanism(_sums(chosen, areas, levels), exact, scale))
            values += [row.values for row in chosen]
    made = joint(np.concatenate(values), parts, None, ["noisy", "exact"])
    return Place(made, tuple(areas), [len(areas), *levels.values()], ["area", *levels])


def _rows(measurements: Iterable[Measurement]) -> tuple[list[Measurement], list[str]]:
    """Return the rows, at least one, and the sorted codes of their areas."""
    rows = list(measurements)
    if not rows:
        raise ValueError("measurements must hold at least one row; got none")
    return rows, sorted({row.geocode for row in rows})


def _mechanism(query: Any, exact: Any, scale: Any) -> Any:
    return mechanisms.Exact(query) if exact else mechanisms.DiscreteGaussian(query, scale=scale)


def _sums(
    rows: Sequence[Measurement], areas: Sequence[str], levels: dict[str, int]
) -> queries.Linear:
    """Return the rows as sums over the areas and the levels of all variables."""
    n_inner, made, above, names = math.prod(levels.values()), [], 0, []
    inner = np.indices(tuple(levels.values())).reshape(len(levels), n_inner)
    for row in rows:
        first = bisect_left(areas, row.geocode)
        last = bisect_left(areas, row.geocode + "~")  # after all digits and letters
        if first == last:
            raise ValueError(f"the parts of {row.geocode} must be in the file; got none")
        place = np.zeros(n_inner, dtype=np.int64)  # in the margin, of each cell of an area
        for group, size in zip(row.groups, row.shape, strict=True):
            place = place * size + inner[list(levels).index(group)]
        cells = np.arange(first * n_inner, last * n_inner)
        made.append((above + np.tile(place, last - first), cells))
        above += len(row.values)
        ends = np.ndindex(*row.shape)
        names += [" ".join([row.geocode, row.query, *map(str, end)]) for end in ends]
    where = tuple(np.concatenate(part) for part in zip(*made, strict=True))
    shape = (above, len(areas) * n_inner)
    matrix = sparse.csc_array((np.ones(len(where[0])), where), shape=shape)
    return queries.Linear(matrix, names, [len(areas), *levels.values()])


def detailed(
    path: str | Path,
    column: str = "T01001_001N",
    *,
    moe: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    threshold: ArrayLike | None = None,
    clamp: tuple[float | None, float | None] | None = None,
) -> Release:
    """Read a table of the Detailed DHC-A: every row of the file is a record.

    Parameters
    ----------
    path
        CSV from data.census.gov, or the JSON of the Bureau's API (dec/ddhca).
    column
        The column of counts.
    moe, variance
        Either the margin of error at 90% or the variance of the noise, from the Bureau's
        documentation: one number, or one for each row.
    threshold, clamp
        Steps after the noise, as in `noiseaware.mechanisms.LocalDiscreteGaussian`.
    """
    if (moe is None) == (variance is None):
        raise ValueError("give moe or variance, one of the two")
    rows = [row for row in rows_of(path, (column,)) if "!!" not in str(row[column])]
    values = [_count(row[column]) for row in rows]
    noise = np.asarray(variance if moe is None else np.square(np.asarray(moe, float) / MOE), float)
    mechanism = mechanisms.LocalDiscreteGaussian(
        queries.Value(), scale=np.sqrt(noise), threshold=threshold, clamp=clamp
    )
    return Release(values, mechanism, n_records=len(values))


def _measurement(row: Mapping[str, Any], variables: Sequence[str] | None) -> Measurement:
    """Return one row, without the variables that are summed out."""
    name = str(row["query_name"])
    shape = [int(size) for size in _numbers(row["query_shape"])]
    values = np.array(_numbers(row["value"]), dtype=np.float64)
    if len(values) != math.prod(shape):
        raise ValueError(f"{name}: value must hold {math.prod(shape)} counts; got {len(values)}")
    columns = variables or [key for key in row if key not in OTHERS and _is_text(row[key])]
    if len(columns) != len(shape):
        raise ValueError(
            f"variables must be {len(shape)} columns, as query_shape has; got {list(columns)}"
        )
    sign = str(row["sign"]) if _is_text(row.get("sign")) else ""
    variance = 0.0 if sign else float(row.get("variance") or 0.0)
    if not sign and not variance > 0.0:
        raise ValueError(f"{name}: variance must be above 0; got {row.get('variance')!r}")
    entering = {k: size for k, size in zip(columns, shape, strict=True) if row[k] != "*"}
    groups = tuple(key if row[key] == "detailed" else row[key] for key in entering)
    area, sizes = str(row["geocode"]), tuple(entering.values())
    return Measurement(area, name, tuple(entering), groups, sizes, values, variance, sign)


def _is_text(entry: Any) -> bool:
    """Whether an entry of a row is a text that is neither empty nor a number."""
    return isinstance(entry, str) and not re.fullmatch(r"[-+.\deE\[\], ]*", entry)


def _levels(rows: Iterable[Measurement]) -> dict[str, int]:
    """Return the number of levels of each variable of a record, by the names of its groups."""
    levels: dict[str, int] = {}
    groups: dict[str, str] = {}
    for row in rows:
        if row.sign not in ("", "="):
            raise cannot_read(f"{row.query} is a bound (sign {row.sign!r}), not a number")
        for variable, group, size in zip(row.variables, row.groups, row.shape, strict=True):
            if size == 1:
                raise cannot_read(f"{row.query} is about one level of {variable} only, {group}")
            if groups.setdefault(variable, group) != group:
                raise cannot_read(
                    f"measurements must have {variable} in one form; got {groups[variable]} and "
                    f"{group}, in {row.query}"
                )
            levels[group] = size
    return levels


def _query(row: Measurement, levels: dict[str, int]) -> Any:
    if not row.variables:
        return queries.Count(value=None)
    if len(levels) == 1:
        return queries.Histogram(n_levels=row.shape[0])
    return queries.Margins(list(levels.values()), [list(row.groups)], list(levels))


def _numbers(given: Any) -> list[float]:
    """Return a list of numbers from an array or its text."""
    if isinstance(given, str):
        return [float(part) for part in re.split(r"[\s,;]+", given.strip("[](){} \n")) if part]
    return np.asarray(given, dtype=np.float64).ravel().tolist()


def _count(given: Any) -> float:
    try:
        return math.nan if given is None or given == "" else float(str(given).replace(",", ""))
    except ValueError:
        return math.nan  # (X) and the like: not published
