"""Short examples of what can be written into a file, for the lists of models and mechanisms."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable
from typing import Any

_CANDIDATES: tuple[Any, ...] = (2, 2.0, [3, 2], [0.5, 0.5], 0.0, 1.0, {"type": "Normal"})
"""Values tried, in order, for arguments that have no default."""


def model_example(name: str) -> str:
    """Return a whole model file; the optional arguments stand in comments."""
    from noiseaware import models
    from noiseaware.registry import MODELS

    required = _first_that_works(models.from_dict, name, MODELS[name])
    if required is None:
        return ""
    lines = [f'type = "{name}"']
    tables: list[str] = []
    for argument in inspect.signature(MODELS[name]).parameters.values():
        key, default = argument.name, argument.default
        if key not in required:
            lines.append(f"# {key} = {'...' if default is None else _toml(default)}")
        elif isinstance(required[key], dict):
            tables += ["", f"[{key}]"]
            tables += [f"{k} = {_toml(value)}" for k, value in required[key].items()]
        else:
            lines.append(f"{key} = {_toml(required[key])}")
    lines += [*tables, "", "[report]", 'question = "What do you want to know?"']
    return "\n".join(lines)


def _first_that_works(
    read: Callable[[dict[str, Any]], Any], name: str, kind: type
) -> dict[str, Any] | None:
    """Return values for the arguments without a default that make an object, or None."""
    from noiseaware.cli.describe import fields

    required = [field["name"] for field in fields(kind) if field["required"]]
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
