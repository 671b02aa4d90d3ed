"""The parameters of a posterior as a flat list of numbers with names, for plots and the report.

A parameter with a shape is taken apart: `coefficients` becomes `coefficients[intercept]`,
`coefficients[x1]`, as in the table of `noiseaware.summary`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xarray import DataTree

__all__ = ["MAIN", "Entry", "all_entries", "entry_values", "main_entries", "pick_entries"]

MAIN = 6
"""Entries that are shown without being asked for, unless the first parameter alone has more."""

MOST = 12
"""Entries of the first parameter that are shown without being asked for."""


@dataclass(frozen=True)
class Entry:
    """One number of the model that the posterior is about.

    Attributes
    ----------
    label
        As in the table of `noiseaware.summary`.
    variable, index, place
        The parameter, and where in it the entry is: by its axes, and counted row by row.
    draws
        (chain, draw).
    prior
        Draws from the prior, (m,), or None if the posterior holds none.
    """

    label: str
    variable: str
    index: tuple[int, ...]
    place: int
    draws: np.ndarray
    prior: np.ndarray | None


def all_entries(posterior: DataTree) -> list[Entry]:
    """Return every entry of every parameter, in the order of the summary."""
    need_posterior("posterior", posterior)
    priors = posterior["prior"].to_dataset() if "prior" in posterior.children else None
    found = []
    for name, array in posterior["posterior"].to_dataset().data_vars.items():
        values = array.transpose("chain", "draw", ...)
        labels = [[str(label) for label in values[d].values] for d in values.dims[2:]]
        drawn = None
        if priors is not None and name in priors:
            drawn = priors[name].transpose("chain", "draw", ...).values
        for place, index in enumerate(np.ndindex(values.shape[2:])):
            inside = ", ".join(names[i] for names, i in zip(labels, index, strict=True))
            found.append(
                Entry(
                    f"{name}[{inside}]" if inside else str(name),
                    str(name),
                    index,
                    place,
                    values.values[(..., *index)],
                    None if drawn is None else drawn[(..., *index)].ravel(),
                )
            )
    return found


def main_entries(posterior: DataTree) -> list[Entry]:
    """Return the entries to show first: those of the parameters that the model names first.

    Whole parameters in the order of the model, up to `MAIN` entries; if the first one has more,
    it alone, up to `MOST`. What the model derives from its parameters (a difference of groups)
    comes before them. An entry that repeats another one (a covariance is symmetric) or that
    has one value only is left out.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in _distinct(all_entries(posterior)):
        groups.setdefault(entry.variable, []).append(entry)
    derived = json.loads(posterior.attrs.get("derived", "[]"))
    chosen: list[Entry] = []
    for name in sorted(groups, key=lambda name: name not in derived):
        group = groups[name]
        if chosen and len(chosen) + len(group) > MAIN:
            break
        chosen += group[:MOST]
    return chosen


def pick_entries(posterior: DataTree, var_names: Sequence[str] | str | None) -> list[Entry]:
    """Return the entries that are asked for, by parameter or by label; None: the main ones."""
    if var_names is None:
        return main_entries(posterior)
    entries = all_entries(posterior)
    chosen: list[Entry] = []
    for name in [var_names] if isinstance(var_names, str) else var_names:
        found = [entry for entry in entries if name in (entry.variable, entry.label)]
        if not found:
            variables = list(dict.fromkeys(entry.variable for entry in entries))
            raise ValueError(
                f"var_names must hold parameters of the posterior ({', '.join(variables)}) or "
                f"labels of its summary; got {name!r}"
            )
        chosen += found
    return chosen


def entry_values(values: dict[str, Any], entry: Entry) -> np.ndarray | None:
    """Return the draws of an entry from a dict of (draws, *shape) arrays; None if not there."""
    if entry.variable not in values:
        return None
    array = np.asarray(values[entry.variable], dtype=np.float64)
    return array.reshape(len(array), -1)[:, entry.place]


def need_posterior(argument: str, thing: Any) -> None:
    """Raise TypeError unless this is a posterior."""
    if not hasattr(thing, "children") or "posterior" not in thing.children:
        raise TypeError(
            f"{argument} must be a posterior, as sample or load returns it; "
            f"got {type(thing).__name__}"
        )


def _distinct(entries: list[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    for entry in entries:
        repeated = any(
            other.variable == entry.variable and np.array_equal(other.draws, entry.draws)
            for other in kept
        )
        if not repeated and np.ptp(entry.draws) > 0:
            kept.append(entry)
    return kept or entries
