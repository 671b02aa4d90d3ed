"""From the JSON form of a query back to the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noiseaware.queries.by_group import ByGroup, InGroup
from noiseaware.queries.class_feature_counts import ClassFeatureCounts
from noiseaware.queries.count import Count
from noiseaware.queries.histogram import Histogram
from noiseaware.queries.margins import Margins
from noiseaware.queries.moments import Moments
from noiseaware.queries.protocol import QueryLike
from noiseaware.queries.regression_moments import RegressionMoments
from noiseaware.queries.shares import Shares
from noiseaware.queries.sum import Sum

BUILT_IN: dict[str, type[QueryLike]] = {
    query.__name__: query
    for query in (
        RegressionMoments,
        Moments,
        ClassFeatureCounts,
        Count,
        Sum,
        Shares,
        Histogram,
        ByGroup,
        InGroup,
        Margins,
    )
}


def from_dict(description: Mapping[str, Any]) -> QueryLike:
    """Return the query that `to_dict` described.

    Parameters
    ----------
    description
        The type of the query and the arguments of its constructor, as in
        `{"type": "Sum", "lower": 0.0, "upper": 5.0}`.

    Raises
    ------
    ValueError
        If it does not describe a query that noiseaware knows.
    """
    if not isinstance(description, Mapping) or "type" not in description:
        raise ValueError(
            f'a query must be described by a "type" and arguments; got {description!r}'
        )
    arguments = dict(description)
    kind = arguments.pop("type")
    if not isinstance(kind, str) or kind not in BUILT_IN:
        raise ValueError(f"the type of a query must be one of {', '.join(BUILT_IN)}; got {kind!r}")
    try:
        return BUILT_IN[kind](**arguments)
    except TypeError as error:
        raise ValueError(f"the arguments of query {kind} are not right: {error}") from error
