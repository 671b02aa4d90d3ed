"""`noiseaware report`: write a posterior as a readable page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseaware.cli import show
from noiseaware.cli.errors import reading
from noiseaware.cli.files import PAGE, check_ending, check_output, write_or_say


def report(
    posterior: show.Posterior,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write the page (HTML).")
    ] = Path("report.html"),
    title: Annotated[
        str | None, typer.Option(help="The heading, instead of the one in the model file.")
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="The question, instead of the one in the model file.")
    ] = None,
    as_json: show.AsJson = False,
) -> None:
    """Write one self-contained HTML page: the answer, and how far it can be trusted.

    It compares the posterior with the prior and with the naive analysis (which treats the noisy
    numbers as exact), and explains where the uncertainty comes from, what the release promises and
    what the checks found. The page loads nothing from elsewhere.

    **Examples**

    - `noiseaware report posterior.nc --out report.html`

    - `noiseaware report posterior.nc -o report.html --question "Does exercise help?"`
    """
    import noiseaware as na

    with reading():
        check_output("--out", out, posterior)
        tree = na.load(posterior)
        check_ending("--out", out, PAGE)
    write_or_say(out, lambda path: na.write_report(tree, path, title=title, question=question))
    if as_json:
        show.print_json({"out": str(out)})
    else:
        print(f"Written: {out} (open it in a browser)")
