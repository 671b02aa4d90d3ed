"""`noiseaware impute`: write the imputed databases of a posterior as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noiseaware.basics.files import write_table
from noiseaware.cli import show
from noiseaware.cli.errors import fail, reading
from noiseaware.cli.files import check_output, write_or_say


def impute(
    posterior: show.Posterior,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the table (CSV).")],
    as_json: show.AsJson = False,
) -> None:
    """Write imputed databases as CSV: confidential records that could underlie the release.

    Each database is one draw from the distribution of the records given the release. Analyse each
    one and combine the results to account for the uncertainty (multiple imputation). None of them
    is the confidential database. The columns are chain, draw, record, and those of the records.

    `fit` keeps some databases by default; `--keep-records` sets the number.

    **Examples**

    - `noiseaware fit release.json -m model.toml -o posterior.nc --keep-records 50`

    - `noiseaware impute posterior.nc --out databases.csv`
    """
    import noiseaware as na

    with reading():
        check_output("--out", out, posterior)
        tree = na.load(posterior)
    if "latent_records" not in tree.children:
        fail(
            f"{posterior} holds no databases: run `noiseaware fit` again with --keep-records 5 "
            "or more"
        )
    with reading():
        frame: Any = na.imputed(tree, as_frame="pandas")
    write_or_say(out, lambda path: write_table(path, frame))
    kept = tree["latent_records"].sizes
    count = kept["chain"] * kept["draw"]
    if as_json:
        sizes = {"databases": count, "rows": len(frame), "columns": list(map(str, frame.columns))}
        show.print_json({"out": str(out), **sizes})
    else:
        most = "up to " if len(frame) < count * kept["record"] else ""
        print(f"Written: {out}, {count} databases of {most}{kept['record']} records")
