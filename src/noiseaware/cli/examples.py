"""`noiseaware examples`: copy example release and model files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from noiseaware.cli.errors import BadInput

COPIED = ("exercise_release.json", "exercise_model.toml", "releases", "models", "cells", "plan")
"""Files to copy. An installed package holds them in its own folder, a clone at its root."""

_PACKAGE = Path(__file__).parents[1]


def examples(
    folder: Annotated[Path, typer.Argument(help="The folder to create; it must not exist yet.")],
) -> None:
    """Copy the example files into a folder: a release and a model file for every model.

    **Example**

    - `noiseaware examples first-steps`
    """
    source = next(at for at in (_PACKAGE, _PACKAGE.parents[1]) if (at / "examples").is_dir())
    if folder.exists():
        raise BadInput(f"{folder} already exists; choose another name")
    folder.mkdir(parents=True)
    for name in COPIED:
        copied = source / "examples" / name
        (shutil.copytree if copied.is_dir() else shutil.copy)(copied, folder / name)
    print(
        f"Written: {folder}. It has a survey, a release and a model file for each model (in "
        "releases and models),\nand questions for `noiseaware plan` (in plan). To begin:\n\n"
        f"  cd {folder}\n"
        "  noiseaware fit exercise_release.json --model exercise_model.toml --out posterior.nc "
        "--report report.html"
    )
