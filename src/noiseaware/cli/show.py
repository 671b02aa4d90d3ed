"""Output of the commands: tables, checks in words, JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from noiseaware.basics.numerals import numeral
from noiseaware.basics.text_files import printable

Posterior = Annotated[Path, typer.Argument(help="A posterior that `fit` wrote (netCDF).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
JsonInstead = Annotated[
    bool, typer.Option("--json", help="Print JSON for a program, instead of the table.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
"""Arguments shared by several commands."""


def console() -> Any:
    """Return a rich console on stdout, wide enough for the table even without a terminal."""
    from rich.console import Console

    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=100)


def escaped(text: str) -> str:
    """Return text from a file, safe to show: markup and control characters are escaped."""
    from rich.markup import escape

    return escape(printable(text))


def table(*columns: str) -> Any:
    """Return a rich table without lines."""
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column)
    return made


def print_json(content: Any) -> None:
    """Print a JSON document, with null for NaN and infinities."""
    print(json.dumps(_plain(content), indent=2, ensure_ascii=False))


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if hasattr(content, "item"):
        content = content.item()
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def summary_rows(posterior: Any, probability: float) -> dict[str, dict[str, float]]:
    """Return the summary as plain numbers: {parameter: {column: value}}."""
    import noiseaware as na

    frame = na.summary(posterior, ci_prob=probability, ci_kind="eti")
    low, high = (name for name in frame.columns if name.startswith("eti"))
    frame = frame.rename(columns={low: "low", high: "high"})
    return {str(row): {name: frame.loc[row, name] for name in frame} for row in frame.index}


def summary_table(rows: dict[str, dict[str, float]], probability: float, units: Any) -> Any:
    """Return a short table: the mean, spread and diagnostics of each parameter, in its unit."""
    made = table("parameter", "mean", "sd", f"{100 * probability:g}% interval", "ess", "r_hat")
    made.columns[0].overflow = "fold"
    for column in made.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for name, row in rows.items():
        scale = units.scale(name)
        mean, sd, low, high = (
            numeral(row[column] / scale, row["sd"] / scale, 3)
            for column in ("mean", "sd", "low", "high")
        )
        ess = f"{row['ess_bulk']:,}"
        made.add_row(
            escaped(units.named(name)), mean, sd, f"{low} to {high}", ess, f"{row['r_hat']:.3f}"
        )
    return made


def print_checks(checks: Any, to: Any) -> None:
    """Print every verdict in words."""
    import textwrap

    for verdict in checks.verdicts:
        passed = "[green]ok  [/]" if verdict.checked else "--  "
        mark = passed if verdict.passed else "[bold red]FAIL[/]"
        to.print(f"{mark}  [bold]{escaped(verdict.name)}[/]")
        words = textwrap.wrap(verdict.message, max(40, to.width - 6))
        to.print(escaped(textwrap.indent("\n".join(words), 6 * " ")), soft_wrap=True)


def checks_as_json(checks: Any) -> dict[str, Any]:
    """Return the verdicts as plain types for JSON."""
    return {"passed": bool(checks), "checks": [asdict(verdict) for verdict in checks.verdicts]}


def failed_sentence(checks: Any) -> str:
    """Return the sentence to print when checks fail."""
    failed = [verdict.name for verdict in checks.verdicts if not verdict.passed]
    what = "a check" if len(failed) == 1 else f"{len(failed)} checks"
    return f"{what} failed ({'; '.join(failed)}): do not use this result as it is"
