"""`noiseaware mechanisms`: the mechanisms that a release file can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from noiseaware.cli.lists import AsJson, completion, print_all, print_one


def _mechanisms() -> Mapping[str, type]:
    from noiseaware.registry import MECHANISMS

    return {name: MECHANISMS[name] for name in MECHANISMS.names}


def mechanisms(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, in detail.", autocompletion=completion(_mechanisms)),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the mechanisms that a release file can name; or show one, with an example.

    The fields are those of the Python constructor, where the noise is set by its scale or by a
    promise. A release file states the scale: the example shows what it has.

    **Examples**

    - `noiseaware mechanisms`

    - `noiseaware mechanisms Laplace`
    """
    from noiseaware.cli.examples import mechanism_example

    if name is None:
        print_all(_mechanisms(), "mechanisms", as_json)
    else:
        title = 'The field "mechanism" of a release file (JSON)'
        print_one(_mechanisms(), name, "mechanism", title, mechanism_example, as_json)
