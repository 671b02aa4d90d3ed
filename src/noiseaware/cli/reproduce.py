"""`noiseaware reproduce`: rerun the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseaware.cli.errors import reading
from noiseaware.cli.show import Quiet


def reproduce(
    replicates: Annotated[
        int | None,
        typer.Option(
            "--replicates",
            "-r",
            min=1,
            help="Releases per epsilon in each study; default 100 as in the paper, 2 with --quick.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A faithful small version, in about a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The directory for figures, tables and the page.")
    ] = Path("reproduced"),
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Worker processes; by default, all cores.")
    ] = None,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Only test that it runs: the numbers mean nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Rerun the paper's experiments and compare them with its published numbers.

    Ju, Awan, Gong and Rao (2022): posterior means, acceptance and coverage for the naive Bayes
    model and the linear regression, with the paper's Algorithm 1 and with the default sampler;
    the limits of epsilon, the run-time against n, and the imputed databases. Writes figures (PNG,
    SVG), tables (CSV) and one page (HTML) to a directory. A stopped run continues when started
    again with the same directory.

    **Examples**

    - `noiseaware reproduce --quick`

    - `noiseaware reproduce --out reproduced`
    """
    from noiseaware.studies import CheckpointError
    from noiseaware_paper import reproduce as run

    size = "smallest" if smallest else "quick" if quick else "full"
    try:
        with reading(CheckpointError):
            page = run(out, replicates=replicates, size=size, cores=cores, progressbar=not quiet)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; what is done is in {out}, and the same command continues from there"
        ) from None
    print(f"Written: {page}")
