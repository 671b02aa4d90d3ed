"""`noiseaware resume`: go on with a fit that was stopped or killed, or make more draws of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from noiseaware.cli.errors import reading
from noiseaware.cli.files import check_output
from noiseaware.cli.fit import Wanted, finish
from noiseaware.cli.show import JsonInstead, Quiet


def resume(
    checkpoint: Annotated[
        Path, typer.Argument(help="The directory that `fit` was given as --checkpoint.")
    ],
    *,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each chain in all; as many as `fit` was to make.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write the posterior; where `fit` would."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", "-r", help="Where to write the report, likewise.")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="Worker processes; as many as help if not given.")
    ] = None,
    quiet: Quiet = False,
    as_json: JsonInstead = False,
) -> None:
    """Go on with a fit that was stopped or killed, or make more draws of one that was not.

    The draws are the same, bit for bit, as those of a run that was never stopped. The release, the
    model and the settings are in the checkpoint.

    **Examples**

    - `noiseaware resume run`

    - `noiseaware resume run --draws 4000` makes a finished run longer
    """
    import noiseaware as na
    from noiseaware.agreement.fit import check_fit
    from noiseaware.basics.arguments import whole_number
    from noiseaware.basics.files import CheckpointError
    from noiseaware.release import ImpossibleRelease
    from noiseaware.sampler.progress import Rows
    from noiseaware.sampling import stored_run

    with reading():
        for option, value in (("--draws", draws), ("--cores", cores)):
            if value is not None:
                whole_number(option, value)
        stored = stored_run(checkpoint)
        check_fit(stored["model"], stored["release"], stored["size"])
        if draws is not None:
            stored["draws"] = draws
        wanted = Wanted.read(checkpoint)
        if wanted is None:
            if out is None:
                raise ValueError(f"{checkpoint} was begun in Python: say where to write with --out")
            wanted = Wanted(str(out), None, 0.9, [])
        wanted = replace(wanted, out=str(out or wanted.out))
        if report is not None:
            wanted = replace(wanted, report=str(report))
        check_output("--out", Path(wanted.out))
        if wanted.report is not None:
            check_output("--report", Path(wanted.report))
    with reading(CheckpointError, ImpossibleRelease):
        posterior = na.sample(**stored, cores=cores, progressbar=False if quiet else Rows)
    finish(posterior, wanted, checkpoint, as_json)
