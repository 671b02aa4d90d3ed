"""`noiseaware plan`: find which epsilon and query are precise enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseaware.basics.text_files import printable
from noiseaware.cli.errors import reading
from noiseaware.cli.show import Quiet

SHOWN = [
    "query", "n_records", "epsilon", "method",
    "width", "coverage", "coverage_error", "rmse", "ess",
]  # fmt: skip
"""The columns to print."""


def plan(
    spec: Annotated[Path, typer.Argument(help="A plan (TOML).")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A directory for the table (CSV) and plot (PNG, SVG)."),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option("--replicates", "-r", min=1, help="Replicates, instead of the plan's number."),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Worker processes; by default, as many as are useful."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Find, before a release, which epsilon and query give intervals of the desired width.

    Simulates releases of each query in the plan, for each epsilon and number of records, and
    analyses them three ways: noise-aware, without privacy, and naively (treating the noisy numbers
    as exact). With --out, a stopped run continues when started again.

    **Examples**

    - `noiseaware plan examples/plan/mean.toml`

    - `noiseaware plan plan.toml --out planned`
    """
    from dataclasses import replace

    from noiseaware.plan import plan as run
    from noiseaware.plan import prepare, read_plan
    from noiseaware.studies import CheckpointError
    from noiseaware.studies.result import table_text

    with reading():
        wanted = read_plan(spec)
        if replicates is not None:
            wanted = replace(wanted, replicates=replicates)
    with reading(about=spec):
        prepared = prepare(wanted)
    with reading(CheckpointError):
        result = run(
            prepared,
            cores=cores,
            progressbar=not quiet,
            checkpoint=None if out is None else out / "checkpoint",
        )
    print(printable(table_text(result.table[SHOWN])))
    print()
    for words in result.answers:
        print(printable(words))
    for name, note in result.notes.items():
        print(f"Naive analysis of {name!r}: {printable(note)}")
    if out is not None:
        print("Written: " + ", ".join(str(path) for path in result.write(out)))
