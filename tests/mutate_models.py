"""Copies of `noiseaware.models` and its densities with a bug planted, for tests that must catch it.

The copy runs as plain Python (its kernels are not compiled), so a mutant costs no compilation. With
no bug planted it is the same program as the package, which makes it a control.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from contextlib import contextmanager
from pathlib import Path

import noiseaware.models

_NUMBER = itertools.count()
_PLAIN = """
from noiseaware.registry import Registry

MODELS = Registry("model")

def njit(**options):
    return lambda function: function
"""


@contextmanager
def mutated_models(directory: Path, file: str = "", old: str = "", new: str = ""):
    """Yield a copy of `noiseaware.models` in which ``old`` reads ``new`` in one file."""
    name = f"mutated_models_{next(_NUMBER)}"
    target = directory / name
    target.mkdir()
    folder = Path(noiseaware.models.__file__).parent
    for source in (*folder.glob("*.py"), folder.parent / "maths" / "densities.py"):
        text = source.read_text()
        if source.name == file:
            assert text.count(old) == 1, f"{file} must hold {old!r} once; {text.count(old)} found"
            text = text.replace(old, new)
        # A copy registers its classes with itself.
        for home, used in (("numba", "njit"), ("noiseaware.registry", "MODELS")):
            text = text.replace(f"from {home} import {used}", f"from {name}.plain import {used}")
        text = text.replace("noiseaware.maths.densities", f"{name}.densities")
        (target / source.name).write_text(text.replace("noiseaware.models", name))
    (target / "plain.py").write_text(_PLAIN)
    spec = importlib.util.spec_from_file_location(name, target / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        for loaded in [key for key in sys.modules if key.split(".")[0] == name]:
            del sys.modules[loaded]
