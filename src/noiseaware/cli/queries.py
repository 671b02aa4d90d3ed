"""`noiseaware queries`: the queries that a release file can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from noiseaware.cli.lists import AsJson, completion, print_all, print_one


def _queries() -> Mapping[str, type]:
    from noiseaware.registry import QUERIES

    return {name: QUERIES[name] for name in QUERIES.names}


def queries(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, in detail.", autocompletion=completion(_queries)),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the queries that a release file can name; or show one, with an example.

    **Examples**

    - `noiseaware queries`

    - `noiseaware queries RegressionMoments`
    """
    from noiseaware.cli.examples import query_example

    if name is None:
        print_all(_queries(), "queries", as_json)
    else:
        title = 'The field "query" of a mechanism in a release file (JSON)'
        print_one(_queries(), name, "query", title, query_example, as_json)
