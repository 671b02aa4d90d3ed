"""Describe a class from its code and docstring: the summary sentence and the arguments."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any


def described(kind: type) -> dict[str, Any]:
    """Return a class's name, summary sentence and fields, as plain types for JSON."""
    first = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return {"type": kind.__name__, "meaning": first, "fields": fields(kind)}


def section(kind: type, title: str) -> str:
    """Return a section of a NumPy docstring without its heading, or ""."""
    text = inspect.getdoc(kind) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.M | re.S)
    return found.group(1).strip("\n") if found else ""


def fields(kind: type) -> list[dict[str, Any]]:
    """Return the constructor's arguments in order."""
    meanings = _meanings(section(kind, "Parameters"))
    found = []
    for name, argument in inspect.signature(kind).parameters.items():
        type_, meaning = meanings.get(name, ("", ""))
        required = argument.default is inspect.Parameter.empty
        field = {"name": name, "type": type_ or _annotation(argument), "required": required}
        if not required:
            field["default"] = _plain(argument.default)
        found.append({**field, "meaning": meaning})
    return found


def _plain(default: Any) -> Any:
    """Return a value that JSON can hold; anything else becomes text, such as "inf"."""
    if isinstance(default, float) and not math.isfinite(default):
        return str(default)
    return default if isinstance(default, str | int | float | None) else repr(default)


def _meanings(text: str) -> dict[str, tuple[str, str]]:
    """Return {name: (type, meaning)} from the lines of a Parameters section."""
    found = {}
    for entry in re.split(r"\n(?=\S)", text):
        head, _, body = entry.partition("\n")
        names, _, type_ = head.partition(" : ")
        meaning = " ".join(body.split()).replace("``", "")
        type_ = type_.removesuffix(", optional").replace("array_like", "array").strip()
        for name in names.split(","):
            found[name.strip()] = (type_, meaning)
    return found


def _annotation(argument: inspect.Parameter) -> str:
    """Return words for an annotation when the docstring names no type."""
    if argument.annotation is inspect.Parameter.empty:
        return ""
    text = str(argument.annotation).removesuffix(" | None")
    words = {
        "Any": "",
        "ArrayLike": "array",
        "Query": "query",
        "Neighbours": "text",
        "str": "text",
        "LaplaceNoise": "mechanism",
        "Iterable[Any]": "list",
        "Sequence[str]": "list of text",
    }
    return words.get(text, text)
