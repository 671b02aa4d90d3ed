"""Reading text files in whatever form editors write them, and recognising kinds of files."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

_OBEYED = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except tabs and line ends, direction marks, unpaired surrogates."""

_BINARY = {b"\x89HDF": "netCDF", b"CDF": "netCDF", b"PK": "a zip file", b"\x1f\x8b": "compressed"}


def read_text(path: str | Path) -> str:
    """Return a text file, with or without a byte order mark, and with any line endings.

    UnicodeError unless it is UTF-8, or UTF-16 with a byte order mark.
    """
    content = Path(path).read_bytes()
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if wide else "utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def kind_of(path: str | Path) -> str:
    """Return "; it is ..." for a kind of file that noiseaware knows, or ""."""
    start = Path(path).read_bytes()[:8]
    for mark, name in _BINARY.items():
        if start.startswith(mark):
            posterior = ", as a posterior is" if name == "netCDF" else ""
            return f"; it is {name}{posterior}"
    try:
        text = read_text(path).strip()
    except UnicodeError:
        return ""
    if text[:9].lower() in ("<!doctype", "<html>"):
        return "; it is HTML, as a report is"
    try:
        content = json.loads(text)
        return "; it is JSON, as a release file is" if isinstance(content, dict) else ""
    except (ValueError, RecursionError):
        pass
    try:
        return "; it is TOML, as a model file is" if tomllib.loads(text) else ""
    except (ValueError, RecursionError):
        return ""


def printable(text: str) -> str:
    """Return text without terminal control, such as escape sequences."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def for_a_page(text: str) -> str:
    """Return text without characters that XML forbids or that change the text direction."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text)
