"""The examples in the docstrings run and print what they say."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import noiseaware
from later import all_but

ROOT = Path(noiseaware.__file__).parent


def modules_with_examples():
    for module in pkgutil.walk_packages([str(ROOT)], "noiseaware."):
        parts = module.name.split(".")[1:]
        path = ROOT.joinpath(*parts)
        path = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if ">>> " in path.read_text(encoding="utf-8"):
            yield module.name


MODULES = list(modules_with_examples())


def test_there_are_examples():
    assert len(MODULES) > 40


# What takes seconds, and has tests of its own.
LONG = ("noiseaware.evidence", "noiseaware.results.predictive", "noiseaware.validation")


@pytest.mark.parametrize("name", all_but(LONG, MODULES))
def test_the_examples_of_a_module(name):
    try:
        module = importlib.import_module(name)
        if "import jax" in Path(module.__file__).read_text(encoding="utf-8"):
            importlib.import_module("jax")
    except ImportError as missing:
        pytest.skip(f"needs an extra: {missing}")
    failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert tried > 0
    assert failed == 0
