"""Short examples of what can be written into a file, for the lists of models and mechanisms."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from noiseaware.registry import MECHANISMS, QUERIES

_CANDIDATES: tuple[Any, ...] = (2, 2.0, [3, 2], [0.5, 0.5], 0.0, 1.0, {"type": "Normal"})
"""Values tried, in order, for arguments that have no default."""


def model_example(name: str) -> str:
    """Return a whole model file; the optional arguments stand in comments."""
    from noiseaware import models
    from noiseaware.cli.describe import fields
    from noiseaware.registry import MODELS

    listed = fields(MODELS[name])
    required = _first_that_works(models.from_dict, name, MODELS[name])
    if required is None:
        return ""
    lines = [f'type = "{name}"']
    tables: list[str] = []
    for field in listed:
        if field.required and isinstance(required[field.name], dict):
            tables += ["", f"[{field.name}]"]
            tables += [f"{key} = {_toml(value)}" for key, value in required[field.name].items()]
        elif field.required:
            lines.append(f"{field.name} = {_toml(required[field.name])}")
        elif field.default is None:
            lines.append(f"# {field.name} = ...")
        else:
            lines.append(f"# {field.name} = {_toml(field.default)}")
    lines += [*tables, "", "[report]", 'question = "What do you want to know?"']
    return "\n".join(lines)


def _first_that_works(
    read: Callable[[dict[str, Any]], Any], name: str, kind: type
) -> dict[str, Any] | None:
    """Return values for the arguments without a default that make an object, or None."""
    from noiseaware.cli.describe import fields

    required = [field.name for field in fields(kind) if field.required]
    for values in itertools.product(_CANDIDATES, repeat=len(required)):
        arguments = dict(zip(required, values, strict=True))
        try:
            read({"type": name, **arguments})
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
            continue
        return arguments
    return None


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value)


def query_example(name: str) -> str:
    """Return the JSON of a query, "" if there is no example of it."""
    return _json(QUERIES[name])


def mechanism_example(name: str) -> str:
    """Return the JSON of a mechanism, "" if there is no example of it."""
    return _json(MECHANISMS[name])


def _json(kind: Any) -> str:
    return json.dumps(kind.example().to_dict(), indent=2)
