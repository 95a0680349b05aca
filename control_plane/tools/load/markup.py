"""Pieces of a report's page as HTML (pure): no script, nothing is loaded, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files


@cache
def style() -> str:
    """Return the style sheet."""
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def page(title: str, told: str, body: Iterable[str]) -> str:
    """Return a whole page."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{style()}</style>\n</head>\n<body>",
            f'<h1>{escape(title)}</h1>\n<p class="told">{escape(told)}</p>',
            *body,
            "</body>\n</html>\n",
        ]
    )


def cards(pairs: Iterable[tuple[str, str]]) -> str:
    """Return figures in large letters, each with its label."""
    made = (
        f'<div class="card"><b>{escape(text)}</b><span>{escape(label)}</span></div>' for label, text in pairs
    )
    return f'<div class="cards">{"".join(made)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], marked: Mapping[int, str] | None = None) -> str:
    """Return a table; `marked` gives rows by number a class."""
    parts = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    body = []
    for number, row in enumerate(rows):
        kind = (marked or {}).get(number)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        body.append(f'<tr class="{kind}">{cells}</tr>' if kind else f"<tr>{cells}</tr>")
    return (
        f'<div class="wide"><table><thead><tr>{parts[0]}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def figure(svg: str, caption: str) -> str:
    """Return a chart with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def warned(sentences: Iterable[str]) -> str:
    """Return sentences that must not be overlooked."""
    return "".join(f'<p class="warn">{escape(sentence)}</p>' for sentence in sentences)
