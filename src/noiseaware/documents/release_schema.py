"""The JSON Schema of the release file, generated from the classes that a file can name.

`python -m noiseaware.documents.release_schema` prints it; docs/release-file.schema.json holds the
output.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from noiseaware.mechanisms.ready import ReadyMechanism
from noiseaware.registry import LOSSES, MECHANISMS, QUERIES, Registry
from noiseaware.release import FORMAT, VERSION

__all__ = ["release_schema"]

_KNOWN: dict[str, Any] = {
    "query": {"$ref": "#/$defs/query"},
    "mechanism": {"$ref": "#/$defs/mechanism"},
    "mechanisms": {"type": "array", "items": {"$ref": "#/$defs/mechanism"}, "minItems": 1},
    "loss": {"anyOf": [{"$ref": "#/$defs/loss"}, {"type": "string"}]},
}
"""Fields with the same meaning in every object."""


def release_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12); only the reader checks what depends on the values."""
    value = {"type": ["number", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A differentially private release, version 1",
        "type": "object",
        "required": ["format", "version", "n_records", "mechanism", "values"],
        "additionalProperties": False,
        "properties": {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "n_records": {"type": ["integer", "null"], "minimum": 1},
            "mechanism": {"$ref": "#/$defs/mechanism"},
            "guarantee": {"type": "string"},
            "record_names": {"type": "array", "items": {"type": "string"}},
            "values": {
                "anyOf": [
                    {"type": "object", "additionalProperties": value},
                    {"type": "array", "items": value},
                    {"type": "array", "items": {"type": "array", "items": value}},
                ]
            },
        },
        "$defs": {
            "mechanism": _one_of(MECHANISMS),
            "query": _one_of(QUERIES),
            "loss": _one_of(LOSSES),
        },
    }


def _one_of(registry: Registry[Any]) -> dict[str, Any]:
    """Return the schema of an object whose `type` is in the registry."""
    cases = [
        {
            "if": {"properties": {"type": {"const": name}}},
            "then": {
                "required": needed,
                "properties": {field: _KNOWN[field] for field in needed if field in _KNOWN},
            },
        }
        for name in registry.names
        if (needed := _needed(registry[name]))
    ]
    properties = {
        "type": {"enum": list(registry.names)},
        "neighbours": {"enum": ["change", "add-remove"]},
    }
    return {"type": "object", "required": ["type"], "properties": properties, "allOf": cases}


def _needed(kind: type) -> list[str]:
    """Return the fields that a file must state for a class."""
    if issubclass(kind, ReadyMechanism):
        return list(kind.needed)
    arguments = inspect.signature(kind).parameters.values()
    return [a.name for a in arguments if a.default is inspect.Parameter.empty]


if __name__ == "__main__":
    print(json.dumps(release_schema(), indent=2))
