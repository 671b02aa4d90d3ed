"""A method of a query, mechanism or move is described once: where it stands or is inherited."""

import importlib
import inspect
import pkgutil

import noiseaware


def undocumented(package):
    """Yield the public members of a package's classes that no class on their way up describes."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for name, made in inspect.getmembers(module, inspect.isclass):
            if made.__module__ == module.__name__:
                for member in vars(made):
                    thing = getattr(made, member)
                    described = not callable(thing) or inspect.getdoc(thing)
                    if not member.startswith("_") and not described:
                        yield f"{found.name}.{name}.{member}"


def test_every_method_is_described():
    packages = (noiseaware.mechanisms, noiseaware.queries, noiseaware.sampler.moves)
    assert [name for package in packages for name in undocumented(package)] == []


def test_what_is_not_described_is_seen(monkeypatch):
    monkeypatch.setattr(noiseaware.queries.Sum, "silent", lambda self: None, raising=False)
    monkeypatch.setattr(noiseaware.queries.Sum, "said", noiseaware.queries.Sum.words, raising=False)
    assert list(undocumented(noiseaware.queries)) == ["noiseaware.queries.sum.Sum.silent"]
