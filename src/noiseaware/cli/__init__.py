"""The `noiseaware` command, built on typer: one module per command.

`errors.py` has the exit codes, `show.py` the tables. Commands import the rest of the package only
when they run, which keeps `--help` and shell completion fast.
"""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from noiseaware.cli.check import check
from noiseaware.cli.errors import PlainErrors
from noiseaware.cli.examples import examples
from noiseaware.cli.export import export
from noiseaware.cli.fit import fit
from noiseaware.cli.impute import impute
from noiseaware.cli.lists import mechanisms, models, queries
from noiseaware.cli.new import new
from noiseaware.cli.plan import plan
from noiseaware.cli.report import report
from noiseaware.cli.reproduce import reproduce
from noiseaware.cli.resume import resume

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
    """Exact Bayesian inference from differentially private releases.

    The input is a release file (the noisy numbers and their noise) and a model file (the model of
    the confidential records). The output is draws from the exact posterior, checks in plain words
    and a readable report.

    **Getting started**

    - `noiseaware examples first-steps` copies example files into a folder

    - `noiseaware new` asks what was published and writes the two files

    - `noiseaware models` lists the models; `noiseaware models Normal` describes one

    - `noiseaware fit release.json --model model.toml --out posterior.nc --report report.html`

    - `noiseaware fit --help` explains the rest
    """


BEGIN, FITTED = (examples, new, fit, resume), (check, report, impute, export)
for command in (*BEGIN, *FITTED, models, mechanisms, queries, plan, reproduce):
    app.command()(command)


def main() -> None:
    """Run the command: the entry point of the script `noiseaware`. SIGTERM acts like Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app(prog_name="noiseaware")
