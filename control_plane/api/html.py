"""HTML without a template engine: a frame, escaping, and headers that let a browser run nothing of others."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final

from starlette.responses import Response

STYLE: Final = """
:root { color-scheme: light dark; --paper: light-dark(#f5f7f8, #0e1518); --card: light-dark(#fff, #162024);
  --ink: light-dark(#14212b, #e6edef); --dim: light-dark(#51626e, #9fb0b8);
  --line: light-dark(#cfd8dd, #34444b); --accent: light-dark(#0f766e, #2dd4bf);
  --on: light-dark(#fff, #04211d); --bad: light-dark(#b42323, #ff9b94) }
* { box-sizing: border-box }
main { width: min(25rem, 100%) }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center;
  padding: 1rem; color: var(--ink); background: var(--paper) }
form.login { background: var(--card); border: 1px solid var(--line);
  border-radius: 14px; padding: 1.75rem }
h1 { font-size: 1.35rem; margin: 0 0 .25rem }
label { display: block; margin: 1rem 0 .25rem; font-weight: 550 }
input { font: inherit; width: 100%; padding: .5rem .7rem; border: 1px solid var(--line); border-radius: 8px;
  color: inherit; background: var(--paper) }
button { font: inherit; font-weight: 600; padding: .5rem 1.1rem; margin: 1rem 0 .5rem; width: 100%;
  cursor: pointer; border: 0; border-radius: 8px; background: var(--accent); color: var(--on) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.dim { color: var(--dim); font-size: .88rem } .bad { color: var(--bad) }
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
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>"
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
