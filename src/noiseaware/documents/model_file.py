"""A model in a TOML file: its type, its arguments, and settings for the report.

    type = "LinearRegression"
    n_features = 1
    coefficient_sd = 1.0

    [report]
    title = "Exercise and the resting pulse"
    question = "Does exercise lower the resting pulse?"
    parameters = ["coefficients"]

`type` is a model of `noiseaware.models`; the other keys are arguments of its constructor. A vector
is an array, a matrix an array of arrays, a nested model a table with its own `type`. All of
`[report]` is optional; `parameters` are those that the report shows first. The unit of a parameter
or of one of its entries stands beside its numbers in tables, pictures and the report; numbers are
divided by the scale, if any, before they are shown:

    [report.units]
    "coefficients[x1]" = "beats a minute, for an hour"

    [report.scales]
    "coefficients[x1]" = 0.1

Derived quantities, reported beside the parameters, are formulas of numbers, parameters and their
entries, with + - * / ** and a few functions (`noiseaware.maths.quantities`):

    [derived]
    odds_ratio = "exp(coefficients[1])"

If the release does not state the number of records (`"n_records": null`), the table `[size]` is its
prior, one of `noiseaware.sizes`:

    [size]
    type = "Uniform"
    lower = 1
    upper = 1000
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from noiseaware import models
from noiseaware.basics.text_files import kind_of, read_text
from noiseaware.contract import Model, Size, model_abilities
from noiseaware.registry import MODELS, nearest, wrong_arguments
from noiseaware.results.units import check_units
from noiseaware.sizes import from_dict as read_size

__all__ = ["ModelFile", "read_content", "read_model_file"]

TABLES = ("report", "size", "derived")
REPORT_KEYS = ("title", "question", "parameters", "units", "scales")
Content = TypeVar("Content")


@dataclass(frozen=True)
class ModelFile:
    """The content of a model file."""

    model: Model
    size: Size | None = None
    title: str | None = None
    question: str | None = None
    parameters: tuple[str, ...] | None = None
    units: dict[str, str] | None = None
    scales: dict[str, float] | None = None


def read_model_file(path: str | Path) -> ModelFile:
    """Read a model from a TOML file in the format described above.

    Raises ValueError with one line: the file, the key, what is wrong and what was expected.
    """
    return read_toml(path, read_content)


def read_toml(path: str | Path, read: Callable[[dict[str, Any]], Content]) -> Content:
    """Return `read(content)` of a TOML file; its errors are raised with the file's name."""
    try:
        content = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise ValueError(f"{path} is not TOML{kind_of(path) or f': {error}'}") from None
    try:
        return read(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def read_content(content: dict[str, Any]) -> ModelFile:
    """Return the model file that parsed TOML describes."""
    report, size = content.pop("report", {}), content.pop("size", None)
    derived = content.pop("derived", {})
    if "type" not in content:
        raise ValueError('type is missing: which model, for example type = "LinearRegression"')
    kind = MODELS.check(content["type"])
    for said in wrong_arguments(MODELS[kind], content, ("type", *TABLES)):
        raise ValueError(f"{said}; see `noiseaware models {kind}`" if "missing" in said else said)
    model = models.from_dict(content)
    if derived:
        model = models.derived(model, derived)
    shown = {parameter.name: parameter.labels for parameter in model_abilities(model).shown}
    prior = None if size is None else read_size(size)
    return ModelFile(model, prior, **_read_report(report, shown))


def _read_report(report: Any, names: dict[str, list[str]]) -> dict[str, Any]:
    if not isinstance(report, dict):
        raise ValueError(f"report must be a table with {', '.join(REPORT_KEYS)}; got {report!r}")
    for key, value in report.items():
        if key not in REPORT_KEYS:
            raise ValueError(f"unknown key {key!r} in [report]{nearest(key, REPORT_KEYS)}")
        if key not in ("parameters", "units", "scales") and not isinstance(value, str):
            raise ValueError(f"{key} in [report] must be text; got {value!r}")
    known = [*names, *(label for labels in names.values() for label in labels)]
    check_units(report.get("units", {}), report.get("scales", {}), known, " in [report]")
    chosen = report.get("parameters")
    if chosen is None:
        return report
    if not isinstance(chosen, list) or not chosen or not all(isinstance(c, str) for c in chosen):
        raise ValueError(f"parameters in [report] must be a list of names; got {chosen!r}")
    for name in chosen:
        if name not in names:
            near = nearest(name, names)
            raise ValueError(f"unknown name {name!r} in parameters of [report]{near}")
    return {**report, "parameters": tuple(chosen)}
