"""A release: the private numbers, the mechanism that made them, and the number of records.

Example
-------
>>> import noiseaware as na
>>> query = na.queries.Count(value=1)
>>> release = na.Release([37.2], na.mechanisms.Laplace(query, epsilon=1.0), n_records=100)
>>> release.names
('count of 1',)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from noiseaware.basics.arguments import whole_number
from noiseaware.basics.files import write_json
from noiseaware.basics.text_files import kind_of, read_text
from noiseaware.contract import Mechanism, MechanismAbilities, mechanism_abilities, missing
from noiseaware.registry import MECHANISMS, nearest

__all__ = ["ImpossibleRelease", "Release"]

FORMAT = "noiseaware-release"
VERSION = 1

_SHOWN = 30  # values that a notebook shows


class ImpossibleRelease(ValueError):
    """A release that the model cannot have made."""


class Release:
    """What the curator published: the values s_dp and the mechanism that made them.

    Parameters
    ----------
    values : array_like, (d,), or dict
        The released numbers s_dp, in the order of `mechanism.query.names` or keyed by these names.
        NaN means that a value was withheld (see `noiseaware.mechanisms.Thresholded`).
    mechanism : mechanism
        How they were made; see `noiseaware.mechanisms`.
    n_records : int or None
        The number of confidential records n, which is public under the change-one-record
        neighbour relation. None: it was not published, as under the add-or-remove-one-record
        relation; then give `sample` a prior for it (`noiseaware.sizes`).
    record_names : sequence of str, optional
        Names of the records, if each has its own released values, as published cells do; by
        default "record 0", "record 1", ...

    Attributes
    ----------
    values : ndarray, (d,)
        Read-only.
    names : tuple of str
        One name per value.
    """

    def __init__(
        self,
        values: Any,
        mechanism: Any,
        n_records: int | None,
        record_names: Sequence[str] | None = None,
    ) -> None:
        if missing(mechanism, Mechanism):
            raise TypeError(
                "mechanism must be a mechanism such as na.mechanisms.Laplace(query, epsilon=1.0); "
                f"got {mechanism!r}"
            )
        self.mechanism = mechanism
        self.n_records = None if n_records is None else whole_number("n_records", n_records)
        if isinstance(values, dict):
            values = _in_order(values, mechanism)
        checked = np.array(check_values(mechanism, values), dtype=np.float64)
        each = self._abilities.per_record
        if each and self.n_records is None:
            raise ValueError(
                f"n_records must be {len(checked) // each} under {self._abilities.name}, which "
                "releases a value for each record; got None"
            )
        if each and len(checked) != each * (self.n_records or 0):
            raise ValueError(
                f"values must be {'one' if each == 1 else each} for each of the n_records = "
                f"{self.n_records} records under {self._abilities.name}; got {len(checked)}"
            )
        self._check_number(checked)
        self.record_names = self._check_names(record_names)
        checked.flags.writeable = False
        self.values: np.ndarray = checked

    def _check_names(self, given: Sequence[str] | None) -> tuple[str, ...] | None:
        if given is None:
            return None
        names = tuple(map(str, given))
        if not self._abilities.per_record or len(names) != self.n_records:
            raise ValueError(
                f"record_names must be one for each of the {self.n_records} records, where every "
                f"record has a released value; got {len(names)} under {self._abilities.name}"
            )
        return names

    def _check_number(self, checked: np.ndarray) -> None:
        n_values = self._abilities.n_values
        if n_values is not None and self.n_records is None:
            raise ValueError("n_records must be known where a part has a value for each record")
        if n_values is not None and n_values(self.n_records or 0) != len(checked):
            raise ValueError(
                f"values must be {n_values(self.n_records or 0)}, those of all parts about "
                f"n_records = {self.n_records} records; got {len(checked)}"
            )

    @property
    def _abilities(self) -> MechanismAbilities:
        return mechanism_abilities(self.mechanism)

    @property
    def query(self) -> Any:
        """What was asked of the database."""
        return self.mechanism.query

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each released value: the query's, or numbers if these do not fit."""
        each = self._abilities.per_record
        if each:
            records = self.record_names or tuple(f"record {i}" for i in range(self.known_n))
            if each == 1:
                return records
            return tuple(f"{record}: {name}" for record in records for name in self.query.names)
        names, d = tuple(self.query.names), len(self.values)
        return names if len(names) == d else tuple(f"value {i}" for i in range(d))

    def __repr__(self) -> str:
        each = zip(self.names, self.values, strict=True)
        shown = ", ".join(f"{name}: {_shown(value, '.4g')}" for name, value in each)
        shown = f"{shown[:200]} ..." if len(shown) > 200 else shown
        return f"Release of {self.size_words} by {self.mechanism!r}\n  {shown}"

    @property
    def known_n(self) -> int:
        """The number of records; ValueError if the release does not give it."""
        if self.n_records is None:
            said = "the release does not say how many records there are"
            raise ValueError(f"n_records must be known for this analysis; {said}")
        return self.n_records

    @property
    def size_words(self) -> str:
        """The number of records, in words."""
        if self.n_records is None:
            return "an unknown number of records"
        return f"{self.n_records} record{'s' if self.n_records != 1 else ''}"

    def _repr_html_(self) -> str:
        """Return the numbers and the guarantee, for a notebook."""
        shown = list(zip(self.names, self.values, strict=True))[:_SHOWN]
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(name)}</td>"
            f"<td>{_shown(value, '.6g')}</td></tr>"
            for name, value in shown
        )
        more = len(self.values) - len(shown)
        guarantee = self._abilities.guarantee
        promised = "" if guarantee is None else f"<br>{escape(str(guarantee))}"
        return (
            f"<p><b>Release of {self.size_words}</b> by "
            f"{escape(self._abilities.name)}{promised}</p>"
            f"<table><thead><tr><th style='text-align:left'>name</th><th>released value</th></tr>"
            f"</thead><tbody>{rows}</tbody></table>" + (f"<p>and {more} more</p>" if more else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole release as plain JSON types."""
        if self._abilities.to_dict is None:
            raise ValueError(
                f"a release by {self._abilities.name} cannot be written to a file: the "
                "mechanism has no to_dict"
            )
        # JSON has no NaN: a withheld value is null.
        values = [None if np.isnan(value) else value for value in self.values.tolist()]
        each = self._abilities.per_record
        if each > 1:
            values = [values[i : i + each] for i in range(0, len(values), each)]
        guarantee = self._abilities.guarantee
        return {
            "format": FORMAT,
            "version": VERSION,
            "n_records": self.n_records,
            "mechanism": self._abilities.to_dict(),
            "guarantee": "" if guarantee is None else str(guarantee),
            # Records have no names: their values are a list, in the order of the records.
            "values": values if each else dict(zip(self.names, values, strict=True)),
            **({} if self.record_names is None else {"record_names": list(self.record_names)}),
        }

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """Read what `to_dict` wrote; ValueError names a missing, unknown or invalid field."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f'not a release: the field "format" must be "{FORMAT}"')
        version = content.get("version")
        if version != VERSION or isinstance(version, bool):
            raise ValueError(
                f'the release has "version" {version!r}; this noiseaware reads version {VERSION}'
            )
        needed = ("n_records", "mechanism", "values")
        known = ("format", "version", *needed, "guarantee", "record_names")
        unknown = sorted(set(content) - set(known))
        if unknown:
            near = nearest(unknown[0], known)
            hint = near if near.endswith("?") else ""
            raise ValueError(f"the release has unknown fields: {', '.join(unknown)}{hint}")
        for field in needed:
            if field not in content:
                raise ValueError(f'the release lacks the field "{field}"')
        mechanism = MECHANISMS.read(content["mechanism"])
        values = content["values"]
        if isinstance(values, dict | list):
            listed = values.values() if isinstance(values, dict) else values
            for value in np.ravel(np.array(list(listed), dtype=object)):
                if isinstance(value, bool | str):  # NumPy would take it for 0 or 1
                    marks = _MARKS if isinstance(value, str) else ""
                    raise ValueError(f"values must be numbers{marks}; got {json.dumps(value)}")
        names = content.get("record_names")
        if names is not None and not isinstance(names, list):
            raise ValueError(f"record_names must be a list of texts; got {names!r}")
        return cls(values, mechanism, content["n_records"], names)

    def to_json(self, path: str | Path) -> None:
        """Write the release as JSON: what a curator can publish next to the numbers."""
        write_json(Path(path), self.to_dict())

    @classmethod
    def from_json(cls, path: str | Path) -> Release:
        """Read a release that `to_json` wrote."""
        try:
            content = json.loads(read_text(path))
        except (json.JSONDecodeError, UnicodeError) as error:
            marks = _number_words(error)
            raise ValueError(f"{path} is not JSON{kind_of(path) or f': {error}{marks}'}") from None
        try:
            json.dumps(content, ensure_ascii=False).encode()  # no half of a pair of UTF-16
            return cls.from_dict(content)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None


_MARKS = ", with a decimal point and no thousands separators"


def _number_words(error: Exception) -> str:
    """Return a hint on writing numbers, if the JSON breaks off at a comma inside a number."""
    if isinstance(error, json.JSONDecodeError):
        broken = re.search(r"\d,\s?\d?$", error.doc[: error.pos + 1])
        return f"; numbers are written{_MARKS[1:]}" if broken else ""
    return ""


def _shown(value: float, form: str) -> str:
    return "withheld" if np.isnan(value) else format(value, form)


def check_values(mechanism: Any, values: Any) -> np.ndarray:
    """Return `values` as floats, checked by the mechanism if it has `check_values`."""
    check = mechanism_abilities(mechanism).check_values
    if check is not None:
        return check(values)
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"values must be numbers; got {values!r}") from None
    if array.ndim != 1:
        raise ValueError(f"values must be one-dimensional; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"values must be finite; got {array[~np.isfinite(array)][0]}")
    return array


def _in_order(values: dict[str, Any], mechanism: Any) -> list[Any]:
    # The names that `Release.names` gives to values without names of their own.
    numbered = [f"value {i}" for i in range(len(values))]
    if values and set(values) == set(numbered):
        return [values[name] for name in numbered]
    if mechanism_abilities(mechanism).per_record:
        raise ValueError(
            f'"values" must be a list under {type(mechanism).__name__}, in the order of the '
            "records; it has names"
        )
    names = tuple(mechanism.query.names)
    absent = [name for name in names if name not in values]
    if absent:
        given = f"; got {', '.join(map(str, values))}" if values else ""
        raise ValueError(f'"values" lacks {", ".join(absent)}{given}')
    unknown = sorted(set(values) - set(names))
    if unknown:
        raise ValueError(f'"values" has names that the query does not give: {", ".join(unknown)}')
    return [values[name] for name in names]
