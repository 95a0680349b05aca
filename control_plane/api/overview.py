"""The page at `/`: what is in force and who serves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fastapi import FastAPI, Request
from starlette.responses import Response

from control_plane.api.caller import identity_of, session_of
from control_plane.api.guard import needs
from control_plane.api.html import Marked, page, table
from control_plane.api.ports import DocumentBook, Fleet, Sidecar
from control_plane.auth.roles import Need, Role, scopes_cover
from control_plane.resources.plurals import KIND_OF

MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Overview:
    """`GET /`."""

    book: DocumentBook
    fleet: Fleet

    async def show(self, request: Request) -> Response:
        """Answer the page."""
        identity, session = identity_of(request), session_of(request)
        leave = ""
        if session is not None:
            leave = (
                '<form method="post" action="/logout">'
                f'<input type="hidden" name="csrf" value="{escape(session.csrf)}">'
                "<button>Log out</button></form>"
            )
        head = (
            f'<header><h1>Outrigger</h1><a href="/docs">API</a>'
            f'<span class="dim">{escape(identity.name)} ({identity.role.value})</span>{leave}</header>'
        )
        body = head + self._policy()
        if scopes_cover(identity.scopes, "sidecars:read"):
            body += self._sidecars()
        return page("Outrigger", body)

    def _policy(self) -> str:
        head, in_force = self.book.head, self.book.in_force
        line = f"Revision {in_force.revision} is in force."
        halted = ""
        if head.revision != in_force.revision:
            halted = f'<p class="bad">Revision {head.revision} is halted: a sidecar refused it.</p>'
        status = self.book.status()
        away = "" if status.reachable else '<p class="bad">The database does not answer: changes wait.</p>'
        kinds = Counter(kind for kind, _ in head.stored)
        counts = [(plural, str(kinds[kind])) for plural, kind in KIND_OF.items()]
        return f"<h2>Policy</h2><p>{line}</p>{halted}{away}{table(('kind', 'documents'), counts)}"

    def _sidecars(self) -> str:
        sidecars = self.fleet.sidecars()
        connected = sum(sidecar.connected for sidecar in sidecars)
        in_force = sum(sidecar.connected and sidecar.in_force for sidecar in sidecars)
        line = f"{connected} connected, {in_force} serve what is in force."
        if len(sidecars) > MAX_SHOWN:
            line += f" The first {MAX_SHOWN} of {len(sidecars)} are shown."
        rows = [_row(sidecar) for sidecar in sidecars[:MAX_SHOWN]]
        columns = ("sidecar", "workload", "state", "pushed", "acknowledged", "refused")
        return f"<h2>Sidecars</h2><p>{escape(line)}</p>{table(columns, rows) if rows else ''}"


def _row(sidecar: Sidecar) -> Sequence[str]:
    if not sidecar.connected:
        state = Marked("gone", "dim")
    elif sidecar.nack is not None:
        state = Marked("refused", "bad")
    else:
        state = Marked("in force", "good") if sidecar.in_force else Marked("behind", "dim")
    return (
        sidecar.id,
        sidecar.workload,
        state,
        sidecar.pushed,
        sidecar.acknowledged,
        Marked(sidecar.nack or "", "bad"),
    )


def add_overview(app: FastAPI, book: DocumentBook, fleet: Fleet) -> None:
    """Serve `/`."""
    app.router.add_api_route(
        "/",
        Overview(book, fleet).show,
        methods=["GET"],
        include_in_schema=False,
        openapi_extra=needs(Need(Role.VIEWER)),
    )
