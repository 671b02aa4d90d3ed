"""Copies of `noiseaware.models` and its densities with a bug planted, for tests that must catch it.

The copy runs as plain Python (its kernels are not compiled), so a mutant costs no compilation. With
no bug planted it is the same program as the package, which makes it a control.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType

import noiseaware.models

_NUMBER = itertools.count()
_FOLDER = Path(noiseaware.models.__file__).parent
_PLAIN = """
from noiseaware.registry import Registry

MODELS = Registry("model")

def njit(**options):
    return lambda function: function
"""
# Who imports them from where in the package, and from where in a copy, which registers its classes
# with itself. A copy imports from `.`, so that its code does not depend on its name.
_IMPORTS = (
    ("from numba import njit", "from .plain import njit"),
    ("from noiseaware.registry import MODELS", "from .plain import MODELS"),
    ("from noiseaware.maths.densities import", "from .densities import"),
    ("from noiseaware.models import", "from . import"),
    ("from noiseaware.models.", "from ."),
)


@functools.cache
def _text(file: str) -> str:
    """Return the source of a file of the copy."""
    if file == "plain.py":
        return _PLAIN
    home = _FOLDER.parent / "maths" if file == "densities.py" else _FOLDER
    return (home / file).read_text(encoding="utf-8")


@functools.cache
def _code(file: str, text: str) -> CodeType:
    """Compile a file, once for all copies in which it reads the same."""
    for old, new in _IMPORTS:
        text = text.replace(old, new)
    return compile(text, f"<copy of {file}>", "exec")


class _Copy(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules of one copy."""

    def __init__(self, name: str, file: str, text: str) -> None:
        self.name, self.file, self.text = name, file, text

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != self.name:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name == self.name)

    def exec_module(self, module: ModuleType) -> None:
        file = module.__name__.partition(".")[2] or "__init__"
        file = f"{file}.py"
        exec(_code(file, self.text if file == self.file else _text(file)), vars(module))


@contextmanager
def mutated_models(file: str = "", old: str = "", new: str = "") -> Iterator[ModuleType]:
    """Yield a copy of `noiseaware.models` in which ``old`` reads ``new`` in one file."""
    text = _text(file) if file else ""
    if file:
        assert text.count(old) == 1, f"{file} must hold {old!r} once; {text.count(old)} found"
    name = f"mutated_models_{next(_NUMBER)}"
    finder = _Copy(name, file, text.replace(old, new) if file else "")
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)
        for loaded in [key for key in sys.modules if key.split(".")[0] == name]:
            del sys.modules[loaded]
