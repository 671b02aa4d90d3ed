"""The page: one self-contained HTML file, and the same in Markdown."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pandas import DataFrame

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid #8886; padding-top: 1rem; }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid #8884; }
caption { text-align: left; padding-bottom: 0.4rem; } figure { margin: 1rem 0; }
.apart { font-weight: bold; } figcaption, caption, .small { font-size: 0.85rem; opacity: 0.85; }
"""


@dataclass
class Section:
    """One part of the page: a heading, then words, figures and tables in the order added.

    `parts` are HTML, `plain` the same in Markdown.
    """

    title: str
    parts: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)

    def words(self, *paragraphs: str) -> None:
        """Add paragraphs."""
        self.parts += [f"<p>{html.escape(text)}</p>" for text in paragraphs]
        self.plain += [_escaped(text) for text in paragraphs]

    def listed(self, points: Sequence[str]) -> None:
        """Add a list of points."""
        items = "".join(f"<li>{html.escape(point)}</li>" for point in points)
        self.parts.append(f"<ul>{items}</ul>")
        self.plain.append("\n".join(f"- {_escaped(point)}" for point in points))

    def figure(self, path: Path, caption: str) -> None:
        """Add a figure from its PNG file: embedded in HTML, linked in Markdown."""
        code = base64.b64encode(path.with_suffix(".png").read_bytes()).decode("ascii")
        words = html.escape(caption)
        self.parts.append(
            f'<figure><img src="data:image/png;base64,{code}" alt="{words}">'
            f"<figcaption>{words} ({path.stem}.png, {path.stem}.svg)</figcaption></figure>"
        )
        file = f"{path.parent.name}/{path.stem}.png"
        self.plain.append(f"![{_escaped(caption)}]({file})\n\n*{_escaped(caption)}*")

    def table(self, frame: DataFrame, caption: str, apart: str | None = None) -> None:
        """Add a table; rows with an absolute value of 3 or more in column `apart` are bold."""
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in frame.columns)
        rows, lines = [], []
        for _, row in frame.iterrows():
            far = bool(apart and abs(row[apart]) >= 3)
            mark = ' class="apart"' if far else ""
            shown = [
                f"{value:.1f}" if name == apart else _shown(value) for name, value in row.items()
            ]
            cells = "".join(f"<td>{html.escape(text)}</td>" for text in shown)
            rows.append(f"<tr{mark}>{cells}</tr>")
            texts = [f"**{_escaped(t)}**" if far else _escaped(t) for t in shown]
            lines.append(f"| {' | '.join(texts)} |")
        self.parts.append(
            f'<div class="scroll"><table><caption>{html.escape(caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
        names = " | ".join(_escaped(str(name)) for name in frame.columns)
        ruler = "|".join("---:" for _ in frame.columns)
        body = "\n".join([f"| {names} |", f"|{ruler}|", *lines])
        self.plain.append(f"*{_escaped(caption)}*\n\n{body}")

    def __str__(self) -> str:
        return f"<section><h2>{html.escape(self.title)}</h2>{''.join(self.parts)}</section>"


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "\\_*|<>[]`" else c for c in text)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def page(title: str, intro: Sequence[str], sections: Sequence[Section], foot: str) -> str:
    """Return the whole self-contained page."""
    opening = "".join(f"<p>{html.escape(text)}</p>" for text in intro)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>{opening}"
        f"{chr(10).join(map(str, sections))}"
        f'<footer><p class="small">{html.escape(foot)}</p></footer></body></html>\n'
    )


def markdown(title: str, intro: Sequence[str], sections: Sequence[Section], foot: str) -> str:
    """Return the same page in Markdown, with links to the figures' folder."""
    parts = [f"# {title}", *(_escaped(text) for text in intro)]
    for section in sections:
        parts += [f"## {section.title}", *section.plain]
    return "\n\n".join([*parts, _escaped(foot)]) + "\n"
