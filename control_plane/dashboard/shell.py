"""The shell: the one HTML document behind every page's address (pure).

It is painted before any script runs: the frame, the navigation in English, who is logged in. Scripts then
put the page inside and change the language.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Final

PAGES: Final = (
    ("overview", "Overview"),
    ("releases", "Releases"),
    ("models", "Models"),
    ("policies", "Policies"),
    ("limits", "Limits"),
    ("sidecars", "Sidecars"),
    ("cache", "Cache"),
    ("playground", "Playground"),
    ("audit", "Audit"),
)
"""Every page: its name, and what English calls it."""

# Our own files only, and no style or script in the document: https://www.w3.org/TR/CSP3/
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_EARLY: Final = ("app", "api", "dom", "format", "i18n", "live", "shell", "widgets")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks. `scopes` () is everything that the role allows; `csrf` is "" for a caller with a token."""

    name: str
    role: str
    scopes: tuple[str, ...]
    csrf: str


def path_of(page: str) -> str:
    """Return the address of a page."""
    return "/" if page == "overview" else f"/{page}"


@dataclass(frozen=True, slots=True)
class Shell:
    """The document, its places still empty."""

    template: Template

    def document(self, page: str, visitor: Visitor) -> str:
        """Return the document of `page` for `visitor`."""
        return self.template.substitute(
            title=dict(PAGES)[page],
            csrf=escape(visitor.csrf),
            name=escape(visitor.name),
            role=escape(visitor.role),
            scopes=escape(" ".join(visitor.scopes)),
            preloads=_preloads(page),
            leave=_leave(visitor.csrf),
            links=_links(page),
        )


def load_shell() -> Shell:
    """Read the document."""
    file = resources.files("control_plane.dashboard").joinpath("shell.html")
    return Shell(Template(file.read_text(encoding="utf-8")))


def _preloads(page: str) -> str:
    modules = (*_EARLY, f"pages/{page}")
    return "\n".join(f'<link rel="modulepreload" href="/assets/{name}.js">' for name in modules)


def _leave(csrf: str) -> str:
    if not csrf:
        return ""
    return (
        f'<form method="post" action="/logout"><input type="hidden" name="csrf" value="{escape(csrf)}">'
        '<button class="quiet" data-t="shell.logOut">Log out</button></form>'
    )


def _links(page: str) -> str:
    links = []
    for name, title in PAGES:
        here = ' aria-current="page"' if name == page else ""
        link = f'<a href="{path_of(name)}" data-page="{name}" data-t="page.{name}"{here}>{title}</a>'
        links.append(f"<li>{link}</li>")
    return "\n".join(links)
