"""What a posterior stores besides draws: its model, its release and settings for its report.

The model and the release determine the naive analysis, which treats the released numbers as exact
and which plots and the report show beside the posterior.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noiseaware import baselines, models
from noiseaware.contract import Model
from noiseaware.release import Release
from noiseaware.results.posterior import need_posterior, with_derived
from noiseaware.results.units import KEYS

if TYPE_CHECKING:
    from xarray import DataTree


def model_of(posterior: DataTree, model: Model | None = None) -> Model:
    """Return the model given, or the one that the posterior was drawn from."""
    if model is not None:
        return model
    name = posterior.attrs.get("model", "unknown")
    return models.from_dict(_held(posterior, "model", f"the model, {name}, is a class"))


def release_of(posterior: DataTree, release: Release | None = None) -> Release:
    """Return the release given, or the one that the posterior holds."""
    if release is not None:
        return release
    return Release.from_dict(_held(posterior, "release", "the release is by a query or mechanism"))


def _held(posterior: DataTree, name: str, what: str) -> Any:
    """Return the posterior's description of its model or release, parsed from JSON."""
    described = posterior.attrs.get(f"{name}_json", "")
    if not described:
        raise ValueError(f"{what} of your own, which a posterior cannot hold: pass it as {name}=")
    return json.loads(described)


def number_of_records(posterior: DataTree) -> str:
    """Return the number of records as words to put before "records"."""
    number = float(posterior["constant_data"]["n_records"])
    return "an unknown number of" if np.isnan(number) else f"{number:.0f}"


def kind_of_records(posterior: DataTree) -> str:
    """Return "cells" if the posterior has estimates of each record, otherwise "records"."""
    return "cells" if "record_estimates" in posterior.children else "records"


def naive_draws(
    posterior: DataTree, model: Model | None = None, release: Release | None = None
) -> dict[str, np.ndarray]:
    """Return draws of the naive analysis, seeded with the posterior's seed.

    Raises ValueError if the model or the release is not known, or the pair has no naive analysis.
    """
    need_posterior(posterior)
    seed = int(posterior.attrs.get("random_seed", "0")) % 2**32
    model, release = model_of(posterior, model), release_of(posterior, release)
    return with_derived(model, baselines.naive(model, release, draws=1000, random_seed=seed))


def naive_note(
    posterior: DataTree, model: Model | None = None, release: Release | None = None
) -> str:
    """Return one sentence on how the naive draws are made."""
    return baselines.naive_note(model_of(posterior, model), release_of(posterior, release))


class Wishes(NamedTuple):
    """Settings for the report of a posterior; None where not set.

    `command` is the command that made the posterior.
    """

    title: str | None = None
    question: str | None = None
    parameters: Sequence[str] | None = None
    command: str | None = None
    units: Mapping[str, str] | None = None
    scales: Mapping[str, float] | None = None


def remember(posterior: DataTree, wishes: Wishes) -> None:
    """Store the settings in the posterior, and so in its file."""
    for name, value in wishes._asdict().items():
        if value:
            posterior.attrs[_KEYS[name]] = value if isinstance(value, str) else json.dumps(value)


def wishes_of(posterior: DataTree) -> Wishes:
    """Return the stored settings."""
    found = {name: posterior.attrs.get(key) for name, key in _KEYS.items()}
    for name in ("parameters", "units", "scales"):
        if text := found[name]:
            found[name] = json.loads(text)
    return Wishes(**found)


_KEYS: dict[str, Any] = {
    "title": "report_title",
    "question": "report_question",
    "parameters": "report_parameters",
    "command": "command",
    **KEYS,
}
"""The attribute of the posterior that holds each setting."""
