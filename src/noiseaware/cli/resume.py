"""`noiseaware resume`: continue a fit that was stopped or killed, or extend a finished one."""

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
        Path, typer.Argument(help="The directory given to `fit` as --checkpoint.")
    ],
    *,
    draws: Annotated[
        int | None, typer.Option(help="Total draws of each chain; by default, as for `fit`.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write the posterior; by default, as for `fit`."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", "-r", help="Where to write the report; by default, as for `fit`."),
    ] = None,
    cores: Annotated[
        int | None, typer.Option(help="Worker processes; by default, as many as are useful.")
    ] = None,
    quiet: Quiet = False,
    as_json: JsonInstead = False,
) -> None:
    """Continue a fit that was stopped or killed, or extend a finished one.

    The draws are identical, bit for bit, to those of an uninterrupted run. The checkpoint holds
    the release, the model and the settings.

    **Examples**

    - `noiseaware resume run`

    - `noiseaware resume run --draws 4000` extends a finished run
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
