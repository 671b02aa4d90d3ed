"""What the commands that list things share: a table of all, and one in detail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from noiseaware.cli import show

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]


def completion(registry: Callable[[], Mapping[str, type]]) -> Callable[[str], list[str]]:
    """Return what the shell asks for the names that begin like a word."""

    def names(incomplete: str) -> list[str]:
        return [name for name in registry() if name.lower().startswith(incomplete.lower())]

    return names


def print_all(registry: Mapping[str, type], what: str, as_json: bool) -> None:
    """Print a table of everything in a registry; `what` is the command that shows it."""
    from rich.markup import escape
    from rich.table import Table

    from noiseaware.cli.describe import fields, first_sentence

    if as_json:
        show.print_json(
            [
                {
                    "type": name,
                    "meaning": first_sentence(kind),
                    "fields": [field.to_dict() for field in fields(kind)],
                }
                for name, kind in registry.items()
            ]
        )
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("type", no_wrap=True)
    table.add_column("what it is")
    table.add_column("fields", style="dim", overflow="fold")
    for name, kind in registry.items():
        names = ", ".join(field.name for field in fields(kind))
        table.add_row(name, escape(first_sentence(kind)), escape(names))
    to = show.console()
    to.print(table)
    to.print(f"\n`noiseaware {what} {next(iter(registry))}` shows one in detail.")


def print_one(
    registry: Mapping[str, type],
    name: str,
    what: str,
    title: str,
    example: Callable[[str], str],
    as_json: bool,
) -> None:
    """Print one entry of a registry: its fields with their meaning, and an example."""
    from rich.markup import escape
    from rich.table import Table

    from noiseaware.cli.describe import fields, first_sentence, section
    from noiseaware.model_file import nearest

    if name not in registry:
        raise ValueError(f"there is no {what} {name!r}{nearest(name, registry)}")
    kind = registry[name]
    listed = fields(kind)
    if as_json:
        show.print_json(
            {
                "type": name,
                "meaning": first_sentence(kind),
                "fields": [field.to_dict() for field in listed],
                "notes": section(kind, "Notes"),
                "example": example(name),
            }
        )
        return
    to = show.console()
    to.print(f"[bold]{name}[/]: {escape(first_sentence(kind))}\n")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("field", "type", "default"):
        table.add_column(column, overflow="fold")
    table.add_column("meaning", ratio=1)
    for field in listed:
        default = "required" if field.required else _default(field.default)
        table.add_row(field.name, escape(field.type), escape(default), escape(field.meaning))
    to.print(table)
    notes = section(kind, "Notes")
    if notes:
        to.print("\n" + escape(notes.replace("``", "")))
    text = example(name)
    if text:
        to.print(f"\n[bold]{title}[/]\n")
        to.print(escape(text), soft_wrap=True)


def _default(value: Any) -> str:
    return "-" if value is None else str(value)
