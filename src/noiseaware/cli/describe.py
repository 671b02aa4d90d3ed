"""What a class says of itself, in its code and docstring: a first sentence, its arguments."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """One argument of a constructor."""

    name: str
    type: str
    required: bool
    default: Any
    meaning: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON; what JSON cannot say is text."""
        default = self.default
        if isinstance(default, float) and not math.isfinite(default):
            default = str(default)  # "inf", which JSON has no number for
        elif not isinstance(default, str | int | float | bool | None):
            default = repr(default)
        said: dict[str, Any] = {"name": self.name, "type": self.type, "required": self.required}
        if not self.required:
            said["default"] = default
        return {**said, "meaning": self.meaning}


def first_sentence(kind: type) -> str:
    """Return the first paragraph of the docstring, in one line."""
    text = inspect.getdoc(kind) or ""
    return " ".join(text.split("\n\n")[0].split())


def section(kind: type, title: str) -> str:
    """Return a section of a NumPy docstring, without its heading; "" if there is none."""
    text = inspect.getdoc(kind) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.M | re.S)
    return found.group(1).strip("\n") if found else ""


def fields(kind: type) -> list[Field]:
    """Return the arguments of a class's constructor, in their order."""
    described = _described(section(kind, "Parameters"))
    found = []
    for name, argument in inspect.signature(kind).parameters.items():
        type_, meaning = described.get(name, ("", ""))
        required = argument.default is inspect.Parameter.empty
        found.append(
            Field(
                name,
                type_ or _annotation(argument),
                required,
                None if required else argument.default,
                meaning,
            )
        )
    return found


def _described(text: str) -> dict[str, tuple[str, str]]:
    """Return name to (type, meaning) from the lines of a Parameters section."""
    described = {}
    for entry in re.split(r"\n(?=\S)", text):
        head, _, body = entry.partition("\n")
        names, _, type_ = head.partition(" : ")
        meaning = " ".join(body.split()).replace("``", "")
        type_ = type_.removesuffix(", optional").replace("array_like", "array").strip()
        for name in names.split(","):
            described[name.strip()] = (type_, meaning)
    return described


def _annotation(argument: inspect.Parameter) -> str:
    """Return words for an annotation where the docstring names no type."""
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
