"""`noiseaware reproduce`: the paper's experiments, run again."""

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
            help="Releases for each epsilon in each study; 100 as in the paper, 2 with --quick.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A faithful small version, in about a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The directory for figures, tables and the page.")
    ] = Path("reproduced"),
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Worker processes; all cores if not given.")
    ] = None,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Only to see that it runs: the numbers mean nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run the experiments of the paper again, next to its published numbers.

    Ju, Awan, Gong and Rao (2022): posterior means, acceptance and coverage for the naive Bayes
    model and the linear regression, with the paper's Algorithm 1 and with the default sampler;
    the limits of epsilon, the run-time against n, and the imputed databases. Figures (PNG, SVG),
    tables (CSV) and one page (HTML) go to a directory. A run that was stopped continues when it
    is started again with the same directory.

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
