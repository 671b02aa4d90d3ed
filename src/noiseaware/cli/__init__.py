"""The command `noiseaware`: one file a command, on typer.

`errors.py` has the exit codes, `show.py` the tables. The commands import the rest of the package
when they run, so that `--help` and completion do not wait for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noiseaware.cli.errors import PlainErrors

__all__ = ["app", "main"]

app = typer.Typer(
    name="noiseaware",
    cls=PlainErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import noiseaware

        print(f"noiseaware {noiseaware.__version__}")
        raise typer.Exit


@app.callback()
def noiseaware(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Exact Bayesian inference from differentially private releases."""


def main() -> None:
    """Run the command; the entry point of the script `noiseaware`."""
    app(prog_name="noiseaware")
