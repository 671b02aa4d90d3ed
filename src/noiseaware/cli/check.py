"""`noiseaware check`: report in words whether a posterior can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noiseaware.cli import show
from noiseaware.cli.errors import CHECKS_FAILED, fail, reading


def check(
    posterior: Annotated[
        Path,
        typer.Argument(help="A posterior that `fit` wrote (netCDF), or a release file (JSON)."),
    ],
    as_json: show.AsJson = False,
) -> None:
    """Report whether a posterior can be used, or a release file read. Nothing is fitted.

    Exit codes: 0 usable; 1 a check of the posterior failed; 3 the file is invalid.

    The checks ask whether the chains agree, whether there are enough effective draws, whether short
    runs from the prior found another mode, whether the model and the stated noise could have
    produced the release, and, under pure differential privacy, whether every acceptance
    probability was at least exp(-epsilon).

    **Examples**

    - `noiseaware check posterior.nc`

    - `noiseaware check posterior.nc --json`

    - `noiseaware check release.json`
    """
    import noiseaware as na

    if posterior.suffix == ".json":
        with reading():
            _show_release(na.Release.from_json(posterior), posterior, as_json)
        return
    with reading():
        tree = na.load(posterior)
    checks = na.check(tree)
    if as_json:
        show.print_json(show.checks_as_json(checks))
    else:
        show.print_checks(checks, show.console())
    if not checks:
        fail(show.failed_sentence(checks), CHECKS_FAILED)


def _show_release(release: Any, path: Path, as_json: bool) -> None:
    content = release.to_dict()
    if as_json:
        show.print_json(content)
        return
    numbers = "1 number" if len(release.values) == 1 else f"{len(release.values)} numbers"
    print(f"{path} can be read: {numbers} about {release.size_words}.")
    print(f"{release.mechanism!r}\n{content['guarantee']}")
