"""Short examples of what can be written into a file, for the lists of models and mechanisms."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable
from typing import Any

_CANDIDATES: tuple[Any, ...] = (2, 2.0, [3, 2], [0.5, 0.5], 0.0, 1.0, {"type": "Normal"})
"""Values tried, in order, for arguments that have no default."""


def model_example(name: str) -> str:
    """Return a whole model file; the optional arguments stand in comments."""
    from noiseaware import models
    from noiseaware.registry import MODELS

    required = _first_that_works(models.from_dict, name, MODELS[name])
    if required is None:
        return ""
    lines = [f'type = "{name}"']
    tables: list[str] = []
    for argument in inspect.signature(MODELS[name]).parameters.values():
        key, default = argument.name, argument.default
        if key not in required:
            lines.append(f"# {key} = {'...' if default is None else _toml(default)}")
        elif isinstance(required[key], dict):
            tables += ["", f"[{key}]"]
            tables += [f"{k} = {_toml(value)}" for k, value in required[key].items()]
        else:
            lines.append(f"{key} = {_toml(required[key])}")
    lines += [*tables, "", "[report]", 'question = "What do you want to know?"']
    return "\n".join(lines)


def _first_that_works(
    read: Callable[[dict[str, Any]], Any], name: str, kind: type
) -> dict[str, Any] | None:
    """Return values for the arguments without a default that make an object, or None."""
    from noiseaware.cli.describe import fields

    required = [field["name"] for field in fields(kind) if field["required"]]
    for values in itertools.product(_CANDIDATES, repeat=len(required)):
        arguments = dict(zip(required, values, strict=True))
        try:
            read({"type": name, **arguments})
        except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
            continue
        return arguments
    return None


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value)


def query_example(name: str) -> str:
    """Return the JSON of a query, "" if there is no example of it."""
    return _json(_queries().get(name))


def mechanism_example(name: str) -> str:
    """Return the JSON of a mechanism, "" if there is no example of it."""
    return _json(_mechanisms().get(name))


def _json(thing: Any) -> str:
    return "" if thing is None else json.dumps(thing.to_dict(), indent=2)


def _queries() -> dict[str, Any]:
    from noiseaware import queries as q

    return {
        "Moments": q.Moments(n_columns=2, lower=[-6, -3], upper=[6, 3]),
        "RegressionMoments": q.RegressionMoments(n_features=1, lower=[-6, -3], upper=[6, 3]),
        "ClassFeatureCounts": q.ClassFeatureCounts(n_classes=2, n_levels=[2, 3]),
        "Count": q.Count(value=1),
        "Sum": q.Sum(lower=0.0, upper=5.0),
        "Shares": q.Shares(n_parts=3),
        "Histogram": q.Histogram(n_levels=3),
        "ByGroup": q.ByGroup(q.Count(value=1), n_groups=2),
        "InGroup": q.InGroup(q.Count(value=1), group=0),
        "Margins": q.Margins([2, 3], [[0], [1]]),
    }


def _mechanisms() -> dict[str, Any]:
    from noiseaware import mechanisms as m
    from noiseaware import queries as q

    count, clamped, levels = q.Count(value=1), q.Sum(lower=0.0, upper=5.0), q.Histogram(n_levels=3)
    whole = q.Sum(lower=0, upper=10, integer_valued=True)
    laplace = m.Laplace(count, epsilon=0.5)
    return {
        "Laplace": laplace,
        "Gaussian": m.Gaussian(clamped, rho=0.1),
        "DiscreteLaplace": m.DiscreteLaplace(count, epsilon=0.5),
        "DiscreteGaussian": m.DiscreteGaussian(levels, rho=0.1),
        "Clamped": m.Clamped(laplace, lower=0.0),
        "Thresholded": m.Thresholded(laplace, threshold=5.0),
        "Rounded": m.Rounded(laplace, step=5.0),
        "Truncated": m.Truncated(laplace, lower=0.0, upper=100.0),
        "Several": m.Several([laplace, m.Laplace(count, epsilon=0.25)], labels=["June", "July"]),
        "Folded": m.Folded(laplace, lower=0.0),
        "LocalLaplace": m.LocalLaplace(clamped, epsilon=2.0),
        "LocalGaussian": m.LocalGaussian(clamped, scale=2.0),
        "LocalGeometric": m.LocalGeometric(whole, epsilon=2.0),
        "RandomizedResponse": m.RandomizedResponse(n_levels=2, truth=0.75),
        "KNorm": m.KNorm(levels, norm=2, epsilon=0.5),
        "Exponential": m.Exponential(levels, epsilon=1.0),
        "KNormGradient": m.KNormGradient(m.MeanLoss(lower=0.0, upper=5.0), epsilon=1.0),
        "ObjectivePerturbation": m.ObjectivePerturbation(
            m.LogisticLoss(1, lower=-1.0, upper=1.0), ridge=1.0, epsilon=1.0
        ),
        "Functional": m.Functional("linear", 1, lower=-1.0, upper=1.0, epsilon=2.0),
    }
