"""`noiseaware models`: the models that a model file can name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from noiseaware.cli.lists import AsJson, completion, print_all, print_one


def _models() -> Mapping[str, type]:
    from noiseaware.registry import MODELS

    return {name: MODELS[name] for name in MODELS.names}


def models(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, in detail.", autocompletion=completion(_models)),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models that a model file can name; or show one, with an example file.

    **Examples**

    - `noiseaware models`

    - `noiseaware models LinearRegression`

    - `noiseaware models Normal --json`
    """
    from noiseaware.cli.examples import model_example

    if name is None:
        print_all(_models(), "models", as_json)
    else:
        print_one(_models(), name, "model", "A model file (TOML)", model_example, as_json)
