"""HTML without a template engine: a frame, escaping, and headers that let a browser run nothing of others."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from starlette.responses import Response

STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --dim: #7a7a7a; --good: #1a7f37; --bad: #c62828; }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2.5rem auto; padding: 0 1.25rem }
header { display: flex; gap: 1.25rem; align-items: baseline; margin-bottom: 2rem }
header h1 { font-size: 1.35rem; margin: 0 auto 0 0 }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; color: var(--dim) }
td { overflow-wrap: anywhere }
form.login { max-width: 26rem; margin: 5rem auto }
label { display: block; margin: 1rem 0 .25rem }
input { font: inherit; width: 100%; padding: .5rem }
button { font: inherit; padding: .45rem 1.1rem; margin-top: 1rem; cursor: pointer }
header button { margin: 0; padding: .1rem .7rem }
.dim { color: var(--dim) } .good { color: var(--good) } .bad { color: var(--bad) }
"""

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Nothing but our own style and our own forms: https://www.w3.org/TR/CSP3/
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


def page(
    title: str,
    body: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    policy: str = POLICY,
) -> Response:
    """Return a page. `body` is HTML in which every foreign text is escaped."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>"
    )
    return Response(text, status, page_headers(policy, headers), "text/html")


def page_headers(policy: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the headers that every page carries."""
    return {
        "content-security-policy": policy,
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        **(more or {}),
    }


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts, each of them escaped; a cell may be `Marked`."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


class Marked(str):
    """A text with a class of the style: `good`, `bad` or `dim`."""

    __slots__ = ("mark",)

    def __new__(cls, text: str, mark: str) -> Marked:
        """Return `text` with `mark`."""
        found = super().__new__(cls, text)
        found.mark = mark
        return found

    mark: str


def _cell(text: str) -> str:
    mark = f' class="{escape(text.mark)}"' if isinstance(text, Marked) else ""
    return f"<td{mark}>{escape(text)}</td>"
