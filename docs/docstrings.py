"""The docstrings of the package as reStructuredText, for the API reference.

Docstrings are written to be read in the source: Markdown tables and lists, formulas that are only
indented, |x| for a norm, `name` for code. Sphinx reads reStructuredText, in which most of that
means something else. So every docstring is translated before Sphinx (and its napoleon, which reads
the sections of NumPy docstrings) gets it:

- indented formulas become literal blocks, Markdown tables become tables;
- headings of their own ("The model") become rubrics, references become lists;
- `name` becomes a link where the name is in the reference, and code otherwise;
- what would be markup by accident (``|``, ``*``, a final ``_``) is escaped.

The directive ``files`` shows the docstrings of all files of a subpackage: the derivations.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

FIELDS = {"Parameters", "Other Parameters", "Returns", "Yields", "Raises", "Attributes", "Warns"}
PROSE = {"Notes", "Examples", "Example", "See Also"}

_CODE = re.compile(r"``.+?``|`[^`]+`", re.S)
_NAME = re.compile(r"[A-Za-z][\w.]*\Z")
_BULLET = re.compile(r"( *)([*-]|\d+\.) +(?=\S)")


def escape(text: str) -> str:
    """Return plain text with everything that would be markup by accident escaped."""
    text = re.sub(r"([\\|*])", r"\\\1", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def inline(text: str) -> str:
    """Translate one paragraph: code in backquotes, plain text around it."""
    out, end = [], 0
    for match in _CODE.finditer(text):
        out.append(escape(text[end : match.start()]))
        code = match[0].strip("`")
        before = text[match.start() - 1 : match.start()]
        after = text[match.end() : match.end() + 1]
        out.append("\\ " if before.isalnum() else "")
        out.append(f":py:obj:`{code}`" if _NAME.match(code) else f"``{code}``")
        out.append("\\ " if after.isalnum() else "")
        end = match.end()
    return "".join([*out, escape(text[end:])])


def table(rows: list[str], indent: str) -> Iterator[str]:
    """Translate a Markdown table."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", r.strip()[1:-1])] for r in rows]
    yield f"{indent}.. list-table::"
    yield f"{indent}   :header-rows: 1"
    yield ""
    for row in [cells[0], *cells[2:]]:
        for k, cell in enumerate(row):
            text = inline(cell.replace("\\|", "|"))
            yield f"{indent}   {'* -' if k == 0 else '  -'} {text}"
    yield ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def translate(lines: list[str]) -> list[str]:
    """Translate a docstring line by line; the sections of NumPy docstrings are left to napoleon."""
    out: list[str] = []
    section, base, i = "", 0, 0
    while i < len(lines):
        line = lines[i]
        after_blank = i == 0 or bool(re.fullmatch(r" *|-{3,}", lines[i - 1]))
        if not line.strip():
            out.append("")
            i += 1
        elif i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1]):
            section, base = line.strip(), 4 if line.strip() in FIELDS else 0
            if section in FIELDS | PROSE:
                out += [line, lines[i + 1]]
            else:
                out += ["", f".. rubric:: {section}", ""]
            i += 2
        elif section in FIELDS and _indent(line) == 0:
            out.append(line)
            base = 4
            i += 1
        elif line.lstrip().startswith(">>>"):
            while i < len(lines) and lines[i].strip():
                out.append(lines[i])
                i += 1
        elif line.lstrip().startswith("|") and line.rstrip().endswith("|") and after_blank:
            last = i
            while last < len(lines) and lines[last].lstrip().startswith("|"):
                last += 1
            out += ["", *table(lines[i:last], " " * _indent(line))]
            i = last
        elif section in {"Reference", "References"}:
            last = i + 1
            while last < len(lines) and lines[last].startswith(" "):
                last += 1
            entry = " ".join(part.strip() for part in lines[i:last])
            out.append(f"- {inline(entry)}")
            i = last
        elif after_blank and _indent(line) > base and not _BULLET.match(line):
            last = i
            while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > base):
                last += 1
            while not lines[last - 1].strip():
                last -= 1
            # No highlighting: formulas are not Python.
            out += [f"{' ' * base}.. code-block:: text", ""]
            out += ["   " + formula if formula.strip() else "" for formula in lines[i:last]]
            out.append("")
            i = last
        else:
            bullet = _BULLET.match(line)
            if bullet:
                base = bullet.end()
                if not after_blank and not _BULLET.match(lines[i - 1]):
                    previous = lines[i - 1]
                    if _indent(previous) < base:
                        out.append("")
            elif after_blank:
                base = min(base, _indent(line))
            last = i + 1
            while last < len(lines) and lines[last].strip() and not _starts(lines, last, section):
                last += 1
            text = "\n".join(lines[i:last])
            head = bullet[0] if bullet else ""
            out += (head + inline(text[len(head) :])).split("\n")
            i = last
    # Two empty lines would end a section for napoleon.
    return [line for k, line in enumerate(out) if line.strip() or (k and out[k - 1].strip())]


def _starts(lines: list[str], i: int, section: str) -> bool:
    """Return whether line i cannot go on the paragraph before it."""
    line = lines[i]
    heading = i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1])
    field = section in FIELDS and _indent(line) == 0
    return bool(heading or field or _BULLET.match(line) or line.lstrip().startswith(">>>"))


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Translate what autodoc has read."""
    if what != "module" and getattr(obj, "__module__", "noiseaware").partition(".")[0] not in {
        "noiseaware",
        "builtins",
    }:
        return
    lines[:] = translate(lines)


class Files(SphinxDirective):
    """Show the docstring of every file of a subpackage that has something to teach."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write one heading and one docstring per file."""
        package = importlib.import_module(self.arguments[0])
        text = StringList()
        for found in pkgutil.iter_modules(package.__path__):
            name = f"{package.__name__}.{found.name}"
            if found.ispkg or len((importlib.import_module(name).__doc__ or "").split("\n")) < 6:
                continue
            for line in [name, "-" * len(name), "", f".. automodule:: {name}", ""]:
                text.append(line, package.__file__ or "")
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(self.state, text, node)
        return node.children


def setup(app: Any) -> dict[str, bool]:
    """Register both with Sphinx; before napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.add_directive("files", Files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
