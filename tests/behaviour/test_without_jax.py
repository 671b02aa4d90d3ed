"""Without the extras everything else works, and what needs one says what to install."""

import importlib
import subprocess
import sys

import pytest

import noiseaware as na
from exact.test_kernels import Rate

RELEASE = na.Release(
    [9.0], na.mechanisms.Laplace(na.queries.Sum(0.0, 5.0), epsilon=1.0), n_records=10
)


@pytest.fixture
def without(monkeypatch):
    """Return a function after which a library cannot be imported."""
    return lambda library: monkeypatch.setitem(sys.modules, library, None)


def test_blackjax_says_what_to_install(without):
    without("jax")
    without("blackjax")
    moves = (na.moves.ParameterUpdate(na.kernels.BlackJax()), na.moves.RecordSweep())
    with pytest.raises(ImportError, match=r"this needs jax, .* pip install 'noiseaware\[jax\]'"):
        na.sample(Rate(), RELEASE, moves=moves, progressbar=False)


def test_the_bridge_says_what_to_install(without):
    without("jax")
    without("numpyro")
    with pytest.raises(ImportError, match=r"this needs jax, .* pip install 'noiseaware\[jax\]'"):
        na.interop.numpyro.model(lambda n, x=None: None)


def test_the_package_imports_none_of_it():
    code = (
        "import sys, noiseaware, noiseaware.interop.numpyro, noiseaware.kernels.blackjax\n"
        "sys.exit(any(x in sys.modules for x in ('jax', 'numpyro', 'blackjax')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_estimators_say_what_to_install(without, monkeypatch):
    without("sklearn")
    without("sklearn.base")
    monkeypatch.delitem(sys.modules, "noiseaware.estimators", raising=False)
    with pytest.raises(ImportError, match=r"needs scikit-learn: pip install .*\[estimators\]"):
        importlib.import_module("noiseaware.estimators")
