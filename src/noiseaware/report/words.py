"""Promises, queries and mechanisms in sentences, for the report."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from noiseaware.contract import mechanism_abilities, query_abilities
from noiseaware.mechanisms import Guarantee

__all__ = ["mechanism_words", "promise", "query_words"]


def promise(guarantee: Any) -> list[str]:
    """Return what a guarantee means for one person in the database, in sentences."""
    if not isinstance(guarantee, Guarantee):
        return ["The mechanism does not say what it promises."]
    kind = guarantee.kind
    if kind == "unknown":
        return [f"No promise can be stated: {guarantee.reason}."]
    if guarantee.neighbours == "change":
        pair = (
            "Compare the database with one in which a single record has any other content; the "
            "number of records is public and stays the same."
        )
    else:
        pair = "Compare the database with one that has a single record more or less."
    return [pair, _strength(guarantee, kind), *_also(guarantee, kind)]


def _strength(guarantee: Any, kind: str) -> str:
    if kind == "pure":
        factor = math.exp(guarantee.epsilon)
        return (
            f"Every possible release is at most {factor:.3g} times as likely under one as under "
            f"the other (e to the power of ε = {guarantee.epsilon:.4g}). Whoever sees the release "
            "can therefore learn only so much about any one record."
        )
    if kind == "approximate":
        factor = math.exp(guarantee.epsilon)
        return (
            f"Every set of releases is at most {factor:.3g} times as likely under one as under the "
            f"other (e to the power of ε = {guarantee.epsilon:.4g}), up to an extra probability "
            f"δ = {guarantee.delta:.3g}."
        )
    if kind == "GDP":
        return (
            "Telling the two apart from the release is at least as hard as telling, from one "
            "draw, a normal distribution with mean 0 from one with mean "
            f"μ = {guarantee.mu:.4g}, both with standard deviation 1."
        )
    return (
        "How far the release can tell the two apart is bounded on average over its noise: the "
        f"Rényi divergence of each order α is at most α times ρ = {guarantee.rho:.4g}."
    )


def _also(guarantee: Any, kind: str) -> list[str]:
    if kind in ("pure", "approximate"):
        return []
    epsilon = 1.0
    return [
        f"In the more common terms this is ε = {epsilon:g} with "
        f"δ = {guarantee.delta_at(epsilon):.2g}."
    ]


def query_words(query: Any) -> list[str]:
    """Return what was asked of the database, in sentences."""
    words = query_abilities(query).words
    if words is not None:
        return list(words())
    kind = type(query).__name__
    if hasattr(query, "queries"):
        labels = getattr(query, "labels", None) or range(1, len(query.queries) + 1)
        return [
            f"({label}) {' '.join(query_words(part))}"
            for label, part in zip(labels, query.queries, strict=True)
        ]
    if kind == "InGroup":
        return [f"Of the records of group {query.group} only.", *query_words(query.query)]
    if hasattr(query, "query"):
        return ["Of each group of records separately.", *query_words(query.query)]
    lower, upper = getattr(query, "lower", None), getattr(query, "upper", None)
    clamped = lower is not None and upper is not None
    known = {
        "Count": _count_words(query),
        "Sum": "The sum of the records.",
        "Histogram": "How many records fall in each cell.",
        "ClassFeatureCounts": ("How many records of each class have each level of each feature."),
        "RegressionMoments": (
            "The sums, squares and products of features and response that a linear regression "
            "needs, after each was scaled to lie between −1 and 1."
        ),
    }
    said = [known.get(kind) or first_line(query)]
    if kind == "Query":
        said = [f"The totals of {', '.join(query.names)}, by a function of the analyst's own."]
    if clamped:
        said.append(
            f"For this, every value was clamped: what is below {_bound(lower)} counts as that, "
            f"what is above {_bound(upper)} counts as that. This analysis takes the clamping into "
            "account."
        )
    return said


def _count_words(query: Any) -> str:
    if getattr(query, "predicate", None) is None and isinstance(
        getattr(query, "value", None), int | float
    ):
        return f"How many records have the value {query.value:g}."
    return f"How many records: {', '.join(getattr(query, 'names', ()))}."


def first_line(thing: Any) -> str:
    """Return what the class of an object says of itself in its first line."""
    text = inspect.getdoc(type(thing)) or f"{type(thing).__name__}."
    line = text.strip().splitlines()[0].replace("`", "")
    return line if line.endswith(".") else f"{line}."


def _bound(bound: Any) -> str:
    values = np.atleast_1d(np.asarray(bound, dtype=np.float64))
    shown = [f"{value:.4g}".replace("-", "−") for value in values.ravel()]
    if len(set(shown)) == 1:
        return shown[0]
    if len(shown) > 8:
        return f"its own bound ({shown[0]}, {shown[1]}, …)"
    return f"({', '.join(shown)}), column by column,"


def mechanism_words(mechanism: Any) -> list[str]:
    """Return how the numbers were made private, in sentences."""
    words = mechanism_abilities(mechanism).words
    if words is not None:
        return list(words())
    kind = type(mechanism).__name__
    inner = getattr(mechanism, "mechanism", None)
    if inner is not None:
        steps = {
            "Clamped": "clamped to a range",
            "Thresholded": "withheld where they were below a threshold",
            "Rounded": "rounded",
            "Truncated": "forced into a range by drawing the noise again",
            "Folded": "mirrored into a range",
        }
        step = steps.get(kind, f"changed by the step {kind}")
        return [
            *mechanism_words(inner),
            f"After the noise they were {step}: {_without_query(mechanism)}. This analysis takes "
            "that into account.",
        ]
    if kind == "Several":
        return [
            f"There are {len(mechanism.mechanisms)} releases about the same records.",
            *(
                f"({label}) {' '.join(mechanism_words(part))}"
                for label, part in zip(mechanism.labels, mechanism.mechanisms, strict=True)
            ),
        ]
    scale = getattr(mechanism, "scale", None)
    noise = {
        "Laplace": ("Laplace noise", math.sqrt(2.0)),
        "Gaussian": ("normal (Gaussian) noise", 1.0),
        "DiscreteLaplace": ("integer noise of the Laplace kind", None),
        "DiscreteGaussian": ("integer noise of the normal kind", None),
        "LocalLaplace": ("Laplace noise", math.sqrt(2.0)),
        "LocalGaussian": ("normal (Gaussian) noise", 1.0),
        "LocalGeometric": ("integer noise of the Laplace kind", None),
    }
    if kind not in noise or not isinstance(scale, int | float):
        return [f"{type(mechanism).__name__}: {first_line(mechanism)}"]
    name, ratio = noise[kind]
    spread = "" if ratio is None else f" (a standard deviation of {scale * ratio:.3g})"
    where = "every record, one by one" if kind.startswith("Local") else "each of these numbers"
    return [f"Random {name} with scale {scale:.4g}{spread} was added to {where}."]


def _without_query(step: Any) -> str:
    arguments = getattr(step, "arguments", ("lower", "upper"))
    values = {name: getattr(step, name, None) for name in arguments}
    shown = [
        f"{name} {_bound(value)}"
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    return f"{type(step).__name__}, {', '.join(shown)}" if shown else type(step).__name__
