"""What the mesh does with the documents: sidecars, the compiled snapshot, which Policy sets what."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query
from starlette.responses import Response

from control_plane.api.errors import RefusedRequestError
from control_plane.api.operations import JSON, Answer, Operation, add, schema_ref
from control_plane.api.ports import DocumentBook, Fleet
from control_plane.api.problems import printable
from control_plane.api.wire import fields_of, to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.releases import progress_of
from control_plane.resources.compile import compile_snapshot
from control_plane.resources.explain import UnknownVersionError, explain
from control_plane.resources.parsing import nearest

# What never leaves the control plane but by the push stream.
_KEPT_BACK: Final = frozenset({"consumer_keys", "key_salt"})
# Counters and histograms of thousands of sidecars are tens of megabytes.
_STATISTICS: Final = frozenset({"epoch", "versions"})
# `/api/v1/cache` tells it.
_ELSEWHERE: Final = frozenset({"cache"})

Statistics = Annotated[bool, Query(description="With what each counted for each version of each Model.")]
Workload = Annotated[str, Query(max_length=253, description="The workload's name.")]
Model = Annotated[str, Query(max_length=253, description="A Model's name, an alias, or any other.")]
ModelVersion = Annotated[str, Query(max_length=253, description="One of the Model's versions, with its own.")]
Tier = Annotated[str, Query(max_length=253, description="A Tier's name; empty for a caller without one.")]


@dataclass(frozen=True, slots=True)
class MeshRoutes:
    """`/api/v1/sidecars`, `/api/v1/snapshot`, `/api/v1/explain`."""

    book: DocumentBook
    fleet: Fleet

    async def sidecars(self, statistics: Statistics = False) -> Response:
        """Answer every sidecar and what it serves."""
        leave_out = _ELSEWHERE if statistics else _ELSEWHERE | _STATISTICS
        items = [fields_of(sidecar, leave_out) for sidecar in self.fleet.sidecars()]
        return Response(to_json({"items": items}), media_type=JSON)

    async def snapshot(self, workload: Workload = "default") -> Response:
        """Answer what a workload obeys now."""
        head = self.book.in_force
        snapshot = await asyncio.to_thread(
            compile_snapshot,
            head.documents,
            workload,
            head.revision,
            consumer_keys=head.consumer_keys,
            key_salt=head.key_salt,
            purges=head.purges,
            progress=progress_of(head),
        )
        return Response(to_json(fields_of(snapshot, _KEPT_BACK)), media_type=JSON)

    async def explain(
        self, model: Model = "", tier: Tier = "", workload: Workload = "default", version: ModelVersion = ""
    ) -> Response:
        """Answer each field of a Policy as it is in force, and which Policy or version set it.

        Raises:
            RefusedRequestError: the Model has no such version (422).
        """
        try:
            found = explain(self.book.head.documents, model, tier, workload, version)
        except UnknownVersionError as error:
            hint = nearest(version, error.known) if error.known else "it has none"
            text = f"version {printable(version, 64)!r} is none of the Model's; {hint}"
            raise RefusedRequestError(422, text) from None
        effective = [{"field": field, "value": value, "policy": policy} for field, value, policy in found]
        body = {"model": model, "tier": tier, "workload": workload, "version": version, "fields": effective}
        return Response(to_json(body), media_type=JSON)


def add_mesh_routes(app: FastAPI, book: DocumentBook, fleet: Fleet) -> None:
    """Serve what the mesh does."""
    routes = MeshRoutes(book, fleet)
    sidecar: dict[str, Any] = {
        "id": "shop-7d9f",
        "workload": "shop",
        "labels": {"zone": "a"},
        "connected": True,
        "pushed": "r12-0f3a9b61c2de",
        "acknowledged": "r12-0f3a9b61c2de",
        "nack": None,
        "inForce": True,
        "replica": "",
    }
    snapshot = {"version": "r12-0f3a9b61c2de", "revision": 12, "workload": "shop", "failOpen": True}
    explained: dict[str, Any] = {
        "model": "gpt-4o-mini",
        "tier": "gold",
        "workload": "shop",
        "version": "",
        "fields": [
            {"field": "cache.enabled", "value": True, "policy": "cached"},
            {"field": "cache.ttl", "value": "24h", "policy": None},
        ],
    }
    add(
        app,
        Operation(
            "GET",
            "/api/v1/sidecars",
            "mesh",
            "List sidecars",
            Need(Role.VIEWER, "sidecars:read"),
            {200: Answer("Every sidecar that is known.", schema_ref("SidecarList"), {"items": [sidecar]})},
            "`pushed` and `acknowledged` are snapshot versions, `nack` is why the last one was refused. "
            "`replica` names the replica of the control plane that it is connected to, where there are "
            "several; what sidecars of another one counted is not among its `statistics`.",
        ),
        routes.sidecars,
    )
    add(
        app,
        Operation(
            "GET",
            "/api/v1/snapshot",
            "mesh",
            "Read the snapshot of a workload",
            Need(Role.VIEWER, "sidecars:read"),
            {200: Answer("What its sidecars obey, without keys.", schema_ref("Snapshot"), snapshot)},
        ),
        routes.snapshot,
    )
    add(
        app,
        Operation(
            "GET",
            "/api/v1/explain",
            "mesh",
            "Explain a policy",
            Need(Role.VIEWER, "policies:read"),
            {200: Answer("Each field and who set it.", schema_ref("Explanation"), explained)},
            "`policy` is null where the default is in force, `version NAME` where that has its own. "
            "A version that the Model does not have is 422.",
        ),
        routes.explain,
    )
