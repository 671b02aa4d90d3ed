"""`noiseaware models`, `mechanisms` and `queries`: what a file can name, and how to write it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from noiseaware import registry
from noiseaware.cli import show
from noiseaware.cli.errors import reading


@dataclass(frozen=True)
class Listed:
    """One kind of object that a file can name."""

    command: str  # that lists them
    types: registry.Registry[Any]
    title: str  # of an example
    example: Callable[[type], str]  # what a file says about a small one

    @property
    def name(self) -> Any:
        """The command's argument that names one of them, with shell completion."""

        def complete(incomplete: str) -> list[str]:  # typer goes by this name
            start = incomplete.lower()
            return [name for name in self.types.names if name.lower().startswith(start)]

        return typer.Argument(help="The one to show in detail.", autocompletion=complete)


def _toml(kind: Any) -> str:
    """Return a complete model file, with the optional arguments as comments."""
    lines = [f'type = "{kind.__name__}"']
    tables: list[str] = []
    for name, argument in inspect.signature(kind).parameters.items():
        value = kind.example.get(name, argument.default)
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *(f"{key} = {_value(v)}" for key, v in value.items())]
        elif name in kind.example:
            lines.append(f"{name} = {_value(value)}")
        else:
            lines.append(f"# {name} = {'...' if value is None else _value(value)}")
    return "\n".join([*lines, *tables, "", "[report]", 'question = "What do you want to know?"'])


def _value(value: Any) -> str:
    """Return a value in the syntax that TOML and JSON share."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _json(kind: Any) -> str:
    return json.dumps(kind.example().to_dict(), indent=2)


MODELS = Listed("models", registry.MODELS, "A model file (TOML)", _toml)
MECHANISMS = Listed(
    "mechanisms", registry.MECHANISMS, 'The field "mechanism" of a release file (JSON)', _json
)
QUERIES = Listed(
    "queries", registry.QUERIES, 'The field "query" of a mechanism in a release file (JSON)', _json
)


def models(name: Annotated[str | None, MODELS.name] = None, as_json: show.AsJson = False) -> None:
    """List the models that a model file can name, or show one with an example file.

    **Examples**

    - `noiseaware models`

    - `noiseaware models LinearRegression`

    - `noiseaware models Normal --json`
    """
    _show(MODELS, name, as_json)


def mechanisms(
    name: Annotated[str | None, MECHANISMS.name] = None, as_json: show.AsJson = False
) -> None:
    """List the mechanisms that a release file can name, or show one with an example.

    The fields are those of the Python constructor, which takes the noise's scale or a privacy
    guarantee. A release file states the scale, as the example shows.

    **Examples**

    - `noiseaware mechanisms`

    - `noiseaware mechanisms Laplace`
    """
    _show(MECHANISMS, name, as_json)


def queries(name: Annotated[str | None, QUERIES.name] = None, as_json: show.AsJson = False) -> None:
    """List the queries that a release file can name, or show one with an example.

    **Examples**

    - `noiseaware queries`

    - `noiseaware queries RegressionMoments`
    """
    _show(QUERIES, name, as_json)


def _show(listed: Listed, name: str | None, as_json: bool) -> None:
    from noiseaware.cli import describe

    types = listed.types
    if name is None:
        everything = [describe.described(types[name]) for name in types.names]
        show.print_json(everything) if as_json else _print_all(everything, listed.command)
        return
    with reading():
        if name not in types.names:
            near = registry.nearest(name, types.names)
            raise ValueError(f"there is no {types.kind} {name!r}{near}")
    one = {
        **describe.described(types[name]),
        "notes": describe.section(types[name], "Notes"),
        "example": listed.example(types[name]),
    }
    show.print_json(one) if as_json else _print_one(one, listed.title)


def _print_all(everything: list[dict[str, Any]], command: str) -> None:
    from rich.markup import escape

    table = show.table("type", "what it is", "fields")
    table.columns[0].no_wrap = True
    table.columns[2].style, table.columns[2].overflow = "dim", "fold"
    for one in everything:
        names = ", ".join(field["name"] for field in one["fields"])
        table.add_row(one["type"], escape(one["meaning"]), escape(names))
    to = show.console()
    to.print(table)
    to.print(f"\n`noiseaware {command} {everything[0]['type']}` shows one in detail.")


def _print_one(one: dict[str, Any], title: str) -> None:
    from rich.markup import escape

    to = show.console()
    to.print(f"[bold]{one['type']}[/]: {escape(one['meaning'])}\n")
    table = show.table("field", "type", "default", "meaning")
    for column in table.columns[:3]:
        column.overflow = "fold"
    table.columns[3].ratio = 1
    for field in one["fields"]:
        default = "required" if field["required"] else field["default"]
        default = "-" if default is None else str(default)
        table.add_row(field["name"], *map(escape, (field["type"], default, field["meaning"])))
    to.print(table)
    if one["notes"]:
        to.print("\n" + escape(one["notes"].replace("``", "")))
    to.print(f"\n[bold]{title}[/]\n")
    to.print(escape(one["example"]), soft_wrap=True)
