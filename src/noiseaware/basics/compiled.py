"""Drop compiled kernels that are older than their source code.

numba caches compiled functions next to the source and recompiles when the *file* of a function
changes, but not when a function inlined from another file does: after an upgrade, a loop could keep
using an old log density. So the package stores a digest of each of its files together with all that
the file imports from the package, and when that changes, the file's kernels are recompiled.

Reading all files takes most of the time. It is done only if a file was added, removed, or has
another size or modification time than when last read; numba relies on these two as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path

STAMP = "kernels.stamp"
_IMPORTS = re.compile(
    r"^\s*(?:from|import) noiseaware([\w.]*)(?: import ([^#\n(]+|\([^)]*\)))?", re.M
)

_NAMES = re.compile(r"(\w+)(?: as \w+)?")


def drop_stale_kernels(package: Path) -> list[str]:
    """Delete the cached kernels below `package` whose sources have changed; return their files.

    If the folder is not writable, do nothing.
    """
    stamp = package / "__pycache__" / STAMP
    with suppress(OSError):
        try:
            known = json.loads(stamp.read_text())
            seen, digests = known["seen"], known["digests"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            seen, digests = "", {}
        found = looks(package)
        if found == seen:
            return []
        now = _digests(package)
        stale = [name for name, digest in now.items() if digests.get(name) != digest]
        for name in stale:
            _delete_kernels(package / name)
        stamp.parent.mkdir(exist_ok=True)
        part = stamp.with_name(f"{STAMP}.{os.getpid()}")
        part.unlink(missing_ok=True)
        with part.open("x") as file:
            file.write(json.dumps({"seen": found, "digests": now}))
        os.replace(part, stamp)
        return stale
    return []


def _delete_kernels(source: Path) -> None:
    """Delete numba's indexes for the functions of a file, and nothing else; keep links."""
    folder = source.parent / "__pycache__"
    if folder.is_symlink():
        return
    index = re.compile(rf"{re.escape(source.stem)}\.[^/]+-\d+\.py\d+\w*\.nbi")
    for path in folder.glob("*.nbi"):
        if index.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def looks(package: Path) -> str:
    """Return a digest of the names, sizes and modification times of all files."""
    found = []
    for folder, _, names in os.walk(package):
        for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
            state = os.stat(path)
            found.append(f"{path} {state.st_mtime_ns} {state.st_size}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()


def _digests(package: Path) -> dict[str, str]:
    """Return a digest of each file together with all its imports from the package."""
    texts = {f.relative_to(package).as_posix(): f.read_text("utf-8") for f in package.rglob("*.py")}
    imports = {name: _imported(text, texts) for name, text in texts.items()}
    own = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    digests = {}
    for name in texts:
        reached, ahead = {name}, [name]
        while ahead:
            new = imports[ahead.pop()] - reached
            reached |= new
            ahead += new
        together = "".join(own[r] for r in sorted(reached))
        digests[name] = hashlib.sha256(together.encode()).hexdigest()
    return digests


def _imported(text: str, files: dict[str, str]) -> set[str]:
    found: set[str] = set()
    for module, names in _IMPORTS.findall(text):
        path = module.strip(".").replace(".", "/")
        parts = [_files_of(f"{path}/{name}".strip("/"), files) for name in _NAMES.findall(names)]
        found.update(*parts)
        # A name that is not a module is defined in the file or package that it is imported from.
        if not parts or not all(parts):
            found |= _files_of(path, files)
    return found


def _files_of(module: str, files: dict[str, str]) -> set[str]:
    return {f"{module}.py", f"{module}/__init__.py".lstrip("/")} & files.keys()
