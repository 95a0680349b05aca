"""The caches of the mesh: what they did, what they keep, and purging them.

Whoever may look sees which answers there are; what was answered is for admins, and each look at it is in the
audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from control_plane.api.bodies import Bodies
from control_plane.api.cache_wire import (
    EVERYWHERE,
    LISTED,
    PURGED,
    READ,
    SCOPE,
    SHOWN,
    body_wire,
    entry_wire,
    statistics_wire,
)
from control_plane.api.caller import actor_of
from control_plane.api.errors import RefusedRequestError
from control_plane.api.operations import (
    CHANGING,
    JSON,
    READING_A_BODY,
    Answer,
    Body,
    Operation,
    add,
    schema_ref,
)
from control_plane.api.orders import KEY, KEY_PREFIX, PurgeOrder
from control_plane.api.ports import Caches, Fleet, PurgeBook
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from control_plane.resources.purges import partition_of
from ext_proc.contract.cache import CacheQuestion, merged_statistics

MAX_PAGE: Final = 1_000

Prefix = Annotated[
    str, Query(alias="keyPrefix", pattern=KEY_PREFIX, description="The beginning of keys, hexadecimal.")
]
Model = Annotated[str | None, Query(max_length=253, description="A Model's name, or an alias.")]
Tenant = Annotated[
    str | None, Query(max_length=1024, description="A tenant's name, or as an entry shows it.")
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many to answer.")]
After = Annotated[str, Query(pattern=KEY_PREFIX, description="Only keys behind this one.")]
Key = Annotated[str, Path(pattern=KEY, description="The whole key: 64 hexadecimal digits.")]


@dataclass(frozen=True, slots=True)
class CacheRoutes:
    """Everything below `/api/v1/cache`."""

    book: PurgeBook
    fleet: Fleet
    caches: Caches
    bodies: Bodies

    async def statistics(self) -> Response:
        """Answer what the caches did, together and one by one."""
        found = [
            (sidecar, sidecar.cache if sidecar.connected else sidecar.cache.of_the_past())
            for sidecar in self.fleet.sidecars()
        ]
        sidecars = [
            {
                "sidecar": sidecar.id,
                "workload": sidecar.workload,
                "connected": sidecar.connected,
                **statistics_wire(statistics),
            }
            for sidecar, statistics in found
        ]
        total = statistics_wire(merged_statistics(statistics for _, statistics in found))
        return _json({"scope": EVERYWHERE, "total": total, "sidecars": sidecars})

    async def entries(
        self,
        prefix: Prefix = "",
        model: Model = None,
        tenant: Tenant = None,
        limit: Limit = 100,
        after: After = "",
    ) -> Response:
        """Answer which answers are kept."""
        question = CacheQuestion(
            key_prefix=prefix.lower(),
            model=self._model(model) if model else None,
            tenant=partition_of(tenant) if tenant else None,
            after=after.lower(),
            limit=limit,
        )
        found = await self.caches.ask(question)
        body: dict[str, Any] = {
            "scope": SCOPE,
            "items": [entry_wire(kept) for kept in found.answers],
            "unanswered": found.unanswered,
        }
        if found.more and found.answers:
            body["next"] = found.answers[-1].entry.key
        return _json(body)

    async def read(self, request: Request, key: Key) -> Response:
        """Answer one answer as it is kept."""
        found = await self.caches.read(key.lower())
        if not found.answers:
            silent = ", ".join(found.unanswered)
            missing = f" (these did not answer: {silent})" if silent else ""
            raise RefusedRequestError(404, f"no sidecar that answered keeps this key{missing}")
        (kept,) = found.answers
        # Before it is shown: what cannot be audited is not read.
        await self.book.record(actor_of(request), "read", f"cached answer {kept.entry.key}")
        entry = kept.entry
        shown = {**entry_wire(kept), "contentType": entry.content_type, "body": body_wire(entry.body)}
        return _json(shown)

    async def purge(self, request: Request) -> Response:
        """Void answers, on every sidecar within a second."""
        order = await self.bodies.order(request, PurgeOrder)
        purged = await self.book.purge(
            actor_of(request),
            tenant=order.tenant,
            model=order.model,
            version=order.version,
            key_prefix=order.key or order.key_prefix,
        )
        return _json(purged)

    def _model(self, written: str) -> str:
        models = self.book.head.documents.models
        return next((name for name, spec in models.items() if written in spec.aliases), written)


def _json(value: object) -> Response:
    return Response(to_json(value), media_type=JSON)


def add_cache_routes(app: FastAPI, book: PurgeBook, fleet: Fleet, caches: Caches, bodies: Bodies) -> None:
    """Serve the caches of the mesh."""
    routes = CacheRoutes(book, fleet, caches, bodies)
    base, tag = "/api/v1/cache", "cache"
    reading = Need(Role.VIEWER, "cache:read")
    add(
        app,
        Operation(
            "GET",
            base,
            tag,
            "Read the statistics of caches",
            reading,
            {200: Answer("All of them together, and each.", schema_ref("CacheReport"), SHOWN)},
            "Counted since each sidecar's agent started. `cost` is in the currency of the Models' `prices`. "
            "With several replicas of the control plane each tells of the sidecars of all.",
        ),
        routes.statistics,
    )
    add(
        app,
        Operation(
            "GET",
            base + "/entries",
            tag,
            "List cached answers",
            reading,
            {200: Answer("Which there are, sorted by key.", schema_ref("CacheEntryList"), LISTED)},
            "What the memory of the connected sidecars keeps, without what was answered. `unanswered` names "
            "the sidecars that did not answer within two seconds. `next` is the `after` of the next page.",
        ),
        routes.entries,
    )
    add(
        app,
        Operation(
            "GET",
            base + "/entries/{key}",
            tag,
            "Read a cached answer",
            Need(Role.ADMIN, "cache:read"),
            {200: Answer("The answer as it is kept.", schema_ref("CacheEntry"), READ)},
            "`body` is null when it is too large to be told: above 1 MiB. Each look is in the audit.",
            problems=(404, *CHANGING),
        ),
        routes.read,
    )
    add(
        app,
        Operation(
            "POST",
            base + "/purge",
            tag,
            "Purge cached answers",
            Need(Role.EDITOR, "cache:write"),
            {200: Answer("What is void, and by which revision.", schema_ref("Purged"), PURGED)},
            "Voids every answer that was asked for until now and meets all conditions given, in every tier, "
            "on connected sidecars within a second. A tenant is a name, or a partition as an entry shows it. "
            "It is a revision; no rollback undoes it.",
            Body(schema_ref("PurgeOrder"), {JSON: {"model": "gpt-4o-mini", "tenant": "team-a"}}),
            (*READING_A_BODY, *CHANGING),
        ),
        routes.purge,
    )
