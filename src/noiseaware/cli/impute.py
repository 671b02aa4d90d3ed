"""`noiseaware impute`: the imputed databases of a posterior, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noiseaware.cli import show
from noiseaware.cli.errors import fail
from noiseaware.cli.files import check_output, write_whole


def impute(
    posterior: Annotated[Path, typer.Argument(help="A posterior that `fit` wrote (netCDF).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the table (CSV).")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON about the table for a program.")
    ] = False,
) -> None:
    """Write imputed databases as CSV: confidential records as they may have been.

    Each database is one draw from the distribution of the records given the release, so an
    analysis of all of them, one by one, carries the uncertainty along (multiple imputation).
    None of them is the confidential database. The columns: chain, draw, record, and those of
    the records.

    `fit` keeps some databases; with `--keep-records` as many as it is asked to.

    **Examples**

    - `noiseaware fit release.json -m model.toml -o posterior.nc --keep-records 50`

    - `noiseaware impute posterior.nc --out databases.csv`
    """
    import noiseaware as na

    check_output("--out", out, posterior)
    tree = na.load(posterior)
    if "latent_records" not in tree.children:
        fail(
            f"{posterior} holds no databases: run `noiseaware fit` again with --keep-records 5 "
            "or more"
        )
    frame = databases(tree)
    write_whole(out, lambda path: frame.to_csv(path, index=False))
    count = len(frame) // tree["latent_records"].sizes["record"]
    if as_json:
        show.print_json(
            {
                "out": str(out),
                "databases": count,
                "rows": len(frame),
                "columns": [str(name) for name in frame.columns],
            }
        )
    else:
        records = tree["latent_records"].sizes["record"]
        print(f"Written: {out}, {count} databases of {records} records")


def databases(tree: Any) -> Any:
    """Return the databases as a frame: a row a record, with the chain and draw it belongs to."""
    from noiseaware.databases import imputed

    return imputed(tree, as_frame="pandas")
