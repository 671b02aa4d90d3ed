"""What the code of the pages prints and draws now: it is run when the site is built.

Two kinds of code are run, each page in a process and a folder of its own:

- the ``python`` blocks of the pages that `printed_pages` (in conf.py) names, in order. What a block
  prints, and the pyplot figures that it opens, are shown below it;
- the commands in a ``printed`` block, line by line, in a folder that has the files of `examples`.
  What they print, and the PNG files that they write, are shown below them.

What a page gave is kept among Sphinx's files until its code, the package or the examples change.
Code that fails is a warning, and warnings are errors.
"""

from __future__ import annotations

import base64
import contextlib
import fnmatch
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)
COMMANDS = re.compile(r"^```\{printed\}\n(.*?)^```", re.S | re.M)


def run_blocks(blocks: list[str]) -> Iterator[dict[str, Any]]:
    """Run blocks in one namespace; yield what each of them prints and draws."""
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block, f"<block {number}>", "exec"), names)
        pictures = []
        for figure in map(pyplot.figure, pyplot.get_fignums()):
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg")
            pictures.append(picture(drawn.getvalue(), "svg+xml"))
        pyplot.close("all")
        yield {"text": printed.getvalue(), "pictures": pictures}


def picture(content: bytes, kind: str) -> str:
    """Return an address that holds a picture itself."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def run_commands(lines: str, folder: Path) -> dict[str, Any]:
    """Run commands in a folder; return what they print and the PNG files that they leave."""
    programs = {"python": [], "noiseaware": ["-m", "noiseaware"]}
    text = ""
    for line in lines.splitlines():
        program, *words = shlex.split(line)
        text += call([sys.executable, *programs[program], *words], folder)
    left = sorted(folder.glob("*.png"))
    return {"text": text, "pictures": [picture(path.read_bytes(), "png") for path in left]}


def call(words: list[str], folder: Path, given: str = "") -> str:
    """Run a process, with this copy of the package; return what it printed."""
    places = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    places = {"PYTHONPATH": os.pathsep.join(filter(None, places)), "MPLBACKEND": "agg"}
    done = subprocess.run(
        words, input=given, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{shlex.join(words)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def run_page(code: dict[str, list[str]]) -> dict[str, list[dict[str, Any]]]:
    """Run the code of a page in a folder of its own that has the examples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (ROOT / "examples").iterdir():
            (folder / path.name).symlink_to(path)
        blocks = json.dumps(code["blocks"])
        return {
            "blocks": json.loads(call([sys.executable, __file__], folder, blocks)),
            "commands": [run_commands(lines, folder) for lines in code["commands"]],
        }


def stamp(code: dict[str, list[str]]) -> str:
    """Return a text that is another one when the code, the package or the examples are."""
    found = hashlib.sha256(json.dumps(code).encode())
    paths = [*(ROOT / "src" / "noiseaware").rglob("*.py"), *(ROOT / "examples").rglob("*.*")]
    for path in sorted([*paths, Path(__file__)]):
        if path.suffix != ".pyc" and path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def kept(app: Any, page: str) -> Path:
    """Return where the outputs of a page are kept."""
    return Path(app.doctreedir) / "printed" / f"{page.replace('/', '-')}.json"


def run_pages(app: Any, env: Any, *changes: Any) -> list[str]:
    """Run the pages whose outputs are missing or old; return them, to be read again."""
    from sphinx.util import logging

    ran = []
    for page in sorted(env.found_docs):
        text = Path(env.doc2path(page)).read_text(encoding="utf-8")
        named = any(fnmatch.fnmatch(page, pattern) for pattern in app.config.printed_pages)
        code = {"blocks": BLOCK.findall(text) if named else [], "commands": COMMANDS.findall(text)}
        if not any(code.values()):
            continue
        path, now = kept(app, page), stamp(code)
        if path.exists() and json.loads(path.read_text())["stamp"] == now:
            continue
        ran.append(page)
        path.unlink(missing_ok=True)
        try:
            found = run_page(code)
        except RuntimeError as problem:
            logging.getLogger(__name__).warning("%s", problem, location=page)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"stamp": now, **found}))
    return ran


def shown(output: dict[str, Any]) -> list[Any]:
    """Return the nodes that show what was printed and drawn."""
    from docutils import nodes

    box = nodes.container(classes=["printed"])
    if output["text"].strip():
        text = output["text"].rstrip()
        box += nodes.literal_block(text, text, language="none")
    for address in output["pictures"]:
        image = f'<img alt="The picture that the code above draws" src="{address}">'
        box += nodes.raw("", image, format="html")
    return [box] if box.children else []


def show(app: Any, document: Any) -> None:
    """Put below each block what it gave."""
    from docutils import nodes

    path = kept(app, app.env.current_document.docname)
    outputs = json.loads(path.read_text()) if path.exists() else {}
    languages = {"blocks": "python", "commands": "printed"}
    for kind, language in languages.items():
        found = [n for n in document.findall(nodes.literal_block) if n.get("language") == language]
        for node, output in zip(found, outputs.get(kind, []), strict=False):
            node.parent.insert(node.parent.index(node) + 1, shown(output))
        if kind == "commands":
            for node in found:
                node["language"] = "console"


def commands_directive() -> type:
    """Return the directive of commands: a block of code, below which `show` puts the outputs."""
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class Printed(SphinxDirective):
        has_content = True

        def run(self) -> list[nodes.Node]:
            text = "\n".join(self.content)
            return [nodes.literal_block(text, text, language="printed")]

    return Printed


def setup(app: Any) -> dict[str, bool]:
    """Register it with Sphinx."""
    app.add_config_value("printed_pages", [], "env")
    app.add_directive("printed", commands_directive())
    app.connect("env-get-outdated", run_pages)
    app.connect("doctree-read", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    outputs = list(run_blocks(json.load(sys.stdin)))
    json.dump(outputs, sys.stdout)
