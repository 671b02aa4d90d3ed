"""`noiseaware export`: write the draws for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseaware.cli import show
from noiseaware.cli.errors import reading
from noiseaware.cli.files import check_ending, check_output, write_or_say


def export(
    posterior: show.Posterior,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="A .csv or .parquet file; with --posteriordb, a folder."),
    ],
    posteriordb: Annotated[
        str | None,
        typer.Option(help="Write a posterior of this name into a database in posteriordb format."),
    ] = None,
) -> None:
    """Write the draws for other programs, as a table or as a posterior database.

    A table has a row per draw and a column per scalar. A posterior database holds the release, the
    model and the draws in posteriordb's layout.

    **Examples**

    - `noiseaware export posterior.nc --out draws.csv`

    - `noiseaware export posterior.nc --out database --posteriordb smoking`
    """
    import noiseaware as na

    with reading(ValueError, ImportError):
        if posteriordb is not None:
            made = na.to_posteriordb(na.load(posterior), out, posteriordb)
            print(f"Written: {made}, and what it names")
            return
        check_output("--out", out, posterior)
        tree = na.load(posterior)
        check_ending("--out", out, (".csv", ".parquet"))
        write_or_say(out, lambda path: na.write_draws(tree, path))
    sizes = tree["posterior"].sizes
    print(f"Written: {out}, {sizes['chain']} chains of {sizes['draw']:,} draws")
